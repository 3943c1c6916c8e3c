"""The other end of a connection: requests go to it from any thread, and each gets its own answer.

One thread reads and one writes, so that neither a peer that stopped reading nor one that
stopped answering can hold a caller past its time. What the messages mean is left to
`client`; nobody's code but ours runs on the two threads.
"""

import itertools
import logging
import queue
import threading
from collections.abc import Callable
from time import monotonic
from typing import Final, Protocol

from carrel.core.errors import CarrelError, Disconnected, ProviderError, echo
from carrel.core.limits import ID_WINDOW_BYTES, MAX_PENDING
from carrel.core.record import Value
from carrel.protocol import client_requests, client_results, jsonrpc
from carrel.protocol.client_requests import Answer, Notice, Params, Question
from carrel.protocol.framing import OverLong

log = logging.getLogger(__name__)

_GONE: Final = "The other end is gone"
MAX_NOISE: Final = 100
"""Lines that are no messages: a banner is borne, a program that speaks something else is not."""

GRACE_S: Final = 0.5
"""What was given to the writer before the end gets this long to leave."""

Outcome = Answer | Notice | CarrelError
Take = Callable[[Outcome], None]
"""Gets what belongs to one request, on the reader's thread: it must not wait."""

Hear = Callable[[Notice | CarrelError], None]
OnProgress = Callable[[float, float | None, str | None], None]


class Unanswered(Value, frozen=True):
    """What a transport says of a request that gets no answer."""

    key: jsonrpc.Key
    error: CarrelError


class Transport(Protocol):
    """Carries whole messages both ways. `send` raises OSError when the other end has closed."""

    def send(self, message: bytes) -> None:
        """Send one message to the other end."""

    def receive(self) -> bytes | OverLong | Unanswered | None:
        """Wait for a message and return it; None at the end."""

    def close(self) -> None:
        """End it from any thread; a second call does nothing. `receive` then comes to its end."""


class Peer:
    """Matches answers with requests. `hear` gets what belongs to none: notifications, and that the peer is gone."""

    def __init__(self, transport: Transport, hear: Hear, max_message_bytes: int) -> None:
        self._transport = transport
        self._hear = hear
        self._max_bytes = max_message_bytes
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._waiting: dict[jsonrpc.Key, Take] = {}
        self._gone = ""
        self._noise = 0
        self._outbox: queue.Queue[bytes | None] = queue.Queue(MAX_PENDING)
        self._reader = threading.Thread(target=self._read, name="carrel-peer-reader", daemon=True)
        self._writer = threading.Thread(target=self._write, name="carrel-peer-writer", daemon=True)
        self._reader.start()
        self._writer.start()

    # What callers use

    def request(
        self,
        method: str,
        params: Params,
        timeout_s: float,
        *,
        on_progress: OnProgress | None = None,
        cancels: bool = True,
    ) -> client_results.Result:
        """Ask, and wait for the result. An unanswered request is cancelled, unless it must not be."""
        deadline = monotonic() + timeout_s
        outcomes: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        number = self.begin(method, params, outcomes.put, timeout_s, has_progress=on_progress is not None)
        try:
            while True:
                outcome = outcomes.get(timeout=max(0.0, deadline - monotonic()))
                if isinstance(outcome, Answer):
                    return _result(outcome)
                if isinstance(outcome, CarrelError):
                    raise outcome
                if outcome.method == client_requests.PROGRESS and on_progress is not None:
                    on_progress(outcome.progress, outcome.total, outcome.message)
        except queue.Empty:
            raise _late(method) from None
        finally:
            if self.forget(number) and cancels:
                self.cancel(number)

    def begin(self, method: str, params: Params, take: Take, timeout_s: float, *, has_progress: bool = False) -> int:
        """Send a request whose answer, and what comes before it, goes to `take`; give its number."""
        number = next(self._numbers)
        encoded = jsonrpc.request(
            number, method, client_requests.with_progress(params, number) if has_progress else params
        )
        with self._lock:
            if self._gone:
                raise Disconnected(self._gone)
            self._waiting[number] = take
        try:
            self._outbox.put(encoded, timeout=timeout_s)
        except queue.Full:
            self.forget(number)
            raise _late(method) from None
        return number

    def forget(self, number: int) -> bool:
        """Drop the wait for an answer; return whether there was one."""
        with self._lock:
            return self._waiting.pop(number, None) is not None

    def cancel(self, number: int) -> None:
        """Tell the other end that a request is no longer wanted."""
        self.notify(client_requests.CANCELLED, client_requests.cancelled(number))

    def notify(self, method: str, params: Params) -> None:
        """Send a notification, unless the other end is gone or takes nothing."""
        self._offer(jsonrpc.notification(method, params))

    @property
    def is_gone(self) -> bool:
        """Whether the connection has ended."""
        return bool(self._gone)

    def close(self) -> None:
        """End the connection; calls that still wait raise an error. A second call does nothing."""
        with self._lock:
            self._gone = self._gone or "The connection is closed"
        self._offer(None)
        self._writer.join(GRACE_S)
        self._transport.close()
        self._reader.join(GRACE_S)
        self._end(self._gone)

    def _offer(self, encoded: bytes | None) -> None:
        try:
            self._outbox.put_nowait(encoded)
        except queue.Full:
            log.debug("not sent: the other end takes nothing")

    # The two threads

    def _write(self) -> None:
        while (message := self._outbox.get()) is not None:
            try:
                self._transport.send(message)
            except OSError:
                # Answers may still be on their way: those who wait are told when the reader comes to the end.
                with self._lock:
                    self._gone = self._gone or _GONE
                return

    def _read(self) -> None:
        reason = _GONE
        while (message := self._transport.receive()) is not None:
            if isinstance(message, OverLong):
                self._take_over_long(message.head)
            elif isinstance(message, Unanswered):
                self._settle(message.key, message.error)
            elif len(message) > self._max_bytes:
                self._take_over_long(message[:ID_WINDOW_BYTES])
            elif not self._take(message):
                log.warning("skipped, no message: %s", echo(message[:200].decode(errors="replace")))
                self._noise += 1
                if self._noise > MAX_NOISE:
                    reason = "The other end does not speak the protocol"
                    break
        self._end(reason)

    def _end(self, reason: str) -> None:
        with self._lock:
            self._gone = reason = self._gone or reason
            takes, self._waiting = tuple(self._waiting.values()), {}
        for take in takes:
            take(Disconnected(reason))
        self._hear(Disconnected(reason))
        self._offer(None)

    def _take(self, encoded: bytes) -> bool:
        message = client_requests.decode(encoded)
        if isinstance(message, Question):
            self._answer(message)
        elif isinstance(message, Answer):
            self._settle(message.key, message)
        elif message is not None:
            self._note(message)
        return message is not None

    def _answer(self, question: Question) -> None:
        """Answer a server's own question: we are alive, and can do nothing else for it."""
        if question.method == "ping":
            self._offer(jsonrpc.answer(question.id, {}))
        else:
            message = f"Method not found: {echo(question.method)}"
            self._offer(jsonrpc.failure(question.id, jsonrpc.METHOD_NOT_FOUND, message))

    def _settle(self, key: jsonrpc.Key | None, outcome: Answer | CarrelError) -> None:
        """Return a request its end; late and unknown answers are dropped."""
        with self._lock:
            take = None if key is None else self._waiting.pop(key, None)
        if take is not None:
            take(outcome)

    def _note(self, notice: Notice) -> None:
        with self._lock:
            take = None if notice.key is None else self._waiting.get(notice.key)
        if take is not None:
            take(notice)
        elif notice.key is None:
            self._hear(notice)

    def _take_over_long(self, head: bytes) -> None:
        """Fail the request whose answer is too long to keep; where that cannot be told, its time runs out."""
        key = client_requests.answered_key(head)
        if key is None:
            with self._lock:
                key = next(iter(self._waiting)) if len(self._waiting) == 1 else None
        self._settle(key, ProviderError("The server's answer is too large", word="bad_result"))


def _result(answer: Answer) -> client_results.Result:
    if answer.error is not None:
        raise client_results.remote_error(answer.error)
    return answer.result


def _late(method: str) -> ProviderError:
    return ProviderError(f"Request timed out: {echo(method)}", word="timeout")
