"""The Sage folder and its subfolders: opened by the rules for data folders, and again when they are replaced.

A folder that the user did not choose is inside the project. A link that leaves the project, leads to a name on the
deny-list or to a folder of another user counts as absent.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from threading import Lock, RLock
from typing import Final, Generic, Literal, TypeVar

from carrel.core.cache import BoundedCache
from carrel.core.provider import Project
from carrel.core.record import Value
from carrel.files.data_folder import DataFolder
from carrel.files.sandbox import Forbidden, Looping, Missing, Opened, Outside, Root, SandboxError, Special, Unreadable
from carrel.files.secrets import DenyList
from carrel.providers.sage.fields import BadFile, decode

FolderName = Literal["system", "checkpoints", "knowledge", "failures"]
FOLDERS: Final[tuple[FolderName, ...]] = ("system", "checkpoints", "knowledge", "failures")
DEFAULT: Final = ".sage"
DENIED: Final = "its name is on the deny-list"
NOT_PERMITTED: Final = (errno.EACCES, errno.EPERM)
MAX_DEPTH: Final = 32
CACHE_BYTES: Final = 4 * 1_048_576
MAX_CACHED_BYTES: Final = 65_536
"""Limits of the cache, for one folder and for one file: an item that was read is often read again."""
_RECORD_BYTES: Final = 1_024
"""The size of a parsed file apart from its text."""

Parsed = TypeVar("Parsed")

Signature = tuple[int, int, int]
"""Changes when a file does: its mtime, size and inode."""


class FileMissing(BadFile):
    """There is no such file. In a listing the reason is an I/O error, because the file existed a moment ago."""

    def __init__(self) -> None:
        super().__init__("I/O error")


class LinkOutside(BadFile):
    """A link leads out of the folder."""

    def __init__(self) -> None:
        super().__init__("link leaves the folder")


class FileData(Value, frozen=True):
    """A file's bytes, with its state when they were read."""

    data: bytes
    signature: Signature

    @property
    def modified_ms(self) -> int:
        """The time of its last change."""
        return self.signature[0] // 1_000_000


class FoundName(Value, frozen=True, gc=False):
    """A name in a folder."""

    name: str
    mode: int
    signature: Signature

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return stat.S_ISLNK(self.mode)


def signature_of(found: os.stat_result) -> Signature:
    """Return a file's signature."""
    return found.st_mtime_ns, found.st_size, found.st_ino


class SageFolders:
    """Handles of the Sage folder and its subfolders. None stands for a folder that is absent or must not be opened."""

    def __init__(self, project: Project, folder: str, *, is_named: bool) -> None:
        self.data = DataFolder(project, folder, is_named=is_named, own=_own_names(folder))
        self._roots: dict[str, tuple[tuple[int, int], Root | None]] = {}
        """The last device and inode of each folder, and its handle."""
        self._lock = Lock()

    @property
    def path(self) -> str:
        """The path of the Sage folder, for messages and comparison only."""
        return self.data.path

    @property
    def exists(self) -> bool:
        """Whether there is a Sage folder now."""
        return self.root("") is not None

    def root(self, name: FolderName | Literal[""]) -> Root | None:
        """Return a subfolder, or the Sage folder itself for an empty name."""
        try:
            found = os.stat(os.path.join(self.path, name) if name else self.path)
        except (OSError, ValueError):
            return None
        identity = found.st_dev, found.st_ino
        known = self._roots.get(name)
        if known is None or known[0] != identity:
            with self._lock:
                known = self._open(name, identity)
        return known[1]

    def is_within(self, name: FolderName) -> bool:
        """Return whether a subfolder is inside the Sage folder, not a link out of it."""
        home, inner = self.root(""), self.root(name)
        return home is not None and inner is not None and inner.path.startswith(f"{home.path}/")

    def _open(self, name: str, identity: tuple[int, int]) -> tuple[tuple[int, int], Root | None]:
        """Open a folder that was replaced. The caller holds the lock."""
        known = self._roots.get(name)
        if known is not None and known[0] == identity:
            return known  # another thread was faster
        try:
            opened = self._open_root(name)
        except (OSError, SandboxError):
            opened = None
        if opened is not None:
            found = os.fstat(opened.fd)
            if (found.st_dev, found.st_ino) != identity:
                opened.close()
                opened = None
        self._roots[name] = identity, opened  # the old one is not closed: another thread may still read through it
        return identity, opened

    def _open_root(self, name: str) -> Root | None:
        if not name:
            return self.data.open()
        opened = self.data.open(name)
        with self.data.open() as home:
            if not f"{home.path}/".startswith(f"{opened.path}/"):
                return opened
        opened.close()
        return None  # a subfolder that contains the Sage folder would show config.yaml

    def close(self) -> None:
        """Close every handle."""
        with self._lock:
            for _, root in self._roots.values():
                if root is not None:
                    root.close()
            self._roots.clear()


def _own_names(folder: str) -> tuple[str, ...]:
    """Return the names in the folder's path that the deny-list does not apply to."""
    names = tuple(os.path.normpath(folder).split(os.sep))
    is_plain = names[-1] == DEFAULT and not DenyList().covers_path(names[:-1], is_folder=True)
    return names if is_plain else (DEFAULT,)


def segments_of(path: str) -> tuple[str, ...]:
    """Return the names in a path, without empty names and dots."""
    return tuple(part for part in path.split("/") if part not in ("", "."))


def read(root: Root | None, segments: tuple[str, ...], limit: int, known: Signature | None = None) -> FileData:
    """Return a regular file's data, without its bytes if its signature is `known`; raise `FileMissing` or `BadFile`."""
    with open_file(root, segments) as opened:
        if opened.is_folder:
            raise BadFile("is a directory")
        size, data = opened.stat.st_size, b""
        signature = signature_of(opened.stat)
        if signature != known and size <= limit:
            try:
                data = opened.read(0, limit + 1)
            except SandboxError as error:
                raise BadFile(_reason(error)) from None
        if max(size, len(data)) > limit:
            raise BadFile(f"too large ({max(size, len(data))} bytes, limit {limit})")
        return FileData(data, signature)


def open_file(root: Root | None, segments: tuple[str, ...]) -> Opened:
    """Open a file; raise `FileMissing`, or `BadFile` with the reason."""
    if root is None:
        raise FileMissing
    try:
        return root.open(segments)
    except Looping:
        raise BadFile("too many links") from None
    except (Missing, ValueError):
        raise FileMissing from None
    except Outside:
        raise LinkOutside from None
    except SandboxError as error:
        raise BadFile(_reason(error)) from None


def _reason(error: SandboxError) -> str:
    if isinstance(error, Special):
        return "not a regular file"
    if isinstance(error, Forbidden):
        return DENIED
    if isinstance(error, Unreadable) and error.errno in NOT_PERMITTED:
        return "permission denied"
    return "I/O error"


def scan(root: Root | None, segments: tuple[str, ...] = (), *, with_hidden: bool = False) -> list[FoundName]:
    """Return the names in a folder, in any order; names with a leading dot only if `with_hidden` is set."""
    found: list[FoundName] = []
    if root is None:
        return found
    try:
        with root.open(segments) as opened, os.scandir(opened.fd) as entries:
            for entry in entries:
                if with_hidden or entry.name[0] != ".":
                    try:
                        state = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    found.append(FoundName(entry.name, state.st_mode, signature_of(state)))
    except (OSError, SandboxError, ValueError):
        pass  # a folder that cannot be read has no names
    return found


def walk(root: Root | None, *, with_hidden: bool = False) -> Iterator[tuple[str, FoundName]]:
    """Yield the path of every name below a folder that is not a folder; a linked folder is not entered."""
    ahead: list[tuple[str, ...]] = [()]
    while ahead:
        segments = ahead.pop()
        for found in scan(root, segments, with_hidden=with_hidden):
            if not stat.S_ISDIR(found.mode):
                yield "/".join((*segments, found.name)), found
            elif len(segments) < MAX_DEPTH:
                ahead.append((*segments, found.name))


class Subfolder(Generic[Parsed]):
    """A folder below the Sage folder. Its files are read within a limit, and parsed again only when they changed."""

    def __init__(self, home: SageFolders, name: FolderName, limit: int) -> None:
        self.name: FolderName = name
        self._home = home
        self._limit = limit
        self._lock = RLock()
        self._cache: BoundedCache[str, tuple[Signature, Parsed]] = BoundedCache(CACHE_BYTES)

    @property
    def root(self) -> Root | None:
        """The folder's handle, or None."""
        return self._home.root(self.name)

    def read_file(self, *segments: str, known: Signature | None = None) -> FileData:
        """Return a file's data, without its bytes if its signature is `known`; raise `FileMissing` or `BadFile`."""
        return read(self.root, segments, self._limit, known)

    def load_file(self, segments: tuple[str, ...], parse: Callable[[str], Parsed]) -> tuple[Parsed, FileData]:
        """Return a parsed file and its state; raise `FileMissing`, or `BadFile` with the reason."""
        path = "/".join(segments)
        cached = self._cache.get(path)
        data = self.read_file(*segments, known=cached[0] if cached else None)
        if cached is not None and cached[0] == data.signature:
            return cached[1], data
        parsed = parse(decode(data.data))
        size = data.signature[1]
        if size <= MAX_CACHED_BYTES:
            self._cache.put(path, (data.signature, parsed), _RECORD_BYTES + size)
        return parsed, data
