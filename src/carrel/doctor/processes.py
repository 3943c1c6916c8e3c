"""Find the servers that run for a project. Where the system has no /proc, none are found."""

import os
from collections.abc import Sequence

from carrel.files.sandbox import is_inside


def servers_of(root: str) -> list[int]:
    """Return the ids of the processes that serve a project, without those that this process started."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    return [int(name) for name in names if name.isdigit() and _serves(f"/proc/{name}", root)]


def _serves(place: str, root: str) -> bool:
    try:
        with open(f"{place}/cmdline", "rb") as file:
            words = [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
        if not is_server(words) or _parent(place) == os.getpid():
            return False
        named = _project(words)
        folder = os.readlink(f"{place}/cwd")
    except (OSError, ValueError):
        return False
    return is_inside(os.path.join(folder, named), root)


def is_server(words: Sequence[str]) -> bool:
    """Return whether a command line is one of `carrel serve`."""
    programs = [os.path.basename(word) for word in words[:5]]
    return "carrel" in programs and "serve" in words[programs.index("carrel") + 1 :]


def _project(words: Sequence[str]) -> str:
    for number, word in enumerate(words):
        if word == "--project" and number + 1 < len(words):
            return words[number + 1]
        if word.startswith("--project="):
            return word.removeprefix("--project=")
    return ""


def _parent(place: str) -> int:
    with open(f"{place}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[1])
