"""What was read, made into what is sent: parts, bounds and ETags."""

import weakref
from typing import Any

import pytest

from carrel.core import content
from carrel.core.errors import BadArgument, TooLarge
from carrel.core.model import Blob, Encoding, Item, Range, Stored, Text
from carrel.core.uri import pairs
from tests.support.memory_provider import SAMPLE, Kept

LIMIT = 1_000
URI = "test:///x"


def stored(data: bytes, encoding: Encoding = "utf-8") -> Stored:
    return Stored(Kept(data), encoding, "text/plain")


def part(item: Item, start: int, length: int | None = None) -> tuple[str | bytes, int, int, int]:
    """Return what a part holds, where it starts, how long it is, and how long the whole is."""
    given = content.cut(item, Range(start, length), URI, LIMIT)
    meta: dict[str, Any] = dict(given.meta or {})
    place = (meta["dev.carrel/start"], meta["dev.carrel/length"], meta["dev.carrel/total"])
    return given.text if isinstance(given, Text) else given.data, *place


def note(item: Item, start: int, length: int | None, name: str) -> object:
    """Return one more thing that a part says of itself."""
    return (content.cut(item, Range(start, length), URI, LIMIT).meta or {}).get(f"dev.carrel/{name}")


TABLE = [
    (0, None, SAMPLE, 0, 12),
    (0, 1, "a", 0, 1),
    (0, 2, "aé", 0, 3),
    (2, 1, "", 3, 0),
    (2, 2, "€", 3, 3),
    (4, 3, "😀", 6, 4),
    (7, 100, "z\n", 10, 2),
    (5, 0, "", 6, 0),
    (12, 5, "", 12, 0),
    (99, 5, "", 12, 0),
]
"""Asked start and length; content; returned start and length. The table of `systems/fly.md`, §4."""


@pytest.mark.parametrize(("start", "length", "text", "given_start", "given_length"), TABLE)
def test_a_character_belongs_to_the_range_that_holds_its_first_byte(
    start: int, length: int | None, text: str, given_start: int, given_length: int
) -> None:
    for item in (Text(SAMPLE), stored(SAMPLE.encode())):
        assert part(item, start, length) == (text, given_start, given_length, 12)


UTF_16 = [
    (0, None, SAMPLE, 0, 14),
    (0, 1, "a", 0, 2),
    (1, 1, "", 2, 0),
    (1, 3, "é", 2, 2),
    (4, 2, "€", 4, 2),
    (6, 1, "😀", 6, 4),
    (7, 3, "", 10, 0),
    (8, 4, "z", 10, 2),
    (9, 99, "z\n", 10, 4),
    (14, 1, "", 14, 0),
]


@pytest.mark.parametrize("encoding", ["utf-16le", "utf-16be"])
@pytest.mark.parametrize(("start", "length", "text", "given_start", "given_length"), UTF_16)
def test_utf_16_is_cut_between_its_characters(
    encoding: Encoding, start: int, length: int | None, text: str, given_start: int, given_length: int
) -> None:
    item = stored(SAMPLE.encode(encoding), encoding)

    assert part(item, start, length) == (text, given_start, given_length, 14)


def test_every_byte_of_latin_1_and_of_a_blob_is_a_boundary() -> None:
    data = bytes(range(256))

    for start in range(0, 256, 7):
        expected = data[start : start + 5]
        place = (start, len(expected), 256)
        assert part(stored(data, "iso-8859-1"), start, 5) == (expected.decode("iso-8859-1"), *place)
        assert part(stored(data, "binary"), start, 5) == (expected, *place)
        assert part(Blob(data), start, 5) == (expected, *place)


MALFORMED = {
    "a lone continuation": (b"a\x80b", "a�b", 1),
    "a cut character": (b"a\xe2\x82b", "a�b", 1),
    "a cut character at the end": (b"a\xf0\x9f\x98", "a�", 1),
    "bytes that are never UTF-8": (b"\xff\xfe", "��", 2),
    "an encoded surrogate": (b"\xed\xa0\x80", "���", 3),
    "an overlong slash": (b"\xc0\xaf", "��", 2),
    "with a real replacement character": ("�".encode() + b"\xff", "��", 1),
}


@pytest.mark.parametrize(("data", "text", "replaced"), MALFORMED.values(), ids=MALFORMED.keys())
def test_each_malformed_part_becomes_one_replacement_character(data: bytes, text: str, replaced: int) -> None:
    assert part(stored(data), 0) == (text, 0, len(data), len(data))
    assert note(stored(data), 0, None, "replaced") == replaced


@pytest.mark.parametrize(("data", "text", "replaced"), MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_part_is_never_cut_in_two(data: bytes, text: str, replaced: int) -> None:
    for step in (1, 2, 3):
        starts = range(0, len(data), step)
        assert "".join(str(part(stored(data), start, step)[0]) for start in starts) == text
        assert sum(int(str(note(stored(data), start, step, "replaced") or 0)) for start in starts) == replaced


def test_utf_16_with_a_lone_surrogate_and_an_odd_byte_is_tolerated() -> None:
    data = b"\x00\xd8a\x00\x00"

    assert part(stored(data, "utf-16le"), 0) == ("�a�", 0, 5, 5)
    assert note(stored(data, "utf-16le"), 0, None, "replaced") == 2
    assert [part(stored(data, "utf-16le"), start, 1)[0] for start in range(5)] == ["�", "", "a", "", "�"]
    assert [part(stored(b"\x00\xd8\x00", "utf-16le"), start, 1)[0] for start in range(3)] == ["�", "", ""]


@pytest.mark.parametrize(
    ("encoding", "bom"), [("utf-8", b"\xef\xbb\xbf"), ("utf-16le", b"\xff\xfe"), ("utf-16be", b"\xfe\xff")]
)
def test_a_byte_order_mark_counts_and_is_not_seen(encoding: Encoding, bom: bytes) -> None:
    data = bom + "ab".encode(encoding)
    size, width = len(data), len("a".encode(encoding))

    assert part(stored(data, encoding), 0) == ("ab", 0, size, size)
    assert part(stored(data, encoding), 0, 1) == ("", 0, len(bom), size)
    assert part(stored(data, encoding), len(bom), width) == ("a", len(bom), width, size)


def test_a_mark_that_does_not_come_first_is_a_character() -> None:
    assert part(stored("a\ufeffb".encode()), 1, 3) == ("\ufeff", 1, 3, 5)


def test_a_text_in_memory_keeps_its_first_character_whole_or_in_parts() -> None:
    item = Text("\ufeffab")

    joined = "".join(str(part(item, start, 2)[0]) for start in range(0, 5, 2))

    assert (content.whole(item, URI, LIMIT), joined) == (item, "\ufeffab")


def test_a_part_says_where_it_lies_and_keeps_what_its_item_says_of_itself() -> None:
    item = Text("abc", "text/x", uri="test:///y", meta={"own": 1})

    assert content.cut(item, Range(1, 1), "test:///y?a=1", LIMIT) == Text(
        "b",
        "text/x",
        uri="test:///y",
        meta={
            "own": 1,
            "dev.carrel/total": 3,
            "dev.carrel/start": 1,
            "dev.carrel/length": 1,
            "dev.carrel/next": "test:///y?a=1&start=2&length=1",
        },
    )


def test_the_parts_that_follow_one_another_join_to_the_whole() -> None:
    for step in range(1, 15):
        wanted: Range | None = Range(0, step)
        joined = ""
        while wanted is not None:
            given = content.cut(Text(SAMPLE), wanted, URI, LIMIT)
            assert isinstance(given, Text)
            joined += given.text
            following = (given.meta or {}).get("dev.carrel/next")
            query = dict(pairs(str(following).partition("?")[2]))
            wanted = None if following is None else Range(int(query["start"]), int(query["length"]))
        assert joined == SAMPLE


@pytest.mark.parametrize(("start", "length"), [(0, None), (0, 12), (0, 99), (11, 1), (12, 5), (99, 5)])
def test_the_last_part_has_none_that_follows(start: int, length: int | None) -> None:
    assert note(Text(SAMPLE), start, length, "next") is None


@pytest.mark.parametrize("start", [0, 2, 11])
def test_no_part_follows_one_of_no_length_since_it_would_never_end(start: int) -> None:
    assert note(Text(SAMPLE), start, 0, "next") is None


def test_a_whole_item_in_memory_is_left_as_it_is() -> None:
    for item in (Text(SAMPLE), Blob(b"x")):
        assert content.whole(item, URI, LIMIT) is item


def test_a_whole_stored_item_says_where_it_lies() -> None:
    assert content.whole(stored(b"ab"), URI, LIMIT) == Text(
        "ab", "text/plain", meta={"dev.carrel/total": 2, "dev.carrel/start": 0, "dev.carrel/length": 2}
    )


def test_only_what_is_asked_for_is_read() -> None:
    source = Kept(b"x" * 1_000_000)

    content.cut(Stored(source, "utf-8"), Range(500_000, 10), URI, LIMIT)

    assert source.bytes_read < 50


# The bound


@pytest.mark.parametrize("item", [Text("x" * 1_001), Blob(b"x" * 1_001), stored(b"x" * 1_001)])
def test_what_is_too_large_is_refused_unread_with_a_part_that_fits(item: Item) -> None:
    with pytest.raises(TooLarge) as caught:
        content.whole(item, "test:///x?a=1", LIMIT)

    suggested = "test:///x?a=1&start=0&length=62"
    assert (caught.value.message, caught.value.uri, caught.value.data) == (
        f"Too large: test:///x?a=1 has 1001 bytes, one message holds 1000; read {suggested}",
        "test:///x?a=1",
        {"size": 1001, "limit": 1000, "suggested": suggested},
    )
    assert not isinstance(item, Stored) or item.source.read(0, 0) == b""


def test_a_large_source_is_refused_without_being_read() -> None:
    source = Kept(b"x" * 1_001)

    with pytest.raises(TooLarge):
        content.whole(Stored(source, "utf-8"), URI, LIMIT)

    assert source.bytes_read == 0


def test_a_part_that_is_too_large_suggests_a_shorter_one_from_the_same_start() -> None:
    with pytest.raises(TooLarge) as caught:
        content.cut(stored(b"x" * 5_000), Range(1_500), f"{URI}?start=1500", LIMIT)

    assert caught.value.suggested == "test:///x?start=1500&length=62"


def test_what_just_fits_is_given() -> None:
    assert content.whole(Text("x" * 1_000), URI, LIMIT) == Text("x" * 1_000)


# Numbers, ETags, conditions


@pytest.mark.parametrize(("value", "number"), [("0", 0), ("007", 7), ("65536", 65_536), ("9" * 15, 10**15 - 1)])
def test_a_whole_number_is_read(value: str, number: int) -> None:
    assert content.parse_number("start", value) == number


@pytest.mark.parametrize("value", ["", "-1", "+1", "1.5", "1e3", " 1", "1 ", "x", "٣", "²", "0x1", "9" * 16])
def test_anything_else_is_refused_by_name(value: str) -> None:
    with pytest.raises(BadArgument) as caught:
        content.parse_number("start", value)

    assert (caught.value.message, caught.value.data) == (
        f"Invalid parameter: start={value} (expected a whole number, 0 or more)",
        {"parameter": "start"},
    )


def test_an_etag_is_made_of_the_bytes_alone() -> None:
    etag = content.etag_of([Text(SAMPLE)])

    assert len(etag) == 16
    assert {content.etag_of([item]) for item in (Blob(SAMPLE.encode()), stored(SAMPLE.encode()))} == {etag}
    assert content.etag_of([Text(SAMPLE + " ")]) != etag
    assert content.etag_of([]) != etag


def test_an_etag_tells_readings_of_several_items_apart() -> None:
    readings: list[list[Item]] = [
        [Text("ab"), Text("c")],
        [Text("a"), Text("bc")],
        [Text("abc")],
        [Text("abc", uri="test:///a")],
        [Text("abc", uri="test:///b")],
        [Text("abc", uri="test:///a"), Text("", uri="test:///b")],
        [Text("", uri="test:///b"), Text("abc", uri="test:///a")],
    ]

    assert len({content.etag_of(items) for items in readings}) == len(readings)


@pytest.mark.parametrize(
    "condition",
    ["abc", '"abc"', 'W/"abc"', "W/abc", "x,abc", '"x", "abc"', 'W/"x" , W/"abc"', "*", " * ", ' "abc" ', "abc,"],
)
def test_a_condition_names_an_etag_in_every_spelling(condition: str) -> None:
    assert content.matches(condition, "abc")


@pytest.mark.parametrize("condition", ["", "ab", "abcd", '"ab"', "x,y", "ABC", "W/", ",", '""', "a b c"])
def test_a_condition_that_names_another_does_not_match(condition: str) -> None:
    assert not content.matches(condition, "abc")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16le", "utf-16be"])
@pytest.mark.parametrize("left", [0, 1, 2, 3])
def test_a_file_that_shrinks_while_a_part_of_it_is_read_gives_what_is_left(encoding: Encoding, left: int) -> None:
    class Shrinking(Kept):
        size = 100

    given = content.cut(Stored(Shrinking(b"\xd8" * left), encoding), Range(2, 4), URI, LIMIT)

    assert isinstance(given, Text)


def test_contents_that_are_made_for_one_answer_are_not_kept() -> None:
    class Counted(str):
        """A text whose life can be followed."""

    def is_kept_after(times: int) -> bool:
        text = Counted("x" * 10_000)
        for _ in range(times):
            content.etag_of([Text(text)])
        alive = weakref.ref(text)
        del text
        for number in range(40):  # others come and go
            content.etag_of([Text(str(number) * 100)])
        return alive() is not None

    assert [is_kept_after(times) for times in (1, 2)] == [False, True]
