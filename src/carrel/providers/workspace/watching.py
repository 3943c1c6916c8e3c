"""File events to changes: only of what may be read, and of folders whose names changed.

Events come from the system through watchfiles, which is loaded when somebody listens. Where there
are none, it looks at the files itself. Nobody relies on them: reads always look at the disk.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from time import time_ns
from typing import Final

from carrel.errors import NotFound, RequestError
from carrel.provider import Changes
from carrel.providers.workspace import kinds
from carrel.providers.workspace.following import Followed
from carrel.providers.workspace.ignore import Segments
from carrel.providers.workspace.listing import Listing
from carrel.providers.workspace.paths import canonical
from carrel.providers.workspace.tree import Tree, is_servable
from carrel.sandbox import SandboxError

log = logging.getLogger(__name__)

STOP_S: Final = 5.0
WAKE_MS: Final = 100
DEBOUNCE_MS: Final = 100
STEP_MS: Final = 50
EARLY_NS: Final = 10**9
"""Names that changed so shortly before somebody was heard to listen may have changed after he began to."""

Watched = tuple[Tree, Listing]


def watch_trees(watched: Sequence[Watched], followed: Followed, changes: Changes) -> Callable[[], None]:
    """Report to `changes` from a thread of its own; the result ends it."""
    stop = threading.Event()
    ready = threading.Event()
    since_ns = time_ns() - EARLY_NS
    reports = [Report(tree, listing, followed, changes, since_ns) for tree, listing in watched]
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
    from watchfiles import Change, watch

    events = watch(
        *(report.place for report in reports),
        watch_filter=None,
        stop_event=stop,
        debounce=DEBOUNCE_MS,
        step=STEP_MS,
        rust_timeout=WAKE_MS,
        yield_on_timeout=True,
        force_polling=True if is_polling else None,
        ignore_permission_denied=True,
        raise_interrupt=False,
    )
    for batch in events:
        if not ready.is_set():
            for report in reports:
                report.begin()
            ready.set()
        for report in reports:
            report.take({path: change is not Change.modified for change, path in sorted(batch, reverse=True)})


class Report:
    """What the events of one root mean. It remembers which folders there are: a name that is gone tells no kind."""

    def __init__(self, tree: Tree, listing: Listing, followed: Followed, changes: Changes, since_ns: int) -> None:
        self.place = tree.root.path
        self._tree = tree
        self._listing = listing
        self._followed = followed
        self._changes = changes
        self._since_ns = since_ns
        self._folders: set[Segments] = set()

    def begin(self) -> None:
        """Learn which folders there are, now that events come; tell if names changed before."""
        if self._learn(()) >= self._since_ns:
            self._changes.list_changed()

    def _learn(self, top: Segments) -> int:
        """Remember a folder and those below it, as far as anything in them may be listed; give the last change."""
        found = dict(self._listing.folders(top))
        self._folders.update(found)
        return max(found.values(), default=0)

    def take(self, events: Mapping[str, bool]) -> None:
        """Tell of events: paths, each with whether its name came or went."""
        below = self.place.rstrip("/") + "/"
        for path, is_named in events.items():
            segments = tuple(path[len(below) :].split("/")) if path.startswith(below) else ()
            if segments and all(map(is_servable, segments)):
                self._take_one(segments, is_named=is_named)
                self._followed.look_at(self._tree, segments)
                if is_named:
                    self._tell_below(segments)

    def _tell_below(self, segments: Segments) -> None:
        """Tell of what is followed in a folder that came or went, perhaps with all that lies in it."""
        for below in self._followed.changed_below(self._tree, segments):
            self._changes.updated(canonical(self._tree.name, below))

    def _take_one(self, segments: Segments, *, is_named: bool) -> None:
        """Tell of one event; of what is refused, or not listed, neither its folder nor the list."""
        try:
            with self._tree.open_path("", segments).opened as opened:
                is_folder = opened.is_folder
        except (RequestError, SandboxError) as error:
            if isinstance(error, NotFound) or segments in self._folders:
                self._lose(segments)
            return
        if not is_folder:
            self._tell(segments, is_listed=is_named and self._listing.listed(segments) is not None)
        elif is_named and self._tree.policy.judge(segments, is_folder=True).is_listed:
            self._learn(segments)
            self._tell(segments, is_listed=True, holds_files=any(self._listing.files(folder=segments)))

    def _lose(self, segments: Segments) -> None:
        """Tell that a name is gone, judged by what it was."""
        if segments in self._folders:
            self._folders = {one for one in self._folders if one[: len(segments)] != segments}
            self._tell(segments, is_listed=True)
            return
        verdict = self._tree.policy.judge(segments, is_folder=False)
        if not verdict.reason:
            known = kinds.known_type(segments[-1])
            is_text = known is None or known[1]
            self._tell(segments, is_listed=verdict.is_listed and (is_text or not verdict.needs_text))

    def _tell(self, segments: Segments, *, is_listed: bool, holds_files: bool = True) -> None:
        self._changes.updated(canonical(self._tree.name, segments))
        if is_listed:
            self._changes.updated(canonical(self._tree.name, segments[:-1]))
            if holds_files:
                self._changes.list_changed()
