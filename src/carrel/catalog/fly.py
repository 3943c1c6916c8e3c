"""Lists as the Fly documents have them: files and logs only, by folder or prefix, in numbered pages with a total.

A page has a standard cursor too, so that a client that began with numbers can follow `nextCursor`.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from carrel.catalog import access
from carrel.catalog.pages import key_of, seal
from carrel.catalog.routes import Mounted
from carrel.core.errors import BadArgument, BadCursor
from carrel.core.limits import LIST_TTL_MS
from carrel.core.model import Page, Resource
from carrel.core.record import Value

SECTION: Final = "b"
PAGE_SIZE: Final = 100


class FlyRequest(Value, frozen=True):
    """A request for the entries below a folder, or with a prefix."""

    directory: str | None = None
    prefix: str | None = None
    page: int = 0
    page_size: int = PAGE_SIZE


class FlyPage(Value, frozen=True):
    """A numbered page, and the total number of entries."""

    page: Page
    total: int


def browse(mounted: Iterable[Mounted], request: FlyRequest) -> FlyPage:
    """Return a numbered page; all entries are counted, and only those of the page are kept."""
    if request.directory is not None and request.prefix is not None:
        raise BadArgument("Invalid parameter: directory (not together with uri)", data={"parameter": "directory"})
    first, last = request.page * request.page_size, (request.page + 1) * request.page_size
    shown: list[tuple[Mounted, Resource]] = []
    total = 0
    for pair in _walk(mounted, request, "", ""):
        if first <= total < last:
            shown.append(pair)
        total += 1
    next_cursor = _seal(request, *shown[-1]) if shown and total > last else None
    return FlyPage(Page(tuple(entry for _, entry in shown), next_cursor, ttl_ms=LIST_TTL_MS), total)


def next_page(mounted: Iterable[Mounted], parts: tuple[str, ...], limit: int) -> Page:
    """Return the page that a cursor of `browse` points to, in standard form."""
    match parts:
        case (_, ("d" | "p") as kind, folder_or_prefix, size, name, key) if size.isascii() and size.isdigit():
            is_folder = kind == "d"
            request = FlyRequest(
                directory=folder_or_prefix if is_folder else None,
                prefix=None if is_folder else folder_or_prefix,
                page_size=min(int(size[:9]), limit),
            )
        case _:
            raise BadCursor
    taken = list(islice(_walk(mounted, request, name, key), request.page_size + 1))
    shown = taken[: request.page_size]
    next_cursor = _seal(request, *shown[-1]) if shown and len(taken) > len(shown) else None
    return Page(tuple(entry for _, entry in shown), next_cursor, ttl_ms=LIST_TTL_MS)


def _walk(mounted: Iterable[Mounted], request: FlyRequest, name: str, key: str) -> Iterator[tuple[Mounted, Resource]]:
    """Yield the requested entries after a provider's entry."""
    is_reached = not name
    for one in mounted:
        after = key if one.provider.name == name else ""
        is_reached = is_reached or one.provider.name == name
        if is_reached and "browse" in one.overrides:
            found = one.provider.browse(request.directory, request.prefix or "", after)
            yield from ((one, entry) for entry in found if access.may_list(entry.uri, entry.target))


def _seal(request: FlyRequest, mounted: Mounted, last: Resource) -> str:
    kind = "p" if request.directory is None else "d"
    place = request.prefix or "" if request.directory is None else request.directory
    return seal(SECTION, kind, place, str(request.page_size), mounted.provider.name, key_of(last))
