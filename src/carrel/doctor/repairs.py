"""Repairs that several checks offer."""

import os
import stat

from carrel.doctor.checks import Repair


def without_mode(path: str, bits: int, command: str) -> Repair:
    """Return the repair that removes permissions of a file; `command` is the same as a shell command."""

    def take() -> None:
        os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) & ~bits)

    return Repair(command, take)


def with_mode(path: str, bits: int, command: str) -> Repair:
    """Return the repair that adds permissions to a file or folder."""

    def give() -> None:
        os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | bits)

    return Repair(command, give)


def moved_away(path: str, shown: str) -> Repair:
    """Return the repair that renames a broken file, so that a new one can be made. An earlier one is never replaced."""

    def move() -> None:
        number, target = 1, f"{path}.broken"
        while os.path.lexists(target):
            number += 1
            target = f"{path}.broken-{number}"
        os.rename(path, target)

    return Repair(f"rename {shown} to {os.path.basename(path)}.broken", move)
