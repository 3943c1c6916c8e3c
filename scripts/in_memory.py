"""Run a command whose temporary files are kept in memory, where the system has a folder for that.

    python -m scripts.in_memory COMMAND [WORD...]

Ten thousand tests make small files. On a disk, that is a fifth of their time.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

MEMORY: Final = Path("/dev/shm")
LEAST_FREE: Final = 4 << 30
"""Bytes that must be free there; with less, the command uses the usual folder."""


def has_room(folder: Path) -> bool:
    """Return whether temporary files may be kept in a folder."""
    return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free >= LEAST_FREE


def run(command: list[str], memory: Path = MEMORY) -> int:
    """Run a command to its end; return its exit code."""
    if not has_room(memory):
        return subprocess.run(command, check=False).returncode
    with tempfile.TemporaryDirectory(prefix="carrel-", dir=memory, ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o1777)  # as /tmp: tests also run programs as another user
        return subprocess.run(command, env={**os.environ, "TMPDIR": folder}, check=False).returncode


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
