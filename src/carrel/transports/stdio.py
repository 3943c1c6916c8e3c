"""MCP on the standard streams: one message a line, and nothing else on stdout.

No event loop: a line is answered where it arrives, unless it may wait or takes a while; then it
goes to a worker thread. Where an answer takes longer than expected, the thread that reads keeps it
and another thread reads on (`reading`). Answers to lines that came together leave together.
stdout is taken away from everybody else, so that a stray print lands on stderr.
"""

import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Final

from carrel.core.limits import SHUTDOWN_GRACE_S
from carrel.protocol.framing import Lines
from carrel.server.server import Server
from carrel.server.workers import Workers
from carrel.transports.reader import CHUNK, Reading
from carrel.transports.shutdown import Ending, Stopped

_PIPE_BYTES: Final = 1 << 20
_PARTS: Final = 512
"""Written at once; systems take a thousand."""


class Output:
    """Writes whole lines to a file descriptor, from any thread; a reader that left is no error."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self.is_open = True

    def write(self, *messages: bytes) -> None:
        """Write each message and its line end."""
        with self._lock:
            try:
                if self.is_open:
                    self._write(messages)
            except OSError:
                self.is_open = False

    def _write(self, messages: tuple[bytes, ...]) -> None:
        if sum(map(len, messages)) <= CHUNK:
            data = b"\n".join((*messages, b""))
            written = os.write(self._descriptor, data)
            parts: Sequence[bytes | memoryview] = [data[written:]] if written < len(data) else []
        else:
            # Large ones are not copied together.
            parts = [part for message in messages for part in (message, b"\n")]
        while parts:
            parts = _rest(parts, os.writev(self._descriptor, parts[:_PARTS]))


def _rest(parts: Sequence[bytes | memoryview], written: int) -> Sequence[bytes | memoryview]:
    """Give what of the parts is still to be written."""
    for number, part in enumerate(parts):
        if written < len(part):
            return [memoryview(part)[written:], *parts[number + 1 :]]
        written -= len(part)
    return []


def serve(server: Server, streams: tuple[int, int] | None = None) -> None:
    """Serve the standard streams until they end or the process is asked to stop.

    `streams` are given by a caller who has taken them already. From the end of input or a signal on, the process has
    `FORCED_END_S`; then it ends, whatever a provider does.
    """
    with taken_streams() if streams is None else contextlib.nullcontext(streams) as (source, target):
        serving = _Serving(server, source, target)
        with Ending(serving.finish) as ending, contextlib.suppress(Stopped):
            serving.serve(ending)


def run(server: Server, source: int, target: int) -> None:
    """Serve two file descriptors, on any thread, until input ends or the reader leaves."""
    _Serving(server, source, target).serve()


class _Serving:
    """One server on two file descriptors."""

    def __init__(self, server: Server, source: int, target: int) -> None:
        self._server = server
        self._finishing = threading.Lock()
        self._is_finished = False
        self._output = Output(target)
        self._workers = Workers(self._output.write)
        self._connection = server.connect(self._output.write)
        lines = Lines(server.catalog.max_bytes)
        self._reading = Reading(self._connection, source, self._output, self._workers, lines)

    def serve(self, ending: Ending | None = None) -> None:
        """Answer until input ends or the reader leaves, then finish."""
        try:
            self._reading.serve(on_end=None if ending is None else ending.begin)
        except (Stopped, KeyboardInterrupt, OSError):  # SQLite turns the exception of a signal into the second
            self._reading.end()
        if ending is not None:
            ending.notice()
        self.finish()

    def finish(self) -> None:
        """Let what runs end, and close everything, once; a second thread waits for the first."""
        with self._finishing:
            if not self._is_finished:
                self._is_finished = True
                self._close()

    def _close(self) -> None:
        self._workers.drain(SHUTDOWN_GRACE_S)
        # On another thread: a reader that no longer reads must not keep the process alive.
        telling = threading.Thread(target=self._output.write, args=self._connection.close(), daemon=True)
        telling.start()
        telling.join(SHUTDOWN_GRACE_S / 2)
        self._server.close()


@contextlib.contextmanager
def taken_streams() -> Iterator[tuple[int, int]]:
    """Take stdin and stdout for the protocol; what others print goes to stderr, what they read is empty."""
    source = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        with taken_stdout() as target:
            for descriptor in (source, target):
                os.set_blocking(descriptor, True)
            _widen(target)
            yield source, target
    finally:
        os.dup2(source, 0)
        os.close(source)


@contextlib.contextmanager
def taken_stdout() -> Iterator[int]:
    """Take stdout alone."""
    before = sys.stdout
    if before is not None:  # so it is where it was closed
        before.flush()
        target = os.dup(1)
    else:
        target = os.open(os.devnull, os.O_WRONLY)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    try:
        yield target
    finally:
        sys.stdout = before
        os.dup2(target, 1)
        os.close(target)


def _widen(descriptor: int) -> None:
    """Ask for a larger pipe, where the system has that: large answers then need fewer switches."""
    try:
        import fcntl  # not on every system

        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    except (ImportError, AttributeError, OSError):
        pass
