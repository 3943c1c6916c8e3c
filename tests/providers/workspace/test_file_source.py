"""Parts of files: byte ranges that join to the whole, and lines."""

import tracemalloc
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from carrel.core.model import Range
from tests.support.workspaces import Served, fill

SAMPLE = "aé€😀z\n"
WINDOW = 65_536


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path, preset="all") as served:
        yield served


# Ranges


@pytest.mark.parametrize(
    ("asked", "text", "given"),
    [
        ((0, None), SAMPLE, (0, 12)),
        ((0, 1), "a", (0, 1)),
        ((0, 2), "aé", (0, 3)),
        ((2, 1), "", (3, 0)),
        ((2, 2), "€", (3, 3)),
        ((4, 3), "😀", (6, 4)),
        ((7, 100), "z\n", (10, 2)),
        ((5, 0), "", (6, 0)),
        ((12, 5), "", (12, 0)),
        ((99, 5), "", (12, 0)),
    ],
)
@pytest.mark.parametrize("way", ["query", "parameters", "loose query"])
def test_a_character_belongs_to_the_range_that_holds_its_first_byte(
    served: Served, tmp_path: Path, way: str, asked: tuple[int, int | None], text: str, given: tuple[int, int]
) -> None:
    fill(tmp_path, {"s.md": SAMPLE})
    start, length = asked
    query = f"?start={start}" + ("" if length is None else f"&length={length}")
    uri = {"query": f"workspace:///s.md{query}", "loose query": f"workspace:s.md{query}"}.get(way, "workspace:///s.md")
    wanted = Range(start, length) if way == "parameters" else None
    meta = served.meta(uri, wanted)

    assert (served.text(uri, wanted), (meta["start"], meta["length"]), meta["total"]) == (text, given, 12)


@pytest.mark.parametrize("query", ["?start=0", "?length=1", "?lines=1"])
def test_a_range_given_in_two_ways_is_refused(served: Served, tmp_path: Path, query: str) -> None:
    fill(tmp_path, {"s.md": SAMPLE})
    outcomes = {served.outcome(f"{start}s.md{query}", Range(0, 1)) for start in ("workspace:///", "workspace:")}

    assert outcomes == {"BADARGUMENT start"}


@pytest.mark.parametrize(
    ("encoding", "bom"), [("utf-8", b"\xef\xbb\xbf"), ("utf-16le", b"\xff\xfe"), ("utf-16be", b"\xfe\xff")]
)
def test_a_byte_order_mark_counts_and_prints_nothing(served: Served, tmp_path: Path, encoding: str, bom: bytes) -> None:
    data = bom + SAMPLE.encode(encoding)
    fill(tmp_path, {"x.md": data})
    meta = served.meta("workspace:///x.md")
    steps = [served.text(f"workspace:///x.md?start={start}&length=3") for start in range(0, len(data), 3)]

    assert (served.text("workspace:///x.md"), "".join(steps)) == (SAMPLE, SAMPLE)
    assert (meta["encoding"], meta["total"], meta["length"]) == (encoding, len(data), len(data))
    assert served.meta("workspace:///x.md?start=0&length=1")["length"] == len(bom)


def test_latin_1_is_reported_as_a_fallback_and_every_byte_is_a_boundary(served: Served, tmp_path: Path) -> None:
    fill(tmp_path, {"x.md": "café\n".encode("latin-1")})
    meta = served.meta("workspace:///x.md?start=3&length=1")

    assert served.text("workspace:///x.md?start=3&length=1") == "é"
    assert (meta["encoding"], meta["fallback"], meta["start"], meta["length"]) == ("iso-8859-1", True, 3, 1)


def test_malformed_parts_after_the_window_become_one_character_each_and_are_counted(
    served: Served, tmp_path: Path
) -> None:
    fill(tmp_path, {"x.md": b"a" * WINDOW + b"\xff\xe2\x82b\xf0\x9f\x98c"})

    assert served.text(f"workspace:///x.md?start={WINDOW}") == "\ufffd\ufffdb\ufffdc"
    assert served.meta(f"workspace:///x.md?start={WINDOW}")["replaced"] == 3
    assert "replaced" not in served.meta("workspace:///x.md?start=0&length=9")


def test_line_ends_are_kept(served: Served, tmp_path: Path) -> None:
    fill(tmp_path, {"x.md": "a\r\nb\rc\n\n"})

    assert served.text("workspace:///x.md") == "a\r\nb\rc\n\n"


# Lines


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16le", "utf-16be", "latin-1"])
@pytest.mark.parametrize(
    ("lines", "text", "told"),
    [
        ("1", "eins\n", "1-1"),
        ("2-3", "zwei\r\n\n", "2-3"),
        ("3-", "\nvïer", "3-4"),
        ("4", "vïer", "4-4"),
        ("4-9", "vïer", "4-4"),
        ("1-999999999999999", "eins\nzwei\r\n\nvïer", "1-4"),
        ("5", "", None),
        ("9-12", "", None),
    ],
)
def test_lines_are_counted_from_1_with_both_ends(
    served: Served, tmp_path: Path, encoding: str, lines: str, text: str, told: str | None
) -> None:
    bom = {"utf-16le": b"\xff\xfe", "utf-16be": b"\xfe\xff"}.get(encoding, b"")
    data = bom + "eins\nzwei\r\n\nvïer".encode(encoding)
    fill(tmp_path, {"x.md": data})
    uri = f"workspace:///x.md?lines={lines}"
    meta = served.meta(uri)
    start, length = meta["start"], meta["length"]

    assert isinstance(start, int)
    assert isinstance(length, int)
    assert (served.text(uri), meta.get("lines")) == (text, told)
    assert data[start : start + length].removeprefix(bom) == text.encode(encoding)
    assert told is not None or (start, length) == (len(data), 0)


@pytest.mark.parametrize(
    ("lines", "following"), [("1", "2-2"), ("1-2", "3-4"), ("2-2", "3-3"), ("2-", None), ("3", None), ("2-3", None)]
)
def test_lines_that_follow_are_named(served: Served, tmp_path: Path, lines: str, following: str | None) -> None:
    fill(tmp_path, {"x.md": "1\n2\n3\n"})

    told = served.meta(f"workspace:///x.md?lines={lines}").get("next")

    assert told == (None if following is None else f"workspace:///x.md?lines={following}")


@pytest.mark.parametrize(("data", "expected"), [("", []), ("\n", ["\n"]), ("x", ["x"]), ("x\n", ["x\n"])])
def test_small_files_have_the_lines_they_have(served: Served, tmp_path: Path, data: str, expected: list[str]) -> None:
    fill(tmp_path, {"x.md": data})

    assert [text for line in (1, 2) if (text := served.text(f"workspace:///x.md?lines={line}"))] == expected


def test_lines_of_a_binary_file_are_refused(served: Served, tmp_path: Path) -> None:
    fill(tmp_path, {"x.md": b"\x00\n\n"})

    assert served.outcome("workspace:///x.md?lines=1") == "BADARGUMENT lines"


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16le"])
def test_lines_far_down_are_found_without_holding_the_file(served: Served, tmp_path: Path, encoding: str) -> None:
    bom = b"\xff\xfe" if encoding == "utf-16le" else b""
    fill(tmp_path, {"x.md": bom + "".join(f"{number:09}\n" for number in range(150_000)).encode(encoding)})
    tracemalloc.start()

    text = served.text("workspace:///x.md?lines=120001-120002")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert text == "000120000\n000120001\n"
    assert peak < 5_000_000


def test_a_part_names_the_next_until_the_end(served: Served, tmp_path: Path) -> None:
    fill(tmp_path, {"x.md": SAMPLE * 3})
    parts, uri = [], "workspace:///x.md?length=5"
    while uri:
        parts.append((served.text(uri), served.meta(uri)))
        uri = str(served.meta(uri).get("next", ""))

    assert "".join(text for text, _ in parts) == SAMPLE * 3
    assert all(int(str(a["start"])) + int(str(a["length"])) == b["start"] for (_, a), (_, b) in pairwise(parts))
