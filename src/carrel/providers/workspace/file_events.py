"""Turn file events into changes of resources: of files that may be read, of folders, and of the list.

On Linux each readable folder is watched separately, so that no link is followed; on other systems watchfiles watches
the trees. If events fail, the files are polled. Reads do not depend on events, they always ask the disk; for lists see
`kept_folders`.
"""

import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import monotonic, time_ns
from typing import Final

from carrel.core.errors import NotFound, RequestError
from carrel.core.provider import Changes
from carrel.files import file_types
from carrel.files.gitignore import Chain
from carrel.files.sandbox import Kind, SandboxError
from carrel.providers.workspace.folder_names import Names
from carrel.providers.workspace.ignore_rules import EXCLUDE_FILE, IGNORE_FILE, Segments
from carrel.providers.workspace.inotify import Inotify, Lost
from carrel.providers.workspace.listing import Listing
from carrel.providers.workspace.paths import canonical
from carrel.providers.workspace.tracked_files import INDEX_FILE, Hidden
from carrel.providers.workspace.tree import Tree, etag_of, is_servable

STOP_S: Final = 5.0
WAKE_MS: Final = 100
DEBOUNCE_MS: Final = 100
STEP_MS: Final = 50
EARLY_NS: Final = 10**9
"""Names that changed within this time before the start may have changed after a client began to listen."""

_GIT: Final = EXCLUDE_FILE[0]
_LED_TO_FOLDER: Final = {"file": (False,), "folder": (True,), "link": (False, True), None: ()}
"""Whether a name may have led to a folder, by its kind; a link may have led to a file or a folder."""

Watched = tuple[Tree, Listing]


def watch_trees(watched: Sequence[Watched], changes: Changes) -> Callable[[], None]:
    """Report to `changes` from one thread for each tree; return a function that ends them."""
    stop = threading.Event()
    since_ns = time_ns() - EARLY_NS
    watching = []
    for tree, listing in watched:
        report, ready = Report(tree, listing, changes, stop, since_ns), threading.Event()
        thread = threading.Thread(target=_watch, args=(report, ready), name="carrel-files", daemon=True)
        thread.start()
        watching.append((thread, ready))
    for _, ready in watching:
        ready.wait(STOP_S)

    def end() -> None:
        stop.set()
        for thread, _ in watching:
            thread.join(STOP_S)

    return end


def _watch(report: "Report", ready: threading.Event) -> None:
    first = _follow_folders if sys.platform == "linux" else _follow_tree
    try:
        for follow in (first, partial(_follow_tree, is_polling=True)):
            try:
                follow(report, ready)
                return
            except (OSError, RuntimeError) as error:  # the errors of watchfiles are RuntimeErrors
                import logging  # only on failure

                logging.getLogger(__name__).warning("file events ended: %s", error)
    finally:
        ready.set()


def _follow_folders(report: "Report", ready: threading.Event) -> None:
    """Watch each folder separately."""
    system = Inotify()
    try:
        report.begin(system)
        ready.set()
        while not report.stop.is_set():
            try:
                report.take(_batch(report, system))
                if report.has_new_root():
                    report.begin_again()
            except Lost:
                report.begin_again()
    finally:
        report.system = None
        system.close()


def _batch(report: "Report", system: Inotify) -> dict[Segments, bool]:
    """Wait for events, and for those right after them; return the paths, and whether each was created or deleted."""
    batch: dict[Segments, bool] = {}
    until = 0.0
    found = system.read(WAKE_MS / 1_000)
    while found:
        until = until or monotonic() + DEBOUNCE_MS / 1_000
        for event in found:
            folder = report.folder_of(event.folder)
            if folder is not None:
                segments = (*folder, event.name)
                batch[segments] = batch.get(segments, False) or event.is_named
        found = system.read(STEP_MS / 1_000) if monotonic() < until else []
    return batch


def _follow_tree(report: "Report", ready: threading.Event, *, is_polling: bool = False) -> None:
    """Watch everything below the root."""
    from watchfiles import Change, watch

    events = watch(
        report.place or "/",
        watch_filter=None,
        stop_event=report.stop,
        debounce=DEBOUNCE_MS,
        step=STEP_MS,
        rust_timeout=WAKE_MS,
        yield_on_timeout=True,
        force_polling=True if is_polling else None,
        ignore_permission_denied=True,
        raise_interrupt=False,
    )
    below = f"{report.place}/"
    begin = report.begin_again if ready.is_set() else report.begin
    for number, batch in enumerate(events):
        if number == 0:
            begin()
            ready.set()
        named = {path: change is not Change.modified for change, path in sorted(batch, reverse=True)}
        report.take({tuple(path[len(below) :].split("/")): named[path] for path in named if path.startswith(below)})


class Report:
    """Reports the events of one root. It remembers the folders, since no event has the kind of a deleted name."""

    def __init__(
        self, tree: Tree, listing: Listing, changes: Changes, stop: threading.Event, since_ns: int = 0
    ) -> None:
        self.place = tree.root.path.rstrip("/")
        self.stop = stop
        self.system: Inotify | None = None
        self._tree = tree
        self._renewals = tree.root.renewals
        self._listing = listing
        self._changes = changes
        self._since_ns = since_ns
        self._folders: dict[Segments, int] = {}
        self._listed: set[Segments] = set()
        self._below: dict[Segments, set[str]] = {}
        self._names: dict[Segments, Names] = {}
        self._by_number: dict[int, Segments] = {}
        self._of_git: list[int] = []
        self._rules: Chain = ()
        self._tracked: Hidden | None = None

    def folder_of(self, number: int) -> Segments | None:
        """Return the folder that is watched under a number."""
        return self._by_number.get(number)

    def has_new_root(self) -> bool:
        """Return whether the root was deleted and there is a new folder in its place."""
        # The system sends no event while the root is open.
        return self._tree.root.renew() or self._tree.root.renewals != self._renewals

    # The known folders

    def begin(self, system: Inotify | None = None) -> None:
        """Find the folders and watch each; report a change of the list if names changed just before."""
        self.system = system
        self._has_other_rules()
        self._tracks_others()
        self._forget(())
        if self._learn(()) >= self._since_ns:
            self._changes.list_changed()

    def begin_again(self) -> None:
        """Find the folders again, and report that everything may have changed."""
        self._renewals = self._tree.root.renewals
        self._has_other_rules()
        self._tracks_others()
        self._tree.policy.forget()
        self._forget(())
        self._learn(())
        self._changes.updated_below(self._uri(()))
        self._changes.list_changed()

    def _learn(self, top: Segments) -> int:
        """Remember a folder and those below it in which anything may be read; return the time of the last change."""
        last = 0
        # Each is watched before it is read, so that every later change is an event.
        for rules, changed_ns, is_listed, names in self._listing.folders(top, self._remember):
            segments = rules.segments
            if self.stop.is_set():
                break
            if is_listed:
                self._listed.add(segments)
                last = max(last, changed_ns)
            # The names of a known folder change only by events, so that each change is reported.
            if segments not in self._names:
                self._names[segments] = Names((name, kind) for _, name, kind in names)
        return last

    def _remember(self, segments: Segments) -> None:
        number = self._add(segments)
        self._folders[segments] = -1 if number is None else number
        if segments:
            self._below.setdefault(segments[:-1], set()).add(segments[-1])
        if number is not None:
            self._by_number[number] = segments

    def _add(self, segments: Segments) -> int | None:
        return None if self.system is None else self.system.add("/".join((self.place, *segments)) or "/")

    def _forget(self, top: Segments) -> None:
        """Forget a folder and those below it."""
        waiting = [top]
        if top:
            self._below.get(top[:-1], set()).discard(top[-1])
        while waiting:
            segments = waiting.pop()
            waiting += [(*segments, name) for name in self._below.pop(segments, ())]
            self._listed.discard(segments)
            self._names.pop(segments, None)
            number = self._folders.pop(segments, -1)
            # The same folder may already be watched under its new name.
            if self._by_number.get(number) == segments:
                del self._by_number[number]
                if self.system is not None:
                    self.system.remove(number)

    # Events

    def take(self, events: Mapping[Segments, bool]) -> None:
        """Report events: paths below the root, and whether each was created or deleted."""
        others = [segments for segments in events if segments[0] != _GIT or len(segments) == 1]
        ruled = [segments[:-1] for segments in others if segments[-1] == IGNORE_FILE]
        if any(segments == EXCLUDE_FILE[: len(segments)] for segments in events) and self._has_other_rules():
            ruled.append(())
        if any(segments == INDEX_FILE[: len(segments)] for segments in events) and self._tracks_others():
            ruled.append(())
        if ruled:
            self._reconsider(ruled)
        # New names need the most work, so they come last. A deleted one may be the same file under its old name.
        for segments in sorted(others, key=lambda one: (events[one], one not in self._folders)):
            if all(map(is_servable, segments)) and not self.stop.is_set():
                self._take_one(segments, is_named=events[segments])

    def _has_other_rules(self) -> bool:
        """Return whether the ignore rules of the root changed; watch the folders of `.git/info/exclude`."""
        while self._of_git:
            number = self._of_git.pop()
            self._by_number.pop(number, None)
            if self.system is not None:
                self.system.remove(number)
        for folder in (EXCLUDE_FILE[:1], EXCLUDE_FILE[:2]):
            added = self._add(folder)
            if added is None:
                break
            self._of_git.append(added)
            self._by_number[added] = folder
        before, self._rules = self._rules, self._tree.policy.top().chain
        return before != self._rules

    def _tracks_others(self) -> bool:
        """Return whether the tracked hidden files changed; most commands that write git's index change none."""
        before, self._tracked = self._tracked, self._tree.policy.tracked()
        return before != self._tracked

    def _reconsider(self, folders: Sequence[Segments]) -> None:
        """Report everything in folders whose ignore rules changed."""
        self._tree.policy.forget()
        before = set(self._folders)
        self._listed.clear()
        kept = {rules.segments for rules, _, _, _ in self._listing.folders(())}
        for gone in before - kept:
            self._forget(gone)
        self._learn(())
        for folder in folders:
            self._changes.reconsidered(self._uri(folder))
        self._changes.list_changed()

    def _take_one(self, segments: Segments, *, is_named: bool) -> None:
        """Report one event; for a refused or unlisted path, neither its folder nor the list."""
        try:
            with self._tree.open_path("", segments).opened as opened:
                is_folder, is_link, state = opened.is_folder, opened.real != segments, opened.stat
        except (RequestError, SandboxError) as error:
            if isinstance(error, NotFound) or segments in self._folders or not self._tree.root.exists(segments):
                self._lose(segments)
            else:
                self._changes.updated_below(self._uri(segments))  # for subscriptions from before it was refused
                self._take_name(segments, "file", is_sure=True)
            return
        if segments in self._folders and (is_link or not is_folder):
            self._lose(segments)
        if not is_folder:
            self._take_file(segments, state, is_link=is_link, is_named=is_named)
        elif is_named or not (is_link or segments in self._folders):
            self._gain(segments, is_link=is_link)

    def _take_file(self, segments: Segments, state: os.stat_result, *, is_link: bool, is_named: bool) -> None:
        if is_link:
            self._changes.updated_below(self._uri(segments))  # its target may have changed
        else:
            self._changes.updated(self._uri(segments), etag_of(state))
        names = self._names.get(segments[:-1])
        if is_named or (names is not None and not names.has(segments[-1], "file")):
            # A link, or a file whose type depends on its content, may not have been listed before.
            is_sure = not is_link and file_types.known_type(segments[-1]) is not None
            self._take_name(segments, "link" if is_link else "file", is_sure=is_sure)

    def _take_name(self, segments: Segments, kind: Kind, *, is_sure: bool) -> None:
        """Report an existing name to its folder and the list, if it is new or no longer listed."""
        names = self._names.get(segments[:-1])
        is_listed = self._listing.listed(segments) is not None
        if not is_listed and self._lists(segments, is_folder=False):
            is_other = self._was_listed(segments)
        else:
            was_there = names is not None and names.put(segments[-1], kind)
            is_other = is_listed and not (was_there and is_sure)
        if is_other:
            self._report_around(segments)

    def _gain(self, segments: Segments, *, is_link: bool) -> None:
        """Report a new folder with everything in it."""
        self._tree.policy.forget()  # it may bring ignore files
        names = self._names.get(segments[:-1])
        was_there = names is not None and names.put(segments[-1], "link" if is_link else "folder")
        if not is_link:
            self._forget(segments)
            self._learn(segments)
        if self._tree.policy.judge(segments, is_folder=True).is_listed:
            if is_link or not was_there:
                self._changes.updated(self._uri(segments[:-1]))
            if not is_link and (was_there or any(self._listing.files(folder=segments))):
                self._changes.list_changed()
        self._changes.updated_below(self._uri(segments))

    def _lose(self, segments: Segments) -> None:
        """Report a deleted name, by the kind it had."""
        was_listed = self._was_listed(segments)
        if segments in self._folders:
            was_listed = segments in self._listed
            self._forget(segments)
        self._changes.updated_below(self._uri(segments))
        if was_listed:
            self._report_around(segments)

    def _was_listed(self, segments: Segments) -> bool:
        """Forget a name; return whether it was listed, judged by its name."""
        names = self._names.get(segments[:-1])
        kind = "link" if names is None else names.drop(segments[-1])
        return any(self._lists(segments, is_folder=is_folder) for is_folder in _LED_TO_FOLDER[kind])

    def _lists(self, segments: Segments, *, is_folder: bool) -> bool:
        verdict = self._tree.policy.judge(segments, is_folder=is_folder)
        known = file_types.known_type(segments[-1])
        is_text = is_folder or known is None or known[1]
        return not verdict.reason and verdict.is_listed and (is_text or not verdict.needs_text)

    def _report_around(self, segments: Segments) -> None:
        """Report a new or deleted name to its folder and the list."""
        if segments[:-1] in self._folders:
            self._changes.updated(self._uri(segments[:-1]))
        self._changes.list_changed()

    def _uri(self, segments: Segments) -> str:
        return canonical(self._tree.name, segments)
