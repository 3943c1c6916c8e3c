"""Run every check on a setup: each on its own thread, with a deadline."""

from collections.abc import Callable, Sequence
from typing import Final

from carrel.core.bounded_calls import BoundedCalls
from carrel.core.errors import CarrelError
from carrel.core.faults import attempt
from carrel.core.record import replace
from carrel.doctor import hosts, http, index, installation, providers, server, settings, store, system, trust
from carrel.doctor.checks import NOT_EXAMINED, Check, Finding, note, ok, problem
from carrel.doctor.setup import Setup

CHECKS: Final[tuple[Check, ...]] = (
    *installation.CHECKS,
    *settings.CHECKS,
    *trust.CHECKS,
    *store.CHECKS,
    *providers.CHECKS,
    *http.CHECKS,
    *index.CHECKS,
    *system.CHECKS,
    *server.CHECKS,
    *hosts.CHECKS,
)
"""All checks, in the order of the output."""

SPARE_S: Final = 15.0
"""Time that a check has beyond that of a provider."""


def examine(setup: Setup, checks: Sequence[Check] = CHECKS) -> list[Finding]:
    """Return the findings of all checks; a check that found nothing has one finding without a message."""
    calls = BoundedCalls("doctor", setup.patience_s + SPARE_S)
    found = calls.ask({one.id: _running(one, setup) for one in checks})
    findings: list[Finding] = []
    for one in checks:
        late = [problem("the check did not end in time", "run it again; carrel doctor --debug shows more")]
        own = found.get(one.id, late) or [note(NOT_EXAMINED) if _is_blind(one, setup) else ok("")]
        findings += [replace(finding, id=one.id) for finding in own]
    return findings


def _is_blind(one: Check, setup: Setup) -> bool:
    """Return whether a check needs a server or a desk, and there is none."""
    if one.subject == "server":
        return setup.desk is None or bool(setup.mistakes)
    return one.subject in ("providers", "index") and setup.desk is None


def _running(one: Check, setup: Setup) -> Callable[[], list[Finding]]:
    def run() -> list[Finding]:
        try:
            return attempt(f"check {one.id}", lambda: list(one.find(setup)))
        except CarrelError as error:
            return [problem(f"the check failed: {error}", "carrel doctor --debug shows more; please report it")]

    return run
