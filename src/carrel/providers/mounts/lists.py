"""A server's lists, taken in whole and within bounds."""

from time import monotonic
from typing import Final

from carrel.client import Client
from carrel.errors import RemoteError
from carrel.model import Page, Resource, Template
from carrel.providers.mounts.naming import Snapshot, sound_resources, sound_templates
from carrel.providers.mounts.settings import MountSettings

MAX_PAGES: Final = 200
_METHOD_NOT_FOUND: Final = -32601


def take_lists(client: Client, options: MountSettings, timeout_s: float) -> tuple[Snapshot, float]:
    """Take all pages of resources and templates; say for how many seconds they are fresh."""
    fresh_s = options.refresh_s
    if "resources" not in client.capabilities:
        return Snapshot(), fresh_s
    deadline = monotonic() + timeout_s
    entries: list[Resource] = []
    seen: set[str] = set()
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page: Page = client.page(cursor)
        entries += sound_resources(page.entries)
        if client.era == "modern":
            fresh_s = min(fresh_s, page.ttl_ms / 1_000)
        cursor = page.next_cursor
        if cursor is None or cursor in seen or len(entries) >= options.max_entries or monotonic() >= deadline:
            break
        seen.add(cursor)
    templates = _templates(client)[: options.max_entries]
    return Snapshot(tuple(entries[: options.max_entries]), sound_templates(templates)), fresh_s


def _templates(client: Client) -> list[Template]:
    try:
        return client.templates()
    except RemoteError as error:
        if error.code == _METHOD_NOT_FOUND:
            return []
        raise
