"""Samples: pages by streaming, checked against reading the whole file; the index of lines; what is too large."""

import json
import os
from math import inf
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.providers.alc import samples
from carrel.providers.alc.files import AlcFolder, Malformed, open_below
from carrel.providers.alc.samples import LineIndex, Samples, lines_from
from tests.providers.alc.homes import Home, read, refusal

URI = "alc://cards/sketch_m_1/samples"
FILE = "cards/sketch/sketch_m_1.samples.jsonl"
BOM = b"\xef\xbb\xbf"


def by_reading_all(data: bytes, offset: int, limit: int) -> list[object] | int:
    """Return the rows of a page, or the physical line of the first that is broken, by looking at every line."""
    lines = data.removeprefix(BOM).split(b"\n")
    rows = [(number, line) for number, line in enumerate(lines) if line.decode("utf-8", "replace").strip()]
    page = []
    for number, line in rows[offset : offset + limit]:
        try:
            page.append(json.loads(line.decode()))
        except ValueError:
            return number
    return page


LINES = st.lists(
    st.sampled_from(
        [b'{"a":1}', b"[1, 2]", b"  3 ", b"", b" ", b"\t\r", b'"text"\r', b"broken", b"\xff", b"\xe3\x80\x80"]
    ),
    max_size=60,
)


@given(
    LINES, st.integers(0, 40), st.integers(0, 40), st.sampled_from([(BOM, b""), (b"", b"\n"), (BOM, b"\n")]), st.data()
)
def test_a_page_is_what_reading_the_whole_file_would_give(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[bytes],
    offset: int,
    limit: int,
    around: tuple[bytes, bytes],
    data: st.DataObject,
) -> None:
    folder = tmp_path_factory.getbasetemp() / "pages"
    folder.mkdir(exist_ok=True)
    content = around[0] + b"\n".join(lines) + around[1]
    (folder / "file").write_bytes(content)
    pages = Samples(10_000, 10_000)
    with pytest.MonkeyPatch.context() as patch, open_below(AlcFolder(str(folder)), "file") as file:
        patch.setattr(samples, "STEP", data.draw(st.integers(1, 7)))
        patch.setattr(samples, "BLOCK", data.draw(st.integers(1, 40)))
        for start in (offset, data.draw(st.integers(0, 40)), offset):
            expected = by_reading_all(content, start, limit)
            try:
                given_page: object = json.loads(pages.page(file, start, limit))
            except Malformed as error:
                given_page = int(str(error).removeprefix("sample line ").partition(":")[0])
            assert given_page == expected


def test_lines_are_kept_only_as_far_as_wanted(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 100 + b"\n" + b" " * 100 + b"\nend")
    with open_below(AlcFolder(str(tmp_path)), "file") as file:
        lines = list(lines_from(file, 0, keep=10))

    assert [(line.text, line.end, line.is_blank, line.is_cut) for line in lines] == [
        (b"x" * 11, 101, False, True),
        (b" " * 11, 202, True, True),
        (b"end", 205, False, False),
    ]


@pytest.mark.slow
def test_the_index_knows_every_thousandth_row_and_goes_on_later(tmp_path: Path) -> None:
    rows = b"".join(b"\n" * (number % 3 == 0) + b"%06d\n" % number for number in range(400_000))
    (tmp_path / "file").write_bytes(rows)
    with open_below(AlcFolder(str(tmp_path)), "file") as file:
        index = LineIndex(file)
        first = index.seek(file, 2_500, inf)
        known = len(index.bytes)
        last = index.seek(file, 399_999, inf)

    assert 2 < known < 400 == len(index.bytes)
    for mark in (first, last):
        assert rows[mark.byte : mark.byte + 7] == b"%06d\n" % mark.row
        assert rows[: mark.byte].count(b"\n") == mark.line
    assert (first.row, last.row) == (2_000, 399_000)


def test_a_changed_file_is_indexed_anew(full: Home) -> None:
    catalog = full.catalog()
    full.write(FILE, "".join(f"{number}\n" for number in range(3_000)))
    assert read(catalog, f"{URI}?offset=2500&limit=2") == "[2500,2501]"

    full.write(FILE, "".join(f"{number}0\n" for number in range(3_000)))
    assert read(catalog, f"{URI}?offset=2500&limit=2") == "[25000,25010]"


def test_no_file_no_rows_and_past_the_end_are_empty(full: Home) -> None:
    catalog = full.catalog()
    assert read(catalog, f"{URI}?limit=0") == "[]"
    assert read(catalog, f"{URI}?offset=2") == "[]"
    assert read(catalog, f"{URI}?offset=10000000") == "[]"
    assert read(catalog, f"{URI}?offset=1&limit=10000") == '[{"case_idx":1,"score":0.0}]'

    (full.home / FILE).unlink()
    assert read(catalog, URI) == "[]"
    (full.home / "cards/sketch/sketch_m_1.toml").unlink()
    full.write(FILE, "1\n")
    assert refusal(catalog, URI) == ("NotFound", "card 'sketch_m_1' not found")


def test_a_broken_line_harms_only_the_pages_it_is_in(full: Home) -> None:
    full.write(FILE, '{"b": 2, "a": "\\ud800é"}\n\n  \r\nbroken\n4')
    catalog = full.catalog()

    assert read(catalog, f"{URI}?limit=1") == '[{"a":"\ufffdé","b":2}]'
    assert read(catalog, f"{URI}?offset=2") == "[4]"
    assert refusal(catalog, URI) == (
        "Internal",
        "Failed to parse sample line 3: Expecting value: line 1 column 1 (char 0)",
    )


def test_a_page_that_is_too_large_says_how_many_rows_fit(full: Home) -> None:
    full.write(FILE, '"1234"\n' * 10 + '"' + "x" * 40 + '"\n')
    catalog = full.catalog(max_page_bytes=30)

    assert refusal(catalog, URI) == ("TooLarge", f"samples page on {URI} exceeds 30 bytes; limit=4 works")
    assert read(catalog, f"{URI}?limit=4") == '["1234","1234","1234","1234"]'
    assert refusal(catalog, f"{URI}?offset=10") == ("TooLarge", "sample row at offset 10 exceeds 30 bytes")
    assert read(catalog, f"{URI}?offset=11") == "[]"


@pytest.mark.slow
def test_a_row_of_hundreds_of_megabytes_is_never_held(full: Home) -> None:
    path = full.write(FILE, "1\n")
    with path.open("r+b") as file:
        file.seek(300_000_000)
        file.write(b"\n2\n")
    os.utime(path)

    catalog = full.catalog(max_page_bytes=1_000)

    assert read(catalog, f"{URI}?offset=2") == "[2]"
    assert refusal(catalog, f"{URI}?offset=1") == ("TooLarge", "sample row at offset 1 exceeds 1000 bytes")
