"""Open the folders and files of alc by handle, and keep the results of parsing files.

A folder is the user's, or it is confined to the project. In the user's folders, links to folders may lead anywhere, as
`alc pkg link` makes them. A confined folder is opened by the rules of `files.data_folder`. In both, a file must lie
below its folder after links are followed.

A `FileError` says why a file is not served. The client's message is made where the kind of resource is known.
"""

import os
from collections.abc import Sequence
from errno import EIO
from typing import Final, Generic, Self, TypeVar

from carrel.core.cache import BoundedCache
from carrel.core.hashing import sha256
from carrel.core.record import Value
from carrel.files.data_folder import DataFolder
from carrel.files.sandbox import GONE, Kind, Missing, Opened, Outside, Root, SandboxError, Special, Unreadable
from carrel.providers.alc.compact_json import NOT_UTF8

NOT_REGULAR: Final = "not a regular file"
ETAG_DIGITS: Final = 16

T = TypeVar("T")
Stamp = tuple[int, int, int]
"""What changes when a file does: inode, time and size."""
UNREAD: Final[Stamp] = (0, 0, 0)
"""The stamp of a file whose state cannot be read."""


class FileError(Exception):
    """A file was not opened, or cannot be served."""


class Absent(FileError):
    """There is no such file."""


class Escapes(FileError):
    """The path leads out of its base folder."""


class Failed(FileError):
    """The file cannot be read; the message is the reason, which the client sees."""


class Malformed(FileError):
    """The file cannot be parsed; the message, which the client sees, says which part of it and why."""


class Oversized(FileError):
    """The file is larger than the limit for files that are read whole."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(size, limit)
        self.size = size
        self.limit = limit


def stamp_of(found: os.stat_result) -> Stamp:
    """Return the stamp of a file."""
    return found.st_ino, found.st_mtime_ns, found.st_size


def etag_of(*inputs: object) -> str:
    """Return the ETag for its inputs."""
    text = "\0".join(map(str, inputs))
    digest: str = sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
    return digest[:ETAG_DIGITS]


class ParsedFiles(Generic[T]):
    """Results of parsing files, each valid while its file has the same stamp.

    Each result has a weight. When all together exceed the bound, the oldest are dropped.
    """

    def __init__(self, bound: int) -> None:
        self._kept: BoundedCache[str, tuple[Stamp, T]] = BoundedCache(bound)

    def get(self, path: str, stamp: Stamp) -> T | None:
        """Return the result for a file with this stamp, if it is kept."""
        found = self._kept.get(path)
        return None if found is None or found[0] != stamp else found[1]

    def put(self, path: str, stamp: Stamp, value: T, weight: int = 1) -> T:
        """Keep a result in place of an earlier one for the same path, and return it."""
        self._kept.put(path, (stamp, value), weight)
        return value


class AlcFolder(Value, frozen=True):
    """A folder of alc: the user's at `path`, or a confined one, found below `data` by `names`.

    The path of a confined folder is only for comparison and for caches; nothing is opened by it.
    """

    path: str
    data: DataFolder | None = None
    names: tuple[str, ...] = ()

    @property
    def is_confined(self) -> bool:
        """Return whether the folder and its content must lie in the project."""
        return self.data is not None

    def below(self, name: str) -> "AlcFolder":
        """Return a folder in this one."""
        if self.data is None:
            return AlcFolder(f"{self.path}/{name}")
        return AlcFolder(f"{self.path}/{name}", self.data, (*self.names, name))

    def open(self) -> Root:
        """Open the folder; raise `SandboxError` or `OSError`."""
        return Root(self.path, absolute_links=True) if self.data is None else self.data.open(*self.names)

    def is_refused(self) -> bool:
        """Return whether the rules refuse to open a confined folder; it may exist or not."""
        try:
            if self.is_confined:
                self.open().close()
        except (Missing, Unreadable, OSError):
            pass
        except SandboxError:
            return True
        return False

    def is_there(self) -> bool:
        """Return whether the folder exists and may be opened."""
        if self.data is None:
            return os.path.isdir(self.path)
        try:
            self.open().close()
        except (SandboxError, OSError):
            return False
        return True

    def stamp(self, name: str) -> Stamp | None:
        """Return the stamp of a file in it, links followed: `UNREAD` if it cannot be read, None if absent."""
        try:
            return stamp_of(self.stat(name))
        except OSError as error:
            return None if error.errno in GONE else UNREAD
        except SandboxError as error:
            return UNREAD if isinstance(error, Special | Unreadable) else None

    def stat(self, name: str = "") -> os.stat_result:
        """Return the state of a file in it, or of the folder; links are followed. Raise `SandboxError` or `OSError`."""
        if self.data is None:
            return os.stat(f"{self.path}/{name}")
        with self.open() as root, root.open((name,) if name else ()) as opened:
            return opened.stat

    def scan(self) -> list[tuple[str, Kind]]:
        """Return its names with their kinds, unsorted; raise `FileError`."""
        with _opened(self) as root:
            try:
                with root.open(()) as opened:
                    return opened.scan()
            except SandboxError as error:
                failure = _file_error(error)
        raise failure

    def list_folders(self) -> list[str]:
        """Return the names of the folders in it, links to folders included; raise `FileError`."""
        found = self.scan()
        return [name for name, kind in found if kind == "folder" or (kind == "link" and self.below(name).is_there())]


class AlcFile:
    """A regular file, open: its state when it was opened belongs to the bytes that are read."""

    def __init__(self, opened: Opened, path: str) -> None:
        self._opened = opened
        self.path = path
        self.stat = opened.stat
        self.stamp = stamp_of(opened.stat)
        self.size = opened.stat.st_size
        self.modified_ms = opened.stat.st_mtime_ns // 1_000_000

    def etag(self, *more: object) -> str:
        """Return an ETag for the file's path, time and size, and further inputs."""
        return etag_of(self.path, *self.stamp[1:], *more)

    def read(self, start: int, length: int) -> bytes:
        """Return bytes, as far as the file reached when it was opened; raise `Failed`."""
        try:
            return self._opened.read(start, min(length, self.size - start))
        except SandboxError as error:
            reason = os.strerror(error.errno if isinstance(error, Unreadable) else EIO)
        raise Failed(reason)

    def read_all(self, limit: int) -> bytes:
        """Return the whole file; raise `Oversized` or `Failed`."""
        if self.size > limit:
            raise Oversized(self.size, limit)
        return self.read(0, self.size)

    def read_text(self, limit: int) -> bytes:
        """Return the whole file, which must be UTF-8; raise `Oversized` or `Failed`."""
        data = self.read_all(limit)
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            raise Failed(NOT_UTF8) from None
        return data

    def has_moved(self) -> bool:
        """Return whether the file changed since it was opened."""
        return stamp_of(os.fstat(self._opened.fd)) != self.stamp

    def close(self) -> None:
        """Close the file."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_below(folder: AlcFolder, *segments: str) -> AlcFile:
    """Open a regular file below a folder; raise `FileError`."""
    with _opened(folder) as root:
        opened = _open(root, folder, segments)
        path = "/".join((root.path, *opened.real))
    if opened.is_folder:
        opened.close()
        raise Failed(NOT_REGULAR) if opened.real else Escapes()
    return AlcFile(opened, path)


def list_files(folder: AlcFolder, suffix: str, base: AlcFolder | None = None) -> list[tuple[str, bool]]:
    """Return the names of the files in a folder, without their suffix, and whether each can be read.

    A link cannot be read if it leads out of the base, by default the folder. A folder that cannot be listed is empty.
    """
    above = () if base is None else (os.path.basename(folder.path),)
    is_linked = base is not None and os.path.islink(folder.path)
    try:
        found = folder.scan()
    except FileError:
        return []
    listed = []
    for name, kind in found:
        if name.endswith(suffix) and kind in ("file", "link"):
            can_be_read = (kind == "file" and not is_linked) or _is_file(base or folder, *above, name)
            if can_be_read or folder.stamp(name) is not None:
                listed.append((name.removesuffix(suffix), can_be_read))
    return listed


def read_whole(folder: AlcFolder, name: str, limit: int) -> bytes:
    """Return the bytes of a file for internal use; in the user's folder it may be a link to anywhere.

    Raise `FileError`.
    """
    if not folder.is_confined:
        path = os.path.realpath(os.path.join(folder.path, name))
        folder, name = AlcFolder(os.path.dirname(path)), os.path.basename(path)
    with open_below(folder, name) as file:
        return file.read_all(limit)


def _is_file(folder: AlcFolder, *segments: str) -> bool:
    try:
        open_below(folder, *segments).close()
    except FileError:
        return False
    return True


def _file_error(error: SandboxError) -> FileError:
    """Return the error for a failure of the sandbox; a file or folder that may not be opened counts as absent."""
    if isinstance(error, Outside):
        return Escapes()
    if isinstance(error, Special):
        return Failed(NOT_REGULAR)
    return Failed(os.strerror(error.errno)) if isinstance(error, Unreadable) else Absent()


def _opened(folder: AlcFolder) -> Root:
    """Open a folder; one that may not be opened counts as absent."""
    failure: FileError = Absent()
    try:
        return folder.open()
    except OSError as error:
        if error.errno not in GONE:
            failure = Failed(error.strerror or "unknown error")
    except Unreadable as error:
        failure = _file_error(error)
    except SandboxError:
        pass
    raise failure


def _open(root: Root, folder: AlcFolder, segments: Sequence[str]) -> Opened:
    try:
        try:
            return root.open(segments)
        except Outside:
            if folder.is_confined:
                raise
            return root.open(_way_back(root, os.path.join(folder.path, *segments)))
    except SandboxError as error:
        failure = _file_error(error)
    raise failure


def _way_back(root: Root, path: str) -> list[str]:
    """Return the path, below the folder, of a link that leaves the user's folder and leads back into it.

    Raise `Missing` or `Outside`.
    """
    if not os.path.exists(path):
        raise Missing
    way = os.path.relpath(os.path.realpath(path), root.path).split("/")
    if way[0] in (os.pardir, os.curdir):
        raise Outside
    return way
