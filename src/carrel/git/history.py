"""Commits: the one that is checked out, the newest ones, and whether one of them changed a file."""

import heapq
import re
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
_MAX_REF: Final = 4_096
_MAX_PACKED_REFS: Final = 32 * 1_048_576
_MAX_SYMBOLIC_REFS: Final = 5
_SYMBOLIC: Final = "ref: "
_NAME: Final = r"[0-9a-f]{40}(?:[0-9a-f]{24})?"

FOLDER: Final = 0o040000
KIND: Final = 0o170000
"""The part of a mode that says what an entry is."""

Entry = tuple[int, Id]
"""The mode and the name of a file or a folder in a tree."""


def read_head(folder: GitFolder) -> tuple[str, Id]:
    """Return the branch (`HEAD` if none is checked out) and the commit; raise `Unknown` if there is none."""
    text = read_text(folder.own, ("HEAD",), _MAX_REF).strip()
    branch = text.removeprefix(_SYMBOLIC).strip().removeprefix("refs/heads/") if text.startswith(_SYMBOLIC) else "HEAD"
    for _ in range(_MAX_SYMBOLIC_REFS):
        if not text.startswith(_SYMBOLIC):
            if not re.fullmatch(_NAME, text):
                raise Unknown("not a commit")
            return branch, text.encode()
        text = _read_ref(folder, text.removeprefix(_SYMBOLIC).strip())
    raise Unknown("too many symbolic refs")


def _read_ref(folder: GitFolder, name: str) -> str:
    segments = tuple(name.split("/"))
    if segments[0] != "refs" or any(part in ("", ".", "..") or part.startswith(".") for part in segments):
        raise Unknown("not the name of a ref")
    try:
        return read_text(folder.shared, segments, _MAX_REF).strip()
    except SandboxError:
        return _read_packed(folder, name)


def _read_packed(folder: GitFolder, name: str) -> str:
    line = re.compile(rf"^({_NAME}) {re.escape(name)}$".encode(errors="surrogateescape"), re.MULTILINE)
    with folder.shared.open(("packed-refs",)) as opened:
        found = None if opened.is_folder else line.search(opened.read(0, _MAX_PACKED_REFS))
    if found is None:
        raise Unknown("no such ref")
    return found[1].decode()


class Commit(Value, frozen=True):
    """The facts of a commit that are needed here."""

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
        """Return a commit; raise `Unknown` if the repository does not have it."""
        known = self._commits.get(name)
        if known is None:
            kind, data = self._objects.read(name)
            if kind != COMMIT or len(data) > MAX_COMMIT_BYTES:
                raise Unknown("not a commit, or too large")
            known = self._commits[name] = _parsed(name, data, has_parents=name not in self._shallow)
        return known

    def tree(self, name: Id) -> dict[bytes, Entry]:
        """Return the entries of a folder in a commit, by name."""
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

    def entry(self, commit: Commit, path: Iterable[bytes]) -> Entry | None:
        """Return what a commit has at a path; None if there is nothing."""
        found: Entry | None = (FOLDER, commit.tree)
        for name in path:
            if found is None or found[0] & KIND != FOLDER:
                return None
            found = self.tree(found[1]).get(name)
        return found

    def newest(self, head: Id, count: int) -> list[Commit]:
        """Return the newest commits up to this one, by date."""
        first = self.commit(head)
        queue, seen, found = [(-first.time, head)], {head}, list[Commit]()
        while queue and len(found) < count:
            found.append(self.commit(heapq.heappop(queue)[1]))
            for parent in found[-1].parents:
                if parent not in seen:
                    seen.add(parent)
                    heapq.heappush(queue, (-self.commit(parent).time, parent))
        return found

    def has_changed(self, base: Id, head: Id, path: tuple[bytes, ...]) -> bool:
        """Return whether a commit after `base`, up to `head`, changed what is at a path.

        As with `git log base..head -- path`, of a merge that took the path from one side only that side is followed.
        """
        differs = self.entry(self.commit(base), path) != self.entry(self.commit(head), path)
        try:
            return self._is_touched(self._since(base, head), head, path)
        except Unknown:
            return differs  # the history between them is too long, or incomplete

    def _is_touched(self, since: set[Id], head: Id, path: tuple[bytes, ...]) -> bool:
        name = head
        while name in since:
            self._objects.deadline.check()  # hashes are not verified, so hostile commits may form a cycle
            commit = self.commit(name)
            mine = self.entry(commit, path)
            if not commit.parents:
                return mine is not None
            same = next((one for one in commit.parents if self.entry(self.commit(one), path) == mine), None)
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
        # Unwanted commits are followed as far back as wanted ones: a parent may be as young as its child.
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
                else:  # also if it was wanted so far: its parents are visited again
                    wanted.discard(parent)
                    waiting.discard(parent)
                    unwanted.add(parent)
                heapq.heappush(queue, (-self.commit(parent).time, parent))
        return wanted


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
    """Return the commits of a shallow clone whose parents are missing on purpose."""
    try:
        text = read_text(folder.shared, ("shallow",), _MAX_SHALLOW)
    except SandboxError:
        return frozenset()
    return frozenset(line.strip().encode(errors="replace") for line in text.split("\n") if line.strip())
