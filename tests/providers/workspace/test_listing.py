"""The list: order, entries, pages, links, laziness, what cannot be read."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from carrel.core.model import Annotations, Resource
from tests.support.workspaces import NOON_NS, SECRET, Served, fill, record_opens, settle

NOON_MS = NOON_NS // 1_000_000
ORDER = ["a!.md", "a-b.md", "a.md", "a/c.md", "a/c/d.md", "a0.md", "b%20c.md", "b%C3%A9.md", "b.md", "bb/x.md"]
"""In order of the bytes of their URIs."""


def decoded(uri: str) -> str:
    return uri.replace("%20", " ").replace("%C3%A9", "é")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    fill(tmp_path, {decoded(path): "text" for path in ORDER})
    with Served(tmp_path) as served:
        yield served


def pages(served: Served, size: int) -> list[list[str]]:
    found, cursor = [], None
    while True:
        page = served.catalog.page(cursor, size)
        found.append([entry.uri.removeprefix("workspace:///") for entry in page.entries])
        cursor = page.next_cursor
        if cursor is None:
            return found


def test_files_are_listed_by_the_bytes_of_their_uris(served: Served) -> None:
    assert served.uris() == ORDER
    assert sorted(ORDER) == ORDER


@pytest.mark.parametrize("size", [1, 2, 3, 10, 11])
def test_pages_joined_are_the_list(served: Served, size: int) -> None:
    joined = pages(served, size)

    assert [uri for page in joined for uri in page] == ORDER
    assert [len(page) for page in joined[:-1]] == [size] * (len(joined) - 1)


@pytest.mark.parametrize(
    "after", [*ORDER, "", "0", "a", "a/", "a/c", "a/c/", "a/c/d.md0", "b", "bb", "bb/", "bb/y", "z"]
)
def test_a_list_goes_on_after_any_place_whether_or_not_it_exists(served: Served, after: str) -> None:
    place = f"workspace:///{after}"
    rest = [entry.uri.removeprefix("workspace:///") for entry in served.workspace.entries(place)]

    assert rest == [uri for uri in ORDER if uri > after]


def test_an_entry_says_everything_the_page_names(tmp_path: Path) -> None:
    fill(tmp_path, {"sub/a b.md": "text"})
    with Served(tmp_path) as served:
        (entry,) = served.catalog.entries()

        assert entry == Resource(
            "workspace:///sub/a%20b.md",
            "sub/a b.md",
            "",
            "text/markdown",
            title="a b.md",
            annotations=Annotations((), None, NOON_MS),
            size=4,
        )


def test_what_comes_and_goes_between_pages_is_neither_repeated_nor_skipped(served: Served, tmp_path: Path) -> None:
    first = served.catalog.page(None, 4)
    (tmp_path / "a/c.md").unlink()
    fill(tmp_path, {"0.md": "early", "a/c/e.md": "late", "zz/z.md": "late"})

    rest = served.catalog.page(first.next_cursor, 99)

    assert [entry.title for entry in first.entries] == ["a!.md", "a-b.md", "a.md", "c.md"]
    assert [entry.name for entry in rest.entries] == [
        *("a/c/d.md", "a/c/e.md", "a0.md", "b c.md", "bé.md", "b.md", "bb/x.md", "zz/z.md")
    ]


def test_the_first_page_opens_only_the_folders_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, {f"d{number:03}/{name}.md": "x" for number in range(50) for name in "abcd"})
    with Served(tmp_path) as served:
        opened = record_opens(monkeypatch)
        first = served.catalog.page(None, 6)
        at_first = {segments for segments in opened if segments[-1:] not in {(".gitignore",), ("exclude",)}}
        opened.clear()
        served.catalog.page(first.next_cursor, 6)
        at_second = {segments for segments in opened if segments[-1:] not in {(".gitignore",), ("exclude",)}}

    assert at_first == {(), ("d000",), ("d001",)}
    assert at_second == {(), ("d001",), ("d002",), ("d003",)}


def test_only_unknown_names_are_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(
        tmp_path, {"a.md": "x", "b.dart": "x", "LICENSE": "x", "unknown": "x", "also.unknown": b"\0", "fake.md": b"\0"}
    )
    with Served(tmp_path, preset="code") as served:
        opened = record_opens(monkeypatch)

        assert served.uris() == ["LICENSE", "a.md", "b.dart", "fake.md", "unknown"]
        assert sorted(segments for segments in opened if segments[-1:] not in {(".gitignore",), ("exclude",), ()}) == [
            ("also.unknown",),
            ("unknown",),
        ]


def test_a_large_file_is_not_listed_and_can_be_read(tmp_path: Path) -> None:
    fill(tmp_path, {"small.md": "x" * 10, "large.md": "x" * 11})
    with Served(tmp_path, max_listed_bytes=10) as served:
        assert served.uris() == ["small.md"]
        assert served.children("workspace:///") == ["workspace:///small.md"]
        assert served.outcome("workspace:///large.md?length=3") == "xxx"


# Links


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    fill(tmp_path, {"outside.md": SECRET, "out/x.md": SECRET})
    root = fill(tmp_path / "root", {"real.md": "real", "folder/x.md": "x", ".env": SECRET})
    links = {
        "file-link.md": "real.md",
        "deep-link.md": "folder/../folder/x.md",
        "folder-link": "folder",
        "to-root": ".",
        "folder/up": "..",
        "outward.md": "../outside.md",
        "absolute.md": str(root / "real.md"),
        "outward-folder": "../out",
        "dangling.md": "nope.md",
        "loop.md": "loop.md",
        "secret.md": ".env",
    }
    for link, target in links.items():
        (root / link).symlink_to(target)
    return root


def test_links_to_readable_files_are_listed_and_folders_behind_links_are_not_entered(linked: Path) -> None:
    with Served(linked) as served:
        assert served.uris() == ["deep-link.md", "file-link.md", "folder/x.md", "real.md"]


def test_a_folder_shows_links_to_folders_and_files_behind_them_can_be_read(linked: Path) -> None:
    with Served(linked) as served:
        assert served.children("workspace:///") == [
            "workspace:///deep-link.md",
            "workspace:///file-link.md",
            "workspace:///folder-link/",
            "workspace:///folder/",
            "workspace:///real.md",
            "workspace:///to-root/",
        ]
        assert served.children("workspace:///folder-link") == [
            "workspace:///folder-link/up/",
            "workspace:///folder-link/x.md",
        ]
        assert served.outcome("workspace:///folder-link/up/to-root/folder/x.md") == "x"
        assert served.completions("f") == ["file-link.md", "folder-link/", "folder/"]


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("outward.md", "DENIED outside"),
        ("absolute.md", "DENIED outside"),
        ("outward-folder", "DENIED outside"),
        ("outward-folder/x.md", "DENIED outside"),
        ("dangling.md", "NOTFOUND"),
        ("loop.md", "NOTFOUND"),
        ("secret.md", "DENIED deny"),
    ],
)
def test_other_links_say_why_they_cannot_be_read(linked: Path, name: str, outcome: str) -> None:
    with Served(linked) as served:
        assert served.outcome(f"workspace:///{name}") == outcome


# Size and depth


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A folder that is emptied afterwards by somebody who does not mind its depth, as pytest does."""
    yield tmp_path / "deep"
    subprocess.run(["rm", "-rf", tmp_path / "deep"], check=True)


@pytest.mark.slow
def test_a_tree_deeper_than_handles_and_recursion_allow_is_listed_and_read(deep: Path) -> None:
    depth = 1_500
    deep.mkdir()
    here = os.open(deep, os.O_RDONLY)
    for number in range(depth):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        if number % 500 == 0:
            os.close(os.open("x.md", os.O_CREAT | os.O_WRONLY, dir_fd=below))
        os.close(here)
        here = below
    os.close(here)
    with Served(deep) as served:
        uris = served.uris()

        assert uris == [f"{'d/' * depth}x.md" for depth in (1_001, 501, 1)]
        assert {served.outcome(f"workspace:///{uri}") for uri in uris} == {""}


@pytest.mark.parametrize("preset", ["code", "flutter"])
def test_a_uri_of_thousands_of_names_is_not_found(tmp_path: Path, preset: str) -> None:
    with Served(tmp_path, preset=preset) as served:
        assert served.outcome(f"workspace:///{'a/' * 4_080}x.dart") == "NOTFOUND"


def test_what_has_no_readable_uri_is_not_listed(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(12):
        name = "ü" * 120
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(os.open("x.md", os.O_CREAT | os.O_WRONLY, dir_fd=below))
        os.close(here)
        here = below
    os.close(here)
    with Served(tmp_path) as served:
        uris = served.uris()

        assert (len(uris), {served.outcome(f"workspace:///{uri}") for uri in uris}) == (11, {""})


def test_a_large_folder_is_scanned_once_for_all_its_pages_until_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("carrel.providers.workspace.listing.LARGE", 200)
    names = [f"f{number:04}.md" for number in range(210)]
    for name in names:
        (tmp_path / name).touch()
    settle(tmp_path)
    scans = [0]
    really = os.scandir

    def counting(place: int) -> "os._ScandirIterator[str]":
        scans[0] += 1
        return really(place)

    monkeypatch.setattr(os, "scandir", counting)
    with Served(tmp_path) as served:
        joined = [uri for page in pages(served, 10) for uri in page]
        (tmp_path / "f0000.md").unlink()
        after = served.uris()

    assert (joined, after, scans) == (names, names[1:], [2])


UNPRIVILEGED = """
import json, os, sys
from carrel.catalog.catalog import Catalog
from carrel.core.provider import Project
from carrel.providers.workspace import Workspace

workspace = Workspace(Project(sys.argv[1], {}))
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
listed = [entry.name for entry in workspace.entries()]
problems = workspace.health()["problems"]
shown = [(item.uri, item.mime_type, item.text.partition(" ")[0]) for item in Catalog([workspace]).read("workspace:///").items]
print(json.dumps([listed, problems, workspace.explain("workspace:///shut.md")[1:], shown]))
"""


def test_a_folder_that_cannot_be_read_is_skipped_and_counted_in_the_health(tmp_path: Path) -> None:
    root = fill(tmp_path / "root", {"a.md": "a", "shut/x.md": "x", "pass/y.md": "y", "z.md": "z", "shut.md": "s"})
    for parent in [root, *root.parents[:4]]:
        parent.chmod(0o755)
    for path, mode in (("shut", 0o000), ("pass", 0o444), ("shut.md", 0o000)):
        (root / path).chmod(mode)

    ran = subprocess.run([sys.executable, "-c", UNPRIVILEGED, str(root)], capture_output=True, text=True, check=True)
    (root / "shut").chmod(0o755)
    (root / "pass").chmod(0o755)

    assert json.loads(ran.stdout) == [
        ["a.md", "shut.md", "z.md"],
        ["2 folder(s) cannot be read and are left out"],
        ["Not served: no permission (os).", "Carrel has no permission to open it."],
        [
            ["workspace:///a.md", "text/markdown", "1"],
            ["workspace:///pass", "inode/directory", ""],
            ["workspace:///shut.md", "text/markdown", "1"],
            ["workspace:///shut", "inode/directory", ""],
            ["workspace:///z.md", "text/markdown", "1"],
        ],
    ]
