"""Sealed session ids: readable for every replica with the key, for the caller who opened the session, for a day."""

import pytest

from carrel.catalog.access import Access
from carrel.transports.http import session_seal
from carrel.transports.http.session_seal import SessionSeal

ALICE = Access("jwt alice", frozenset({"scopes:read", "logs:read"}))


def test_another_replica_with_the_key_opens_an_id() -> None:
    session_id, state = SessionSeal(b"a shared key").seal(ALICE, "2025-11-25", "a client")

    assert SessionSeal(b"a shared key").open(session_id, ALICE) == state
    assert (state.version, state.client) == ("2025-11-25", "a client")
    assert session_id.isascii()
    assert session_id.isprintable()
    assert "alice" not in session_id


def test_ids_are_never_the_same() -> None:
    seal = SessionSeal(b"a shared key")
    made = {seal.seal(ALICE, "2025-11-25", "")[0] for _ in range(50)}

    assert len(made) == 50


@pytest.mark.parametrize(
    "other",
    [
        Access("jwt bob", ALICE.scopes),
        Access("jwt alice"),
        Access("jwt alice", frozenset({"scopes:read"})),
        Access("jwt alice", frozenset({"scopes:read", "logs:read", "logs:write"})),
    ],
)
def test_an_id_is_of_no_use_to_another_caller_or_with_other_rights(other: Access) -> None:
    seal = SessionSeal(b"a shared key")

    assert seal.open(seal.seal(ALICE, "2025-11-25", "")[0], other) is None


def test_an_id_with_another_key_is_unknown() -> None:
    session_id, _ = SessionSeal(b"one key").seal(ALICE, "2025-11-25", "")

    assert SessionSeal(b"another key").open(session_id, ALICE) is None


def test_an_id_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_seal, "LIFE_S", 0)
    seal = SessionSeal(b"a shared key")

    assert seal.open(seal.seal(ALICE, "2025-11-25", "")[0], ALICE) is None


def test_an_id_that_was_changed_anywhere_is_unknown() -> None:
    seal = SessionSeal(b"a shared key")
    session_id, _ = seal.seal(ALICE, "2025-11-25", "")
    for at in range(0, len(session_id), 7):
        changed = session_id[:at] + ("A" if session_id[at] != "A" else "B") + session_id[at + 1 :]
        assert seal.open(changed, ALICE) is None, at


@pytest.mark.parametrize("text", ["", "x", "....", "a.b.c.d.e", "0" * 9_000, "é.é.é.é.é", "eyJ9.....", "\0" * 10])
def test_any_other_text_is_unknown(text: str) -> None:
    assert SessionSeal(b"a shared key").open(text, ALICE) is None
