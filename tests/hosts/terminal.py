"""A terminal for hosts that must be typed at."""

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
from types import TracebackType
from typing import Self

from tests.hosts.session import PATIENCE_S, Place, end
from tests.support.waiting import until

ROWS, COLUMNS = 50, 160
CONTROL = re.compile(rb"\x1b\[[0-9;?<>=]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[^\[\]]|[\r\n]")


class Terminal:
    """A host in a terminal of its own, from its start to the end of the `with` block."""

    def __init__(self, command: list[str], place: Place) -> None:
        self._place = place
        self._main, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._host = subprocess.Popen(
            command,
            env=place.environment,
            cwd=place.project,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        )
        os.close(terminal)
        self._shown = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        end(self._host, self._place)
        self._reader.join()
        os.close(self._main)

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # the host has ended
            while chunk := os.read(self._main, 65_536):
                self._shown += chunk

    @property
    def shown(self) -> str:
        """Everything that was shown, without spaces and control sequences: hosts place words by moving the cursor."""
        return re.sub(r"\s", "", CONTROL.sub(b"", self._shown).decode("utf-8", "replace"))

    def wait_for(self, words: str) -> None:
        """Wait until words are shown."""
        wanted = words.replace(" ", "")
        until(lambda: wanted in self.shown or self._host.poll() is not None, PATIENCE_S)
        assert wanted in self.shown, f"the host has ended: {self.shown[-2000:]}"

    def type(self, keys: str) -> None:
        """Type keys."""
        os.write(self._main, keys.encode())
