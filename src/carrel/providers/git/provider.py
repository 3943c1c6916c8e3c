"""The history of a git project as resources.

git://log{?at,skip,format}             commits, newest first
git://commit/{+id}{?skip,format}       one commit and what it changed
git://diff/{+range}{?skip,format}      what changed between two revisions, as in git://diff/v1..main
git://branches{?skip,format}           branches, with their newest commits
git://tags{?skip,format}               tags, with their commits
git://status{?skip,format}             what differs from the last commit

Files that `workspace://` does not serve are counted, not named. `workspace:///PATH` with `?at=REV`, `?diff`, `?blame`
or `?log` returns the history of one path.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from carrel.core.model import Meta, Resource, Unread
from carrel.core.provider import Document, DocumentChanges, Project, Provider, Route

if TYPE_CHECKING:
    from carrel.providers.git.answers import Answers

SCHEME: Final = "git"
_LISTED: Final = (
    ("git://branches", "Branches", "Branches, with their newest commits"),
    ("git://log", "Commits", "Commits, newest first; git://commit/ID has one of them with its changes"),
    ("git://status", "Changed files", "What differs from the last commit: staged, changed and new files"),
    ("git://tags", "Tags", "Tags, with their commits"),
)


class GitHistory(Provider):
    """Commits, differences, branches, tags and the state of a project's repository."""

    name = "git"
    schemes = (SCHEME,)
    speed = "mixed"
    summary = "Git history. Of one file: `workspace:///PATH?log`, `?at=REV`, `?diff=A..B`, `?blame`."

    def __init__(self, project: Project) -> None:
        self._project = project

    def routes(self) -> Sequence[Route]:
        return (
            Route("git://log{?at,skip,format}", self.read_log, title="Commits, newest first", example="at=HEAD~3"),
            Route("git://commit/{+id}{?skip,format}", self.read_commit, title="A commit and what it changed"),
            Route(
                "git://diff/{+range}{?skip,format}",
                self.read_diff,
                title="What changed between two revisions",
                description="range is A..B: branches, tags, ids, HEAD~3 or dates",
            ),
            Route("git://branches{?skip,format}", self.read_branches, title="Branches"),
            Route("git://tags{?skip,format}", self.read_tags, title="Tags"),
            Route("git://status{?skip,format}", self.read_status, title="What differs from the last commit"),
        )

    def entries(self, after: str = "") -> Iterator[Resource]:
        """Yield the four resources that need no variable."""
        for uri, title, description in _LISTED:
            if uri > after:
                yield Resource(uri, uri.removeprefix("git://"), description, "text/plain", title=title)

    def documents(self) -> Iterator[Document]:
        """Yield nothing: search finds the present state, not the history."""
        return iter(())

    def document_changes(self, since: object) -> DocumentChanges:
        """Return no documents."""
        return DocumentChanges((), token=True, is_whole=since is None)

    def complete(self, template: str, variable: str, value: str, context: Mapping[str, str]) -> Sequence[str]:
        """Return the branches and tags that begin with a text; after `A..`, for the second revision."""
        del template, context
        return self._answers().completions(value, variable) if variable in ("at", "id", "range") else ()

    def read_log(self, **query: str) -> Unread:
        """Return a page of commits."""
        return Unread(lambda: self._answers().log(query))

    def read_commit(self, **query: str) -> Unread:
        """Return one commit, and what it changed."""
        return Unread(lambda: self._answers().commit(query))

    def read_diff(self, **query: str) -> Unread:
        """Return what changed between two revisions."""
        return Unread(lambda: self._answers().diff(query))

    def read_branches(self, **query: str) -> Unread:
        """Return a page of branches."""
        return Unread(lambda: self._answers().branches(query))

    def read_tags(self, **query: str) -> Unread:
        """Return a page of tags."""
        return Unread(lambda: self._answers().tags(query))

    def read_status(self, **query: str) -> Unread:
        """Return the files that differ from the last commit."""
        return Unread(lambda: self._answers().status(query))

    def health(self) -> Meta:
        """Return why the repository cannot be read."""
        from carrel.files.data_folder import unreadable  # not at the start

        return {"problems": unreadable(self._project.root, ".git")}

    def _answers(self) -> "Answers":
        from carrel.providers.git.answers import Answers  # only if somebody asks

        return Answers(self._project)
