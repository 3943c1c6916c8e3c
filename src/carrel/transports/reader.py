"""Lines from a client, answered one after another on the thread that reads them.

That is the fastest way to answer, and it rests on every answer being quick. Where one is not, the thread that reads
keeps it and another thread reads on, so that no call holds up another one; the slow call gets a deadline and can be
cancelled.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, Protocol

from carrel.core.cancellation import Cancellable
from carrel.core.limits import STUCK_S
from carrel.protocol.framing import Lines, OverLong
from carrel.protocol.methods import Call
from carrel.server.connection import Connection
from carrel.server.requests import Work
from carrel.server.workers import Workers

CHUNK: Final = 1 << 16
_MUCH: Final = 1 << 20
"""Answers that wait to be written together are written when they have this many bytes."""
_IDLE_LOOKS: Final = 20
"""After so many looks at an idle reader, nobody looks again before something is read."""


class Output(Protocol):
    """Where answers go."""

    is_open: bool

    def write(self, *messages: bytes) -> None:
        """Write each message."""


class Reading:
    """Reads a file descriptor and answers its lines; those that came together are answered together."""

    def __init__(self, connection: Connection, source: int, output: Output, workers: Workers, lines: Lines) -> None:
        self._connection = connection
        self._source = source
        self._output = output
        self._workers = workers
        self._lines = lines
        self._at_hand: Iterator[bytes | OverLong] = iter(())
        self._is_at_end = False
        self._answers: list[bytes] = []
        self._turn = 0
        """Which thread reads: it changes when another one takes over."""
        self._overtaken: dict[int, Work] = {}
        self._is_over = threading.Event()
        self._is_parked = False
        self._is_read = threading.Event()
        self._on_end: Callable[[], None] | None = None

    def serve(self, on_end: Callable[[], None] | None = None) -> None:
        """Answer lines until the end; return then, even if this thread is not the one that reads any more.

        The thread that comes to the end calls `on_end`: this one may be inside a call that never returns.
        """
        self._on_end = on_end
        threading.Thread(target=self._watch, name="carrel-lookout", daemon=True).start()
        self._read(self._turn, self._answers)
        self._is_over.wait()

    def end(self) -> None:
        """Let `serve` return."""
        self._is_over.set()
        self._is_read.set()

    def _read(self, turn: int, answers: list[bytes]) -> None:
        """Be the thread that reads, until the end or until another one has taken over."""
        with Cancellable(partial(self._is_given_up, turn)):
            self._read_until_the_end(turn, answers)

    def _read_until_the_end(self, turn: int, answers: list[bytes]) -> None:
        try:
            while self._answer_what_is_at_hand(turn, answers) and self._output.is_open and not self._is_at_end:
                chunk = os.read(self._source, CHUNK)
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

    def _answer_what_is_at_hand(self, turn: int, answers: list[bytes]) -> bool:
        """Answer the lines that were read; return whether this thread still is the one that reads."""
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
        """Return whether nobody wants the answer on which a thread that read is still busy."""
        work = self._overtaken.get(turn)
        return work is not None and work.is_cancelled

    # Another thread takes over

    def _watch(self) -> None:
        """Look now and then whether the thread that reads is still busy with the same call."""
        seen: Call | None = None
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
        """Have another thread read on. The one that read is inside the call that became this work."""
        self._overtaken[self._turn] = work
        self._workers.adopt(work)
        self._turn += 1
        waiting, self._answers = self._answers, []
        threading.Thread(
            target=self._read_on, args=(self._turn, waiting, self._answers), name="carrel-reader", daemon=True
        ).start()

    def _read_on(self, turn: int, waiting: list[bytes], answers: list[bytes]) -> None:
        """Write what the thread before has left, and read."""
        if waiting:
            self._output.write(*waiting)
        self._read(turn, answers)

    def _answer_overtaken(self, work: Work, given: bytes | Work | None) -> None:
        if isinstance(given, Work):
            self._workers.submit(given)
        elif given is not None:
            self._output.write(given)
        self._workers.release(work)
