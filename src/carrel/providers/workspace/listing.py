"""Files in the order of their URIs, found lazily; and the children of one folder.

Only folders that a page shows are read, and only those from the root to the present place are
held: siblings are sorted by their quoted name, folders with a closing `/`, so depth-first order
is URI order, and a whole folder that sorts before the place asked for is passed over unread.
"""

import os
import stat
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterable, Iterator
from heapq import heappop, heappush
from itertools import islice
from operator import itemgetter
from time import time_ns
from typing import Final

from carrel.core.cancellation import check_cancelled
from carrel.core.errors import RequestError
from carrel.core.limits import MAX_URI_LENGTH
from carrel.core.model import Annotations, Rank, Resource
from carrel.core.record import Value
from carrel.core.uri import quote
from carrel.files import file_types
from carrel.files.sandbox import Kind, Opened, SandboxError, Unreadable
from carrel.providers.workspace.ignore_rules import SETTLED_NS, Segments
from carrel.providers.workspace.kept_folders import Below, Kept, KeptFolders
from carrel.providers.workspace.paths import prefix_of
from carrel.providers.workspace.policy import Ground, Verdict
from carrel.providers.workspace.tree import FoundFile, Tree, is_servable

MAX_OPEN: Final = 64
"""Handles held on the way down; folders above are opened again when their turn comes."""

LARGE: Final = 2_000
"""Names in a folder that is not read again for each of its pages."""

MAX_COUNTED_NAMES: Final = 20_000
"""Names that are looked at to count what is left out."""

FOLDER_COST: Final = 4
"""What opening a folder costs, in names."""

_LOOK_UP_AFTER: Final = 256
"""Names between two looks at whether the walk is still wanted."""

Named = tuple[str, str, Kind]
"""Quoted name, with a closing `/` for a folder; name; kind."""

Looked = tuple[Segments, int, bool, list[Named]]
"""A folder, when a name in it changed, whether anything in it may be listed, its names."""


class Entry(Value, frozen=True, gc=False):
    """A file to be listed: its state when it was looked at, and its type by name, or by content if that is unknown."""

    uri: str
    segments: Segments
    mime_type: str
    state: os.stat_result


class Child(Value, frozen=True):
    """What a folder shows: a file with its entry, or a folder without. `key` is its place, quoted."""

    key: str
    name: str
    entry: Entry | None


class _Step:
    """A folder on the way to the present place."""

    __slots__ = ("ground", "names", "opened", "prefix")

    def __init__(self, ground: Ground, prefix: str, opened: Opened, names: Iterable[Named] = ()) -> None:
        self.ground = ground
        self.prefix = prefix
        self.opened = opened
        self.names = iter(names)


class Pace:
    """Counts the names that one walk has looked at, and stops it when its caller gave up."""

    __slots__ = ("_check_at", "_looked_at")

    def __init__(self) -> None:
        self._looked_at = 0
        self._check_at = _LOOK_UP_AFTER

    def look(self, names: int = 1) -> int:
        """Count names that are looked at now, and return how many that makes; raise if the walk must not go on."""
        self._looked_at += names
        if self._looked_at >= self._check_at:
            self._check_at = self._looked_at + _LOOK_UP_AFTER
            check_cancelled()
        return self._looked_at


class Census(Value, frozen=True):
    """How many files a tree has where it may be listed, and how many of them their type leaves out.

    With `is_cut` there are more: they were not counted.
    """

    files: int
    left_out: int
    is_cut: bool


class Listing:
    """Lists one tree; counts the folders it could not read."""

    def __init__(self, tree: Tree, max_listed_bytes: int) -> None:
        self._tree = tree
        self._max_listed_bytes = max_listed_bytes
        self._large: tuple[tuple[int, ...], list[Named]] = ((), [])
        self._kept = KeptFolders(tree.root)
        self.unreadable: set[Segments] = set()

    def files(self, after: str = "", folder: Segments = (), begins: str = "") -> Iterator[Entry]:
        """Yield the files below a folder whose URI begins so and comes after `after`, in order."""
        prefix = prefix_of(self._tree.name, folder)
        first = self._enter(self._ground(folder), prefix, after) if _holds(prefix, after, begins) else None
        steps = [first] if first else []
        pace = Pace()
        try:
            while steps:
                below = yield from self._files_until_folder(steps[-1], after, begins, pace)
                if below is None:
                    steps.pop().opened.close()
                else:
                    steps.append(below)
                    if len(steps) > MAX_OPEN:
                        steps[-1 - MAX_OPEN].opened.close()
        finally:
            for step in steps:
                step.opened.close()

    def _files_until_folder(
        self, step: _Step, after: str, begins: str, pace: Pace
    ) -> Generator[Entry, None, _Step | None]:
        """Yield the files of a folder; give the next folder in it to go into, or None at its end."""
        for key, name, kind in step.names:
            pace.look()
            uri = step.prefix + key
            if kind == "folder":
                below = self._below(step, name, uri, after, pace) if _holds(uri, after, begins) else None
                if below is not None:
                    return below
            elif uri > after and uri.startswith(begins):
                entry = self._entry(step, name, kind, uri)
                if entry is not None:
                    yield entry
        return None

    def shallow_first(self) -> Iterator[Resource]:
        """Yield all files: those in the root, then those one folder deeper, and so on; each depth in URI order.

        A folder is read when its turn comes, so a caller who needs a few files does not pay for the tree.
        """
        top = self.compare()
        epoch, pace = self._kept.begin(), Pace()
        level: list[Below] = [(top, "", prefix_of(self._tree.name))]
        while level:
            below: list[Below] = []
            for above, name, uri in level:
                segments = (*above.segments, name) if name else ()
                kept = self._kept.find(segments)
                if kept is not None:
                    below += kept.below
                    yield from kept.resources
                elif not name or self._may_go_below(above, name, uri):
                    yield from self._look_into(above, segments, uri, below, epoch, pace)
            level = below

    def compare(self) -> Ground:
        """Drop the kept folders if other rules hold in the root now; return what does."""
        top = self._tree.policy.top()
        self._kept.compare(top.chain, self._tree.policy.tracked())
        return top

    def _look_into(
        self, above: Ground, segments: Segments, prefix: str, below: list[Below], epoch: int, pace: Pace
    ) -> Iterator[Resource]:
        """Yield the files of one folder; add the folders in it to `below`. Keep it, if it can be kept."""
        pace.look(FOLDER_COST)
        opened = self._open(segments)
        if opened is None:
            return
        with opened:
            watched = self._kept.watch(opened, segments, epoch)
            ground = self._tree.policy.enter(above, segments[-1]) if segments else above
            names = self._names(opened, segments)
            step = _Step(ground, prefix, opened, names)
            folders = [(ground, name, prefix + key) for key, name, kind in names if kind == "folder"]
            below += folders
            if watched is None or len(names) >= LARGE:
                yield from map(_describe_by_depth, self._files_of(step, pace))
                return
            entries = list(self._files_of(step, pace))
            resources = list(map(_describe_by_depth, entries))
            if all(kind != "link" for _, _, kind in names) and not self._has_second_names(step, names, entries):
                named = [(name, kind == "folder") for _, name, kind in names]
                self._kept.keep(opened, Kept(ground, resources, named, folders), epoch, watched)
        yield from resources

    def _has_second_names(self, step: _Step, names: list[Named], entries: list[Entry]) -> bool:
        """Return whether a file that is listed, or is not because of its size or content, has a second name."""
        if any(entry.state.st_nlink != 1 for entry in entries):
            return True
        listed, judge = {entry.segments[-1] for entry in entries}, self._tree.policy.judge_child
        for _, name, kind in names:
            if kind == "file" and name not in listed and not judge(step.ground, name, is_folder=False).reason:
                try:
                    if step.opened.stat_child(name).st_nlink != 1:
                        return True
                except SandboxError:
                    return True
        return False

    def _files_of(self, step: _Step, pace: Pace) -> Iterator[Entry]:
        """Yield the files of one folder."""
        for key, name, kind in step.names:
            pace.look()
            entry = None if kind == "folder" else self._entry(step, name, kind, step.prefix + key)
            if entry is not None:
                yield entry

    def names(self, folder: Segments = ()) -> list[tuple[str, bool]]:
        """Return the names in a folder in which anything may be listed, each with whether it is a folder."""
        kept = self._kept.find(folder)
        if kept is not None:
            return kept.names
        if not self._is_on_the_way(folder):
            return []
        opened = self._open(folder)
        if opened is None:
            return []
        with opened:
            return [(name, kind == "folder") for _, name, kind in self._names(opened, folder)]

    def close(self) -> None:
        """Keep nothing any more."""
        self._kept.close()

    def folders(self, top: Segments, enter: Callable[[Segments], object] = lambda _: None) -> Iterator[Looked]:
        """Yield a folder, and those below it in which anything may be read; `enter` is called before it looks into it.

        Each comes with when a name in it changed, whether anything in it may be listed, and its names.
        """
        waiting = [(self._ground(top), self._is_on_the_way(top))]
        while waiting:
            ground, is_listed = waiting.pop()
            opened = self._open(ground.segments)
            if opened is not None:
                with opened:
                    enter(ground.segments)
                    names = self._names(opened, ground.segments)
                yield ground.segments, opened.stat.st_mtime_ns, is_listed, names
                for name in (name for _, name, kind in names if kind == "folder"):
                    below = self._tree.policy.enter(ground, name)
                    may_list = self._may_enter(ground, name)
                    if may_list or not below.verdict.reason:
                        waiting.append((below, is_listed and may_list))

    def count(self) -> Census:
        """Count the files, and those that their type leaves out; hidden and ignored ones are not among them."""
        policy, pace = self._tree.policy, Pace()
        files = left_out = looked_at = 0
        waiting = [policy.top()]
        while waiting:
            ground = waiting.pop()
            pace.look(FOLDER_COST)
            opened = self._open(ground.segments)
            if opened is None:
                continue
            with opened:
                names = self._names(opened, ground.segments)
            for _, name, kind in names:
                looked_at = pace.look()
                if kind == "folder" and self._may_enter(ground, name):
                    waiting.append(policy.enter(ground, name))
                elif kind == "file" and policy.is_ordinary(ground, name):
                    files += 1
                    left_out += policy.judge_child(ground, name, is_folder=False).reason == "type"
            if looked_at > MAX_COUNTED_NAMES:
                return Census(files, left_out, bool(waiting))
        return Census(files, left_out, is_cut=False)

    def _is_on_the_way(self, folder: Segments) -> bool:
        """Tell whether anything may be listed in a folder."""
        ground = self._tree.policy.top()
        for name in folder:
            if not self._may_enter(ground, name):
                return False
            ground = self._tree.policy.enter(ground, name)
        return True

    def _ground(self, folder: Segments) -> Ground:
        """Give what holds in a folder now."""
        ground = self._tree.policy.top()
        for name in folder:
            ground = self._tree.policy.enter(ground, name)
        return ground

    def children(self, opened: Opened, segments: Segments, after: str = "", begun: str = "") -> Iterator[Child]:
        """Yield what an open folder shows whose quoted name begins so, in order, after the place `after`."""
        prefix = prefix_of(self._tree.name, segments)
        ground = self._tree.policy.ground(segments).own
        step = _Step(ground, prefix, opened)
        # A link has the place of a file until it is known to lead to a folder: then it waits for its turn.
        waiting: list[tuple[str, Child]] = []
        for key, name, kind in _from(self._names(opened, segments), after, begun):
            while waiting and waiting[0][0] < key:
                yield heappop(waiting)[1]
            child = self._linked(step, key, name) if kind == "link" else self._child(step, key, name, kind)
            if child is None or child.key <= after:
                continue
            if child.key == key:
                yield child
            else:
                heappush(waiting, (child.key, child))
        for _, child in sorted(waiting):
            yield child

    def listed(self, segments: Segments) -> Entry | None:
        """Give the entry of one file as it stands now; None if it is not listed."""
        opened = self._open(segments[:-1]) if segments else None
        if opened is None:
            return None
        with opened:
            ground = self._tree.policy.ground(segments[:-1])
            step = _Step(ground, prefix_of(self._tree.name, segments[:-1]), opened)
            uri = step.prefix + quote(segments[-1])
            kinds_found: tuple[Kind, ...] = ("file", "link")
            return next((entry for kind in kinds_found if (entry := self._entry(step, segments[-1], kind, uri))), None)

    # One folder on the way

    def _below(self, step: _Step, name: str, uri: str, after: str, pace: Pace) -> _Step | None:
        """Go into a folder, if anything in it may be listed."""
        if not self._may_go_below(step.ground, name, uri):
            return None
        pace.look(FOLDER_COST)
        return self._enter(self._tree.policy.enter(step.ground, name), uri, after)

    def _may_go_below(self, ground: Ground, name: str, uri: str) -> bool:
        return len(uri) < MAX_URI_LENGTH and self._may_enter(ground, name)

    def _may_enter(self, ground: Ground, name: str) -> bool:
        policy = self._tree.policy
        return policy.may_list_below(ground, name, policy.judge_child(ground, name, is_folder=True))

    def _enter(self, ground: Ground, prefix: str, after: str) -> _Step | None:
        opened = self._open(ground.segments)
        if opened is None:
            return None
        names = self._names(opened, ground.segments)
        if after.startswith(prefix):
            reached, slash, _ = after[len(prefix) :].partition("/")
            names = names[_place_of(names, reached + slash) :]
        return _Step(ground, prefix, opened, names)

    def _open(self, folder: Segments) -> Opened | None:
        """Open a folder where it lies; one that became a link meanwhile is not entered."""
        try:
            opened = self._tree.root.open(folder)
        except Unreadable:
            self.unreadable.add(folder)
            return None
        except SandboxError:
            self.unreadable.discard(folder)
            return None
        if opened.is_folder and opened.real == folder:
            return opened
        opened.close()
        return None

    def _names(self, opened: Opened, folder: Segments) -> list[Named]:
        """Give the names in a folder that a URI can hold, in order; those of a large one are kept while they hold."""
        state = opened.stat
        now = (state.st_dev, state.st_ino, state.st_mtime_ns, state.st_ctime_ns)
        if self._large[0] == now:
            return self._large[1]
        try:
            found = opened.scan()
        except SandboxError:
            self.unreadable.add(folder)
            return []
        self.unreadable.discard(folder)
        names: list[Named] = [
            (f"{quote(name)}/" if kind == "folder" else quote(name), name, kind)
            for name, kind in found
            if kind != "special" and is_servable(name)
        ]
        names.sort(key=itemgetter(0))
        if len(names) >= LARGE and time_ns() - state.st_ctime_ns > SETTLED_NS:
            self._large = (now, names)
        return names

    # One name in a folder

    def _child(self, step: _Step, key: str, name: str, kind: Kind) -> Child | None:
        if kind == "folder":
            verdict = self._tree.policy.judge_child(step.ground, name, is_folder=True)
            return Child(key, name, None) if self._tree.policy.shows(step.ground, name, verdict) else None
        entry = self._entry(step, name, kind, step.prefix + key)
        return None if entry is None else Child(key, name, entry)

    def _linked(self, step: _Step, key: str, name: str) -> Child | None:
        found = self._follow(step, name, step.prefix + key)
        if found is None:
            return None
        with found.opened as opened:
            if opened.is_folder:
                return Child(f"{key}/", name, None)
            entry = self._of_link(found, step.prefix + key)
            return None if entry is None else Child(key, name, entry)

    def _entry(self, step: _Step, name: str, kind: Kind, uri: str) -> Entry | None:
        """Describe a file, or give None if it is not to be listed."""
        if len(uri) > MAX_URI_LENGTH:
            return None
        if kind == "link":
            found = self._follow(step, name, uri)
            if found is None:
                return None
            with found.opened:
                return self._of_link(found, uri)
        verdict = self._tree.policy.judge_child(step.ground, name, is_folder=False)
        if verdict.reason or not verdict.is_listed:
            return None
        if step.opened.fd < 0:
            reopened = self._open(step.ground.segments)
            if reopened is None:
                return None
            step.opened = reopened
        return self._of_file(step, name, uri, verdict)

    def _of_file(self, step: _Step, name: str, uri: str, verdict: Verdict) -> Entry | None:
        try:
            state = step.opened.stat_child(name)
        except Unreadable:
            self.unreadable.add(step.ground.segments)
            return None
        except SandboxError:
            return None
        if not stat.S_ISREG(state.st_mode) or state.st_size > self._max_listed_bytes:
            return None
        segments = (*step.ground.segments, name)
        known = file_types.known_type(name)
        if known is None:
            return self._of_unknown(segments, uri, verdict, state)
        if verdict.needs_text and not known[1]:
            return None
        return Entry(uri, segments, known[0], state)

    def _of_unknown(self, segments: Segments, uri: str, verdict: Verdict, state: os.stat_result) -> Entry | None:
        """Describe a file whose name tells no type: by its content."""
        sniffed = self._tree.sniffed(state)
        if sniffed is None:
            try:
                with self._tree.root.open(segments) as opened:
                    if opened.is_folder or opened.real != segments:
                        return None
                    sniffed, state = self._tree.sniff(opened), opened.stat
            except SandboxError:
                return None
        if verdict.needs_text and not sniffed.is_text:
            return None
        return Entry(uri, segments, file_types.type_of(segments[-1], is_text=sniffed.is_text), state)

    def _follow(self, step: _Step, name: str, uri: str) -> FoundFile | None:
        """Open what a link leads to, if that may be read and the link is to be shown."""
        try:
            found = self._tree.open_path(uri, (*step.ground.segments, name))
        except (RequestError, SandboxError):
            return None
        verdict = self._tree.policy.judge_child(step.ground, name, is_folder=found.opened.is_folder)
        if verdict.is_listed and not verdict.reason:
            return found
        found.opened.close()
        return None

    def _of_link(self, found: FoundFile, uri: str) -> Entry | None:
        """Describe what a link leads to, if that is a file that is not too large."""
        opened = found.opened
        if opened.is_folder or opened.stat.st_size > self._max_listed_bytes:
            return None
        is_text = self._tree.sniff(opened).kind.is_text
        return Entry(uri, found.segments, file_types.type_of(found.segments[-1], is_text=is_text), opened.stat)


def _describe_by_depth(entry: Entry) -> Resource:
    """Make the entry of a file in a list that goes from shallow to deep."""
    return describe(entry, sort_key=f"{len(entry.segments):04d}{entry.uri}", rank=Rank.FILES)


def describe(entry: Entry, *, sort_key: str = "", rank: Rank | None = None, guaranteed: bool = False) -> Resource:
    """Make the list entry of a file."""
    return Resource(
        entry.uri,
        "/".join(entry.segments),
        "",
        entry.mime_type,
        title=entry.segments[-1],
        annotations=Annotations((), None, entry.state.st_mtime_ns // 1_000_000),
        size=entry.state.st_size,
        sort_key=sort_key,
        rank=rank,
        guaranteed=guaranteed,
    )


def _from(names: list[Named], after: str, begun: str) -> Iterator[Named]:
    """Yield the names that begin so, from the place `after` on; links before it may lead to folders behind it."""
    for end in range(1, len(after)):
        at = _place_of(names, after[:end])
        if at < len(names) and names[at][2] == "link" and names[at][0] == after[:end] and after.startswith(begun):
            yield names[at]
    for named in islice(names, _place_of(names, max(after, begun)), None):
        if not named[0].startswith(begun):
            break
        yield named


def _place_of(names: list[Named], key: str) -> int:
    return bisect_left(names, key, key=itemgetter(0))


def _holds(folder: str, after: str, begins: str) -> bool:
    """Tell whether a folder, by its URI with a closing `/`, can hold what comes after `after` and begins so."""
    if not (folder.startswith(begins) or begins.startswith(folder)):
        return False
    return folder > after or after.startswith(folder)
