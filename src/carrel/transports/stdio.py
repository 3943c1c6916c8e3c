"""MCP on the standard streams: one message per line, and nothing else on stdout.

There is no event loop: the thread that reads a line answers it, unless its call needs a worker thread. If an answer
takes longer than expected, another thread takes over reading, so that no call delays another; the slow call gets a
deadline and can be cancelled. Answers to lines that arrived together are written together. Other code cannot use
stdout: a stray print goes to stderr.
"""

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from carrel.core.cancellation import Cancellable
from carrel.core.limits import SHUTDOWN_GRACE_S, STUCK_S
from carrel.protocol.framing import Lines, OverLong
from carrel.protocol.methods import ParsedCall
from carrel.server.connection import LineConnection
from carrel.server.requests import Work
from carrel.server.server import Server
from carrel.server.workers import Workers
from carrel.transports.shutdown import Ending, Stopped

_CHUNK: Final = 1 << 16
_MUCH: Final = 1 << 20
"""Collected answers are written when they have this many bytes."""
_IDLE_LOOKS: Final = 20
"""After this many checks of an idle reader, the watching thread sleeps until something is read."""
_PIPE_BYTES: Final = 1 << 20
_PARTS: Final = 512
"""Parts written with one system call; systems accept a thousand."""


class Output:
    """Writes whole lines to a file descriptor, from any thread; a closed pipe is not an error."""

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
            # Large messages are not copied into one.
            parts = [part for message in messages for part in (message, b"\n")]
        while parts:
            parts = _rest(parts, os.writev(self._descriptor, parts[:_PARTS]))


def _rest(parts: Sequence[bytes | memoryview], written: int) -> Sequence[bytes | memoryview]:
    """Return the parts that are still to be written."""
    for number, part in enumerate(parts):
        if written < len(part):
            return [memoryview(part)[written:], *parts[number + 1 :]]
        written -= len(part)
    return []


class LineReader:
    """Reads a file descriptor and answers its lines; lines that arrive together are answered together."""

    def __init__(self, connection: LineConnection, source: int, output: Output, workers: Workers, lines: Lines) -> None:
        self._connection = connection
        self._source = source
        self._output = output
        self._workers = workers
        self._lines = lines
        self._at_hand: Iterator[bytes | OverLong] = iter(())
        self._is_at_end = False
        self._answers: list[bytes] = []
        self._turn = 0
        """The number of the reading thread; it changes when another one takes over."""
        self._overtaken: dict[int, Work] = {}
        self._is_over = threading.Event()
        self._is_parked = False
        self._is_read = threading.Event()
        self._on_end: Callable[[], None] | None = None

    def serve(self, on_end: Callable[[], None] | None = None) -> None:
        """Answer lines until the end of input, even if another thread has taken over reading.

        The thread that reads the end calls `on_end`: this one may be inside a call that never returns.
        """
        self._on_end = on_end
        threading.Thread(target=self._watch, name="carrel-lookout", daemon=True).start()
        self._read(self._turn, self._answers)
        self._is_over.wait()

    def end(self) -> None:
        """Make `serve` return."""
        self._is_over.set()
        self._is_read.set()

    def _read(self, turn: int, answers: list[bytes]) -> None:
        """Read until the end, or until another thread has taken over."""
        with Cancellable(partial(self._is_given_up, turn)):
            self._read_until_the_end(turn, answers)

    def _read_until_the_end(self, turn: int, answers: list[bytes]) -> None:
        try:
            while self._answer_lines(turn, answers) and self._output.is_open and not self._is_at_end:
                chunk = os.read(self._source, _CHUNK)
                if self._is_parked:
                    self._is_read.set()
                self._is_at_end = not chunk
                found: Iterable[bytes | OverLong] = self._lines.feed(chunk) if chunk else self._lines.end()
                self._at_hand = iter(found)
        finally:
            if self._turn == turn:
                self.end()
                if self._on_end is not None:
                    self._on_end()

    def _answer_lines(self, turn: int, answers: list[bytes]) -> bool:
        """Answer the lines that were read; return whether this thread is still the reading one."""
        size = 0
        for line in self._at_hand:
            given = self._connection.accept(line)
            if self._turn != turn:
                self._answer_overtaken(self._overtaken.pop(turn), given)
                return False
            if isinstance(given, Work):
                self._workers.submit(given)
            elif given is not None:
                answers.append(given)
                size += len(given)
            if size > _MUCH:
                self._output.write(*answers)
                answers.clear()
                size = 0
        if answers:
            self._output.write(*answers)
            answers.clear()
        return True

    def _is_given_up(self, turn: int) -> bool:
        """Return whether the call was cancelled that the former reading thread still answers."""
        work = self._overtaken.get(turn)
        return work is not None and work.is_cancelled

    # Another thread takes over

    def _watch(self) -> None:
        """Check at intervals whether the reading thread is still busy with the same call."""
        seen: ParsedCall | None = None
        idle = 0
        while not self._is_over.wait(STUCK_S):
            call = self._connection.inline
            if call is not None and call is seen:
                self._connection.overtake(call, self._take_over)
                call = None
            seen = call
            idle = idle + 1 if call is None else 0
            if idle > _IDLE_LOOKS:
                idle = 0
                self._park()

    def _park(self) -> None:
        """Sleep until something is read."""
        self._is_read.clear()
        self._is_parked = True
        if self._connection.inline is None and not self._is_over.is_set():
            self._is_read.wait()
        self._is_parked = False

    def _take_over(self, work: Work) -> None:
        """Start another reading thread; the former one is inside the call of this work."""
        self._overtaken[self._turn] = work
        self._workers.adopt(work)
        self._turn += 1
        waiting, self._answers = self._answers, []
        threading.Thread(
            target=self._read_on, args=(self._turn, waiting, self._answers), name="carrel-reader", daemon=True
        ).start()

    def _read_on(self, turn: int, waiting: list[bytes], answers: list[bytes]) -> None:
        """Write the collected answers of the former thread, then read."""
        if waiting:
            self._output.write(*waiting)
        self._read(turn, answers)

    def _answer_overtaken(self, work: Work, given: bytes | Work | None) -> None:
        if isinstance(given, Work):
            self._workers.submit(given)
        elif given is not None:
            self._output.write(given)
        self._workers.release(work)


def serve(server: Server, streams: tuple[int, int] | None = None) -> None:
    """Serve the standard streams until they end or the process is asked to stop.

    `streams` are the result of `taken_streams`, if the caller has called it already. The process ends `FORCED_END_S`
    after the end of input or a signal, whatever a provider does.
    """
    with taken_streams() if streams is None else contextlib.nullcontext(streams) as (source, target):
        serving = _Serving(server, source, target)
        with Ending(serving.finish) as ending, contextlib.suppress(Stopped):
            serving.serve(ending)


def run(server: Server, source: int, target: int) -> None:
    """Serve two file descriptors, on any thread, until input ends or the client closes its end."""
    _Serving(server, source, target).serve()


class _Serving:
    """One server on two file descriptors."""

    def __init__(self, server: Server, source: int, target: int) -> None:
        self._server = server
        self._finishing = threading.Lock()
        self._is_finished = False
        self._output = Output(target)
        self._workers = Workers(self._output.write)
        self._connection = LineConnection(server.dispatch, lambda: server.watcher, self._output.write)
        lines = Lines(server.catalog.max_bytes)
        self._reader = LineReader(self._connection, source, self._output, self._workers, lines)

    def serve(self, ending: Ending | None = None) -> None:
        """Answer until input ends or the client closes its end, then finish."""
        try:
            self._reader.serve(on_end=None if ending is None else ending.begin)
        except (Stopped, KeyboardInterrupt, OSError):  # SQLite turns the exception of a signal into KeyboardInterrupt
            self._reader.end()
        if ending is not None:
            ending.notice()
        self.finish()

    def finish(self) -> None:
        """Wait for running work, then close everything. A second call only waits for the first."""
        with self._finishing:
            if not self._is_finished:
                self._is_finished = True
                self._close()

    def _close(self) -> None:
        self._workers.drain(SHUTDOWN_GRACE_S)
        # On another thread: a client that no longer reads must not keep the process alive.
        notifying = threading.Thread(target=self._output.write, args=self._connection.close(), daemon=True)
        notifying.start()
        notifying.join(SHUTDOWN_GRACE_S / 2)
        self._server.close()


@contextlib.contextmanager
def taken_streams() -> Iterator[tuple[int, int]]:
    """Take stdin and stdout for the protocol; other code prints to stderr and reads nothing."""
    source = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        with taken_stdout() as target:
            for descriptor in (source, target):
                os.set_blocking(descriptor, True)
            _enlarge_pipe(target)
            yield source, target
    finally:
        os.dup2(source, 0)
        os.close(source)


@contextlib.contextmanager
def taken_stdout() -> Iterator[int]:
    """Take stdout for the protocol; other code prints to stderr."""
    before = sys.stdout
    if before is not None:  # None if it was closed
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


def _enlarge_pipe(descriptor: int) -> None:
    """Enlarge a pipe if the system can, so that large answers need fewer switches between processes."""
    try:
        import fcntl  # not on every system

        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    except (ImportError, AttributeError, OSError):
        pass
