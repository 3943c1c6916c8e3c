"""Laws of byte ranges: parts joined are the whole, for any content, any encoding and any step."""

from hypothesis import example, given
from hypothesis import strategies as st

from carrel.catalog.catalog import Catalog
from carrel.core import content
from carrel.core.errors import TooLarge
from carrel.core.model import Blob, Encoding, Item, Range, Stored, Text
from carrel.core.uri import pairs
from tests.support.memory_provider import Kept, Shelf

URI = "x:///y"
LIMIT = 1 << 20
ENCODINGS: list[Encoding] = ["utf-8", "utf-16le", "utf-16be", "iso-8859-1", "binary"]

TEXTS = st.text(st.one_of(st.sampled_from("aé€😀\n\r\ufeff\N{REPLACEMENT CHARACTER}"), st.characters(codec="utf-8")))
"""Anything that can be encoded, with many characters of every length."""

UTF_8 = st.lists(
    st.sampled_from([b"a", b"\xc3\xa9", b"\xe2\x82\xac", b"\xf0\x9f\x98\x80", b"\xef\xbb\xbf"])
    | st.sampled_from([b"\x80", b"\xc3", b"\xe2", b"\xe2\x82", b"\xf0\x9f", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xff"])
    | st.binary(max_size=3)
).map(b"".join)
UTF_16 = st.lists(
    st.sampled_from([b"a\0", b"\xac\x20", b"\x3d\xd8", b"\x00\xde", b"\x3d\xd8\x00\xde", b"\xff\xfe", b"\xfe\xff"])
    | st.binary(max_size=3)
).map(b"".join)
BYTES = st.one_of(st.binary(), UTF_8, UTF_16)
STEPS = st.integers(1, 12)


def value(item: Text | Blob) -> str | bytes:
    return item.text if isinstance(item, Text) else item.data


def part(item: Item, start: int, length: int | None = None) -> tuple[str | bytes, int, int, int]:
    given_part = content.cut(item, Range(start, length), URI, LIMIT)
    meta = given_part.meta or {}
    start, length, total = (int(str(meta[f"dev.carrel/{name}"])) for name in ("start", "length", "total"))
    return value(given_part), start, length, total


def joined(parts: list[str | bytes], whole: str | bytes) -> str | bytes:
    if isinstance(whole, str):
        return "".join(str(one) for one in parts)
    return b"".join(bytes(one) for one in parts if isinstance(one, bytes))


def check_joins(item: Item, step: int) -> None:
    whole, start, length, total = part(item, 0)
    assert (start, length) == (0, total)
    fixed = [part(item, at, step)[0] for at in range(0, total + step, step)]
    assert joined(fixed, whole) == whole
    returned: list[str | bytes] = []
    at = 0
    while at < total:
        piece, start, length, _ = part(item, at, step)
        assert start >= at
        assert length > 0 or start > at
        returned.append(piece)
        at = start + length
    assert joined(returned, whole) == whole


@given(text=TEXTS, step=STEPS)
def test_parts_of_a_text_join_to_it(text: str, step: int) -> None:
    assert part(Text(text), 0)[0] == text
    check_joins(Text(text), step)


@given(data=BYTES, encoding=st.sampled_from(ENCODINGS), step=STEPS)
@example(data=b"\xef\xbb\xbfa", encoding="utf-8", step=1)
@example(data=b"\xf0\x9f\x98", encoding="utf-8", step=1)
@example(data=b"\xe2\x82\xe2\x82\xac\x80", encoding="utf-8", step=2)
@example(data=b"\x3d\xd8\x3d\xd8\x00\xde\x00", encoding="utf-16le", step=1)
@example(data=b"\x00\xd8\x00", encoding="utf-16le", step=1)
@example(data=b"\xd8", encoding="utf-16be", step=1)
def test_parts_of_stored_bytes_join_to_the_whole(data: bytes, encoding: Encoding, step: int) -> None:
    check_joins(Stored(Kept(data), encoding), step)


@given(data=st.binary(), step=STEPS)
def test_parts_of_a_blob_join_to_it(data: bytes, step: int) -> None:
    assert part(Blob(data), 0)[0] == data
    check_joins(Blob(data), step)


@given(text=TEXTS, start=st.integers(0, 60), length=st.integers(0, 60))
def test_a_range_holds_the_characters_that_begin_in_it(text: str, start: int, length: int) -> None:
    offsets, at = [], 0
    for character in text:
        offsets.append(at)
        at += len(character.encode())
    inside = [character for offset, character in zip(offsets, text, strict=True) if start <= offset < start + length]
    first = next((offset for offset in offsets if offset >= start), at)
    expected = "".join(inside)

    assert part(Text(text), start, length) == (expected, first, len(expected.encode()), at)


@given(data=BYTES, encoding=st.sampled_from(ENCODINGS), past=st.integers(0, 10**20), length=st.integers(0, 10**20))
def test_past_the_end_is_empty_and_no_error(data: bytes, encoding: Encoding, past: int, length: int) -> None:
    piece, *place = part(Stored(Kept(data), encoding), len(data) + past, length)

    assert (len(piece), place) == (0, [len(data), 0, len(data)])


@given(data=BYTES, encoding=st.sampled_from(ENCODINGS), start=st.integers(0, 50), length=st.integers(0, 50))
def test_a_part_of_bytes_lies_where_it_says(data: bytes, encoding: Encoding, start: int, length: int) -> None:
    source = Kept(data)
    piece, given_start, given_length, total = part(Stored(source, encoding), start, length)
    end = given_start + given_length

    assert total == len(data)
    assert min(start, total) <= given_start <= end <= total
    assert given_start - start <= 4
    assert end - (start + length) <= 4
    if encoding == "binary":
        assert piece == data[start : start + length]
    elif encoding == "iso-8859-1":
        assert piece == data[start : start + length].decode("iso-8859-1")


@given(text=TEXTS, step=STEPS)
def test_what_follows_is_followed_to_the_end(text: str, step: int) -> None:
    catalog = Catalog([Shelf("s", {"x": text})])
    uri: object = f"s:///x?start=0&length={step}"
    pieces: list[str | bytes] = []
    etags = set()
    for _ in range(len(text) * 4 + 1):
        reading = catalog.read(str(uri))
        [item] = reading.items
        assert isinstance(item, Text)
        etags.add(reading.etag)
        pieces.append(item.text)
        uri = (item.meta or {}).get("dev.carrel/next")
        if uri is None:
            break
        assert dict(pairs(str(uri).partition("?")[2]))["length"] == str(step)

    assert (uri, joined(pieces, text), len(etags)) == (None, text, 1)


@given(text=TEXTS, limit=st.integers(64, 2_000))
def test_no_part_is_longer_than_the_limit(text: str, limit: int) -> None:
    data = (text * 50).encode()
    item = Stored(Kept(data), "utf-8")
    try:
        given_part = content.whole(item, URI, limit)
    except TooLarge as error:
        assert len(data) > limit
        query = dict(pairs(str(error.suggested).partition("?")[2]))
        given_part = content.cut(item, Range(int(query["start"]), int(query["length"])), URI, limit)

    assert len(value(given_part)) <= limit
