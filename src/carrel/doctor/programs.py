"""Facts about a program before it is started, and the version that it prints."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

VERSION_S: Final = 10.0
"""Time limit for a program to print its version."""


def is_ours(program: str) -> bool:
    """Return whether a program runs with this Python, and so is this Carrel."""
    words = _shebang(program)
    ours = os.path.realpath(os.path.dirname(sys.executable))
    return bool(words) and os.path.realpath(os.path.dirname(words[0])) == ours


def missing_interpreter(program: str) -> str:
    """Return the interpreter that a script names and that does not exist; an empty text if there is none."""
    words = _shebang(program)
    return words[0] if words and not os.path.exists(words[0]) else ""


def version_of(command: Sequence[str]) -> str:
    """Return the version that a command prints; an empty text if it prints none."""
    try:
        ran = subprocess.run(
            [*command, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=VERSION_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(rb"\d+\.\d+\S*", ran.stdout) if ran.returncode == 0 else None
    return found[0].decode(errors="replace") if found else ""


def _shebang(program: str) -> list[str]:
    try:
        if not os.path.isfile(program):
            return []
        with open(os.open(program, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            line = file.readline(4_096)
    except OSError:
        return []
    return line[2:].decode(errors="replace").split() if line.startswith(b"#!") else []
