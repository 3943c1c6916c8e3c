"""The Sage folder and its sub-folders, opened by the rules for all data folders, and anew when they are replaced.

A folder that the user did not name lies in the project: a link that leaves it, leads to a name on the deny-list or to
a folder of another user counts as absent.
"""

import errno
import os
import stat
from collections.abc import Iterator
from threading import Lock
from typing import Final, Literal

from carrel.core.provider import Project
from carrel.core.record import Value
from carrel.files.data_folder import DataFolder
from carrel.files.sandbox import Forbidden, Looping, Missing, Opened, Outside, Root, SandboxError, Special, Unreadable
from carrel.files.secrets import Denial
from carrel.providers.sage.file_format import Broken

Name = Literal["system", "checkpoints", "knowledge", "failures"]
NAMES: Final[tuple[Name, ...]] = ("system", "checkpoints", "knowledge", "failures")
DEFAULT: Final = ".sage"
DENIED: Final = "its name is on the deny-list"
REFUSED: Final = (errno.EACCES, errno.EPERM)

Signature = tuple[int, int, int]
"""What changes when a file does: its mtime, size and inode."""


class Gone(Exception):
    """Nothing is there."""


class Left(Broken):
    """A link leads out of the folder."""


class Read(Value, frozen=True):
    """A file's bytes, and what was known of it when they were read."""

    data: bytes
    signature: Signature
    size: int
    modified_ms: int


class Seen(Value, frozen=True):
    """A name in a folder."""

    name: str
    mode: int
    signature: Signature

    @property
    def is_link(self) -> bool:
        """Whether it is a link, wherever it leads."""
        return stat.S_ISLNK(self.mode)

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder and no link to one."""
        return stat.S_ISDIR(self.mode)


def signature_of(found: os.stat_result) -> Signature:
    """Give what changes when the file does."""
    return found.st_mtime_ns, found.st_size, found.st_ino


class Folders:
    """Handles of the Sage folder and what lies in it; None stands for a folder that is absent or not to be opened."""

    def __init__(self, project: Project, folder: str) -> None:
        self.data = DataFolder(project, folder, is_named="dir" in project.named, own=_own_names(folder))
        self._roots: dict[str, Root] = {}
        self._known: dict[str, tuple[int, int]] = {}
        self._lock = Lock()

    @property
    def place(self) -> str:
        """The path of the Sage folder, for people and for comparison."""
        return self.data.path

    @property
    def exists(self) -> bool:
        """Whether there is a Sage folder now."""
        return self.root("") is not None

    def root(self, name: Name | Literal[""]) -> Root | None:
        """Return a sub-folder, or with an empty name the Sage folder itself."""
        try:
            found = os.stat(os.path.join(self.place, name) if name else self.place)
        except (OSError, ValueError):
            return None
        identity = found.st_dev, found.st_ino
        if self._known.get(name) != identity:
            with self._lock:
                self._open(name, identity)
        return self._roots.get(name) if self._known.get(name) == identity else None

    def is_within(self, name: Name) -> bool:
        """Return whether a sub-folder lies in the Sage folder itself, and is not a link out of it."""
        home, inner = self.root(""), self.root(name)
        return home is not None and inner is not None and inner.path.startswith(f"{home.path}/")

    def _open(self, name: str, identity: tuple[int, int]) -> None:
        """Open a folder that is another one than before; called by one thread at a time."""
        if self._known.get(name) == identity:
            return  # another thread was here first
        self._roots.pop(name, None)  # not closed: another thread may be reading through it, and is its last holder
        try:
            opened = self._opened(name)
        except (OSError, SandboxError):
            opened = None
        if opened is not None and identity == _identity(opened):
            self._roots[name] = opened
        elif opened is not None:
            opened.close()
        # Last: who sees that it is known, without the lock, must find it open.
        self._known[name] = identity

    def _opened(self, name: str) -> Root | None:
        if not name:
            return self.data.open()
        opened = self.data.open(name)
        with self.data.open() as home:
            if not f"{home.path}/".startswith(f"{opened.path}/"):
                return opened
        opened.close()
        return None  # a sub-folder that holds the Sage folder would show config.yaml

    def close(self) -> None:
        """Give every handle back."""
        with self._lock:
            for root in self._roots.values():
                root.close()
            self._roots.clear()
            self._known.clear()


def _own_names(folder: str) -> tuple[str, ...]:
    """Return the names on the way to the folder that are Sage's own, and so not refused by the deny-list."""
    names = tuple(os.path.normpath(folder).split(os.sep))
    is_plain = names[-1] == DEFAULT and not Denial().covers_path(names[:-1], is_folder=True)
    return names if is_plain else (DEFAULT,)


def _identity(root: Root) -> tuple[int, int]:
    found = os.fstat(root.fd)
    return found.st_dev, found.st_ino


def read(root: Root, segments: tuple[str, ...], limit: int, known: Signature | None = None) -> Read:
    """Read a regular file, but for one in the known state, of which no bytes are given; raise `Gone` or `Broken`."""
    with open_beneath(root, segments) as opened:
        if opened.is_folder:
            raise Broken("is a directory")
        size = opened.stat.st_size
        if size > limit:
            raise Broken(f"too large ({size} bytes, limit {limit})")
        signature, modified_ms = signature_of(opened.stat), opened.stat.st_mtime_ns // 1_000_000
        if signature == known:
            return Read(b"", signature, size, modified_ms)
        try:
            data = opened.read(0, limit + 1)
        except SandboxError as error:
            raise Broken(_reason(error)) from None
        if len(data) > limit:
            raise Broken(f"too large ({len(data)} bytes, limit {limit})")
        return Read(data, signature, size, modified_ms)


def open_beneath(root: Root, segments: tuple[str, ...]) -> Opened:
    """Open what lies there; raise `Gone`, or `Broken` with the reason."""
    try:
        return root.open(segments)
    except SandboxError as error:
        failure: Exception
        if isinstance(error, Missing) and not isinstance(error, Looping):
            failure = Gone()
        else:
            failure = Left("link leaves the folder") if isinstance(error, Outside) else Broken(_reason(error))
    except ValueError:
        failure = Gone()
    raise failure


def _reason(error: SandboxError) -> str:
    if isinstance(error, Looping):
        return "too many links"
    if isinstance(error, Special):
        return "not a regular file"
    if isinstance(error, Forbidden):
        return DENIED
    if isinstance(error, Unreadable) and error.errno in REFUSED:
        return "permission denied"
    return "I/O error"


def states(root: Root) -> list[tuple[str, int, Signature]]:
    """Give name, mode and state of all in a folder whose names begin with no dot: one pass, as fast as may be."""
    found: list[tuple[str, int, Signature]] = []
    try:
        with root.open(()) as opened, os.scandir(opened.fd) as entries:
            for entry in entries:
                if entry.name[0] != ".":
                    try:
                        is_so = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    state = is_so.st_mtime_ns, is_so.st_size, is_so.st_ino
                    found.append((entry.name, is_so.st_mode, state))
    except (OSError, SandboxError):
        return []
    return found


def scan(root: Root, segments: tuple[str, ...] = (), *, hidden: bool = False) -> Iterator[Seen]:
    """Yield the names in a folder, but for those that begin with a dot; nothing if it cannot be read."""
    try:
        opened = root.open(segments)
    except (SandboxError, ValueError):
        return
    with opened:
        if not opened.is_folder:
            return
        try:
            with os.scandir(opened.fd) as names:
                for entry in names:
                    if hidden or entry.name[0] != ".":
                        yield from _seen(entry)
        except OSError:
            return


def _seen(entry: os.DirEntry[str]) -> Iterator[Seen]:
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return
    yield Seen(entry.name, found.st_mode, signature_of(found))
