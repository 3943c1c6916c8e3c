"""Open what lies beneath a folder handle, and nothing else, ever.

A `Root` holds one open folder. `Root.open(segments)` gives an `Opened`: a regular file or a folder,
already open, so what was checked is what is read. Links are followed as long as every step stays
inside. Nothing is opened by a path string, and no path is resolved first and compared then; `is_inside`,
which does compare, opens nothing.

SandboxError             carries no path and no system text
├── Missing              nothing there; also a dangling link, a file used as a folder
│   └── Looping          links that lead round and round
├── Outside              a step above the root, or an absolute link, whether or not its target exists
├── Forbidden            a name on the way is one that the guard refuses, whether or not anything is there
├── Foreign              a folder of another user
├── Special              a FIFO, a socket, a device: nothing was read
└── Unreadable           the system refused; `errno` says why

A `Root` may have a guard, which refuses names: those asked for, and those that links lead to. Everything
else about who may read what, and which error a client sees, is left to the providers. Many threads may
use one Root, and close it when none does; an Opened belongs to one thread. On a file system that ignores
case a name not spelled as on disk is missing; a mount inside the root is taken to be like the root.
"""

import errno
import functools
import itertools
import os
import stat
import sys
from collections.abc import Callable, Sequence
from typing import Final, Literal, Self

from carrel.core.limits import MAX_REMEMBERED_LENGTH
from carrel.files import syscalls

MAX_LINKS: Final = 40  # as the Linux kernel
WALKS_FIRST: Final = 300  # loading openat2 takes 2 to 3 ms and saves 3 to 17 µs an open
KIND_BITS: Final = 0o170000  # of a mode, as `stat.S_IFMT` takes them
FOLDER_BITS: Final = stat.S_IFDIR
KINDS_SERVED: Final = frozenset({stat.S_IFREG, FOLDER_BITS})
SPARE: Final = 65_536  # bytes that a read asks for where the file had none when it was opened
GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP})
ENCODING: Final = (sys.getfilesystemencoding(), sys.getfilesystemencodeerrors())

Kind = Literal["file", "folder", "link", "special"]  # a link is a link, wherever it leads

Guard = Callable[[tuple[str, ...], bool], bool]
"""Return whether a path below the root is refused by one of its names; the flag says that the last is a folder's."""

Refused = frozenset[Kind]
NEITHER: Final[Refused] = frozenset()
BOTH: Final[Refused] = frozenset({"file", "folder"})


def is_inside(place: str, folder: str) -> bool:
    """Tell whether a place is a folder or lies beneath it, with all links followed; names are whole, as on disk.

    For choosing places: they may change afterwards, so what is read is opened through a `Root`.
    """
    real = os.path.realpath(folder)
    return os.path.commonpath((real, os.path.realpath(place))) == real


class SandboxError(Exception):
    """What was asked for was not opened."""


class Missing(SandboxError):
    """Nothing is there."""


class Looping(Missing):
    """More links were met than any honest way has."""


class Outside(SandboxError):
    """It would leave the root."""


class Forbidden(SandboxError):
    """The guard refuses one of its names."""


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
    """Something open, closed on every way out."""

    fd: int = -1

    def close(self) -> None:
        """Give the handle back; a second time does nothing."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Opened(Handle):
    """A regular file or a folder, open. `real` is where it lies below the root, links followed.

    It is a source of bytes: `size`, `read`, `has_moved`, `close`.
    """

    def __init__(self, fd: int, real: tuple[str, ...]) -> None:
        """Take the handle over: it is closed at once if it is nothing we serve."""
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
            if start == 0 < length <= SPARE:  # what most reads are
                part = os.pread(self.fd, length, 0)
                if len(part) == length or not part:
                    return part
                parts.append(part)
                start = len(part)
                length -= start
            left = min(length, sys.maxsize - start)
            while left > 0:
                # A length is a wish: memory is taken for what the file can have, not for what was asked.
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
        """List this folder, unsorted; kinds come with the names, so nothing more is asked."""
        try:
            with os.scandir(self.fd) as entries:
                return [(entry.name, _kind(entry)) for entry in entries]
        except OSError as error:
            failure = _failure(error)
        raise failure

    def stat_child(self, name: str) -> os.stat_result:
        """Describe one name in this folder; of a link, the link itself."""
        _checked((name,))
        try:
            return os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except (OSError, UnicodeEncodeError) as error:
            failure = _failure(error)
        raise failure


class Way:
    """Names below a root that are known to be names, as the system takes them; `name` if there is only one."""

    __slots__ = ("name", "path", "segments")

    def __init__(self, segments: tuple[str, ...]) -> None:
        self.segments = segments
        self.path = _checked(segments).encode(*ENCODING)
        self.name = segments[0] if len(segments) == 1 else ""


class Root(Handle):
    """A folder, opened once, and again only if it was deleted; a link in its own path is resolved once.

    `path` is its real path, for logs and aliases only. With `absolute_links` an absolute link whose
    target begins with that path is walked from the root. `use_openat2`: True from the first open,
    False never, None once there were enough opens to pay for loading it. `fast` is that call, where
    it is in use; else the walk serves. `guard` refuses names; see `Guard`.
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
        """Open the folder, or take over a handle of it; `folder` is its real path then."""
        if os.open not in os.supports_dir_fd:
            raise OSError(errno.ENOTSUP, "Folder handles need a POSIX system")
        self.path = os.path.realpath(folder, strict=True) if handle is None else os.fspath(folder)
        self.fd = os.open(self.path, syscalls.PASSING) if handle is None else handle
        self._anchor = self.path.rstrip("/") + "/" if absolute_links else None
        self.fast = syscalls.find() if use_openat2 else None
        self._walks_left = WALKS_FIRST if use_openat2 is None else 0
        # Whether other spellings find a name. macOS takes even two spellings of one accent for one.
        self._folds = True if sys.platform == "darwin" else None
        self._is_below = handle is not None
        self.renewals = 0  # how often the folder was deleted and opened anew
        self._guard = guard
        self._judge = None
        if guard is not None:
            self._judge = _remembering(functools.partial(_judge, guard))

    def guard_links(self, guard: Guard) -> None:
        """Have a guard refuse names that links lead to, from now on. The caller judges those it asks for."""
        self._guard = guard

    def __del__(self) -> None:
        """Close it with its last holder: threads may share a root that nobody gives out any more."""
        self.close()

    def open(self, segments: Sequence[str]) -> Opened:
        """Open a regular file or a folder below the root; without segments, the root itself."""
        if self._judge is None:
            return self._open(segments)
        refused = self._judge(tuple(segments))
        if not refused:
            return self._open(segments)
        if refused != BOTH:  # a name may be refused to files and not to folders, or the other way round
            try:
                return _admitted(self._open(segments), refused)
            except SandboxError:
                pass
        raise Forbidden

    def _open(self, segments: Sequence[str]) -> Opened:
        if not segments:
            self.renew()  # a deleted folder can be opened, and is empty
        try:
            return self._open_once(segments)
        except Missing:
            if not self.renew():
                raise
        return self._open_once(segments)

    def reopen(self, way: "Way") -> Opened:
        """Open a path once more that was opened before, without a link on the way, and is not judged here.

        One name needs no openat2: O_NOFOLLOW refuses a link, and nothing else leads out of a folder.
        """
        if self.fast is None or self._folds is not False or self._judge is not None:
            return self.open(way.segments)
        try:
            name = way.name
            handle = os.open(name, syscalls.CONTENT, dir_fd=self.fd) if name else self.fast(self.fd, way.path)
        except OSError:
            handle = -1
        return Opened(handle, way.segments) if handle >= 0 else self.open(way.segments)

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
        """Take the folder that now has this root's path, if the one that had it was deleted; return whether it was.

        So a folder that goes with one branch of a repository and comes back with another is served again. A root below
        another is not looked for by its path, in which a link may stand by now: whoever opened it opens it anew.
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
                os.dup2(fresh, self.fd, inheritable=False)  # other threads see the old folder or the new one
        finally:
            os.close(fresh)
        return is_ours

    def _walk(self, *, spelled: bool = False) -> "Walk":
        return Walk(self.fd, self._anchor, spelled=spelled, guard=self._guard)

    def below(self, segments: Sequence[str]) -> "Root":
        """Open a folder beneath as a root of its own: the very folder that was checked, with the same guard.

        Raise `Foreign` if it belongs neither to this user, nor to the system's administrator, nor to the
        owner of this root.
        """
        with self.open(segments) as opened:
            if not opened.is_folder:
                raise Missing
            if not belongs_here(opened.stat, os.fstat(self.fd).st_uid):
                raise Foreign
            guard, way = self._guard, opened.real
            return Root(
                os.path.join(self.path, *way),
                absolute_links=self._anchor is not None,
                use_openat2=True if self.fast is not None else None,
                guard=None if guard is None else lambda names, is_folder: guard((*way, *names), is_folder),
                handle=os.dup(opened.fd),
            )

    def _open_fast(self, path: str, segments: Sequence[str]) -> Opened | None:
        """Open in one system call, or give None: then the walk decides, and says what is wrong.

        Unlike the walk this opens a FIFO or a device before it knows it for one. It does not block, reads
        nothing and takes no terminal. To ask first would nearly double the price: a question by path
        could leave the root, one by O_PATH needs a second openat2 or a way through /proc.
        """
        if self._walks_left > 0:
            self._walks_left -= 1
            if self._walks_left <= 0:  # two threads may both come here: `find` remembers
                self.fast = syscalls.find()
        if self.fast is None:
            return None
        handle = self.fast(self.fd, path.encode(*ENCODING) or b".")
        if handle >= 0:
            return Opened(handle, tuple(segments))
        if handle in (-errno.ENOENT, -errno.ENOTDIR):  # and no link was met on the way: that is ELOOP
            raise Missing
        return None

    def _finds_swapped(self, segments: Sequence[str]) -> bool | None:
        """Whether what was found is also found with its case swapped; None if it has no case."""
        swapped = [os.fsdecode(os.fsencode(name).swapcase()) for name in segments]
        if swapped == list(segments):
            return None
        try:
            Walk(self.fd, self._anchor).open(swapped).close()
        except (OSError, SandboxError):
            return False
        return True


class Walk:
    """One way from the root to a file, a segment at a time; the system itself follows no link.

    `folders` holds the handles from the root to here: `..` in a link goes back to a folder that was
    passed, never to wherever that folder's parent may be by now.
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
        """Go all the way, and give back every folder that was passed."""
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
        """Return what may not have a name that a link led to; raise where nothing may.

        Names that were asked for are judged by the root, before anything is opened.
        """
        if self.guard is None or not self.links:
            return NEITHER
        refused = _judge(self.guard, (*self.names, name))
        if refused == BOTH or (self.ahead and "folder" in refused):
            raise Forbidden
        return NEITHER if self.ahead else refused

    def _step_to(self, name: str, refused: Refused) -> int | str | None:
        """Go to a name; where some kinds may not have it, nothing else may be told of it."""
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
        """Whether the rest of a link steps above the root, were the missing segment a folder."""
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
    # One set for most paths: an empty one of its own would take more memory than the path.
    return frozenset(kind for kind in kinds if guard(segments, kind == "folder")) or NEITHER


def _remembering(judge: Callable[[tuple[str, ...]], Refused]) -> Callable[[tuple[str, ...]], Refused]:
    """Return the same with a memory of the latest paths, except long ones."""
    remembered = functools.lru_cache(maxsize=4_096)(judge)

    def judge_or_recall(segments: tuple[str, ...]) -> Refused:
        length = sum(map(len, segments)) + len(segments)
        return (remembered if length <= MAX_REMEMBERED_LENGTH else judge)(segments)

    return judge_or_recall


def _admitted(opened: Opened, refused: Refused) -> Opened:
    """Return what was opened, unless its kind is refused: then close it and raise `Forbidden`."""
    if ("folder" if opened.is_folder else "file") not in refused:
        return opened
    opened.close()
    raise Forbidden


def belongs_here(found: os.stat_result, *others: int) -> bool:
    """Return whether a file belongs to this user, to the system's administrator, or to one of the others."""
    return not hasattr(os, "getuid") or found.st_uid in (0, os.getuid(), *others)


def _checked(segments: Sequence[str]) -> str:
    """Join names to a path; what is no name never reaches the system."""
    path = "/".join(segments)
    if ".." in segments or "\\" in path or path.count("/") >= (len(segments) or 1):
        raise Outside
    if "" in segments or "." in segments or "\0" in path:
        raise ValueError("A segment is not empty, not `.` and without NUL")
    return path


def _failure(error: OSError | UnicodeEncodeError) -> SandboxError:
    """Say what a refusal means; to be raised outside the `except`, so that it carries nothing along."""
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
