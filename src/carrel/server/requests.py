"""Requests that run on worker threads, and batches of them.

A transport chooses the thread that runs a `Work`. It ends in exactly one way: with its answer (`run`), after its time
(`expire`), because too much waits (`refuse`), or cancelled by the client.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from math import inf

from carrel.core.errors import ProtocolError, ProviderError, RequestError
from carrel.core.faults import attempt
from carrel.protocol import jsonrpc, wire_errors


class Running:
    """The state of a request in progress; a tool gets it as its `Call`."""

    def __init__(
        self,
        forget: Callable[[], object],
        send_progress: Callable[[float, float | None, str | None], None] | None = None,
        client: str = "",
    ) -> None:
        """`forget` is called when the request ends; `client` is the name that the calling program gave itself."""
        self.client = client
        self._lock = threading.Lock()
        self._is_settled = False
        self._is_cancelled = False
        self._stops: list[Callable[[], None]] = []
        self._forget = forget
        self._send_progress = send_progress
        self._progress = float("-inf")

    @property
    def cancelled(self) -> bool:
        """Whether the request was cancelled."""
        return self._is_cancelled

    def on_cancel(self, stop: Callable[[], None]) -> None:
        """Call `stop` when the request is cancelled; at once if it already is."""
        with self._lock:
            if not self._is_cancelled:
                self._stops.append(stop)
                return
        stop()

    def progress(self, value: float, total: float | None = None, message: str | None = None) -> None:
        """Send progress to the client: only if it asked for it, rising values only, never after the end."""
        with self._lock:
            is_wanted = self._send_progress is not None and value > self._progress and not self._is_settled
            if is_wanted:
                self._progress = value
                assert self._send_progress is not None
                self._send_progress(value, total, message)

    def settle(self) -> bool:
        """Return True to the first caller, who may answer, and False to all others."""
        with self._lock:
            is_first = not self._is_settled
            self._is_settled = True
        if is_first:
            self._forget()
        return is_first

    def cancel(self) -> bool:
        """Cancel the request and call the functions that stop it; return False if it was settled already."""
        stops = self._give_up()
        _stop(stops or ())
        return stops is not None

    def abandon(self) -> bool:
        """Cancel the request, and stop it on another thread because that may take long."""
        stops = self._give_up()
        if stops:
            in_background(partial(_stop, stops))
        return stops is not None

    def _give_up(self) -> Sequence[Callable[[], None]] | None:
        """Settle as cancelled; return the functions that stop the request, or None if it was settled already."""
        if not self.settle():
            return None
        with self._lock:
            self._is_cancelled = True
            stops, self._stops = self._stops, []
        return stops


def _stop(stops: Sequence[Callable[[], None]]) -> None:
    for stop in reversed(stops):
        with suppress(RequestError, ProviderError, ProtocolError):  # the others must stop as well
            attempt("stopping", stop)


class Work:
    """A call for a worker thread; one that `is_patient` gets its own thread, and no deadline."""

    __slots__ = ("_busy", "_late", "_run", "_running", "at_most_s", "deadline_s", "is_patient", "owner")

    def __init__(
        self,
        running: Running,
        run: Callable[[], bytes | None],
        late: Callable[[], bytes | None],
        busy: Callable[[], bytes | None],
        *,
        deadline_s: float = 0.0,
        at_most_s: float = inf,
        is_patient: bool = False,
        owner: str = "",
    ) -> None:
        """`deadline_s` is a deadline longer than the usual one, `at_most_s` a shorter one.

        `owner` names the provider whose worker slot it takes.
        """
        self.owner = owner
        self.deadline_s = deadline_s
        self.at_most_s = at_most_s
        self.is_patient = is_patient
        self._running = running
        self._run = run
        self._late = late
        self._busy = busy

    @property
    def is_cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._running.cancelled

    def run(self) -> bytes | None:
        """Run the work; return the answer, or None if it was cancelled meanwhile."""
        if self._running.cancelled:
            return None
        encoded = self._run()
        return encoded if self._running.settle() else None

    def expire(self) -> bytes | None:
        """Cancel the work because its time is over; return the error."""
        return self._late() if self._running.abandon() else None

    def refuse(self) -> bytes | None:
        """Cancel the work because too much is waiting; return the error."""
        return self._busy() if self._running.cancel() else None


def join_answers(lines: Sequence[bytes], given: Sequence[bytes | Work | None], max_bytes: int) -> bytes | Work | None:
    """Return the answers to a batch as one array, or the work that returns it if one of them is work."""
    answers = [None if isinstance(one, Work) else one for one in given]

    def settle(way: Callable[[Work], bytes | None]) -> bytes | None:
        for at, one in enumerate(given):
            if isinstance(one, Work) and answers[at] is None:
                answers[at] = way(one)
        fitting = _fit(lines, answers, max_bytes)
        return b"[" + b",".join(fitting) + b"]" if fitting else None

    waiting = [one for one in given if isinstance(one, Work)]
    if not waiting:
        return settle(Work.run)
    return Work(
        Running(lambda: None),
        run=partial(settle, Work.run),
        late=partial(settle, Work.expire),
        busy=partial(settle, Work.refuse),
        deadline_s=max(one.deadline_s for one in waiting),
        is_patient=any(one.is_patient for one in waiting),
        owner=waiting[0].owner,
    )


def _fit(lines: Sequence[bytes], answers: Sequence[bytes | None], max_bytes: int) -> Sequence[bytes]:
    """Return the answers, with an error in place of those that do not fit one message."""
    present = [(line, answer) for line, answer in zip(lines, answers, strict=True) if answer is not None]
    left = max_bytes - len(present) - 1
    if sum(len(answer) for _, answer in present) <= left:
        return [answer for _, answer in present]
    message = "Too large: the answers of this batch do not fit one message; ask for this one by itself"
    refusals = [
        min(answer, wire_errors.too_large(jsonrpc.id_of(line), message, max_bytes), key=len) for line, answer in present
    ]
    left -= sum(map(len, refusals))
    fitting = []
    for (_, answer), refusal in zip(present, refusals, strict=True):
        more = len(answer) - len(refusal)
        fitting.append(answer if more <= left else refusal)
        left -= more if more <= left else 0
    return fitting


def in_background(action: Callable[[], object]) -> None:
    """Run a function on a new thread, without waiting for it."""
    threading.Thread(target=action, name="carrel-background", daemon=True).start()
