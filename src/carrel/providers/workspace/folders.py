"""A folder as a resource: one small item for each child, so that a host can build a tree from the URIs."""

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from carrel.core.cancellation import check_cancelled
from carrel.core.errors import Denied, RequestError
from carrel.core.isotime import iso
from carrel.core.model import FOLDER_TYPE, Reading, Resource, Text
from carrel.core.record import Value, replace
from carrel.core.uri import quote, split_query
from carrel.files import file_types
from carrel.files.sandbox import SandboxError
from carrel.outline.part_notes import counted
from carrel.providers.workspace.listing import Child, Entry, Listing, describe
from carrel.providers.workspace.paths import Target, canonical, prefix_of
from carrel.providers.workspace.tree import FoundFile, Sniffed, Tree, etag_of

MAX_CHILDREN: Final = 1_000
TTL_MS: Final = 1_000


class Folder(Value, frozen=True):
    """An open folder that is read."""

    tree: Tree
    listing: Listing
    found: FoundFile

    def read(self, target: Target, after: str) -> Reading:
        """Return one item for each child after the sort key `after`; if there is none, one item for the folder."""
        opened, segments = self.found.opened, self.found.segments
        modified = opened.stat.st_mtime_ns // 1_000_000
        children = self.listing.children(opened, segments, after)
        shown = ((child.key, item) for child, item in self._shown(children))
        return replace(
            folder_reading(target.uri, canonical(self.tree.name, segments), shown), last_modified_ms=modified
        )

    def resources(self, after: str) -> Iterator[Resource]:
        """Yield the children that `read` shows, as entries."""
        for child, item in self._shown(self.listing.children(self.found.opened, self.found.segments, after)):
            if child.entry is None:
                assert item.uri is not None
                yield Resource(item.uri, child.name, mime_type=FOLDER_TYPE, sort_key=child.key, target=child.target)
            else:
                listed = describe(child.entry, sort_key=child.key)
                yield replace(listed, name=child.name, title="", mime_type=item.mime_type)

    def _shown(self, children: Iterable[Child]) -> Iterator[tuple[Child, Text]]:
        for child in children:
            check_cancelled()
            item = self._item(child)
            if item is not None:
                yield child, item

    def _item(self, child: Child) -> Text | None:
        if child.entry is None:
            uri = prefix_of(self.tree.name, self.found.segments) + child.key.removesuffix("/")
            return Text("", FOLDER_TYPE, uri=uri)
        return self._file_item(child.entry)

    def _file_item(self, entry: Entry) -> Text | None:
        """Return the item of a file, without its content; None if it is gone, or may not be read after all."""
        sniffed, state = self.tree.sniffed(entry.state), entry.state
        if sniffed is None or not sniffed.is_text:  # for binary files, only the name was judged
            try:
                with self.tree.open_path(entry.uri, entry.segments).opened as opened:
                    if opened.is_folder:
                        return None
                    sniffed, state = self.tree.sniff(opened), opened.stat
            except (RequestError, SandboxError) as error:
                # A file without permission exists and is listed, so it is shown without its encoding.
                return _item(entry, state, None) if isinstance(error, Denied) and error.reason == "os" else None
        return _item(entry, state, sniffed)


def _item(entry: Entry, state: os.stat_result, sniffed: Sniffed | None) -> Text:
    """Return the item of a file in a given state; `sniffed` is None if its bytes are not known."""
    is_text = sniffed is None or sniffed.kind.is_text
    encoding = "" if sniffed is None else sniffed.kind.encoding if is_text else "base64"
    etag = etag_of(state) if sniffed is None else sniffed.etag
    mime_type = file_types.type_of(entry.segments[-1], is_text=is_text)
    return entry_item(entry.uri, mime_type, state.st_size, etag, state.st_mtime_ns // 1_000_000, encoding)


def entry_item(uri: str, mime_type: str, size: int, etag: str, modified_ms: int, encoding: str = "") -> Text:
    """Return the item that stands for a file in its folder: its size and time instead of its content."""
    modified = iso(modified_ms)
    meta = {
        "dev.carrel/uri": uri,
        **({"dev.carrel/encoding": encoding} if encoding else {}),
        "dev.carrel/total": size,
        "dev.carrel/start": 0,
        "dev.carrel/length": 0,
        "dev.carrel/etag": etag,
        "dev.carrel/last-modified": modified,
        "dev.carrel/entry": True,
    }
    return Text(f"{counted(size, 'byte')}, {modified}", mime_type, uri=uri, meta=meta)


def folder_reading(uri: str, canonical_uri: str, children: Iterable[tuple[str, Text]]) -> Reading:
    """Return a folder's reading with its first children, given by sort key and item; if it has none, with itself."""
    taken = list(islice(children, MAX_CHILDREN + 1))
    if not taken:
        itself = Text("", FOLDER_TYPE, meta={"dev.carrel/uri": canonical_uri})
        return Reading((itself,), ttl_ms=TTL_MS, more=lambda _: None)
    bare = split_query(uri)[0]

    def more(count: int) -> str | None:
        return f"{bare}?after={quote(taken[count - 1][0], safe='%')}" if count < len(taken) else None

    return Reading(tuple(item for _, item in taken[:MAX_CHILDREN]), ttl_ms=TTL_MS, more=more)
