"""Find the commit that each line of a file comes from, as `git blame` does without its search for renames."""

import heapq
from typing import Final

from carrel.core.record import Value
from carrel.git.history import KIND, CommitLinks, Entry, History
from carrel.git.line_diff import equal_runs
from carrel.git.objects import Id, Objects, TimeUp, Unknown
from carrel.git.patches import LINK, SUBMODULE, content_of, split_lines

MAX_LINES: Final = 50_000
_KEPT_VERSIONS: Final = 8

Numbers = dict[int, int]
"""Lines whose origin is searched: each line's number in the requested file, and in one version of that file."""


class Origin(Value, frozen=True):
    """The commit that a line comes from; with `is_older`, that commit or an unknown one before it."""

    commit: Id
    is_older: bool = False


class TooManyLines(Unknown):
    """A version of the file has more lines than are compared."""


class Blame:
    """The origins of the lines of one file at one commit."""

    def __init__(self, history: History, objects: Objects, path: tuple[bytes, ...]) -> None:
        self._history = history
        self._objects = objects
        self._path = path
        self._versions: dict[Id, list[bytes]] = {}
        self._waiting: dict[Id, Numbers] = {}
        self._queue: list[tuple[int, Id]] = []
        self._origins: dict[int, Origin] = {}

    def lines(self, commit: Id) -> tuple[list[bytes], list[Origin]]:
        """Return the lines of the file, and where each comes from."""
        entry = self._history.entry(self._history.commit(commit).tree, self._path)
        if entry is None or entry[0] & KIND in (LINK, SUBMODULE):
            raise Unknown("not a file")
        lines = self._version(entry)
        self._pass_on(commit, {number: number for number in range(len(lines))})
        try:
            while self._queue:
                self._settle(heapq.heappop(self._queue)[1])
        except TimeUp:
            self._history.limit_time()
            for name, numbers in self._waiting.items():
                self._blame(Origin(name, is_older=True), numbers)
        return lines, [self._origins.get(number, Origin(commit, is_older=True)) for number in range(len(lines))]

    def _settle(self, name: Id) -> None:
        """Pass the lines of a commit on to the parents that have them; the remaining lines come from this commit."""
        self._history.check_time()  # hashes are not verified, so hostile commits may form a cycle
        numbers = self._waiting[name]
        commit = self._history.links(name)
        entry = self._history.entry(commit.tree, self._path)
        if entry is None:
            raise Unknown("not a file")
        before = self._before(commit)
        same = next((parent for parent, was in before if was == entry or was[1] == entry[1]), None)
        if same is not None:
            del self._waiting[name]
            self._pass_on(same, numbers)
            return
        handed: list[tuple[Id, Numbers]] = []
        is_older = self._history.is_cut(name)
        for parent, was in before:
            if numbers:
                try:
                    passed = self._shared_lines(was, entry, numbers)
                except TooManyLines:
                    is_older = True
                    continue
                handed.append((parent, passed))
                numbers = {asked: mine for asked, mine in numbers.items() if asked not in passed}
        del self._waiting[name]
        self._blame(Origin(name, is_older), numbers)
        for parent, passed in handed:
            self._pass_on(parent, passed)

    def _before(self, commit: CommitLinks) -> list[tuple[Id, Entry]]:
        found = []
        for parent in commit.parents:
            entry = self._history.entry(self._history.links(parent).tree, self._path)
            if entry is not None and entry[0] & KIND not in (LINK, SUBMODULE):
                found.append((parent, entry))
        return found

    def _shared_lines(self, was: Entry, now: Entry, numbers: Numbers) -> Numbers:
        old, new = self._version(was), self._version(now)
        runs = equal_runs(old, new, self._history.check_time)
        places = {j + step: i + step for i, j, count in runs for step in range(count)}
        return {asked: places[mine] for asked, mine in numbers.items() if mine in places}

    def _pass_on(self, name: Id, numbers: Numbers) -> None:
        if not numbers:
            return
        waiting = self._waiting.get(name)
        if waiting is None:
            self._waiting[name] = dict(numbers)
            heapq.heappush(self._queue, (-self._history.links(name).time, name))
        else:
            waiting.update(numbers)

    def _blame(self, origin: Origin, numbers: Numbers) -> None:
        for asked in numbers:
            self._origins[asked] = origin

    def _version(self, entry: Entry) -> list[bytes]:
        known = self._versions.get(entry[1])
        if known is None:
            if len(self._versions) >= _KEPT_VERSIONS:
                self._versions.clear()
            data = content_of(self._objects, entry) or b""
            if data.count(b"\n") > MAX_LINES:
                raise TooManyLines("too many lines")
            known = self._versions[entry[1]] = split_lines(data)
        return known
