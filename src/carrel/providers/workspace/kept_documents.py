"""A cache of the files of a root for search, valid while nothing in them changes.

Every folder is watched before it is read, as `kept_folders` does for lists. Linux queues the event of a change before
the call that made the change returns. So when the queue is empty, every earlier change is known, and a search finds
what the files contain. Only reported names are checked again, and those for which Linux does not report everything:
links, files with a second name, files that changed a moment ago, and folders that could not be watched.

Where changes are not reported, every call checks all files. So does the first call, which keeps nothing: many processes
search only once.
"""

import os
import sys
import threading
from collections.abc import Iterable, Iterator
from functools import partial
from time import monotonic
from typing import Final

from carrel.core.provider import Document, DocumentChanges
from carrel.files.gitignore import Chain
from carrel.files.sandbox import Opened, is_settled
from carrel.providers.workspace.ignore_rules import IGNORE_FILE, Segments
from carrel.providers.workspace.inotify import Inotify, Lost
from carrel.providers.workspace.kept_folders import REPORTING, file_system_of
from carrel.providers.workspace.listing import Entry, Listing, LookedFolder
from carrel.providers.workspace.paths import prefix_of
from carrel.providers.workspace.policy import FolderRules
from carrel.providers.workspace.tracked_files import Hidden
from carrel.providers.workspace.tree import Tree, etag_of, is_servable

MAX_LOGGED: Final = 50_000
"""Maximum number of changes in the log; a caller whose token is older gets all documents."""
MAX_FOLDERS: Final = 50_000
"""Maximum number of watched folders. The system needs about 1 KB for each."""
RECHECK_S: Final = 30.0
"""How often all files are checked: a change through a memory map, or a mount, is not reported."""
_RECHECK_SHARE: Final = 50
"""The checks take at most one part in 50 of the time."""
_FIRST_KEPT: Final = 2

_Rules = tuple[Chain, Hidden | None, int]
_NO_RULES: Final[_Rules] = ((), None, -1)
"""Rules that differ from those of every root, so that everything is read again."""
_Place = tuple[Segments, str]
"""A folder, and a name in it."""
_State = tuple[int, ...] | None


class _Folder:
    """A known folder: its rules, its documents by name, and the folders in it."""

    __slots__ = ("above", "below", "documents", "loose", "number", "prefix", "rules")

    def __init__(self, above: FolderRules, prefix: str, looked: LookedFolder, number: int | None) -> None:
        self.above = above
        self.prefix = prefix
        self.rules = looked.rules
        self.number = number
        self.loose = set(looked.loose)
        self.below = {name for _, name, _ in looked.below}
        self.documents = {name: document_of(entry) for name, entry in looked.files.items()}


class KeptDocuments:
    """The documents of one root. Safe to use from several threads."""

    def __init__(self, tree: Tree, listing: Listing) -> None:
        self._tree = tree
        self._listing = listing
        self._lock = threading.RLock()
        self._system: Inotify | None = None
        self._is_able: bool | None = None
        self._calls = 0
        self._epoch = 0
        """How often everything was read."""
        self._rules = _NO_RULES
        self._folders: dict[Segments, _Folder] = {}
        self._by_number: dict[int, Segments] = {}
        self._restless: dict[Segments, set[str]] = {}
        """Names that every call checks, by folder."""
        self._unwatched: set[Segments] = set()
        self._states: dict[_Place, _State] = {}
        """The states of the files behind names that every call checks, from before they were last looked at."""
        self._has_second_names = False
        """Whether a file got a second name: then its other name is searched among all kept files."""
        self._log: list[tuple[str, _Place]] = []
        self._dropped = 0
        """How many entries of the log were dropped."""
        self._recheck_at = 0.0
        self._is_rechecking = False

    def changes(self, since: object) -> DocumentChanges:
        """Return the documents that changed since a token; all of them if that is not known."""
        with self._lock:
            self._calls += 1
            try:
                is_kept = self._keep_up()
            except BaseException:
                self._drop_all()
                raise
            if not is_kept:
                return DocumentChanges(tuple(self.walk()))
            token = (self._epoch, self._dropped + len(self._log))
            noted = self._noted(since)
            if noted is None:
                return DocumentChanges(tuple(self._every()), token=token)
            changed = {uri: self._find(place) for uri, place in noted}
            documents = tuple(document for document in changed.values() if document is not None)
            gone = tuple(uri for uri, document in changed.items() if document is None)
            return DocumentChanges(documents, gone, token, is_whole=False)

    def walk(self) -> Iterator[Document]:
        """Yield every document, read from the disk."""
        self._tree.policy.forget()
        return map(document_of, self._listing.files())

    def close(self) -> None:
        """Drop all documents, and keep none from now on."""
        with self._lock:
            self._is_able = False
            self._drop_all()

    # What is kept

    def _keep_up(self) -> bool:
        """Apply all changes up to now; return whether documents are kept."""
        if self._calls < _FIRST_KEPT or self._is_able is False:
            return False
        self._tree.root.renew()
        policy = self._tree.policy
        rules = (policy.top().chain, policy.tracked(), self._tree.root.renewals)
        if self._system is None or rules != self._rules:
            return self._begin(rules)
        try:
            self._take(self._system)
        except (Lost, OSError):
            return self._begin(rules)
        if self._has_second_names:
            return self._begin(rules)
        if monotonic() > self._recheck_at and not self._is_rechecking:
            self._is_rechecking = True
            threading.Thread(target=self._recheck, name="carrel-recheck", daemon=True).start()
        return True

    def _begin(self, rules: _Rules) -> bool:
        """Read everything, and watch it from now on."""
        self._drop_all()
        if self._is_able is None:
            self._is_able = sys.platform == "linux" and file_system_of(self._tree.root.path) in REPORTING
        if not self._is_able:
            return False
        try:
            self._system = Inotify()
            self._tree.policy.forget()
            self._rules, self._recheck_at = rules, monotonic() + RECHECK_S
            self._learn(self._tree.policy.top(), (), prefix_of(self._tree.name), notes=False)
        except OSError:  # this user watches too many folders
            self._is_able = False
            self._drop_all()
            return False
        return True

    def _drop_all(self) -> None:
        self._epoch += 1
        self._has_second_names = False
        self._folders, self._by_number, self._restless = {}, {}, {}
        self._unwatched = set()
        self._states = {}
        self._log, self._dropped = [], 0
        system, self._system = self._system, None
        if system is not None:
            system.close()

    def _learn(self, above: FolderRules, segments: Segments, prefix: str, *, notes: bool = True) -> None:
        """Read a folder and all below it; with `notes`, log their documents as changed."""
        waiting = [(above, segments, prefix)]
        while waiting:
            above, segments, prefix = waiting.pop()
            numbers: list[int | None] = []
            looked = self._listing.look_into(above, segments, prefix, partial(self._watch, numbers, segments))
            if looked is None:
                continue
            [number] = numbers
            folder = self._folders[segments] = _Folder(above, prefix, looked, number)
            if number is None:
                self._unwatched.add(segments)
            self._settle(segments, folder, folder.documents)
            if notes:
                self._note(segments, folder)
            waiting += [(inner, (*segments, name), uri) for inner, name, uri in looked.below]

    def _watch(self, numbers: list[int | None], segments: Segments, opened: Opened) -> None:
        """Watch an open folder; append its number, or None if it cannot be watched."""
        number = None
        is_here = os.fstat(self._tree.root.fd).st_dev == opened.stat.st_dev
        if self._system is not None and is_here and len(self._by_number) < MAX_FOLDERS:
            number = self._system.add(f"/proc/self/fd/{opened.fd}/.")
            if number is not None and self._by_number.setdefault(number, segments) != segments:
                number = None  # one folder is mounted in two places
        numbers.append(number)

    def _forget(self, top: Segments) -> None:
        """Drop a folder and all below it; log their documents as changed."""
        waiting = [top]
        while waiting:
            segments = waiting.pop()
            folder = self._folders.pop(segments, None)
            if folder is None:
                continue
            waiting += [(*segments, name) for name in folder.below]
            self._note(segments, folder)
            self._restless.pop(segments, None)
            self._unwatched.discard(segments)
            if folder.number is not None:
                del self._by_number[folder.number]
                if self._system is not None:
                    self._system.remove(folder.number)

    # Changes

    def _take(self, system: Inotify) -> None:
        """Read all events from the queue, and check the reported names."""
        named = {segments: set(names) for segments, names in self._restless.items()}
        again = set(self._unwatched)
        events = system.read(0)
        self._pass_over(named, is_quiet=not events and not again)
        while events:
            for event in events:
                segments = self._by_number.get(event.folder)
                if segments is None:
                    continue
                if event.name == IGNORE_FILE:
                    again.add(segments)
                elif event.is_folder:
                    again.add((*segments, event.name))
                named.setdefault(segments, set()).add(event.name)
            events = system.read(0)
        if again:
            self._tree.policy.forget()
            self._read_again(again)
        for segments, names in named.items():
            folder = self._folders.get(segments)
            if folder is not None and names:
                self._look_at(segments, folder, names)
        if len(self._log) > MAX_LOGGED:
            dropped = len(self._log) - MAX_LOGGED // 2
            del self._log[:dropped]
            self._dropped += dropped

    def _pass_over(self, named: dict[Segments, set[str]], *, is_quiet: bool) -> None:
        """Drop names whose files did not change; only while nothing else changed, so links lead to the same files."""
        if not is_quiet:
            self._states = {}
            return
        for segments, names in named.items():
            folder = self._folders.get(segments)
            for name in list(names):
                known = None if folder is None else folder.documents.get(name)
                if known is not None and not known.settled:
                    continue
                # The target of a link that is not served may be anywhere. It changes only with a reported change.
                state = self._state_of(segments, name, follows=known is not None)
                if state is not None and self._states.get((segments, name)) == state:
                    names.discard(name)
                self._states[segments, name] = state

    def _state_of(self, segments: Segments, name: str, *, follows: bool) -> _State:
        """Return the state of the file behind a name, for comparison; None if there is no file."""
        try:
            state = os.stat("/".join((*segments, name)), dir_fd=self._tree.root.fd, follow_symlinks=follows)
        except (OSError, ValueError):
            return None
        return state.st_dev, state.st_ino, state.st_mode, state.st_size, state.st_mtime_ns, state.st_ctime_ns

    def _read_again(self, tops: Iterable[Segments]) -> None:
        """Read whole folders again, if they still exist."""
        again: dict[Segments, tuple[FolderRules, str]] = {}
        for top in sorted(tops, key=len):
            known, inside = self._folders.get(top), self._folders.get(top[:-1])
            if any(top[:end] in again for end in range(len(top) + 1)):
                continue
            if known is not None:
                again[top] = known.above, known.prefix
            elif inside is not None and is_servable(top[-1]):
                again[top] = inside.rules, prefix_of(self._tree.name, top)
        # All are dropped before one is read: a renamed folder has one number under both names.
        for top in again:
            self._forget(top)
        for top, (above, prefix) in again.items():
            if top:
                self._folders[top[:-1]].below.add(top[-1])
            self._learn(above if top else self._tree.policy.top(), top, prefix)

    def _look_at(self, segments: Segments, folder: _Folder, names: Iterable[str]) -> None:
        """Check names in a folder again."""
        found = self._listing.look_at(folder.rules, folder.prefix, filter(is_servable, names))
        for name, (entry, is_link) in found.items():
            before = folder.documents.pop(name, None)
            was_loose = name in folder.loose
            folder.loose.discard(name)
            if entry is not None:
                folder.documents[name] = document_of(entry)
            if is_link or (entry is not None and entry.state.st_nlink != 1):
                # The other name of a file may be one that is kept, and was not loose until now.
                self._has_second_names = self._has_second_names or not (is_link or was_loose)
                folder.loose.add(name)
            now = folder.documents.get(name)
            known = before or now
            if known is not None and before != now:
                self._log.append((known.uri, (segments, name)))
        self._settle(segments, folder, found)

    def _settle(self, segments: Segments, folder: _Folder, names: Iterable[str]) -> None:
        """Remember which names every call must check."""
        restless = self._restless.pop(segments, set()).difference(names) | folder.loose
        restless |= {name for name in names if name in folder.documents and not folder.documents[name].settled}
        if restless:
            self._restless[segments] = restless

    def _recheck(self) -> None:
        """Read all files in the background; the next call checks those that differ from the kept ones."""
        started = monotonic()
        try:
            with self._lock:
                epoch = self._epoch
            found = {document.uri: document.fingerprint for document in self.walk()}
            with self._lock:
                if self._system is not None and epoch == self._epoch:
                    self._take(self._system)
                    self._compare(found)
        except (Lost, OSError):
            self._rules = _NO_RULES
        finally:
            took = monotonic() - started
            self._recheck_at = monotonic() + max(RECHECK_S, took * _RECHECK_SHARE)
            self._is_rechecking = False

    def _compare(self, found: dict[str, str]) -> None:
        """Let the next call check names that differ; everything if there are unknown files."""
        kept = {document.uri: document.fingerprint for document in self._every()}
        if found.keys() - kept.keys():
            self._rules = _NO_RULES
            return
        differing = {uri for uri, fingerprint in kept.items() if found.get(uri) != fingerprint}
        for segments, folder in self._folders.items() if differing else ():
            names = {name for name, document in folder.documents.items() if document.uri in differing}
            if names:
                self._restless.setdefault(segments, set()).update(names)
                self._states = {}

    # Answers

    def _note(self, segments: Segments, folder: _Folder) -> None:
        self._log += [(document.uri, (segments, name)) for name, document in folder.documents.items()]

    def _noted(self, since: object) -> list[tuple[str, _Place]] | None:
        """Return the log since a token; None if that is not known."""
        if not isinstance(since, tuple) or since[0] != self._epoch:
            return None
        start = since[1] - self._dropped
        return self._log[start:] if start >= 0 else None

    def _every(self) -> Iterator[Document]:
        for folder in self._folders.values():
            yield from folder.documents.values()

    def _find(self, place: _Place) -> Document | None:
        folder = self._folders.get(place[0])
        return None if folder is None else folder.documents.get(place[1])


def document_of(entry: Entry) -> Document:
    """Return a file as a document for search; its fingerprint is its ETag. Lists of all files share its texts."""
    state = entry.state
    return Document(
        sys.intern(entry.uri),
        sys.intern(etag_of(state)),
        sys.intern(entry.segments[-1]),
        entry.mime_type,
        state.st_size,
        state.st_mtime_ns // 1_000_000,
        settled=is_settled(state),
        target=entry.target,
    )
