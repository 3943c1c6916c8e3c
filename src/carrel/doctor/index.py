"""Checks of the search index: its age, its coverage, and whether it can be used."""

import os
import stat
from collections.abc import Iterator
from time import gmtime, strftime
from typing import Final

from carrel.core.bounded_calls import BoundedCalls
from carrel.core.model import Meta
from carrel.doctor.checks import Check, Finding, Repair, check, note, ok, problem
from carrel.doctor.processes import servers_of
from carrel.doctor.repairs import moved_away, without_mode
from carrel.doctor.setup import Setup

DAY_S: Final = 86_400
LOOK_S: Final = 5.0
"""Time limit for finding the newest file."""


@check(
    "index",
    "index-broken",
    "the search index is damaged",
    "move it away: the next search makes a new one",
    repairs=True,
)
def index_broken(setup: Setup) -> Iterator[Finding]:
    """Yield a problem if the file is not an index of Carrel."""
    state = setup.index_state
    if state is not None and state.is_broken:
        shown = setup.short(state.path)
        yield problem(f"the search index is damaged: {shown}", f"rm {shown}", moved_away(state.path, shown))


@check(
    "index",
    "index-stale",
    "the search index is more than a day older than the newest file, and no server runs",
    "bring it up to date",
    repairs=True,
)
def index_stale(setup: Setup) -> Iterator[Finding]:
    """Yield a note if the next search will take long because the index is old."""
    state, config, desk = setup.index_state, setup.config, setup.desk
    if state is None or state.is_broken or config is None or desk is None or desk.server.search is None:
        return
    newest_s, uri = _newest(setup)
    if newest_s - state.written_s <= DAY_S or state.is_in_use or servers_of(config.root):
        return
    search = desk.server.search
    days = (newest_s - state.written_s) / DAY_S
    yield note(
        f"the search index is {days:.0f} days older than {uri}, and no server keeps it up to date",
        "carrel search WORDS brings it up to date",
        Repair("bring the search index up to date", lambda: search.opened().build()),
    )


def _newest(setup: Setup) -> tuple[float, str]:
    """Return the time of the newest document, in seconds since 1970, and its URI."""
    desk = setup.desk
    found: list[tuple[float, str]] = [(0.0, "")]

    def look() -> None:
        for mounted in () if desk is None else desk.catalog.mounted:
            if mounted.chosen in setup.answers and not setup.answers[mounted.chosen].is_late:
                for one in mounted.provider.documents():
                    if one.modified_ms is not None and one.modified_ms / 1_000 > found[-1][0]:
                        found.append((one.modified_ms / 1_000, one.uri))

    BoundedCalls("doctor", LOOK_S).ask({"newest file": look})
    return found[-1]


@check(
    "index",
    "index-coverage",
    "not all documents are in the search index",
    "raise [search] max_index_mb or max_documents; or search again when it is built",
)
def index_coverage(setup: Setup) -> Iterator[Finding]:
    """Yield the size, age and coverage of the index."""
    desk = setup.desk
    if desk is None:
        return
    if desk.server.search is None:
        yield ok("search is turned off by [search] enabled = false, or by --without search")
        return
    if setup.index_state is None or setup.index_state.is_broken:
        yield ok("no search index yet: the first search makes one")
        return
    search = desk.server.search
    facts = (
        BoundedCalls("doctor", setup.patience_s)
        .ask({"search": lambda: search.opened().facts(looks=True)})
        .get("search")
    )
    if facts is None:
        yield note(f"the search index gave no answer within {setup.patience_s:g} s")
        return
    problems = facts.get("problems")
    for one in problems if isinstance(problems, list) else ():
        yield note(str(one))
    yield _coverage(setup, facts)


def _coverage(setup: Setup, facts: Meta) -> Finding:
    documents, indexed, size, written_ms = (facts.get(key) for key in ("documents", "indexed", "bytes", "written"))
    if not (isinstance(size, int) and isinstance(written_ms, int) and isinstance(documents, int)):
        return ok("no search index yet: the first search makes one")
    age = f"last written {strftime('%Y-%m-%d %H:%M', gmtime(written_ms / 1_000))} UTC"
    message = f"{indexed} of {documents} documents indexed, {size / 1_048_576:.1f} MB, {age}"
    values = {} if setup.config is None else setup.config.values("search")
    most, most_mb = values.get("max_documents", documents), values.get("max_index_mb", size)
    if isinstance(indexed, int) and indexed < documents and (documents > most or size >= most_mb * 1_048_576):
        return note(message, "raise [search] max_documents and max_index_mb")
    return ok(message)


@check(
    "index",
    "index-folder",
    "other users can change the folder of the search index, so that it is not used",
    "remove the permission",
    repairs=True,
)
def index_folder(setup: Setup) -> Iterator[Finding]:
    """Yield a note if the folder of the index is not private."""
    folder = setup.index_folder
    writable = stat.S_IWGRP | stat.S_IWOTH
    if folder is not None and os.path.isdir(folder) and os.stat(folder).st_mode & writable:
        command = f"chmod go-w {setup.short(folder)}"
        message = f"other users may change {setup.short(folder)}: the search index there is not used"
        yield note(message, command, without_mode(folder, writable, command))


CHECKS: Final[tuple[Check, ...]] = (index_broken, index_stale, index_coverage, index_folder)
