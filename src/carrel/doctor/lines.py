"""Findings as lines for people: one for each, and one for all checks of a subject that found nothing.

On a healthy machine they fit one screen. A line about a fault is never cut.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from carrel.doctor.checks import NOT_EXAMINED, Finding, State
from carrel.doctor.examination import CHECKS

MAX_LINES: Final = 40
WIDTH: Final = 100
"""The output of a healthy machine fits into this."""


class FindingLine(NamedTuple):
    """One line: a mark for the state, a name and a message."""

    state: State
    name: str
    message: str


def healthy(id_: str) -> str:
    """Return the message of a check that found nothing."""
    return next((f"no fault ({one.fault})" for one in CHECKS if one.id == id_), "no fault")


def described(one: Finding) -> dict[str, str | None]:
    """Return a finding for programs."""
    message = one.message or healthy(one.id)
    return {"id": one.id, "state": one.state, "host": one.host, "message": message, "fix": one.fix}


def lines_of(findings: Sequence[Finding], dots: str = "…") -> list[FindingLine]:
    """Return the lines of all findings; `dots` stand for what does not fit."""
    reported = [one for one in findings if one.message not in ("", NOT_EXAMINED)]
    is_long = len(reported) + len({_subject(one.id) for one in findings}) > MAX_LINES
    lines: list[FindingLine] = []
    merged: dict[str, list[str]] = {}
    for one in reported:
        if one.state == "ok" and is_long:
            merged.setdefault(one.id, []).append(one.message.partition(":")[0])
        else:
            lines.append(_line(one, dots))
    lines += [FindingLine("ok", name, _cut(name, ", ".join(messages), dots)) for name, messages in merged.items()]
    silent: dict[str, list[str]] = {}
    for one in findings:
        if not one.message:
            silent.setdefault(_subject(one.id), []).append(one.id)
    blind = dict.fromkeys(_subject(one.id) for one in findings if one.message == NOT_EXAMINED)
    lines += [FindingLine("note", name, NOT_EXAMINED) for name in blind]
    for name, ids in silent.items():
        lines.append(FindingLine("ok", name, _cut(name, f"no fault in {len(ids)} checks: {', '.join(ids)}", dots)))
    return lines


def _line(one: Finding, dots: str) -> FindingLine:
    name = f"{one.id}, {one.host}" if one.host else one.id
    if one.state == "ok":
        return FindingLine(one.state, name, _cut(name, one.message, dots))
    end = "" if one.message.endswith(("?", ".")) else "."
    return FindingLine(one.state, name, f"{one.message}{end} Fix: {one.fix}" if one.fix else one.message)


def _subject(id_: str) -> str:
    return next((one.subject for one in CHECKS if one.id == id_), "doctor")


def _cut(name: str, message: str, dots: str) -> str:
    """Return the end of a line that fits the width."""
    room = WIDTH - len(name) - 4
    return message if len(message) <= room else message[: room - len(dots)] + dots
