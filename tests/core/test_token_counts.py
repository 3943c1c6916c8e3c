"""Tokens in the entries of a list: known from what was read or indexed, and for that state only."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from carrel.app.app import Desk, open_desk
from carrel.app.config import load
from carrel.core.model import Annotations, Page, Reading, Resource, Text
from carrel.core.token_counts import MAX_COUNTS, TOKENS, TokenCounts
from carrel.core.tokens import estimate_tokens
from carrel.protocol.eras import Era
from carrel.protocol.jsonrpc import plain
from carrel.protocol.results import PLAIN_ENTRY_BYTES, list_result
from carrel.server.requests import Running

CODE = "def first() -> int:\n    return 1\n"


def entry(uri: str, modified_ms: int | None, size: int | None = 5) -> Resource:
    return Resource(uri, uri, annotations=Annotations(last_modified_ms=modified_ms), size=size)


def reading(text: str, modified_ms: int | None) -> Reading:
    meta = {"dev.carrel/total": len(text), TOKENS: estimate_tokens(text)}
    return Reading((Text(text, meta=meta),), last_modified_ms=modified_ms)


def test_a_count_holds_for_the_state_in_which_it_was_made() -> None:
    counts = TokenCounts()
    counts.remember("x://a", reading("hello", 7))

    tokens = estimate_tokens("hello")
    assert counts.of([entry("x://a", 7), entry("x://a", 8), entry("x://a", 7, 6), entry("x://a", None)]) == (
        tokens,
        None,
        None,
        None,
    )
    assert counts.of([entry("x://b", 7)]) == (None,)


def test_nothing_is_said_while_nothing_is_known() -> None:
    assert TokenCounts().of([entry("x://a", 7)]) == ()


@pytest.mark.parametrize(
    "passed_over",
    [
        reading("hello", None),
        Reading((Text("hello"),), last_modified_ms=7),
        Reading((Text("a"), Text("b")), last_modified_ms=7),
    ],
)
def test_only_a_whole_text_with_a_time_of_change_is_remembered(passed_over: Reading) -> None:
    counts = TokenCounts()
    counts.remember("x://a", passed_over)

    assert counts.of([entry("x://a", 7)]) == ()


def test_a_bounded_number_is_remembered() -> None:
    counts = TokenCounts()
    for number in range(MAX_COUNTS + 1):
        counts.remember(f"x://{number}", reading("a", 7))

    assert counts.of([entry("x://0", 7, 1), entry(f"x://{MAX_COUNTS}", 7, 1)]) == (None, estimate_tokens("a"))


def test_an_entry_stays_short_and_gives_up_its_date_before_its_tokens() -> None:
    def spelled(path: str) -> dict[str, object]:
        uri = f"workspace:///{path}"
        one = Resource(uri, path, "", "text/x-python", size=12_345, annotations=Annotations(last_modified_ms=10**12))
        page = list_result(Page((one,)), Era.LEGACY, (3_456,))
        [resource] = json.loads(plain(page))["resources"]
        assert len(json.dumps(resource, separators=(",", ":"))) <= PLAIN_ENTRY_BYTES
        return dict(resource)

    short, usual, long = spelled("a.py"), spelled("src/carrel/core/tokens.py"), spelled(f"src/{'x' * 45}.py")
    assert (short["_meta"], "annotations" in short) == ({TOKENS: 3_456}, True)
    assert (usual["_meta"], "annotations" in usual) == ({TOKENS: 3_456}, False)
    assert "_meta" not in long


@pytest.fixture(name="desk")
def a_desk(tmp_path: Path) -> Iterator[Desk]:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / "a.py").write_text(CODE, encoding="utf-8")
    (project / "b.md").write_text("# Title\n\nWords.\n", encoding="utf-8")
    for path in project.iterdir():
        os.utime(path, (1_000_000_000, 1_000_000_000))
    environment = {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    desk = open_desk(load(str(project), environment, ()))
    yield desk
    desk.close()


def lines(desk: Desk) -> list[str]:
    [text] = desk.catalog.call("list_resources", {"prefix": "workspace:///"}, Running(lambda: None)).blocks
    return [line for line in str(text).splitlines() if line.startswith("workspace:///")]


def test_a_file_that_was_read_has_its_tokens_in_the_list(desk: Desk) -> None:
    assert lines(desk) == [f"workspace:///a.py  {len(CODE)} bytes", "workspace:///b.md  16 bytes"]

    desk.catalog.call("read_resource", {"uri": "a.py"}, Running(lambda: None))

    assert lines(desk)[0] == f"workspace:///a.py  {len(CODE)} bytes, {estimate_tokens(CODE)} tokens"


@pytest.mark.parametrize(
    "uri", ["a.py", "workspace:///a.py?outline", "a.py?budget=5", "a.py?budget=500", "a.py?outline&budget=9"]
)
def test_every_way_of_counting_a_text_is_remembered(desk: Desk, uri: str) -> None:
    desk.catalog.call("read_resource", {"uri": uri}, Running(lambda: None))

    assert lines(desk)[0] == f"workspace:///a.py  {len(CODE)} bytes, {estimate_tokens(CODE)} tokens"


@pytest.mark.parametrize("uri", ["a.py?lines=1", "a.py?start=3", "a.py?lines=1&budget=500", "a.py?start=2&budget=500"])
def test_a_part_is_not_taken_for_the_whole(desk: Desk, uri: str) -> None:
    desk.catalog.call("read_resource", {"uri": uri}, Running(lambda: None))

    assert lines(desk)[0] == f"workspace:///a.py  {len(CODE)} bytes"


def test_a_file_that_changed_has_no_count_any_more(desk: Desk) -> None:
    desk.catalog.call("read_resource", {"uri": "a.py"}, Running(lambda: None))
    os.utime(f"{desk.config.root}/a.py", (1_000_000_005, 1_000_000_005))

    assert lines(desk)[0] == f"workspace:///a.py  {len(CODE)} bytes"
