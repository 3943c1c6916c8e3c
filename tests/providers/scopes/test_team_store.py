"""The scopes in the team's database: what is particular to it. All other tests of scopes run with it too."""

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from carrel.app.app import open_desk
from carrel.app.config import load
from carrel.cli import main
from carrel.client.client import Client
from carrel.core.errors import RemoteError
from carrel.core.isotime import now_ms
from carrel.core.model import Text
from carrel.core.store_address import parse_address
from carrel.providers.scopes import changes, queries, tool_calls
from carrel.providers.scopes.scope_errors import ScopeError, StoreFault
from carrel.providers.scopes.team_store import TeamStore
from carrel.stores.outbox import changes_since
from tests.support.gate import Gate
from tests.support.postgres import PostgresServer
from tests.support.scopes_sample import check_invariants, get, plant
from tests.support.waiting import until


@pytest.fixture(name="store")
def empty_store(store_url: str) -> Iterator[TeamStore]:
    with closing(TeamStore(parse_address(store_url))) as store:
        store.prepare()
        yield store


def changed(store: TeamStore, token: str) -> list[str]:
    """Return the URIs in the outbox since a token."""
    with store.database.connection() as connection:
        return sorted(uri for _, uri in changes_since(connection, token).uris)


def token_now(store: TeamStore) -> str:
    """Return the token of now."""
    with store.database.connection() as connection:
        return changes_since(connection, "").token


def test_every_write_is_recorded_with_the_resource_that_it_changes(store: TeamStore) -> None:
    token = token_now(store)
    plant(store)
    assert changed(store, token) == sorted(f"scopes://scope/{alias}" for alias in _aliases(store))

    def record(name: str, **arguments: object) -> list[str]:
        before = token_now(store)
        result = tool_calls.call(store, name, arguments, 100)
        assert not result.is_error, result
        return changed(store, before)

    assert record("scopes.update", alias="task-1", title="New") == ["scopes://scope/task-1"]
    assert record("scopes.update", alias="task-1", title="New") == []
    assert record("scopes.move", alias="task-1", newParentAlias=None) == ["scopes://scope/task-1"]
    assert record("aliases.add", scopeAlias="task-1", newAlias="first") == ["scopes://scope/task-1"]
    assert record("aliases.setCanonical", scopeAlias="task-1", newCanonicalAlias="first") == ["scopes://scope/task-1"]
    assert record("aliases.remove", scopeAlias="first", aliasToRemove="task-1") == ["scopes://scope/first"]
    assert record("scopes.delete", alias="project-alpha", cascade=True) == ["scopes://scope/project-alpha"]
    assert record("scopes.roots") == []


def _aliases(store: TeamStore) -> list[str]:
    with store.reading() as connection:
        return queries.aliases_from(connection, "", 100)


def test_an_import_is_recorded_once_for_all(store: TeamStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(store)
    monkeypatch.setenv("CARREL_STORE_URL", store.database.address.url)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(["scopes", "export", "--out", str(tmp_path / "all.jsonl")]) == 0
    assert main(["scopes", "delete", "project-alpha", "--cascade"]) == 0
    token = token_now(store)

    assert main(["scopes", "import", str(tmp_path / "all.jsonl")]) == 0

    assert changed(store, token) == ["scopes://scope/"]
    assert len(_aliases(store)) == 6


def test_threads_that_create_siblings_at_once_get_different_positions(store: TeamStore) -> None:
    def create(number: int) -> None:
        with store.writing() as connection:
            changes.create(connection, now_ms(), title=f"T{number}", alias=f"t{number}")

    with ThreadPoolExecutor(8) as writers:
        list(writers.map(create, range(40)))

    with store.reading() as connection:
        roots = queries.children(connection, None)
    assert [scope.position for scope in roots] == list(range(40))
    check_invariants(store)


PROCESS = """
import sys
from carrel.core.store_address import parse_address
from carrel.providers.scopes import tool_calls
from carrel.providers.scopes.team_store import TeamStore
store = TeamStore(parse_address(sys.argv[1]))
result = tool_calls.call(store, "scopes.create", {"title": "Once", "idempotencyKey": "key-0001"}, 10)
print(result.blocks[0])
store.close()
"""


@pytest.mark.slow
def test_processes_that_make_one_call_at_once_get_one_result(store: TeamStore) -> None:
    words = [sys.executable, "-c", PROCESS, store.database.address.url]
    started = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    results = {process.communicate(timeout=60)[0] for process in started}

    assert len(results) == 1
    assert json.loads(results.pop())["title"] == "Once"


def test_the_second_of_two_who_change_one_scope_gets_a_conflict(store: TeamStore) -> None:
    plant(store)
    seen = tool_calls.call(store, "scopes.get", {"alias": "task-1"}, 10).structured
    assert isinstance(seen, dict)
    change: dict[str, Any] = {"alias": "task-1", "expectedUpdatedAt": seen["updatedAt"]}

    first = tool_calls.call(store, "scopes.update", {**change, "title": "Mine"}, 10)
    second = tool_calls.call(store, "scopes.update", {**change, "title": "Yours"}, 10)

    assert not first.is_error
    assert json.loads(str(second.blocks[0]))["code"] == "STALE"
    assert get(store, "task-1").title == "Mine"


def test_a_rule_of_the_schema_is_kept_whatever_a_program_does(store: TeamStore) -> None:
    plant(store)

    def archive() -> None:
        with store.writing() as connection:
            connection.execute("UPDATE scopes SET status = 'ARCHIVED' WHERE alias = 'task-1'")
            connection.execute("UPDATE scopes SET status = 'DONE' WHERE alias = 'task-1'")

    def knot() -> None:
        with store.writing() as connection:
            statement = "UPDATE scopes SET parent_id = (SELECT id FROM scopes WHERE alias = 'task-1') WHERE alias = ?"
            connection.execute(statement, ("project-alpha",))

    for change in (archive, knot):
        with pytest.raises(StoreFault) as refused:
            change()
        assert refused.value.shown == "Internal error"
    check_invariants(store)


def test_a_busy_store_says_so(store: TeamStore, store_url: str) -> None:
    def create() -> None:
        with closing(TeamStore(parse_address(store_url), write_s=0.05)) as other, other.writing():
            pass

    with store.writing(), pytest.raises(ScopeError) as refused:
        create()

    assert (refused.value.code, refused.value.status) == ("BUSY", 503)


# A desk


@pytest.fixture(name="desk")
def desk_behind_a_gate(
    unused_port: int, postgres: PostgresServer, store: TeamStore, tmp_path: Path
) -> Iterator[tuple[Client, Gate]]:
    plant(store)
    (tmp_path / "a.txt").write_text("hello", encoding="utf-8")
    with Gate(unused_port, postgres.folder / ".s.PGSQL.5432") as gate:
        environment = {
            "HOME": str(tmp_path / "home"),
            "CARREL_STORE_URL": gate.url(store.database.address.url),
            "CARREL_SCOPES_TOOLS": "write",
        }
        desk = open_desk(load(str(tmp_path), environment))
        with Client.to(desk.server) as client:
            yield client, gate
        desk.close()


def text_of(client: Client, uri: str) -> str:
    """Return the text of a resource."""
    [item] = client.read(uri).items
    assert isinstance(item, Text)
    return item.text


def _error(client: Client, uri: str) -> str | None:
    try:
        client.read(uri)
    except RemoteError as error:
        return error.word
    return None


def test_a_desk_in_any_folder_serves_the_stores_scopes(desk: tuple[Client, Gate]) -> None:
    client, _ = desk

    assert "scopes://scope/project-alpha" in [one.uri for one in client.resources()]
    assert text_of(client, "scopes://tree/project-alpha?depth=1").startswith("project-alpha (Project Alpha)")


def test_a_desk_without_its_database_answers_what_it_can_and_recovers(desk: tuple[Client, Gate]) -> None:
    client, gate = desk
    assert _error(client, "scopes://scope/task-1") is None
    gate.shut()

    assert _error(client, "scopes://scope/task-1") == "unavailable"
    assert text_of(client, "workspace:///a.txt") == "hello"
    assert text_of(client, "scopes://cli-quick-ref")
    assert "workspace:///a.txt" in [one.uri for one in client.resources()]
    failed = client.call("scopes.create", {"title": "New"})
    assert failed.is_error
    assert (failed.meta or {})["dev.carrel/error"] == "unavailable"
    assert json.loads(str(failed.blocks[0])) == {
        "error": "The store cannot be reached now; try again later",
        "code": "UNAVAILABLE",
        "status": 503,
    }
    gate.open()

    assert until(lambda: _error(client, "scopes://scope/task-1") is None)
    assert not client.call("scopes.create", {"title": "New"}).is_error


# Commands


@pytest.mark.parametrize("words", [["list"], ["create", "T"], ["export"]])
def test_a_command_that_cannot_reach_the_store_ends_with_code_2(
    words: list[str],
    unused_port: int,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CARREL_STORE_URL", f"postgresql://ann:s3cret@127.0.0.1:{unused_port}/team")

    assert main(["scopes", *words]) == 2

    sentence = f"the store 127.0.0.1:{unused_port}/team cannot be reached: is Postgres running there?"
    assert capfd.readouterr().err == f"Error: {sentence}\n"
    assert main(["scopes", "--json", *words]) == 2
    assert json.loads(capfd.readouterr().err)["error"] == sentence
    assert not (tmp_path / ".carrel").exists()


def test_a_named_file_goes_before_the_store(
    store_url: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CARREL_STORE_URL", store_url)

    assert main(["scopes", "--db", "mine.db", "create", "Mine", "-a", "mine"]) == 0
    assert main(["scopes", "create", "Ours", "-a", "ours"]) == 0
    capfd.readouterr()
    assert main(["scopes", "list"]) == 0

    assert capfd.readouterr().out == "ours (Ours) [TODO]\n"
