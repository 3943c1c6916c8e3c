"""The mirror: what one answer holds, in bytes, and how it says what comes next."""

import json
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from carrel.catalog.catalog import Catalog, Part
from carrel.core.hosts import ANSWER_LENGTH, HOSTS, Host, answer_length
from carrel.core.model import Blob, Item, Range, Reading, ResourceLink, Text
from carrel.core.provider import Project, Provider, Route
from carrel.core.tokens import estimate_tokens
from carrel.providers.mirror import Mirror
from carrel.providers.workspace.provider import Workspace
from carrel.server.requests import Running

LINES = "line\n" * 100


class Shelf(Provider):
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


class Texts(Provider):
    """A provider with one text, which a test replaces."""

    name = "texts"
    schemes = ("texts",)
    text = ""

    def routes(self) -> Sequence[Route]:
        return (Route("texts://one", lambda: Text(self.text), name="one", mime_type="text/plain"),)


def read(
    provider: Provider, uri: str, client: str = "", **part: int | str
) -> tuple[bool, tuple[str | ResourceLink, ...]]:
    call = Running(lambda: None, client=client)
    result = Mirror(Catalog([provider])).call("read_resource", {"uri": uri, **part}, call)
    return result.is_error, result.blocks


def workspace(root: Path) -> Workspace:
    return Workspace(Project(str(root), {}))


def shown(blocks: Sequence[str | ResourceLink]) -> tuple[str, str]:
    """Return the note and the text of an answer that is one part: its first line, which is its last too."""
    [block] = blocks
    note, _, rest = str(block).partition("\n")
    assert rest.endswith(note), "the first line is not the last one"
    return without_cost(note), rest.removesuffix(note)


def without_cost(text: object) -> str:
    """Return a text whose notes name neither what it is a part of nor tokens."""
    return re.sub(
        r"\[[^\[\]: ]+: (?=lines|bytes)|, about [\d,]+ of [\d,]+ tokens", lambda it: "[" * (it[0][0] == "["), str(text)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("utf-8", "字" * 60_000),
        ("utf-8-sig", "字" * 60_000),
        ("utf-16", "字\n" * 60_000),
        ("utf-16-be", "\ufeff" + "x字\n" * 60_000),
        ("iso-8859-1", "é\n" * 60_000),
        ("utf-8", "a line\n" * 60_000),
    ],
)
@pytest.mark.parametrize("client", ["", *(host.client for host in HOSTS)])
def test_an_answer_is_never_longer_than_the_host_takes(tmp_path: Path, encoding: str, text: str, client: str) -> None:
    (tmp_path / "long.txt").write_bytes(text.encode(encoding))

    is_error, blocks = read(workspace(tmp_path), "workspace:///long.txt", client)

    length = answer_length(client)
    [block] = blocks
    sent = len(json.dumps(block, ensure_ascii=False).encode())
    assert (is_error, length * 0.8 < sent <= length) == (False, True)
    note, part = shown(blocks)
    assert text.removeprefix("\ufeff").startswith(part.rstrip("\n"))
    assert part.endswith("\n")
    assert "; next: workspace:///long.txt?start=" in note


def test_a_host_is_known_by_the_beginning_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text(("x" * 99 + "\n") * 5_000, encoding="utf-8")

    lengths = [
        len(str(read(workspace(tmp_path), "long.txt", name)[1][0])) for name in ("codex-mcp-client (x)", "codex")
    ]

    assert [round(length, -3) for length in lengths] == [40_000, 20_000]


def test_a_text_that_fits_comes_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("x" * (ANSWER_LENGTH - 2), encoding="utf-8")

    assert read(workspace(tmp_path), "workspace:///short.txt") == (False, ("x" * (ANSWER_LENGTH - 2),))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-1"])
def test_parts_read_one_after_another_are_the_whole(tmp_path: Path, encoding: str) -> None:
    whole = "".join(f"né {number}\n" for number in range(9_000))
    (tmp_path / "long.txt").write_bytes(whole.encode(encoding))
    uri, parts = "workspace:///long.txt", []
    while uri:
        _, [block] = read(workspace(tmp_path), uri)
        note, _, text = str(block).partition("\n")
        parts.append(text.removesuffix(note))
        uri = note.partition("next: ")[2].rstrip("]")

    assert len(parts) > 2
    assert "".join(parts) == whole


@pytest.mark.parametrize(
    ("query", "part", "note"),
    [
        ("", {"start": 5}, "[lines 2-3291 of 50000, bytes 5-16455 of 250000; next: workspace:///a.txt?start=16455]"),
        (
            "?lines=2-30000",
            {},
            "[lines 2-3291 of 50000, bytes 5-16455 of 250000; next: workspace:///a.txt?start=16455]",
        ),
        ("?lines=2-3", {}, "[lines 2-3 of 50000, bytes 5-15 of 250000; next: workspace:///a.txt?lines=4-5]"),
        ("", {"lines": "2-3"}, "[lines 2-3 of 50000, bytes 5-15 of 250000; next: workspace:///a.txt?lines=4-5]"),
        (
            "",
            {"start": 5, "length": 7},
            "[lines 2-3 of 50000, bytes 5-12 of 250000; next: workspace:///a.txt?start=12]",
        ),
    ],
)
def test_no_way_of_asking_gives_more_than_a_part(tmp_path: Path, query: str, part: dict[str, Any], note: str) -> None:
    (tmp_path / "a.txt").write_text("line\n" * 50_000, encoding="utf-8")

    is_error, blocks = read(workspace(tmp_path), f"workspace:///a.txt{query}", **part)

    assert (is_error, shown(blocks)[0]) == (False, note)
    assert len(str(blocks[0])) <= ANSWER_LENGTH


@pytest.mark.parametrize(("query", "part"), [("", {"length": 99_999}), ("?start=0&length=99999", {})])
def test_a_length_that_was_asked_for_wins_over_what_the_host_takes(
    tmp_path: Path, query: str, part: dict[str, Any]
) -> None:
    (tmp_path / "a.txt").write_text("line\n" * 50_000, encoding="utf-8")

    _, blocks = read(workspace(tmp_path), f"workspace:///a.txt{query}", "@cline/core", **part)

    note, text = shown(blocks)
    assert note == "[lines 1-20000 of 50000, bytes 0-99999 of 250000; next: workspace:///a.txt?start=99999]"
    assert len(text.rstrip("\n")) == 99_999


@pytest.mark.parametrize("part", [{}, {"length": 9}, {"lines": "1-"}])
def test_what_is_next_is_the_same_in_meta_as_in_the_text_however_short_the_first_line(
    tmp_path: Path, part: dict[str, Any]
) -> None:
    (tmp_path / "a.txt").write_text("one\n" + "x" * 50_000 + "\n", encoding="utf-8")

    call = Running(lambda: None)
    result = Mirror(Catalog([workspace(tmp_path)])).call("read_resource", {"uri": "a.txt", **part}, call)

    following = str((result.meta or {})["dev.carrel/next"])
    assert following == f"workspace:///a.txt?start={part.get('length', 4)}"
    assert f"; next: {following}]" in str(result.blocks[0])


def test_a_part_says_what_it_is_a_part_of_and_what_both_cost(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("line\n" * 50_000, encoding="utf-8")

    _, [block] = read(workspace(tmp_path), "a.txt", lines="1-100")

    assert str(block).startswith(
        f"[a.txt: lines 1-100 of 50000, bytes 0-500 of 250000, about {estimate_tokens(LINES):,} of "
        f"{estimate_tokens(LINES) * 500:,} tokens; next: workspace:///a.txt?lines=101-200]"
    )


def test_the_last_part_says_that_it_is_the_end(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("line\n" * 5, encoding="utf-8")

    _, [block] = read(workspace(tmp_path), "a.txt", lines="4-")

    assert without_cost(block) == "[lines 4-5 of 5, bytes 15-25 of 25; the end]\nline\nline\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("most", [10_000, 20_000])
def test_a_cut_of_lines_names_the_lines_it_really_gives_however_large_the_file(
    tmp_path: Path, encoding: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("carrel.core.line_ranges.MAX_COUNTED", 1_000)  # as for a text of more than 16 MiB
    (tmp_path / "a.txt").write_text("".join(f"line {number:06}\n" for number in range(1, 5_001)), encoding=encoding)
    catalog = Catalog([workspace(tmp_path)])

    [part] = catalog.read_part("workspace:///a.txt", None, Part(most, "7-4000")).items
    assert isinstance(part, Text)
    given = part.text.splitlines()
    note, text = shown(read(workspace(tmp_path), "a.txt", lines="7-4000")[1])

    assert (given[0], len(given) < 3_000) == ("line 000007", True)
    assert (part.meta or {})["dev.carrel/lines"] == f"7-{int(given[-1][5:])}"
    assert note.startswith(f"[lines 7-{int(text.splitlines()[-1][5:])}, bytes ")


def test_a_cut_within_a_line_of_a_large_file_names_that_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("carrel.core.line_ranges.MAX_COUNTED", 1_000)
    (tmp_path / "a.txt").write_text("short\n" + "x" * 50_000 + "\nend\n", encoding="utf-8")

    [part] = Catalog([workspace(tmp_path)]).read_part("workspace:///a.txt", None, Part(900, "2-3")).items

    assert (part.meta or {})["dev.carrel/lines"] == "2-2"


@pytest.mark.parametrize(
    ("lines", "following"),
    [("2-3", "?lines=4-5"), ("2-30000", "?start=20005&length=20000"), ("2-", "?start=20005&length=20000")],
)
def test_what_a_part_calls_the_next_can_be_read_and_is_next(tmp_path: Path, lines: str, following: str) -> None:
    (tmp_path / "a.txt").write_text("line\n" * 50_000, encoding="utf-8")
    catalog = Catalog([workspace(tmp_path)])

    [part] = catalog.read_part(f"workspace:///a.txt?lines={lines}", None, Part(ANSWER_LENGTH)).items

    told = part.meta or {}
    assert told["dev.carrel/next"] == f"workspace:///a.txt{following}"
    [after] = catalog.read(str(told["dev.carrel/next"])).items
    assert (after.meta or {})["dev.carrel/start"] == told["dev.carrel/start"] + told["dev.carrel/length"]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("lines", "answer"),
    [
        (
            "2",
            "[lines 2-2 of 4, bytes 4-8 of 13; next: shelf://all?start=8]\ntwo\n[lines 2-2 of 4, bytes 4-8 of 13; next: shelf://all?start=8]",
        ),
        ("3-", "[lines 3-4 of 4, bytes 8-13 of 13; the end]\n3\nend"),
        ("1-9", "one\ntwo\n3\nend"),
        ("9-", "[bytes 13-13 of 13; the end]\n"),
    ],
)
def test_lines_can_be_asked_for_where_the_provider_knows_none(lines: str, answer: str) -> None:
    is_error, [block] = read(Shelf(Text("one\ntwo\n3\nend")), "shelf://all", lines=lines)

    assert (is_error, without_cost(block)) == (False, answer)


@pytest.mark.parametrize("lines", ["0", "5-4", "x", "-3"])
def test_lines_that_are_invalid_are_refused(tmp_path: Path, lines: str) -> None:
    (tmp_path / "a.txt").write_text("line\n", encoding="utf-8")
    message = f"Invalid parameter: lines={lines} (expected 10-50, 10- or 10, counted from 1)"

    assert read(workspace(tmp_path), "a.txt", lines=lines) == (True, (message,))
    assert read(Shelf(Text("one")), "shelf://all", lines=lines) == (True, (message,))


@pytest.mark.parametrize(
    "path",
    [
        "src/my file.txt",
        "./src/my file.txt",
        "src/../src/my file.txt",
        "workspace:///src/my%20file.txt",
        "@workspace:///src/my%20file.txt",
        "@carrel:workspace:///src/my%20file.txt",
    ],
)
def test_a_path_is_read_as_the_file_that_is_there(tmp_path: Path, path: str) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "my file.txt").write_text("hello", encoding="utf-8")

    assert read(workspace(tmp_path), path) == (False, ("hello",))
    assert read(workspace(tmp_path), str(tmp_path / "src" / "my file.txt")) == (False, ("hello",))
    assert read(workspace(tmp_path), (tmp_path / "src" / "my file.txt").as_uri()) == (False, ("hello",))


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("REDME.md", "did you mean workspace:///README.md?"),
        ("routing.py", "did you mean workspace:///src/routing.py?"),
        ("srx/", "did you mean workspace:///src/?"),
        ("nothing-like-it", ""),
        ("secrt.pem", ""),
    ],
)
def test_a_near_miss_names_what_exists_and_may_be_read(tmp_path: Path, asked: str, told: str) -> None:
    for name in ("README.md", "src/routing.py", "secret.pem"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x", encoding="utf-8")

    is_error, [message] = read(workspace(tmp_path), asked)

    assert is_error
    assert str(message).partition("; ")[2] == told


def test_an_unknown_scheme_names_those_that_are_served(tmp_path: Path) -> None:
    assert read(workspace(tmp_path), "nobody://x") == (
        True,
        ("Unknown scheme: nobody://x; served here: workspace://",),
    )


def test_a_file_of_one_byte_has_one_byte(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a", encoding="utf-8")

    [listed] = Mirror(Catalog([workspace(tmp_path)])).call("list_resources", {}, Running(lambda: None)).blocks
    [folder] = read(workspace(tmp_path), "workspace:///")[1]

    assert listed == "workspace:///a.txt  1 byte"
    assert str(folder).startswith("workspace:///a.txt  1 byte, 20")


def test_a_next_page_is_named_after_a_text_that_is_all_there() -> None:
    shelf = Shelf(Text("a page", meta={"dev.carrel/next": "shelf://all?after=a"}))

    note = "[next: shelf://all?after=a]"
    assert read(shelf, "shelf://all") == (False, (f"{note}\na page\n{note}",))


def test_a_folder_is_one_line_for_each_child(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in "ab":
        (tmp_path / "sub" / name).write_text("hello", encoding="utf-8")

    is_error, [block] = read(workspace(tmp_path), "sub/")

    assert (is_error, [line.partition(", ")[0] for line in str(block).split("\n")]) == (
        False,
        ["workspace:///sub/a  5 bytes", "workspace:///sub/b  5 bytes"],
    )


@pytest.mark.slow
def test_a_long_folder_comes_in_parts_and_says_where_to_go_on(tmp_path: Path) -> None:
    names = [f"{number:04}-{'x' * 100}" for number in range(1_200)]
    for name in names:
        (tmp_path / name).touch()
    uri, listed = "workspace:///", []
    while uri:
        is_error, [block] = read(workspace(tmp_path), uri)
        assert (is_error, len(str(block)) <= ANSWER_LENGTH) == (False, True)
        lines = str(block).split("\n")
        uri = lines[-1].partition("next: ")[2].rstrip("]")
        if uri:
            assert lines.pop() == lines.pop(0)
        listed += [line.partition("  ")[0] for line in lines]

    assert listed == [f"workspace:///{name}" for name in names]


def test_of_several_items_those_that_fit_are_shown_and_the_next_is_named() -> None:
    shelf = Shelf(Text("small", uri="shelf://1"), Text("字" * 30_000, uri="shelf://2"), Text("x", uri="shelf://3"))

    note = "[1 of 3 shown; next: shelf://2]"
    assert read(shelf, "shelf://all") == (False, (f"{note}\nshelf://1  small\n{note}",))


def test_items_without_a_uri_are_to_be_read_as_a_resource() -> None:
    shelf = Shelf(Text("small"), Text("x" * 70_000))

    note = "[1 of 2 shown; next: shelf://all, as a resource]"
    assert read(shelf, "shelf://all") == (False, (f"{note}\nsmall\n{note}",))


def test_binary_content_is_named_with_its_whole_size() -> None:
    link = ResourceLink("shelf://all", "all", None, "image/png")

    assert read(Shelf(Blob(b"\0" * 70_000, "image/png")), "shelf://all") == (
        False,
        ("Binary content of 70000 bytes; read it as a resource.", link),
    )


def test_many_binary_items_are_bounded_too() -> None:
    shelf = Shelf(*(Blob(b"", uri=f"shelf://{number}") for number in range(5_000)))

    _, blocks = read(shelf, "shelf://all")

    links = [block for block in blocks if isinstance(block, ResourceLink)]
    note = f"[{len(links)} of 5000 shown; next: shelf://{len(links)}]"
    assert (str(blocks[0]).split("\n")[0], blocks[-1]) == (note, note)
    assert 100 < len(links) < 5_000


def test_the_end_of_a_long_text_says_how_to_ask_for_less() -> None:
    _, [block] = read(Shelf(Text("x" * 70_000)), "shelf://end?tail=5")

    advice = "ask for less, or for the whole in parts: shelf://end?start=0"
    note = str(block).partition("\n")[0]
    assert without_cost(note).startswith("[lines 1-1 of 1, bytes 0-19")
    assert without_cost(note).endswith(f" of 70000; {advice}]")
    assert str(block).endswith(f"x\n{note}")


def as_a_host_shows(text: str, host: Host) -> str:
    """Return what is left of an answer in a host that cuts it."""
    if len(text) <= host.limit or host.cut == "never":
        return text
    if host.cut == "end":
        return text[: host.limit]
    kept = (host.limit if host.cut == "middle" else 2_000) // 2
    return f"{text[:kept]}[…]{text[-kept:] if host.cut == 'middle' else ''}"


@pytest.mark.slow
def test_no_host_cuts_a_part_and_every_part_names_the_next() -> None:
    chance = random.Random(18)
    alphabets = ["abc def\n", 'x"\\\n\t', "né ü\n", "漢字かな\n", "🦀\n", "x"]
    catalog = Catalog([shelf := Texts()])
    mirror, unknown = Mirror(catalog), Host("", "", ANSWER_LENGTH, "middle", ANSWER_LENGTH)
    for _ in range(10_000):
        host = chance.choice([*HOSTS, unknown])
        shelf.text = "".join(chance.choices(chance.choice(alphabets), k=40)) * chance.randrange(1, 1_500)
        asked = {"uri": "texts://one"} | ({"start": chance.randrange(9_000)} if chance.random() < 0.3 else {})
        [block] = mirror.call("read_resource", asked, Running(lambda: None, client=host.client)).blocks
        seen = as_a_host_shows(str(block), host)
        lines = seen.split("\n")

        assert seen == block
        if "; next: " in lines[0]:
            assert lines[0] == lines[-1]
        else:
            assert seen.endswith(shelf.text[-40:]) or "; the end]" in lines[0]
