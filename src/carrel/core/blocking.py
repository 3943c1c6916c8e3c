"""Marks code whose caller must not wait: the thread that reads a client's messages, or an event loop.

A provider that is about to do something long calls `take_a_while` before. There that ends the attempt, and the same
call is made again on a worker thread.

Everybody waits for an event loop, and nobody can take its place; so only providers that are `quick` are called there.
"""

from contextvars import ContextVar, Token

_PATIENT, _READING, _EVENT_LOOP = range(3)

_hurry: ContextVar[int] = ContextVar("hurry", default=_PATIENT)


class TakesAWhile(BaseException):
    """What was asked for cannot be had at once. No error: who handles errors is not to take it for one."""


class Hurrying:
    """While it is entered, nothing may take a while."""

    __slots__ = ("_before", "_kind")

    def __init__(self, *, on_event_loop: bool = False) -> None:
        self._kind = _EVENT_LOOP if on_event_loop else _READING

    def __enter__(self) -> None:
        """Begin."""
        self._before: Token[int] = _hurry.set(self._kind)

    def __exit__(self, *_: object) -> None:
        """End."""
        _hurry.reset(self._before)


def is_hurried() -> bool:
    """Return whether nothing may take a while."""
    return _hurry.get() != _PATIENT


def is_on_event_loop() -> bool:
    """Return whether everybody waits for this thread."""
    return _hurry.get() == _EVENT_LOOP


def take_a_while() -> None:
    """Say that what follows takes milliseconds or more; in a hurry, it does not follow."""
    if is_hurried():
        raise TakesAWhile
