"""Search as clients meet it: a resource, a tool and a place in plain HTTP, by the same engine and the same access."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from carrel.app.app import Desk, open_desk
from carrel.app.config import load
from carrel.catalog.access import Access, ActingAs
from carrel.client.client import Client
from carrel.core.errors import Denied, RemoteError
from carrel.core.model import Text, ToolResult
from carrel.server.requests import Running


@pytest.fixture(name="desk")
def small_desk(tmp_path: Path) -> Iterator[Desk]:
    project = tmp_path / "garden"
    project.mkdir()
    (project / "carrel.toml").write_text("[workspace]\npreset = 'code'\n", encoding="utf-8")
    (project / "water.py").write_text("def water_tomatoes():\n    return 'done'\n", encoding="utf-8")
    for number in range(12):
        (project / f"bed_{number}.md").write_text(f"# Bed {number}\n\ntomatoes and carrots\n", encoding="utf-8")
    home = {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    home["CARREL_SEARCH_ANSWER_S"] = "60"  # a busy machine may not stop a search half way
    desk = open_desk(load(str(project), home))
    yield desk
    desk.close()


def call(desk: Desk, arguments: Mapping[str, object], client: str = "") -> ToolResult:
    return desk.catalog.call("search", arguments, Running(lambda: None, client=client))


def text_of(desk: Desk, uri: str) -> tuple[str, Mapping[str, object]]:
    [item] = desk.catalog.read(uri).items
    assert isinstance(item, Text)
    return item.text, item.meta or {}


def test_the_tool_and_the_resource_give_the_same_text(desk: Desk) -> None:
    [by_tool] = call(desk, {"query": "water tomatoes"}).blocks
    by_uri, _ = text_of(desk, "carrel://search?q=water%20tomatoes")

    assert by_tool == by_uri
    assert "workspace:///water.py" in by_uri.splitlines()[1]


def test_every_uri_of_a_hit_can_be_read_as_it_stands(desk: Desk) -> None:
    text, _ = text_of(desk, "carrel://search?q=tomatoes&limit=20")
    uris = [line.split("  ")[0] for line in text.splitlines() if line.startswith("workspace:")]

    assert len(uris) == 13
    assert all("tomatoes" in text_of(desk, uri)[0] for uri in uris)


def test_pages_lead_from_one_to_the_next_until_the_end(desk: Desk) -> None:
    seen: list[str] = []
    uri: object = "carrel://search?q=tomatoes&limit=5"
    while isinstance(uri, str):
        text, meta = text_of(desk, uri)
        seen += [line.split("  ")[0] for line in text.splitlines() if line.startswith("workspace:")]
        uri = meta.get("dev.carrel/next")

    assert len(seen) == len(set(seen)) == 13


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "Missing argument: query"),
        ({"query": "   "}, "query"),
        ({"query": "x", "in": "logz"}, "did you mean logs"),
        ({"query": "x", "limit": 0}, "expected an integer from 1 to 100"),
        ({"query": "x", "after": "abc"}, "the value that the previous page returned"),
        ({"q": "x"}, "known: query, in, limit, budget, after"),
    ],
)
def test_bad_arguments_get_an_error_that_teaches(desk: Desk, arguments: dict[str, object], said: str) -> None:
    result = call(desk, arguments)

    assert result.is_error
    assert said in " ".join(str(block) for block in result.blocks)


@pytest.mark.parametrize("budget", [0, -1, 1.5, "many"])
def test_a_bad_budget_is_an_error_of_the_request(desk: Desk, budget: object) -> None:
    with Client.to(desk.server) as client, pytest.raises(RemoteError, match=r"budget=.*1 or more") as caught:
        client.call("search", {"query": "tomatoes", "budget": budget})

    assert caught.value.code == -32602


@pytest.mark.parametrize("budget", [0, -1, "many"])
def test_a_bad_budget_in_the_uri_is_one_too(desk: Desk, budget: object) -> None:
    with Client.to(desk.server) as client, pytest.raises(RemoteError, match=r"budget=.*1 or more") as caught:
        client.read(f"carrel://search?q=tomatoes&budget={budget}")

    assert caught.value.code == -32602


def test_a_budget_may_be_larger_than_any_answer(desk: Desk) -> None:
    assert not call(desk, {"query": "tomatoes", "budget": 10**12}).is_error


def test_a_bad_uri_is_an_invalid_parameter_for_a_client(desk: Desk) -> None:
    with Client.to(desk.server) as client, pytest.raises(RemoteError, match="known: q, in") as caught:
        client.read("carrel://search?query=x")

    assert caught.value.code == -32602


def test_an_answer_fits_the_host_that_asked(desk: Desk) -> None:
    [text] = call(desk, {"query": "tomatoes", "limit": 100, "budget": 1_000_000}, "@cline/core 3").blocks

    assert len(json.dumps(text)) <= 7_000


def test_a_right_to_read_a_scheme_is_enough_to_find_in_it(desk: Desk) -> None:
    with ActingAs(Access("guest", frozenset({"workspace:read"}))):
        text, _ = text_of(desk, "carrel://search?q=tomatoes&limit=20")
        with pytest.raises(Denied):
            desk.catalog.read("carrel://guide")
    with ActingAs(Access("other", frozenset({"logs:read"}))):
        nothing, _ = text_of(desk, "carrel://search?q=tomatoes")

    assert "workspace:///water.py" in text
    assert nothing.startswith("No hits")


def test_nothing_of_search_is_served_where_it_is_turned_off(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "garden" / "carrel.toml").write_text("[search]\nenabled = false\n", encoding="utf-8")
    without = open_desk(load(str(tmp_path / "garden"), {"HOME": str(tmp_path)}))

    assert "search" not in [tool.name for tool in without.catalog.tools()]
    assert "carrel://search" not in str(without.catalog.templates())
    assert without.server.search is None
    assert desk.server.search is not None
    without.close()
