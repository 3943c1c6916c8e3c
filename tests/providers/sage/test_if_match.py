"""`ifMatch` of the tools that write: of writers who have read one version, one wins, and nothing else is written."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from carrel.catalog.catalog import Catalog
from carrel.core.model import ToolResult
from carrel.core.provider import Project
from carrel.core.store_address import StoreAddress
from carrel.providers.sage import Sage
from carrel.providers.sage.tools import TOOLS
from carrel.stores.documents import documents_since
from carrel.stores.shared import acquire, release
from tests.providers.sage.test_saving import call, data_of

FAILURE = {"approach": "Ask dogs", "why_failed": "They bark", "learned": "Ask cats", "keywords": ["dogs"]}
CHECKPOINT = {"core_question": "Why?", "thesis": "Because", "confidence": 0.5}
WRITES: dict[str, dict[str, Any]] = {
    "sage_write_system": {"filename": "pinned/a.md", "content": "Text.\r\n"},
    "sage_save_knowledge": {"id": "cats", "content": "Cats purr.", "keywords": ["cats"]},
    "sage_record_failure": {"id": "dogs", **FAILURE},
    "sage_save_checkpoint": CHECKPOINT,
}
TEXTS = {
    "sage_write_system": "content",
    "sage_save_knowledge": "content",
    "sage_record_failure": "learned",
    "sage_save_checkpoint": "thesis",
}

Opener = Callable[[], Sage]


@pytest.fixture(name="opened")
def opener(tmp_path: Path, backend: str, team_address: StoreAddress) -> Iterator[Opener]:
    """Return a function that opens the memory once more, as another process would."""
    made: list[Sage] = []
    store = team_address if backend == "team" else None

    def open_one() -> Sage:
        made.append(Sage(Project(str(tmp_path), {"HOME": str(tmp_path)}, store=store), tools="write", search="bm25"))
        return made[-1]

    yield open_one
    for sage in made:
        sage.close()


def etag_of(sage: Sage, uri: str) -> str:
    """Return an ETag, as a client reads it."""
    return Catalog([sage]).read(uri).etag or ""


def everything(sage: Sage) -> dict[str, str]:
    """Return the ETag of every entry."""
    return {entry.uri: etag_of(sage, entry.uri) for entry in sage.entries()}


def conflict_of(result: ToolResult) -> tuple[object, object]:
    """Return both ETags of a conflict."""
    assert result.is_error
    meta = dict(result.meta or {})
    assert meta["dev.carrel/error"] == "conflict"
    assert isinstance(result.structured, dict)
    assert (result.structured["code"], result.structured["status"]) == ("conflict", 409)
    assert (result.structured["ifMatch"], result.structured["etag"]) == (
        meta["dev.carrel/if-match"],
        meta["dev.carrel/etag"],
    )
    return meta["dev.carrel/if-match"], meta["dev.carrel/etag"]


def test_every_tool_that_writes_has_the_argument_and_none_that_reads() -> None:
    having = {one.tool.name for one in TOOLS if "ifMatch" in str(one.tool.input_schema)}
    assert having == {one.tool.name for one in TOOLS if not one.tool.read_only} == set(WRITES)


@pytest.mark.parametrize("tool", WRITES)
def test_the_etag_as_read_is_accepted_and_another_is_a_conflict_with_both(opened: Opener, tool: str) -> None:
    sage, other = opened(), opened()
    uri = data_of(sage, tool, **WRITES[tool])["uri"]
    etag, before = etag_of(sage, uri), everything(sage)
    changed = {**WRITES[tool], TEXTS[tool]: "Other text"}

    assert conflict_of(call(other, tool, **changed, ifMatch="0" * 32)) == ("0" * 32, etag)
    assert everything(other) == everything(sage) == before

    new = data_of(other, tool, **changed, ifMatch=etag)["uri"]
    assert "Other text" in str(Catalog([sage]).read(new).items[0])
    if tool != "sage_save_checkpoint":
        assert new == uri
        assert conflict_of(call(sage, tool, **WRITES[tool], ifMatch=etag)) == (etag, etag_of(sage, uri))


@pytest.mark.parametrize("tool", WRITES)
def test_what_does_not_exist_is_a_conflict_without_a_second_etag(opened: Opener, tool: str) -> None:
    sage = opened()
    assert conflict_of(call(sage, tool, **WRITES[tool], ifMatch="*")) == ("*", None)
    assert everything(sage) == {}


def test_a_part_of_an_id_is_not_the_item_to_replace(opened: Opener) -> None:
    sage = opened()
    data_of(sage, "sage_save_knowledge", id="cats-and-dogs", content="Both.", keywords=["k"])
    etag = etag_of(sage, "sage://knowledge/cats")
    assert conflict_of(call(sage, "sage_save_knowledge", **WRITES["sage_save_knowledge"], ifMatch=etag)) == (etag, None)
    assert list(everything(sage)) == ["sage://knowledge/cats-and-dogs"]


@pytest.mark.parametrize("form", ["markdown", "toon"])
def test_the_etag_of_every_format_is_accepted(opened: Opener, form: str) -> None:
    sage = opened()
    data_of(sage, "sage_save_knowledge", **WRITES["sage_save_knowledge"])
    etag = etag_of(sage, f"sage://knowledge/cats?format={form}")
    data_of(sage, "sage_save_knowledge", **WRITES["sage_save_knowledge"] | {"content": "More."}, ifMatch=etag)


def test_a_checkpoint_is_refused_if_another_continued_the_same_one(opened: Opener) -> None:
    mine, yours = opened(), opened()
    first = data_of(mine, "sage_save_checkpoint", **CHECKPOINT)
    etag = etag_of(mine, first["uri"])

    second = data_of(mine, "sage_save_checkpoint", **CHECKPOINT | {"thesis": "Mine"}, ifMatch=etag)
    given, current = conflict_of(call(yours, "sage_save_checkpoint", **CHECKPOINT, ifMatch=etag))

    assert (given, current) == (etag, etag_of(yours, second["uri"]))
    named = CHECKPOINT | {"thesis": "Yours", "continues_from": first["id"]}
    data_of(yours, "sage_save_checkpoint", **named, ifMatch=etag)


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["sage_write_system", "sage_save_knowledge", "sage_record_failure"])
def test_of_writers_with_one_etag_exactly_one_wins(opened: Opener, tool: str) -> None:
    writers = [opened() for _ in range(8)]
    uri = data_of(writers[0], tool, **WRITES[tool])["uri"]
    for turn in range(3):
        etag = etag_of(writers[turn], uri)

        def write(number: int, etag: str = etag, turn: int = turn) -> ToolResult:
            text = {TEXTS[tool]: f"turn {turn} by {number}"}
            return call(writers[number], tool, **WRITES[tool] | text, ifMatch=etag)

        with ThreadPoolExecutor(8) as pool:
            results = list(pool.map(write, range(8)))

        [winner] = [number for number, result in enumerate(results) if not result.is_error]
        reading = Catalog([writers[-1]]).read(uri)
        assert f"turn {turn} by {winner}" in str(reading.items[0])
        losers = [conflict_of(result) for result in results if result.is_error]
        assert losers == [(etag, reading.etag)] * 7


@pytest.mark.slow
def test_readers_and_guarded_writers_of_one_replica_do_not_wait_for_each_other(
    opened: Opener, team_address: StoreAddress, backend: str
) -> None:
    sage = opened()
    uri = data_of(sage, "sage_write_system", **WRITES["sage_write_system"])["uri"]

    def work(number: int) -> bool:
        if number % 2:
            return bool(etag_of(sage, uri))
        return call(sage, "sage_write_system", filename=f"{number}.md", content="x", ifMatch="no").is_error

    with ThreadPoolExecutor(24) as pool:
        assert all(pool.map(work, range(240)))
    if backend == "team":
        database = acquire(team_address)
        assert [one.name for one in documents_since(database, "sage", -1)[0] if one.data] == ["system/pinned/a.md"]
        release(database)
