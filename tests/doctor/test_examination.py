"""All checks together: in order, each with its id, none held up by another."""

import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from carrel.doctor.checks import NOT_EXAMINED, Check, Finding, check, note
from carrel.doctor.examination import CHECKS, examine
from carrel.doctor.lines import lines_of
from carrel.doctor.setup import Setup
from tests.support.doctor import Ward


def test_every_check_has_an_id_of_its_own_and_says_what_it_is() -> None:
    ids = [one.id for one in CHECKS]

    assert len(ids) == len(set(ids))
    assert all(re.fullmatch("[a-z]+(-[a-z]+)*", id_) for id_ in ids)
    assert all(one.fault and one.fix and not one.fault.endswith(".") for one in CHECKS)


def test_there_are_at_least_thirty_faults() -> None:
    assert len(CHECKS) >= 30


def modules_with_checks() -> list[tuple[str, str]]:
    """Return the module and the name of each check."""
    found = []
    for one in CHECKS:
        module = sys.modules[one.find.__module__]
        [name] = [name for name, value in vars(module).items() if value is one]
        found.append((module.__name__.rpartition(".")[2], name))
    return found


@pytest.mark.parametrize(("module", "name"), modules_with_checks(), ids=lambda text: text)
def test_every_check_has_a_test_that_makes_it_find_something(module: str, name: str) -> None:
    """A test that asks for the one finding of a check, or for several, fails if the check finds nothing."""
    text = (Path(__file__).parent / f"test_{module}.py").read_text(encoding="utf-8")
    asked = rf"(ward|read_only)\.(one|find)\({module}\.{name}\)|{module}\.{name}\.find\("

    assert re.search(asked, text)


def test_a_check_that_hangs_holds_no_other(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    @check("system", "hangs", "it hangs", "wait")
    def hangs(setup: Setup) -> Iterator[Finding]:
        del setup
        released.wait()
        yield note("too late")

    monkeypatch.setattr("carrel.doctor.examination.SPARE_S", 0.0)
    ward.patience_s = 0.2
    try:
        found = examine(ward.setup(), (hangs, _quiet()))
    finally:
        released.set()

    assert [(one.id, one.state, one.message) for one in found] == [
        ("hangs", "problem", "the check did not end in time"),
        ("quiet", "ok", ""),
    ]


def _quiet() -> Check:
    return Check("quiet", "system", "nothing", "nothing", lambda _: ())


def test_a_check_that_fails_is_a_finding_and_no_crash(ward: Ward) -> None:
    def fails(_: Setup) -> list[Finding]:
        raise ZeroDivisionError

    found = examine(ward.setup(), (Check("fails", "system", "it fails", "none", fails), _quiet()))

    assert [(one.id, one.state) for one in found] == [("fails", "problem"), ("quiet", "ok")]
    assert found[0].message == "the check failed: Internal error"


def test_a_mistake_in_the_settings_hides_no_other_fault(ward: Ward) -> None:
    ward.write(ward.file, "[server]\npagesize = 7\n\n[mounts.x]\ncommand = ['no-such-program']\n")
    ward.environment["ALC_HOME"] = "/no/such/folder"
    checks = [one for one in CHECKS if one.subject in ("project", "providers")]
    setup = ward.setup()
    try:
        found = {one.id for one in examine(setup, checks) if one.state != "ok"}
    finally:
        setup.close()

    assert found == {"settings-keys", "trust", "alc-home"}


def test_a_check_that_cannot_look_is_not_ticked(ward: Ward) -> None:
    ward.write(ward.file, "[")
    checks = [one for one in CHECKS if one.subject in ("providers", "index", "server")]

    found = examine(ward.setup(), checks)

    assert {(one.state, one.message) for one in found} == {("note", NOT_EXAMINED)}
    assert [(line.state, line.name) for line in lines_of(found)] == [
        ("note", "providers"),
        ("note", "index"),
        ("note", "server"),
    ]


def test_a_server_that_cannot_start_because_of_a_mistake_is_not_ticked(ward: Ward) -> None:
    ward.write(ward.file, "[server]\npagesize = 7\n")
    checks = [one for one in CHECKS if one.id in ("handshake-modern", "left-out")]
    setup = ward.setup()
    try:
        found = examine(setup, checks)
    finally:
        setup.close()

    assert [(one.id, one.state) for one in found] == [("left-out", "ok"), ("handshake-modern", "note")]
