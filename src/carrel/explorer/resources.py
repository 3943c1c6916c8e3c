"""The page of a resource: a folder with its children, or a text, an image or other bytes.

Of a long text the page shows one part, with the addresses of the others: see `parts`.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from carrel.app.explanation import failed
from carrel.catalog.catalog import Part
from carrel.core.content import close_sources
from carrel.core.errors import CarrelError, RequestError
from carrel.core.hierarchy import folder_of, is_root, parent_of
from carrel.core.model import FOLDER_TYPE, Blob, Item, Page, Range, Reading, Text
from carrel.core.tokens import estimate_tokens
from carrel.core.uri import decode_loosely, pairs, split_query, with_query, without
from carrel.explorer import exact, folders
from carrel.explorer.addresses import Addresses, address_about, title_of
from carrel.explorer.labels import outcome
from carrel.explorer.leaves import Leaf
from carrel.explorer.parts import PART_BYTES, RANGES, TextPart, part_of
from carrel.explorer.rendering.markup import Content, Links, visible_json
from carrel.server.server import Server

if TYPE_CHECKING:
    from carrel.explorer.rendering.rendering import Rendering

LOG_BYTES: Final = 131_072
"""How much of a log a page shows at once: of a longer one, its end comes first."""
_VIEWS: Final = frozenset({"at", "blame", "diff", "log", "outline"})
"""Parameters that ask for something else than the file as it is."""
_FOLDERS_FIRST: Final = ("workspace:",)
"""Schemes whose folders are listed without a read, because a read opens every child."""
_TWINS: Final = (".json", ".md")
_NO_PARTS: Final = {"at_start": "", "before": "", "following": "", "at_end": "", "is_whole": True, "place": ""}
_MAX_ITEMS: Final = 20


class Resources:
    """Makes the pages of resources."""

    def __init__(self, server: Server, addresses: Addresses) -> None:
        self._server = server
        self._catalog = server.catalog
        self._addresses = addresses

    def leaf(self, uri: str, origin: str = "") -> Leaf:
        """Return the page of a URI; raise as a read does. `origin` is the address of this server."""
        bare, cursor = _without_cursor(uri)
        if bare.startswith(_FOLDERS_FIRST) and "?" not in bare:
            with suppress(RequestError):  # then it is a file, or the read says what is wrong
                page = self._catalog.read_folder(bare, cursor, folders.CHILDREN)
                return self._folder(folder_of(bare), page, None, cursor, origin)
        try:
            most = LOG_BYTES if bare.startswith("logs:") else PART_BYTES
            reading = self._catalog.read_part(bare, None, Part(most))
        except RequestError as error:
            try:
                page = self._catalog.read_folder(bare, cursor, folders.CHILDREN)
            except RequestError:
                raise error from None
            return self._folder(bare, page, None, cursor, origin)
        if reading.is_folder:
            page = self._catalog.read_folder(split_query(bare)[0], cursor, folders.CHILDREN)
            return self._folder(bare, page, reading, cursor, origin)
        failure = failed(reading)
        if failure is not None:
            raise failure
        end = _end_of_log(bare, reading)
        if end:
            reading = self._catalog.read_part(end, None, Part(most))
        return self._content(bare, end or bare, reading, origin)

    # Folders

    def _folder(self, uri: str, page: Page, reading: Reading | None, cursor: str | None, origin: str) -> Leaf:
        is_plain = cursor is None and reading is not None and reading.etag is not None
        etag = reading.etag if is_plain and reading is not None and reading.etag else folders.tag_of(page)
        next_page = with_query(uri, cursor=page.next_cursor) if page.next_cursor else None
        data = {
            "uri": uri,
            "kind": "folder",
            "etag": etag,
            "children": folders.rows(self._catalog, self._addresses, page.entries),
            "next": next_page,
        }
        view = {
            **self._place(uri),
            **self._model(uri, uri, origin, is_inline=len(page.entries) < folders.CHILDREN),
            "next_address": self._addresses.page(next_page) if next_page else "",
            "is_first": cursor is None,
            "versions": self._versions(uri, is_folder=True),
            "plot": folders.plot(uri, page.entries, self._addresses),
            "outline": self._outline(uri, page),
        }
        here = uri if cursor is None else with_query(uri, cursor=cursor)
        modified_ms = None if reading is None else reading.last_modified_ms
        return self._leaf("folder", here, data, view, etag, modified_ms)

    def _outline(self, uri: str, page: Page) -> str:
        """Return the address that shows the sizes of subfolders; empty if there are none, or this is not known."""
        has_folders = any(entry.mime_type == FOLDER_TYPE for entry in page.entries)
        named = (one["address"] for one in self._versions(uri, is_folder=True) if one["name"] == "Outline")
        return next(named, "") if has_folders else ""

    # Contents

    def _content(self, uri: str, asked: str, reading: Reading, origin: str) -> Leaf:
        """Return the page of a text or of bytes; `asked` is the URI that was read, of a long log that of its end."""
        item: Item = reading.items[0] if reading.items else Text("")
        mime_type = item.mime_type or reading.mime_type
        meta = dict(item.meta or {})
        text = item.text if isinstance(item, Text) else ""
        shown = part_of(asked, text, meta)
        part = uri if shown.is_whole else shown.own
        following = shown.following or str(meta.get("dev.carrel/next") or "")
        answered = exact.answer(self._server, part)
        total = meta.get("dev.carrel/total")
        data: dict[str, object] = {
            "uri": uri,
            "part": part,
            "kind": "text" if isinstance(item, Text) else "bytes",
            "type": mime_type,
            "etag": reading.etag,
            "lastModifiedMs": reading.last_modified_ms,
            "size": total if isinstance(total, int) else _length(item),
            "lines": meta.get("dev.carrel/lines"),
            "totalLines": meta.get("dev.carrel/total-lines"),
            "next": following or None,
            "tokens": estimate_tokens(text) if isinstance(item, Text) else None,
            "state": outcome(meta),
            "dropped": meta.get("dev.carrel/dropped-entries") or None,
            **_outcome(answered),
        }
        view = {
            **self._place(uri),
            **self._model(uri, part, origin, answered),
            "renderings": [self._rendering(uri, one, reading) for one in reading.items[:_MAX_ITEMS]],
            "bare": shown.uri,
            "raw": address_about("raw", shown.uri),
            "versions": self._versions(uri, is_text=isinstance(item, Text)),
            "text": text,
            **(self._parts(shown, following) if isinstance(item, Text) else _NO_PARTS),
        }
        return self._leaf("content", uri, data, view, reading.etag or "", reading.last_modified_ms)

    def _rendering(self, uri: str, item: Item, reading: Reading) -> "Rendering":
        from carrel.explorer.rendering.rendering import render  # a folder needs no lexers

        meta = item.meta or {}
        total = meta.get("dev.carrel/total")
        first, start = str(meta.get("dev.carrel/lines", "")).partition("-")[0], meta.get("dev.carrel/start")
        content = Content(
            item.uri if item.uri and len(reading.items) > 1 else without(uri, RANGES),
            item.mime_type or reading.mime_type,
            item.text if isinstance(item, Text) else None,
            total if isinstance(total, int) else _length(item),
            int(first) if first.isdigit() else int(not start),
            "dev.carrel/next" not in meta and not start,
            start if isinstance(start, int) else 0,
        )
        return render(content, self._links())

    def _links(self) -> Links:
        """Return functions that turn URIs in a text into addresses; only for schemes that the desk has."""
        schemes = {scheme for mounted in self._catalog.mounted for scheme in mounted.provider.schemes}

        def is_here(uri: str) -> bool:
            return uri.partition(":")[0].lower() in schemes

        return Links(
            lambda uri: self._addresses.page(uri) if is_here(uri) else None,
            lambda uri: address_about("raw", uri) if is_here(uri) else None,
        )

    def _parts(self, shown: TextPart, following: str) -> dict[str, object]:
        """Return where a part of a text lies, and the addresses of the others; empty where there are none."""

        def read(wanted: Range) -> str:
            [item] = self._catalog.read_part(shown.uri, wanted, Part(PART_BYTES)).items
            return item.text if isinstance(item, Text) else ""

        others = {
            "at_start": shown.at_start,
            "before": shown.before(read),
            "following": following,
            "at_end": shown.at_end,
        }
        addresses = {name: self._page(uri) if uri else "" for name, uri in others.items()}
        return {**addresses, "is_whole": shown.is_whole, "place": shown.place}

    def _versions(self, uri: str, *, is_folder: bool = False, is_text: bool = True) -> list[dict[str, str]]:
        """Return other views of a file: its outline and, where there is git, its history, blame and difference.

        A folder has an outline and a history; bytes have a history. A view that is none of these, such as `?at=HEAD~1`,
        is named by its query, as "At HEAD~1". The addresses of its views end in a slash, by which they are known.
        """
        bare, query = split_query(uri)
        if not bare.startswith("workspace:"):
            return []
        has_git = any("git" in one.provider.schemes and one.routes for one in self._catalog.visible())
        if is_folder or bare.endswith("/"):
            bare = f"{bare.rstrip('/')}/" if not is_root(bare) else bare
            named = [("Folder", ""), ("Outline", "outline"), *([("History", "log")] if has_git else [])]
        else:
            named = [("File", ""), *([("Outline", "outline")] if is_text else [])]
            with_git = [("History", "log"), ("Blame", "blame"), ("Diff", "diff=HEAD~1")]
            named += (with_git if is_text else with_git[:1]) if has_git else []
        here = next((piece for piece in (query or "").split("&") if piece.partition("=")[0] in _VIEWS), "")
        if here not in (view for _, view in named):
            name, _, value = decode_loosely(here).partition("=")
            named.append((f"{name.capitalize()} {value}".rstrip(), here))
        return [
            {
                "name": name,
                "address": self._page(f"{bare}?{view}" if view else bare),
                "here": "1" if here == view else "",
            }
            for name, view in named
        ]

    # Folders and contents

    def _model(
        self, uri: str, part: str, origin: str, answered: bytes | None = None, *, is_inline: bool = True
    ) -> dict[str, object]:
        """Return the data of the model's view: the exact answer, and the texts to copy."""
        given = (exact.answer(self._server, part) if answered is None else answered) if is_inline else b""
        is_shown = is_inline and len(given) <= exact.MAX_SHOWN
        return {
            "exact": visible_json(given.decode("utf-8", "replace")) if is_shown else "",
            "exact_size": len(given),
            "copies": exact.copies(uri, origin + self._addresses.page(uri)),
            "part": part,
        }

    def _place(self, uri: str) -> dict[str, object]:
        bare = split_query(uri)[0]
        return {
            "crumbs": self._addresses.crumbs(bare),
            "up": "/" if is_root(bare) else self._addresses.page(parent_of(bare)),
        }

    def _leaf(
        self,
        template: str,
        uri: str,
        data: Mapping[str, object],
        view: Mapping[str, object],
        etag: str,
        modified_ms: int | None,
    ) -> Leaf:
        bare = split_query(uri)[0]
        title = title_of(bare)
        as_json, as_md = (self._twin(uri, twin) for twin in _TWINS)
        live = without(uri, RANGES | {"cursor"})
        return Leaf(template, title, data, as_json, as_md, view, etag, modified_ms, live=live, model=str(view["part"]))

    def _twin(self, uri: str, twin: str) -> str:
        """Return the address of a page's data; where a resource has this address, the other spelling."""
        bare, query = split_query(uri)
        beside = f"{bare}{twin}"
        is_taken = self._is_there(f"{beside}?{query}" if query else beside)
        return address_about("read", uri, twin) if is_taken else self._addresses.page(uri, twin)

    def _is_there(self, uri: str) -> bool:
        """Return whether a resource with this URI exists, as far as that can be found out quickly."""
        try:
            found = self._catalog.find(uri)
            if found.mounted.speed == "blocking":
                return found.mounted.gateway is not None  # another server answers every URI itself
            reading = self._catalog.open(found)
        except CarrelError:
            return False
        close_sources(reading.items)
        return reading.error is None

    def _page(self, uri: str) -> str:
        return self._addresses.page(uri)


def _without_cursor(uri: str) -> tuple[str, str | None]:
    """Return a URI without the position in a folder, and that position."""
    query = split_query(uri)[1]
    if query is None or "cursor=" not in query:
        return uri, None
    found = [value for name, value in pairs(query) if name == "cursor"]
    return (without(uri, frozenset({"cursor"})), found[0]) if found else (uri, None)


def _outcome(answered: bytes) -> dict[str, object]:
    """Return the result or the error of an answer, for the data of a page."""
    answer = json.loads(answered)
    return {name: answer[name] for name in ("result", "error") if name in answer}


def _end_of_log(uri: str, reading: Reading) -> str:
    """Return the URI of the end of a log that is too long for one page; empty for anything else."""
    item = reading.items[0] if reading.items else None
    if not isinstance(item, Text) or not uri.startswith("logs:") or "?" in uri:
        return ""
    return part_of(uri, item.text, item.meta or {}).at_end


def _length(item: Item) -> int | None:
    if isinstance(item, Text):
        return len(item.text.encode("utf-8", "surrogatepass"))
    return len(item.data) if isinstance(item, Blob) else None
