"""The files of a tree in the order of their URIs, found lazily; and the children of one folder.

Only folders that a page needs are read, and only those from the root to the current one are held. Siblings are sorted
by their quoted name, folders with a closing `/`, so depth-first order is URI order, and a folder that sorts before the
requested position is skipped unread.
"""

import os
import stat
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterable, Iterator
from heapq import heappop, heappush
from itertools import islice
from operator import itemgetter
from typing import Final

from carrel.core.cancellation import check_cancelled
from carrel.core.errors import RequestError
from carrel.core.limits import MAX_URI_LENGTH
from carrel.core.model import Annotations, Rank, Resource
from carrel.core.record import Value
from carrel.core.uri import quote
from carrel.files import file_types
from carrel.files.sandbox import FileState, Kind, Opened, SandboxError, Unreadable, is_settled, state_of
from carrel.providers.workspace.ignore_rules import Segments
from carrel.providers.workspace.kept_folders import Below, Kept, KeptFolders
from carrel.providers.workspace.paths import canonical, prefix_of
from carrel.providers.workspace.policy import FolderRules, Verdict
from carrel.providers.workspace.tree import FoundFile, Tree, is_servable

MAX_OPEN: Final = 64
"""Maximum number of open folders in one walk; those above are opened again when needed."""

LARGE: Final = 2_000
"""Number of names from which a folder is not read again for each of its pages."""

MAX_COUNTED_NAMES: Final = 20_000
"""Maximum number of names that are visited to count the files that are left out."""

FOLDER_COST: Final = 4
"""The cost of opening a folder, in names."""

_LOOK_UP_AFTER: Final = 256
"""Names between two checks whether the request was cancelled."""

Named = tuple[str, str, Kind]
"""Quoted name, with a closing `/` for a folder; name; kind."""

Looked = tuple[FolderRules, int, bool, list[Named]]
"""The rules of a folder, when a name in it last changed, whether anything in it may be listed, and its names."""


class Entry(Value, frozen=True, gc=False):
    """A listed file: its state, and its type by name, or by content if the name is unknown; of a link, its target."""

    uri: str
    segments: Segments
    mime_type: str
    state: os.stat_result
    target: str = ""


class Child(Value, frozen=True):
    """A child of a folder: a file with its entry, or a folder without. `key` is its sort key, the quoted name.

    `target` is the URI that a link to a folder leads to.
    """

    key: str
    name: str
    entry: Entry | None
    target: str = ""


class LookedFolder(Value, frozen=True):
    """The content of a folder now: its files by name, and the folders in it.

    `loose` are the names of files that may change without an event of this folder: links, and files with a second name.
    """

    rules: FolderRules
    files: dict[str, Entry]
    below: list[Below]
    loose: frozenset[str]


class _Step:
    """A folder between the root and the current position."""

    __slots__ = ("names", "opened", "prefix", "rules")

    def __init__(self, rules: FolderRules, prefix: str, opened: Opened, names: Iterable[Named] = ()) -> None:
        self.rules = rules
        self.prefix = prefix
        self.opened = opened
        self.names = iter(names)


class Pace:
    """Counts the names that one walk visits, and stops it when the request is cancelled."""

    __slots__ = ("_check_at", "_looked_at")

    def __init__(self) -> None:
        self._looked_at = 0
        self._check_at = _LOOK_UP_AFTER

    def look(self, names: int = 1) -> int:
        """Count names, and return the sum so far; raise if the request was cancelled."""
        self._looked_at += names
        if self._looked_at >= self._check_at:
            self._check_at = self._looked_at + _LOOK_UP_AFTER
            check_cancelled()
        return self._looked_at


class Census(Value, frozen=True):
    """The number of files in listed folders, and how many of them are left out because of their type.

    With `is_cut`, there are more that were not counted.
    """

    files: int
    left_out: int
    is_cut: bool


class Listing:
    """Lists one tree; `unreadable` are the folders that it could not read."""

    def __init__(self, tree: Tree, max_listed_bytes: int) -> None:
        self._tree = tree
        self._max_listed_bytes = max_listed_bytes
        self._large: tuple[FileState, list[Named]] = ((), [])
        self._kept = KeptFolders(tree.root)
        self.unreadable: set[Segments] = set()

    def files(self, after: str = "", folder: Segments = (), begins: str = "") -> Iterator[Entry]:
        """Yield the files below a folder whose URI starts with `begins` and sorts after `after`, in order."""
        prefix = prefix_of(self._tree.name, folder)
        first = self._enter(self._find(folder)[0], prefix, after) if _holds(prefix, after, begins) else None
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
        """Yield the files of a folder; return the next folder in it to enter, or None at its end."""
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

        A folder is read only when its files are needed, so a caller that needs a few files does not wait for the tree.
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

    def compare(self) -> FolderRules:
        """Drop the kept folders if the rules of the root changed; return the rules."""
        top = self._tree.policy.top()
        self._kept.compare(top.chain, self._tree.policy.tracked())
        return top

    def _look_into(
        self, above: FolderRules, segments: Segments, prefix: str, below: list[Below], epoch: int, pace: Pace
    ) -> Iterator[Resource]:
        """Yield the files of one folder; add the folders in it to `below`. Keep it, if it can be kept."""
        pace.look(FOLDER_COST)
        opened = self._open(segments)
        if opened is None:
            return
        with opened:
            watched = self._kept.watch(opened, segments, epoch)
            rules = self._tree.policy.enter(above, segments[-1]) if segments else above
            names = self._names(opened, segments)
            step = _Step(rules, prefix, opened, names)
            folders = [(rules, name, prefix + key) for key, name, kind in names if kind == "folder"]
            below += folders
            if watched is None or len(names) >= LARGE:
                yield from map(_describe_by_depth, self._files_of(step, pace))
                return
            entries = list(self._files_of(step, pace))
            resources = list(map(_describe_by_depth, entries))
            if all(kind != "link" for _, _, kind in names) and not self._has_second_names(step, names, entries):
                named = [(name, kind == "folder") for _, name, kind in names]
                self._kept.keep(opened, Kept(rules, resources, named, folders), epoch, watched)
        yield from resources

    def _has_second_names(self, step: _Step, names: list[Named], entries: list[Entry]) -> bool:
        """Return whether a file that is listed, or is not because of its size or content, has a second name."""
        if any(entry.state.st_nlink != 1 for entry in entries):
            return True
        listed, judge = {entry.segments[-1] for entry in entries}, self._tree.policy.judge_child
        for _, name, kind in names:
            if kind == "file" and name not in listed and not judge(step.rules, name, is_folder=False).reason:
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

    def look_into(
        self, above: FolderRules, segments: Segments, prefix: str, enter: Callable[[Opened], object]
    ) -> LookedFolder | None:
        """Return the content of a folder now, or None if nothing in it is listed; `enter` is called before it is read.

        `above` are the rules of the folder above it; for the root, its own.
        """
        if segments and not self._may_go_below(above, segments[-1], prefix):
            return None
        opened = self._open(segments)
        if opened is None:
            return None
        with opened:
            enter(opened)
            rules = self._tree.policy.enter(above, segments[-1]) if segments else above
            names = self._names(opened, segments)
            step, files = _Step(rules, prefix, opened, names), {}
            for entry in self._files_of(step, Pace()):
                files[entry.segments[-1]] = entry
        links = {name for _, name, kind in names if kind == "link"}
        loose = links | {name for name, entry in files.items() if entry.state.st_nlink != 1}
        below = [(rules, name, prefix + key) for key, name, kind in names if kind == "folder"]
        return LookedFolder(rules, files, below, frozenset(loose))

    def look_at(self, rules: FolderRules, prefix: str, names: Iterable[str]) -> dict[str, tuple[Entry | None, bool]]:
        """Return the entries of names in a folder as they are now, each with whether it is a link.

        The entry is None if the name is not listed, or not a file.
        """
        opened = self._open(rules.segments)
        if opened is None:
            return dict.fromkeys(names, (None, False))
        with opened:
            step, found = _Step(rules, prefix, opened), {}
            for name in names:
                is_link = _is_link(opened, name)
                entry = self._entry(step, name, "link" if is_link else "file", prefix + quote(name))
                found[name] = (entry, is_link)
            return found

    def names(self, folder: Segments = ()) -> list[tuple[str, bool]]:
        """Return the names in a folder in which anything may be listed, each with whether it is a folder."""
        kept = self._kept.find(folder)
        if kept is not None:
            return kept.names
        opened = self._open(folder) if self._find(folder)[1] else None
        if opened is None:
            return []
        with opened:
            return [(name, kind == "folder") for _, name, kind in self._names(opened, folder)]

    def close(self) -> None:
        """Drop the kept folders, and keep none from now on."""
        self._kept.close()

    def folders(
        self, top: Segments, enter: Callable[[Segments], object] = lambda _: None, *, only_listed: bool = False
    ) -> Iterator[Looked]:
        """Yield a folder, and those below it in which anything may be read, or only those with listed files.

        `enter` is called before each is read.
        """
        waiting = [self._find(top)]
        while waiting:
            rules, is_listed = waiting.pop()
            opened = self._open(rules.segments)
            if opened is not None:
                with opened:
                    enter(rules.segments)
                    names = self._names(opened, rules.segments)
                yield rules, opened.stat.st_mtime_ns, is_listed, names
                for name in (name for _, name, kind in names if kind == "folder"):
                    may_list = self._tree.policy.may_list_below(rules, name)
                    if may_list or not only_listed:
                        below = self._tree.policy.enter(rules, name)
                        if may_list or not below.verdict.reason:
                            waiting.append((below, is_listed and may_list))

    def count(self) -> Census:
        """Count the files, and those that are left out because of their type; hidden and ignored ones do not count."""
        policy, pace = self._tree.policy, Pace()
        files = left_out = 0
        folders = self.folders((), only_listed=True)
        for rules, _, _, names in folders:
            looked_at = pace.look(FOLDER_COST + len(names))
            for _, name, kind in names:
                if kind == "file" and policy.is_ordinary(rules, name):
                    files += 1
                    left_out += policy.judge_child(rules, name, is_folder=False).reason == "type"
            if looked_at > MAX_COUNTED_NAMES:
                return Census(files, left_out, is_cut=next(folders, None) is not None)
        return Census(files, left_out, is_cut=False)

    def _find(self, folder: Segments) -> tuple[FolderRules, bool]:
        """Return the rules of a folder as they are now, and whether anything in it may be listed."""
        rules, is_listed = self._tree.policy.top(), True
        for name in folder:
            is_listed = is_listed and self._tree.policy.may_list_below(rules, name)
            rules = self._tree.policy.enter(rules, name)
        return rules, is_listed

    def children(self, opened: Opened, segments: Segments, after: str = "", begun: str = "") -> Iterator[Child]:
        """Yield the children of an open folder after the sort key `after` whose quoted name starts with `begun`."""
        prefix = prefix_of(self._tree.name, segments)
        rules = self._tree.policy.rules_of(segments).own
        step = _Step(rules, prefix, opened)
        # A link sorts as a file until it is known to lead to a folder, which sorts later: then it waits.
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
        """Return the entry of one file as it is now; None if it is not listed."""
        opened = self._open(segments[:-1]) if segments else None
        if opened is None:
            return None
        with opened:
            rules = self._tree.policy.rules_of(segments[:-1])
            step = _Step(rules, prefix_of(self._tree.name, segments[:-1]), opened)
            uri = step.prefix + quote(segments[-1])
            kinds_found: tuple[Kind, ...] = ("file", "link")
            return next((entry for kind in kinds_found if (entry := self._entry(step, segments[-1], kind, uri))), None)

    def head_of(self, entry: Entry, most: int) -> bytes:
        """Return the first bytes of a listed file; none if it cannot be opened any more."""
        try:
            with self._tree.open_path(entry.uri, entry.segments).opened as opened:
                return b"" if opened.is_folder else opened.read(0, most)
        except (RequestError, SandboxError):
            return b""

    # One folder

    def _below(self, step: _Step, name: str, uri: str, after: str, pace: Pace) -> _Step | None:
        """Enter a folder; None if nothing in it may be listed."""
        if not self._may_go_below(step.rules, name, uri):
            return None
        pace.look(FOLDER_COST)
        return self._enter(self._tree.policy.enter(step.rules, name), uri, after)

    def _may_go_below(self, rules: FolderRules, name: str, uri: str) -> bool:
        return len(uri) < MAX_URI_LENGTH and self._tree.policy.may_list_below(rules, name)

    def _enter(self, rules: FolderRules, prefix: str, after: str) -> _Step | None:
        opened = self._open(rules.segments)
        if opened is None:
            return None
        names = self._names(opened, rules.segments)
        if after.startswith(prefix):
            reached, slash, _ = after[len(prefix) :].partition("/")
            names = names[_place_of(names, reached + slash) :]
        return _Step(rules, prefix, opened, names)

    def _open(self, folder: Segments) -> Opened | None:
        """Open a folder; None if it cannot be opened, or became a link meanwhile."""
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
        """Return the names in a folder that a URI can contain, in order; those of one large folder are cached."""
        state = state_of(opened.stat)
        if self._large[0] == state:
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
        if len(names) >= LARGE and is_settled(opened.stat):
            self._large = (state, names)
        return names

    # One name in a folder

    def _child(self, step: _Step, key: str, name: str, kind: Kind) -> Child | None:
        if kind == "folder":
            return Child(key, name, None) if self._tree.policy.shows(step.rules, name) else None
        entry = self._entry(step, name, kind, step.prefix + key)
        return None if entry is None else Child(key, name, entry)

    def _linked(self, step: _Step, key: str, name: str) -> Child | None:
        found = self._follow(step, name, step.prefix + key)
        if found is None:
            return None
        with found.opened as opened:
            if opened.is_folder:
                return Child(f"{key}/", name, None, canonical(self._tree.name, opened.real))
            entry = self._of_link(found, step.prefix + key)
            return None if entry is None else Child(key, name, entry)

    def _entry(self, step: _Step, name: str, kind: Kind, uri: str) -> Entry | None:
        """Return the entry of a file; None if it is not listed."""
        if len(uri) > MAX_URI_LENGTH:
            return None
        if kind == "link":
            found = self._follow(step, name, uri)
            if found is None:
                return None
            with found.opened:
                return self._of_link(found, uri)
        verdict = self._tree.policy.judge_child(step.rules, name, is_folder=False)
        if verdict.reason or not verdict.is_listed:
            return None
        if step.opened.fd < 0:
            reopened = self._open(step.rules.segments)
            if reopened is None:
                return None
            step.opened = reopened
        return self._of_file(step, name, uri, verdict)

    def _of_file(self, step: _Step, name: str, uri: str, verdict: Verdict) -> Entry | None:
        try:
            state = step.opened.stat_child(name)
        except Unreadable:
            self.unreadable.add(step.rules.segments)
            return None
        except SandboxError:
            return None
        if not stat.S_ISREG(state.st_mode) or state.st_size > self._max_listed_bytes:
            return None
        segments = (*step.rules.segments, name)
        known = file_types.known_type(name)
        if known is None:
            return self._of_unknown(segments, uri, verdict, state)
        if verdict.needs_text and not known[1]:
            return None
        return Entry(uri, segments, known[0], state)

    def _of_unknown(self, segments: Segments, uri: str, verdict: Verdict, state: os.stat_result) -> Entry | None:
        """Return the entry of a file whose type depends on its content."""
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
        """Open the target of a link; None if it may not be read, or if the link is not listed."""
        try:
            found = self._tree.open_path(uri, (*step.rules.segments, name))
        except (RequestError, SandboxError):
            return None
        verdict = self._tree.policy.judge_child(step.rules, name, is_folder=found.opened.is_folder)
        if verdict.is_listed and not verdict.reason:
            return found
        found.opened.close()
        return None

    def _of_link(self, found: FoundFile, uri: str) -> Entry | None:
        """Return the entry of a link to a file; None if it is too large, or a folder."""
        opened = found.opened
        if opened.is_folder or opened.stat.st_size > self._max_listed_bytes:
            return None
        mime_type = file_types.type_of(found.segments[-1], is_text=self._tree.sniff(opened).kind.is_text)
        return Entry(uri, found.segments, mime_type, opened.stat, canonical(self._tree.name, opened.real))


def _is_link(opened: Opened, name: str) -> bool:
    try:
        return stat.S_ISLNK(opened.stat_child(name).st_mode)
    except SandboxError:
        return False


def _describe_by_depth(entry: Entry) -> Resource:
    """Return the resource of a file in a list that is sorted from shallow to deep."""
    return describe(entry, sort_key=f"{len(entry.segments):04d}{entry.uri}", rank=Rank.FILES)


def describe(entry: Entry, *, sort_key: str = "", rank: Rank | None = None, guaranteed: bool = False) -> Resource:
    """Return the resource of a file."""
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
        target=entry.target,
    )


def _from(names: list[Named], after: str, begun: str) -> Iterator[Named]:
    """Yield the names from `after` on that start with `begun`; earlier links may be folders that sort after it."""
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
    """Return whether a folder, given by its URI with a closing `/`, can contain URIs after `after` that match."""
    if not (folder.startswith(begins) or begins.startswith(folder)):
        return False
    return folder > after or after.startswith(folder)
