"""Findings as lines: whole where they name a fault, and short where all is well."""

import pytest

from carrel.doctor.checks import Finding, Repair
from carrel.doctor.examination import CHECKS
from carrel.doctor.lines import MAX_LINES, WIDTH, described, healthy, lines_of


def shown(findings: list[Finding], dots: str = "…") -> list[str]:
    marks = {"ok": "✓", "note": "!", "problem": "✗"}
    return [f"{marks[state]} {name}: {message}" for state, name, message in lines_of(findings, dots)]


def test_many_providers_still_fit_one_screen() -> None:
    findings = [Finding("ok", f"mount-{number}: {'x' * 200}", id="provider") for number in range(60)]

    [line] = shown(findings)
    assert len(line) == WIDTH
    assert line.startswith("✓ provider: mount-0, mount-1, ")
    assert line.endswith("…")


def test_few_providers_have_a_line_each() -> None:
    findings = [Finding("ok", f"mount-{number}: {'x' * 200}", id="provider") for number in range(5)]

    lines = shown(findings)
    assert [len(line) for line in lines] == [WIDTH] * 5
    assert [line[:19] for line in lines] == [f"✓ provider: mount-{number}" for number in range(5)]


def test_a_fault_is_never_cut_and_never_merged() -> None:
    faults = [Finding("problem", f"{'x' * 300} {number}", "fix it", id="provider") for number in range(MAX_LINES + 1)]

    assert shown(faults) == [f"✗ provider: {'x' * 300} {number}. Fix: fix it" for number in range(MAX_LINES + 1)]


def test_a_fault_of_a_host_names_the_host() -> None:
    assert shown([Finding("note", "odd", host="zed", id="host-file")]) == ["! host-file, zed: odd"]


def test_all_checks_without_a_fault_are_a_line_for_each_subject() -> None:
    lines = shown([Finding("ok", "", id=one.id) for one in CHECKS])

    assert len(lines) == len({one.subject for one in CHECKS})
    assert all(len(line) <= WIDTH for line in lines)
    assert f"✓ system: no fault in {sum(one.subject == 'system' for one in CHECKS)} checks: home, " in "\n".join(lines)


@pytest.mark.parametrize("dots", ["…", "..."])
def test_what_does_not_fit_ends_with_dots(dots: str) -> None:
    [line] = shown([Finding("ok", "x" * 200, id="python")], dots)

    assert (len(line), line.endswith(f"x{dots}")) == (WIDTH, True)


def test_a_finding_for_programs_has_five_fields_whatever_it_is() -> None:
    repair = Repair("fix it", lambda: None)

    assert described(Finding("note", "odd", "fix it", "zed", repair, "host-file")) == {
        "id": "host-file",
        "state": "note",
        "host": "zed",
        "message": "odd",
        "fix": "fix it",
    }
    assert described(Finding("ok", "", id="disk")) == {
        "id": "disk",
        "state": "ok",
        "host": None,
        "message": healthy("disk"),
        "fix": None,
    }


def test_a_check_that_found_nothing_says_what_it_looked_for() -> None:
    assert healthy("disk") == "no fault (the disk is full, or has no room for more files)"
    assert healthy("no-such-check") == "no fault"
