"""Which hosts are on this machine: their program on PATH, their settings, or an editor that runs."""

import os
import shutil
import subprocess
from collections.abc import Iterator

from carrel.connect.hosts import HOSTS, HostFacts
from carrel.connect.places import Surroundings, settings_path
from carrel.core.record import Value


class FoundHost(Value, frozen=True):
    """A host, and the signs that it is on this machine."""

    host: HostFacts
    signs: tuple[str, ...]


def found_hosts(around: Surroundings, *, looks_at_processes: bool = True) -> list[FoundHost]:
    """Return the hosts of this machine, in the order of the table."""
    running = running_programs(around) if looks_at_processes else frozenset()
    found = (FoundHost(host, tuple(_signs(host, around, running))) for host in HOSTS)
    return [one for one in found if one.signs]


def running_programs(around: Surroundings) -> frozenset[str]:
    """Return the names of the running programs; empty if the system does not show them."""
    if around.system == "linux":
        return frozenset(_process_names())
    try:
        shown = subprocess.run(["/bin/ps", "-axco", "comm="], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return frozenset()
    return frozenset(line.strip().lower() for line in shown.stdout.splitlines())


def _process_names() -> Iterator[str]:
    try:
        numbers = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return
    for number in numbers:
        try:
            with open(f"/proc/{number}/comm", encoding="utf-8", errors="replace") as file:
                yield file.read().strip().lower()
        except OSError:  # it has ended
            continue


def _signs(host: HostFacts, around: Surroundings, running: frozenset[str]) -> Iterator[str]:
    for program in host.programs:
        if shutil.which(program, path=around.environment.get("PATH", "")) is not None:
            yield f"program {program}"
        if program in running:
            yield f"{program} is running"
    user = settings_path(host, "user", around)
    if user is not None and os.path.exists(user):
        yield f"settings {user}"
    elif user is not None and _is_own_folder(os.path.dirname(user), around):
        yield f"folder {os.path.dirname(user)}"
    project = settings_path(host, "project", around)
    # A file that two hosts read is a sign of the first only.
    owner = next((one for one in HOSTS if one.project == host.project), host)
    if project is not None and owner is host and os.path.exists(project):
        yield f"settings {project}"


def _is_own_folder(folder: str, around: Surroundings) -> bool:
    return os.path.isdir(folder) and folder not in (around.home, os.path.join(around.home, ".config"))
