"""File events to changes: only of what may be read, and of folders whose names changed.

Events come from the system through watchfiles, which polls where there are none. It is
loaded when somebody listens.
"""

import logging
import os
import threading
from collections.abc import Callable, Sequence

from carrel.provider import Changes
from carrel.providers.workspace.listing import is_servable
from carrel.providers.workspace.paths import canonical
from carrel.providers.workspace.tree import Tree

log = logging.getLogger(__name__)


def watch_trees(trees: Sequence[Tree], changes: Changes) -> Callable[[], None]:
    """Report to `changes` from a thread of its own; the result ends it."""
    stop = threading.Event()
    ready = threading.Event()
    thread = threading.Thread(target=_watch, args=(trees, changes, stop, ready), name="carrel-files", daemon=True)
    thread.start()
    ready.wait(5)

    def end() -> None:
        stop.set()
        thread.join(5)

    return end


def _watch(trees: Sequence[Tree], changes: Changes, stop: threading.Event, ready: threading.Event) -> None:
    from watchfiles import Change, watch

    folders = {tree.root.path: tree for tree in trees}
    events = watch(
        *folders,
        watch_filter=None,
        stop_event=stop,
        debounce=100,
        step=50,
        rust_timeout=1_000,
        yield_on_timeout=True,
        ignore_permission_denied=True,
        raise_interrupt=False,
    )
    try:
        for batch in events:
            ready.set()
            for change, path in batch:
                _report(folders, changes, path, is_listed=change is not Change.modified)
    except OSError as error:
        log.warning("file events ended: %s", error.strerror)
    finally:
        ready.set()


def _report(folders: dict[str, Tree], changes: Changes, path: str, *, is_listed: bool) -> None:
    """Tell of one event: the file, and where names came or went its folder and the list."""
    found = next((place for place in folders if path == place or path.startswith(f"{place.rstrip('/')}/")), None)
    if found is None:
        return
    tree = folders[found]
    segments = tuple(part for part in path[len(found) :].split(os.sep) if part)
    if not all(is_servable(name) for name in segments) or tree.policy.judge(segments, is_folder=False).reason == "deny":
        return
    verdict = tree.policy.judge(segments, is_folder=os.path.isdir(path))
    if verdict.reason:
        return
    changes.updated(canonical(tree.name, segments))
    if is_listed and segments:
        changes.updated(canonical(tree.name, segments[:-1]))
        if verdict.is_listed:
            changes.list_changed()
