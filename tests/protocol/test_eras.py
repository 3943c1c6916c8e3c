"""What differs between the versions, as tables; and that what is declared is what answers."""

import json
from typing import Any

import pytest

from carrel.catalog.catalog import Catalog
from carrel.protocol import eras, methods
from carrel.protocol.eras import Era
from carrel.protocol.headers import Headers
from carrel.server.server import Server
from tests.support.memory_provider import Memory, Shelf
from tests.support.schemas import LEGACY, MODERN, RESULTS, Conversation

RESOURCES = {"resources/list", "resources/templates/list", "resources/read"}
EXTENSION = {"resources/directory/read", "skills/list", "skills/get"}
DECLARED = {"io.modelcontextprotocol/skills": {"directoryRead": True}}


@pytest.mark.parametrize(
    ("requested", "answered"),
    [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2024-11-05"),
        ("2026-07-28", "2025-11-25"),
        ("2023-01-01", "2025-11-25"),
        ("v999.0.0", "2025-11-25"),
        ("", "2025-11-25"),
    ],
)
def test_a_version_we_have_is_repeated_and_any_other_becomes_the_latest_legacy(requested: str, answered: str) -> None:
    assert eras.negotiate(requested) == answered


@pytest.fixture(name="next_version")
def with_another_row(monkeypatch: pytest.MonkeyPatch) -> str:
    """Add a version as a future one is added: by a row."""
    later = eras.Version("2026-12-15", Era.MODERN)
    known = [eras.Version(name, Era.MODERN) for name in eras.VERSIONS.modern]
    known += [eras.Version(name, Era.LEGACY, name == "2025-03-26") for name in eras.VERSIONS.legacy]
    monkeypatch.setattr(eras, "VERSIONS", eras.VersionTable([later, *known]))
    return later.name


def asked(method: str, version: str, **params: object) -> bytes:
    """Return a modern request of a version."""
    meta = {"io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": {}}
    return json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}, separators=(",", ":")
    ).encode()


def test_a_row_of_the_table_is_all_that_a_new_version_needs(next_version: str) -> None:
    server = Server(Catalog([Memory()]))

    def ask(method: str, version: str, **params: object) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(server.answer(asked(method, version, **params)) or b"")
        return answer

    for version in (next_version, MODERN):
        assert ask("server/discover", version)["result"]["supportedVersions"] == [next_version, MODERN]
        assert ask("resources/read", version, uri="test:///plain")["result"]["resultType"] == "complete"
        assert ask("resources/list", version)["result"]["ttlMs"] == 1_000
    refused = ask("resources/list", "2027-01-01")["error"]
    assert (refused["code"], refused["data"]["supported"]) == (-32022, [next_version, MODERN])
    assert eras.negotiate(next_version) == LEGACY


def test_a_header_of_a_new_version_agrees_with_the_body(next_version: str) -> None:
    line = asked("resources/read", next_version, uri="test:///plain")
    beside = Headers(next_version, "resources/read", "test:///plain")

    call = methods.parse_read(line, beside)

    assert call is not None
    assert call.era is Era.MODERN


def test_only_one_version_has_batches() -> None:
    assert eras.VERSIONS.with_batches == {"2025-03-26"}


def test_the_methods_of_each_era_are_these() -> None:
    everything = {"completion/complete", "tools/list", "tools/call"}
    modern = {*RESOURCES, *EXTENSION, "server/discover", "subscriptions/listen"}
    legacy = {*RESOURCES, *EXTENSION, "initialize", "ping", "resources/subscribe", "resources/unsubscribe"}

    assert eras.served(Era.MODERN, completes=False, calls=False) == modern
    assert eras.served(Era.LEGACY, completes=False, calls=False) == legacy
    assert eras.served(Era.MODERN, completes=True, calls=True) == modern | everything
    assert eras.served(Era.LEGACY, completes=True, calls=True) == legacy | everything


def test_what_is_declared_depends_on_what_is_served() -> None:
    resources = {"subscribe": True, "listChanged": True}

    always = {"resources": resources, "extensions": DECLARED}
    assert eras.capabilities(completes=False, calls=False) == always
    assert eras.capabilities(completes=True, calls=False) == {**always, "completions": {}}
    assert eras.capabilities(completes=False, calls=True) == {**always, "tools": {"listChanged": True}}


PARAMS: dict[str, dict[str, object]] = {
    "initialize": {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}},
    "resources/read": {"uri": "test:///plain"},
    "resources/directory/read": {"uri": "test:///"},
    "skills/get": {"uri": "test:///plain"},
    "resources/subscribe": {"uri": "test:///plain"},
    "resources/unsubscribe": {"uri": "test:///plain"},
    "completion/complete": {
        "ref": {"type": "ref/resource", "uri": "test:///note/{id}"},
        "argument": {"name": "id", "value": "00"},
    },
    "tools/call": {"name": "echo", "arguments": {}},
}
CAPABILITY_OF = {
    "completion/complete": "completions",
    "tools/list": "tools",
    "tools/call": "tools",
    **dict.fromkeys(EXTENSION, "extensions"),
    **dict.fromkeys([*RESOURCES, "resources/subscribe", "resources/unsubscribe", "subscriptions/listen"], "resources"),
}


class WithoutExtras(Shelf):
    """Serves `test:///plain` and has neither completion nor tools."""


@pytest.mark.parametrize("version", [MODERN, LEGACY])
@pytest.mark.parametrize("full", [True, False])
def test_a_capability_and_its_methods_never_disagree(version: str, full: bool) -> None:
    provider = Memory() if full else WithoutExtras("test", {"plain": "x"})
    client = Conversation(Server(Catalog([provider])))
    opening, params = ("server/discover", None) if version == MODERN else ("initialize", PARAMS["initialize"])
    declared = client.ask(opening, params, version=version)["capabilities"]
    other_era = {"server/discover", "subscriptions/listen"} if version == LEGACY else {"initialize"}
    own = {"ping", "resources/subscribe", "resources/unsubscribe", "initialize"} if version == LEGACY else set()

    for method in sorted(set(RESULTS) - other_era - {"subscriptions/listen", "resources/subscribe"}):
        answered = client.ask(method, PARAMS.get(method), version=version).get("code") != -32601
        is_era = version == LEGACY or method not in {"ping", "resources/unsubscribe"}
        expected = CAPABILITY_OF.get(method, "resources") in declared or method in own
        assert (method, answered) == (method, expected and is_era)


@pytest.mark.parametrize("version", [MODERN, LEGACY])
@pytest.mark.parametrize(
    "method", ["prompts/list", "prompts/get", "logging/setLevel", "roots/list", "x", "", "é" * 500]
)
def test_what_is_not_declared_is_unknown(version: str, method: str) -> None:
    client = Conversation(Server(Catalog([Memory()])))
    shown = method if len(method) <= 200 else "é" * 200 + "…"

    assert client.ask(method, version=version) == {
        "code": -32601,
        "message": f"Method not found: {shown}",
        "data": {"dev.carrel/error": "invalid"},
    }


@pytest.mark.parametrize("method", ["ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"])
def test_what_only_the_legacy_era_had_is_unknown_in_the_modern_one(method: str) -> None:
    client = Conversation(Server(Catalog([Memory()])))

    assert client.ask(method, {"uri": "test:///plain"})["code"] == -32601


def test_initialize_is_legacy_even_when_it_says_otherwise() -> None:
    client = Conversation(Server(Catalog([Memory()])))

    answer = client.say(client.request("initialize", PARAMS["initialize"], version=MODERN))

    assert answer is not None
    assert answer.startswith(b'{"id":1,"result":{"protocolVersion":"2025-11-25",')
    assert b"resultType" not in answer
