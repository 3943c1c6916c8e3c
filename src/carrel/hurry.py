"""Whether whoever asks is in a hurry, as on an event loop, where everybody else waits meanwhile.

A provider whose reads are quick but for some says so before one of those. In a hurry that ends
the attempt, and the same is asked for again on a thread that may wait.
"""

from contextvars import ContextVar, Token

_is_hurried: ContextVar[bool] = ContextVar("is_hurried", default=False)


class TakesAWhile(BaseException):
    """What was asked for cannot be had at once. No error: who handles errors is not to take it for one."""


class Hurrying:
    """While it is entered, nothing may take a while."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        """Begin."""
        self._before: Token[bool] = _is_hurried.set(True)

    def __exit__(self, *_: object) -> None:
        """End."""
        _is_hurried.reset(self._before)


def is_hurried() -> bool:
    """Tell whether nothing may take a while."""
    return _is_hurried.get()


def take_a_while() -> None:
    """Say that what follows takes milliseconds or more; in a hurry, it does not follow."""
    if is_hurried():
        raise TakesAWhile
