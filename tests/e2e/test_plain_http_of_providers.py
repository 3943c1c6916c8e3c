"""What each system's page says of plain HTTP, asked of `carrel serve --http` on the sample project."""

import json
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from typing import NamedTuple

import pytest


class Reply(NamedTuple):
    """What came back."""

    status: int
    headers: Message
    body: bytes


@pytest.fixture(name="address")
def serving(carrel: str, project: Path) -> Iterator[str]:
    command = [carrel, "serve", "--http", "0", "--no-token", "--project", str(project)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        found = next(filter(None, (re.search(r"(http://[^ ]+)/mcp", line) for line in server.stderr)))
        yield found[1]
        server.terminate()


def get(address: str, path: str, **headers: str) -> Reply:
    asked = urllib.request.Request(f"{address}/{path}", headers=headers)
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return Reply(answer.status, answer.headers, answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return Reply(error.code, error.headers, error.read())


def test_a_tree_is_sent_whole_and_then_not_again(address: str) -> None:
    first = get(address, "scopes/tree/project-alpha?depth=2")
    again = get(address, "scopes/tree/project-alpha?depth=2", **{"If-None-Match": first.headers["ETag"]})

    assert first.status == 200
    assert first.body.decode().splitlines()[-1] == "    └── task-3 (Design UI) [TODO]"
    assert first.headers["Cache-Control"] == "private, no-cache"
    assert (again.status, again.body) == (304, b"")


def test_headers_say_of_a_tree_what_a_read_over_mcp_says(address: str) -> None:
    whole = get(address, "scopes/tree/project-alpha?depth=2").headers
    part = get(address, "scopes/tree/project-alpha?limit=1&max_nodes=2").headers
    cut = get(address, "scopes/tree/project-alpha?max_nodes=2").headers

    names = ("Carrel-Depth", "Carrel-Nodes", "Carrel-Truncated", "Carrel-Next")
    assert [whole[name] for name in names] == ["2", "6", "false", None]
    following = "scopes://tree/project-alpha?skip=1&limit=1&max_nodes=2"
    assert [part[name] for name in names] == ["1", "2", "false", following]
    assert [cut[name] for name in names] == ["1", "2", "true", None]


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("scopes/scope/nope", 404, {"error": "Scope not found: nope"}),
        ("scopes/scope/a--b", 400, {"error": "Invalid alias: a--b"}),
        ("scopes/tree/project-alpha?limit=0", 400, None),
        ("sage/failure/nope", 404, {"error": "Failure not found: nope"}),
        ("sage/system/a;b", 400, {"error": "Invalid filename: a;b"}),
        ("alc/cards/nope", 404, {"error": "card 'nope' not found", "name": "MCP_NOT_FOUND"}),
        (
            "workspace/.env",
            403,
            {"error": "Access denied: workspace:///.env (may hold secrets)", "name": "MCP_PERMISSION_DENIED"},
        ),
    ],
)
def test_each_system_says_in_its_own_words_what_is_wrong(
    address: str, path: str, status: int, body: dict[str, str] | None
) -> None:
    reply = get(address, path)

    assert reply.status == status
    assert reply.headers["Content-Type"] == "application/json"
    assert body is None or json.loads(reply.body) == body
