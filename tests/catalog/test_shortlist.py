"""The list that hosts are sent: bounded, chosen by worth, and all of it reachable by prefix."""

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from carrel.app import config
from carrel.app.app import Desk, open_desk
from carrel.catalog.access import Access, ActingAs
from carrel.catalog.catalog import Catalog
from carrel.client.client import Client
from carrel.core.model import Rank, Resource
from carrel.core.provider import Provider, Route
from carrel.protocol.results import PLAIN_ENTRY_BYTES
from carrel.server.server import Server
from tests.support.memory_provider import Shelf
from tests.support.sage_folder import lay_out
from tests.support.workspaces import Served, fill


class Ranked(Shelf):
    """A Shelf whose entries have a rank, of which the first few are promised."""

    def __init__(self, name: str, rank: Rank, count: int, promised: int = 0) -> None:
        super().__init__(name, {f"{number:04d}": "" for number in range(count)})
        self._rank, self._promised = rank, promised

    def entries(self, after: str = "") -> Iterator[Resource]:
        for number, uri in enumerate(self._sorted):
            if uri > after:
                yield Resource(uri, uri, rank=self._rank, guaranteed=number < self._promised)


class Broken(Provider):
    """A provider whose list always fails."""

    name = "broken"
    schemes = ("broken",)

    def routes(self) -> Sequence[Route]:
        return ()

    def entries(self, after: str = "") -> Iterator[Resource]:
        raise OSError(after)


def counts(catalog: Catalog) -> dict[str, int]:
    """Count the listed entries by scheme, in the order in which the schemes come."""
    found: dict[str, int] = {}
    for entry in catalog.page(limit=10_000).entries:
        scheme = entry.uri.partition(":")[0]
        found[scheme] = found.get(scheme, 0) + 1
    return found


def test_what_is_worth_more_comes_first_and_files_get_what_is_left() -> None:
    shelves = [
        Ranked("files", Rank.FILES, 500),
        Ranked("guests", Rank.OTHERS, 30),
        Ranked("memory", Rank.MEMORY, 20),
        Ranked("tasks", Rank.TASKS, 10),
    ]
    catalog = Catalog(shelves, max_listed=100)

    assert list(counts(catalog).items()) == [("memory", 20), ("tasks", 10), ("guests", 30), ("files", 40)]
    assert not catalog.chosen().is_whole


def test_a_flood_of_one_kind_leaves_a_fair_part_to_the_others() -> None:
    shelves = [Ranked("memory", Rank.MEMORY, 500), Ranked("logs", Rank.LOGS, 30), Ranked("files", Rank.FILES, 500)]

    assert counts(Catalog(shelves, max_listed=60)) == {"memory": 50, "logs": 10}


def test_what_is_promised_is_listed_whatever_else_there_is() -> None:
    shelves = [Ranked("memory", Rank.MEMORY, 500), Ranked("packages", Rank.PACKAGES, 80, promised=25)]

    assert counts(Catalog(shelves, max_listed=50)) == {"memory": 25, "packages": 25}
    assert counts(Catalog(shelves, max_listed=25)) == {"packages": 25}


def test_a_list_that_fits_is_whole() -> None:
    shelves = [Ranked("files", Rank.FILES, 30), Ranked("memory", Rank.MEMORY, 70)]
    catalog = Catalog(shelves, max_listed=100)

    assert (counts(catalog), catalog.chosen().is_whole) == ({"memory": 70, "files": 30}, True)


def test_without_a_bound_everything_is_listed_provider_by_provider() -> None:
    shelves = [Ranked("files", Rank.FILES, 3_000), Ranked("memory", Rank.MEMORY, 10)]

    assert list(counts(Catalog(shelves)).items()) == [("files", 3_000), ("memory", 10)]


def test_a_provider_without_ranks_stands_before_the_files() -> None:
    shelves = [Ranked("files", Rank.FILES, 5), Shelf("plain", {"1": ""}), Ranked("logs", Rank.LOGS, 5)]

    assert list(counts(Catalog(shelves, max_listed=100))) == ["logs", "plain", "files"]


def test_a_list_that_fails_costs_only_its_own_entries() -> None:
    assert counts(Catalog([Broken(), Shelf("plain", {"1": ""})], max_listed=100)) == {"plain": 1}


def test_only_what_the_caller_may_read_takes_a_place() -> None:
    catalog = Catalog([Ranked("mine", Rank.FILES, 90), Ranked("other", Rank.MEMORY, 90)], max_listed=50)

    with ActingAs(Access("one", frozenset(["mine:read"]))):
        assert counts(catalog) == {"mine": 50}


def test_pages_of_the_short_list_joined_are_all_of_it() -> None:
    shelves = [Ranked("b", Rank.FILES, 40), Ranked("a", Rank.FILES, 40), Ranked("m", Rank.MEMORY, 7)]
    catalog = Catalog(shelves, max_listed=60)
    for size in (1, 7, 59, 60, 61):
        cursor: str | None = None
        joined: list[Resource] = []
        for _ in range(70):
            page = catalog.page(cursor, size)
            joined += page.entries
            cursor = page.next_cursor
            if cursor is None:
                break
        assert tuple(joined) == catalog.chosen().entries
        assert len(joined) == 60


def test_a_cursor_holds_while_entries_come_and_go() -> None:
    memory, files = Ranked("memory", Rank.MEMORY, 3), Ranked("files", Rank.FILES, 20)
    catalog = Catalog([files, memory], max_listed=10)
    first = catalog.page(limit=5)
    memory.put("0000-new")
    files.remove("0001")

    rest = catalog.page(first.next_cursor, 100)

    assert [entry.uri for entry in rest.entries] == [f"files:///000{number}" for number in (2, 3, 4, 5, 6)]


# Files


def names(served: Served) -> list[str]:
    return [entry.name for entry in served.catalog.page().entries]


def served(root: Path, bound: int, **settings: Any) -> Served:
    made = Served(root, **settings)
    made.catalog.max_listed = bound
    return made


def test_front_documents_come_first_then_shallow_files_before_deep_ones(tmp_path: Path) -> None:
    deep = {f"a/deep/er/{number}.py": "" for number in range(9)}
    others = ["a/b.py", "zebra.py", "docs/architecture.md", "docs/x.md", "src/tool/__main__.py", "CONTRIBUTING.md"]
    fill(tmp_path, {**deep, **dict.fromkeys(others, ""), "README.md": "", "pyproject.toml": "", "main.py": ""})
    with served(tmp_path, 11) as made:
        assert names(made) == [
            "README.md",
            "pyproject.toml",
            "CONTRIBUTING.md",
            "docs/architecture.md",
            "main.py",
            "src/tool/__main__.py",
            "zebra.py",
            "a/b.py",
            "docs/x.md",
            "a/deep/er/0.py",
            "a/deep/er/1.py",
        ]


def test_every_file_is_in_a_short_list_that_is_long_enough(tmp_path: Path) -> None:
    files = [
        f"{folder}{name}" for folder in ("", "a/", "a-b/", "a/b/", "z y/") for name in ("README.md", "x.py", "é.txt")
    ]
    fill(tmp_path, dict.fromkeys(files, ""))
    with served(tmp_path, 1_000) as made:
        assert sorted(names(made)) == sorted(entry.name for entry in made.catalog.entries())
        assert made.catalog.chosen().is_whole


def test_at_most_twenty_documents_stand_before_other_files(tmp_path: Path) -> None:
    fill(tmp_path, {f"docs/index.{suffix}": "" for suffix in ("md", "rst")} | {"Readme.md": ""})
    fill(tmp_path, {f"src/p{number:02d}/main.py": "" for number in range(30)} | {"a.py": ""})
    with served(tmp_path, 1_000) as made:
        shown = names(made)

    assert shown[:3] == ["Readme.md", "docs/index.md", "docs/index.rst"]
    assert shown.index("a.py") <= 20
    assert len(shown) == len(set(shown)) == 34


def test_what_may_not_be_listed_is_not_among_the_documents(tmp_path: Path) -> None:
    fill(tmp_path, {"README.md": "", ".gitignore": "docs/\nREADME.md\n", "docs/architecture.md": "", "main.py": ""})
    with served(tmp_path, 1_000) as made:
        assert names(made) == ["main.py"]


def test_the_files_of_two_roots_share_the_list_by_depth(tmp_path: Path) -> None:
    fill(tmp_path, {"main/a/b/c.py": "", "main/x.py": "", "other/y.py": "", "other/d/z.py": ""})
    with served(tmp_path / "main", 1_000, roots={"other": str(tmp_path / "other")}) as made:
        assert [entry.uri for entry in made.catalog.page().entries] == [
            "workspace:///x.py",
            "workspace://@other/y.py",
            "workspace://@other/d/z.py",
            "workspace:///a/b/c.py",
        ]


@pytest.mark.slow
def test_a_short_list_reads_only_the_folders_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, {f"f{number:03d}/{inner}.py": "" for number in range(100) for inner in range(10)})
    with served(tmp_path, 50) as made:
        opened: list[object] = []
        root = made.workspace._trees[""].root
        real = type(root).open

        def counted(self: object, *given: Any) -> object:
            opened.append(given)
            return real(self, *given)  # type: ignore[arg-type]

        monkeypatch.setattr(type(root), "open", counted)
        assert len(made.catalog.page().entries) == 50

    assert len(opened) < 60


def test_a_plain_file_costs_at_most_180_bytes_on_the_wire(tmp_path: Path) -> None:
    paths = ["README.md", "lib/main.dart", "src/some/longer/package/with/module_name.py", f"deep/{'x' * 20}/module.py"]
    fill(tmp_path, dict.fromkeys(paths, "text"))
    with served(tmp_path, 1_000) as made:
        entries = made.ask("resources/list")["resources"]

    sizes = {entry["name"]: len(json.dumps(entry, separators=(",", ":"))) + 1 for entry in entries}
    assert set(sizes) == set(paths)
    assert max(sizes.values()) <= PLAIN_ENTRY_BYTES
    assert not any("_meta" in entry or entry.get("title") == entry["name"] for entry in entries)
    assert entries[0]["annotations"]["lastModified"]


# The desk


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A desk over many files, for tests that only look."""
    root = tmp_path_factory.mktemp("desk")
    lay_out(root)
    fill(root, {f"src/p{number % 20:02d}/{number:04d}.py": "" for number in range(1_200)} | {"README.md": "# Hi"})
    (root / ".git").mkdir()
    made = open_desk(config.load(str(root), {"HOME": str(root / "home")}))
    yield made
    made.close()


@pytest.mark.slow
def test_a_desk_lists_the_guide_then_documents_then_memory_then_files(desk: Desk) -> None:
    uris = [entry.uri for entry in desk.catalog.page().entries]

    assert len(uris) == 1_000
    assert uris[:4] == ["carrel://guide", "carrel://catalog", "carrel://health", "workspace:///README.md"]
    assert uris[4] == "sage://system/objective.md"
    kinds = [uri.partition(":")[0] for uri in uris[4:]]
    assert [kind for kind, _ in groupby(kinds)] == ["sage", "git", "workspace"]
    every = [entry.uri for entry in desk.catalog.entries("sage")]
    assert sorted(uri for uri in uris if uri.startswith("sage:")) == sorted(every)


def test_everything_is_listed_to_who_asks_by_prefix(desk: Desk) -> None:
    with Client.to(desk.server) as client:
        assert len(list(client.resources())) == 1_000
        every = [entry.uri for entry in client.resources("")]
        assert every == [entry.uri for entry in desk.catalog.entries()]
        below = [entry.uri for entry in client.resources("workspace:///src/p19/")]

    assert below == [uri for uri in every if uri.startswith("workspace:///src/p19/")]
    assert len(below) == 60


def test_the_tool_lists_everything_below_a_prefix_in_pages_that_fit(desk: Desk) -> None:
    listed: list[str] = []
    with Client.to(desk.server) as client:
        arguments = {"prefix": "src/"}
        while True:
            result = client.call("list_resources", arguments)
            [text] = result.blocks
            assert (result.structured, len(str(text)) <= 20_000) == (None, True)
            lines = str(text).split("\n")
            more = lines.pop() if lines[-1].startswith("[more: ") else ""
            listed += [line.partition("  ")[0] for line in lines]
            if not more:
                break
            arguments = {"prefix": "src/", "cursor": more.rpartition(" ")[2].rstrip("]")}

    assert listed == [entry.uri for entry in desk.catalog.entries() if "/src/" in entry.uri]


def test_the_tool_says_first_and_last_that_its_list_is_not_everything(desk: Desk) -> None:
    with Client.to(desk.server) as client:
        [text] = client.call("list_resources").blocks

    lines = str(text).split("\n")
    assert lines[0] == lines[-1]
    assert lines[0].startswith("[only the most useful entries; ")
    assert lines[1].startswith("carrel://guide ")


def test_the_guide_says_how_many_are_left_out_and_how_to_reach_them(desk: Desk) -> None:
    listed = sum(entry.uri.startswith("workspace:") for entry in desk.catalog.page().entries)
    total = len(list(desk.catalog.entries("workspace")))
    [text] = desk.catalog.read("carrel://guide").items

    assert f"`workspace://` {listed:,} of {total:,}. All others can be read and searched" in text.text  # type: ignore[union-attr]
    assert "`list_resources` lists a prefix" in text.text  # type: ignore[union-attr]
    assert "`sage://` " not in text.text.partition("## Not listed")[2]  # type: ignore[union-attr]


def test_a_desk_where_all_fits_leaves_nothing_out(tmp_path: Path) -> None:
    fill(tmp_path, {"README.md": "# Hi"})
    made = open_desk(config.load(str(tmp_path), {"HOME": str(tmp_path / "home")}))
    [text] = made.catalog.read("carrel://guide").items
    made.close()

    assert "leaves out" not in text.text  # type: ignore[union-attr]


@pytest.mark.slow
@pytest.mark.parametrize(("bound", "listed"), [("0", 1_204), ("50", 50)])
def test_the_bound_is_a_setting(tmp_path: Path, bound: str, listed: int) -> None:
    fill(tmp_path, {f"src/{number:04d}.py": "" for number in range(1_201)})
    chosen = config.load(str(tmp_path), {"HOME": str(tmp_path / "home")}, [("server", "max_listed", bound)])
    made = open_desk(chosen)
    with Client.to(made.server) as client:
        assert len(list(client.resources())) == listed
    made.close()


def test_a_prefix_that_is_no_text_is_refused() -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "resources/list", "params": {"_meta": {"dev.carrel/prefix": 1}}}

    answer = json.loads(Server(Catalog([Shelf("a")])).answer(json.dumps(request).encode()) or b"")

    assert (answer["error"]["code"], answer["error"]["data"]["parameter"]) == (-32602, "dev.carrel/prefix")
