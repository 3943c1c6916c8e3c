"""File events to changes: only of what may be read, and of folders whose names changed.

Events come from the system through watchfiles, which is loaded when somebody listens. Where there
are none, it looks at the files itself. Nobody relies on them: reads always look at the disk.
"""

import logging
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from time import time_ns
from typing import TYPE_CHECKING, Final

from carrel.errors import NotFound, RequestError
from carrel.provider import Changes
from carrel.providers.workspace import kinds
from carrel.providers.workspace.ignore import IGNORE_FILE, Segments
from carrel.providers.workspace.listing import Listing
from carrel.providers.workspace.paths import canonical
from carrel.providers.workspace.tree import Tree, is_servable
from carrel.sandbox import SandboxError

if TYPE_CHECKING:
    from watchfiles.main import FileChange

log = logging.getLogger(__name__)

STOP_S: Final = 5.0
WAKE_MS: Final = 100
DEBOUNCE_MS: Final = 100
STEP_MS: Final = 50
TRIES: Final = 10
BY_FOLDER: Final = sys.platform == "linux"
"""Whether each folder is watched by itself: where a whole tree is, the system would follow links out of it."""
EARLY_NS: Final = 10**9
"""Names that changed so shortly before somebody was heard to listen may have changed after he began to."""

Watched = tuple[Tree, Listing]


def watch_trees(watched: Sequence[Watched], changes: Changes) -> Callable[[], None]:
    """Report to `changes` from a thread of its own; the result ends it."""
    stop = threading.Event()
    ready = threading.Event()
    since_ns = time_ns() - EARLY_NS
    reports = [Report(tree, listing, changes, since_ns) for tree, listing in watched]
    thread = threading.Thread(target=_watch, args=(reports, stop, ready), name="carrel-files", daemon=True)
    thread.start()
    ready.wait(STOP_S)

    def end() -> None:
        stop.set()
        thread.join(STOP_S)

    return end


def _watch(reports: "Sequence[Report]", stop: threading.Event, ready: threading.Event) -> None:
    try:
        for is_polling in (False, True):
            try:
                _follow(reports, stop, ready, is_polling=is_polling)
                return
            except OSError as error:
                log.warning("file events ended: %s", error.strerror)
    finally:
        ready.set()


def _follow(reports: "Sequence[Report]", stop: threading.Event, ready: threading.Event, *, is_polling: bool) -> None:
    for report in reports:
        report.learn()
    events = _Events(reports, stop, is_polling=is_polling)
    for report in reports:
        report.begin()
    ready.set()
    while (batch := events.next()) is not None:
        for report in reports:
            report.take(batch)
        if any(report.is_outgrown for report in reports):
            # The new ones begin before the old ones end: nothing falls between them.
            newer = _Events(reports, stop, is_polling=is_polling)
            left = events.next() or {}
            events.close()
            events = newer
            for report in reports:
                report.take(left)
                report.catch_up()


class _Events:
    """The events of all folders there are now, each watched by itself: a link to a folder is not entered."""

    def __init__(self, reports: "Sequence[Report]", stop: threading.Event, *, is_polling: bool) -> None:
        self._stop = stop
        self._is_polling = is_polling
        for tries_left in reversed(range(TRIES)):
            self._batches = self._watch([path for report in reports for path in report.paths()])
            try:
                self._first: set[FileChange] | None = next(self._batches, None)
            except FileNotFoundError:  # a folder went just now
                if not tries_left:
                    raise
                for report in reports:
                    report.learn()
            else:
                return

    def next(self) -> dict[str, bool] | None:
        """Wait a little for events: paths, each with whether its name came or went. None at the end."""
        from watchfiles import Change

        batch, self._first = self._first, None
        if batch is None:
            batch = next(self._batches, None)
        if batch is None:
            return None
        return {path: change is not Change.modified for change, path in sorted(batch, reverse=True)}

    def close(self) -> None:
        """End it."""
        self._batches.close()

    def _watch(self, paths: Sequence[str]) -> "Generator[set[FileChange], None, None]":
        from watchfiles import watch

        return watch(
            *paths,
            watch_filter=None,
            stop_event=self._stop,
            debounce=DEBOUNCE_MS,
            step=STEP_MS,
            rust_timeout=WAKE_MS,
            yield_on_timeout=True,
            force_polling=True if self._is_polling else None,
            recursive=not BY_FOLDER,
            ignore_permission_denied=True,
            raise_interrupt=False,
        )


class Report:
    """What the events of one root mean. It remembers which folders there are: a name that is gone tells no kind.

    It `is_outgrown` when other folders are to be watched than are.
    """

    def __init__(self, tree: Tree, listing: Listing, changes: Changes, since_ns: int) -> None:
        self.is_outgrown = False
        self._place = tree.root.path.rstrip("/")
        self._tree = tree
        self._listing = listing
        self._changes = changes
        self._since_ns = since_ns
        self._folders: set[Segments] = set()
        self._listed: set[Segments] = set()
        self._watched: set[Segments] = set()
        self._new: set[Segments] = set()

    def paths(self) -> list[str]:
        """Give what is to be watched from now on."""
        self.is_outgrown = False
        if not BY_FOLDER:
            return [self._place or "/"]
        self._new = self._folders - self._watched
        self._watched = set(self._folders)
        return ["/".join((self._place, *segments)) or "/" for segments in self._watched]

    def learn(self) -> None:
        """Learn anew which folders there are."""
        self._folders, self._listed = {()}, {()}
        self._learn(())

    def begin(self) -> None:
        """Learn which folders came before the events; tell if names changed before."""
        if self._learn(()) >= self._since_ns:
            self._changes.list_changed()

    def catch_up(self) -> None:
        """Look at folders that came: what was put into them before they were watched is told now."""
        tops = [one for one in self._new if one[:-1] not in self._new or not one]
        for top in tops:
            self._learn(top)
            self._changes.updated_below(self._uri(top))

    def _learn(self, top: Segments) -> int:
        """Remember a folder and those below it, as far as anything in them may be read; give the last change."""
        last = 0
        for segments, changed_ns, is_listed in self._listing.folders(top):
            self._folders.add(segments)
            if is_listed:
                self._listed.add(segments)
                last = max(last, changed_ns)
        self.is_outgrown = self.is_outgrown or not self._folders <= self._watched
        return last

    def _forget(self, top: Segments) -> None:
        """Forget a folder and those below it: it is gone, or is another now."""
        self._folders, self._listed, self._watched = (
            {one for one in known if one[: len(top)] != top} for known in (self._folders, self._listed, self._watched)
        )
        self.is_outgrown = True

    def take(self, events: Mapping[str, bool]) -> None:
        """Tell of events: paths, each with whether its name came or went."""
        below = f"{self._place}/"
        for path, is_named in events.items():
            segments = tuple(path[len(below) :].split("/")) if path.startswith(below) else ()
            if segments and all(map(is_servable, segments)):
                if segments[-1] == IGNORE_FILE:
                    self._reconsider(segments[:-1])
                self._take_one(segments, is_named=is_named)

    def _reconsider(self, folder: Segments) -> None:
        """Tell of all in a folder where what is ignored changed."""
        self._tree.policy.forget()
        self.learn()
        self.is_outgrown = True
        self._changes.updated_below(self._uri(folder))
        self._changes.list_changed()

    def _take_one(self, segments: Segments, *, is_named: bool) -> None:
        """Tell of one event; of what is refused, or not listed, neither its folder nor the list."""
        try:
            with self._tree.open_path("", segments).opened as opened:
                is_folder, is_link = opened.is_folder, opened.real != segments
        except (RequestError, SandboxError) as error:
            if isinstance(error, NotFound) or segments in self._folders:
                self._lose(segments)
            else:
                self._changes.updated_below(self._uri(segments))  # to who asked for it when it was not refused
            return
        if not is_folder:
            self._tell(segments, is_listed=is_named and self._listing.listed(segments) is not None)
        elif is_named:
            self._gain(segments, is_link=is_link)

    def _gain(self, segments: Segments, *, is_link: bool) -> None:
        """Tell that a folder came, with all it holds."""
        if not is_link:
            self._forget(segments)
            self._learn(segments)
        if self._tree.policy.judge(segments, is_folder=True).is_listed:
            self._tell_around(segments, holds_files=any(self._listing.files(folder=segments)))
        if is_link or not BY_FOLDER:  # else when it is watched, so that nothing comes into it untold
            self._changes.updated_below(self._uri(segments))

    def _lose(self, segments: Segments) -> None:
        """Tell that a name is gone, judged by what it was; it may have been a link to a folder."""
        if segments in self._folders:
            was_listed = segments in self._listed
            self._forget(segments)
        else:
            verdict = self._tree.policy.judge(segments, is_folder=False)
            known = kinds.known_type(segments[-1])
            is_text = known is None or known[1]
            was_listed = not verdict.reason and verdict.is_listed and (is_text or not verdict.needs_text)
        self._changes.updated_below(self._uri(segments))
        if was_listed:
            self._tell_around(segments)

    def _tell(self, segments: Segments, *, is_listed: bool) -> None:
        self._changes.updated(self._uri(segments))
        if is_listed:
            self._tell_around(segments)

    def _tell_around(self, segments: Segments, *, holds_files: bool = True) -> None:
        """Tell that a listed name came or went."""
        self._changes.updated(self._uri(segments[:-1]))
        if holds_files:
            self._changes.list_changed()

    def _uri(self, segments: Segments) -> str:
        return canonical(self._tree.name, segments)
