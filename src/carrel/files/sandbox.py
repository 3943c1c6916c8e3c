"""Open files and folders beneath a folder handle, and nothing outside it.

A `Root` holds one open folder. `Root.open(segments)` returns an `Opened`, a regular file or a folder that is already
open: the file that was checked is the file that is read. Links are followed while every step stays inside. Nothing is
opened by a path string, and no path is resolved first and compared later; `is_inside` compares paths, and opens
nothing.

SandboxError             has no path and no text of the system
├── Missing              nothing there; also a dangling link, or a file used as a folder
│   └── Looping          a cycle of links
├── Outside              a step above the root, or an absolute link, whether or not its target exists
├── Forbidden            the guard refuses a name in the path, whether or not anything is there
├── Foreign              a folder of another user
├── Special              a FIFO, socket or device; nothing was read
└── Unreadable           the system refused; `errno` says why

A `Root` may have a guard, which refuses names: requested ones, and those that links lead to. All other rules, and the
errors that clients see, belong to the providers. Threads may share a `Root`; an `Opened` belongs to one thread. On a
file system that ignores case, a name in another spelling than on disk is missing. A mount inside the root is treated
like the root.
"""

import errno
import functools
import itertools
import os
import stat
import sys
from collections.abc import Callable, Sequence
from time import time_ns
from typing import Final, Literal, Self

from carrel.core.limits import MAX_REMEMBERED_LENGTH
from carrel.files import syscalls

MAX_LINKS: Final = 40  # as the Linux kernel
WALKS_FIRST: Final = 300  # loading openat2 takes 2 to 3 ms and saves 3 to 17 µs for each open
KIND_BITS: Final = 0o170000  # the part of a mode that `stat.S_IFMT` returns
FOLDER_BITS: Final = stat.S_IFDIR
KINDS_SERVED: Final = frozenset({stat.S_IFREG, FOLDER_BITS})
SPARE: Final = 65_536  # bytes that a read requests even if the file was shorter when it was opened
GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP})
ENCODING: Final = (sys.getfilesystemencoding(), sys.getfilesystemencodeerrors())

SETTLED_NS: Final = 100_000_000
"""Age of a change after which every further change shows in the times of a file.

The times change before the bytes do, and on many systems only every few milliseconds.
"""

Kind = Literal["file", "folder", "link", "special"]  # links are not followed

Guard = Callable[[tuple[str, ...], bool], bool]
"""Returns whether one of the names of a path below the root is refused; the flag says that the path is a folder."""

Refused = frozenset[Kind]
NEITHER: Final[Refused] = frozenset()
BOTH: Final[Refused] = frozenset({"file", "folder"})

FileState = tuple[int, ...]
"""What distinguishes two states of a file, for comparison."""


def state_of(found: os.stat_result) -> FileState:
    """Return the state of a file: its identity, size and times."""
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def is_settled(found: os.stat_result) -> bool:
    """Return whether the last change is old enough that the next one will show in the times."""
    return time_ns() - found.st_ctime_ns > SETTLED_NS


def is_inside(place: str, folder: str) -> bool:
    """Return whether a path is a folder or lies beneath it, after all links are resolved.

    Use it only to choose places. They may change afterwards, so files are opened through a `Root`.
    """
    real = os.path.realpath(folder)
    return os.path.commonpath((real, os.path.realpath(place))) == real


class SandboxError(Exception):
    """The path was not opened."""


class Missing(SandboxError):
    """Nothing is there."""


class Looping(Missing):
    """The path leads through too many links."""


class Outside(SandboxError):
    """The path leaves the root."""


class Forbidden(SandboxError):
    """The guard refuses one of the names."""


class Foreign(SandboxError):
    """The folder belongs to another user."""


class Special(SandboxError):
    """It is neither a regular file nor a folder."""


class Unreadable(SandboxError):
    """The system refused; `errno` says why."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.errno = number


class Handle:
    """A file descriptor that a `with` block closes."""

    fd: int = -1

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Opened(Handle):
    """An open regular file or folder. `real` is its path below the root after links were followed.

    It is a source of bytes: `size`, `read`, `has_moved`, `close`.
    """

    def __init__(self, fd: int, real: tuple[str, ...]) -> None:
        """Take over the descriptor; close it and raise `Special` if it is neither a file nor a folder."""
        self.fd = fd
        self.real = real
        try:
            self.stat = found = os.fstat(fd)
            self.size = found.st_size
            kind = found.st_mode & KIND_BITS
            self.is_folder = kind == FOLDER_BITS
            if kind not in KINDS_SERVED:
                raise Special
        except BaseException:
            self.close()
            raise

    def read(self, start: int, length: int) -> bytes:
        """Read `length` bytes from `start`; fewer only where the file ends."""
        try:
            parts: list[bytes] = []
            if start == 0 < length <= SPARE:  # most reads
                part = os.pread(self.fd, length, 0)
                if len(part) == length or not part:
                    return part
                parts.append(part)
                start = len(part)
                length -= start
            left = min(length, sys.maxsize - start)
            while left > 0:
                # `pread` allocates what is requested, so request no more than the file can have.
                asked = left if left <= SPARE else min(left, max(self.stat.st_size - start, SPARE))
                part = os.pread(self.fd, asked, start)
                if len(part) == left and not parts:
                    return part
                if not part:
                    break
                parts.append(part)
                start += len(part)
                left -= len(part)
            return b"".join(parts)
        except OSError as error:
            failure = _failure(error)
        raise failure

    def has_moved(self) -> bool:
        """Return whether the file changed since it was opened."""
        before, now = self.stat, os.fstat(self.fd)
        return (
            before.st_ctime_ns != now.st_ctime_ns
            or before.st_mtime_ns != now.st_mtime_ns
            or before.st_size != now.st_size
        )

    def scan(self) -> list[tuple[str, Kind]]:
        """Return the names in this folder with their kinds, unsorted."""
        try:
            with os.scandir(self.fd) as entries:
                return [(entry.name, _kind(entry)) for entry in entries]
        except OSError as error:
            failure = _failure(error)
        raise failure

    def stat_child(self, name: str) -> os.stat_result:
        """Return the state of a name in this folder; for a link, that of the link itself."""
        _checked((name,))
        try:
            return os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except (OSError, UnicodeEncodeError) as error:
            failure = _failure(error)
        raise failure


class CheckedPath:
    """A path below a root, checked and encoded for the system; `name` if it has only one segment."""

    __slots__ = ("name", "path", "segments")

    def __init__(self, segments: tuple[str, ...]) -> None:
        self.segments = segments
        self.path = _checked(segments).encode(*ENCODING)
        self.name = segments[0] if len(segments) == 1 else ""


class Root(Handle):
    """A folder that is opened once, and again only if it was deleted; links in its own path are resolved once.

    `path` is its real path, for logs and aliases only. With `absolute_links`, an absolute link whose target begins
    with that path is walked from the root. `use_openat2` is True to use it from the first open, False for never, None
    for after enough opens to pay for loading it. `fast` is that call while it is used; otherwise each path is walked.
    `guard` refuses names; see `Guard`.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        absolute_links: bool = False,
        use_openat2: bool | None = None,
        guard: Guard | None = None,
        handle: int | None = None,
    ) -> None:
        """Open the folder; or take over an open handle of it, with `folder` as its real path."""
        if os.open not in os.supports_dir_fd:
            raise OSError(errno.ENOTSUP, "Folder handles need a POSIX system")
        self.path = os.path.realpath(folder, strict=True) if handle is None else os.fspath(folder)
        self.fd = os.open(self.path, syscalls.PASSING) if handle is None else handle
        self._anchor = self.path.rstrip("/") + "/" if absolute_links else None
        self.fast = syscalls.find() if use_openat2 else None
        self._walks_left = WALKS_FIRST if use_openat2 is None else 0
        # Whether names are found in other spellings. On macOS that includes two spellings of one accent.
        self._folds = True if sys.platform == "darwin" else None
        self._is_below = handle is not None
        self.renewals = 0  # how often the folder was deleted and opened again
        self._guard = guard
        self._judge = None if guard is None else _cached(functools.partial(_judge, guard))

    def guard_links(self, guard: Guard) -> None:
        """Let a guard refuse names that links lead to. The caller itself judges the names that it requests."""
        self._guard = guard

    def __del__(self) -> None:
        """Close it with the last reference: threads may still use a root that was replaced."""
        self.close()

    def open(self, segments: Sequence[str]) -> Opened:
        """Open a regular file or a folder below the root, or the root itself; raise `SandboxError`."""
        if self._judge is None:
            return self._open(segments)
        refused = self._judge(tuple(segments))
        if not refused:
            return self._open(segments)
        if refused != BOTH:  # the guard may refuse only files of this name, or only folders
            try:
                return _admitted(self._open(segments), refused)
            except SandboxError:
                pass
        raise Forbidden

    def exists(self, segments: Sequence[str]) -> bool:
        """Return whether a path exists; True if that cannot be known."""
        try:
            self.open(segments).close()
        except SandboxError as error:
            return not isinstance(error, Missing)
        return True

    def _open(self, segments: Sequence[str]) -> Opened:
        if not segments:
            self.renew()  # a deleted folder can still be opened, and is empty
        try:
            return self._open_once(segments)
        except Missing:
            if not self.renew():
                raise
        return self._open_once(segments)

    def reopen(self, known: "CheckedPath") -> Opened:
        """Open a path again that had no links before; the guard is not asked.

        A single name needs no openat2: O_NOFOLLOW refuses a link, and nothing else leads out of a folder.
        """
        if self.fast is None or self._folds is not False or self._judge is not None:
            return self.open(known.segments)
        try:
            name = known.name
            handle = os.open(name, syscalls.CONTENT, dir_fd=self.fd) if name else self.fast(self.fd, known.path)
        except OSError:
            handle = -1
        return Opened(handle, known.segments) if handle >= 0 else self.open(known.segments)

    def _open_once(self, segments: Sequence[str]) -> Opened:
        path = _checked(segments)
        try:
            opened = self._open_fast(path, segments) or self._walk().open(segments)
            if self._folds is None:
                self._folds = self._finds_swapped(segments)
            if not self._folds or syscalls.is_named(opened.fd, self.fd, path):
                return opened
            opened.close()
            return self._walk(spelled=True).open(segments)
        except (OSError, UnicodeEncodeError) as error:
            failure = _failure(error)
        raise failure

    def renew(self) -> bool:
        """Open this root's path again if the folder was deleted; return whether there is a new folder.

        So a folder that disappears with one branch of a repository and returns with another is served again. A root
        below another is not opened by its path, which may contain a link by now: its owner opens it again.
        """
        if self._is_below:
            return False
        try:
            before = os.fstat(self.fd)
            if before.st_nlink:
                return False
            fresh = os.open(self.path, syscalls.PASSING)
        except OSError:
            return False
        try:
            is_ours = belongs_here(os.fstat(fresh), before.st_uid)
            if is_ours:
                self.renewals += 1
                os.dup2(fresh, self.fd, inheritable=False)  # atomic for other threads
        finally:
            os.close(fresh)
        return is_ours

    def _walk(self, *, spelled: bool = False) -> "Walk":
        return Walk(self.fd, self._anchor, spelled=spelled, guard=self._guard)

    def below(self, segments: Sequence[str]) -> "Root":
        """Open a folder beneath as another root: exactly the folder that was checked, with the same guard.

        Raise `Foreign` if it belongs neither to this user, nor to root, nor to the owner of this folder.
        """
        with self.open(segments) as opened:
            if not opened.is_folder:
                raise Missing
            if not belongs_here(opened.stat, os.fstat(self.fd).st_uid):
                raise Foreign
            guard, above = self._guard, opened.real
            return Root(
                os.path.join(self.path, *above),
                absolute_links=self._anchor is not None,
                use_openat2=True if self.fast is not None else None,
                guard=None if guard is None else lambda names, is_folder: guard((*above, *names), is_folder),
                handle=os.dup(opened.fd),
            )

    def _open_fast(self, path: str, segments: Sequence[str]) -> Opened | None:
        """Open in one system call; return None if the walk must decide what is wrong.

        Unlike the walk, this opens a FIFO or a device before it knows what it is. That does not block, reads nothing
        and takes no terminal. To ask first would nearly double the cost: a question by path could leave the root, and
        one by O_PATH needs a second openat2 or a path through /proc.
        """
        if self._walks_left > 0:
            self._walks_left -= 1
            if self._walks_left <= 0:  # two threads may both get here; `find` is cached
                self.fast = syscalls.find()
        if self.fast is None:
            return None
        handle = self.fast(self.fd, path.encode(*ENCODING) or b".")
        if handle >= 0:
            return Opened(handle, tuple(segments))
        if handle in (-errno.ENOENT, -errno.ENOTDIR):  # a link in the path would give ELOOP
            raise Missing
        return None

    def _finds_swapped(self, segments: Sequence[str]) -> bool | None:
        """Return whether an existing path is also found with its case swapped; None if it has no case."""
        swapped = [os.fsdecode(os.fsencode(name).swapcase()) for name in segments]
        if swapped == list(segments):
            return None
        try:
            Walk(self.fd, self._anchor).open(swapped).close()
        except (OSError, SandboxError):
            return False
        return True


class Walk:
    """One walk from the root to a file, segment by segment; the system itself follows no link.

    `folders` holds the handles from the root to the current folder: `..` in a link returns to a folder that was
    passed, even if it was moved meanwhile.
    """

    def __init__(self, root: int, anchor: str | None, *, spelled: bool = False, guard: Guard | None = None) -> None:
        self.folders = [root]
        self.names: list[str] = []
        self.ahead: list[str] = []  # the next one last
        self.links = 0
        self.anchor = anchor
        self.spelled = spelled
        self.guard = guard

    def open(self, segments: Sequence[str]) -> Opened:
        """Open the last segment, and close every folder that was passed."""
        self.ahead.extend(reversed(segments))
        try:
            while self.ahead:
                name = self.ahead.pop()
                if name == "..":
                    self._climb(1)
                elif name not in ("", "."):  # a link may say `a//b/.`
                    refused = self._refused(name)
                    found = self._step_to(name, refused)
                    if found is None:
                        raise Outside if self._would_leave() else Missing
                    if isinstance(found, str):
                        self._follow(found)
                    elif self.ahead:
                        self.folders.append(found)
                        self.names.append(name)
                    else:
                        return self._end(found, name, refused)
            return Opened(os.open(".", syscalls.LISTING, dir_fd=self.folders[-1]), tuple(self.names))
        finally:
            self._climb(len(self.names))

    def _refused(self, name: str) -> Refused:
        """Return the kinds that must not have a name that a link led to; raise if that is every kind.

        The root judges requested names before anything is opened.
        """
        if self.guard is None or not self.links:
            return NEITHER
        refused = _judge(self.guard, (*self.names, name))
        if refused == BOTH or (self.ahead and "folder" in refused):
            raise Forbidden
        return NEITHER if self.ahead else refused

    def _step_to(self, name: str, refused: Refused) -> int | str | None:
        """Open a name. If the guard refuses some kinds of it, every failure is `Forbidden`, which reveals nothing."""
        try:
            found = self._step(name)
        except OSError:
            if refused:
                raise Forbidden from None
            raise
        if refused and not isinstance(found, int):
            raise Forbidden
        return found

    def _end(self, found: int, name: str, refused: Refused) -> Opened:
        try:
            return _admitted(Opened(found, (*self.names, name)), refused)
        except Special:
            if refused:
                raise Forbidden from None
            raise

    def _step(self, name: str) -> int | str | None:
        if self.spelled and name not in syscalls.names(self.folders[-1]):
            return None
        return syscalls.step(self.folders[-1], name, last=not self.ahead)

    def _climb(self, steps: int) -> None:
        if steps > len(self.names):
            raise Outside
        for _ in range(steps):
            self.names.pop()
            os.close(self.folders.pop())

    def _would_leave(self) -> bool:
        """Return whether the rest of the path would step above the root if the missing segment were a folder."""
        steps = (-1 if name == ".." else int(name not in ("", ".")) for name in reversed(self.ahead))
        return min(itertools.accumulate(steps, initial=len(self.names) + 1)) < 0

    def _follow(self, target: str) -> None:
        if target.startswith("/"):
            if self.anchor is None or not f"{target}/".startswith(self.anchor):
                raise Outside
            self._climb(len(self.names))
            target = target[len(self.anchor) :]
        self.links += 1
        if self.links > MAX_LINKS:
            raise Looping
        self.ahead.extend(reversed(target.split("/")))


def _judge(guard: Guard, segments: tuple[str, ...]) -> Refused:
    """Return which kinds the guard refuses under this path."""
    if not segments:
        return NEITHER
    kinds: tuple[Kind, Kind] = ("file", "folder")
    # One shared empty set for most paths: a new one would take more memory than the path.
    return frozenset(kind for kind in kinds if guard(segments, kind == "folder")) or NEITHER


def _cached(judge: Callable[[tuple[str, ...]], Refused]) -> Callable[[tuple[str, ...]], Refused]:
    """Return the same function with a cache for all but long paths."""
    cached = functools.lru_cache(maxsize=4_096)(judge)

    def judge_or_recall(segments: tuple[str, ...]) -> Refused:
        length = sum(map(len, segments)) + len(segments)
        return (cached if length <= MAX_REMEMBERED_LENGTH else judge)(segments)

    return judge_or_recall


def _admitted(opened: Opened, refused: Refused) -> Opened:
    """Return an opened file or folder; close it and raise `Forbidden` if its kind is refused."""
    if ("folder" if opened.is_folder else "file") not in refused:
        return opened
    opened.close()
    raise Forbidden


def belongs_here(found: os.stat_result, *others: int) -> bool:
    """Return whether a file belongs to this user, to root, or to one of the other users."""
    return not hasattr(os, "getuid") or found.st_uid in (0, os.getuid(), *others)


def _checked(segments: Sequence[str]) -> str:
    """Return the names joined to a path; raise before an invalid name reaches the system."""
    path = "/".join(segments)
    if ".." in segments or "\\" in path or path.count("/") >= (len(segments) or 1):
        raise Outside
    if "" in segments or "." in segments or "\0" in path:
        raise ValueError("A segment is not empty, not `.` and without NUL")
    return path


def _failure(error: OSError | UnicodeEncodeError) -> SandboxError:
    """Return the error for a refusal; raise it outside the `except`, so that it has no context."""
    if isinstance(error, UnicodeEncodeError) or error.errno in GONE:
        return Missing()
    if error.errno == errno.ENXIO:  # a socket
        return Special()
    return Unreadable(error.errno or 0)


def _kind(entry: os.DirEntry[str]) -> Kind:
    if entry.is_file(follow_symlinks=False):
        return "file"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "link" if entry.is_symlink() else "special"
