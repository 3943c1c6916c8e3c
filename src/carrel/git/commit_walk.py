"""Walk the commits from one backwards, by date: all of them, or those that changed a path.

The order and the choice are those of `git log` and `git log -- path`: of a merge that took the path from one side, only
that side is followed. A walk can be continued later from `place`: the last commit from which all remaining commits can
be reached, and the number of commits yielded since.
"""

import heapq
from collections.abc import Iterator

from carrel.git.history import Commit, Entry, History
from carrel.git.objects import Id


class CommitWalk:
    """A walk through the history; iterate over it once."""

    def __init__(self, history: History, start: Id, path: tuple[bytes, ...] | None = None) -> None:
        self._history = history
        self._path = path
        self._queue: list[tuple[int, int, Id]] = []
        self._seen: set[Id] = set()
        self._entries: dict[Id, Entry | None] = {}
        self._count = 0
        self.place = (start, 0)
        """The commit at which another walk continues, and how many commits it skips, to yield the remaining ones."""
        self.ends: list[Id] = []
        """The visited commits at which a shallow clone ends."""
        self._push(start)

    def __iter__(self) -> Iterator[Commit]:
        while self._queue:
            if len(self._queue) == 1:
                self.place = (self._queue[0][2], 0)
            name = heapq.heappop(self._queue)[2]
            self._history.check_time()
            if self._history.is_cut(name):
                self.ends.append(name)
            if self._visit(name):
                commit = self._history.commit(name)  # the time may be up here, and then it is not among the yielded
                self.place = (self.place[0], self.place[1] + 1)
                yield commit

    @property
    def following(self) -> tuple[Id, int] | None:
        """The commit at which the next walk begins, and how many commits it skips; None if nothing is left."""
        if not self._queue:
            return None
        return (self._queue[0][2], 0) if len(self._queue) == 1 else self.place

    def _push(self, name: Id) -> None:
        if name not in self._seen:
            self._seen.add(name)
            self._count += 1  # of two commits with the same time, the one that was found first
            # Without a path every commit is shown, and read as a whole at once.
            read = self._history.commit if self._path is None else self._history.links
            heapq.heappush(self._queue, (-read(name).time, self._count, name))

    def _visit(self, name: Id) -> bool:
        """Queue the parents that are followed; return whether the walk yields this commit."""
        if self._path is None:
            is_asked, followed = True, self._history.commit(name).parents
        else:
            is_asked, followed = self._compare(name, self._path)
        for parent in followed:
            self._push(parent)
        return is_asked

    def _compare(self, name: Id, path: tuple[bytes, ...]) -> tuple[bool, tuple[Id, ...]]:
        history = self._history
        commit = history.links(name)
        mine = self._entries.pop(name) if name in self._entries else history.entry(commit.tree, path)
        if not commit.parents:
            return mine is not None, ()
        for parent in commit.parents:
            if parent not in self._entries:
                self._entries[parent] = history.entry(history.links(parent).tree, path)
            if self._entries[parent] == mine:
                return False, (parent,)
        return True, commit.parents
