"""Parts of the list in Fly's way: by folder, or by the beginning of a URI."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from carrel.catalog.catalog import Catalog
from carrel.client.client import Client
from carrel.core.errors import RequestError
from carrel.core.provider import Place, Project
from carrel.providers.guide import Guide
from carrel.providers.workspace import Workspace
from carrel.server.server import Server
from tests.support.schemas import LEGACY, MODERN
from tests.support.workspaces import SECRET, Served, fill, record_opens


def browse(served: Served, directory: str | None = None, prefix: str = "") -> list[str] | str:
    try:
        return [entry.uri for entry in served.workspace.browse(directory, prefix)]
    except RequestError as error:
        return f"{type(error).__name__} {error.data.get('reason') or error.data.get('parameter') or ''}".strip()


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    tmp_path = tmp_path_factory.mktemp("browsed")
    files = {"lib/main.dart": "m", "lib/src/a b.dart": "a", "lib2/x.dart": "x", "pubspec.yaml": "p", "a%20.yaml": "%"}
    fill(tmp_path / "app", {**files, "notes.txt": "n", ".dot/h.yaml": "h", "lib/.env": SECRET})
    fill(tmp_path / "docs", {"d.yaml": "d", "lib/e.yaml": "e"})
    (tmp_path / "app/link").symlink_to("lib")
    with Served(tmp_path / "app", preset="flutter", roots={"docs": Place(str(tmp_path / "docs"))}) as served:
        yield served


LIB = ["workspace:///lib/main.dart", "workspace:///lib/src/a%20b.dart"]
MAIN = ["workspace:///a%2520.yaml", *LIB, "workspace:///lib2/x.dart", "workspace:///pubspec.yaml"]
DOCS = ["workspace://@docs/d.yaml", "workspace://@docs/lib/e.yaml"]


DIRECTORIES = {
    "": MAIN,
    ".": MAIN,
    "./": MAIN,
    "lib": LIB,
    "lib/": LIB,
    "./lib/.": LIB,
    "lib//src": LIB[1:],
    "workspace:///lib": LIB,
    "workspace:///lib/": LIB,
    "workspace://lib": LIB,
    "WORKSPACE:/lib": LIB,
    "workspace://@docs": DOCS,
    "workspace://docs/lib": DOCS[1:],
    "workspace:///": MAIN,
    "/": "Denied outside",
    "/etc": "Denied outside",
    "/lib": "Denied outside",
    "..": "Denied outside",
    "lib/..": "Denied outside",
    "lib/../lib": "Denied outside",
    "lib\\src": "Denied outside",
    "workspace:///..": "Denied outside",
    "nope": "NotFound",
    "lib/nope": "NotFound",
    "lib%2Fsrc": "NotFound",
    "workspace://@nope/x": "NotFound",
    "pubspec.yaml": "BadArgument directory",
    "lib/main.dart": "BadArgument directory",
    "workspace:///lib/main.dart": "BadArgument directory",
    "workspace:///lib?after=x": "BadArgument directory",
    "workspace:///%zz": "BadArgument uri",
    "a\0b": "BadArgument directory",
    "notes.txt": "NotFound",
    "missing.txt": "NotFound",
    "lib/.env": "NotFound",
    ".git": "Denied deny",
    ".dot": [],
    "link": [],
}


def test_a_directory_is_a_path_or_a_uri_of_a_folder(app: Served) -> None:
    assert {directory: browse(app, directory) for directory in DIRECTORIES} == DIRECTORIES


def test_an_absolute_directory_must_lie_in_the_root(app: Served) -> None:
    own = app.root

    assert browse(app, own) == MAIN
    assert browse(app, f"{own}/lib") == LIB
    assert browse(app, f"workspace://{own}/lib") == LIB
    assert browse(app, f"{own}2") == "Denied outside"
    assert browse(app, own.removesuffix("/app")) == "Denied outside"
    assert browse(app, f"{own}/../app/lib") == "Denied outside"


PREFIXES = {
    "": [*MAIN, *DOCS],
    "workspace:": [*MAIN, *DOCS],
    "workspace:/": [*MAIN, *DOCS],
    "workspace://": [*MAIN, *DOCS],
    "workspace:///": MAIN,
    "workspace:///lib": [*LIB, MAIN[3]],
    "workspace:///lib/": LIB,
    "workspace:///lib/m": LIB[:1],
    "workspace:///lib/src/a b": LIB[1:],
    "workspace:///lib/src/a%2": LIB[1:],
    "workspace:///lib/src/a%": LIB[1:],
    "workspace://lib/": LIB,
    "WORKSPACE:lib/": LIB,
    "workspace://@docs/": DOCS,
    "workspace://docs/l": DOCS[1:],
    "workspace://@do": DOCS,
    "workspace://@": DOCS,
    "workspace:///nope": [],
    "workspace:///lib?x": [],
    "other://": [],
    "logs://run": [],
    "workspace:///..": "Denied outside",
    "workspace:///lib/../x": "Denied outside",
    "workspace:///%zz/x": "BadArgument uri",
}


def test_a_prefix_is_compared_with_canonical_uris(app: Served) -> None:
    assert {prefix: browse(app, None, prefix) for prefix in PREFIXES} == PREFIXES


def test_an_alias_in_a_prefix_is_resolved_unless_its_plain_meaning_exists(tmp_path: Path) -> None:
    own = f"workspace://{tmp_path}"
    fill(tmp_path, {"lib/main.dart": "m", "lib2/x.dart": "x"})
    main, second = "workspace:///lib/main.dart", "workspace:///lib2/x.dart"
    with Served(tmp_path, preset="flutter") as app:
        by_alias = [browse(app, None, own + rest) for rest in ("", "/", "/li", "/lib/", "/lib/m")]
        fill(tmp_path, {f"{str(tmp_path).lstrip('/')}/lib/plain.dart": "p"})

        assert by_alias == [[main, second], [main, second], [main, second], [main], [main]]
        assert browse(app, None, f"{own}/lib/") == [f"{own}/lib/plain.dart"]


def test_a_part_of_the_list_goes_on_after_a_place(app: Served) -> None:
    rest = [entry.uri for entry in app.workspace.browse("lib", "", LIB[0])]
    by_prefix = [entry.uri for entry in app.workspace.browse(None, "workspace:///lib", LIB[1])]

    assert (rest, by_prefix) == (LIB[1:], [MAIN[3]])


@pytest.fixture
def fluent(tmp_path: Path) -> Iterator[Client]:
    """Yield a client of a desk on which Fly's fields stand in every result."""
    fill(tmp_path, {"a.md": "aé", "sub/b.md": "b"})
    workspace = Workspace(Project(str(tmp_path), {}), dialect="always")
    catalog = Catalog()
    catalog.mount(Guide(catalog, "desk"), workspace)
    with Client.to(Server(catalog)) as client:
        yield client
    catalog.close()


@pytest.mark.parametrize(("uri", "size"), [("workspace:///a.md", 3), ("carrel://health", None)])
def test_every_provider_answers_with_fly_s_fields(fluent: Client, uri: str, size: int | None) -> None:
    read = fluent.request("resources/read", {"uri": uri})

    text = read["contents"][0]["text"]
    whole = len(text.encode()) if size is None else size
    assert [read.get(name) for name in ("content", "encoding", "total", "start", "length")] == [
        text,
        "utf-8",
        whole,
        0,
        whole,
    ]


def test_a_size_that_is_not_known_is_not_reported_in_fly_s_list(fluent: Client) -> None:
    listed = fluent.request("resources/list", {})

    sizes = {entry["uri"]: entry.get("size") for entry in listed["resources"]}
    assert [item["uri"] for item in listed["items"]] == [entry["uri"] for entry in listed["resources"]]
    assert {item["uri"]: item.get("size") for item in listed["items"]} == sizes
    assert (sizes["workspace:///a.md"], sizes["carrel://guide"]) == (3, None)
    assert listed["total"] == len(sizes)


def test_a_folder_has_no_content_in_fly_s_way_either(fluent: Client) -> None:
    read = fluent.request("resources/read", {"uri": "workspace:///"})

    assert ("content" in read, len(read["contents"])) == (False, 2)


def test_a_prefix_opens_no_folder_that_cannot_hold_it(app: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = record_opens(monkeypatch)

    assert browse(app, None, "workspace:///lib/src/") == LIB[1:]
    assert {segments for segments in opened if segments[:1] == ("lib2",)} == set()


# Numbered pages, as a client sends for them

PARTS = ["a.dart", "b/c.dart", "b/d.dart", "b/e.yaml", "pubspec.yaml"]


@pytest.fixture(scope="module")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    files = {path: path for path in PARTS}
    with Served(fill(tmp_path_factory.mktemp("numbered"), {**files, "notes.txt": "n"})) as served:
        yield served


def items(paths: list[str]) -> list[dict[str, object]]:
    return [{"uri": f"workspace:///{path}", "size": len(path)} for path in paths]


@pytest.mark.parametrize("version", [MODERN, LEGACY])
@pytest.mark.parametrize(
    ("asked", "paths", "numbers"),
    [
        ({"page": 0}, PARTS, (5, 0, 100)),
        ({"pageSize": 2}, PARTS[:2], (5, 0, 2)),
        ({"page": 1, "pageSize": 2}, PARTS[2:4], (5, 1, 2)),
        ({"page": 2, "pageSize": 2}, PARTS[4:], (5, 2, 2)),
        ({"page": 9, "pageSize": 2}, [], (5, 9, 2)),
        ({"pageSize": 0}, [], (5, 0, 0)),
        ({"directory": ""}, PARTS, (5, 0, 100)),
        ({"directory": "b", "pageSize": 2}, PARTS[1:3], (3, 0, 2)),
        ({"uri": "workspace:///b/", "page": 1, "pageSize": 2}, PARTS[3:4], (3, 1, 2)),
        ({"directory": None, "page": None, "pageSize": 3, "uri": None}, PARTS[:3], (5, 0, 3)),
    ],
    ids=str,
)
def test_a_numbered_page_has_fly_s_fields_beside_the_standard_ones(
    numbered: Served, version: str, asked: dict[str, object], paths: list[str], numbers: tuple[int, int, int]
) -> None:
    listed = numbered.ask("resources/list", asked, version)

    assert listed["items"] == items(paths)
    assert [entry["uri"] for entry in listed["resources"]] == [item["uri"] for item in items(paths)]
    assert (listed["total"], listed["page"], listed["pageSize"]) == numbers


def test_a_standard_list_has_none_of_fly_s_fields(numbered: Served) -> None:
    listed = numbered.ask("resources/list")

    assert {"items", "total", "page", "pageSize"} & listed.keys() == set()
    assert [entry["name"] for entry in listed["resources"]] == PARTS


def test_without_a_page_size_a_page_has_100_entries(tmp_path: Path) -> None:
    fill(tmp_path, {f"{number:03}.md": "" for number in range(101)})
    with Served(tmp_path) as served:
        listed = served.ask("resources/list", {"page": 0})

    assert (len(listed["items"]), listed["total"], listed["pageSize"]) == (100, 101, 100)


def test_a_numbered_page_goes_on_by_its_cursor_in_the_standard_way(numbered: Served) -> None:
    first = numbered.ask("resources/list", {"directory": "b", "pageSize": 2})
    rest = numbered.ask("resources/list", {"cursor": first["nextCursor"]})

    assert [entry["name"] for entry in rest["resources"]] == ["b/e.yaml"]
    assert {"items", "total", "nextCursor"} & rest.keys() == set()


@pytest.mark.parametrize(
    ("asked", "parameter"),
    [
        ({"page": -1}, "page"),
        ({"page": 1.5}, "page"),
        ({"page": True}, "page"),
        ({"pageSize": -1}, "pageSize"),
        ({"pageSize": "20"}, "pageSize"),
        ({"directory": 5}, "directory"),
        ({"directory": "b", "uri": "workspace://"}, "directory"),
        ({"page": 0, "cursor": "x"}, "cursor"),
    ],
    ids=str,
)
def test_a_wrong_page_is_refused_by_name(numbered: Served, asked: dict[str, object], parameter: str) -> None:
    error = numbered.ask("resources/list", asked)

    assert (error["code"], error["data"]["parameter"]) == (-32602, parameter)


def test_a_page_that_does_not_fit_one_message_says_how_many_entries_would(tmp_path: Path) -> None:
    fill(tmp_path, {f"{number:03}.md": "" for number in range(200)})
    with Served(tmp_path, max_bytes=20_000) as served:
        error = served.ask("resources/list", {"pageSize": 200})
        listed = served.ask("resources/list", {"pageSize": error["data"]["suggestedPageSize"]})

    assert (error["code"], error["data"]["name"]) == (-32802, "MCP_TOO_LARGE")
    assert (len(listed["items"]), listed["total"]) == (error["data"]["suggestedPageSize"], 200)


@pytest.mark.parametrize("version", [MODERN, LEGACY])
@pytest.mark.parametrize(
    ("name", "asked", "told"),
    [
        ("x.md", {"start": 0, "length": 2}, ("aé", "utf-8", 5, 0, 3)),
        ("x.md", {"start": 3}, ("bc", "utf-8", 5, 3, 2)),
        ("x.md", {"length": 1}, ("a", "utf-8", 5, 0, 1)),
        ("x.md", {"start": 9, "length": 9}, ("", "utf-8", 5, 5, 0)),
        ("x.bin", {"start": 1, "length": 2}, ("/wA=", "base64", 4, 1, 2)),
    ],
    ids=str,
)
def test_a_part_has_fly_s_fields_beside_the_standard_ones(
    tmp_path: Path, version: str, name: str, asked: dict[str, int], told: tuple[object, ...]
) -> None:
    fill(tmp_path, {"x.md": "aébc", "x.bin": b"\x00\xff\x00\xff"})
    with Served(tmp_path, preset="all") as served:
        read = served.ask("resources/read", {"uri": f"workspace:///{name}", **asked}, version)
        plain = served.ask("resources/read", {"uri": f"workspace:///{name}"}, version)

    assert tuple(read[field] for field in ("content", "encoding", "total", "start", "length")) == told
    assert read["contents"][0].get("text", read["contents"][0].get("blob")) == told[0]
    assert {"content", "encoding", "total", "start", "length"} & plain.keys() == set()
