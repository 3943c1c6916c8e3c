"""The page of a folder: its children with sizes, tokens and times, and a plot of the sizes."""

from collections.abc import Sequence
from typing import Final

from carrel.catalog.catalog import Catalog
from carrel.core.hashing import blake2b
from carrel.core.model import FOLDER_TYPE, Page, Resource
from carrel.explorer.addresses import Addresses, short_name
from carrel.explorer.labels import outcome
from carrel.explorer.rendering.amounts import size
from carrel.explorer.rendering.markup import Html
from carrel.explorer.rendering.plots import Bar, bars

CHILDREN: Final = 150
"""Children of a folder on one page."""
_BYTES_PER_TOKEN: Final = 3.2
"""About how many bytes of code or prose make one token, for texts whose tokens were not counted."""
_NO_TEXT: Final = ("image/", "audio/", "video/", "font/", "application/octet", "application/zip", "application/pdf")
_BARS: Final = 12


def rows(catalog: Catalog, addresses: Addresses, entries: Sequence[Resource]) -> list[dict[str, object]]:
    """Return the rows that show the children of a folder."""
    counts = catalog.token_counts.of(entries) or (None,) * len(entries)
    return [_row(entry, known, addresses) for entry, known in zip(entries, counts, strict=True)]


def _row(entry: Resource, known: int | None, addresses: Addresses) -> dict[str, object]:
    is_text = entry.mime_type == "image/svg+xml" or not entry.mime_type.startswith(_NO_TEXT)
    about = round(entry.size / _BYTES_PER_TOKEN) if entry.size is not None and is_text else None
    return {
        "uri": entry.uri,
        "name": entry.name,
        "title": entry.title,
        "description": entry.description,
        "type": entry.mime_type,
        "isFolder": entry.mime_type == FOLDER_TYPE,
        "address": addresses.page(entry.uri),
        "size": entry.size,
        "tokens": about if known is None else known,
        "tokensAreEstimated": known is None and about is not None,
        "state": outcome(entry.meta or {}),
        "lastModifiedMs": None if entry.annotations is None else entry.annotations.last_modified_ms,
    }


def tag_of(page: Page) -> str:
    """Return an ETag of one page of a folder."""
    state = blake2b(digest_size=8)
    for entry in page.entries:
        modified = None if entry.annotations is None else entry.annotations.last_modified_ms
        line = f"{entry.uri}\0{entry.name}\0{entry.title}\0{entry.description}\0{entry.size}\0{modified}\n"
        state.update(line.encode("utf-8", "replace"))
    state.update((page.next_cursor or "").encode())
    return state.hexdigest()


def plot(folder: str, entries: Sequence[Resource], addresses: Addresses) -> Html:
    """Return the sizes of the largest children as bars; nothing if fewer than two have a size."""
    sized = sorted((entry for entry in entries if entry.size), key=lambda entry: -(entry.size or 0))
    if len(sized) < 2:
        return Html("")
    shown = [
        Bar(short_name(entry.name, folder), entry.size or 0, size(entry.size), addresses.page(entry.uri))
        for entry in sized[:_BARS]
    ]
    return bars("Size by child", shown, spelled=size)
