"""The words for limits and facts on the pages about the server."""

import pytest

from carrel.core import limits
from carrel.explorer.labels import LIMITS, fact_texts, label, limit_texts, outcome
from tests.support.explorer_desk import Browsed


def test_every_limit_has_words_and_a_unit() -> None:
    assert {name.lower() for name in vars(limits) if name.isupper()} == {*LIMITS}
    assert len({words for words, _ in LIMITS.values()}) == len(LIMITS)
    assert all(unit for _, unit in LIMITS.values())


def test_a_limit_is_shown_with_its_unit() -> None:
    shown = limit_texts({"max_uri_length": 8_192, "forced_end_s": 1.5, "session_idle_s": 1_800.0})

    assert list(shown.values()) == [
        "8\N{NARROW NO-BREAK SPACE}192 characters",
        "1.5 seconds",
        "1\N{NARROW NO-BREAK SPACE}800 seconds",
    ]


def test_the_unit_of_one_is_singular() -> None:
    one = {"page_size": 1, "stuck_s": 1.0, "updates_per_second": 1, "list_ttl_ms": 1}

    assert list(limit_texts(one).values()) == ["1 entry", "1 second", "1 per second", "1 ms"]


@pytest.mark.parametrize(
    ("state", "code", "words"),
    [
        ("running", None, "running"),
        ("exited", 0, "succeeded (exit code 0)"),
        ("exited", 3, "failed (exit code 3)"),
        ("exited", None, "ended"),
        ("timed-out", 143, "failed: timed out (exit code 143)"),
        ("not-started", None, "failed: not started"),
        ("stopped", 143, "stopped (exit code 143)"),
        (None, 3, None),
    ],
)
def test_how_a_program_ended_is_said_in_words(state: str | None, code: int | None, words: str | None) -> None:
    assert outcome({"dev.carrel/state": state, "dev.carrel/exit-code": code}) == words


@pytest.mark.parametrize(
    ("name", "words"),
    [("lastCause", "last failure"), ("left_out", "left out"), ("state", "state"), ("runAt", "run at")],
)
def test_the_name_of_a_fact_is_shown_as_words(name: str, words: str) -> None:
    assert label(name) == words


def test_facts_have_units_and_times_in_utc() -> None:
    facts = {"bytes": 176_128, "written": "2026-11-18T16:28:27.156Z", "problems": []}

    assert fact_texts({"expiresAt": None}) == {"access ends": "never"}
    assert fact_texts(facts) == {"size": "176.1 kB", "last written": "2026-11-18 16:28 UTC", "problems": []}


def test_a_name_that_a_user_chose_is_kept() -> None:
    facts = {"providers": {"streams": {"presets": {"list": "code"}, "streams": 1}}}

    assert fact_texts(facts) == {"providers": {"streams": {"presets": {"list": "code"}, "open event streams": 1}}}


def test_the_pages_use_these_words(browsed: Browsed) -> None:
    assert "characters" in browsed.page("/-/limits")
    assert "max_uri_length" not in browsed.page("/-/limits")
    assert browsed.get("/-/limits.json", {"accept": "*/*"}).json["max_uri_length"] == limits.MAX_URI_LENGTH
    assert "as_others" not in browsed.page("/-/providers")
    assert "always served" in browsed.page("/-/providers")
