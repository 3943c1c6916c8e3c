"""Tokens with other scopes search one server while it indexes and files change: each finds only what it may read."""

import json
import os
import re
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.sage_folder import checkpoint, put

SCOPES = {"files": "workspace:read", "memory": "sage:read", "none": "logs:read"}
MAY_FIND = {"files": "workspace", "memory": "sage", "none": "logs"}
QUERIES = ("walrus", "/walrus\\w*/", "walrus scheme:sage", "pond path:src/")
ROUNDS = 1


def token(carrel: str, project: Path, name: str, scope: str) -> str:
    """Make a token of one scope."""
    environment = {**os.environ, "XDG_STATE_HOME": str(project.parent / "state")}
    command = [carrel, "token", "add", name, "--scope", scope, "--project", str(project)]
    made = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return next(word for word in made.stdout.split() if word.startswith("carrel_"))


@contextmanager
def serving(carrel: str, project: Path) -> Iterator[str]:
    """Start a server that knows these tokens, and so prints none; yield its address."""
    environment = {**os.environ, "XDG_STATE_HOME": str(project.parent / "state")}
    command = [carrel, "serve", "--http", "0", "--project", str(project)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stderr is not None
        try:
            yield next(filter(None, (re.search(r"(http://[^ ]+)/mcp", line) for line in server.stderr)))[1]
        finally:
            server.terminate()


def search(address: str, bearer: str, query: str) -> dict[str, Any]:
    """Ask the server over plain HTTP."""
    url = f"{address}/-/search?{urllib.parse.urlencode({'q': query})}"
    asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {bearer}"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def test_each_token_finds_only_its_own_while_the_server_indexes(
    carrel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    project = tmp_path / "zoo"
    for number in range(120):
        put(project / f"src/{number % 20}/pond{number}.py", f"def walrus_{number}():\n    'walrus pond'\n" * 20)
    for number in range(30):
        stem = f"2026-01-01T00-00-{number:02}_walrus-{number}"
        put(project / f".sage/checkpoints/{stem}.md", checkpoint(stem, "Which walrus pond?", f"pond {number}"))
    tokens = {name: token(carrel, project, name, scope) for name, scope in SCOPES.items()}
    wrong: list[object] = []

    def ask(address: str, name: str) -> None:
        for number in range(ROUNDS):
            for query in QUERIES:
                found = search(address, tokens[name], query)
                hits = [hit["uri"] for hit in found["hits"]]
                most = {"files": 120 + ROUNDS, "memory": 30, "none": 0}[name]
                partial = found.get("partial", {"documents": 0})
                if any(not uri.startswith(f"{MAY_FIND[name]}:") for uri in hits):
                    wrong.append((name, query, hits))
                if found["total"] > most or partial["documents"] > most:
                    wrong.append((name, query, found["total"], partial))
            put(project / f"src/new{number}.py", "walrus pond\n")

    with serving(carrel, project) as address:
        callers = [threading.Thread(target=ask, args=(address, name)) for name in tokens]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        assert wrong == []
        with pytest.raises(urllib.error.HTTPError) as refused:
            search(address, "carrel_nobody", "walrus")
        with refused.value as error:
            assert error.code == 401
        assert search(address, tokens["memory"], "walrus")["total"] == 30
