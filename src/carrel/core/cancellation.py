"""Stop long work that no caller waits for any more.

A call on a worker thread runs inside `Cancellable`. Code that may take long calls `check_cancelled` now and then, which
raises `Cancelled` after the caller has gone or the time limit has passed.
"""

from collections.abc import Callable
from contextvars import ContextVar, Token


class Cancelled(BaseException):
    """The call was cancelled. A `BaseException`, so that error handling does not catch it."""


_is_cancelled: ContextVar[Callable[[], bool]] = ContextVar("is_cancelled", default=lambda: False)


class Cancellable:
    """A context in which `check_cancelled` uses `is_cancelled`."""

    __slots__ = ("_before", "_is_cancelled")

    def __init__(self, is_cancelled: Callable[[], bool]) -> None:
        self._is_cancelled = is_cancelled

    def __enter__(self) -> None:
        self._before: Token[Callable[[], bool]] = _is_cancelled.set(self._is_cancelled)

    def __exit__(self, *_: object) -> None:
        _is_cancelled.reset(self._before)


def check_cancelled() -> None:
    """Raise `Cancelled` if the call that runs this code was cancelled."""
    if _is_cancelled.get()():
        raise Cancelled
