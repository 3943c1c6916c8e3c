"""Folders that are served as a workspace, for tests: made from a mapping, asked through the real server."""

import contextlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from carrel.catalog.catalog import Catalog
from carrel.core.errors import BadArgument, RequestError
from carrel.core.limits import MAX_MESSAGE_BYTES
from carrel.core.model import Blob, Item, Range, Text
from carrel.core.provider import Project
from carrel.files.sandbox import Opened, Root
from carrel.providers.workspace import Workspace
from carrel.server.server import Server
from tests.support.schemas import LEGACY, MODERN, Conversation
from tests.support.waiting import until

NOON_NS = 1_784_030_400_000_000_000
"""2026-07-14T12:00:00Z."""

SECRET = "SECRET-6f1e"
"""Written to whatever must never be read."""

FULL_TEMPLATE = "workspace:///{+path}{?start,length,lines,outline}"


def fill(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files; a path that ends with `/` is an empty folder. All are dated at noon."""
    for path, content in files.items():
        place = folder / path
        (place if path.endswith("/") else place.parent).mkdir(parents=True, exist_ok=True)
        if not path.endswith("/"):
            place.write_bytes(content.encode() if isinstance(content, str) else content)
            os.utime(place, ns=(NOON_NS, NOON_NS))
    return folder


class Served:
    """A workspace, served; everything a client could ask of it."""

    def __init__(self, root: Path, *, max_bytes: int = MAX_MESSAGE_BYTES, page_size: int = 1_000, **settings: Any):
        self.root = str(root)
        self.workspace = Workspace(Project(self.root, {}), **settings)
        self.catalog = Catalog([self.workspace], max_bytes=max_bytes, page_size=page_size)
        self.server = Server(self.catalog)

    def __enter__(self) -> "Served":
        return self

    def __exit__(self, *_: object) -> None:
        self.catalog.close()

    def uris(self) -> list[str]:
        """Return what is listed, without the scheme."""
        return [entry.uri.removeprefix("workspace:///") for entry in self.catalog.entries()]

    def item(self, uri: str, wanted: Range | None = None) -> Text | Blob:
        """Read a URI that gives one item."""
        (item,) = self.catalog.read(uri, wanted).items
        assert isinstance(item, Text | Blob)
        return item

    def text(self, uri: str, wanted: Range | None = None) -> str:
        """Read a text."""
        item = self.item(uri, wanted)
        assert isinstance(item, Text)
        return item.text

    def meta(self, uri: str, wanted: Range | None = None) -> dict[str, object]:
        """Read a URI; return what is told of it, without the prefix."""
        return {name.removeprefix("dev.carrel/"): value for name, value in (self.item(uri, wanted).meta or {}).items()}

    def children(self, uri: str) -> list[str]:
        """Read a folder; return its children's URIs as they are, folders with a closing `/`."""
        return [shown(item) for item in self.catalog.read(uri).items]

    def outcome(self, uri: str, wanted: Range | None = None) -> str:
        """Read a URI: its text, `folder`, or in capitals why not."""
        try:
            items = self.catalog.read(uri, wanted).items
        except RequestError as error:
            reason = error.data.get("reason") or error.data.get("parameter")
            kind = BadArgument if isinstance(error, BadArgument) else type(error)
            return kind.__name__.upper() + (f" {reason}" if reason else "")
        if len(items) == 1 and items[0].mime_type != "inode/directory" and items[0].uri is None:
            item = items[0]
            return item.text if isinstance(item, Text) else "BLOB"
        return "folder"

    def error(self, uri: str) -> RequestError:
        """Read a URI that cannot be read."""
        try:
            self.catalog.read(uri)
        except RequestError as error:
            return error
        raise AssertionError(f"{uri} can be read")

    def ask(self, method: str, params: Mapping[str, Any] | None = None, version: str = MODERN) -> Any:
        """Ask over the wire; everything is checked against the schema."""
        client = Conversation(self.server)
        if version != MODERN:
            client.open(LEGACY)
        return client.ask(method, params, version=version)

    def bytes_of(self, uri: str) -> bytes:
        """Return the bytes of the answer to a read."""
        request = {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": uri}}
        answer = self.server.answer(json.dumps(request).encode())
        assert answer is not None
        return answer

    def completions(self, value: str, template: str = FULL_TEMPLATE, **context: str) -> list[str]:
        """Complete a path."""
        return list(self.workspace.complete(template, "path", value, context).values)


def shown(item: Item) -> str:
    """Return the URI of a folder's child, with a closing `/` if it is a folder."""
    return f"{item.uri}/" if item.mime_type == "inode/directory" else str(item.uri)


def handles(place: Path) -> list[str]:
    """Return what this process has open of a folder and beneath it; what others in this process open does not count."""
    begin = str(place.resolve())
    found = []
    for number in os.listdir("/proc/self/fd"):  # noqa: PTH208 it is asked after hundreds of tests
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{number}"))  # noqa: PTH115 likewise
    return sorted(target for target in found if target.startswith(begin))


def settle(*files: Path) -> None:
    """Wait until the state of files can be trusted to show every further change."""
    newest = max(file.stat().st_ctime_ns for file in files)
    until(lambda: time.time_ns() - newest >= 110_000_000)


def record_opens(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Remember what is opened below any root from now on."""
    opened: list[tuple[str, ...]] = []
    really = Root.open

    def recording(root: Root, segments: Sequence[str]) -> Opened:
        opened.append(tuple(segments))
        return really(root, segments)

    monkeypatch.setattr(Root, "open", recording)
    return opened
