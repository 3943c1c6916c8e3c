"""Laws of lines and rings: whatever is written, however it arrives."""

import re
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from carrel.providers.logs.lines import Assembler
from carrel.providers.logs.ring import LogLine, Ring

PIECES = st.sampled_from(
    [
        b"a",
        b"\xc3\xa9",
        b"\xe2\x82\xac",
        b"\n",
        b"\r",
        b"\r\n",
        b"\x1b",
        b"\x1b[",
        b"31;1",
        b"m",
        b"\x1b]0;",
        b"t",
        b"\x07",
        b"\x1b\\",
        b"\\",
        b"\xc2\x9b",
        b"\xc2\x9d",
        b"\xc2\x9c",
        b"\xff",
        b"\x00",
        b"\t",
        b" ",
        b"0",
        b"(",
        b"B",
        b"\xe2",
    ]
)
OUTPUT = st.lists(PIECES, max_size=40).map(b"".join)
CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f]")


def assembled(chunks: list[bytes], max_bytes: int = 1_000) -> list[LogLine]:
    assembler = Assembler(max_bytes)
    return [line for chunk in chunks for line in assembler.feed(chunk)] + assembler.flush(is_end=True)


@given(OUTPUT, st.lists(st.integers(0, 200), max_size=8))
@example(b"\x1b]0;\x1b[", [2])
def test_lines_do_not_depend_on_how_bytes_arrive(output: bytes, cuts: list[int]) -> None:
    places = sorted({0, len(output), *(cut for cut in cuts if cut < len(output))})
    chunks = [output[start:end] for start, end in pairwise(places)]

    assert assembled(chunks) == assembled([output])


@given(st.binary(max_size=2_000) | OUTPUT, st.integers(64, 300))
def test_a_line_is_plain_text_and_has_the_size_it_says(output: bytes, max_bytes: int) -> None:
    for line in assembled([output], max_bytes):
        assert CONTROL.search(line.text) is None
        assert line.size == len(line.text.encode()) + 1 <= max_bytes


@given(st.text("aé€😀", min_size=1, max_size=300), st.integers(64, 300))
def test_what_is_cut_and_what_stays_are_the_whole_line(text: str, max_bytes: int) -> None:
    [line] = assembled([text.encode() + b"\n"], max_bytes)
    size = len(text.encode())

    if size <= max_bytes - 1:
        assert line == LogLine(text, size + 1)
    else:
        kept, _, mark = line.text.rpartition("…")
        assert text.startswith(kept)
        assert mark == f"[cut {line.cut} bytes]"
        assert len(kept.encode()) + line.cut == size
        assert max_bytes - 33 - 3 <= len(kept.encode()) <= max_bytes - 33


@given(st.lists(st.lists(st.integers(1, 120), max_size=12), max_size=12), st.integers(120, 300), st.integers(1, 10))
def test_a_ring_keeps_the_newest_that_fit_and_counts_the_rest(
    batches: list[list[int]], max_bytes: int, max_entries: int
) -> None:
    ring = Ring(max_bytes, max_entries)
    every: list[int] = []
    for batch in batches:
        ring.extend([LogLine("", size) for size in batch], 0, "out")
        every += batch
        kept = [entry.line.size for entry in ring.entries]

        expected: list[int] = []
        for size in reversed(every):
            if len(expected) == max_entries or sum(expected) + size > max_bytes:
                break
            expected.insert(0, size)
        assert kept == expected
        assert ring.size == sum(kept)
        assert [entry.seq for entry in ring.entries] == list(range(len(every) - len(kept) + 1, len(every) + 1))
        assert (ring.newest, ring.dropped_entries) == (len(every), len(every) - len(kept))
        assert ring.dropped_bytes == sum(every) - sum(kept)
