"""Find the commit of a revision: a branch, a tag, an id, `HEAD~3`, or a date.

The text of a revision comes from a client. It is compared with names of refs and digits of ids; it is never part of a
command, and a ref is opened beneath the handle of the git folder.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from carrel.core.record import Value
from carrel.files.sandbox import Root, SandboxError
from carrel.git.commit_walk import CommitWalk
from carrel.git.discovery import GitFolder, read_config
from carrel.git.history import packed_refs, read_head, read_ref
from carrel.git.objects import COMMIT, TAG, Deadline, Id, MissingObject, TimeUp, Unknown

if TYPE_CHECKING:
    from carrel.git.repository import Repository

MAX_REVISION: Final = 256
MAX_STEPS: Final = 100_000
MAX_REFS: Final = 10_000
"""Maximum number of branches or tags that are listed."""
_MAX_TAGS: Final = 8
"""Maximum length of a chain of tags that name tags."""
_MAX_FOLDERS: Final = 1_000
_MAX_NAME: Final = 4_096
_LONGEST_ID: Final = 64

_STEPS: Final = re.compile(r"(?:~[0-9]{0,6}|\^[0-9]{0,5})*+\Z")
_STEP: Final = re.compile(r"([~^])([0-9]*)")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DIGITS: Final = re.compile(r"[0-9a-f]{4,64}")
_REF: Final = re.compile(r"(?!.*(?:\.\.|//|@\{|\.lock(?:/|\Z)))[^\x00-\x20\x7f~^:?*\[\\]+")
_ID: Final = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_PLACES: Final = ("refs/{}", "refs/tags/{}", "refs/heads/{}", "refs/remotes/{}", "refs/remotes/{}/HEAD")
"""The folders in which git looks for a name, in this order, after `HEAD` and full names."""

FORMS: Final = "a branch, a tag, a commit's id, HEAD~3, or a date such as 2026-01-31"


class UnknownRevision(Unknown):
    """A revision names no commit; the message is a clause for the client."""


class Ref(Value, frozen=True):
    """A branch or a tag, without `refs/heads/` or `refs/tags/`, and the object it names."""

    name: str
    id: Id


def resolve(repository: "Repository", revision: str) -> Id:
    """Return the commit that a revision means; raise `UnknownRevision`."""
    revision = revision or "HEAD"
    stem = _stem(revision)
    if len(revision) > MAX_REVISION or stem is None:
        raise UnknownRevision(f"not a revision; expected {FORMS}")
    found = _named(repository, "HEAD" if stem in ("", "@") else stem)
    for step in _STEP.finditer(revision, len(stem)):
        number = int(step[2] or 1)
        found = _ancestor(repository, found, number) if step[1] == "~" else _parent(repository, found, number)
    return found


def _stem(revision: str) -> str | None:
    """Return the part before `~3` and `^2`; None if something else follows it."""
    at = min((place for mark in "~^" if (place := revision.find(mark)) >= 0), default=len(revision))
    return revision[:at] if _STEPS.match(revision, at) else None


def _named(repository: "Repository", name: str) -> Id:
    if _DIGITS.fullmatch(name) and len(name) == repository.id_bytes * 2:
        return peel(repository, name.encode())
    found = _ref(repository, name)
    if found is not None:
        return peel(repository, found)
    if _DATE.fullmatch(name):
        return _at_the_end_of(repository, name)
    if _DIGITS.fullmatch(name) and len(name) < repository.id_bytes * 2:
        return _abbreviated(repository, name)
    raise UnknownRevision(_why_no_ref(repository, name))


def _why_no_ref(repository: "Repository", name: str) -> str:
    config = read_config(repository.folder.shared)
    if config.get("extensions.refstorage", "files").lower() != "files":
        return "this repository keeps its refs in a reftable, which is not read; give the commit's id"
    if name == "HEAD":
        return "nothing is committed yet"
    return f"no branch, tag or commit of this name; expected {FORMS}"


def _ref(repository: "Repository", name: str) -> Id | None:
    folder = repository.folder
    if not _REF.fullmatch(name):
        return None
    try:
        if name == "HEAD":
            return read_head(folder)[1]
        places = [name] if name.startswith("refs/") else [place.format(name) for place in _PLACES]
    except (Unknown, SandboxError):
        return None
    for place in places:
        try:
            return read_ref(folder, place)
        except (Unknown, SandboxError, ValueError):
            continue
    return None


def _abbreviated(repository: "Repository", digits: str) -> Id:
    objects = repository.objects
    names = objects.matching(digits)
    if len(names) > 1:
        names = [name for name in names if objects.read(name)[0] == COMMIT]
    if len(names) > 1:
        raise UnknownRevision("several commits begin with these digits; give more of them")
    if not names:
        raise UnknownRevision(_why_no_ref(repository, digits))
    return peel(repository, names[0])


def peel(repository: "Repository", name: Id) -> Id:
    """Return the commit that an object is, or that a tag leads to."""
    for _ in range(_MAX_TAGS):
        try:
            kind, data = repository.objects.read(name)
        except MissingObject:
            raise UnknownRevision(absent_words(repository)) from None
        if kind == COMMIT:
            return name
        found = re.match(rb"object ([0-9a-f]{40}(?:[0-9a-f]{24})?)\n", data)
        if kind != TAG or found is None:
            raise UnknownRevision("it names no commit")
        name = found[1]
    raise UnknownRevision("too many tags name each other")


def absent_words(repository: "Repository") -> str:
    """Return why an object may be missing, for people."""
    config = read_config(repository.folder.shared)
    if any(key.startswith("remote.") and key.endswith(".promisor") for key in config):
        return "this partial clone does not have it, and nothing is fetched; `git fetch` gets it"
    if repository.history.is_shallow:
        return "this shallow clone does not have it; `git fetch --unshallow` gets it"
    return "the repository does not have this object"


def _parent(repository: "Repository", name: Id, number: int) -> Id:
    parents = repository.history.commit(name).parents
    if number == 0:
        return name
    if number > len(parents):
        raise UnknownRevision(_no_parent(repository, name, number))
    return parents[number - 1]


def _ancestor(repository: "Repository", name: Id, steps: int) -> Id:
    if steps > MAX_STEPS:
        raise UnknownRevision(f"more than {MAX_STEPS} steps back")
    for _ in range(steps):
        parents = repository.history.commit(name).parents
        if not parents:
            raise UnknownRevision(_no_parent(repository, name, 1))
        name = parents[0]
    return name


def _no_parent(repository: "Repository", name: Id, number: int) -> str:
    if repository.history.is_cut(name):
        return f"this shallow clone ends at {name[:12].decode()}; `git fetch --unshallow` gets the rest"
    which = "no parent" if number == 1 else f"no parent {number}"
    return f"the commit {name[:12].decode()} has {which}"


def _at_the_end_of(repository: "Repository", day: str) -> Id:
    """Return the last commit reachable from HEAD at the end of a day, UTC."""
    try:
        end = int((datetime.fromisoformat(day).replace(tzinfo=UTC) + timedelta(days=1)).timestamp())
    except (ValueError, OverflowError):
        raise UnknownRevision("not a date; expected one such as 2026-01-31") from None
    walk = CommitWalk(repository.history, _named(repository, "HEAD"))
    try:
        for commit in walk:
            if commit.time < end:
                return commit.id
    except TimeUp:
        raise UnknownRevision("too many commits since that day to find it in time; give a commit's id") from None
    here = " of this shallow clone is as old as that; `git fetch --unshallow` gets older ones"
    raise UnknownRevision(f"no commit{here if walk.ends else ' is as old as that'}")


# Lists of refs


def list_refs(repository: "Repository", prefix: str) -> list[Ref]:
    """Return the refs below `refs/heads/` or another prefix, by name, at most `MAX_REFS`."""
    found = {name: one for one, name in _packed(repository.folder, prefix)}
    found.update(_loose(repository.folder, prefix, repository.deadline))
    in_order = sorted(found.items(), key=lambda pair: pair[0].encode(errors="surrogateescape"))
    return [Ref(name.removeprefix(prefix), one) for name, one in in_order[: MAX_REFS + 1]]


def _packed(folder: GitFolder, prefix: str) -> Iterator[tuple[Id, str]]:
    """Yield the packed refs with this prefix; they are sorted, so the first `MAX_REFS` are those that are listed."""
    data, begun = packed_refs(folder), f" {prefix}".encode()
    at = data.find(begun)
    for _ in range(MAX_REFS):
        if at < 0:
            return
        # Limit the length of lines: a long line would be searched and copied once for each name in it.
        before, end = max(0, at - _LONGEST_ID - 1), data.find(b"\n", at, at + _MAX_NAME)
        start = data.rfind(b"\n", before, at) + 1 or before
        if end >= 0 and _ID.fullmatch(data, start, at):
            yield data[start:at], data[at + 1 : end].decode(errors="surrogateescape")
        at = data.find(begun, at + 1)


def _loose(folder: GitFolder, prefix: str, deadline: Deadline) -> Iterator[tuple[str, Id]]:
    ahead = [tuple(prefix.rstrip("/").split("/"))]
    for number, segments in enumerate(iter(lambda: ahead.pop() if ahead else None, None)):
        if number > _MAX_FOLDERS:
            return
        for name, kind in _scan(folder.shared, segments):
            deadline.check()
            inner = (*segments, name)
            if kind == "folder":
                ahead.append(inner)
            elif kind == "file" and _REF.fullmatch("/".join(inner)):
                try:
                    yield "/".join(inner), read_ref(folder, "/".join(inner))
                except (Unknown, SandboxError):
                    continue


def _scan(root: Root, segments: tuple[str, ...]) -> Iterable[tuple[str, str]]:
    try:
        with root.open(segments) as opened:
            return list(opened.scan())[:MAX_REFS] if opened.is_folder else []
    except SandboxError:
        return []
