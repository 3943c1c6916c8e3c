"""Send requests over a transport from any thread, and match the answers.

One thread reads and one writes, so that a peer that stops reading or answering cannot block a caller past its time
limit. `client` interprets the messages. No foreign code runs on the two threads.
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
"""Maximum number of lines that are not messages: enough for a banner, not for a program without MCP."""

GRACE_S: Final = 0.5
"""Time to send what is waiting when the connection is closed."""

Outcome = Answer | Notice | CarrelError
Take = Callable[[Outcome], None]
"""Called on the reader's thread with what belongs to one request; must not block."""

Hear = Callable[[Notice | CarrelError], None]
OnProgress = Callable[[float, float | None, str | None], None]


class Unanswered(Value, frozen=True):
    """The error of a request to which the transport got no answer."""

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
    """Matches answers with requests. `hear` gets notifications without a request, and the end of the connection."""

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
        """Send a request and return its result. With `cancels`, a request that is not answered in time is cancelled."""
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
        """Send a request and return its number; its notifications and its answer go to `take`."""
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
        """Stop waiting for an answer; return whether one was awaited."""
        with self._lock:
            return self._waiting.pop(number, None) is not None

    def cancel(self, number: int) -> None:
        """Send the notification that cancels a request."""
        self.notify(client_requests.CANCELLED, client_requests.cancelled(number))

    def notify(self, method: str, params: Params) -> None:
        """Send a notification, unless the other end is gone or does not read."""
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
            log.debug("not sent: the other end does not read")

    # The two threads

    def _write(self) -> None:
        while (message := self._outbox.get()) is not None:
            try:
                self._transport.send(message)
            except OSError:
                # Answers may still arrive: waiting callers get their error when the reader reaches the end.
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
                log.warning("skipped, not a message: %s", echo(message[:200].decode(errors="replace")))
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
        """Answer a request of the server: only `ping` is supported."""
        if question.method == "ping":
            self._offer(jsonrpc.answer(question.id, {}))
        else:
            message = f"Method not found: {echo(question.method)}"
            self._offer(jsonrpc.failure(question.id, jsonrpc.METHOD_NOT_FOUND, message))

    def _settle(self, key: jsonrpc.Key | None, outcome: Answer | CarrelError) -> None:
        """Pass the outcome to the waiting request; late and unknown answers are dropped."""
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
        """Fail the request whose answer is too long; if its id cannot be found, the request times out."""
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
