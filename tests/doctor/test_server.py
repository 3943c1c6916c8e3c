"""Faults of the server as a host sees it."""

import pytest

from carrel.doctor import server
from tests.support.doctor import Ward


def test_a_server_that_prints_to_its_output_is_a_problem(ward: Ward) -> None:
    ward.write(ward.home / "lib/sitecustomize.py", "print('hello'); raise SystemExit(3)\n")
    ward.environment["PYTHONPATH"] = str(ward.home / "lib")

    found = ward.one(server.handshake_legacy)
    assert found.state == "problem"
    assert found.message.endswith("SystemExit: 3")


def test_a_slow_start_is_noted(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SLOW_MS", 0.0)

    assert ward.one(server.handshake_modern).message.startswith("2026-07-28 in ")


def test_many_tokens_at_the_start_are_noted(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ward.find(server.conversation) == []
    monkeypatch.setattr(server, "MANY_TOKENS", 10)

    assert "tokens at the start" in ward.one(server.conversation).message


def test_a_server_that_cannot_start_because_of_its_settings_is_not_started(ward: Ward) -> None:
    ward.write(ward.file, "[server]\npagesize = 7\n")

    assert list(server.handshake_modern.find(ward.setup())) == []
