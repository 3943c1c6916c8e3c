"""The mirror: what one answer holds, in bytes, and how it says what comes next."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from carrel.catalog import Catalog
from carrel.model import Blob, Item, Range, Reading, Resource, ResourceLink, Text
from carrel.provider import Project, Provider, Route
from carrel.providers.mirror import PART_BYTES, Mirror
from carrel.providers.workspace.provider import Workspace
from carrel.work import Running


class Shelf:
    """A provider with one URI, which holds what it is told to."""

    name = "shelf"
    schemes = ("shelf",)

    def __init__(self, *items: Item) -> None:
        self._items = items

    def routes(self) -> Sequence[Route]:
        return (
            Route("shelf://all", lambda: Reading(self._items), name="all", mime_type="text/plain"),
            Route("shelf://end{?tail}", lambda **_: Reading(self._items, range=Range()), name="end"),
        )

    def entries(self, after: str = "") -> Iterator[Resource]:
        del after
        return iter(())


def read(provider: Provider, uri: str, **part: int) -> tuple[bool, tuple[str | ResourceLink, ...]]:
    result = Mirror(Catalog([provider])).call("read_resource", {"uri": uri, **part}, Running(lambda: None))
    return result.is_error, result.blocks


def workspace(root: Path) -> Workspace:
    return Workspace(Project(str(root), {}))


def split(blocks: Sequence[str | ResourceLink]) -> tuple[str, str]:
    """Give the text of an answer, and its last line."""
    [block] = blocks
    assert isinstance(block, str)
    text, _, note = block.rpartition("\n")
    return text, note


@pytest.mark.parametrize(
    ("encoding", "text", "given"),
    [
        ("utf-8", "字" * 60_000, 65_535),
        ("utf-8-sig", "字" * 60_000, 65_538),
        ("utf-16", "字" * 60_000, 21_846),
        ("iso-8859-1", "é" * 60_000, 21_845),
    ],
)
def test_a_part_is_measured_in_the_bytes_that_are_sent(tmp_path: Path, encoding: str, text: str, given: int) -> None:
    (tmp_path / "long.txt").write_text(text, encoding=encoding)
    total = (tmp_path / "long.txt").stat().st_size

    is_error, blocks = read(workspace(tmp_path), "workspace:///long.txt")

    part, note = split(blocks)
    following = f"workspace:///long.txt?start={given}&length=65536"
    assert (is_error, note) == (False, f"[bytes 0 to {given} of {total}; next: {following}]")
    assert text.startswith(part)
    assert len(part.encode()) <= PART_BYTES


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-1"])
def test_parts_read_one_after_another_are_the_whole(tmp_path: Path, encoding: str) -> None:
    whole = "né" * 90_000
    (tmp_path / "long.txt").write_text(whole, encoding=encoding)
    uri, parts = "workspace:///long.txt", []
    while uri:
        _, [block] = read(workspace(tmp_path), uri)
        text, _, note = str(block).partition("\n")
        parts.append(text)
        uri = note.partition("next: ")[2].rstrip("]")

    assert "".join(parts) == whole


@pytest.mark.parametrize(
    ("query", "part", "note"),
    [
        ("", {"start": 5}, "[bytes 5 to 65541 of 250000; next: workspace:///a.txt?start=65541&length=65536]"),
        ("", {"length": 100_000}, "[bytes 0 to 65536 of 250000; next: workspace:///a.txt?start=65536&length=65536]"),
        (
            "?start=0&length=99999",
            {},
            "[bytes 0 to 65536 of 250000; next: workspace:///a.txt?start=65536&length=65536]",
        ),
        ("?lines=2-30000", {}, "[bytes 5 to 65541 of 250000; next: workspace:///a.txt?start=65541&length=65536]"),
        ("?lines=2-3", {}, "[bytes 5 to 15 of 250000; next: workspace:///a.txt?lines=4-5]"),
    ],
)
def test_no_way_of_asking_gives_more_than_a_part(tmp_path: Path, query: str, part: dict[str, int], note: str) -> None:
    (tmp_path / "a.txt").write_text("line\n" * 50_000, encoding="utf-8")

    is_error, [block] = read(workspace(tmp_path), f"workspace:///a.txt{query}", **part)

    assert (is_error, str(block).rpartition("\n")[2]) == (False, note)
    assert len(str(block)) <= PART_BYTES + len(note) + 1


@pytest.mark.parametrize(
    ("lines", "following"),
    [("2-3", "?lines=4-5"), ("2-30000", "?start=65541&length=65536"), ("2-", "?start=65541&length=65536")],
)
def test_what_a_part_calls_the_next_can_be_read_and_is_next(tmp_path: Path, lines: str, following: str) -> None:
    (tmp_path / "a.txt").write_text("line\n" * 50_000, encoding="utf-8")
    catalog = Catalog([workspace(tmp_path)])

    [part] = catalog.read_part(f"workspace:///a.txt?lines={lines}", None, PART_BYTES).items

    told = part.meta or {}
    assert told["dev.carrel/next"] == f"workspace:///a.txt{following}"
    [after] = catalog.read(str(told["dev.carrel/next"])).items
    assert (after.meta or {})["dev.carrel/start"] == told["dev.carrel/start"] + told["dev.carrel/length"]  # type: ignore[operator]


def test_a_next_page_is_named_after_a_text_that_is_all_there() -> None:
    shelf = Shelf(Text("a page", meta={"dev.carrel/next": "shelf://all?after=a"}))

    assert read(shelf, "shelf://all") == (False, ("a page\n[next: shelf://all?after=a]",))


def test_a_folder_is_one_line_for_each_child(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in "ab":
        (tmp_path / "sub" / name).write_text("hello", encoding="utf-8")

    is_error, blocks = read(workspace(tmp_path), "workspace:///sub")

    assert (is_error, [str(block).partition(", ")[0] for block in blocks]) == (
        False,
        ["workspace:///sub/a  5 bytes", "workspace:///sub/b  5 bytes"],
    )
    assert not any("next" in str(block) for block in blocks)


def test_a_long_folder_comes_in_parts_and_says_where_to_go_on(tmp_path: Path) -> None:
    names = [f"{number:04}-{'x' * 100}" for number in range(1_200)]
    for name in names:
        (tmp_path / name).touch()
    uri, listed = "workspace:///", []
    while uri:
        is_error, blocks = read(workspace(tmp_path), uri)
        lines = [str(block) for block in blocks]
        assert (is_error, sum(map(len, lines)) <= PART_BYTES + 300) == (False, True)
        uri = lines.pop().partition("next: ")[2].rstrip("]") if "next: " in lines[-1] else ""
        listed += [line.partition("  ")[0] for line in lines]

    assert listed == [f"workspace:///{name}" for name in names]


def test_of_several_items_those_that_fit_are_shown_and_the_next_is_named() -> None:
    shelf = Shelf(Text("small", uri="shelf://1"), Text("字" * 30_000, uri="shelf://2"), Text("x", uri="shelf://3"))

    assert read(shelf, "shelf://all") == (False, ("shelf://1  small", "[1 of 3 shown; next: shelf://2]"))


def test_items_without_a_uri_are_to_be_read_as_a_resource() -> None:
    shelf = Shelf(Text("small"), Text("x" * 70_000))

    assert read(shelf, "shelf://all") == (False, ("small", "[1 of 2 shown; next: shelf://all, as a resource]"))


def test_binary_content_is_named_with_its_whole_size() -> None:
    link = ResourceLink("shelf://all", "all", None, "image/png")

    assert read(Shelf(Blob(b"\0" * 70_000, "image/png")), "shelf://all") == (
        False,
        ("Binary content of 70000 bytes; read it as a resource.", link),
    )


def test_many_binary_items_are_bounded_too() -> None:
    shelf = Shelf(*(Blob(b"", uri=f"shelf://{number}") for number in range(5_000)))

    _, blocks = read(shelf, "shelf://all")

    shown = len(blocks) // 2
    assert blocks[-1] == f"[{shown} of 5000 shown; next: shelf://{shown}]"


def test_the_end_of_a_long_text_says_how_to_ask_for_less() -> None:
    _, [block] = read(Shelf(Text("x" * 70_000)), "shelf://end?tail=5")

    advice = "ask for less, or for the whole in parts: shelf://end?start=0"
    assert block == "x" * PART_BYTES + f"\n[bytes 0 to 65536 of 70000; {advice}]"
