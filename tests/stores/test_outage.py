"""What calls do during an outage."""

from time import monotonic

import pytest

from carrel.stores import outage as outages
from carrel.stores.outage import PROBE_S, Outage


def test_a_call_waits_as_usual_until_one_has_found_the_store_away() -> None:
    outage = Outage()

    assert [outage.patience_s(3.0), outage.patience_s(3.0)] == [3.0, 3.0]
    outage.begin(monotonic())
    assert [outage.patience_s(3.0), outage.patience_s(3.0)] == [0.0, 0.0]
    outage.end()
    assert outage.patience_s(3.0) == 3.0


def test_after_a_rest_one_call_tries_again_and_the_others_fail_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    outage = Outage()
    monkeypatch.setattr(outages, "REST_S", 0.0)
    outage.begin(monotonic())

    assert [outage.patience_s(30.0) for _ in range(3)] == [PROBE_S, 0.0, 0.0]
    outage.begin(monotonic())
    assert [outage.patience_s(30.0) for _ in range(3)] == [PROBE_S, 0.0, 0.0]


def test_a_call_that_tries_again_and_hangs_does_not_keep_others_from_trying(monkeypatch: pytest.MonkeyPatch) -> None:
    outage = Outage()
    monkeypatch.setattr(outages, "REST_S", 0.0)
    outage.begin(monotonic())

    assert [outage.patience_s(1e-9), outage.patience_s(1e-9)] == [1e-9, 1e-9]


def test_a_call_that_began_before_the_store_was_back_begins_no_outage() -> None:
    outage = Outage()
    started = monotonic()
    outage.end()

    outage.begin(started)

    assert outage.patience_s(3.0) == 3.0
