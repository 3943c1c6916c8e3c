"""Files in the order of their URIs, found lazily; and the children of one folder.

Only folders that a page shows are read, and one folder at a time is held: siblings are
sorted by their quoted name, folders with a closing `/`, so depth-first order is URI
order and a whole folder that sorts before the place asked for is passed over unread.
"""

import os
import stat
from collections.abc import Iterator
from typing import Final

from carrel.errors import CarrelError
from carrel.model import Annotations, Resource, Text
from carrel.providers.workspace import kinds
from carrel.providers.workspace.ignore import Chain, Segments
from carrel.providers.workspace.paths import Target, prefix_of
from carrel.providers.workspace.policy import Verdict
from carrel.providers.workspace.tree import Tree, etag_of
from carrel.sandbox import Kind, Opened, SandboxError
from carrel.times import iso
from carrel.uri import decode, quote
from carrel.value import Value

FOLDER_TYPE: Final = "inode/directory"
MAX_CHILDREN: Final = 1_000


class Child(Value, frozen=True, gc=False):
    """A name in a folder: `key` is its quoted form, with a closing `/` for a folder to go into."""

    key: str
    name: str
    kind: Kind
    verdict: Verdict


class Listing:
    """Lists one tree; counts the folders it could not read."""

    def __init__(self, tree: Tree, max_listed_bytes: int) -> None:
        self._tree = tree
        self._max_listed_bytes = max_listed_bytes
        self.unreadable: set[Segments] = set()

    def files(self, after: str = "", folder: Segments = ()) -> Iterator[Resource]:
        """Yield the files below a folder whose URI comes after `after`, in order."""
        prefix = prefix_of(self._tree.name) + "".join(f"{quote(name)}/" for name in folder)
        if prefix <= after and not after.startswith(prefix):
            return
        yield from self._below(folder, prefix, after, only_allowed=False)

    def _below(self, folder: Segments, prefix: str, after: str, *, only_allowed: bool) -> Iterator[Resource]:
        opened = self._open(folder)
        if opened is None:
            return
        with opened:
            chain = self._tree.policy.ignore.chain(folder)
            for child in self._children(opened, folder, chain, only_allowed=only_allowed):
                uri = prefix + child.key
                if child.kind == "folder":
                    if uri > after or after.startswith(uri):
                        hides = bool(child.verdict.reason)
                        yield from self._below((*folder, child.name), uri, after, only_allowed=hides)
                elif uri > after:
                    entry = self._entry(opened, folder, child, uri)
                    if entry is not None:
                        yield entry

    def _open(self, folder: Segments) -> Opened | None:
        try:
            opened = self._tree.root.open(folder)
        except SandboxError:
            self.unreadable.add(folder)
            return None
        self.unreadable.discard(folder)
        return opened

    def _children(self, opened: Opened, folder: Segments, chain: Chain, *, only_allowed: bool) -> list[Child]:
        """Give the names in a folder that may be listed, in order."""
        policy = self._tree.policy
        children = []
        for name, kind in _scan(opened):
            if kind == "special" or not is_servable(name):
                continue
            is_folder = kind == "folder"
            verdict = policy.judge_child(folder, name, is_folder=is_folder, chain=chain)
            if only_allowed or verdict.reason or not verdict.is_listed:
                if verdict.reason == "deny":
                    continue
                if policy.is_allowed((*folder, name), is_folder=is_folder):
                    verdict = Verdict()
                elif not (is_folder and policy.allow):
                    continue
            key = quote(name)
            children.append(Child(f"{key}/" if is_folder else key, name, kind, verdict))
        children.sort(key=lambda child: child.key)
        return children

    def _entry(self, opened: Opened, folder: Segments, child: Child, uri: str) -> Resource | None:
        """Describe a file, or give None if it is not to be listed after all."""
        try:
            if child.kind == "link":
                return self._linked(folder, child, uri)
            state = opened.stat_child(child.name)
            if not stat.S_ISREG(state.st_mode) or state.st_size > self._max_listed_bytes:
                return None
            etag = etag_of(state)
            known = kinds.known_type(child.name)
            if known is None:
                with self._tree.root.open((*folder, child.name)) as file:
                    kind = self._tree.sniff(file, etag)[0]
                    known = kinds.type_of(child.name, is_text=kind.is_text), kind.is_text
        except SandboxError:
            return None
        if child.verdict.needs_text and not known[1]:
            return None
        return describe(uri, (*folder, child.name), known[0], state, etag)

    def _linked(self, folder: Segments, child: Child, uri: str) -> Resource | None:
        """Describe what a link leads to, if that is a file that may be read."""
        segments = (*folder, child.name)
        try:
            found = self._tree.open(Target(uri, self._tree.name, segments))
        except CarrelError:
            return None
        with found.opened as file:
            if file.is_folder or file.stat.st_size > self._max_listed_bytes or not found.verdict.is_listed:
                return None
            kind = self._tree.sniff(file, found.etag)[0]
            mime_type = kinds.type_of(child.name, is_text=kind.is_text)
            return describe(uri, segments, mime_type, file.stat, found.etag)

    # One folder

    def children(self, opened: Opened, folder: Segments, after: str = "") -> Iterator[tuple[str, Text]]:
        """Yield one small item per direct child whose key comes after `after`: what a folder's read shows."""
        prefix = prefix_of(self._tree.name) + "".join(f"{quote(name)}/" for name in folder)
        chain = self._tree.policy.ignore.chain(folder)
        for child in self._children(opened, folder, chain, only_allowed=False):
            item = self._child_item(opened, folder, child, prefix) if child.key > after else None
            if item is not None:
                yield child.key, item

    def names(self, opened: Opened, folder: Segments) -> list[str]:
        """Give the names in a folder that a folder's read would show; folders end with `/`."""
        shown = []
        for key, item in self.children(opened, folder):
            name = decode(key.removesuffix("/"))
            shown.append(f"{name}/" if item.mime_type == FOLDER_TYPE else name)
        return shown

    def _child_item(self, opened: Opened, folder: Segments, child: Child, prefix: str) -> Text | None:
        uri = prefix + child.key.removesuffix("/")
        if child.kind == "folder":
            return Text("", FOLDER_TYPE, uri=uri)
        if child.kind == "link" and self._is_folder_link(folder, child, uri):
            return Text("", FOLDER_TYPE, uri=uri)
        entry = self._entry(opened, folder, child, uri)
        if entry is None:
            return None
        return Text(_summary(entry), entry.mime_type, uri=uri, meta=_entry_meta(entry))

    def _is_folder_link(self, folder: Segments, child: Child, uri: str) -> bool:
        try:
            with self._tree.open(Target(uri, self._tree.name, (*folder, child.name))).opened as opened:
                return opened.is_folder
        except CarrelError:
            return False


def is_servable(name: str) -> bool:
    """Tell whether a name can stand in a URI: UTF-8, without a backslash."""
    if name.isascii():
        return "\\" not in name
    return "\\" not in name and not any("\ud800" <= character <= "\udfff" for character in name)


def describe(uri: str, segments: Segments, mime_type: str, state: os.stat_result, etag: str) -> Resource:
    """Make the list entry of a file."""
    return Resource(
        uri,
        "/".join(segments),
        "",
        mime_type,
        segments[-1],
        Annotations((), None, state.st_mtime_ns // 1_000_000),
        state.st_size,
        {"dev.carrel/etag": etag},
    )


def _scan(opened: Opened) -> list[tuple[str, Kind]]:
    try:
        return opened.scan()
    except SandboxError:
        return []


def _summary(entry: Resource) -> str:
    assert entry.annotations is not None
    return f"{entry.size} bytes, {iso(entry.annotations.last_modified_ms or 0)}"


def _entry_meta(entry: Resource) -> dict[str, object]:
    return {
        **(entry.meta or {}),
        "dev.carrel/uri": entry.uri,
        "dev.carrel/total": entry.size,
        "dev.carrel/start": 0,
        "dev.carrel/length": 0,
        "dev.carrel/entry": True,
    }
