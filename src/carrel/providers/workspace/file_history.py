"""The history of a file or folder in git: its content at a revision, a diff, the commit of each line, its commits.

The policy judges a path the same for every revision, by today's rules. A refused path is refused before git's data is
opened. A comparison of folders leaves out refused files and says how many.
"""

from collections.abc import Sequence
from typing import Final

from carrel.core import content, line_ranges
from carrel.core.errors import NotFound
from carrel.core.model import FOLDER_TYPE, Item, Meta, Range, Reading, Stored, Text
from carrel.core.uri import quote, with_query, without
from carrel.files import file_types
from carrel.git.answer import make_reading
from carrel.git.blame import Blame
from carrel.git.commit_text import MAX_BODY, details_of, end_line, log_lines, one_line, short
from carrel.git.comparison import Comparison, compare_files, compare_trees
from carrel.git.folder_history import MAX_SKIPPED, FolderHistory, in_repository, read_log
from carrel.git.history import FOLDER, KIND, Entry
from carrel.git.objects import BLOB, Id, Unknown
from carrel.git.patches import LINK, MAX_TEXT_BYTES, SUBMODULE, FileChange, content_of, make_patch
from carrel.git.repository import Repository
from carrel.git.revisions import resolve
from carrel.providers.workspace import paths
from carrel.providers.workspace.folders import MAX_CHILDREN
from carrel.providers.workspace.paths import Target
from carrel.providers.workspace.tree import Tree, is_servable

_WITH: Final = {
    "at": ("skip", "start", "length", "lines"),
    "diff": ("skip", "format", "start", "length", "lines"),
    "blame": ("at", "format", "start", "length", "lines"),
    "log": ("at", "skip", "format", "start", "length", "lines"),
}
"""The parameters that each question may be combined with."""
_PART: Final = frozenset({"start", "length", "lines"})
LONG_TTL_MS: Final = 3_600_000
"""How long a client may keep an answer for the full id of a commit: it never changes."""

Query = dict[str, str]


class FileHistory:
    """The history of one root."""

    def __init__(self, tree: Tree, home: str) -> None:
        self._tree = tree
        self._history = FolderHistory(tree.root.path, home)

    def read(self, target: Target, query: Query) -> Reading:
        """Answer the question that the query of a URI asks."""
        question = _asked(target, query)
        self._tree.check(target)
        answer = {"at": self._at, "diff": self._diff, "blame": self._blame, "log": self._log}[question]
        return self._history.ask(
            target.uri, lambda repository: _cut(answer(repository, target, query), query, target.uri)
        )

    # At a revision

    def _at(self, repository: Repository, target: Target, query: Query) -> Reading:
        commit = resolve(repository, query["at"])
        entry = self._entry(repository, commit, target)
        meta: dict[str, object] = {"dev.carrel/uri": _bare(target), "dev.carrel/commit": commit.decode()}
        kind = entry[0] & KIND
        if kind == FOLDER:
            return self._children(repository, entry[1], target, query)
        if kind == SUBMODULE:
            text = f"A submodule at commit {entry[1].decode()}. It is a repository by itself, and is not entered.\n"
            item: Item = Text(text, "text/plain", meta=meta)
        else:
            item = self._content(repository, entry, target, meta)
        seconds = repository.history.commit(commit).time
        return Reading((item,), "", entry[1].decode(), seconds * 1000, _ttl(query["at"], commit))

    def _entry(self, repository: Repository, commit: Id, target: Target) -> Entry:
        path = in_repository(repository, target.segments)
        entry = repository.history.entry(repository.history.commit(commit).tree, path)
        self._check_kinds(target, [entry])
        if entry is None or (target.is_folder and entry[0] & KIND != FOLDER):
            raise NotFound(target.uri, f"Resource not found: {_bare(target)} at the commit {short(commit)}")
        return entry

    def _check_kinds(self, target: Target, entries: Sequence[Entry | None]) -> None:
        """Raise if a path may not be read as the kind it had; a path that no revision has is judged as both kinds."""
        kinds = {entry[0] & KIND == FOLDER for entry in entries if entry is not None}
        for is_folder in kinds:
            self._tree.check(target, is_folder=is_folder)
        if not kinds:
            self._tree.check_unknown(target)

    def _content(self, repository: Repository, entry: Entry, target: Target, meta: dict[str, object]) -> Stored:
        type_, data = repository.objects.read(entry[1])
        if type_ != BLOB:
            raise Unknown("not a file")
        head = data[: file_types.WINDOW]
        kind = file_types.sniff(head, is_whole=len(data) <= len(head))
        self._tree.check_content(target, is_text=kind.is_text)
        is_link = entry[0] & KIND == LINK
        mime_type = "text/plain" if is_link else file_types.type_of(target.segments[-1], is_text=kind.is_text)
        meta["dev.carrel/encoding"] = kind.encoding if kind.is_text else "base64"
        return Stored(content.BytesSource(data), kind.encoding, mime_type, None, meta)

    def _children(self, repository: Repository, name: Id, target: Target, query: Query) -> Reading:
        """Return an item for each child of a folder that today's rules list."""
        skip = _number(query, target)
        shown = [
            (child, entry)
            for child, entry in _decoded(repository, name)
            if self._tree.shows((*target.segments, child), is_folder=entry[0] & KIND == FOLDER)
        ]
        prefix = paths.prefix_of(target.root, target.segments)
        items = []
        for child, entry in shown[skip : skip + MAX_CHILDREN]:
            uri = with_query(f"{prefix}{quote(child)}", at=query["at"])
            if entry[0] & KIND == FOLDER:
                items.append(Text("", FOLDER_TYPE, uri=uri))
                continue
            what = "submodule" if entry[0] & KIND == SUBMODULE else "link" if entry[0] & KIND == LINK else "file"
            meta = {"dev.carrel/uri": uri, "dev.carrel/etag": entry[1].decode(), "dev.carrel/entry": True}
            mime_type = file_types.type_of(child, is_text=True)
            items.append(Text(f"{what} {short(entry[1])}", mime_type, uri=uri, meta=meta))

        def more(count: int) -> str | None:
            return with_query(target.uri, skip=skip + count) if skip + count < len(shown) else None

        return Reading(tuple(items) or (Text("", FOLDER_TYPE),), etag=name.decode(), more=more)

    # What changed

    def _diff(self, repository: Repository, target: Target, query: Query) -> Reading:
        old, dots, new = query["diff"].partition("..")
        if new.startswith("."):
            raise paths.invalid("diff", query["diff"], "expected REV, or A..B with two dots", target.uri)
        commits = [resolve(repository, old), *([resolve(repository, new)] if dots else [])]
        trees = [repository.history.commit(commit).tree for commit in commits]
        path = in_repository(repository, target.segments)
        skip = _number(query, target)
        entries = [repository.history.entry(tree, path) for tree in trees]
        self._check_kinds(target, entries)
        is_folder = any(entry is not None and entry[0] & KIND == FOLDER for entry in entries) or not target.segments
        if is_folder and not dots:
            raise paths.invalid("diff", query["diff"], "for a folder, give two revisions: A..B", target.uri)
        if is_folder:
            found = compare_trees(repository, (trees[0], trees[1]), path, self._tree.may_show, skip)
        elif dots:
            if entries == [None, None]:
                raise NotFound(target.uri, f"Resource not found: {_bare(target)} at neither revision")
            changes = [FileChange(path, *entries)] if entries[0] != entries[1] else []
            found = compare_files(repository, changes, self._tree.may_show, skip)
        else:
            found = self._compare_with_now(repository, target, FileChange(path, entries[0], None))
        etag = "..".join(commit.decode() for commit in commits) if dots else None
        following = None if found.following is None else with_query(_whole(target), skip=found.following)
        names = {"from": commits[0].decode(), "to": commits[1].decode() if dots else None}
        body: Meta = {**names, **found.to_json(len(repository.folder.prefix))}
        return make_reading(query.get("format", "text"), found.text(), body, "text/x-diff", following, etag)

    def _compare_with_now(self, repository: Repository, target: Target, change: FileChange) -> Comparison:
        """Compare a file of a commit with the file as it is now."""
        now: bytes | None = None
        try:
            with self._tree.open(target).opened as opened:
                if opened.is_folder:
                    raise paths.invalid("diff", "", "for a folder, give two revisions: A..B", target.uri)
                now = opened.read(0, MAX_TEXT_BYTES + 1)
                mode = 0o100755 if opened.stat.st_mode & 0o100 else 0o100644
                change = FileChange(change.path, change.old, (mode, b""))
        except NotFound:
            if change.old is None:
                raise
        old = content_of(repository.objects, change.old)
        patch = make_patch(change, old, now, repository.history.check_time)
        is_same = old == now and change.old is not None and change.new is not None and change.old[0] == change.new[0]
        return Comparison(() if is_same else (patch,), 0 if is_same else 1, 0, 0, None)

    # Lines and commits

    def _blame(self, repository: Repository, target: Target, query: Query) -> Reading:
        commit = resolve(repository, query.get("at", ""))
        entry = self._entry(repository, commit, target)
        if entry[0] & KIND in (FOLDER, LINK, SUBMODULE):
            raise paths.invalid("blame", "", "only a file has lines", target.uri)
        self._content(repository, entry, target, {})
        blame = Blame(repository.history, repository.objects, in_repository(repository, target.segments))
        lines, origins = blame.lines(commit)
        history = repository.history
        details = {one.commit: details_of(history, history.commit(one.commit)) for one in dict.fromkeys(origins)}
        width = len(str(len(lines)))
        shown = []
        spans: list[dict[str, object]] = []
        for number, (line, origin) in enumerate(zip(lines, origins, strict=True), 1):
            one = details[origin.commit]
            mark = "^" if origin.is_older else " "
            text = line.decode(errors="replace").removesuffix("\n").removesuffix("\r")
            who = f"{mark}{short(origin.commit)} {one.author.when[:10]} {one.author.name}"
            shown.append(f"{who} {number:>{width}}: {text}\n")
            if number > 1 and origins[number - 2] == origin:
                spans[-1]["to"] = number
            else:
                spans.append({"from": number, "to": number, "commit": origin.commit.decode(), "older": origin.is_older})
        commits = {name.decode(): one.to_json(most=0) for name, one in details.items()}
        body: Meta = {"at": commit.decode(), "lines": spans, "commits": commits}
        is_whole = not any(origin.is_older for origin in origins)
        etag = f"{entry[1].decode()}-{commit.decode()}" if is_whole else None
        ends = [one for one in details if history.is_cut(one)]
        return make_reading(query.get("format", "text"), "".join(shown), body, etag=etag, note=end_line(ends))

    def _log(self, repository: Repository, target: Target, query: Query) -> Reading:
        path = in_repository(repository, target.segments) or None
        if path:
            commit = repository.history.commit(resolve(repository, query.get("at", "")))
            self._check_kinds(target, [repository.history.entry(commit.tree, path)])
        page = read_log(repository, query.get("at", ""), path, _number(query, target))
        if path and not page.commits and not page.is_cut and not _number(query, target):
            raise NotFound(
                target.uri, f"Resource not found: no commit has {_bare(target)}. {page.note()}".rstrip(". \n")
            )
        following = None
        if page.following is not None:
            following = with_query(_whole(target), at=page.following[0].decode(), skip=page.following[1])
        details = [details_of(repository.history, commit) for commit in page.commits]
        body: Meta = {"at": page.start.decode(), "commits": [one.to_json(MAX_BODY) for one in details]}
        return make_reading(
            query.get("format", "text"), log_lines(details), body, following=following, note=page.note()
        )


def _asked(target: Target, query: Query) -> str:
    """Return the question of a query; raise for parameters that do not go together."""
    question = next(name for name in ("diff", "blame", "log", "at") if name in query)
    for name, value in query.items():
        if name != question and name not in _WITH[question]:
            raise paths.invalid(name, value, f"not together with {question}", target.uri)
    if question in ("at", "diff") and not query[question]:
        raise paths.invalid(question, "", "expected a revision", target.uri)
    if query.get("format", "text") not in ("text", "json"):
        raise paths.invalid("format", query["format"], "expected text or json", target.uri)
    return question


def _number(query: Query, target: Target) -> int:
    number = content.parse_number("skip", query.get("skip", "0"))
    if number > MAX_SKIPPED:
        raise paths.invalid("skip", query["skip"], f"at most {MAX_SKIPPED}", target.uri)
    return number


def _cut(reading: Reading, query: Query, uri: str) -> Reading:
    """Return the part of an answer that `lines`, or `start` and `length`, ask for."""
    names = [name for name in ("start", "length", "lines") if name in query]
    if not names:
        return reading
    if reading.is_folder:
        raise paths.invalid(names[0], query[names[0]], "not for a folder", uri)
    if "lines" not in query:
        length = query.get("length")
        start = content.parse_number("start", query.get("start", "0"))
        return _with_range(reading, Range(start, None if length is None else content.parse_number("length", length)))
    if len(names) > 1:
        raise paths.invalid("lines", query["lines"], "not together with start or length", uri)
    item = content.stored(reading.items[0])
    if item.encoding == "binary":
        raise paths.invalid("lines", query["lines"], "only text has lines", uri)
    first, last = line_ranges.parse(query["lines"])
    start, end = line_ranges.find(item.source.read(0, item.source.size), item.encoding, first, last)
    named = line_ranges.name_lines(item.source, item.encoding, start, end)
    return _with_range(reading, Range(start, end - start), named)


def _with_range(reading: Reading, wanted: Range, meta: dict[str, object] | None = None) -> Reading:
    item = content.stored(reading.items[0])
    end = item.source.size if wanted.length is None else wanted.start + wanted.length
    known = {**content.meta_of_part(item, end), **(meta or {})}
    item = Stored(item.source, item.encoding, item.mime_type, item.uri, known)
    return Reading((item,), "", reading.etag, reading.last_modified_ms, reading.ttl_ms, range=wanted)


def _decoded(repository: Repository, tree: Id) -> list[tuple[str, Entry]]:
    """Return the children of a tree whose names a URI can have."""
    named = ((name.decode(errors="surrogateescape"), entry) for name, entry in repository.history.tree(tree).items())
    return sorted(pair for pair in named if is_servable(pair[0]) and one_line(pair[0]) == pair[0])


def _bare(target: Target) -> str:
    return paths.canonical(target.root, target.segments)


def _whole(target: Target) -> str:
    """Return the URI of a whole answer, of which a part is asked for."""
    return without(target.uri, _PART)


def _ttl(revision: str, commit: Id) -> int:
    return LONG_TTL_MS if revision == commit.decode() else 0
