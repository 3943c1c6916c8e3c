"""Commits: the one that is checked out, the newest ones, and whether one of them changed a file."""

import codecs
import heapq
import re
from collections.abc import Iterable
from itertools import takewhile
from typing import Final

from carrel.core.record import Value
from carrel.files.sandbox import SandboxError
from carrel.git.discovery import GitFolder, read_text
from carrel.git.objects import COMMIT, TREE, Id, Objects, Unknown

MAX_SUBJECT: Final = 300
MAX_COMMIT_BYTES: Final = 1_048_576
MAX_TREE_BYTES: Final = 4 * 1_048_576
_KEPT_TREES: Final = 256
_KEPT_CHILDREN: Final = 4_096
_MORE_S: Final = 2.0
"""Time to finish an answer after its search was stopped."""
_KEPT_TREE_BYTES: Final = 65_536
_MAX_SHALLOW: Final = 1_048_576
_MAX_REF: Final = 4_096
_MAX_PACKED_REFS: Final = 32 * 1_048_576
_MAX_SYMBOLIC_REFS: Final = 5
_MAX_ENCODING: Final = 40
_NO_CHARSETS: Final = frozenset({"idna", "punycode", "raw-unicode-escape", "unicode-escape", "utf-7"})
"""Codecs that are not used for messages: they take quadratic time, or produce lone surrogates."""
_SYMBOLIC: Final = "ref: "
_NAME: Final = r"[0-9a-f]{40}(?:[0-9a-f]{24})?"
_ID: Final = re.compile(_NAME.encode())
_LONGEST_ID: Final = 64
_LAST_ID: Final = re.compile(rb"(?:^|\n)(%s)\Z" % _NAME.encode())
_TIME: Final = re.compile(rb" (-?[0-9]{1,11}) [+-][0-9]{4}\Z")
_COMMITTER: Final = re.compile(rb"\ncommitter [^\n]* (-?[0-9]{1,11}) [+-][0-9]{4}\n")

FOLDER: Final = 0o040000
KIND: Final = 0o170000
"""The part of a mode that says what an entry is."""

Entry = tuple[int, Id]
"""The mode and the name of a file or a folder in a tree."""


def read_head(folder: GitFolder) -> tuple[str, Id]:
    """Return the branch (`HEAD` if none is checked out) and the commit; raise `Unknown` if there is none."""
    text = read_text(folder.own, ("HEAD",), _MAX_REF).strip()
    branch = text.removeprefix(_SYMBOLIC).strip().removeprefix("refs/heads/") if text.startswith(_SYMBOLIC) else "HEAD"
    return branch, _follow(folder, text)


def read_ref(folder: GitFolder, name: str) -> Id:
    """Return the object that a ref such as `refs/heads/main` names; raise `Unknown` if there is no such ref."""
    return _follow(folder, _read_ref(folder, name))


def _follow(folder: GitFolder, text: str) -> Id:
    for _ in range(_MAX_SYMBOLIC_REFS):
        if not text.startswith(_SYMBOLIC):
            if not re.fullmatch(_NAME, text):
                raise Unknown("not a commit")
            return text.encode()
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
    data, wanted = packed_refs(folder), b" %s\n" % name.encode(errors="surrogateescape")
    at = data.find(wanted)  # a pattern would be tried at each of a million lines
    found = _LAST_ID.search(data, max(0, at - _LONGEST_ID - 1), at) if at >= 0 else None
    if found is None:
        raise Unknown("no such ref")
    return found[1].decode()


def packed_refs(folder: GitFolder) -> bytes:
    """Return the file `packed-refs`, which holds refs without their own file; empty if there is none."""
    try:
        with folder.shared.open(("packed-refs",)) as opened:
            return b"" if opened.is_folder else opened.read(0, _MAX_PACKED_REFS)
    except SandboxError:
        return b""


class Commit(Value, frozen=True):
    """A commit: its tree, its parents, its time and its subject."""

    id: Id
    tree: Id
    parents: tuple[Id, ...]
    time: int
    subject: str


class CommitLinks(Value, frozen=True):
    """The tree, the parents and the time of a commit."""

    tree: Id
    parents: tuple[Id, ...]
    time: int


class History:
    """The commits of one repository, each read once."""

    def __init__(self, folder: GitFolder, objects: Objects) -> None:
        self._objects = objects
        self._commits: dict[Id, Commit] = {}
        self._links: dict[Id, CommitLinks] = {}
        self._trees: dict[Id, dict[bytes, Entry]] = {}
        self._children: dict[tuple[Id, bytes], Entry | None] = {}
        self._shallow = _shallow(folder)

    def commit(self, name: Id) -> Commit:
        """Return a commit; raise `Unknown` if the repository does not have it."""
        known = self._commits.get(name)
        if known is None:
            known = self._commits[name] = _parsed(name, self.raw(name), has_parents=name not in self._shallow)
        return known

    def links(self, name: Id) -> "CommitLinks":
        """Return the links of a commit, which is cheaper than the whole: most commits of a walk are not shown."""
        known = self._links.get(name)
        if known is None:
            data = self.raw(name)
            known = self._links[name] = _linked(name, data, has_parents=name not in self._shallow)
        return known

    @property
    def is_shallow(self) -> bool:
        """Whether the repository is a shallow clone."""
        return bool(self._shallow)

    def is_cut(self, name: Id) -> bool:
        """Return whether the parents of a commit are missing on purpose."""
        return name in self._shallow

    def check_time(self) -> None:
        """Raise `TimeUp` once the time of the question is up."""
        self._objects.deadline.check()

    def limit_time(self, seconds: float = _MORE_S) -> None:
        """Set the deadline for the rest of the answer to this time from now."""
        self._objects.deadline.restart(seconds)

    def raw(self, name: Id) -> bytes:
        """Return the bytes of a commit."""
        kind, data = self._objects.read(name)
        if kind != COMMIT or len(data) > MAX_COMMIT_BYTES:
            raise Unknown("not a commit, or too large")
        return data

    def tree(self, name: Id) -> dict[bytes, Entry]:
        """Return the entries of a folder in a commit, by name."""
        from dulwich.objects import parse_tree

        known = self._trees.get(name)
        if known is None:
            data = self._raw_tree(name)
            known = {entry: (mode, one) for entry, mode, one in parse_tree(data, len(name) // 2)}
            if len(data) <= _KEPT_TREE_BYTES:
                if len(self._trees) >= _KEPT_TREES:
                    self._trees.clear()
                self._trees[name] = known
        return known

    def entry(self, tree: Id, path: Iterable[bytes]) -> Entry | None:
        """Return what the tree of a commit has at a path; None if there is nothing."""
        found: Entry | None = (FOLDER, tree)
        for name in path:
            if found is None or found[0] & KIND != FOLDER:
                return None
            found = self.child(found[1], name)
        return found

    def child(self, tree: Id, name: bytes) -> Entry | None:
        """Return an entry of a folder in a commit; None if there is none."""
        known = self._trees.get(tree)
        if known is not None:
            return known.get(name)
        key = (tree, name)
        if key not in self._children:
            if len(self._children) >= _KEPT_CHILDREN:
                self._children.clear()
            self._children[key] = _child(self._raw_tree(tree), name, len(tree) // 2)
        return self._children[key]

    def _raw_tree(self, name: Id) -> bytes:
        kind, data = self._objects.read(name)
        if kind != TREE:
            raise Unknown("not a tree")
        if len(data) > MAX_TREE_BYTES:
            raise Unknown("too large")
        return data

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
        differs = self.entry(self.commit(base).tree, path) != self.entry(self.commit(head).tree, path)
        try:
            return self._is_touched(self._since(base, head), head, path)
        except Unknown:
            return differs  # the history between them is too long, or incomplete

    def _is_touched(self, since: set[Id], head: Id, path: tuple[bytes, ...]) -> bool:
        name = head
        while name in since:
            self._objects.deadline.check()  # hashes are not verified, so hostile commits may form a cycle
            commit = self.commit(name)
            mine = self.entry(commit.tree, path)
            if not commit.parents:
                return mine is not None
            same = next((one for one in commit.parents if self.entry(self.commit(one).tree, path) == mine), None)
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


def _child(data: bytes, name: bytes, id_bytes: int) -> Entry | None:
    """Return the entry of this name in the bytes of a tree; cheaper than parsing all entries."""
    at = 0
    while at < len(data):
        end = data.index(b"\0", at)
        if data.endswith(name, at, end):
            mode, space, found = data[at:end].partition(b" ")
            if space and found == name:
                return int(mode, 8), data[end + 1 : end + 1 + id_bytes].hex().encode()
        at = end + 1 + id_bytes
    return None


def _linked(name: Id, data: bytes, *, has_parents: bool) -> CommitLinks:
    """Return the links of a commit; the usual form is read quickly, any other is parsed as a whole."""
    digits = len(name)
    parents: list[Id] = []
    at = digits + 6
    while data.startswith(b"parent ", at):
        parents.append(data[at + 7 : at + 7 + digits])
        at += digits + 8
    tree = data[5 : 5 + digits]
    found = _COMMITTER.search(data, at, data.find(b"\n\n", at) + 1)
    if found is None or not data.startswith(b"tree ") or not all(map(_ID.fullmatch, (tree, *parents))):
        whole = _parsed(name, data, has_parents=has_parents)
        return CommitLinks(whole.tree, whole.parents, whole.time)
    return CommitLinks(tree, tuple(parents) if has_parents else (), int(found[1]))


def _parsed(name: Id, data: bytes, *, has_parents: bool) -> Commit:
    head, _, message = data.partition(b"\n\n")
    first, *lines = head.split(b"\n")
    tree = first.removeprefix(b"tree ")
    parents = [line[7:] for line in takewhile(lambda line: line.startswith(b"parent "), lines)]
    if first == tree or not all(_ID.fullmatch(one) and len(one) == len(name) for one in (tree, *parents)):
        raise Unknown("not a commit")
    subject = " ".join(decode_message(message, lines).strip().partition("\n\n")[0].split("\n"))
    committer = next((line for line in lines[len(parents) :] if line.startswith(b"committer ")), b"")
    return Commit(name, tree, tuple(parents) if has_parents else (), seconds_of(committer), subject[:MAX_SUBJECT])


def decode_message(message: bytes, lines: Iterable[bytes]) -> str:
    """Return the text of a commit's message, in the encoding that a line of its head names."""
    named = next((line[9:] for line in lines if line.startswith(b"encoding ")), b"utf-8")
    try:
        codec = codecs.lookup(named[:_MAX_ENCODING].decode("ascii"))
        return message.decode("utf-8" if codec.name in _NO_CHARSETS else codec.name, "replace")
    except (LookupError, ValueError):
        return message.decode(errors="replace")


def seconds_of(line: bytes) -> int:
    """Return the time at the end of a line about an author or committer; 0 if it has no valid time."""
    found = _TIME.search(line)
    return int(found[1]) if found else 0


def _shallow(folder: GitFolder) -> frozenset[Id]:
    """Return the commits of a shallow clone whose parents are missing on purpose."""
    try:
        text = read_text(folder.shared, ("shallow",), _MAX_SHALLOW)
    except SandboxError:
        return frozenset()
    return frozenset(line.strip().encode(errors="replace") for line in text.split("\n") if line.strip())
