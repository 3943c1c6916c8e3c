"""MCP on the standard streams: one message a line, and nothing else on stdout.

No event loop: a line is answered where it arrives, unless it may wait or takes a while; then it goes to
a worker thread. Answers to lines that came together leave together. stdout is taken
away from everybody else, so that a stray print lands on stderr.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Final

from carrel.hurry import Hurrying
from carrel.limits import SHUTDOWN_GRACE_S
from carrel.protocol.framing import Lines
from carrel.server import Connection, Server
from carrel.transports.workers import Workers
from carrel.work import Work

_CHUNK: Final = 1 << 16
_PIPE_BYTES: Final = 1 << 20
_PARTS: Final = 512
"""Written at once; systems take a thousand."""
_ENDING: Final = (signal.SIGTERM, signal.SIGINT)
_NOTICE_S: Final = 0.05


class _Stopped(BaseException):
    """The process was asked to end."""


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
        if sum(map(len, messages)) <= _CHUNK:
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

    `streams` are given by whoever has taken them already.
    """
    with taken_streams() if streams is None else contextlib.nullcontext(streams) as (source, target), _stoppable():
        run(server, source, target)


def run(server: Server, source: int, target: int) -> None:
    """Serve two file descriptors until input ends, the reader leaves, or the process is asked to stop."""
    output = Output(target)
    workers = Workers(output.write)
    connection = server.connect(output.write)
    with contextlib.suppress(_Stopped, OSError):
        _converse(connection, source, output, workers, Lines(server.catalog.max_bytes))
    with contextlib.suppress(_Stopped):
        workers.drain(SHUTDOWN_GRACE_S)
        # On a thread of its own: a reader that no longer reads must not keep the process alive.
        ending = threading.Thread(target=output.write, args=connection.close(), daemon=True)
        ending.start()
        ending.join(SHUTDOWN_GRACE_S / 2)
        server.close()


def _converse(connection: Connection, source: int, output: Output, workers: Workers, lines: Lines) -> None:
    """Answer lines as they come; those that came together are answered together."""
    at_end = False
    while output.is_open and not at_end:
        chunk = os.read(source, _CHUNK)
        at_end = not chunk
        answers: list[bytes] = []
        size = 0
        for line in lines.end() if at_end else lines.feed(chunk):
            with Hurrying():  # the next line waits for this one
                given = connection.accept(line)
            if isinstance(given, Work):
                workers.submit(given)
            elif given is not None:
                answers.append(given)
                size += len(given)
            if size > _PIPE_BYTES:
                output.write(*answers)
                answers, size = [], 0
        if answers:
            output.write(*answers)


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


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """Turn SIGTERM and SIGINT into the end of input.

    A signal that comes between two instructions and a read that blocks would be noticed only
    when something is read. So another thread sees it too, and sends it again until it is noticed.
    """
    noticed = threading.Event()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        noticed.set()
        for number in _ENDING:
            signal.signal(number, signal.SIG_IGN)
        raise _Stopped

    seen, told = os.pipe()
    os.set_blocking(told, False)
    before = {number: signal.signal(number, stop) for number in _ENDING}
    before_told = signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    reader = threading.get_ident()
    threading.Thread(target=_repeat, args=(seen, noticed, reader), name="carrel-signals", daemon=True).start()
    try:
        yield
    finally:
        noticed.set()
        signal.set_wakeup_fd(before_told)
        os.close(told)
        for number, action in before.items():
            signal.signal(number, action)


def _repeat(seen: int, noticed: threading.Event, reader: int) -> None:
    """Send a signal that was seen to the reading thread again, until that has noticed it."""
    while numbers := os.read(seen, 64):
        for number in set(numbers) & set(_ENDING):
            while not noticed.wait(_NOTICE_S):
                signal.pthread_kill(reader, number)
    os.close(seen)
