"""A transport over the standard streams of a child process: one message per line.

The child has its own process group and a UTF-8 locale. Closing ends its input, then terminates the group, then kills
it.
"""

import contextlib
import logging
import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from carrel.core.errors import Disconnected, echo
from carrel.protocol.framing import Lines, OverLong

log = logging.getLogger(__name__)

GRACE_S: Final = 2.0
_CHUNK: Final = 1 << 16
_LOG_LINE_BYTES: Final = 1 << 16

OnLine = Callable[[str], None]


class ChildServer:
    """A server that runs as a child process."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        stderr: OnLine | None = None,
        max_message_bytes: int,
    ) -> None:
        """Start it. `stderr` gets the lines that it writes there; by default they go to our stderr."""
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None if stderr is None else subprocess.PIPE,
                bufsize=0,
                cwd=cwd,
                env=_with_utf8(os.environ if env is None else env),
                process_group=0,
            )
        except (OSError, ValueError, IndexError) as error:
            log.info("not started: %s", error)
            raise Disconnected(f"Cannot start: {echo(' '.join(command[:1]))}") from error
        self._program = echo(command[0])
        self._stdin, self._stdout = _opened(self._process.stdin), _opened(self._process.stdout)
        self._lines = Lines(max_message_bytes)
        self._ready: deque[bytes | OverLong] = deque()
        self._closing = threading.Lock()
        self._is_open = True
        self._logger = None
        if stderr is not None:
            arguments = (_opened(self._process.stderr), stderr)
            self._logger = threading.Thread(target=_follow, args=arguments, name="carrel-child-stderr", daemon=True)
            self._logger.start()

    def send(self, message: bytes) -> None:
        """Write one line; raise OSError if the child has closed its input."""
        rest = memoryview(message + b"\n")
        try:
            while rest:
                rest = rest[self._stdin.write(rest) :]
        except ValueError as error:
            raise BrokenPipeError("the input is closed") from error

    def receive(self) -> bytes | OverLong | None:
        """Wait for a line and return it; None if the child has closed its output."""
        while not self._ready:
            chunk = _read(self._stdout)
            self._ready.extend(self._lines.feed(chunk) if chunk else self._lines.end())
            if not chunk and not self._ready:
                return None
        return self._ready.popleft()

    def close(self) -> None:
        """End its input, wait, terminate the group, wait, kill it, reap."""
        with self._closing:
            if not self._is_open:
                return
            self._is_open = False
            self._stdin.close()
            for number in (signal.SIGTERM, signal.SIGKILL):
                try:
                    self._process.wait(GRACE_S)
                except subprocess.TimeoutExpired:
                    self._signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_S)
            # Processes that the child left behind would keep its streams open.
            self._signal(signal.SIGKILL)
            if self._logger is not None:
                self._logger.join(GRACE_S)
            self._stdout.close()

    @property
    def ending(self) -> str:
        """The program and, if it ended by itself, its exit code."""
        code = self._process.returncode
        return self._program if code is None or code < 0 else f"{self._program} ended with exit code {code}"

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def _opened(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def _read(stream: IO[bytes]) -> bytes:
    try:
        return stream.read(_CHUNK)
    except (OSError, ValueError):
        return b""


def _follow(stream: IO[bytes], take: OnLine) -> None:
    lines = Lines(_LOG_LINE_BYTES)
    with stream:
        while chunk := _read(stream):
            for line in lines.feed(chunk):
                take((line.head if isinstance(line, OverLong) else line).decode(errors="replace"))
    for line in lines.end():
        take((line.head if isinstance(line, OverLong) else line).decode(errors="replace"))


def _with_utf8(env: Mapping[str, str]) -> Mapping[str, str]:
    """Return an environment with a UTF-8 locale: some servers write in the encoding of their locale."""
    locale = env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG") or ""
    return env if "utf" in locale.lower() else {**env, "LC_ALL": "C.UTF-8"}
