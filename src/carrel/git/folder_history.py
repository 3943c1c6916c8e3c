"""Answer questions about the history of a folder. The repository is opened for each question.

Every failure becomes an error for the client: no repository, an unknown revision, a missing object, damaged bytes, a
timeout.
"""

import logging
import os
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial
from typing import Final, TypeVar

from carrel.core.errors import CarrelError, NotFound, ProviderError, echo
from carrel.core.record import Value
from carrel.files.sandbox import SandboxError
from carrel.git.commit_text import end_line
from carrel.git.commit_walk import CommitWalk
from carrel.git.discovery import find
from carrel.git.history import Commit
from carrel.git.objects import Deadline, Id, MissingObject, TimeUp, Unknown
from carrel.git.patches import TooMany
from carrel.git.repository import NoAnswer, Repository, attempt
from carrel.git.revisions import UnknownRevision, absent_words, resolve

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 5.0
LOG_S: Final = 2.0
"""Time for one page of the commits that changed a path; where it ends, the next page begins."""
PAGE: Final = 100
"""Commits on one page of a log."""
MAX_SKIPPED: Final = 1_000_000
NO_HISTORY: Final = "this folder has no git history"

Answer = TypeVar("Answer")


class FolderHistory:
    """The history of one folder."""

    def __init__(self, root: str, home: str, timeout_s: float = TIMEOUT_S) -> None:
        self._root = root
        self._home = home
        self._timeout_s = timeout_s

    def ask(self, uri: str, question: Callable[[Repository], Answer]) -> Answer:
        """Open the repository and return the answer; raise an error about `uri` if there is none."""
        folder = attempt(partial(find, self._root, self._home))
        if folder is None or isinstance(folder, NoAnswer):
            raise NotFound(uri, f"{NO_HISTORY[0].upper()}{NO_HISTORY[1:]}: {echo(uri)}")
        with closing(Repository(folder, Deadline(self._timeout_s))) as repository:
            found = attempt(partial(question, repository))
            if not isinstance(found, NoAnswer):
                return found
            raise found.error if isinstance(found.error, CarrelError) else _failure(uri, found.error, repository)


def _failure(uri: str, error: Exception, repository: Repository) -> CarrelError:
    if isinstance(error, UnknownRevision):
        return NotFound(uri, f"Unknown revision in {echo(uri)}: {error}")
    if isinstance(error, TimeUp):
        message = f"Git's history of {echo(uri)} takes too long to read; ask for a newer revision or a shorter range"
        return ProviderError(message, word="timeout", uri=uri)
    if isinstance(error, TooMany):
        return ProviderError(f"Too large: {error} in {echo(uri)}; ask for one folder", uri=uri)
    why = "it is damaged, or larger than what is read"
    if isinstance(error, MissingObject):
        try:
            why = absent_words(repository)
        except (Unknown, SandboxError, OSError):
            why = "an object is missing"
    log.debug("git's data gives no answer: %s: %s", type(error).__name__, error)
    return ProviderError(f"Git's data for {echo(uri)} cannot be read: {why}", word="unreadable", uri=uri)


def in_repository(repository: Repository, segments: Iterable[str]) -> tuple[bytes, ...]:
    """Return the path from the top of the repository for a path below the folder."""
    return tuple(map(os.fsencode, (*repository.folder.prefix, *segments)))


class LogPage(Value, frozen=True):
    """Some commits, the first commit of the next page and how many it skips, and whether the time was up.

    `ends` are the commits at which a shallow clone ends, of those that were visited.
    """

    start: Id
    commits: tuple[Commit, ...]
    following: tuple[Id, int] | None
    is_cut: bool = False
    ends: tuple[Id, ...] = ()

    def note(self) -> str:
        """Return the lines that say why the log ends where it does."""
        stopped = "The time was up before the end of the history.\n" if self.is_cut else ""
        return stopped + end_line(self.ends)


def read_log(repository: Repository, revision: str, path: tuple[bytes, ...] | None, skip: int) -> LogPage:
    """Return a page of the commits from a revision backwards; with a path, those that changed it."""
    start = resolve(repository, revision)
    walk = CommitWalk(repository.history, start, path)
    if path is not None:
        repository.history.limit_time(LOG_S)
    commits: list[Commit] = []
    left = skip
    try:
        for commit in walk:
            if left:
                left -= 1
                continue
            commits.append(commit)
            if len(commits) == PAGE:
                break
    except TimeUp:
        if not commits and walk.place[0] == start:
            raise
        repository.history.limit_time()
        return LogPage(
            start, tuple(commits), walk.place if walk.place[0] != start else None, is_cut=True, ends=tuple(walk.ends)
        )
    return LogPage(start, tuple(commits), walk.following, ends=tuple(walk.ends))
