"""Write commits as text, in one line or whole, and as JSON."""

from collections.abc import Iterable, Sequence
from typing import Final

from carrel.core.isotime import iso
from carrel.core.record import Value
from carrel.git.history import Commit, History, decode_message, seconds_of
from carrel.git.objects import Id

SHORT: Final = 12
"""Digits of an id in a text: enough to be unique in the largest repositories."""
_MAX_PERSON: Final = 200
_MAX_MESSAGE: Final = 65_536
_MAX_ENDS: Final = 3
MAX_BODY: Final = 1_000
"""Characters of a message below its subject in a list of commits; one commit is shown with its whole message."""


class Person(Value, frozen=True):
    """Who wrote or committed a commit, and when, in seconds since 1970."""

    name: str
    email: str
    time: int

    @property
    def when(self) -> str:
        """The time, in UTC."""
        return iso(self.time * 1000)

    def to_json(self) -> dict[str, object]:
        """Return the details as values for JSON."""
        return {"name": self.name, "email": self.email, "time": self.when}


class CommitDetails(Value, frozen=True):
    """A commit with its author, its committer and its whole message."""

    commit: Commit
    author: Person
    committer: Person
    message: str

    def to_json(self, most: int = _MAX_MESSAGE) -> dict[str, object]:
        """Return the details as values for JSON, and up to `most` characters of the message below its subject."""
        body = self.message.strip().partition("\n\n")[2].strip()
        body = body if len(body) <= most else f"{body[:most]}…"
        return {
            "id": self.commit.id.decode(),
            "parents": [parent.decode() for parent in self.commit.parents],
            "author": self.author.to_json(),
            "committer": self.committer.to_json(),
            "subject": one_line(self.commit.subject),
            **({"body": body} if most else {}),
        }


def details_of(history: History, commit: Commit) -> CommitDetails:
    """Return a commit with its author, its committer and its whole message."""
    head, _, message = history.raw(commit.id).partition(b"\n\n")
    lines = head.split(b"\n")
    text = decode_message(message[:_MAX_MESSAGE], lines)
    author = _person(next((line[7:] for line in lines if line.startswith(b"author ")), b""))
    committer = _person(next((line[10:] for line in lines if line.startswith(b"committer ")), b""))
    return CommitDetails(commit, author, committer, text)


def _person(line: bytes) -> Person:
    name, _, rest = line.partition(b"<")
    email = rest.partition(b">")[0]
    shown = [one_line(part.decode(errors="replace").strip())[:_MAX_PERSON] for part in (name, email)]
    return Person(shown[0], shown[1], seconds_of(line))


def one_line(text: str) -> str:
    """Return a text without line ends and other control characters."""
    return text if text.isprintable() else "".join(one if one.isprintable() else " " for one in text)


def short(name: Id) -> str:
    """Return the first digits of an id."""
    return name[:SHORT].decode()


def log_lines(commits: Iterable[CommitDetails]) -> str:
    """Return one line for each commit: id, time, author, subject."""
    return "".join(
        f"{short(one.commit.id)} {one.author.when[:16]}Z {one.author.name}: {one_line(one.commit.subject)}\n"
        for one in commits
    )


def end_line(ends: Sequence[Id]) -> str:
    """Return the line that says that a shallow clone ends at these commits; empty if there are none."""
    if not ends:
        return ""
    shown = ", ".join(map(short, ends[:_MAX_ENDS])) + (", …" if len(ends) > _MAX_ENDS else "")
    return (
        f"The history goes no further here: this clone is shallow and ends at {shown}. "
        "What seems to begin there may be older; `git fetch --unshallow` gets the rest.\n"
    )


def commit_head(details: CommitDetails) -> str:
    """Return the lines that introduce one commit: ids, people, message."""
    commit = details.commit
    lines = [f"commit {commit.id.decode()}"]
    if commit.parents:
        lines.append(f"parents {' '.join(parent.decode() for parent in commit.parents)}")
    lines.append(f"author {details.author.name} <{details.author.email}> {details.author.when}")
    if details.committer != details.author:
        lines.append(f"committer {details.committer.name} <{details.committer.email}> {details.committer.when}")
    message = "\n".join(f"    {line}".rstrip() for line in details.message.strip("\n").split("\n"))
    return "\n".join(lines) + f"\n\n{message}\n"
