"""Questions about a project's repository.

A question that cannot be answered, or not in time, gets an empty answer: nothing is raised. The formats are read with
dulwich, which is imported only for questions that need it.
"""

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from functools import cached_property
from typing import Final, TypeVar

from carrel.core.record import Value
from carrel.git.discovery import GitFolder, find, read_config
from carrel.git.history import History, read_head
from carrel.git.index import read_id_bytes
from carrel.git.objects import COMMIT, Deadline, Id, Objects, Unknown

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 2.0
LEAST_DIGITS: Final = 7
_DIGITS: Final = re.compile(r"[0-9a-f]{4,64}")
_MAX_EXCLUDES: Final = 65_536

Answer = TypeVar("Answer")


class NoAnswer(Value, frozen=True):
    """The error that a question ended with."""

    error: Exception


class State(Value, frozen=True):
    """The branch, the short name of the commit, and the newest commits as `<name> <subject>`.

    `is_dirty` is None if it cannot be known in time, or not without running the repository's filters.
    """

    branch: str
    commit: str
    recent: tuple[str, ...]
    is_dirty: bool | None


def attempt(question: Callable[[], Answer]) -> Answer | NoAnswer:
    """Return the answer, or the error in its place."""
    try:
        return question()
    except Exception as error:  # parsers of hostile bytes may raise anything
        log.debug("git's data gives no answer: %s", type(error).__name__)
        return NoAnswer(error)


def _answer(question: Callable[[], Answer], otherwise: Answer) -> Answer:
    """Return the answer; if anything fails, `otherwise`."""
    found = attempt(question)
    return otherwise if isinstance(found, NoAnswer) else found


class Git:
    """The repository around a folder, if there is one. It is opened for each question."""

    def __init__(self, root: str, environment: Mapping[str, str], timeout_s: float = TIMEOUT_S) -> None:
        self._root = root
        self._environment = environment
        self._timeout_s = timeout_s

    def head(self) -> str:
        """Return the full name of the commit that is checked out; empty if there is none."""
        return self._ask(lambda repository: repository.head.decode(), "")

    def short_head(self) -> str:
        """Return the short name of the commit that is checked out; empty if there is none."""
        return self._ask(lambda repository: repository.shortened(repository.head), "")

    def origin(self) -> str:
        """Return the name of the repository that this one was cloned from; empty if it is not known."""
        url = self._ask(lambda repository: read_config(repository.folder.shared).get("remote.origin.url", ""), "")
        return re.split(r"[/:]", url.rstrip("/"))[-1].removesuffix(".git")

    def state(self, recent: int = 3) -> State | None:
        """Return the state of the project; None if there is no commit, or no repository."""
        return self._ask(lambda repository: repository.state(recent, user_excludes(self._environment)), None)

    def changed_since(self, commit: str, files: Iterable[str]) -> frozenset[str]:
        """Return the files that a commit after this one changed, as far as that is known in time."""
        if not _DIGITS.fullmatch(commit):
            return frozenset()
        changed: set[str] = set()

        def ask(repository: "Repository") -> None:
            changed.update(repository.changed_since(commit, files))

        self._ask(ask, None)
        return frozenset(changed)

    def _ask(self, question: "Callable[[Repository], Answer]", otherwise: Answer) -> Answer:
        def ask() -> Answer:
            folder = find(self._root, self._environment.get("HOME", ""))
            if folder is None:
                return otherwise
            with closing(Repository(folder, Deadline(self._timeout_s))) as repository:
                return question(repository)

        return _answer(ask, otherwise)


def user_excludes(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the user's own ignore patterns, from the default place of git."""
    home = environment.get("HOME", "")
    folder = environment.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    try:
        with open(os.path.join(folder, "git", "ignore"), encoding="utf-8", errors="surrogateescape") as file:
            return (file.read(_MAX_EXCLUDES),)
    except OSError:
        return ()


class Repository:
    """An open repository, for one question. Every method may raise."""

    def __init__(self, folder: GitFolder, deadline: Deadline) -> None:
        self.folder = folder
        self.deadline = deadline
        self._objects: Objects | None = None

    def close(self) -> None:
        """Close every handle."""
        if self._objects is not None:
            self._objects.close()
        self.folder.close()

    @cached_property
    def id_bytes(self) -> int:
        """Return the length of object names: that of SHA-1 or SHA-256."""
        return read_id_bytes(self.folder.shared, ("config",))

    @property
    def objects(self) -> Objects:
        """Return the objects; they are opened when first needed."""
        if self._objects is None:
            self._objects = Objects(self.folder.shared, self.deadline, self.id_bytes)
        return self._objects

    @cached_property
    def history(self) -> History:
        """Return the commits."""
        return History(self.folder, self.objects)

    @property
    def head(self) -> Id:
        """Return the commit that is checked out."""
        return read_head(self.folder)[1]

    def shortened(self, name: Id) -> str:
        """Return as many digits as git shows: more in a large repository, and enough to be unique."""
        digits = max(LEAST_DIGITS, (self.objects.count_packed().bit_length() + 1) // 2)
        spelled = name.decode()
        while len(self.objects.matching(spelled[:digits])) > 1:
            digits += 1
        return spelled[:digits]

    def state(self, recent: int, excludes: tuple[str, ...]) -> State:
        """Return the state of the work tree."""
        branch, head = read_head(self.folder)
        commits = self.history.newest(head, recent)
        newest = tuple(f"{self.shortened(one.id)} {one.subject}" for one in commits)
        return State(branch, self.shortened(head), newest, self._is_dirty(head, excludes))

    def _is_dirty(self, head: Id, excludes: tuple[str, ...]) -> bool | None:
        from carrel.git.worktree import GitIndex, WorkTree  # only where a checkpoint is saved

        def ask() -> bool | None:
            index = GitIndex(self.folder, self.deadline, self.id_bytes)
            return WorkTree(self.folder, self.history, index, self.deadline, excludes).is_dirty(head)

        return _answer(ask, None)  # without a readable index, the commit is still known

    def changed_since(self, commit: str, files: Iterable[str]) -> Iterator[str]:
        """Yield the files, named from the project's root, that a commit after this one changed."""
        base, head = self._commit(commit), self.head
        for file in files:
            path = (*self.folder.prefix, *(part for part in file.split("/") if part not in ("", ".")))
            if base != head and self.history.has_changed(base, head, tuple(map(os.fsencode, path))):
                yield file

    def _commit(self, digits: str) -> Id:
        """Return the only commit whose name begins with these digits."""
        names = [digits.encode()] if len(digits) == self.id_bytes * 2 else self.objects.matching(digits)
        if len(names) > 1:
            names = [name for name in names if self.objects.read(name)[0] == COMMIT]
        if len(names) != 1:
            raise Unknown("no such commit, or several")
        return names[0]
