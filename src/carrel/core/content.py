"""Prepare content for sending: cut it to a byte range, limit its size, make an ETag.

A character belongs to the range that holds its first byte, so that parts read one after another join to exactly the
whole, whatever their length. The catalogue does this once for all providers.
"""

from collections.abc import Callable, Iterable, Sequence
from sys import getsizeof
from typing import Final

from carrel.core import line_ranges
from carrel.core.cache import BoundedCache
from carrel.core.errors import BadArgument, TooLarge, echo
from carrel.core.hashing import blake2b
from carrel.core.limits import MAX_KEPT_TEXT_BYTES
from carrel.core.model import Blob, Encoding, Item, Meta, Range, Reading, Source, Stored, Text, Unread
from carrel.core.record import replace
from carrel.core.uri import pairs, split_query, with_query, without

_ETAG_BYTES: Final = 8
LONG_READ_BYTES: Final = 1 << 20
"""Longer reads run on a worker thread. This many bytes take a millisecond to decode and encode, with Python's lock
held: on another thread the event loop would wait as long, and the read would take a third longer."""
_BYTE_ORDER_MARK: Final = "\ufeff"
_CHUNK: Final = 1 << 20
_LEAST_WEIGHT: Final = 1_024
_SUGGESTED_SHARE: Final = 16
"""A part of 1/16 of the limit fits in one message even if every character is escaped."""
OTHER_PARTS: Final = frozenset({"lines", "tail", "since"})
"""Query parameters for a part that cannot be combined with a byte range."""
NEXT: Final = "dev.carrel/next"
"""The key in `meta` for the URI of what comes after a part."""
OPEN_ENDED: Final = frozenset({"tail", "since"})
"""Query parameters for a part without a fixed place: there is no URI for the part after it."""
_CHILD_BYTES: Final = 640
_RESULT_BYTES: Final = 4_096
"""Upper bounds, in bytes on the wire: a child of a folder without its name, and a result without its children."""


def without_reserved(meta: Meta | None) -> Meta | None:
    """Return metadata without the keys that the protocol keeps for itself; None if nothing is left."""
    return {key: value for key, value in (meta or {}).items() if not key.startswith("io.modelcontextprotocol/")} or None


def close_sources(items: Iterable[Item]) -> None:
    """Close the sources of items."""
    for item in items:
        if isinstance(item, Stored):
            item.source.close()


def etag_of(items: Sequence[Item]) -> str:
    """Return an ETag made from the content, for readings without one."""
    if len(items) == 1 and items[0].uri is None:
        only = items[0]
        if type(only) is Text:
            return _etag_of_object(only.text)
        if type(only) is Blob and type(only.data) is bytes:
            return _etag_of_object(only.data)
    state = blake2b(digest_size=_ETAG_BYTES)
    for item in items:
        if isinstance(item, Text):
            state.update(item.text.encode("utf-8", "surrogatepass"))
        elif isinstance(item, Blob):
            state.update(item.data)
        else:
            for start in range(0, item.source.size, _CHUNK):
                state.update(item.source.read(start, _CHUNK))
        if item.uri is not None or len(items) > 1:
            state.update(f"\0{item.uri}\0{item.mime_type}\0".encode("utf-8", "surrogatepass"))
    return state.hexdigest()


def _etag_of_object(content: str | bytes) -> str:
    """Return the ETag of a content; remember it when the same object is given for the second time."""
    known = _etags.get(id(content))
    if known is not None and known[0] is content:
        return known[1]
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    etag = blake2b(data, digest_size=_ETAG_BYTES).hexdigest()
    weight = _LEAST_WEIGHT + getsizeof(content)
    if _given_once.get(id(content)) is content:
        _etags.put(id(content), (content, etag), weight)
    else:
        _given_once.put(id(content), content, max(weight, _ONCE_BYTES // _ONCE_COUNT))
    return etag


_etags: Final[BoundedCache[int, tuple[str | bytes, str]]] = BoundedCache(MAX_KEPT_TEXT_BYTES)
"""By the identity of the object: a provider that keeps its content in memory gives the same object each time."""

_ONCE_BYTES: Final = MAX_KEPT_TEXT_BYTES // 2
_ONCE_COUNT: Final = 32
_given_once: Final[BoundedCache[int, str | bytes]] = BoundedCache(_ONCE_BYTES)
"""The latest contents that were given once. Most are made for one answer and never given again, so their ETags are not
worth keeping."""


def matches(condition: str, etag: str) -> bool:
    """Return whether an if-none-match condition names this ETag: bare, quoted, weak, in a list, or as `*`."""
    if condition == etag:
        return True
    named = (part.strip().removeprefix("W/").strip('"') for part in condition.split(","))
    return condition.strip() == "*" or etag in named


def takes_long(given: Item | Reading | Unread, wanted: Range | None) -> bool:
    """Return whether the rest of a read takes too long for an event loop."""
    if isinstance(given, Unread):
        return True
    if not isinstance(given, Reading):
        return isinstance(given, Stored) and given.source.size > LONG_READ_BYTES
    size = sum([item.source.size for item in given.items if isinstance(item, Stored)])
    if given.etag:  # without one, all bytes are read to make it
        part = wanted or given.range
        size = size if part is None or part.length is None else min(size, part.length)
    return size > LONG_READ_BYTES


def whole(item: Item, uri: str, limit: int) -> Text | Blob:
    """Return all of an item, or raise TooLarge before it is read."""
    if isinstance(item, Stored):
        total = item.source.size
        if total > limit:
            raise too_large(uri, total, limit)
        data = item.source.read(0, total)
        return _part(item, item.encoding, data, 0, len(data))
    size = len(item.text) if isinstance(item, Text) else len(item.data)
    if size > limit:
        raise too_large(uri, _source_of(item)[0].size, limit)
    return item


def whole_text(item: Stored) -> str | None:
    """Return the text of a whole source and close it; None if it changed meanwhile or is not valid text."""
    source = item.source
    try:
        size = source.size
        data = source.read(0, size)
        if len(data) != size or source.has_moved():
            return None
        text = data.decode(item.encoding)
    except UnicodeDecodeError:
        return None
    finally:
        source.close()
    return text if item.exact else text.removeprefix(_BYTE_ORDER_MARK)


def cut(item: Item, wanted: Range, uri: str, limit: int, *, is_page: bool = False) -> Text | Blob:
    """Return the part of an item that lies in the range; its `meta` names the place.

    With `is_page`, the item's own URI of what follows is that of the next page: it holds for the last part only.
    """
    source, encoding = _source_of(item)
    total = source.size
    start = _boundary(source, encoding, wanted.start)
    end = total if wanted.length is None else _boundary(source, encoding, wanted.start + wanted.length)
    length = max(0, end - start)
    if length > limit:
        raise too_large(uri, total, limit, wanted.start)
    data = source.read(start, length) if length else b""
    following = _following(uri, end, wanted.length) if wanted.length and end < total else None
    if len(data) < length:  # the source became shorter while it was read
        total, following = start + len(data), None
    if is_page:
        item = replace(item, meta=meta_of_part(item, end))
    return _part(item, encoding, data, start, total, following)


def meta_of_part(item: Item, end: int) -> dict[str, object]:
    """Return the `meta` of an item for its part up to `end`: the next page follows only the last part."""
    is_last = end >= _source_of(item)[0].size
    return {name: value for name, value in (item.meta or {}).items() if is_last or name != NEXT}


def shorten(item: Item, wanted: Range | None, most: int) -> tuple[Item, Range]:
    """Return the item with the lines of the part in `meta`, and a range of at most `most` bytes that ends with a line.

    If the part is shortened, the item's own URI of the next part no longer holds and is removed.
    """
    source, encoding = _source_of(item)
    asked = wanted or Range()
    left = max(0, source.size - asked.start)
    length = left if asked.length is None else min(left, asked.length)
    begin = _boundary(source, encoding, asked.start)
    meta = dict(item.meta or {})
    if length > most:
        meta.pop(NEXT, None)
        length = _whole_lines(source, encoding, asked.start, most)
        of_all = meta.pop(line_ranges.LINES, None)
        if isinstance(of_all, str):
            part = source.read(begin, max(0, asked.start + length - begin))
            meta[line_ranges.LINES] = line_ranges.name_part(line_ranges.parse(of_all)[0], part, encoding)
    meta.update(line_ranges.name_lines(source, encoding, begin, asked.start + length))
    return replace(item, meta=meta), Range(asked.start, length)


def _whole_lines(source: Source, encoding: Encoding, start: int, most: int) -> int:
    """Return how many of the `most` bytes from `start` are whole lines; all of them if no line ends there."""
    if encoding == "binary":
        return most
    begin = _boundary(source, encoding, start)
    end = line_ranges.last_end(source.read(begin, max(0, start + most - begin)), encoding)
    return begin - start + end if end else most


def _following(uri: str, start: int, length: int) -> str | None:
    """Return the URI of the bytes after a part, or None if there is no such URI."""
    names = {name for name, _ in pairs(split_query(uri)[1] or "")}
    return None if names & OPEN_ENDED else with_query(without(uri, OTHER_PARTS), start=start, length=length)


def _part(
    item: Item, encoding: Encoding, data: bytes, start: int, total: int, following: str | None = None
) -> Text | Blob:
    place = {"dev.carrel/total": total, "dev.carrel/start": start, "dev.carrel/length": len(data)}
    meta = {**(item.meta or {}), **place}
    if following is not None:
        meta.setdefault(NEXT, following)
    if encoding == "binary":
        return Blob(data, item.mime_type, item.uri, meta)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        text, meta["dev.carrel/replaced"] = decode(data, encoding)
    if start == 0 and isinstance(item, Stored) and not item.exact:
        text = text.removeprefix(_BYTE_ORDER_MARK)
    return Text(text, item.mime_type, item.uri, meta)


def fitting(items: tuple[Text | Blob, ...], more: Callable[[int], str | None], limit: int) -> tuple[Text | Blob, ...]:
    """Return as many children of a folder as fit in one message; the last one names the URI of the next."""
    left = limit - _RESULT_BYTES
    count = 0
    for item in items:
        left -= _CHILD_BYTES + 3 * len(item.uri or "")
        if left < 0 < count:
            break
        count += 1
    following = more(count) if count else None
    if following is None:
        return items[:count]
    last = items[count - 1]
    return (*items[: count - 1], replace(last, meta={**(last.meta or {}), NEXT: following}))


def stored(item: Item) -> Stored:
    """Return any item as one that is read from a source."""
    source, encoding = _source_of(item)
    return item if isinstance(item, Stored) else Stored(source, encoding, item.mime_type, item.uri, item.meta)


def part(item: Item, wanted: Range) -> Stored:
    """Return a range of an item as one that is read from a source; nothing is read yet."""
    source, encoding = _source_of(item)
    start = _boundary(source, encoding, wanted.start)
    end = source.size if wanted.length is None else _boundary(source, encoding, wanted.start + wanted.length)
    return Stored(_Part(source, start, max(0, end - start)), encoding, item.mime_type, item.uri, item.meta)


def decode(data: bytes, encoding: Encoding) -> tuple[str, int]:
    """Return the text of whole characters, and how many malformed parts became U+FFFD."""
    try:
        return data.decode(encoding), 0
    except UnicodeDecodeError:
        text = data.decode(encoding, "replace")
        genuine = data.decode(encoding, "ignore").count("\N{REPLACEMENT CHARACTER}")
        return text, text.count("\N{REPLACEMENT CHARACTER}") - genuine


def two_ranges(uri: str) -> BadArgument:
    """Return the error for a range beside a URI whose query already asks for a part."""
    query = split_query(uri)[1]
    way = next((name for name, _ in pairs(query) if name in OTHER_PARTS), None) if query else None
    why = f"{way} gives a part, which is not cut again" if way else "given both in the query and beside the URI"
    return BadArgument(f"Invalid parameter: start, length ({why})", data={"parameter": "start"})


def too_large(uri: str, size: int, limit: int, start: int = 0, *, is_answer: bool = False) -> TooLarge:
    """Return the error for a URI that does not fit in one message, with the URI of a part that does.

    The part begins at `start`, or where the URI's query begins. With `is_answer`, `size` is that of the encoded answer.
    """
    query = split_query(uri)[1]
    asked = dict(pairs(query)).get("start", "") if query else ""
    begin = start or (int(asked) if asked.isdecimal() else 0)
    suggested = with_query(without(uri, OTHER_PARTS), start=begin, length=limit // _SUGGESTED_SHARE)
    what = f"the answer for {echo(uri)}" if is_answer else echo(uri)
    message = f"Too large: {what} has {size} bytes, one message holds {limit}; read {echo(suggested)}"
    if not query and not is_answer:
        message += f", or its outline: {echo(f'{uri}?outline')}"
    return TooLarge(message, size=size, limit=limit, suggested=suggested, uri=uri)


def parse_number(name: str, value: str) -> int:
    """Return a byte offset or length from a query."""
    if value.isascii() and value.isdigit() and len(value) <= 15:
        return int(value)
    message = f"Invalid parameter: {name}={echo(value)} (expected a whole number, 0 or more)"
    raise BadArgument(message, data={"parameter": name})


def range_in(values: Sequence[tuple[str, str]]) -> Range:
    """Return the range that `start` and `length` of a query mean."""
    given: dict[str, int] = {}
    for name, value in values:
        if name in given:
            raise BadArgument(f"Invalid parameter: {name} (given twice)", data={"parameter": name})
        given[name] = parse_number(name, value)
    return Range(given.get("start", 0), given.get("length"))


def range_of_lines(item: Item, text: str, uri: str, limit: int) -> Range:
    """Return the byte range of lines such as `10-50`, for providers that do not apply `lines` themselves."""
    source, encoding = _source_of(item)
    if encoding == "binary":
        raise BadArgument("Invalid parameter: lines (only text has lines)", uri=uri, data={"parameter": "lines"})
    if source.size > limit:
        raise too_large(uri, source.size, limit)
    start, end = line_ranges.find(source.read(0, source.size), encoding, *line_ranges.parse(text))
    return Range(start, end - start)


class BytesSource:
    """Bytes in memory, read like any other source."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        self._data = data

    @property
    def size(self) -> int:
        return len(self._data)

    def read(self, start: int, length: int) -> bytes:
        return self._data[start : start + length]

    def has_moved(self) -> bool:
        return False

    def close(self) -> None:
        pass


class _Part:
    """A range of a source."""

    __slots__ = ("_source", "_start", "size")

    def __init__(self, source: Source, start: int, size: int) -> None:
        self._source = source
        self._start = start
        self.size = size

    def read(self, start: int, length: int) -> bytes:
        return self._source.read(self._start + start, max(0, min(length, self.size - start)))

    def has_moved(self) -> bool:
        return self._source.has_moved()

    def close(self) -> None:
        self._source.close()


def _source_of(item: Item) -> tuple[Source, Encoding]:
    if isinstance(item, Stored):
        return item.source, item.encoding
    if isinstance(item, Text):
        return BytesSource(item.text.encode("utf-8", "surrogatepass")), "utf-8"
    return BytesSource(item.data), "binary"


def _boundary(source: Source, encoding: Encoding, offset: int) -> int:
    """Return the smallest character boundary at or after the offset, at most the end."""
    if offset >= source.size:
        return source.size
    if offset == 0 or encoding in ("binary", "iso-8859-1"):
        return offset
    if encoding == "utf-8":
        return _utf8_boundary(source, offset)
    return min(source.size, _utf16_boundary(source, offset + offset % 2, "big" if encoding == "utf-16be" else "little"))


def _utf8_boundary(source: Source, offset: int) -> int:
    before = min(3, offset)
    window = source.read(offset - before, before + 4)
    if len(window) <= before or not _is_continuation(window[before]):  # a file may shrink while it is read
        return offset
    for lead in range(before - 1, -1, -1):
        if not _is_continuation(window[lead]):
            return max(offset, offset - before + lead + _first_length(window[lead : lead + 4]))
    return offset


def _is_continuation(byte: int) -> bool:
    return byte & 0xC0 == 0x80


def _first_length(window: bytes) -> int:
    """Return the length of the first character, or malformed part, of UTF-8."""
    try:
        first = window.decode()[0]
    except UnicodeDecodeError as error:
        if error.start == 0:
            return error.end
        first = window[: error.start].decode()[0]
    return len(first.encode())


def _utf16_boundary(source: Source, offset: int, order: str) -> int:
    window = source.read(offset - 2, 4)
    first, second = (0, 2) if order == "big" else (1, 3)
    is_high = len(window) > first and 0xD8 <= window[first] <= 0xDB  # a file may shrink while it is read
    if len(window) < 4:
        # A high surrogate and an odd last byte are one malformed part.
        return offset + 1 if is_high and len(window) == 3 else offset
    return offset + 2 if is_high and 0xDC <= window[second] <= 0xDF else offset
