"""Bytes to lines: whatever pieces they come in, however long they are."""

import random

import pytest

from carrel.core.limits import ID_WINDOW_BYTES
from carrel.protocol.framing import Lines, OverLong

LIMIT = 20


def at_once(stream: bytes, limit: int = LIMIT) -> list[bytes | OverLong]:
    lines = Lines(limit)
    return [*lines.feed(stream), *lines.end()]


def in_pieces(stream: bytes, sizes: list[int], limit: int = LIMIT) -> list[bytes | OverLong]:
    lines = Lines(limit)
    given: list[bytes | OverLong] = []
    at = 0
    for size in sizes:
        given += lines.feed(stream[at : at + size])
        at += size
    return [*given, *lines.feed(stream[at:]), *lines.end()]


STREAMS = {
    "one line": (b'{"id":1}\n', [b'{"id":1}']),
    "two lines": (b"a\nb\n", [b"a", b"b"]),
    "no last line end": (b"a\nb", [b"a", b"b"]),
    "CRLF": (b"a\r\nb\r\n", [b"a", b"b"]),
    "blank lines": (b"\n\n \t\r\n\r\na\n\n\nb\n\n", [b"a", b"b"]),
    "spaces around": (b"  a b \t\r\n", [b"a b"]),
    "NUL and bytes that are not UTF-8": (b"\0\n\xff\xfe\n", [b"\0", b"\xff\xfe"]),
    "only a carriage return at the end": (b"a\n\r", [b"a"]),
    "just short enough": (b"x" * LIMIT + b"\ny\n", [b"x" * LIMIT, b"y"]),
    "just short enough, with CRLF": (b"x" * LIMIT + b"\r\ny\n", [b"x" * LIMIT, b"y"]),
    "one byte too long": (b"x" * (LIMIT + 1) + b"\ny\n", [OverLong(b"x" * LIMIT), b"y"]),
    "one byte too long, with CRLF": (b"x" * (LIMIT + 1) + b"\r\ny\n", [OverLong(b"x" * LIMIT), b"y"]),
    "far too long": (b"x" * 500 + b"\ny\n", [OverLong(b"x" * LIMIT), b"y"]),
    "far too long at the end": (b"y\n" + b"x" * 500, [b"y", OverLong(b"x" * LIMIT)]),
    "two too long": (b"x" * 99 + b"\n" + b"z" * 99 + b"\n", [OverLong(b"x" * LIMIT), OverLong(b"z" * LIMIT)]),
    "too long for its spaces": (b"{}" + b" " * 99 + b"\ny\n", [OverLong(b"{}" + b" " * (LIMIT - 2)), b"y"]),
    "too long for the spaces before": (b" " * 99 + b"{}\ny\n", [OverLong(b" " * LIMIT), b"y"]),
    "nothing": (b"", []),
}


@pytest.mark.parametrize(("stream", "lines"), STREAMS.values(), ids=STREAMS.keys())
def test_a_stream_gives_its_lines(stream: bytes, lines: list[bytes | OverLong]) -> None:
    assert at_once(stream) == lines


@pytest.mark.parametrize(("stream", "lines"), STREAMS.values(), ids=STREAMS.keys())
def test_a_stream_gives_the_same_lines_a_byte_at_a_time(stream: bytes, lines: list[bytes | OverLong]) -> None:
    assert in_pieces(stream, [1] * len(stream)) == lines


def test_a_stream_gives_the_same_lines_in_any_pieces() -> None:
    source = random.Random(7)
    stream = b"".join(part for part, _ in STREAMS.values())
    whole = at_once(stream)

    for _ in range(200):
        assert in_pieces(stream, [source.randrange(40) for _ in range(200)]) == whole


def test_a_line_is_given_as_soon_as_it_is_whole() -> None:
    lines = Lines(LIMIT)

    assert [lines.feed(piece) for piece in (b"a", b"b\nc", b"\n", b"\n", b"d")] == [[], [b"ab"], [b"c"], [], []]


def test_an_over_long_line_keeps_just_enough_to_find_its_id() -> None:
    limit = 10 * ID_WINDOW_BYTES
    stream = b'{"id":1,' + b"x" * limit + b"\n"

    assert at_once(stream, limit) == [OverLong(stream[:ID_WINDOW_BYTES])]
    assert in_pieces(stream, [777] * 60, limit) == [OverLong(stream[:ID_WINDOW_BYTES])]


def test_an_endless_line_is_not_kept() -> None:
    lines = Lines(1_000)

    for _ in range(1_000):
        assert lines.feed(b"x" * 1_000) == []

    kept = sum(len(part) for part in lines._parts) + len(lines._head or b"")
    assert kept <= ID_WINDOW_BYTES
    assert lines.feed(b"\nping\n") == [OverLong(b"x" * 1_000), b"ping"]
