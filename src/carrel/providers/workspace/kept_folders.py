"""A cache of the folders that a list has read, valid while nothing in them changes.

A kept folder is used again only if all of this is true:

- Linux has reported no change in it since before it was read: of a name, a size, a time, an ignore file. A change of an
  ignore file, or of a folder's name, drops every folder.
- When it is opened again, it is the same folder with the same times, and so is its ignore file. The root is opened for
  each list, others once a second. So changes that are not reported, such as a mount, are found, and drop every folder.
- The rules of the root, and the hidden files that git tracks, are the same.

Linux reports every change only for file systems of this machine, and only for the path that is watched. So nothing is
kept on other file systems, for folders that contain links, for folders and files with a second name, or on other
systems than Linux.
"""

import os
import re
import sys
import threading
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Final

from carrel.core.limits import LIST_TTL_MS
from carrel.core.model import Resource
from carrel.files.gitignore import Chain
from carrel.files.sandbox import CheckedPath, FileState, Opened, Root, SandboxError, state_of
from carrel.providers.workspace.ignore_rules import IGNORE_FILE, Segments
from carrel.providers.workspace.policy import FolderRules
from carrel.providers.workspace.tracked_files import Hidden

if TYPE_CHECKING:
    from carrel.providers.workspace.inotify import Inotify

MAX_ENTRIES: Final = 4_096
"""Maximum number of kept files and folders in one root, at some 600 bytes each."""
MAX_FOLDERS: Final = 1_024
"""Maximum number of kept folders. The system needs about 1 KB for each, and has a limit for all programs of a user."""
KEPT_S: Final = 30.0
"""How long a folder is kept at most: a change through a memory map is not reported."""

CHECKED_S: Final = LIST_TTL_MS / 1_000
"""How long a folder, except the root, is used without opening it again: as long as a client may keep a list. Only a
mount over it is not reported."""

REPORTING: Final = frozenset("ext2 ext3 ext4 xfs btrfs zfs f2fs bcachefs tmpfs ramfs overlay".split())
"""File systems that only this machine changes."""

_FIRST_KEPT: Final = 2
_NOWHERE: Final = ("",)
"""A path that no folder can have."""

_MOUNTS: Final = "/proc/self/mountinfo"

Watched = tuple[int, FileState]
"""The number of changes when a folder began to be watched, and the state of its ignore file, if it has one."""
Below = tuple[FolderRules, str, str]
"""The rules of a folder, the name of a folder in it, and the URI of that folder with a closing `/`."""


class Kept:
    """One folder: its rules, its listed files, its names, and the folders in it."""

    __slots__ = ("below", "checked", "ignore_state", "names", "path", "resources", "rules", "state", "until")

    def __init__(
        self, rules: FolderRules, resources: Sequence[Resource], names: list[tuple[str, bool]], below: Sequence[Below]
    ) -> None:
        self.rules = rules
        self.resources = resources
        self.names = names
        self.below = below
        self.path = CheckedPath(rules.segments)
        self.checked = self.until = 0.0
        self.state: FileState = ()
        self.ignore_state: FileState = ()


class KeptFolders:
    """The kept folders of one root. The first list keeps nothing: many servers list only once."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._lock = threading.RLock()
        self._folders: dict[Segments, Kept] = {}
        self._entries = 0
        self._rules: tuple[Chain, Hidden | None] = ((), None)
        self._is_able: bool | None = None
        self._system: Inotify | None = None
        self._numbers: dict[int, Segments] = {}
        self._watched: set[Segments] = set()
        self._walks = 0
        self._changes = 0
        """Number of noticed changes; a folder that was read before the latest one is not kept."""
        self._epoch = 0
        """How often everything was dropped; a walk that began before keeps nothing."""

    def compare(self, rules: Chain, tracked: Hidden | None) -> None:
        """Drop the folders that changed; all of them if the rules of the root or the tracked hidden files changed."""
        with self._lock:
            self._take_changes()
            if self._rules != (rules, tracked):
                self._rules = (rules, tracked)
                self._drop_all()

    def begin(self) -> int:
        """Begin a walk; return its epoch for `watch` and `keep`."""
        with self._lock:
            self._walks += 1
            return self._epoch

    def find(self, folder: Segments) -> Kept | None:
        """Return a folder if nothing in it had changed when `compare` was called."""
        kept, now = self._folders.get(folder), monotonic()
        if kept is None or now > kept.until:
            return None
        if folder and now < kept.checked + CHECKED_S:
            return kept
        if self._is_same(kept, folder):
            kept.checked = now
            return kept
        with self._lock:
            if self._folders.get(folder) is kept:  # the folders below it, and their rules, may have changed too
                self._drop_all()
        return None

    def _is_same(self, kept: Kept, folder: Segments) -> bool:
        try:
            with self._root.reopen(kept.path) as opened:
                is_same = opened.real == folder and state_of(opened.stat) == kept.state
                return is_same and (not kept.ignore_state or _ignore_state(opened) == kept.ignore_state)
        except SandboxError:
            return False

    def watch(self, opened: Opened, folder: Segments, epoch: int) -> Watched | None:
        """Watch an open folder; return the value for `keep`, or None if the folder cannot be kept.

        Call it before anything in the folder is read, including its ignore file. Its rules depend on the folders above
        it, so these must be watched as well.
        """
        with self._lock:
            is_below = not folder or folder[:-1] in self._watched
            if self._walks < _FIRST_KEPT or epoch != self._epoch or not is_below or not self._can_keep(opened):
                return None
            from carrel.providers.workspace.inotify import Inotify  # the first list keeps nothing

            try:
                self._system = system = self._system or Inotify()
                number = system.add(f"/proc/self/fd/{opened.fd}/.")
            except OSError:  # this user watches too many folders
                self._is_able = False
                self._drop_all()
                return None
            if number is None:
                return None
            if self._numbers.setdefault(number, folder) != folder:  # one folder is mounted in two places
                return None
            self._watched.add(folder)
            return self._changes, _ignore_state(opened) if folder else ()  # `compare` compares those of the root

    def keep(self, opened: Opened, kept: Kept, epoch: int, watched: Watched) -> None:
        """Keep a folder, unless anything changed since `watch`."""
        size = len(kept.resources) + len(kept.names)
        changes, kept.ignore_state = watched
        kept.state, kept.checked = state_of(opened.stat), monotonic()
        kept.until = kept.checked + KEPT_S
        with self._lock:
            self._take_changes()
            self._drop(kept.rules.segments)
            is_unchanged = (epoch, changes) == (self._epoch, self._changes)
            if is_unchanged and self._entries + size <= MAX_ENTRIES:
                self._folders[kept.rules.segments] = kept
                self._entries += size

    def close(self) -> None:
        """Drop all folders, and keep none from now on."""
        with self._lock:
            self._is_able = False
            self._drop_all()

    def _can_keep(self, opened: Opened) -> bool:
        if self._is_able is None:
            self._is_able = sys.platform == "linux" and file_system_of(self._root.path) in REPORTING
        if not self._is_able or len(self._watched) >= MAX_FOLDERS:
            return False
        return os.fstat(self._root.fd).st_dev == opened.stat.st_dev

    def _take_changes(self) -> None:
        """Drop the folders in which anything changed."""
        system = self._system
        if system is None:
            return
        from carrel.providers.workspace.inotify import Lost  # loaded by `watch`

        try:
            while self._system is system and (events := system.read(0)):
                self._changes += 1
                if any(event.is_folder or event.name == IGNORE_FILE for event in events):
                    self._drop_all()
                for event in events:
                    self._drop(self._numbers.get(event.folder, _NOWHERE))
        except (Lost, OSError):
            self._drop_all()

    def _drop(self, folder: Segments) -> None:
        kept = self._folders.pop(folder, None)
        if kept is not None:
            self._entries -= len(kept.resources) + len(kept.names)

    def _drop_all(self) -> None:
        """Drop every folder and stop watching: a folder may have been renamed."""
        self._epoch += 1
        self._folders = {}
        self._entries = 0
        self._numbers = {}
        self._watched = set()
        system, self._system = self._system, None
        if system is not None:
            system.close()


def _ignore_state(opened: Opened) -> FileState:
    """Return the state of a folder's ignore file; empty if it has none."""
    try:
        return state_of(opened.stat_child(IGNORE_FILE))
    except SandboxError:
        return ()


def file_system_of(path: str) -> str:
    """Return the type of the file system of a path; empty if it cannot be known."""
    best, kind = "", ""
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as mounts:
            for line in mounts:
                mounted, _, described = line.partition(" - ")
                place = mounted.split(" ")[4]
                if "\\" in place:
                    place = re.sub(r"\\([0-7]{3})", lambda escaped: chr(int(escaped[1], 8)), place)
                inside = place.rstrip("/") + "/"
                # A later mount covers an earlier one.
                if f"{path}/".startswith(inside) and len(inside) >= len(best):
                    best, kind = inside, described.split(" ")[0]
    except (OSError, IndexError):
        return ""
    return kind
