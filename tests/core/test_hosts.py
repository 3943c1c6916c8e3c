"""An answer fits the program that asks: it is known by the name it gives, in both eras, on every transport."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from carrel.catalog.catalog import Catalog
from carrel.core.hosts import ANSWER_LENGTH, INSTRUCTIONS_LENGTH, fit_instructions
from carrel.core.provider import Project
from carrel.providers.mirror import Mirror
from carrel.providers.workspace.provider import Workspace
from carrel.server.connection import Connection
from carrel.server.requests import Work
from carrel.server.server import Server
from carrel.transports.http.app import App
from tests.support.http_asking import JSON, META, OPEN, legacy, modern, modern_headers
from tests.support.http_asking import ask as http
from tests.support.waiting import PATIENCE_S

CLINE = {"name": "@cline/core", "version": "3"}
CALL: Mapping[str, Any] = {"name": "read_resource", "arguments": {"uri": "long.txt"}}
MODERN_CLIENT = {**META, "io.modelcontextprotocol/clientInfo": CLINE}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "long.txt").write_text(("x" * 99 + "\n") * 1_000, encoding="utf-8")
    catalog = Catalog([Workspace(Project(str(tmp_path), {}))])
    catalog.mount(Mirror(catalog))
    yield Server(catalog)
    catalog.close()


def length(answer: Mapping[str, Any]) -> int:
    """Return about how long the text of an answer is."""
    [block] = answer["result"]["content"]
    return round(len(block["text"]), -3)


def ask(connection: Connection, method: str, params: Mapping[str, Any]) -> Any:
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    given = connection.accept(json.dumps(request).encode())
    return json.loads((given.run() if isinstance(given, Work) else given) or b"")


def opening(info: object) -> dict[str, Any]:
    return {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}


def test_a_legacy_client_is_known_by_its_handshake(server: Server) -> None:
    connection = server.connect(lambda _: None)
    ask(connection, "initialize", opening(CLINE))

    assert length(ask(connection, "tools/call", CALL)) == 7_000
    assert length(ask(server.connect(lambda _: None), "tools/call", CALL)) == ANSWER_LENGTH


def test_a_modern_client_is_known_by_each_request(server: Server) -> None:
    connection = server.connect(lambda _: None)

    assert length(ask(connection, "tools/call", {**CALL, "_meta": MODERN_CLIENT})) == 7_000
    assert length(ask(connection, "tools/call", {**CALL, "_meta": META})) == ANSWER_LENGTH


@pytest.mark.parametrize("info", [None, [], "x", {}, {"name": 5}, {"name": None}, {"name": ""}])
def test_a_client_whose_name_is_none_gets_what_any_client_gets(server: Server, info: object) -> None:
    connection = server.connect(lambda _: None)
    assert "result" in ask(connection, "initialize", opening(info))

    assert length(ask(connection, "tools/call", CALL)) == ANSWER_LENGTH
    meta = {**META, "io.modelcontextprotocol/clientInfo": info}
    assert length(ask(connection, "tools/call", {**CALL, "_meta": meta})) == ANSWER_LENGTH


def test_over_http_a_client_is_known_by_its_session_or_its_request(server: Server) -> None:
    async def talk() -> list[int]:
        app = App(server, OPEN, PATIENCE_S)
        opened = await http(app, "POST", "/mcp", JSON, legacy("initialize", opening(CLINE)))
        session = {**JSON, "mcp-session-id": opened.headers["mcp-session-id"]}
        named = modern("tools/call", {**CALL, "_meta": MODERN_CLIENT})
        replies = [
            await http(app, "POST", "/mcp", session, legacy("tools/call", CALL)),
            await http(app, "POST", "/mcp", modern_headers("tools/call", "read_resource"), named),
            await http(app, "POST", "/mcp", JSON, legacy("tools/call", CALL)),
        ]
        return [length(reply.json) for reply in replies]

    assert asyncio.run(talk()) == [7_000, 7_000, ANSWER_LENGTH]


# Instructions


def test_instructions_are_counted_as_the_host_counts_them() -> None:
    fits = "\N{DIRECT HIT}" * (INSTRUCTIONS_LENGTH // 2 - 1) + "\uffff "

    assert fit_instructions(fits, "claude-code") == fits
    assert fit_instructions(fits + "y", "claude-code") != fits + "y"
    assert fit_instructions(fits + "y", "codex-mcp-client") == fits + "y"


def test_instructions_that_fit_cost_no_start_a_codec() -> None:
    script = """
import sys
from carrel.core.hosts import INSTRUCTIONS_LENGTH, fit_instructions
fit_instructions("x" * INSTRUCTIONS_LENGTH, "claude-code")
print("encodings.utf_16_le" in sys.modules)
"""
    words = [sys.executable, "-c", script]
    ran = subprocess.run(words, capture_output=True, text=True, check=True, timeout=PATIENCE_S)

    assert ran.stdout == "False\n"
