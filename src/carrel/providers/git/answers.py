"""The answers of `git://`: each opens the repository, reads, and shows only what `workspace://` serves."""

from collections.abc import Mapping, Sequence
from typing import Final

from carrel.core.content import parse_number
from carrel.core.errors import BadArgument, CarrelError, echo
from carrel.core.model import Meta, Reading
from carrel.core.provider import Project
from carrel.core.uri import PATH_SAFE, quote, with_query
from carrel.files.sandbox import SandboxError
from carrel.git.answer import make_reading
from carrel.git.commit_text import MAX_BODY, commit_head, details_of, log_lines, one_line, short
from carrel.git.comparison import compare_trees, left_out_line
from carrel.git.folder_history import MAX_SKIPPED, PAGE, FolderHistory, read_log
from carrel.git.history import read_head
from carrel.git.objects import Id, TimeUp, Unknown
from carrel.git.repository import Repository, user_excludes
from carrel.git.revisions import Ref, list_refs, peel, resolve
from carrel.git.status import FileState, read_status

MAX_COMPLETED_REFS: Final = 100
MAX_STATES: Final = 1_000
"""Files on one page of a status."""

Query = Mapping[str, str]


class Answers:
    """Answers about the repository around a project."""

    def __init__(self, project: Project) -> None:
        self._environment = project.environment
        self._history = FolderHistory(project.root, project.environment.get("HOME", ""))
        self._serves = project.serves

    def _shows(self, path: tuple[str, ...]) -> bool:
        """Return whether a file may be shown; without the workspace provider, no file is."""
        return self._serves is not None and self._serves(path)

    def log(self, query: Query) -> Reading:
        """Return a page of the commits from a revision back."""
        uri = _uri("git://log", query)

        def ask(repository: Repository) -> Reading:
            page = read_log(repository, query.get("at", ""), None, _skip(query))
            details = [details_of(repository.history, commit) for commit in page.commits]
            following = None
            if page.following is not None:
                following = with_query(uri, at=page.following[0].decode(), skip=page.following[1])
            body: Meta = {"at": page.start.decode(), "commits": [one.to_json(MAX_BODY) for one in details]}
            return make_reading(_format(query), log_lines(details), body, following=following, note=page.note())

        return self._history.ask(uri, ask)

    def commit(self, query: Query) -> Reading:
        """Return one commit, and what it changed since its first parent."""
        uri = _uri(f"git://commit/{quote(query['id'], PATH_SAFE)}", query)

        def ask(repository: Repository) -> Reading:
            history = repository.history
            commit = history.commit(resolve(repository, query["id"]))
            details = details_of(history, commit)
            parent = commit.parents[0] if commit.parents else None
            old = None if parent is None else history.commit(parent).tree
            found = compare_trees(repository, (old, commit.tree), (), self._shows, _skip(query))
            following = None if found.following is None else with_query(uri, skip=found.following)
            head = commit_head(details) if not found.skip else f"commit {commit.id.decode()}\n"
            note = "Compared with the first parent.\n" if len(commit.parents) > 1 else ""
            etag: str | None = commit.id.decode()
            if history.is_cut(commit.id):
                note = (
                    "This shallow clone ends here: every file counts as new; `git fetch --unshallow` gets the rest.\n"
                )
                etag = None  # the same commit is shown otherwise once the rest is here
            compared = {"compared_with": None if parent is None else parent.decode()}
            body = {**details.to_json(), **compared, **found.to_json(len(repository.folder.prefix))}
            body |= {"note": note.strip()} if etag is None else {}
            text = f"{head}\n{note}{found.text()}"
            return make_reading(_format(query), text, body, "text/plain", following, etag)

        return self._history.ask(uri, ask)

    def diff(self, query: Query) -> Reading:
        """Return what changed between two revisions."""
        wanted = query["range"]
        uri = _uri(f"git://diff/{quote(wanted, PATH_SAFE)}", query)
        old, dots, new = wanted.partition("..")
        if not dots or new.startswith("."):
            message = f"Invalid parameter: range={echo(wanted)} (expected A..B, as in git://diff/HEAD~3..HEAD)"
            raise BadArgument(message, uri=uri, data={"parameter": "range"})

        def ask(repository: Repository) -> Reading:
            commits = [resolve(repository, name) for name in (old, new)]
            before, after = (repository.history.commit(commit).tree for commit in commits)
            found = compare_trees(repository, (before, after), (), self._shows, _skip(query))
            following = None if found.following is None else with_query(uri, skip=found.following)
            names = {"from": commits[0].decode(), "to": commits[1].decode()}
            body = {**names, **found.to_json(len(repository.folder.prefix))}
            etag = "..".join(names.values())
            return make_reading(_format(query), found.text(), body, "text/x-diff", following, etag)

        return self._history.ask(uri, ask)

    # Refs

    def branches(self, query: Query) -> Reading:
        """Return a page of branches: those of this repository, then those of others."""

        def ask(repository: Repository) -> Reading:
            head = read_head_or_nothing(repository)
            own = list_refs(repository, "refs/heads/")
            others = [ref for ref in list_refs(repository, "refs/remotes/") if not ref.name.endswith("/HEAD")]
            return _refs(repository, "branches", [*own, *others], query, head)

        return self._history.ask("git://branches", ask)

    def tags(self, query: Query) -> Reading:
        """Return a page of tags."""
        return self._history.ask(
            "git://tags",
            lambda repository: _refs(repository, "tags", list_refs(repository, "refs/tags/"), query, ""),
        )

    def completions(self, value: str, variable: str) -> Sequence[str]:
        """Return the branches and tags that begin with a text; for a range, with `..` or after the given `A..`."""
        before, dots, begun = value.rpartition("..")
        end = ".." if variable == "range" and not dots else ""

        def ask(repository: Repository) -> list[str]:
            refs = [ref for kind in ("refs/heads/", "refs/tags/") for ref in list_refs(repository, kind)]
            names = [ref.name for ref in refs if ref.name.startswith(begun) and ref.name.isprintable()]
            return [f"{before}{dots}{name}{end}" for name in names[:MAX_COMPLETED_REFS]]

        try:
            return self._history.ask("git://log", ask)
        except CarrelError:
            return ()

    # The work tree

    def status(self, query: Query) -> Reading:
        """Return the files that differ from the last commit, as stored: no filter runs."""
        skip = _skip(query)
        uri = _uri("git://status", query)

        def ask(repository: Repository) -> Reading:
            found = read_status(repository, user_excludes(self._environment))
            prefix = repository.folder.prefix
            below = [one for one in found.files if tuple(one.path.split("/"))[: len(prefix)] == prefix]
            shown = [one for one in below if self._shows(tuple(one.path.rstrip("/").split("/"))[len(prefix) :])]
            left_out = len(found.files) - len(shown)
            page = shown[skip : skip + MAX_STATES]
            end = skip + len(page)
            following = with_query(uri, skip=end) if end < len(shown) else None
            at = "nothing is committed yet" if found.head is None else f"at {short(found.head)}"
            lines = [f"On {one_line(found.branch)}, {at}."]
            lines += [left_out_line(left_out)] if left_out else []
            lines += (
                [f"{found.unsure} could not be compared: a filter may apply, and none is run."] if found.unsure else []
            )
            lines += [] if shown else ["Nothing differs."]
            lines += [f"{one.letters} {_below(one, prefix)}" for one in page]
            files = [{"path": _below(one, prefix), "staged": one.staged, "changed": one.changed} for one in page]
            head = None if found.head is None else found.head.decode()
            body = {"branch": found.branch, "head": head, "files": files, "total": len(shown)}
            body |= {"left_out": left_out, "unsure": found.unsure}
            return make_reading(_format(query), "".join(f"{line}\n" for line in lines), body, following=following)

        return self._history.ask(uri, ask)


def _below(state: FileState, prefix: tuple[str, ...]) -> str:
    return one_line("/".join(state.path.split("/")[len(prefix) :]))


def read_head_or_nothing(repository: Repository) -> str:
    """Return the branch that is checked out; empty if there is no commit."""
    try:
        return read_head(repository.folder)[0]
    except (Unknown, SandboxError):
        return ""


def _refs(repository: Repository, kind: str, refs: Sequence[Ref], query: Query, current: str) -> Reading:
    skip = _skip(query)
    page = refs[skip : skip + PAGE]
    following = with_query(_uri(f"git://{kind}", query), skip=skip + PAGE) if skip + PAGE < len(refs) else None
    lines, rows = [], []
    for ref in page:
        name = one_line(ref.name)
        mark = "" if kind == "tags" else "* " if ref.name == current else "  "
        row: dict[str, object] = {"name": name, "id": ref.id.decode()}
        if kind == "branches":
            row["current"] = ref.name == current
        row["commit"], shown = _commit_of(repository, ref.id)
        lines.append(f"{mark}{name} {shown}\n")
        rows.append(row)
    text = "".join(lines) or f"There are no {kind}.\n"
    return make_reading(_format(query), text, {kind: rows, "total": len(refs)}, following=following)


def _commit_of(repository: Repository, name: Id) -> tuple[object, str]:
    """Return the commit that a ref leads to, for JSON and as a line."""
    try:
        details = details_of(repository.history, repository.history.commit(peel(repository, name)))
    except TimeUp:
        return None, f"{short(name)} (not read: the time was up)"
    except Unknown:
        return None, f"{short(name)} (not a commit of this repository)"
    return details.to_json(MAX_BODY), log_lines([details]).rstrip("\n")


def _uri(uri: str, query: Query) -> str:
    """Return a URI with the parameters that were given."""
    given = {name: query[name] for name in ("at", "skip", "format") if name in query}
    return with_query(uri, **given) if given else uri


def _skip(query: Query) -> int:
    number = parse_number("skip", query.get("skip", "0"))
    if number > MAX_SKIPPED:
        message = f"Invalid parameter: skip={number} (at most {MAX_SKIPPED})"
        raise BadArgument(message, data={"parameter": "skip"})
    return number


def _format(query: Query) -> str:
    return query.get("format", "text")
