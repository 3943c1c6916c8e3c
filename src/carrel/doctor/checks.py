"""A check, the findings that it yields, and the repairs that `carrel doctor --fix` offers."""

from collections.abc import Callable, Iterable
from typing import Final, Literal

from carrel.core.record import Value
from carrel.doctor.setup import Setup

State = Literal["ok", "note", "problem"]
Subject = Literal["installation", "project", "providers", "http", "index", "system", "server", "hosts"]


NOT_EXAMINED: Final = "not examined: another finding says why"
"""The message of a check that could not run."""


class Repair(Value, frozen=True):
    """A change that fixes a fault. `what` says what is done; with `needs_consent`, --yes is not enough: it asks."""

    what: str
    do: Callable[[], object]
    needs_consent: bool = False


class Finding(Value, frozen=True):
    """What a check found. `fix` is what to do about it; `host` is the host whose settings are at fault."""

    state: State
    message: str
    fix: str | None = None
    host: str | None = None
    repair: Repair | None = None
    id: str = ""
    """The id of the check; `examination` sets it."""


class Check(Value, frozen=True):
    """A check for one fault: `fault` describes it, `fix` says what to do, `repairs` whether --fix can do that."""

    id: str
    subject: Subject
    fault: str
    fix: str
    find: Callable[[Setup], Iterable[Finding]]
    repairs: bool = False


Find = Callable[[Setup], Iterable[Finding]]


def check(subject: Subject, id_: str, fault: str, fix: str, *, repairs: bool = False) -> Callable[[Find], Check]:
    """Return a decorator that makes a function a check."""

    def made(find: Find) -> Check:
        return Check(id_, subject, fault, fix, find, repairs)

    return made


def ok(message: str, host: str | None = None) -> Finding:
    """Return a finding that something works."""
    return Finding("ok", message, host=host)


def note(message: str, fix: str | None = None, repair: Repair | None = None, host: str | None = None) -> Finding:
    """Return a finding to know about; everything still works."""
    return Finding("note", message, fix, host, repair)


def problem(message: str, fix: str | None = None, repair: Repair | None = None, host: str | None = None) -> Finding:
    """Return a finding that keeps something from working."""
    return Finding("problem", message, fix, host, repair)
