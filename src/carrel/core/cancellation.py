"""Stops long work whose caller gave up.

A call that runs on a worker thread enters `Cancellable`. Code that may take long calls `check_cancelled`
now and then; after the caller gave up, or the call's time was over, that raises `Cancelled`.
"""

from collections.abc import Callable
from contextvars import ContextVar, Token


class Cancelled(BaseException):
    """The call was given up. This is a `BaseException`, so that code which handles errors does not catch it."""


def _never() -> bool:
    return False


_is_cancelled: ContextVar[Callable[[], bool]] = ContextVar("is_cancelled", default=_never)


class Cancellable:
    """While it is entered, `check_cancelled` asks `is_cancelled`."""

    __slots__ = ("_before", "_is_cancelled")

    def __init__(self, is_cancelled: Callable[[], bool]) -> None:
        self._is_cancelled = is_cancelled

    def __enter__(self) -> None:
        """Begin."""
        self._before: Token[Callable[[], bool]] = _is_cancelled.set(self._is_cancelled)

    def __exit__(self, *_: object) -> None:
        """End."""
        _is_cancelled.reset(self._before)


def check_cancelled() -> None:
    """Raise `Cancelled` if the call that this code works for was given up."""
    if _is_cancelled.get()():
        raise Cancelled
