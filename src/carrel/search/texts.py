"""The text of a resource, read through the catalogue as any reader gets it, within bounds.

Of a large text, the first and the last part are read. A resource that is not text has none.
"""

from typing import Final

from carrel.catalog.catalog import Catalog
from carrel.catalog.routes import Found
from carrel.core.content import close_sources
from carrel.core.model import Blob, Item, Source, Stored, Text
from carrel.core.record import Value

WHOLE_BYTES: Final = 1 << 20
"""A larger resource is read in part."""
PART_BYTES: Final = 256 << 10
"""Length of the first and of the last part."""
MANY_LINES: Final = 40
"""A hit in a text with fewer lines is read as a whole, unless its template has a parameter for lines."""
COUNTED_BYTES: Final = 64 << 20
"""Maximum bytes that are read between these parts, to number the lines of the last part."""
_CHUNK: Final = 1 << 20
_BYTE_ORDER_MARK: Final = "\ufeff"
_TRIES: Final = 3


class FreshText(Value, frozen=True):
    """The text of a resource, and the ETag of the state that has it.

    With `is_partial` it is the first and the last part. The last part begins with line `tail_line` of this text, which
    is `left_out` lines further down in the resource; None if these were not counted. With `has_lines`, the URI may have
    `lines`. With `has_moved`, the resource changed while it was read.
    """

    uri: str
    text: str
    etag: str
    mime_type: str = ""
    modified_ms: int | None = None
    size: int = 0
    is_partial: bool = False
    tail_line: int = 0
    left_out: int | None = 0
    has_lines: bool = False
    has_moved: bool = False


def read_text(catalog: Catalog, uri: str, *, counts_lines: bool = False) -> FreshText | None:
    """Return the text of a URI, or None if it has none; raise as a read does.

    With `counts_lines`, the lines between the two parts of a large text are counted.
    """
    found = catalog.find(uri)
    text = None
    for _ in range(_TRIES):
        text = _read(catalog, found, uri, counts_lines=counts_lines)
        if text is None or not text.has_moved:
            break
    return text


def _read(catalog: Catalog, found: Found, uri: str, *, counts_lines: bool) -> FreshText | None:
    reading = catalog.open(found)
    try:
        if reading.is_folder or reading.error is not None:
            return None
        texts = [part for item in reading.items if (part := _text_of(item, counts_lines=counts_lines)) is not None]
        has_moved = any(isinstance(item, Stored) and item.source.has_moved() for item in reading.items)
        if not texts:
            return None
        first = texts[0]
        return FreshText(
            uri,
            first[0] if len(texts) == 1 else "\n".join(text for text, *_ in texts),
            reading.etag or "",
            reading.items[0].mime_type or reading.mime_type,
            reading.last_modified_ms,
            sum(size for _, size, _, _ in texts),
            is_partial=any(tail_line > 0 for _, _, tail_line, _ in texts),
            tail_line=first[2] if len(texts) == 1 else 0,
            left_out=first[3] if len(texts) == 1 else None,
            has_lines=len(texts) == 1 and (found.takes("lines") or first[0].count("\n") > MANY_LINES),
            has_moved=has_moved,
        )
    finally:
        close_sources(reading.items)


def _text_of(item: Item, *, counts_lines: bool) -> tuple[str, int, int, int | None] | None:
    """Return the text of an item, its size, the line with which a last part begins, and how many are left out."""
    if isinstance(item, Blob):
        return None
    if isinstance(item, Text):
        size = len(item.text)
        if size <= WHOLE_BYTES:
            return item.text, size, 0, 0
        head, tail = item.text[:PART_BYTES], item.text[-PART_BYTES:]
        return _join(head, tail, item.text.count("\n", len(head), size - len(tail)), size)
    source = item.source
    if item.encoding == "binary" or (b"\0" in source.read(0, 1_024) and item.encoding == "utf-8"):
        return None
    size = source.size
    if size <= WHOLE_BYTES:
        text = source.read(0, size).decode(item.encoding, "replace")
        return (text if item.exact else text.removeprefix(_BYTE_ORDER_MARK)), size, 0, 0
    last = size - PART_BYTES - (size - PART_BYTES) % 4
    head = source.read(0, PART_BYTES).decode(item.encoding, "replace").removeprefix(_BYTE_ORDER_MARK)
    tail = source.read(last, size - last).decode(item.encoding, "replace")
    counted = _count_lines(source, PART_BYTES, last, "\n".encode(item.encoding)) if counts_lines else None
    return _join(head, tail, counted, size)


def _join(head: str, tail: str, between: int | None, size: int) -> tuple[str, int, int, int | None]:
    """Join two parts at whole lines; `between` is how many lines end between them."""
    kept = head[: head.rfind("\n") + 1] or f"{head}\n"
    _, end, rest = tail.partition("\n")
    # The line that the first part cuts, and the one with which the last part begins, are left out.
    left_out = None if between is None else between + bool(end)
    return kept + (rest if end else tail), size, kept.count("\n") + 1, left_out


def _count_lines(source: Source, start: int, end: int, mark: bytes) -> int | None:
    if end - start > COUNTED_BYTES:
        return None
    return sum(source.read(at, min(_CHUNK, end - at)).count(mark) for at in range(start, end, _CHUNK))
