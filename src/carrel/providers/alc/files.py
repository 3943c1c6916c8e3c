"""Folders and files of alc, opened by handle, and what is made of a file when it is asked for.

A folder is the user's own or it is confined to the project. In the user's own, links to folders may lead anywhere,
as `alc pkg link` makes them. A confined one is opened by the rules of `files.data_folder`. In both, a file must lie
below its folder, links followed.

Absent, Escapes and Failed say why a file was not opened; which message a client gets is decided
where the kind of the file is known.
"""

import os
from collections.abc import Callable, Sequence
from typing import Final

from carrel.core.hashing import sha256
from carrel.core.record import Value
from carrel.files.data_folder import DataFolder
from carrel.files.sandbox import GONE, Kind, Missing, Opened, Outside, Root, SandboxError, Special, Unreadable
from carrel.providers.alc.compact_json import NOT_UTF8

NOT_REGULAR: Final = "not a regular file"
ETAG_DIGITS: Final = 16

Stamp = tuple[int, int, int]
"""What changes when a file does: inode, time and size."""


class FileError(Exception):
    """A file was not opened, or cannot be served."""


class Absent(FileError):
    """Nothing is there."""


class Escapes(FileError):
    """It leads out of its base."""


class Failed(FileError):
    """It is there and cannot be read; `reason` is told to the client."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Oversized(FileError):
    """It is larger than what is read whole."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(size, limit)
        self.size = size
        self.limit = limit


def stamp_of(found: os.stat_result) -> Stamp:
    """Give what changes when a file does."""
    return found.st_ino, found.st_mtime_ns, found.st_size


def etag_of(*inputs: object) -> str:
    """Make an ETag of its inputs."""
    text = "\0".join(map(str, inputs))
    digest: str = sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
    return digest[:ETAG_DIGITS]


class AlcFolder(Value, frozen=True):
    """A folder of alc: the user's own at `path`, or, of confined `data`, the one that `names` lead to.

    A path is for comparison and for caches; where the folder is confined, nothing is opened by it.
    """

    path: str
    data: DataFolder | None = None
    names: tuple[str, ...] = ()

    @property
    def is_confined(self) -> bool:
        """Whether it must lie in the project, with all that is in it."""
        return self.data is not None

    def below(self, name: str) -> "AlcFolder":
        """Return a folder in this one."""
        if self.data is None:
            return AlcFolder(f"{self.path}/{name}")
        return AlcFolder(f"{self.path}/{name}", self.data, (*self.names, name))

    def open(self) -> Root:
        """Open the folder; raise `SandboxError` or `OSError`."""
        return Root(self.path, absolute_links=True) if self.data is None else self.data.open(*self.names)

    def refusal(self) -> SandboxError | None:
        """Return why a confined folder is not opened although it may be there; None if it is opened or missing."""
        try:
            if self.is_confined:
                self.open().close()
        except (Missing, Unreadable, OSError):
            pass
        except SandboxError as error:
            return error
        return None

    def is_there(self) -> bool:
        """Return whether it is a folder that may be opened."""
        if self.data is None:
            return os.path.isdir(self.path)
        try:
            self.open().close()
        except (SandboxError, OSError):
            return False
        return True

    def holds(self, name: str) -> bool:
        """Return whether there is anything by that name, links followed; what cannot be looked at is there."""
        try:
            self.stat(name)
        except OSError as error:
            return error.errno not in GONE
        except SandboxError as error:
            return isinstance(error, Special | Unreadable)
        return True

    def stat(self, name: str = "") -> os.stat_result:
        """Describe a file in it, or the folder itself, links followed; raise `SandboxError` or `OSError`."""
        if self.data is None:
            return os.stat(f"{self.path}/{name}")
        with self.open() as root, root.open((name,) if name else ()) as opened:
            return opened.stat

    def scan(self) -> list[tuple[str, Kind]]:
        """List it, unsorted, each name with its kind; raise `FileError`."""
        with _opened(self) as root:
            try:
                with root.open(()) as opened:
                    return opened.scan()
            except Unreadable as error:
                reason = os.strerror(error.errno)
            except SandboxError:
                raise Absent from None
        raise Failed(reason)

    def list_folders(self) -> list[str]:
        """Return the names of the folders in it, links to folders included; raise `FileError`."""
        found = self.scan()
        return [name for name, kind in found if kind == "folder" or (kind == "link" and self.below(name).is_there())]


class HeldFile:
    """A regular file, open: what was found is what is read."""

    def __init__(self, opened: Opened, path: str) -> None:
        self._opened = opened
        self.path = path
        self.stat = opened.stat
        self.size = opened.stat.st_size
        self.modified_ms = opened.stat.st_mtime_ns // 1_000_000

    @property
    def stamp(self) -> Stamp:
        """What changes when the file does."""
        return stamp_of(self.stat)

    def etag(self, *more: object) -> str:
        """Make an ETag of where the file is, when it changed and how large it is."""
        return etag_of(self.path, self.stat.st_mtime_ns, self.size, *more)

    def read(self, start: int, length: int) -> bytes:
        """Give bytes, as far as the file reached when it was opened."""
        try:
            return self._opened.read(start, min(length, self.size - start))
        except Unreadable as error:
            reason = os.strerror(error.errno)
        except SandboxError:
            reason = os.strerror(5)
        raise Failed(reason)

    def read_all(self, limit: int) -> bytes:
        """Give the whole file, unless it is larger than the limit."""
        if self.size > limit:
            raise Oversized(self.size, limit)
        return self.read(0, self.size)

    def read_text(self, limit: int) -> bytes:
        """Give the whole file, which must be UTF-8."""
        data = self.read_all(limit)
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            raise Failed(NOT_UTF8) from None
        return data

    def has_moved(self) -> bool:
        """Tell whether the file changed since it was opened."""
        return stamp_of(os.fstat(self._opened.fd)) != self.stamp

    def close(self) -> None:
        """Close the file."""
        self._opened.close()

    def __enter__(self) -> "HeldFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Rendering:
    """What a file gives, made when it is first asked for: a condition that holds never asks."""

    def __init__(self, held: HeldFile | None, make: Callable[[], bytes]) -> None:
        self._held = held
        self._make = make
        self._made: bytes | None = None

    @property
    def size(self) -> int:
        """Give the length of the text, in bytes."""
        return len(self._data())

    def read(self, start: int, length: int) -> bytes:
        """Give a part of the text."""
        return self._data()[start : start + length]

    def has_moved(self) -> bool:
        """Tell whether the file changed meanwhile."""
        return self._held is not None and self._held.has_moved()

    def close(self) -> None:
        """Close the file."""
        if self._held is not None:
            self._held.close()

    def _data(self) -> bytes:
        if self._made is None:
            self._made = self._make()
        return self._made


def open_below(folder: AlcFolder, segments: Sequence[str]) -> HeldFile:
    """Open a regular file below a folder; raise `FileError`."""
    with _opened(folder) as root:
        opened = _open(root, folder, segments)
        path = "/".join((root.path, *opened.real))
    if opened.is_folder:
        opened.close()
        raise Failed(NOT_REGULAR) if opened.real else Escapes()
    return HeldFile(opened, path)


def list_files(folder: AlcFolder, suffix: str, base: AlcFolder | None = None) -> list[tuple[str, bool]]:
    """Return the names of the files in a folder, without their suffix, and whether each can be read.

    A link cannot that leads out of the base, which is the folder itself unless given. What cannot be listed is empty.
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
            can_be_read = (kind == "file" and not is_linked) or _is_file(base or folder, (*above, name))
            if can_be_read or folder.holds(name):
                listed.append((name.removesuffix(suffix), can_be_read))
    return listed


def read_whole(folder: AlcFolder, name: str, limit: int) -> bytes:
    """Return what is in a file that is not served itself; in the user's own folder it may be a link to anywhere."""
    if not folder.is_confined:
        path = os.path.realpath(os.path.join(folder.path, name))
        folder, name = AlcFolder(os.path.dirname(path)), os.path.basename(path)
    with open_below(folder, (name,)) as held:
        return held.read_all(limit)


def _is_file(folder: AlcFolder, segments: tuple[str, ...]) -> bool:
    try:
        open_below(folder, segments).close()
    except FileError:
        return False
    return True


def _opened(folder: AlcFolder) -> Root:
    """Open a folder; one that may not be opened counts as absent."""
    failure: FileError = Absent()
    try:
        return folder.open()
    except OSError as error:
        if error.errno not in GONE:
            failure = Failed(error.strerror or "unknown error")
    except Unreadable as error:
        failure = Failed(os.strerror(error.errno))
    except SandboxError:
        pass
    raise failure


def _open(root: Root, folder: AlcFolder, segments: Sequence[str]) -> Opened:
    failure: FileError
    try:
        try:
            return root.open(segments)
        except Outside:
            if folder.is_confined:
                raise
            return root.open(_way_back(root, os.path.join(folder.path, *segments)))
    except Outside:
        failure = Escapes()
    except Special:
        failure = Failed(NOT_REGULAR)
    except Unreadable as error:
        failure = Failed(os.strerror(error.errno))
    except SandboxError:
        failure = Absent()
    raise failure


def _way_back(root: Root, path: str) -> list[str]:
    """Return where a link that leaves the user's folder on its way comes back into it; it is opened from there."""
    if not os.path.exists(path):
        raise Missing
    way = os.path.relpath(os.path.realpath(path), root.path).split("/")
    if way[0] in (os.pardir, os.curdir):
        raise Outside
    return way
