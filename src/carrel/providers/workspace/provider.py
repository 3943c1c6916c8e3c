"""A file tree as resources: safe by construction, at any size.

workspace:///{+path}{?start,length,lines}         a file, or a folder's children
workspace://@{root}/{+path}{?start,length,lines}  the same in a further root
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Final, Literal

from carrel.content import parse_number
from carrel.errors import BadArgument, ConfigError, NotFound, RequestError, echo
from carrel.limits import MAX_COMPLETIONS
from carrel.model import Completion, Meta, Range, Reading, Resource, Stored, Text
from carrel.provider import Changes, Place, Project, Route
from carrel.providers.workspace import kinds, paths
from carrel.providers.workspace.explaining import explain
from carrel.providers.workspace.ignore import IgnoreRules
from carrel.providers.workspace.kinds import Kind
from carrel.providers.workspace.listing import FOLDER_TYPE, MAX_CHILDREN, Listing
from carrel.providers.workspace.paths import Target
from carrel.providers.workspace.policy import Policy, Preset, Treatment
from carrel.providers.workspace.reading import FileSource, find_lines, parse_lines
from carrel.providers.workspace.tree import Found, Tree
from carrel.providers.workspace.watching import watch_trees
from carrel.sandbox import Root, SandboxError
from carrel.uri import quote, split_query

TTL_MS: Final = 1_000
_FILE_KEYS: Final = frozenset({"start", "length", "lines"})
_FOLDER_KEYS: Final = frozenset({"after"})
_ROOT_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")


class Workspace:
    """The files of a project, as far as its policy lets them be read."""

    name = "workspace"
    schemes = (paths.SCHEME,)
    summary = "The project's files. A folder's URI lists its children; `?lines=10-50` gives lines."

    def __init__(
        self,
        project: Project,
        root: Place = Place("."),
        preset: Preset = "auto",
        allow: list[str] | None = None,
        deny: list[str] | None = None,
        hidden: Treatment | None = None,
        ignored: Treatment | None = None,
        max_listed_bytes: int = 52_428_800,
        dialect: Literal["auto", "always"] = "auto",
        roots: dict[str, Place] | None = None,
    ) -> None:
        self.speaks_fly = dialect == "always"
        self._trees: dict[str, Tree] = {}
        folders = {"": root, **_checked_names(roots or {})}
        for name, folder in folders.items():
            place = os.path.join(project.root, os.path.expanduser(folder))
            opened = _open_root(name, place)
            chosen = _preset(preset, opened)
            ignore = IgnoreRules(opened)
            policy = Policy(chosen, ignore, allow=allow or (), deny=deny or (), hidden=hidden, ignored=ignored)
            self._trees[name] = Tree(name, opened, policy, os.path.abspath(place))
        self._listings = {name: Listing(tree, max_listed_bytes) for name, tree in sorted(self._trees.items())}
        _check_apart(self._trees.values())

    def routes(self) -> Sequence[Route]:
        main = Route(
            "workspace:///{+path}{?start,length,lines}",
            self.read,
            name="workspace-file",
            title="File or folder",
            description="A file of the project, whole or in parts, or the children of a folder",
            whole=True,
        )
        named = Route(
            "workspace://@{root}/{+path}{?start,length,lines}",
            self.read,
            name="workspace-root-file",
            title="File or folder in a further root",
            description=f"The same in another folder: {', '.join(sorted(self._trees)[1:])}",
            whole=True,
        )
        return (main, named) if len(self._trees) > 1 else (main,)

    # Listing

    def entries(self, after: str = "") -> Iterator[Resource]:
        """Yield every listed file in URI order, after the URI `after`."""
        for listing in self._listings.values():
            yield from listing.files(after)

    def browse(self, directory: str | None, prefix: str, after: str = "") -> Iterator[Resource]:
        """Yield the files below a folder, or those whose URI begins with the prefix."""
        if directory is None:
            begins = self._canonical_prefix(prefix)
            yield from (entry for entry in self.entries(after) if entry.uri.startswith(begins))
            return
        target = self._directory(directory)
        found = self._trees[target.root].open(target)
        with found.opened:
            if not found.opened.is_folder:
                message = f"Invalid parameter: directory={echo(directory)} (expected a folder)"
                raise BadArgument(message, data={"parameter": "directory"})
        yield from self._listings[target.root].files(after, found.segments)

    def _directory(self, directory: str) -> Target:
        """Read a folder's name: a path below the root, not percent-encoded, or a workspace URI."""
        if directory.lower().startswith(f"{paths.SCHEME}:"):
            return paths.parse(directory, self._trees)
        names = directory.split("/")
        segments = tuple(name for name in names if name not in ("", "."))
        main = self._trees[""]
        if directory.startswith("/"):
            inside = main.unaliased(segments)
            if inside is None:
                raise paths.denied(directory, "outside")
            segments = inside
        if ".." in segments or "\\" in directory or "\0" in directory:
            raise paths.denied(directory, "outside")
        return Target(directory, "", segments, is_folder=True)

    def _canonical_prefix(self, prefix: str) -> str:
        """Give the beginning of canonical URIs that a spelled beginning means."""
        if not prefix.lower().startswith(f"{paths.SCHEME}:") or "?" in prefix:
            return prefix
        target = paths.parse(prefix, self._trees)
        rest = self._trees[target.root].unaliased(target.segments)
        segments = target.segments if rest is None else rest
        canonical = paths.canonical(target.root, segments)
        return f"{canonical}/" if target.is_folder else canonical

    # Reading

    def read(self, uri: str) -> Reading:
        """Read a file, whole or in parts, or a folder's children."""
        target = paths.parse(uri, self._trees)
        found = self._trees[target.root].open(target)
        try:
            if not found.opened.is_folder:
                return self._read_file(target, found)
            with found.opened:
                return self._read_folder(target, found)
        except BaseException:
            found.opened.close()
            raise

    unmatched = read

    def _read_file(self, target: Target, found: Found) -> Reading:
        tree = self._trees[target.root]
        kind, head = tree.sniff(found.opened, found.etag)
        source = FileSource(found.opened, head)
        meta: dict[str, object] = {
            "dev.carrel/uri": paths.canonical(target.root, found.segments),
            "dev.carrel/encoding": kind.encoding if kind.is_text else "base64",
        }
        if kind.is_fallback:
            meta["dev.carrel/fallback"] = True
        wanted = None
        if target.query:
            wanted, told = _wanted_part(target, source, kind)
            meta.update(told)
        mime_type = kinds.type_of(found.segments[-1], is_text=kind.is_text)
        modified = found.opened.stat.st_mtime_ns // 1_000_000
        item = Stored(source, kind.encoding, mime_type, meta=meta)
        return Reading((item,), etag=found.etag, last_modified_ms=modified, ttl_ms=TTL_MS, range=wanted)

    def _read_folder(self, target: Target, found: Found) -> Reading:
        """Give one small item per child, so that a host can build a listing from the URIs."""
        query = _checked_query(target, _FOLDER_KEYS)
        uri = paths.canonical(target.root, found.segments)
        listing = self._listings[target.root]
        after = quote(query.get("after", ""), safe=paths.KEY_SAFE)
        taken = list(islice(listing.children(found.opened, found.segments, after), MAX_CHILDREN + 1))
        items = [item for _, item in taken[:MAX_CHILDREN]]
        if len(taken) > MAX_CHILDREN:
            last = items[-1]
            following = f"{uri}?after={quote(taken[MAX_CHILDREN - 1][0], safe='%')}"
            items[-1] = Text(
                last.text, last.mime_type, uri=last.uri, meta={**(last.meta or {}), "dev.carrel/next": following}
            )
        if not items:
            items = [Text("", FOLDER_TYPE, uri=uri)]
        modified = found.opened.stat.st_mtime_ns // 1_000_000
        return Reading(tuple(items), last_modified_ms=modified, ttl_ms=TTL_MS)

    def fingerprint(self, uri: str) -> str | None:
        """Give the ETag of a file, or a token of a folder's names; None where nothing is yet."""
        target = paths.parse(uri, self._trees)
        try:
            found = self._trees[target.root].open(target)
        except NotFound:
            return None
        with found.opened:
            if not found.opened.is_folder:
                return found.etag
            children = self._listings[target.root].children(found.opened, found.segments)
            return " ".join(key for key, _ in children)

    # Completion, watching, explaining

    def complete(self, template: str, variable: str, value: str, context: Mapping[str, str]) -> Completion:
        """Offer direct children that begin with what is typed; folders end with `/`."""
        if variable == "root":
            return Completion(tuple(name for name in sorted(self._trees) if name and name.startswith(value)))
        root = context.get("root", "") if "{root}" in template else ""
        if variable != "path" or root not in self._trees:
            return Completion((), total=0, has_more=False)
        folder, _, begun = value.rpartition("/")
        try:
            target = paths.parse(paths.canonical(root, folder.split("/") if folder else []), self._trees)
            found = self._trees[root].open(target)
        except RequestError:
            return Completion((), total=0, has_more=False)
        with found.opened:
            if not found.opened.is_folder:
                return Completion((), total=0, has_more=False)
            before = f"{folder}/" if folder else ""
            names = self._listings[root].names(found.opened, found.segments)
            offered = [before + name for name in names if name.startswith(begun)]
        return Completion(tuple(offered[:MAX_COMPLETIONS]), total=len(offered), has_more=len(offered) > MAX_COMPLETIONS)

    def watch(self, changes: Changes) -> Callable[[], None]:
        """Report file events of every root until stopped."""
        return watch_trees(tuple(self._trees.values()), changes)

    def explain(self, uri: str) -> list[str]:
        """Say why a URI is or is not served, a sentence each."""
        try:
            target = paths.parse(uri, self._trees)
        except RequestError as error:
            return [error.message]
        return explain(self._trees[target.root], target)

    def health(self) -> Meta:
        """Tell which preset holds, and what could not be read."""
        unreadable = sum(len(listing.unreadable) for listing in self._listings.values())
        problems = [f"{unreadable} folder(s) cannot be read and are left out"] if unreadable else []
        presets = {name or "main": tree.policy.preset for name, tree in self._trees.items()}
        return {"presets": presets, "problems": problems}

    def close(self) -> None:
        """Give the roots' handles back."""
        for tree in self._trees.values():
            tree.root.close()


def _wanted_part(target: Target, source: FileSource, kind: Kind) -> tuple[Range, dict[str, object]]:
    """Make a byte range of what the query asks."""
    query = _checked_query(target, _FILE_KEYS)
    if "lines" not in query:
        length = query.get("length")
        start = parse_number("start", query.get("start", "0"))
        return Range(start, None if length is None else parse_number("length", length)), {}
    if len(query) > 1:
        raise paths.invalid(target, "lines", "lines (not together with start or length)")
    if not kind.is_text:
        raise paths.invalid(target, "lines", "lines (the file is no text)")
    first, last = parse_lines(query["lines"])
    return find_lines(source, kind.encoding, first, last, split_query(target.uri)[0])


def _checked_query(target: Target, known: frozenset[str]) -> dict[str, str]:
    query: dict[str, str] = {}
    for name, value in target.query:
        if name not in known:
            raise paths.invalid(target, name, f"{echo(name)} (known here: {', '.join(sorted(known))})")
        if name in query:
            raise paths.invalid(target, name, f"{name} (given twice)")
        query[name] = value
    return query


def _checked_names(roots: Mapping[str, Place]) -> Mapping[str, Place]:
    for name in roots:
        if not _ROOT_NAME.fullmatch(name):
            raise ConfigError(f"[workspace.roots] {name!r}: a name is a-z, 0-9 and -, at most 32 characters")
    return roots


def _open_root(name: str, place: str) -> Root:
    key = f"[workspace.roots] {name}" if name else "[workspace] root"
    try:
        return Root(place)
    except OSError as error:
        raise ConfigError(f"{key}: {place} cannot be opened as a folder: {error.strerror}") from None


def _preset(preset: Preset, root: Root) -> Preset:
    if preset != "auto":
        return preset
    try:
        root.open(("pubspec.yaml",)).close()
    except SandboxError:
        return "code"
    return "flutter"


def _check_apart(trees: Iterable[Tree]) -> None:
    """Refuse roots that lie in one another: one file would have two URIs and two policies."""
    places = sorted((tree.root.path.rstrip("/") + "/", tree.name or "the main root") for tree in trees)
    for (outer, first), (inner, second) in pairwise(places):
        if inner.startswith(outer):
            raise ConfigError(f"[workspace.roots]: {second} lies inside {first}; serve one of them")
