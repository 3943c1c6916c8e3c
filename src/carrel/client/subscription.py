"""The changes that a client subscribed to, in a bounded set until they are taken."""

import threading
from collections.abc import Callable, Iterator
from typing import Final

from carrel.core.errors import CarrelError
from carrel.core.uri import is_within
from carrel.protocol import client_requests, client_results
from carrel.protocol.client_requests import Answer, Notice

LIST: Final = ""
"""The value that stands for the list among changed URIs."""

MAX_CHANGES: Final = 4_096
"""Changes that wait to be taken; beyond that, all subscribed URIs count as changed."""

Stop = Callable[["Listening"], None]


class Listening:
    """An iterator of changed URIs, with LIST for the list. Use it in a `with`; it ends when the server ends it.

    `honoured` are the URIs whose changes the server reports. A change is a subscribed URI or one below it. If the
    server is gone, it raises `Disconnected`.
    """

    def __init__(self, uris: tuple[str, ...], stop: Stop, *, list_changes: bool) -> None:
        self.uris = uris
        self.list_changes = list_changes
        self.honoured: tuple[str, ...] = ()
        self._stop = stop
        self._changed = threading.Condition()
        self._pending: dict[str, None] = {}
        self._is_open = False
        self._is_over = False
        self._failure: CarrelError | None = None

    def __enter__(self) -> "Listening":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[str]:
        """Yield changes until the subscription ends."""
        while (what := self.wait(None)) is not None:
            yield what

    @property
    def is_over(self) -> bool:
        """Whether the subscription has ended."""
        return self._is_over

    def wait(self, timeout_s: float | None) -> str | None:
        """Return the next change; None if there is none within the time, or the subscription has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending or self._is_over, timeout_s)
            if self._pending:
                what = next(iter(self._pending))
                del self._pending[what]
                return what
            if self._failure is not None:
                raise self._failure.with_traceback(None)
            return None

    def close(self) -> None:
        """End the subscription; a second call does nothing."""
        self._stop(self)
        self.end()

    # What the client calls

    def wait_until_open(self, timeout_s: float) -> bool:
        """Wait until the server has accepted or ended the subscription; return whether it has."""
        with self._changed:
            settled = self._changed.wait_for(lambda: self._is_open or self._is_over, timeout_s)
            if self._failure is not None:
                raise self._failure
            return settled

    def take(self, outcome: Answer | Notice | CarrelError) -> None:
        """Receive a message of a modern subscription."""
        if isinstance(outcome, Notice):
            if outcome.method == client_requests.ACKNOWLEDGED:
                self.open(outcome.honoured)
            elif outcome.method == client_requests.CANCELLED:
                self.end()
            else:
                self._add(outcome)
        elif isinstance(outcome, Answer):
            self.end(None if outcome.error is None else client_results.remote_error(outcome.error))
        else:
            self.end(outcome)

    def hear(self, notice: Notice | CarrelError) -> None:
        """Receive a notification of a legacy server; ignore one that was not asked for."""
        if isinstance(notice, CarrelError):
            self.end(notice)
        elif notice.method != client_requests.UPDATED or any(is_within(notice.uri, uri) for uri in self.uris):
            self._add(notice)

    def open(self, honoured: tuple[str, ...]) -> None:
        """Set the URIs whose changes the server reports."""
        with self._changed:
            self.honoured = honoured
            self._is_open = True
            self._changed.notify_all()

    def end(self, failure: CarrelError | None = None) -> None:
        """End the subscription; earlier changes can still be taken."""
        with self._changed:
            if not self._is_over:
                self._is_over, self._failure = True, failure
            self._changed.notify_all()

    def _add(self, notice: Notice) -> None:
        is_list = notice.method == client_requests.LIST_CHANGED
        if (is_list and not self.list_changes) or notice.method not in (
            client_requests.LIST_CHANGED,
            client_requests.UPDATED,
        ):
            return
        with self._changed:
            if len(self._pending) >= MAX_CHANGES:
                self._pending = dict.fromkeys(self.uris)
            self._pending[LIST if is_list else notice.uri] = None
            self._changed.notify_all()
