"""Find the files that differ from the last commit: staged, changed or new. No program of the repository is run."""

from typing import Final

from carrel.core.record import Value
from carrel.files.sandbox import SandboxError
from carrel.git.discovery import read_text
from carrel.git.history import read_head
from carrel.git.objects import Id, Unknown
from carrel.git.repository import Repository
from carrel.git.worktree import GitIndex, WorkTree

MAX_FILES: Final = 100_000
_UNTRACKED: Final = "?"


class FileState(Value, frozen=True):
    """A file that differs, from the top of the work tree; the letters are those of `git status --porcelain`."""

    path: str
    staged: str
    changed: str

    @property
    def letters(self) -> str:
        """Both letters, as git shows them."""
        return f"{self.staged or ' '}{self.changed or ' '}"


class Status(Value, frozen=True):
    """The branch, the commit if there is one, the files that differ, and how many files could not be compared."""

    branch: str
    head: Id | None
    files: tuple[FileState, ...]
    unsure: int


def read_status(repository: Repository, excludes: tuple[str, ...]) -> Status:
    """Return the files that differ from the last commit."""
    head: Id | None
    try:
        branch, head = read_head(repository.folder)
    except Unknown:
        text = read_text(repository.folder.own, ("HEAD",), 4_096).strip()
        branch, head = text.removeprefix("ref: ").removeprefix("refs/heads/"), None
    try:
        index = GitIndex(repository.folder, repository.deadline, repository.id_bytes)
    except SandboxError:
        index = GitIndex.empty()
    tree = WorkTree(repository.folder, repository.history, index, repository.deadline, excludes)
    staged = dict(tree.staged(None if head is None else repository.history.commit(head).tree))
    changed = dict(tree.changed())
    files = []
    for path in sorted(staged.keys() | changed.keys()):
        one, other = staged.get(path, ""), changed.get(path, "")
        if "U" in (one, other):
            files.append(FileState(path, "U", "U"))
            continue
        is_new = other == _UNTRACKED
        if one or not is_new:
            files.append(FileState(path, one, "" if is_new else other))
        if is_new:
            files.append(FileState(path, _UNTRACKED, _UNTRACKED))
        if len(files) > MAX_FILES:
            raise Unknown("too many files differ")
    return Status(branch, head, tuple(files), tree.unsure)
