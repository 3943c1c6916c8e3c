"""Who writes now, and with which tool: each face says so for the time of a call, and the team's store keeps it."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from carrel.core.record import Value

LOCAL: Final = "local"
"""The caller on stdio, at the command line, and with the local token."""


class Writer(Value, frozen=True):
    """The name of a caller, and what it uses to write."""

    caller: str = LOCAL
    tool: str = ""


_NOBODY: Final = Writer()
_current: ContextVar[Writer] = ContextVar("writer", default=_NOBODY)


@contextmanager
def writing_as(caller: str, tool: str) -> Iterator[None]:
    """Set the writer for the time of a `with` block."""
    before = _current.set(Writer(caller, tool))
    try:
        yield
    finally:
        _current.reset(before)


def current_writer() -> Writer:
    """Return the writer of this call."""
    return _current.get()
