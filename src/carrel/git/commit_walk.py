"""Commits from one backwards, by date: all of them, or those that changed a path.

The order and the choice are those of `git log` and `git log -- path`: of a merge that took the path from one side, only
that side is followed. A walk can be continued later from `place`: the last commit that all the rest followed from, and
the number of commits given since.
"""

import heapq
from collections.abc import Iterator

from carrel.git.history import Commit, History
from carrel.git.objects import Id


class CommitWalk:
    """A walk through the history; iterate over it once."""

    def __init__(self, history: History, start: Id, path: tuple[bytes, ...] | None = None) -> None:
        self._history = history
        self._path = path
        self._queue: list[tuple[int, int, Id]] = []
        self._seen: set[Id] = set()
        self._count = 0
        self.place = (start, 0)
        """Where another walk continues, and how many commits it skips, to give what this one has not given yet."""
        self._push(start)

    def __iter__(self) -> Iterator[Commit]:
        while self._queue:
            if len(self._queue) == 1:
                self.place = (self._queue[0][2], 0)
            commit = self._history.commit(heapq.heappop(self._queue)[2])
            self._history.check_time()
            if self._visit(commit):
                self.place = (self.place[0], self.place[1] + 1)
                yield commit

    @property
    def following(self) -> tuple[Id, int] | None:
        """Where the next walk begins and how many commits it skips; None if nothing is left."""
        if not self._queue:
            return None
        return (self._queue[0][2], 0) if len(self._queue) == 1 else self.place

    def _push(self, name: Id) -> None:
        if name not in self._seen:
            self._seen.add(name)
            self._count += 1  # of two commits with the same time, the one that was found first
            heapq.heappush(self._queue, (-self._history.commit(name).time, self._count, name))

    def _visit(self, commit: Commit) -> bool:
        """Queue the parents that are followed; return whether the commit is one of those asked for."""
        if self._path is None:
            is_asked, followed = True, commit.parents
        else:
            is_asked, followed = self._compare(commit, self._path)
        for parent in followed:
            self._push(parent)
        return is_asked

    def _compare(self, commit: Commit, path: tuple[bytes, ...]) -> tuple[bool, tuple[Id, ...]]:
        history = self._history
        mine = history.entry(commit, path)
        if not commit.parents:
            return mine is not None, ()
        for parent in commit.parents:
            if history.entry(history.commit(parent), path) == mine:
                return False, (parent,)
        return True, commit.parents
