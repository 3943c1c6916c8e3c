"""Folders as resources, hosts that browse by reading, completion, and why something is served."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from carrel.core.model import Range
from carrel.core.provider import Place
from carrel.providers.workspace import folders
from tests.support.workspaces import SECRET, Served, fill, record_opens, settle, shown

FILES: dict[str, str | bytes] = {
    "a-b.md": "ab",
    "a.md": "",
    "a/c.md": "c",
    "empty/": "",
    "lib/main.dart": "main",
    "lib/src/x.dart": "x",
    "x y/é#.md": "odd",
    "y.bin": b"\0",
    ".env": SECRET,
}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(fill(tmp_path, FILES)) as served:
        yield served


def contents(served: Served, uri: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = served.ask("resources/read", {"uri": uri})["contents"]
    return found


def test_a_folder_gives_one_item_per_child_in_order(served: Served) -> None:
    assert served.children("workspace:///") == [
        "workspace:///a-b.md",
        "workspace:///a.md",
        "workspace:///a/",
        "workspace:///empty/",
        "workspace:///lib/",
        "workspace:///x%20y/",
    ]


@pytest.mark.parametrize("uri", ["workspace:///lib", "workspace:///lib/", "workspace://lib", "workspace:///lib?"])
def test_a_child_says_what_it_is_and_that_it_is_no_content(served: Served, tmp_path: Path, uri: str) -> None:
    settle(tmp_path / "lib/main.dart")
    etag = served.catalog.read("workspace:///lib/main.dart").etag

    assert contents(served, uri) == [
        {
            "uri": "workspace:///lib/main.dart",
            "mimeType": "text/x-dart",
            "text": "4 bytes, 2026-07-14T12:00:00Z",
            "_meta": {
                "dev.carrel/uri": "workspace:///lib/main.dart",
                "dev.carrel/encoding": "utf-8",
                "dev.carrel/total": 4,
                "dev.carrel/start": 0,
                "dev.carrel/length": 0,
                "dev.carrel/etag": etag,
                "dev.carrel/last-modified": "2026-07-14T12:00:00Z",
                "dev.carrel/entry": True,
            },
        },
        {"uri": "workspace:///lib/src", "mimeType": "inode/directory", "text": ""},
    ]


def test_an_only_child_has_its_own_etag_and_the_folder_that_of_the_folder(served: Served, tmp_path: Path) -> None:
    settle(tmp_path / "a/c.md")
    folder = served.ask("resources/read", {"uri": "workspace:///a"})
    [child] = folder["contents"]

    assert child["_meta"]["dev.carrel/etag"] == served.catalog.read("workspace:///a/c.md").etag
    assert folder["_meta"]["dev.carrel/etag"] == served.catalog.read("workspace:///a").etag != child["_meta"]


def test_a_folder_that_did_not_change_is_still_a_folder(served: Served) -> None:
    asked = {"uri": "workspace:///lib", "_meta": {"dev.carrel/if-none-match": "*"}}
    [item] = served.ask("resources/read", asked)["contents"]

    assert (item["uri"], item["mimeType"], item["_meta"]["dev.carrel/status"]) == (
        "workspace:///lib",
        "inode/directory",
        304,
    )


def test_an_empty_folder_gives_itself(served: Served) -> None:
    (item,) = contents(served, "workspace:///empty")

    assert (item["uri"], item["mimeType"], item["text"]) == ("workspace:///empty", "inode/directory", "")


def test_a_folder_of_which_nothing_may_be_read_is_shown_as_empty(tmp_path: Path) -> None:
    fill(tmp_path, {"sub/.env": SECRET, "sub/raw": b"\0"})
    with Served(tmp_path) as served:
        assert [item["uri"] for item in contents(served, "workspace:///sub")] == ["workspace:///sub"]


@pytest.mark.parametrize("uri", ["workspace:///", "workspace:///a", "workspace:///empty"])
def test_a_range_of_a_folder_is_refused_however_many_children_it_has(served: Served, uri: str) -> None:
    assert served.outcome(uri, Range(0, 1)) == "BADARGUMENT start"


def follow(served: Served, uri: str) -> list[list[str]]:
    """Read a folder and what its last item says comes next, to the end."""
    found = []
    while uri:
        items = json.loads(served.bytes_of(uri))["result"]["contents"]
        found.append([item["uri"].removeprefix("workspace:///") for item in items])
        assert [item["uri"] for item in items[:-1] if "dev.carrel/next" in item.get("_meta", {})] == []
        uri = items[-1].get("_meta", {}).get("dev.carrel/next", "")
    return found


@pytest.mark.slow
def test_more_than_1000_children_are_reported_in_parts(tmp_path: Path) -> None:
    names = [f"{number:04}{'-x' if number % 3 else ''}" for number in range(1_200)]
    for number, name in enumerate(names):
        if number % 2:
            (tmp_path / f"{name} &=%.md").touch()
        else:
            (tmp_path / f"{name} &=%").mkdir()
    expected = sorted(f"{name}%20&=%25{'.md' if number % 2 else '/'}" for number, name in enumerate(names))
    with Served(tmp_path) as served:
        parts = follow(served, "workspace:///")

    assert [len(part) for part in parts] == [1_000, 200]
    assert [uri for part in parts for uri in part] == [uri.rstrip("/") for uri in expected]


def test_the_next_part_begins_after_a_folder_and_repeats_nothing(tmp_path: Path) -> None:
    fill(tmp_path, {"a/": "", "a-b.md": "", "a.md": "", "b.md": ""})
    with Served(tmp_path) as served:
        assert served.children("workspace:///?after=a%2F") == ["workspace:///b.md"]
        assert served.children("workspace:///?after=a-b.md") == [
            f"workspace:///{name}" for name in ("a.md", "a/", "b.md")
        ]


def test_a_folder_asked_for_what_comes_after_its_last_child_gives_itself(tmp_path: Path) -> None:
    fill(tmp_path, {"lib/a.md": "a"})
    with Served(tmp_path) as served:
        [item] = served.ask("resources/read", {"uri": "workspace:///lib?after=zzz"})["contents"]

    assert (item["uri"], item["mimeType"], item["text"]) == ("workspace:///lib?after=zzz", "inode/directory", "")
    assert item["_meta"]["dev.carrel/uri"] == "workspace:///lib"


LINKED = {"a": "real", "a-b": "x.md", "a.md": "x.md", "b": "real", "b%": "x.md", "c": "nowhere", "é": "real"}


def test_every_part_goes_on_where_the_one_before_ends_also_among_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, {"links/real/y.md": "", "links/x.md": "", "links/a!.md": "", "links/b.md": ""})
    for name, target in LINKED.items():
        (tmp_path / "links" / name).symlink_to(target)
    with Served(tmp_path) as served:
        whole = served.children("workspace:///links")
        monkeypatch.setattr(folders, "MAX_CHILDREN", 1)
        parts, following = [], "workspace:///links"
        while following:
            (item,) = served.catalog.read(following).items
            parts.append(shown(item))
            following = str((item.meta or {}).get("dev.carrel/next", ""))

        names = [uri.removeprefix("workspace:///links/") for uri in whole]
        assert names == ["%C3%A9/", "a!.md", "a-b", "a.md", "a/", "b%25", "b.md", "b/", "real/", "x.md"]
        assert parts == whole


def test_only_what_a_part_shows_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, {"real.md": "real", "all/a.md": "a", "all/b.md": "b", "all/c.md": "c"})
    for name in ("a-link", "d-link", "e-link"):
        (tmp_path / "all" / name).symlink_to("../real.md")
    settle(tmp_path / "all/c.md", tmp_path / "all")
    monkeypatch.setattr(folders, "MAX_CHILDREN", 2)
    with Served(tmp_path) as served:
        opened = record_opens(monkeypatch)

        def looked_at(uri: str) -> tuple[list[str], set[str]]:
            opened.clear()
            shown = [uri.rpartition("/")[2] for uri in served.children(uri)]
            below = (segments for segments in opened if segments[:1] == ("all",) and len(segments) > 1)
            return shown, {segments[1] for segments in below} - {".gitignore"}

        # One more than is shown is looked at; what was opened once, to see what it holds, is not opened again.
        assert looked_at("workspace:///all") == (["a-link", "a.md"], {"a-link", "a.md", "b.md"})
        assert looked_at("workspace:///all?after=a.md") == (["b.md", "c.md"], {"c.md", "d-link"})


@pytest.mark.parametrize("max_bytes", [104_857, 200_000])
def test_a_folder_gives_as_many_children_as_fit_one_message(tmp_path: Path, max_bytes: int) -> None:
    names = sorted(f"{'é' * 100}{number:03}.md" for number in range(300))
    for name in names:
        (tmp_path / name).touch()
    with Served(tmp_path, max_bytes=max_bytes) as served:
        parts = follow(served, "workspace:///")
        sizes = [len(served.bytes_of("workspace:///"))]

    assert [uri for part in parts for uri in part] == [f"{'%C3%A9' * 100}{number:03}.md" for number in range(300)]
    assert len(parts) > 1
    assert max_bytes * 0.5 < max(sizes) <= max_bytes


# VS Code: a stat is a whole read, children are the paths of contents, an item without length is a folder


class Explorer:
    """What VS Code's file system over MCP resources does (`mcpResourceFilesystem.ts`)."""

    def __init__(self, served: Served) -> None:
        self._served = served

    def _read(self, path: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        uri = "workspace://" + path.rstrip("/") if path != "/" else "workspace:///"
        items = contents(self._served, uri)
        own = urlsplit(uri).path.lower()
        return items, [item for item in items if urlsplit(item["uri"]).path.lower() == own]

    def stat(self, path: str) -> str:
        _, same = self._read(path)
        return "file" if same else "folder"

    def list(self, path: str) -> dict[str, str]:
        items, _ = self._read(path)
        depth = len([part for part in path.split("/") if part])
        found = {}
        for item in items:
            parts = [part for part in urlsplit(item["uri"]).path.split("/") if part]
            if len(parts) == depth + 1:
                found[parts[-1]] = "file" if item["text"] else "folder"
        return found

    def read(self, path: str) -> str:
        _, same = self._read(path)
        return "".join(item["text"] for item in same)

    def walk(self, path: str = "/") -> Iterator[tuple[str, str]]:
        for name, kind in self.list(path).items():
            below = f"{path.rstrip('/')}/{name}"
            yield below, self.read(below) if kind == "file" else kind
            if kind == "folder":
                yield from self.walk(below)


def test_a_host_that_browses_by_reading_sees_the_tree(served: Served) -> None:
    explorer = Explorer(served)

    assert dict(explorer.walk()) == {
        "/a-b.md": "ab",
        "/a.md": "",
        "/a": "folder",
        "/a/c.md": "c",
        "/empty": "folder",
        "/lib": "folder",
        "/lib/main.dart": "main",
        "/lib/src": "folder",
        "/lib/src/x.dart": "x",
        "/x%20y": "folder",
        "/x%20y/%C3%A9%23.md": "odd",
    }
    assert [explorer.stat(path) for path in ("/", "/lib/", "/lib/main.dart", "/a.md")] == [
        *("folder", "folder", "file", "file")
    ]


# Completion


@pytest.mark.parametrize(
    ("value", "values"),
    [
        ("", ["a-b.md", "a.md", "a/", "empty/", "lib/", "x y/"]),
        ("a", ["a-b.md", "a.md", "a/"]),
        ("a/", ["a/c.md"]),
        ("lib/s", ["lib/src/"]),
        ("lib//s", ["lib//src/"]),
        ("/li", ["/lib/"]),
        ("./a", ["./a-b.md", "./a.md", "./a/"]),
        ("x y/é", ["x y/é#.md"]),
        ("x%20y/", []),
        ("nope", []),
        ("nope/", []),
        ("a.md/", []),
        (".", []),
        (".e", []),
        ("..", []),
        ("../", []),
        ("lib/../a", []),
        ("lib\\", []),
        ("\0", []),
        ("\ud800", []),
    ],
)
def test_a_path_is_completed_by_direct_children(served: Served, value: str, values: list[str]) -> None:
    assert served.completions(value) == values


@pytest.mark.parametrize(("count", "has_more"), [(99, False), (100, False), (101, True), (150, True)])
def test_at_most_100_values_are_offered_and_more_are_reported_honestly(
    tmp_path: Path, count: int, has_more: bool
) -> None:
    fill(tmp_path, {f"{number:03}.md": "" for number in range(count)})
    with Served(tmp_path) as served:
        template = "workspace:///{+path}{?start,length,lines,outline}"
        argument = {"name": "path", "value": ""}
        offered = served.ask(
            "completion/complete", {"ref": {"type": "ref/resource", "uri": template}, "argument": argument}
        )

    assert len(offered["completion"]["values"]) == min(count, 100)
    assert offered["completion"]["hasMore"] is has_more


def test_what_is_completed_can_be_read(served: Served) -> None:
    waiting, seen = [""], []
    while waiting:
        for value in served.completions(waiting.pop()):
            seen.append(value)
            waiting.extend([value] if value.endswith("/") else [])

    outcomes = {served.outcome("workspace:///" + value.replace("#", "%23")) for value in seen}
    assert outcomes == {"ab", "", "folder", "c", "main", "x", "odd"}


def test_a_root_and_the_paths_in_it_are_completed(tmp_path: Path) -> None:
    fill(tmp_path / "app", {"a.md": "a"})
    fill(tmp_path / "docs", {"d.md": "d", "guide/x.md": "x"})
    with Served(tmp_path / "app", roots={"docs": Place("../docs")}) as served:
        template = "workspace://@{root}/{+path}{?start,length,lines,outline}"

        assert served.workspace.complete(template, "root", "d", {}).values == ("docs",)
        assert served.completions("", template, root="docs") == ["d.md", "guide/"]
        assert served.completions("", template, root="nope") == []
        assert served.completions("", template) == []
        assert served.completions("") == ["a.md"]


# Why


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        (
            "workspace:///lib/main.dart",
            ["Preset code, in the main root.", "Path: lib/main.dart.", "4 bytes of utf-8.", "Served and listed."],
        ),
        (
            "workspace:///link/src/x.dart",
            [
                "Preset code, in the main root.",
                "Path: link/src/x.dart.",
                "A link leads to lib/src/x.dart.",
                "1 byte of utf-8.",
                "Served, but not listed.",
            ],
        ),
        (
            "workspace:///lib",
            ["Preset code, in the main root.", "Path: lib.", "Served: a folder; a read returns its children."],
        ),
        (
            "workspace:///.env",
            [
                "Preset code, in the main root.",
                "Not served: may hold secrets (deny).",
                "The built-in deny-list and [workspace] deny always win; only another file name helps.",
            ],
        ),
        (
            "workspace:///y.bin",
            [
                "Preset code, in the main root.",
                "Not served: not an allowed file type; `carrel config set workspace.preset all` serves it (type).",
                "Or add it to [workspace] allow.",
            ],
        ),
        (
            "workspace:///nope.md",
            ["Preset code, in the main root.", "Not served: the file does not exist. The rules allow it to be read."],
        ),
        (
            "workspace:///a/../b",
            ["Not served. Access denied: workspace:///a/../b (outside the workspace)."],
        ),
    ],
)
def test_a_uri_is_explained(served: Served, tmp_path: Path, uri: str, told: list[str]) -> None:
    (tmp_path / "link").symlink_to("lib")

    assert served.workspace.explain(uri) == told


def test_an_explanation_does_not_repeat_its_reason(tmp_path: Path) -> None:
    with Served(fill(tmp_path, {"d.md": "d"}), preset="code") as served:
        assert served.workspace.explain("workspace:///.hidden/x.md")[1] == "Not served: hidden."


def test_no_answer_holds_an_absolute_path(served: Served, tmp_path: Path) -> None:
    uris = [entry.uri for entry in served.catalog.entries()]
    asked = [*uris, "workspace:///", "workspace:///lib", "workspace:///.env", "workspace:///nope", "workspace:///%zz"]

    answers = [served.bytes_of(uri) for uri in asked] + [
        json.dumps(served.workspace.explain(uri)).encode() for uri in asked
    ]

    assert [answer for answer in answers if str(tmp_path).encode() in answer] == []


EMPTY = "None/"
"""What an empty folder shows: itself."""
ALLOWED: dict[str, str | bytes] = {
    ".hidden/a.md": "a",
    ".hidden/sub/b.md": "b",
    ".hidden/raw/c.bin": b"\0",
    ".other/x.md": SECRET,
    "d.md": "d",
}


@pytest.mark.parametrize(
    ("allow", "shown"),
    [
        (".hidden/**", {"": [".hidden/", "d.md"], ".hidden": ["a.md", "raw/", "sub/"], ".hidden/sub": ["b.md"]}),
        (".hidden/**/*.md", {"": [".hidden/", "d.md"], ".hidden": ["a.md", "raw/", "sub/"], ".hidden/raw": []}),
        (".hidden/*.md", {"": [".hidden/", "d.md"], ".hidden": ["a.md"]}),
        (".hidden/sub/b.md", {"": [".hidden/", "d.md"], ".hidden": ["sub/"], ".hidden/sub/": ["b.md"]}),
    ],
)
def test_folders_on_the_way_to_what_is_allowed_show_that_and_nothing_else(
    tmp_path: Path, allow: str, shown: dict[str, list[str]]
) -> None:
    with Served(fill(tmp_path, ALLOWED), preset="code", allow=[allow]) as served:
        for folder, names in shown.items():
            below = f"{folder.rstrip('/')}/" if folder else ""
            children = [one.removeprefix(f"workspace:///{below}") for one in served.children(f"workspace:///{folder}")]
            assert [one for one in children if one != EMPTY] == names
            assert served.completions(below) == [below + name for name in names]


@pytest.mark.parametrize("allow", [".hidden/*.md", ".hidden/a.md"])
def test_a_folder_that_leads_to_nothing_allowed_stays_refused_whether_it_is_there_or_not(
    tmp_path: Path, allow: str
) -> None:
    (tmp_path / "link").symlink_to(".hidden")
    with Served(fill(tmp_path, ALLOWED), preset="code", allow=[allow]) as served:
        for path in (".hidden/sub", ".hidden/nope", ".hidden/sub/b.md", ".hidden/sub/", ".other", ".nope", "link"):
            assert served.outcome(f"workspace:///{path}") == "DENIED hidden"


def test_a_denied_folder_stays_denied_though_something_in_it_is_allowed(tmp_path: Path) -> None:
    with Served(fill(tmp_path, {".ssh/config.md": SECRET}), preset="code", allow=[".ssh/**"]) as served:
        assert served.outcome("workspace:///.ssh") == "DENIED deny"
        assert (served.uris(), served.completions("")) == ([], [])


def test_a_refusal_by_the_operator_s_own_pattern_names_the_setting(tmp_path: Path) -> None:
    with Served(fill(tmp_path, {"a/x.sql": "x", "private/y.md": "y"}), deny=["*.sql", "private/", ".env"]) as served:
        for path in ("a/x.sql", "nope.sql", "private/", "private/y.md"):
            uri = f"workspace:///{path}"
            error = served.error(uri)
            assert error.message == f"Access denied: {uri} (denied by [workspace] deny)"
            assert error.data == {"reason": "deny"}
            assert "Not served: denied by [workspace] deny (deny)." in served.workspace.explain(uri)
        assert served.error("workspace:///.env").message == "Access denied: workspace:///.env (may hold secrets)"


def directory(served: Served, uri: str, **cursor: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = served.ask("resources/directory/read", {"uri": uri, **cursor})["resources"]
    return found


@pytest.mark.parametrize("uri", ["workspace:///", "workspace:///lib", "workspace:///x%20y", "workspace:///empty"])
def test_a_directory_read_has_the_children_of_a_read_in_its_order(served: Served, uri: str) -> None:
    read = [child for child in served.children(uri) if not child.endswith("empty/") or uri == "workspace:///"]

    found = directory(served, uri)

    assert [one["uri"] + "/" * (one["mimeType"] == "inode/directory") for one in found] == [
        child for child in read if child != "None/"
    ]


def test_a_child_in_a_directory_read_has_the_metadata_of_the_list(served: Served) -> None:
    assert directory(served, "workspace:///lib/") == [
        {
            "uri": "workspace:///lib/main.dart",
            "name": "main.dart",
            "mimeType": "text/x-dart",
            "size": 4,
            "annotations": {"lastModified": "2026-07-14T12:00:00Z"},
        },
        {"uri": "workspace:///lib/src", "name": "src", "mimeType": "inode/directory"},
    ]


@pytest.mark.parametrize(
    ("uri", "code"),
    [
        ("workspace:///a.md", -32602),
        ("workspace:///none", -32602),
        ("workspace:///lib?after=a", -32602),
        ("workspace:///../x", -32803),
        ("workspace:///.git", -32803),
    ],
)
def test_a_directory_read_refuses_what_a_read_refuses_and_files(served: Served, uri: str, code: int) -> None:
    assert served.ask("resources/directory/read", {"uri": uri})["code"] == code


def test_a_large_folder_is_paged_without_looking_at_what_comes_before(tmp_path: Path) -> None:
    names = [f"{number:03}.md" for number in range(60)]
    with Served(fill(tmp_path, dict.fromkeys(names, "x")), page_size=25) as served:
        first = served.ask("resources/directory/read", {"uri": "workspace:///"})
        second = served.ask("resources/directory/read", {"uri": "workspace:///", "cursor": first["nextCursor"]})
        third = served.ask("resources/directory/read", {"uri": "workspace:///", "cursor": second["nextCursor"]})

    found = [one["name"] for page in (first, second, third) for one in page["resources"]]
    assert found == names
    assert "nextCursor" not in third
