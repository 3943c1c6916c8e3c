"""Tell whether a work tree differs from its last commit, without running anything of the repository's.

Git would pass a changed file through the filter that the repository's configuration names. Here a file is clean if
its size and time are those in the index, or if its bytes have the hash in the index, as they are or with LF for
CR LF. A file with other bytes is changed, unless attributes may give it a filter: then nothing is known about it.
Links are not followed; submodules and other repositories are not entered.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from hashlib import sha1, sha256
from io import BytesIO
from typing import TYPE_CHECKING, Final, Literal

from carrel.core.record import Value
from carrel.files.gitignore import Chain, Rules, TooManyPatterns, ignores, octets
from carrel.files.sandbox import Root, SandboxError
from carrel.git.discovery import DOT_GIT, GitFolder, has, read_config, read_text
from carrel.git.history import History
from carrel.git.objects import MAX_OBJECT_BYTES, Deadline, Id, Unknown

if TYPE_CHECKING:
    from dulwich.index import SerializedIndexEntry

MAX_INDEX_BYTES: Final = 64 * 1_048_576
MAX_RULES_BYTES: Final = 65_536
MAX_DEPTH: Final = 128
MAX_NAMES: Final = 100_000
MAX_PATH: Final = 4_096
MAX_AHEAD: Final = 20_000
"""How deep a tree may be, how many names a folder may have, and how many may be still to look at."""

_FILTERING: Final = ("filter", "ident", "working-tree-encoding")
"""Attributes with which the bytes of a file are not those that git keeps."""

_STAGE: Final = 0x3000
_UNCHECKED: Final = 0x8000
_NOT_CHECKED_OUT: Final = 0x4000
_FOLDER: Final = 0o040000
_LINK: Final = 0o120000
_SUBMODULE: Final = 0o160000
_KIND: Final = 0o170000

DIRTY: Final = True

Segments = tuple[str, ...]


class GitIndex:
    """What git's index says: the files, by path, and the tree they make up where that is written down."""

    def __init__(self, folder: GitFolder, deadline: Deadline, name_bytes: int) -> None:
        from dulwich.index import read_index
        from dulwich.object_format import SHA1, SHA256

        self.files: dict[str, SerializedIndexEntry] = {}
        self.has_conflict = False
        with folder.own.open(("index",)) as opened:
            if opened.is_folder or opened.stat.st_size > MAX_INDEX_BYTES:
                raise Unknown("no index, or one that is too large")
            self.modified_ns = opened.stat.st_mtime_ns
            stream = BytesIO(opened.read(0, MAX_INDEX_BYTES))
        for number, entry in enumerate(read_index(stream, SHA1 if name_bytes == SHA1.oid_length else SHA256)):
            if number % 1024 == 0:
                deadline.check()
            if len(entry.name) > MAX_PATH or entry.name.count(b"/") > MAX_DEPTH:
                raise Unknown("a name that is too long, or too deep")
            self.has_conflict |= bool(entry.flags & _STAGE)
            self.files[os.fsdecode(entry.name)] = entry
        extensions = dict(_extensions(stream))
        if b"link" in extensions:
            raise Unknown("only a part of the index")
        self.tree = _cached_tree(extensions.get(b"TREE", b""), name_bytes)


def _extensions(stream: BytesIO) -> Iterator[tuple[bytes, bytes]]:
    """Yield what follows the files in an index; the checksum at its end is too short to be taken for more."""
    while len(head := stream.read(8)) == 8:
        yield head[:4], stream.read(int.from_bytes(head[4:], "big"))


def _cached_tree(data: bytes, name_bytes: int) -> Id:
    """Return the tree that all files of the index make up; empty where that is not written down."""
    start, _, rest = data.partition(b"\n")
    is_valid = start.startswith(b"\0") and start[1:].split(b" ")[0].isdigit()
    return rest[:name_bytes].hex().encode() if is_valid else b""


class IndexPlace(Value, frozen=True):
    """A folder of the work tree: the rules that hold in it, and whether it is ignored as a whole."""

    segments: Segments
    chain: Chain
    is_ignored: bool = False


class WorkTree:
    """The files of a work tree beside its index."""

    def __init__(
        self, folder: GitFolder, history: History, index: GitIndex, deadline: Deadline, excludes: tuple[str, ...]
    ) -> None:
        self._folder = folder
        self._history = history
        self._index = index
        self._deadline = deadline
        self._excludes = excludes
        self._minds_mode = read_config(folder.shared).get("core.filemode", "true").lower() != "false"
        self._inner = _folders_of(index.files)
        self._filtering: dict[Segments, bool] = {}
        self._is_unsure = False

    def is_dirty(self, head: Id) -> bool | None:
        """Return whether something is staged, changed, gone or new; None if that cannot be known."""
        root = self._history.commit(head).tree
        if self._index.has_conflict or (self._index.tree != root and self._is_staged(root)):
            return True
        if self._has_changes():
            return True
        return None if self._is_unsure else False

    def _is_staged(self, root: Id) -> bool:
        """Return whether the index holds anything else than a commit's tree."""
        files = self._index.files
        met = 0
        ahead = [("", root)]
        while ahead:
            self._deadline.check()  # names are not verified, so a stranger's tree may hold itself
            above, tree = ahead.pop()
            if len(above) > MAX_PATH or len(ahead) > MAX_AHEAD:
                raise Unknown("too deep, or too many folders")
            for name, (mode, one) in self._history.tree(tree).items():
                path = above + os.fsdecode(name)
                is_folder = mode & _KIND == _FOLDER
                entry = files.get(f"{path}/" if is_folder else path)  # a folder is there if it is not checked out
                if is_folder and entry is None:
                    ahead.append((f"{path}/", one))
                elif entry is None or (not is_folder and entry.mode != mode) or entry.sha != one:
                    return True
                else:
                    met += 1
        return met != len(files)

    # The files

    def _has_changes(self) -> bool:
        """Return whether a file is changed, gone or new."""
        rules = [_compiled(text) for text in self._excludes]
        rules.append(self._rules(self._folder.shared, ("info", "exclude")))
        missing = {path for path, entry in self._index.files.items() if not _is_skipped(entry)}
        ahead = [IndexPlace((), tuple((one, "") for one in rules if one))]
        while ahead:
            self._deadline.check()
            place = ahead.pop()
            if len(place.segments) > MAX_DEPTH:
                raise Unknown("too deep")
            found = dict(self._names_in(place.segments))
            chain = self._chain(place) if ".gitignore" in found else place.chain
            for name, state in found.items():
                inner = self._look(IndexPlace((*place.segments, name), chain, place.is_ignored), state, missing)
                if inner is DIRTY:
                    return True
                if isinstance(inner, IndexPlace):
                    ahead.append(inner)
        return bool(missing)

    def _names_in(self, segments: Segments) -> Iterator[tuple[str, os.stat_result]]:
        with self._folder.top.open(segments) as opened, os.scandir(opened.fd) as entries:
            for number, entry in enumerate(entries):
                if number >= MAX_NAMES:
                    raise Unknown("too many names")
                if entry.name != DOT_GIT:
                    yield entry.name, entry.stat(follow_symlinks=False)

    def _look(self, place: IndexPlace, state: os.stat_result, missing: set[str]) -> "IndexPlace | Literal[True] | None":
        """Return `DIRTY` if a name makes the work tree so, a folder to look into, or None for neither."""
        path = "/".join(place.segments)
        entry = self._index.files.get(path)
        if entry is not None:
            missing.discard(path)
            return DIRTY if self._is_changed(place.segments, entry, state) else None
        name = place.segments[-1]
        is_folder = stat.S_ISDIR(state.st_mode)
        is_ignored = place.is_ignored or ignores(place.chain, name, is_folder=is_folder)
        if is_folder:
            if is_ignored and path not in self._inner:
                return None
            with self._folder.top.open(place.segments) as opened:
                is_repository = path not in self._inner and has(opened.fd, DOT_GIT)
            inner = tuple((rules, f"{way}{octets(name)}/") for rules, way in place.chain)
            return DIRTY if is_repository else IndexPlace(place.segments, inner, is_ignored)
        is_file = stat.S_ISREG(state.st_mode) or stat.S_ISLNK(state.st_mode)
        return DIRTY if is_file and not is_ignored else None

    def _is_changed(self, segments: Segments, entry: "SerializedIndexEntry", state: os.stat_result) -> bool:
        kind = entry.mode & _KIND
        if kind == _SUBMODULE or _is_skipped(entry):
            return False
        if kind != stat.S_IFMT(state.st_mode):
            return True
        if self._minds_mode and kind != _LINK and bool(entry.mode & 0o100) != bool(state.st_mode & 0o100):
            return True
        if self._has_same_times(entry, state):
            return False
        self._deadline.check()
        if state.st_size > MAX_OBJECT_BYTES:
            self._is_unsure = True
            return False
        content = self._content(segments, is_link=kind == _LINK)
        if any(_named(one, len(entry.sha)) == entry.sha for one in (content, content.replace(b"\r\n", b"\n"))):
            return False
        if self._may_be_filtered(segments):
            self._is_unsure = True
            return False
        return True

    def _has_same_times(self, entry: "SerializedIndexEntry", state: os.stat_result) -> bool:
        seconds, rest = entry.mtime if isinstance(entry.mtime, tuple) else (int(entry.mtime), 0)
        kept_ns = seconds * 1_000_000_000 + rest
        # A file written after the index was, or in the same moment, may have changed without its time telling.
        is_same = kept_ns == state.st_mtime_ns and entry.size == state.st_size & 0xFFFFFFFF
        return is_same and kept_ns < self._index.modified_ns

    def _content(self, segments: Segments, *, is_link: bool) -> bytes:
        if not is_link:
            with self._folder.top.open(segments) as opened:
                return opened.read(0, MAX_OBJECT_BYTES)
        with self._folder.top.open(segments[:-1]) as above:
            return os.fsencode(os.readlink(segments[-1], dir_fd=above.fd))

    def _may_be_filtered(self, segments: Segments) -> bool:
        """Return whether attributes may say that a file's bytes are not those that git keeps."""
        places: list[tuple[Root, Segments]] = [(self._folder.shared, ("info", "attributes"))]
        places += [(self._folder.top, (*segments[:end], ".gitattributes")) for end in range(len(segments))]
        return any(self._filters(root, place) for root, place in places)

    def _filters(self, root: Root, place: Segments) -> bool:
        known = self._filtering.get(place)
        if known is None:
            try:
                text = read_text(root, place, MAX_RULES_BYTES)
            except SandboxError:
                text = ""
            known = len(text) >= MAX_RULES_BYTES or any(word in text for word in _FILTERING)
            self._filtering[place] = known
        return known

    # What is ignored

    def _chain(self, place: IndexPlace) -> Chain:
        rules = self._rules(self._folder.top, (*place.segments, ".gitignore"))
        return (*place.chain, (rules, "")) if rules else place.chain

    def _rules(self, root: Root, segments: Segments) -> Rules:
        try:
            text = read_text(root, segments, MAX_RULES_BYTES)
        except SandboxError:
            text = ""
        if len(text) >= MAX_RULES_BYTES:
            raise Unknown("too many rules")
        return _compiled(text)


def _folders_of(paths: Iterable[str]) -> set[str]:
    """Return every folder in which one of the files lies, however deep."""
    folders: set[str] = set()
    for path in paths:
        above = path.rpartition("/")[0]
        while above and above not in folders:
            folders.add(above)
            above = above.rpartition("/")[0]
    return folders


def _compiled(text: str) -> Rules:
    try:
        return Rules.of(octets(line.removesuffix("\r")) for line in text.split("\n"))
    except TooManyPatterns:
        raise Unknown("too many rules") from None


def _is_skipped(entry: "SerializedIndexEntry") -> bool:
    return bool(entry.flags & _UNCHECKED or entry.extended_flags & _NOT_CHECKED_OUT or entry.mode & _KIND == _FOLDER)


def _named(content: bytes, digits: int) -> Id:
    """Return the name that git gives to a file with this content."""
    head = b"blob %d\0" % len(content)
    return (sha1(head + content) if digits == 40 else sha256(head + content)).hexdigest().encode()
