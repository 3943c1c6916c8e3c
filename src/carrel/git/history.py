"""Commits and what they hold: which came last, and whether one of them changed a file."""

import heapq
from collections.abc import Iterable
from typing import Final

from carrel.core.record import Value
from carrel.files.sandbox import SandboxError
from carrel.git.discovery import GitFolder, read_text
from carrel.git.objects import COMMIT, TREE, Id, Objects, Unknown

MAX_SUBJECT: Final = 300
MAX_COMMIT_BYTES: Final = 1_048_576
MAX_TREE_BYTES: Final = 4 * 1_048_576
_KEPT_TREES: Final = 256
_KEPT_TREE_BYTES: Final = 65_536
_MAX_SHALLOW: Final = 1_048_576

Entry = tuple[int, Id]
"""The mode and the name of a file or a folder in a tree."""


class Commit(Value, frozen=True):
    """What is needed of a commit."""

    id: Id
    tree: Id
    parents: tuple[Id, ...]
    time: int
    subject: str


class History:
    """The commits of one repository, each read once."""

    def __init__(self, folder: GitFolder, objects: Objects) -> None:
        self._objects = objects
        self._commits: dict[Id, Commit] = {}
        self._trees: dict[Id, dict[bytes, Entry]] = {}
        self._shallow = _shallow(folder)

    def commit(self, name: Id) -> Commit:
        """Return a commit; raise `Unknown` if it is not here."""
        known = self._commits.get(name)
        if known is None:
            kind, data = self._objects.read(name)
            if kind != COMMIT or len(data) > MAX_COMMIT_BYTES:
                raise Unknown("not a commit, or too large")
            known = self._commits[name] = _parsed(name, data, has_parents=name not in self._shallow)
        return known

    def tree(self, name: Id) -> dict[bytes, Entry]:
        """Return what a folder of a commit holds, by name."""
        from dulwich.objects import parse_tree

        known = self._trees.get(name)
        if known is None:
            kind, data = self._objects.read(name)
            if kind != TREE:
                raise Unknown("not a tree")
            if len(data) > MAX_TREE_BYTES:
                raise Unknown("too large")
            known = {entry: (mode, one) for entry, mode, one in parse_tree(data, len(name) // 2)}
            if len(data) <= _KEPT_TREE_BYTES:
                if len(self._trees) >= _KEPT_TREES:
                    self._trees.clear()
                self._trees[name] = known
        return known

    def entry(self, commit: Commit, way: Iterable[bytes]) -> Entry | None:
        """Return what a commit has at a path; None if there is nothing."""
        found: Entry | None = (0o040000, commit.tree)
        for name in way:
            if found is None or not _is_folder(found):
                return None
            found = self.tree(found[1]).get(name)
        return found

    def newest(self, head: Id, count: int) -> list[Commit]:
        """Return the last commits before and with this one, by date."""
        first = self.commit(head)
        queue, seen, found = [(-first.time, head)], {head}, list[Commit]()
        while queue and len(found) < count:
            found.append(self.commit(heapq.heappop(queue)[1]))
            for parent in found[-1].parents:
                if parent not in seen:
                    seen.add(parent)
                    heapq.heappush(queue, (-self.commit(parent).time, parent))
        return found

    def has_changed(self, base: Id, head: Id, way: tuple[bytes, ...]) -> bool:
        """Return whether a commit after `base`, up to `head`, changed what is at a path.

        As `git log base..head -- path` does, a merge that took the path as it was from one side is followed there.
        """
        differs = self.entry(self.commit(base), way) != self.entry(self.commit(head), way)
        try:
            return self._is_touched(self._since(base, head), head, way)
        except Unknown:
            return differs  # the way between them is too long, or not all here

    def _is_touched(self, since: set[Id], head: Id, way: tuple[bytes, ...]) -> bool:
        name = head
        while name in since:
            self._objects.deadline.check()  # names are not verified, so a stranger's commits may go in circles
            commit = self.commit(name)
            mine = self.entry(commit, way)
            if not commit.parents:
                return mine is not None
            same = next((one for one in commit.parents if self.entry(self.commit(one), way) == mine), None)
            if same is None:
                return True
            name = same
        return False

    def _since(self, base: Id, head: Id) -> set[Id]:
        """Return the commits that lead to `head` and not to `base`."""
        wanted, unwanted = {head} - {base}, {base}
        waiting = set(wanted)
        queue = [(-self.commit(name).time, name) for name in {head, base}]
        heapq.heapify(queue)
        oldest = self.commit(head).time
        # Those to leave out are followed as far back as any that is wanted: a parent may be as young as its child.
        while waiting or (queue and -queue[0][0] >= oldest):
            commit = self.commit(heapq.heappop(queue)[1])
            waiting.discard(commit.id)
            is_wanted = commit.id in wanted
            oldest = min(oldest, commit.time) if is_wanted else oldest
            for parent in commit.parents:
                if parent in unwanted or (is_wanted and parent in wanted):
                    continue
                if is_wanted:
                    wanted.add(parent)
                    waiting.add(parent)
                else:  # also where it was wanted so far: those before it are looked at again
                    wanted.discard(parent)
                    waiting.discard(parent)
                    unwanted.add(parent)
                heapq.heappush(queue, (-self.commit(parent).time, parent))
        return wanted


def _is_folder(entry: Entry) -> bool:
    return entry[0] & 0o170000 == 0o040000


def _parsed(name: Id, data: bytes, *, has_parents: bool) -> Commit:
    from dulwich.objects import Commit as Parsed

    parsed = Parsed.from_string(data)
    encoding = (parsed.encoding or b"utf-8").decode("ascii", "replace")
    try:
        message = parsed.message.decode(encoding, "replace")
    except LookupError:
        message = parsed.message.decode(errors="replace")
    subject = " ".join(message.strip().partition("\n\n")[0].split("\n"))
    parents = tuple(parsed.parents) if has_parents else ()
    return Commit(name, parsed.tree, parents, int(parsed.commit_time), subject[:MAX_SUBJECT])


def _shallow(folder: GitFolder) -> frozenset[Id]:
    """Return the commits of a shallow clone whose parents were left behind."""
    try:
        text = read_text(folder.shared, ("shallow",), _MAX_SHALLOW)
    except SandboxError:
        return frozenset()
    return frozenset(line.strip().encode(errors="replace") for line in text.split("\n") if line.strip())
