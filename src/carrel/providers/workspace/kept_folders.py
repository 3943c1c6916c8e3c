"""Folders that were looked at for a list, kept while nothing in them changes.

A kept folder is used again only if all of this holds:

- Linux reported no change in it since before it was looked at: a name, a size, a time, an ignore file. A change of an
  ignore file, or of a folder's name, drops every folder.
- It is the same folder with the same times when it is opened again, and so is its ignore file: the root each time,
  others once a second. So what is not reported, such as a mount, shows too, and drops every folder.
- The rules of the root and the hidden files that git tracks are the same.

Changes are only reported in full by file systems of this machine, and only under the name that is watched. So nothing
is kept on other file systems, of folders with links, of folders and files that have a second name, and elsewhere than
on Linux.
"""

import os
import re
import sys
import threading
from collections.abc import Sequence
from time import monotonic
from typing import Final

from carrel.core.limits import LIST_TTL_MS
from carrel.core.model import Resource
from carrel.files.gitignore import Chain
from carrel.files.sandbox import Opened, Root, SandboxError, Way
from carrel.providers.workspace.ignore_rules import IGNORE_FILE, Segments
from carrel.providers.workspace.inotify import Inotify, Lost
from carrel.providers.workspace.policy import Ground
from carrel.providers.workspace.tracked_files import Hidden

MAX_ENTRIES: Final = 4_096
"""Files and folders that are kept, of all folders of a root: some 600 bytes each."""
MAX_FOLDERS: Final = 1_024
"""Folders that are kept. The system keeps about 1 KB for each, and has a limit for all programs of a user."""
KEPT_S: Final = 30.0
"""How long a folder is kept at most: a time that changes through a memory map is not reported."""

CHECKED_S: Final = LIST_TTL_MS / 1_000
"""How long a folder, except the root, counts as the one that was looked at: as long as a client may keep a list. All
but a mount over it is reported."""

_REPORTING: Final = frozenset("ext2 ext3 ext4 xfs btrfs zfs f2fs bcachefs tmpfs ramfs overlay".split())
"""File systems that nothing but this machine changes."""

_FIRST_KEPT: Final = 2
_NOWHERE: Final = ("",)
"""No folder's names."""

_MOUNTS: Final = "/proc/self/mountinfo"

_State = tuple[int, ...]
Watched = tuple[int, _State]
"""How many changes were noticed when a folder began to be watched, and the state of its ignore file, if it has one."""
Below = tuple[Ground, str, str]
"""What holds in a folder, the name of a folder in it, and the URI of that with a closing `/`."""


class Kept:
    """One folder: what holds there, its files as they are listed, its names, and the folders to go on with."""

    __slots__ = ("below", "checked", "ground", "names", "resources", "rules", "state", "until", "way")

    def __init__(
        self, ground: Ground, resources: Sequence[Resource], names: list[tuple[str, bool]], below: Sequence[Below]
    ) -> None:
        self.ground = ground
        self.resources = resources
        self.names = names
        self.below = below
        self.way = Way(ground.segments)
        self.checked = self.until = 0.0
        self.state: _State = ()
        self.rules: _State = ()


class KeptFolders:
    """The kept folders of one root. The first list keeps nothing: many servers are asked for one only."""

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
        """How many changes were noticed: what was looked at before the latest one is not kept."""
        self._epoch = 0
        """How often everything was dropped: a walk that began before keeps nothing any more."""

    def compare(self, rules: Chain, tracked: Hidden | None) -> None:
        """Drop what changed until now; everything if other rules hold in the root, or git tracks other hidden files."""
        with self._lock:
            self._take_changes()
            if self._rules != (rules, tracked):
                self._rules = (rules, tracked)
                self._drop_all()

    def begin(self) -> int:
        """Begin a walk; return its epoch, which `watch` and `keep` ask for."""
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
            if self._folders.get(folder) is kept:  # what lies below it, and the rules there, may be others too
                self._drop_all()
        return None

    def _is_same(self, kept: Kept, folder: Segments) -> bool:
        try:
            with self._root.reopen(kept.way) as opened:
                is_same = opened.real == folder and _state_of(opened.stat) == kept.state
                return is_same and (not kept.rules or _state_of_rules(opened) == kept.rules)
        except SandboxError:
            return False

    def watch(self, opened: Opened, folder: Segments, epoch: int) -> Watched | None:
        """Have changes in an open folder reported; return what `keep` is to be given, or None if it is not to be kept.

        To be called before anything in the folder is looked at, its ignore file included. Its rules are made of those
        of the folders above it, so these must be watched as well.
        """
        with self._lock:
            is_below = not folder or folder[:-1] in self._watched
            if self._walks < _FIRST_KEPT or epoch != self._epoch or not is_below or not self._can_keep(opened):
                return None
            try:
                self._system = system = self._system or Inotify()
                number = system.add(f"/proc/self/fd/{opened.fd}/.")
            except OSError:  # too many are watched, by this program or others
                self._is_able = False
                self._drop_all()
                return None
            if number is None:
                return None
            if self._numbers.setdefault(number, folder) != folder:  # one folder, mounted in two places
                return None
            self._watched.add(folder)
            return self._changes, _state_of_rules(opened) if folder else ()  # `compare` looks at the root's

    def keep(self, opened: Opened, kept: Kept, epoch: int, watched: Watched) -> None:
        """Keep a folder, unless anything changed since `watch`."""
        size = len(kept.resources) + len(kept.names)
        changes, kept.rules = watched
        kept.state, kept.checked = _state_of(opened.stat), monotonic()
        kept.until = kept.checked + KEPT_S
        with self._lock:
            self._take_changes()
            self._drop(kept.ground.segments)
            is_unchanged = (epoch, changes) == (self._epoch, self._changes)
            if is_unchanged and self._entries + size <= MAX_ENTRIES:
                self._folders[kept.ground.segments] = kept
                self._entries += size

    def close(self) -> None:
        """Keep nothing any more."""
        with self._lock:
            self._is_able = False
            self._drop_all()

    def _can_keep(self, opened: Opened) -> bool:
        if self._is_able is None:
            self._is_able = sys.platform == "linux" and _file_system_of(self._root.path) in _REPORTING
        if not self._is_able or len(self._watched) >= MAX_FOLDERS:
            return False
        return os.fstat(self._root.fd).st_dev == opened.stat.st_dev

    def _take_changes(self) -> None:
        """Drop the folders in which anything changed."""
        try:
            while self._system is not None and (events := self._system.read(0)):
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
        """Drop every folder, and watch none: one may have another name by now."""
        self._epoch += 1
        self._folders = {}
        self._entries = 0
        self._numbers = {}
        self._watched = set()
        system, self._system = self._system, None
        if system is not None:
            system.close()


def _state_of(state: os.stat_result) -> _State:
    return (state.st_dev, state.st_ino, state.st_mtime_ns, state.st_ctime_ns)


def _state_of_rules(opened: Opened) -> _State:
    """Return the state of a folder's ignore file; empty if it has none: a new one is reported."""
    try:
        return _state_of(opened.stat_child(IGNORE_FILE))
    except SandboxError:
        return ()


def _file_system_of(path: str) -> str:
    """Return the kind of file system on which a path lies; empty if that cannot be known."""
    best, kind = "", ""
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as mounts:
            for line in mounts:
                mounted, _, described = line.partition(" - ")
                place = re.sub(r"\\([0-7]{3})", lambda escaped: chr(int(escaped[1], 8)), mounted.split(" ")[4])
                inside = place.rstrip("/") + "/"
                # A later one lies over an earlier one.
                if f"{path}/".startswith(inside) and len(inside) >= len(best):
                    best, kind = inside, described.split(" ")[0]
    except (OSError, IndexError):
        return ""
    return kind
