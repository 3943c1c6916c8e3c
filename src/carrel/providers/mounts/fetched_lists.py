"""A server's lists, taken in whole and within bounds."""

from collections.abc import Callable, Iterable
from time import monotonic
from typing import Final, TypeVar

from carrel.client.client import Client
from carrel.core.errors import CarrelError, RemoteError
from carrel.core.model import Resource
from carrel.providers.mounts.settings import MountSettings
from carrel.providers.mounts.uri_mapping import Snapshot, sound_resources, sound_templates

MAX_PAGES: Final = 200
_METHOD_NOT_FOUND: Final = -32601
_Entry = TypeVar("_Entry")


class Circular(CarrelError):
    """What is served here comes back in the other server's list, and would go round for ever."""


def take_lists(client: Client, options: MountSettings, timeout_s: float) -> tuple[Snapshot, float]:
    """Take all pages of resources and templates; say for how many seconds they are fresh."""
    fresh_s = options.refresh_s
    if "resources" not in client.capabilities:
        return Snapshot(), fresh_s

    def resources(cursor: str | None) -> tuple[tuple[Resource, ...], str | None]:
        nonlocal fresh_s
        page = client.page(cursor)
        if client.era == "modern":
            fresh_s = min(fresh_s, page.ttl_ms / 1_000)
        return sound_resources(page.entries), page.next_cursor

    deadline = monotonic() + timeout_s
    entries = _pages(resources, options.max_entries, deadline)
    templates = _pages(client.template_page, options.max_entries, deadline)
    return Snapshot(tuple(entries), sound_templates(templates)), fresh_s


def _pages(
    ask: Callable[[str | None], tuple[Iterable[_Entry], str | None]], most: int, deadline: float
) -> list[_Entry]:
    """Ask page after page, as far as there are bounds; a list that the server does not know is empty."""
    entries: list[_Entry] = []
    seen: set[str] = set()
    cursor: str | None = None
    try:
        for _ in range(MAX_PAGES):
            found, cursor = ask(cursor)
            entries += found
            if cursor is None or cursor in seen or len(entries) >= most or monotonic() >= deadline:
                break
            seen.add(cursor)
    except RemoteError as error:
        if error.code != _METHOD_NOT_FOUND:
            raise
    return entries[:most]
