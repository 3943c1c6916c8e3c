"""Compare a work tree with its last commit, without running any program that the repository names.

Git would pass a changed file through the filter that the repository's configuration names. Here a file is unchanged if
its size and time are those in the index, or if its bytes have the hash in the index, as they are or with LF for CR LF.
A file with other bytes is changed, unless attributes may give it a filter: then it counts as unsure. Links are
not followed; submodules and other repositories are not entered.
"""

import os
import stat
import struct
from collections.abc import Iterable, Iterator
from hashlib import sha1, sha256
from typing import Final

from carrel.core.record import Value
from carrel.files.gitignore import Chain, Rules, TooManyPatterns, ignores, octets
from carrel.files.sandbox import Root, SandboxError
from carrel.git.discovery import DOT_GIT, GitFolder, has, read_config, read_text
from carrel.git.history import FOLDER, KIND, History
from carrel.git.index import EXTENDED, STAT_BYTES, read_index
from carrel.git.objects import MAX_OBJECT_BYTES, Deadline, Id, Unknown

MAX_RULES_BYTES: Final = 65_536
MAX_DEPTH: Final = 128
MAX_NAMES: Final = 100_000
MAX_PATH: Final = 4_096
MAX_AHEAD: Final = 20_000
"""Maximum depth of a tree, number of names in a folder, length of a path, and number of folders still to visit."""

_FILTERING: Final = ("filter", "ident", "working-tree-encoding")
"""Attributes with which the bytes of a file differ from those that git stores."""

_STAGE: Final = 0x3000
_UNCHECKED: Final = 0x8000
_NOT_CHECKED_OUT: Final = 0x4000
_LINK: Final = 0o120000
_SUBMODULE: Final = 0o160000

Segments = tuple[str, ...]


class IndexedFile(Value, frozen=True):
    """A file in the index: its mode, the name of its content, and its state when git last compared it.

    `is_skipped` if git does not compare it: it is marked so, not checked out, or a folder that stands for its files.
    """

    mode: int
    id: Id
    size: int
    modified_ns: int
    is_skipped: bool
    is_conflict: bool

    @classmethod
    def of(cls, data: bytes, start: int, id_bytes: int) -> "IndexedFile":
        """Return the file whose entry begins at `start`."""
        _, _, seconds, nanoseconds, _, _, mode, _, _, size = struct.unpack_from(">10L", data, start)
        id_at = start + STAT_BYTES
        flags, extended = struct.unpack_from(">HH", data, id_at + id_bytes)
        is_missing = bool(flags & EXTENDED and extended & _NOT_CHECKED_OUT)
        is_skipped = bool(flags & _UNCHECKED) or is_missing or mode & KIND == FOLDER
        name = data[id_at : id_at + id_bytes].hex().encode()
        return cls(mode, name, size, seconds * 10**9 + nanoseconds, is_skipped, bool(flags & _STAGE))


class GitIndex:
    """The files in git's index, by path, and the tree they make up if the index has it."""

    def __init__(self, folder: GitFolder, deadline: Deadline, id_bytes: int) -> None:
        self.files: dict[str, IndexedFile] = {}
        with folder.own.open(("index",)) as opened:
            self.modified_ns = opened.stat.st_mtime_ns
            index = read_index(opened, id_bytes)
        for number, (name, start) in enumerate(index.names()):
            if number % 1024 == 0:
                deadline.check()
            if name.count(b"/") > MAX_DEPTH:
                raise Unknown("a path is too deep")
            self.files[os.fsdecode(name)] = IndexedFile.of(index.data, start, id_bytes)
        self.tree = index.tree
        self.has_conflict = any(file.is_conflict for file in self.files.values())

    @classmethod
    def empty(cls) -> "GitIndex":
        """Return an index without files, for a repository that has none yet."""
        made = cls.__new__(cls)
        made.files, made.modified_ns, made.tree, made.has_conflict = {}, 0, b"", False
        return made


class IndexPlace(Value, frozen=True):
    """A folder of the work tree, the ignore rules that apply in it, and whether it is ignored as a whole."""

    segments: Segments
    chain: Chain
    is_ignored: bool = False


class WorkTree:
    """The files of a work tree, compared with its index."""

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
        self.unsure = 0
        """Number of files that could not be compared: a filter may apply, or they are too large."""

    def is_dirty(self, head: Id) -> bool | None:
        """Return whether something is staged, changed, deleted or new; None if that cannot be known."""
        root = self._history.commit(head).tree
        for _ in self.staged(root):
            return True
        for _ in self.changed():
            return True
        return None if self.unsure else False

    def staged(self, root: Id | None) -> Iterator[tuple[str, str]]:
        """Yield each path that differs between the index and the tree of a commit, with git's letter for it."""
        if self._index.tree == root and not self._index.has_conflict:
            return
        files = self._index.files
        met: set[str] = set()
        ahead = [] if root is None else [("", root)]
        while ahead:
            self._deadline.check()  # hashes are not verified, so a hostile tree may contain itself
            above, tree = ahead.pop()
            if len(above) > MAX_PATH or len(ahead) > MAX_AHEAD:
                raise Unknown("too deep, or too many folders")
            for name, (mode, one) in self._history.tree(tree).items():
                path = above + os.fsdecode(name)
                is_folder = mode & KIND == FOLDER
                key = f"{path}/" if is_folder else path
                entry = files.get(key)  # the index has folders that are not checked out
                if is_folder and entry is None:
                    ahead.append((key, one))
                    continue
                met.add(key)
                if entry is None:
                    yield path, "D"
                elif entry.is_conflict or entry.id != one or (not is_folder and entry.mode != mode):
                    yield path, "U" if entry.is_conflict else "M" if entry.mode & KIND == mode & KIND else "T"
        for path, entry in files.items():
            if path not in met:
                yield path, "U" if entry.is_conflict else "A"

    # The files

    def changed(self) -> Iterator[tuple[str, str]]:
        """Yield each file that is changed, deleted or new in the work tree, with git's letter; new ones have `?`."""
        rules = [_compiled(text) for text in self._excludes]
        rules.append(self._rules(self._folder.shared, ("info", "exclude")))
        missing = {path for path, entry in self._index.files.items() if not entry.is_skipped}
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
                if isinstance(inner, IndexPlace):
                    ahead.append(inner)
                elif inner is not None:
                    yield inner
        for path in missing:
            yield path, "D"

    def _names_in(self, segments: Segments) -> Iterator[tuple[str, os.stat_result]]:
        with self._folder.top.open(segments) as opened, os.scandir(opened.fd) as entries:
            for number, entry in enumerate(entries):
                if number >= MAX_NAMES:
                    raise Unknown("too many names")
                if entry.name != DOT_GIT:
                    yield entry.name, entry.stat(follow_symlinks=False)

    def _look(
        self, place: IndexPlace, state: os.stat_result, missing: set[str]
    ) -> "IndexPlace | tuple[str, str] | None":
        """Return a path that differs with its letter, a folder to visit, or None for neither."""
        path = "/".join(place.segments)
        entry = self._index.files.get(path)
        is_folder = stat.S_ISDIR(state.st_mode)
        if entry is not None and (not is_folder or entry.mode & KIND == _SUBMODULE):
            missing.discard(path)
            letter = self._compare(place.segments, entry, state)
            return (path, letter) if letter else None
        name = place.segments[-1]
        is_ignored = place.is_ignored or ignores(place.chain, name, is_folder=is_folder)
        if is_folder:
            if is_ignored and path not in self._inner:
                return None
            with self._folder.top.open(place.segments) as opened:
                is_repository = path not in self._inner and has(opened.fd, DOT_GIT)
            inner = tuple((rules, f"{prefix}{octets(name)}/") for rules, prefix in place.chain)
            return (f"{path}/", "?") if is_repository else IndexPlace(place.segments, inner, is_ignored)
        is_file = stat.S_ISREG(state.st_mode) or stat.S_ISLNK(state.st_mode)
        return (path, "?") if is_file and not is_ignored else None

    def _compare(self, segments: Segments, entry: IndexedFile, state: os.stat_result) -> str:
        """Return git's letter for how a file differs from the index; empty if it does not, or if it is unsure."""
        kind = entry.mode & KIND
        if kind == _SUBMODULE or entry.is_skipped:
            return ""
        if kind != stat.S_IFMT(state.st_mode):
            return "T"
        if self._minds_mode and kind != _LINK and bool(entry.mode & 0o100) != bool(state.st_mode & 0o100):
            return "M"
        if self._has_same_times(entry, state):
            return ""
        self._deadline.check()
        if state.st_size > MAX_OBJECT_BYTES:
            self.unsure += 1
            return ""
        content = self._content(segments, is_link=kind == _LINK)
        if any(_named(one, len(entry.id)) == entry.id for one in (content, content.replace(b"\r\n", b"\n"))):
            return ""
        if self._may_be_filtered(segments):
            self.unsure += 1
            return ""
        return "M"

    def _has_same_times(self, entry: IndexedFile, state: os.stat_result) -> bool:
        is_same = entry.modified_ns == state.st_mtime_ns and entry.size == state.st_size & 0xFFFFFFFF
        # A file that was written together with the index may have changed since without another time.
        return is_same and entry.modified_ns < self._index.modified_ns

    def _content(self, segments: Segments, *, is_link: bool) -> bytes:
        if not is_link:
            with self._folder.top.open(segments) as opened:
                return opened.read(0, MAX_OBJECT_BYTES)
        with self._folder.top.open(segments[:-1]) as above:
            return os.fsencode(os.readlink(segments[-1], dir_fd=above.fd))

    def _may_be_filtered(self, segments: Segments) -> bool:
        """Return whether attributes may make the bytes of a file differ from those that git stores."""
        places: list[tuple[Root, Segments]] = [(self._folder.shared, ("info", "attributes"))]
        places += [(self._folder.top, (*segments[:end], ".gitattributes")) for end in range(len(segments))]
        return any(self._filters(root, place) for root, place in places)

    def _filters(self, root: Root, place: Segments) -> bool:
        known = self._filtering.get(place)
        if known is None:
            text = _optional_text(root, place)
            known = self._filtering[place] = len(text) >= MAX_RULES_BYTES or any(word in text for word in _FILTERING)
        return known

    # Ignore rules

    def _chain(self, place: IndexPlace) -> Chain:
        rules = self._rules(self._folder.top, (*place.segments, ".gitignore"))
        return (*place.chain, (rules, "")) if rules else place.chain

    def _rules(self, root: Root, segments: Segments) -> Rules:
        text = _optional_text(root, segments)
        if len(text) >= MAX_RULES_BYTES:
            raise Unknown("too many rules")
        return _compiled(text)


def _folders_of(paths: Iterable[str]) -> set[str]:
    """Return every folder above one of the files."""
    folders: set[str] = set()
    for path in paths:
        above = path.rpartition("/")[0]
        while above and above not in folders:
            folders.add(above)
            above = above.rpartition("/")[0]
    return folders


def _optional_text(root: Root, segments: Segments) -> str:
    """Return the beginning of a file; empty if it cannot be read."""
    try:
        return read_text(root, segments, MAX_RULES_BYTES)
    except SandboxError:
        return ""


def _compiled(text: str) -> Rules:
    try:
        return Rules.of(octets(line.removesuffix("\r")) for line in text.split("\n"))
    except TooManyPatterns:
        raise Unknown("too many rules") from None


def _named(content: bytes, digits: int) -> Id:
    """Return the id that git gives to a content."""
    head = b"blob %d\0" % len(content)
    return (sha1(head + content) if digits == 40 else sha256(head + content)).hexdigest().encode()
