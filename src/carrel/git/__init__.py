"""What git knows about a project, read in this process from the repository's files.

No process is started: git itself may run what a repository's configuration names, to fetch an object that is missing
or to look at a changed file. Nothing here fetches, writes, or follows the repository's own words out of it; see
`discovery` for where a repository may lie, and `objects` for the bounds. A question that cannot be answered, or not in
time, gets no answer: nothing is ever raised.

The formats are read with dulwich, which is imported only when a question needs it.
"""

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Final, TypeVar

from carrel.core.record import Value
from carrel.git.discovery import GitFolder, find, read_config
from carrel.git.history import History
from carrel.git.objects import COMMIT, Deadline, Id, Objects, Unknown
from carrel.git.refs import read_head

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 2.0
LEAST_DIGITS: Final = 7
_DIGITS: Final = re.compile(r"[0-9a-f]{4,64}")
_MAX_EXCLUDES: Final = 65_536

Answer = TypeVar("Answer")


class State(Value, frozen=True):
    """Where a project stands: the branch, the short name of its commit, and the last commits as `<name> <subject>`.

    `is_dirty` is None where it cannot be known without running the repository's filters, or not in time.
    """

    branch: str
    commit: str
    recent: tuple[str, ...]
    is_dirty: bool | None


def _answer(question: Callable[[], Answer], otherwise: Answer) -> Answer:
    """Return the answer, or the other value whatever goes wrong."""
    try:
        return question()
    except Exception as error:  # the bytes may be a stranger's, and parsers raise as they please
        log.debug("git's data gives no answer: %s", type(error).__name__)
        return otherwise


class Git:
    """The repository around a folder, if there is one. It is opened anew for each question."""

    def __init__(self, root: str, environment: Mapping[str, str], timeout_s: float = TIMEOUT_S) -> None:
        self._root = root
        self._environment = environment
        self._timeout_s = timeout_s

    def head(self) -> str:
        """Return the full name of the commit that is checked out; empty where there is none."""
        return self._ask(lambda repository: repository.head.decode(), "")

    def short_head(self) -> str:
        """Return the short name of the commit that is checked out; empty where there is none."""
        return self._ask(lambda repository: repository.shortened(repository.head), "")

    def origin(self) -> str:
        """Return the name of the repository this one was cloned from; empty where it is not known."""
        url = self._ask(lambda repository: read_config(repository.folder.shared).get("remote.origin.url", ""), "")
        return re.split(r"[/:]", url.rstrip("/"))[-1].removesuffix(".git")

    def state(self, recent: int = 3) -> State | None:
        """Return where the project stands; None where there is no commit, or no repository."""
        return self._ask(lambda repository: repository.state(recent, self._user_excludes()), None)

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
            with _opened(self._root, self._environment.get("HOME", ""), self._timeout_s) as repository:
                return otherwise if repository is None else question(repository)

        return _answer(ask, otherwise)

    def _user_excludes(self) -> tuple[str, ...]:
        """Return the user's own ignore patterns, where git looks for them if it is not told otherwise."""
        home = self._environment.get("HOME", "")
        folder = self._environment.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
        try:
            with open(os.path.join(folder, "git", "ignore"), encoding="utf-8", errors="surrogateescape") as file:
                return (file.read(_MAX_EXCLUDES),)
        except OSError:
            return ()


class Repository:
    """A repository that is open, for one question. Everything may raise."""

    def __init__(self, folder: GitFolder, deadline: Deadline) -> None:
        self.folder = folder
        self._deadline = deadline
        self._objects: Objects | None = None

    def close(self) -> None:
        """Close every handle."""
        if self._objects is not None:
            self._objects.close()
        self.folder.close()

    @cached_property
    def _name_bytes(self) -> int:
        return 32 if read_config(self.folder.shared).get("extensions.objectformat") == "sha256" else 20

    @property
    def objects(self) -> Objects:
        """Return the objects; which commit is checked out is known without them."""
        if self._objects is None:
            self._objects = Objects(self.folder.shared, self._deadline, self._name_bytes)
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
        """Return as many digits as git shows: more in a large repository, and enough to be the only such name."""
        digits = max(LEAST_DIGITS, (self.objects.count_packed().bit_length() + 1) // 2)
        spelled = name.decode()
        while len(self.objects.matching(spelled[:digits])) > 1:
            digits += 1
        return spelled[:digits]

    def state(self, recent: int, excludes: tuple[str, ...]) -> State:
        """Return where the work tree stands."""
        branch, head = read_head(self.folder)
        commits = self.history.newest(head, recent)
        told = tuple(f"{self.shortened(one.id)} {one.subject}" for one in commits)
        return State(branch, self.shortened(head), told, self._is_dirty(head, excludes))

    def _is_dirty(self, head: Id, excludes: tuple[str, ...]) -> bool | None:
        from carrel.git.worktree import GitIndex, WorkTree  # only where a checkpoint is saved

        def ask() -> bool | None:
            index = GitIndex(self.folder, self._deadline, self._name_bytes)
            return WorkTree(self.folder, self.history, index, self._deadline, excludes).is_dirty(head)

        return _answer(ask, None)  # whatever the index holds, the commit is known

    def changed_since(self, commit: str, files: Iterable[str]) -> Iterator[str]:
        """Yield the files, named from the project's root, that a commit after this one changed."""
        base, head = self._commit(commit), self.head
        for file in files:
            way = (*self.folder.prefix, *(part for part in file.split("/") if part not in ("", ".")))
            if base != head and self.history.has_changed(base, head, tuple(map(os.fsencode, way))):
                yield file

    def _commit(self, digits: str) -> Id:
        """Return the one commit whose name begins so."""
        names = [digits.encode()] if len(digits) == self._name_bytes * 2 else self.objects.matching(digits)
        if len(names) > 1:
            names = [name for name in names if self.objects.read(name)[0] == COMMIT]
        if len(names) != 1:
            raise Unknown("no such commit, or several")
        return names[0]


@contextmanager
def _opened(root: str, home: str, timeout_s: float) -> Iterator[Repository | None]:
    folder = find(root, home)
    if folder is None:
        yield None
        return
    repository = Repository(folder, Deadline(timeout_s))
    try:
        yield repository
    finally:
        repository.close()


__all__ = ["Git", "State"]
