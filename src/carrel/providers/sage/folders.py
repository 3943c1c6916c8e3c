"""The Sage folder and its sub-folders, opened beneath a handle and looked at again when they are replaced.

Without a folder the user named, nothing outside the workspace is taken for one: a link that leaves counts as absent.
"""

import errno
import os
import stat
from collections.abc import Iterator
from threading import Lock
from typing import Final, Literal

from carrel.providers.sage.notation import Broken
from carrel.sandbox import Looping, Missing, Opened, Outside, Root, SandboxError, Special, Unreadable
from carrel.value import Value

Name = Literal["system", "checkpoints", "knowledge", "failures"]
NAMES: Final[tuple[Name, ...]] = ("system", "checkpoints", "knowledge", "failures")
DEFAULT: Final = ".sage"
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
    """Handles of the Sage folder and what lies in it; None stands for a folder that is absent."""

    def __init__(self, root: str, folder: str) -> None:
        self._is_named = folder != DEFAULT
        self.place = os.path.join(root, os.path.expanduser(folder))
        self._anchor_path = self.place if self._is_named else root
        self._way = () if self._is_named else (DEFAULT,)
        self._roots: dict[str, Root] = {}
        self._known: dict[str, tuple[int, int]] = {}
        self._retired: list[Root] = []
        self._lock = Lock()

    @property
    def exists(self) -> bool:
        """Whether there is a Sage folder now."""
        return self.root("") is not None

    def root(self, name: Name | Literal[""]) -> Root | None:
        """Give a sub-folder, or with an empty name the Sage folder itself."""
        try:
            found = os.stat(os.path.join(self.place, name) if name else self.place)
        except (OSError, ValueError):
            return None
        identity = found.st_dev, found.st_ino
        if self._known.get(name) != identity:
            with self._lock:
                self._open(name, identity)
        return self._roots.get(name) if self._known.get(name) == identity else None

    def _open(self, name: str, identity: tuple[int, int]) -> None:
        """Open a folder that is another one than before; called by one thread at a time."""
        if self._known.get(name) == identity:
            return  # another thread was here first
        before = self._roots.pop(name, None)
        if before is not None:
            self._retired.append(before)  # another thread may be reading through it
        try:
            opened = self._contained((*self._way, name) if name else self._way)
        except (OSError, SandboxError):
            opened = None
        if opened is not None:
            self._roots[name] = opened
        # Last: who sees that it is known, without the lock, must find it open.
        self._known[name] = identity

    def _contained(self, segments: tuple[str, ...]) -> Root | None:
        """Open a folder only if every step to it stays inside; what was walked to is what is held."""
        with Root(self._anchor_path, absolute_links=True) as anchor, anchor.open(segments) as walked:
            home = anchor.open(self._way)
            home.close()
            holds_home = len(segments) > len(self._way) and home.real[: len(walked.real)] == walked.real
            if not walked.is_folder or holds_home:
                return None  # a sub-folder that holds the Sage folder would show config.yaml
            held = Root(os.path.join(anchor.path, *walked.real), absolute_links=True)
            now = os.fstat(held.fd)
            if (now.st_dev, now.st_ino) == (walked.stat.st_dev, walked.stat.st_ino):
                return held
            held.close()
            return None

    def close(self) -> None:
        """Give every handle back."""
        with self._lock:
            for root in (*self._roots.values(), *self._retired):
                root.close()
            self._roots.clear()
            self._known.clear()
            self._retired.clear()


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
