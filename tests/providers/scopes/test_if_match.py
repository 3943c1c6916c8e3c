"""`ifMatch` of the tools that write: of writers who have read one version, one wins, and nothing else is changed."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from carrel.catalog.catalog import Catalog
from carrel.core.model import ToolResult
from carrel.providers.scopes import tool_calls, tool_schemas
from carrel.providers.scopes.connection import ScopesStore
from tests.support.scopes_sample import check_invariants, get, planted, provider_in, store_in

pytestmark = pytest.mark.usefixtures("backend")

MAX_CHILDREN = 10_000
WRITES: list[tuple[str, str, dict[str, Any]]] = [
    ("scopes.create", "feature-x", {"title": "One more", "parentAlias": "feature-x"}),
    ("scopes.update", "task-1", {"alias": "task-1", "title": "Other"}),
    ("scopes.move", "task-1", {"alias": "task-1", "newParentAlias": "feature-y"}),
    ("scopes.delete", "task-1", {"alias": "task-1"}),
    ("aliases.add", "task-1", {"scopeAlias": "task-1", "newAlias": "first"}),
    ("aliases.remove", "task-2", {"scopeAlias": "task-2", "aliasToRemove": "second"}),
    ("aliases.setCanonical", "task-2", {"scopeAlias": "task-2", "newCanonicalAlias": "second"}),
]


@pytest.fixture(name="store")
def sample_store(tmp_path: Path) -> Iterator[ScopesStore]:
    store = planted(tmp_path)
    call(store, "aliases.add", scopeAlias="task-2", newAlias="second")
    yield store
    check_invariants(store)
    store.close()


def call(store: ScopesStore, name: str, **arguments: object) -> ToolResult:
    """Call a tool."""
    return tool_calls.call(store, name, arguments, MAX_CHILDREN)


def etag_of(project: Path, alias: str) -> str:
    """Return the ETag of a scope, as a client reads it."""
    with closing(provider_in(project)) as provider:
        return Catalog([provider]).read(f"scopes://scope/{alias}").etag or ""


def everything(store: ScopesStore) -> list[list[Any]]:
    """Return all rows."""
    with store.reading() as connection:
        assert connection is not None
        tables = ("scopes ORDER BY id", "aliases ORDER BY name", "idempotency ORDER BY key")
        return [connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables]


def test_every_tool_that_writes_has_the_argument_and_none_that_reads() -> None:
    having = {tool.name for tool in tool_schemas.tools_of("write") if "ifMatch" in str(tool.input_schema)}
    assert having == {tool.name for tool in tool_schemas.tools_of("write") if not tool.read_only}
    assert having == {name for name, _, _ in WRITES}


@pytest.mark.parametrize(("name", "alias", "arguments"), WRITES, ids=[one[0] for one in WRITES])
def test_the_etag_as_read_is_accepted_and_another_is_a_conflict_with_both(
    store: ScopesStore, tmp_path: Path, name: str, alias: str, arguments: dict[str, Any]
) -> None:
    etag, before = etag_of(tmp_path, alias), everything(store)

    refused = call(store, name, **arguments, ifMatch="0" * 64, idempotencyKey="key-0001")

    assert refused.is_error
    answer = json.loads(str(refused.blocks[0]))
    assert (answer["code"], answer["status"], answer["ifMatch"], answer["etag"]) == ("conflict", 409, "0" * 64, etag)
    assert etag in answer["error"]
    assert refused.meta == {"dev.carrel/error": "conflict", "dev.carrel/if-match": "0" * 64, "dev.carrel/etag": etag}
    assert everything(store) == before

    assert not call(store, name, **arguments, ifMatch=f'"{etag}"', idempotencyKey="key-0002").is_error
    assert everything(store) != before


def test_the_etag_is_of_the_scope_whatever_alias_it_was_read_by(store: ScopesStore, tmp_path: Path) -> None:
    etag = etag_of(tmp_path, "second")
    assert not call(store, "scopes.update", alias="task-2", title="New", ifMatch=etag).is_error
    assert call(store, "scopes.update", alias="second", title="Newer", ifMatch=etag).is_error
    assert get(store, "task-2").title == "New"


def test_a_repeated_call_with_a_key_gets_its_result_although_the_etag_is_old_now(
    store: ScopesStore, tmp_path: Path
) -> None:
    given = {"alias": "task-1", "title": "New", "ifMatch": etag_of(tmp_path, "task-1"), "idempotencyKey": "key-0001"}
    first = call(store, "scopes.update", **given)
    assert not first.is_error
    assert call(store, "scopes.update", **given) == first


def test_an_etag_of_no_scope_is_refused_with_what_is_wrong(store: ScopesStore) -> None:
    before = everything(store)
    without_parent = json.loads(str(call(store, "scopes.create", title="Root", ifMatch="x").blocks[0]))
    assert (without_parent["code"], "parentAlias" in without_parent["error"]) == ("INVALID_ARGUMENT", True)
    gone = json.loads(str(call(store, "scopes.update", alias="nobody", title="T", ifMatch="x").blocks[0]))
    assert gone["code"] == "SCOPE_NOT_FOUND"
    empty = json.loads(str(call(store, "scopes.update", alias="task-1", title="T", ifMatch="").blocks[0]))
    assert empty["code"] == "INVALID_ARGUMENT"
    assert everything(store) == before


@pytest.mark.slow
@pytest.mark.parametrize("writers", [2, 12])
def test_of_writers_with_one_etag_exactly_one_wins(store: ScopesStore, tmp_path: Path, writers: int) -> None:
    stores = [store_in(tmp_path) for _ in range(writers)]
    try:
        for turn in range(5):
            etag = etag_of(tmp_path, "task-1")

            def write(number: int, etag: str = etag, turn: int = turn) -> ToolResult:
                return call(stores[number], "scopes.update", alias="task-1", title=f"{turn} by {number}", ifMatch=etag)

            with ThreadPoolExecutor(writers) as pool:
                results = list(pool.map(write, range(writers)))

            [winner] = [number for number, result in enumerate(results) if not result.is_error]
            assert get(store, "task-1").title == f"{turn} by {winner}"
            current = etag_of(tmp_path, "task-1")
            metas = [dict(result.meta or {}) for result in results if result.is_error]
            assert metas == [
                {"dev.carrel/error": "conflict", "dev.carrel/if-match": etag, "dev.carrel/etag": current}
            ] * (writers - 1)
    finally:
        for one in stores:
            one.close()
