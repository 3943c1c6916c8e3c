"""The place of a store, and the file that is there now.

The folder is opened by the rules for providers' data (`files.data_folder`). The store's files are never opened here:
closing a handle of a file would release the locks that SQLite holds on it in this process. They are inspected through
the handle of their folder, without following links.
"""

import os
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from carrel.core.provider import Project
from carrel.core.record import Value
from carrel.files.atomic import keep_out_of_git
from carrel.files.data_folder import DataFolder
from carrel.files.sandbox import Forbidden, Foreign, Missing, Outside, Root, SandboxError, Unreadable
from carrel.files.secrets import DenyList
from carrel.providers.scopes.scope_errors import StoreFault

OWN_FOLDER: Final = ".carrel"
DEFAULT: Final = f"{OWN_FOLDER}/scopes.db"
BESIDE: Final = ("-wal", "-shm", "-journal")
"""Suffixes of the files that SQLite keeps beside a database."""

Identity = tuple[int, ...]
"""Device and inode, and for a frozen file also size and time. Another file under the name is another store."""

_NAME_IT: Final = "To use it anyway, name it in `[scopes] db` of your own settings, or with --db"


class StoreFile(Value, frozen=True):
    """The file of a store. A frozen one stands in a folder that cannot be written, and has no write-ahead log."""

    path: str
    identity: Identity
    is_frozen: bool


class Location:
    """The place of a store. `path` is for messages on this machine. Safe to use from several threads."""

    def __init__(self, project: Project, place: str, *, is_named: bool) -> None:
        """Take a place relative to the project; links are followed only where the user named it."""
        path = os.path.join(project.root, os.path.expanduser(place))
        path = os.path.realpath(path) if is_named else os.path.normpath(path)
        folder, self.name = os.path.split(path)
        own = os.path.relpath(folder, project.root).split(os.sep)[:1]
        self._folder = DataFolder(project, folder, is_named=is_named, own=(OWN_FOLDER,) if own == [OWN_FOLDER] else ())
        self._is_denied = not is_named and DenyList(project.deny).covers_path((self.name,), False)
        self.path = path
        self._held: Root | None = None
        self._held_identity: Identity | None = None
        self._lock = threading.Lock()

    def identity(self) -> Identity | None:
        """Return which file is there now, or None. Raise `StoreFault` for something that cannot be a store."""
        with self._lock:
            folder = self._reach()
            found = None if folder is None else self._describe(folder, self.name)
            return None if found is None else (found.st_dev, found.st_ino)

    def look(self) -> StoreFile | None:
        """Return the file to open, or None, after a check of all files that SQLite would open with it."""
        with self._lock:
            folder = self._reach()
            found = None if folder is None else self._describe(folder, self.name)
            if folder is None or found is None:
                return None
            beside = [self._describe(folder, self.name + suffix) for suffix in BESIDE]
            journal, log = beside[-1], beside[0]
            if journal is not None and journal.st_size:
                # SQLite would roll it back, and delete the file that it names.
                raise _fault(f"{self.path}-journal", "was left by another program", "Open the store with that again")
            can_write = os.access(".", os.W_OK, dir_fd=folder.fd, effective_ids=os.access in os.supports_effective_ids)
            is_frozen = not can_write and (log is None or log.st_size == 0)
            # SQLite does not notice changes of a frozen file: by its size and time a changed one is another store.
            change = (found.st_size, found.st_mtime_ns) if is_frozen else ()
            return StoreFile(os.path.join(folder.path, self.name), (found.st_dev, found.st_ino, *change), is_frozen)

    def open_folder(self) -> Root:
        """Open the folder."""
        with self._refusing("opened"):
            return self._folder.open()

    def make(self) -> Root:
        """Open the folder, or make it; Carrel's own folder is kept out of git."""
        with self._refusing("written"):
            folder = self._folder.make()
        if os.path.basename(self._folder.path) == OWN_FOLDER:
            keep_out_of_git(folder.fd)
        return folder

    def close(self) -> None:
        """Close the folder; the next use opens it again."""
        with self._lock:
            self._close_folder()

    def _reach(self) -> Root | None:
        """Return the folder at the path now, or None. A folder that was replaced is opened and checked again."""
        try:
            now = os.stat(self._folder.path)
        except OSError:
            now = None
        if self._held is not None and now is not None and self._held_identity == (now.st_dev, now.st_ino):
            return self._held
        self._close_folder()
        try:
            with self._refusing("opened"):
                self._held = self._folder.open()
        except (Missing, FileNotFoundError, NotADirectoryError):
            return None
        held = os.fstat(self._held.fd)
        self._held_identity = held.st_dev, held.st_ino
        return self._held

    @contextmanager
    def _refusing(self, done: str) -> Iterator[None]:
        """Turn errors into `StoreFault`, except that a folder to be opened is missing."""
        if self._is_denied:
            raise self._refusal(Forbidden())
        try:
            yield
        except SandboxError as error:
            if isinstance(error, Missing) and done == "opened":
                raise
            raise self._refusal(error) from None
        except (FileNotFoundError, NotADirectoryError):
            if done == "opened":
                raise
            raise StoreFault(f"{self._folder.path} cannot be written: it is not a folder") from None
        except OSError as error:
            raise StoreFault(f"{self._folder.path} cannot be {done}: {error.strerror}") from None

    def _close_folder(self) -> None:
        held, self._held, self._held_identity = self._held, None, None
        if held is not None:
            held.close()

    def _describe(self, folder: Root, name: str) -> os.stat_result | None:
        """Return the status of a regular file, or None. Raise `StoreFault` for anything else of that name."""
        try:
            found = os.stat(name, dir_fd=folder.fd, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreFault(f"{self.path} cannot be opened: {error.strerror}") from None
        if stat.S_ISREG(found.st_mode):
            return found
        place = os.path.join(self._folder.path, name)
        if stat.S_ISLNK(found.st_mode):
            raise _fault(place, "is a link and is not followed")
        raise _fault(place, "is not a regular file", "Move it away")

    def _refusal(self, error: SandboxError) -> StoreFault:
        if isinstance(error, Outside):
            return _fault(self._folder.path, "leads out of the project and is not followed")
        if isinstance(error, Foreign):
            return _fault(self._folder.path, "belongs to another user")
        if isinstance(error, Forbidden):
            return _fault(self.path, "has a name that is never opened")
        if isinstance(error, Unreadable):
            return StoreFault(f"{self.path} cannot be opened: {os.strerror(error.errno)}")
        return StoreFault(f"{self._folder.path} is not a folder")


def _fault(place: str, why: str, advice: str = _NAME_IT) -> StoreFault:
    return StoreFault(f"{place} {why}. {advice}", f"The store is not read: {os.path.basename(place)} {why}")


def named(path: str) -> Location:
    """Return the location for a path that the user gave."""
    return Location(Project(os.getcwd(), {}), path, is_named=True)


def open_descriptors(identity: Identity) -> Sequence[int] | None:
    """Return the open descriptors of a file in this process; None if the system does not list them."""
    try:
        numbers = [int(name) for name in os.listdir("/dev/fd")]
    except (OSError, ValueError):
        return None
    held = []
    for number in numbers:
        try:
            found = os.fstat(number)
        except OSError:  # the descriptor of the listing itself, closed by now
            continue
        if (found.st_dev, found.st_ino) == identity[:2]:
            held.append(number)
    return held
