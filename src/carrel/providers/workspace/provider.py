"""A file tree as resources.

workspace:///{+path}{?start,length,lines,outline}         a file, or a folder's children
workspace://@{root}/{+path}{?start,length,lines,outline}  the same in a further root
workspace:///{+path}{?at,diff,blame,log,skip,format}      its history, in a git repository; also in further roots
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from operator import attrgetter
from threading import Lock
from typing import TYPE_CHECKING, Final, Literal

from carrel.buckets.settings import BucketSettings
from carrel.core import content
from carrel.core.errors import ConfigError, NotFound, RequestError
from carrel.core.hashing import blake2b
from carrel.core.hierarchy import NotAFolder
from carrel.core.limits import MAX_REMEMBERED_LENGTH
from carrel.core.model import Completion, Meta, Range, Rank, Reading, Resource, Stored, Unread
from carrel.core.provider import Changes, Document, DocumentChanges, Place, Project, Provider, Route
from carrel.core.uri import quote, split_query
from carrel.files import file_types
from carrel.files.marks import is_in_git
from carrel.files.sandbox import Opened, Root, SandboxError
from carrel.providers.workspace import paths
from carrel.providers.workspace.file_query import (
    FILE_KEYS,
    FILE_QUERY,
    FOLDER_KEYS,
    NO_QUERY,
    WHOLE,
    FileQuery,
    asks_for_history,
    checked,
    given_in,
    wanted_part,
)
from carrel.providers.workspace.file_source import FileSource
from carrel.providers.workspace.ignore_rules import IgnoreFiles
from carrel.providers.workspace.listing import Census, Listing, describe
from carrel.providers.workspace.paths import Target
from carrel.providers.workspace.policy import SET_PRESET, Policy, Preset, Treatment
from carrel.providers.workspace.tracked_files import Tracked
from carrel.providers.workspace.tree import MAX_KNOWN, FoundFile, Known, Shape, Tree, etag_of, is_servable

TTL_MS: Final = 1_000
HISTORY_TEMPLATE: Final = "workspace:///{+path}{?at,diff,blame,log,skip,format,start,length,lines}"
_ROOT_NAME: Final = r"[a-z0-9][a-z0-9-]{0,31}"
if TYPE_CHECKING:
    from carrel.buckets.address import BucketAddress
    from carrel.providers.workspace.bucket_root import BucketRoot
    from carrel.providers.workspace.kept_documents import KeptDocuments


class Workspace(Provider):
    """The files of a project that its policy allows to be read."""

    name = "workspace"
    schemes = (paths.SCHEME,)
    speed = "mixed"
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
        list_changed_s: float = 10.0,
        buckets: dict[str, BucketSettings] | None = None,
    ) -> None:
        if not 0 <= list_changed_s <= 86_400:
            raise ConfigError(f"[workspace] list_changed_s: expected 0 to 86400 seconds, got {list_changed_s}")
        self.list_pause_s = list_changed_s
        self._home = project.environment.get("HOME", "")
        self.speaks_fly = dialect == "always"
        self._trees: dict[str, Tree] = {}
        self._known: dict[str, Known] = {}
        self._until_closed = ExitStack()
        self._environment = project.environment
        self._max_listed_bytes = max_listed_bytes
        self._buckets, folders = bucket_addresses({"": root, **_checked_names(roots or {})}, buckets or {})
        self._bucket_settings = _checked_buckets(buckets or {}, self._buckets)
        self._policy_of = partial(Policy, allow=allow or (), deny=deny or (), hidden=hidden, ignored=ignored)
        self._bucket_preset: Preset = "code" if preset == "auto" else preset
        self._open_trees(project.root, folders, preset)
        self._names = frozenset((*self._trees, *self._buckets))
        self._above = _names_below(project.root, self._trees[""].root.path)
        in_order = sorted(self._trees, key=paths.prefix_of)
        self._listings = {name: Listing(self._trees[name], max_listed_bytes) for name in in_order}
        for listing in self._listings.values():
            self._until_closed.callback(listing.close)
        self._searching = Lock()
        self._kept: list[KeptDocuments] = []

    def _open_trees(self, above: str, folders: Mapping[str, Place], preset: Preset) -> None:
        """Open the folder of each root; raise ConfigError, and leave nothing open then."""
        try:
            for name, folder in folders.items():
                self._trees[name] = self._open_tree(name, os.path.join(above, os.path.expanduser(folder)), preset)
            _check_apart(self._trees.values())
        except ConfigError:
            self.close()
            raise

    def _open_tree(self, name: str, place: str, preset: Preset) -> Tree:
        root = self._until_closed.enter_context(_open_root(name, place))
        policy = self._policy_of(_preset(preset, root), IgnoreFiles(root), tracked=Tracked(root, self._home))
        root.guard_links(policy.denies)  # after the preset and the policy, which read files that it refuses
        return Tree(name, root, policy, os.path.abspath(place))

    def routes(self) -> Sequence[Route]:
        route = partial(Route, reader=self.begin_read, query=FILE_QUERY, takes_uri=True)
        main = route(
            "workspace:///{+path}{?start,length,lines,outline}",
            name="workspace-file",
            title="File or folder",
            description="A file of the project, whole or in parts, or the children of a folder",
            fingerprint=self.fingerprint_of_file,
        )
        named = route(
            "workspace://@{root}/{+path}{?start,length,lines,outline}",
            name="workspace-root-file",
            title="File or folder in a further root",
            description=f"The same in another folder: {', '.join(sorted(self._trees)[1:])}",
            fingerprint=self.fingerprint_of_file,
        )
        history = route(
            HISTORY_TEMPLATE,
            name="workspace-history",
            title="History of a file or folder",
            description="In git: ?at=REV its content then, ?diff=REV or ?diff=A..B, ?blame, ?log (format=json)",
        )
        routes = (main, named) if len(self._trees) > 1 else (main,)
        has_history = any(is_in_git(tree.root.path, self._home) for tree in self._trees.values())
        return (*routes, history) if has_history else routes

    def canonical(self, uri: str) -> str:
        """Return the one spelling; some hosts and URL libraries drop slashes and `@`."""
        return paths.respell(uri, self._names)

    # Listing

    def entries(self, after: str = "") -> Iterator[Resource]:
        """Yield every listed file in URI order, after the URI `after`."""
        return self._files(after, "")

    def shortlist(self) -> Sequence[Iterable[Resource]]:
        """Return the project's front documents, then all other files, shallow before deep."""
        from carrel.providers.workspace import front_documents  # not needed to start

        found = front_documents.find(self._listings[""])
        documents = [describe(one, sort_key=place, rank=Rank.DOCUMENTS, guaranteed=True) for place, one in found]
        return documents, self._shallow_first(frozenset(entry.uri for _, entry in found))

    def _shallow_first(self, left_out: frozenset[str]) -> Iterator[Resource]:
        every = [listing.shallow_first() for listing in self._listings.values()]
        in_order = every[0] if len(every) == 1 else _merged(every)
        return (entry for entry in in_order if entry.uri not in left_out) if left_out else in_order

    def browse(self, directory: str | None, prefix: str, after: str = "") -> Iterator[Resource]:
        """Return the files below a folder, or those whose URI starts with the prefix."""
        from carrel.providers.workspace import list_filters  # only for Fly's lists and for prefixes

        if directory is None:
            return self._files(after, list_filters.canonical_prefix(prefix, self._trees, self._names))
        if self._buckets and list_filters.root_of(directory, self._names) in self._buckets:
            return iter(())
        root, folder = list_filters.open_folder(directory, self._trees)
        return map(describe, self._listings[root].files(after, folder))

    def children(self, uri: str, after: str = "") -> Iterator[Resource]:
        """Yield what a read of the folder shows."""
        target = paths.parse(uri, self._names)
        if target.root in self._buckets:
            raise NotFound(uri)
        tree = self._trees[target.root]
        found = tree.open(target)
        with found.opened as opened:
            if not opened.is_folder or split_query(uri)[1] is not None:
                raise NotAFolder(uri)
            from carrel.providers.workspace.folders import Folder  # not needed to start

            yield from Folder(tree, self._listings[target.root], found).resources(after)

    def _files(self, after: str, begins: str) -> Iterator[Resource]:
        for listing in self._listings.values():
            yield from map(describe, listing.files(after, (), begins))

    # Searching

    def documents(self) -> Iterator[Document]:
        """Yield every listed file."""
        for kept in self._documents():
            yield from kept.walk()

    def document_changes(self, since: object) -> DocumentChanges:
        """Return the files that changed since a token, or all of them."""
        kept = self._documents()
        tokens = since if isinstance(since, tuple) else (None,) * len(kept)
        found = [one.changes(token) for one, token in zip(kept, tokens, strict=True)]
        is_whole = any(one.is_whole for one in found)
        if is_whole:
            found = [one if one.is_whole else root.changes(None) for one, root in zip(found, kept, strict=True)]
        documents = [document for one in found for document in one.documents]
        gone = [uri for one in found for uri in one.gone]
        return DocumentChanges(documents, gone, tuple(one.token for one in found), is_whole=is_whole)

    def _documents(self) -> "Sequence[KeptDocuments]":
        from carrel.providers.workspace.kept_documents import KeptDocuments  # only if somebody searches

        with self._searching:
            if not self._kept:
                self._kept = [KeptDocuments(self._trees[name], listing) for name, listing in self._listings.items()]
                for kept in self._kept:
                    self._until_closed.callback(kept.close)
            return self._kept

    # Reading

    def begin_read(self, uri: str, path: str, query: FileQuery, root: str = "") -> Reading | Unread:
        """Open a file that was read a moment ago; anything else takes longer and is left to `read`."""
        known = self._known.get(uri)
        again = None if known is None else known.open()
        if known is None or again is None:
            return Unread(partial(self.read, uri, path, query, root))
        opened, shape, kept = again
        return _reading(opened, shape, kept) if known.part is None else _reading(opened, shape, None, (known.part, {}))

    def read(self, uri: str, path: str, query: FileQuery, root: str = "") -> Reading:
        """Read a file, whole or in parts, or a folder's children; or what git knows of them."""
        target = paths.target_of(uri, root, path)
        tree = self._trees[root]
        if asks_for_history(query):
            from carrel.providers.workspace.file_history import FileHistory  # few reads need it

            return FileHistory(tree, self._home).read(target, given_in(query))
        until = tree.policy.fresh_until()
        found = tree.open(target)
        try:
            if not found.opened.is_folder:
                return self._read_file(target, found, tree, until, query)
            with found.opened:
                after = checked(query, FOLDER_KEYS, uri).get("after", "")
                from carrel.providers.workspace.folders import Folder  # not needed to start

                shown = Folder(tree, self._listings[target.root], found)
                return shown.read(target, quote(after, safe=paths.KEY_SAFE))
        except BaseException:
            found.opened.close()
            raise

    def _read_file(self, target: Target, found: FoundFile, tree: Tree, until: float, query: FileQuery) -> Reading:
        sniffed = tree.sniff(found.opened)
        canonical = paths.canonical(target.root, found.segments)
        name = found.segments[-1]
        mime_types = (file_types.type_of(name, is_text=False), file_types.type_of(name, is_text=True))
        shape = Shape.of(sniffed, found.opened.stat, canonical, mime_types)
        part = WHOLE
        if query != NO_QUERY:
            part = wanted_part(query, target.uri, FileSource(found.opened, sniffed.head), sniffed.kind)
        # Where lines are depends on the bytes.
        if query.lines is None and found.opened.real == found.segments and len(target.uri) <= MAX_REMEMBERED_LENGTH:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            before = self._known.get(target.uri)
            self._known[target.uri] = Known(tree, found, canonical, mime_types, until, before, part[0])
        return _reading(found.opened, shape, None, part)

    def fingerprint_of_file(self, uri: str, path: str, query: FileQuery, root: str = "") -> str | None:
        """Return the ETag of a file, or a token of the names in a folder; None if there is nothing."""
        target = paths.target_of(uri, root, path)
        if asks_for_history(query):
            shown = self.read(uri, path, query, root)
            return shown.etag or content.etag_of(shown.items)
        try:
            found = self._trees[target.root].open(target)
        except NotFound:
            return None
        with found.opened as opened:
            if not opened.is_folder:
                checked(query, FILE_KEYS, uri)
                return etag_of(opened.stat)
            checked(query, FOLDER_KEYS, uri)
            children = self._listings[target.root].children(opened, found.segments)
            return blake2b("/".join([child.key for child in children]).encode(), digest_size=16).hexdigest()

    def aliases(self, uri: str) -> Sequence[str]:
        """Return the URIs under which changes of this one are reported: its own, and those that links lead to."""
        target = paths.parse(uri, self._trees)
        tree = self._trees[target.root]
        try:
            found = tree.open(target)
        except RequestError:
            alias = tree.unaliased(target.segments)
            found_at = [*tree.spellings(target.segments), *(() if alias is None else tree.spellings(alias))]
        else:
            with found.opened as opened:
                is_linked = opened.real != found.segments
            found_at = tree.spellings(found.segments) if is_linked else [found.segments]
        return [paths.canonical(target.root, segments) for segments in found_at if all(map(is_servable, segments))]

    def target(self, uri: str) -> str:
        """Return the URI of the file or folder that links lead to; the URI itself if there are none."""
        try:
            asked = paths.parse(uri, self._names)
            if asked.root not in self._trees:
                return uri
            with self._trees[asked.root].open(asked).opened as opened:
                return paths.canonical(asked.root, opened.real)
        except RequestError:
            return uri  # the read says what is wrong

    # Completion, watching, explaining

    def complete(self, template: str, variable: str, value: str, context: Mapping[str, str]) -> Completion:
        """Return the children of a folder that start with the typed name; folders end with `/`."""
        if variable == "root":
            return Completion(tuple(name for name in sorted(self._trees) if name and name.startswith(value)))
        is_named = "{root}" in template
        root = context.get("root", "") if is_named else ""
        if variable != "path" or root not in self._trees or is_named != bool(root):
            return paths.NO_VALUES
        folder, begun = paths.split_typed(value)
        try:
            target = paths.parse(paths.canonical(root, value.split("/")[:-1]), self._trees)
            quoted = quote(begun)
            found = self._trees[root].open(target)
        except RequestError:
            return paths.NO_VALUES
        with found.opened as opened:
            if not opened.is_folder or begun == "..":
                return paths.NO_VALUES
            children = self._listings[root].children(opened, found.segments, begun=quoted)
            return paths.completion(folder, ((child.name, child.entry is None) for child in children))

    def watch(self, changes: Changes) -> Callable[[], None]:
        """Report file events of every root until stopped."""
        from carrel.providers.workspace.file_events import watch_trees  # only once somebody subscribes

        changes.ask_aliases(self.aliases)
        return watch_trees([(self._trees[name], listing) for name, listing in self._listings.items()], changes)

    def explain(self, uri: str) -> list[str]:
        """Return sentences that say why a URI is served or not."""
        try:
            target = paths.parse(uri, self._trees)
        except RequestError as error:
            return [f"Not served. {error.message}."]
        from carrel.providers.workspace.explain import explain  # only for a command

        return explain(self._trees[target.root], self._listings[target.root], target)

    def bucket_roots(self) -> "Sequence[BucketRoot]":
        """Return a provider for each root that is a bucket; nothing is imported if there is none."""
        if not self._buckets:
            return ()
        from carrel.buckets.guarded import GuardedBucket, check_installed, opener
        from carrel.providers.workspace.bucket_root import BucketRoot

        check_installed()
        built = []
        for name, address in self._buckets.items():
            settings = self._bucket_settings.get(name, BucketSettings())
            try:
                bucket = GuardedBucket(opener(address, settings, self._environment))
            except ConfigError as error:
                raise ConfigError(f"[workspace.roots] {name}: {error}") from None
            rules = partial(self._policy_of, self._bucket_preset)
            built.append(BucketRoot(name, address, settings, bucket, rules, self._max_listed_bytes))
        return built

    def may_show(self, path: tuple[str, ...]) -> bool:
        """Return whether a file may be read, by its path below the project's root, whether or not it exists."""
        above = self._above
        return above is not None and path[: len(above)] == above and self._trees[""].may_show(path[len(above) :])

    def health(self) -> Meta:
        """Return the presets, and what could not be read."""
        unreadable = sum(len(listing.unreadable) for listing in self._listings.values())
        problems = [f"{unreadable} folder(s) cannot be read and are left out"] if unreadable else []
        from carrel.providers.workspace.explain import unusable_message  # not needed to start

        for tree in self._trees.values():
            problems += [unusable_message(*one) for one in sorted(tree.policy.unusable_ignore_files().items())]
        presets = {name or "main": tree.policy.preset for name, tree in self._trees.items()}
        return {"presets": presets, "problems": problems, "left_out": self.left_out()}

    def left_out(self) -> list[str]:
        """Return how many files a preset with a list of types leaves out of each root, and the command to change it."""
        messages = []
        for name, tree in self._trees.items():
            if tree.policy.preset in ("flutter", "none"):
                census = self._listings[name].count()
                if census.left_out:
                    messages.append(_left_out_message(name, tree.policy.preset, census))
        return messages

    def close(self) -> None:
        """Close the handles of the roots."""
        self._until_closed.close()


def _names_below(outer: str, inner: str) -> tuple[str, ...] | None:
    """Return the names from one folder to another below it; None if it lies elsewhere."""
    above, below = (tuple(part for part in os.path.realpath(one).split(os.sep) if part) for one in (outer, inner))
    return below[len(above) :] if below[: len(above)] == above else None


def _reading(
    opened: Opened, shape: Shape, kept: Shape | None = None, part: tuple[Range | None, dict[str, object]] = WHOLE
) -> Reading:
    """Return the reading of an open file, or of a part of it; `kept` is the shape, if it is kept."""
    sniffed = shape.sniffed
    meta = {**shape.meta, **part[1]} if part[1] else shape.meta
    source = opened if kept is not None else FileSource(opened, sniffed.head)
    item = Stored(source, sniffed.kind.encoding, shape.mime_type, None, meta)
    return Reading(
        (item,), "", sniffed.etag, shape.modified_ms, TTL_MS, "private", part[0], None, False, None, None, kept
    )


def _merged(every: Iterable[Iterator[Resource]]) -> Iterator[Resource]:
    """Yield the entries of several roots in order."""
    from heapq import merge  # most projects have one root

    return merge(*every, key=attrgetter("sort_key"))


def _left_out_message(root: str, preset: str, census: Census) -> str:
    counted = f"{census.left_out} of {'the first ' if census.is_cut else ''}{census.files} files"
    where = f" in @{root}" if root else ""
    reason = f"preset {preset} excludes their type"
    verb = "is" if census.left_out == 1 else "are"
    return f"{counted}{where} {verb} not served: {reason}; `{SET_PRESET} code` serves every text file"


def _checked_names(roots: Mapping[str, Place]) -> Mapping[str, Place]:
    for name in roots:
        if not re.fullmatch(_ROOT_NAME, name):
            raise ConfigError(f"[workspace.roots] {name!r}: a name is a-z, 0-9 and -, at most 32 characters")
    return roots


def _checked_buckets(
    settings: Mapping[str, BucketSettings], addresses: "Mapping[str, BucketAddress]"
) -> Mapping[str, BucketSettings]:
    for name in settings:
        if name not in addresses:
            raise ConfigError(f"[buckets.{name}]: there is no bucket of this name in [workspace.roots]")
    return settings


def bucket_addresses(
    roots: Mapping[str, Place], settings: Mapping[str, BucketSettings]
) -> "tuple[dict[str, BucketAddress], dict[str, Place]]":
    """Return the roots that are buckets, and the others; raise ConfigError if one bucket contains another."""
    if not any("://" in place for place in roots.values()):
        return {}, dict(roots)
    from carrel.buckets.address import check_apart, is_url
    from carrel.buckets.address import parse as parse_address

    buckets: dict[str, BucketAddress] = {}
    for name, place in roots.items():
        if is_url(place):
            if not name:
                raise ConfigError("[workspace] root: a bucket is a further root; name it in [workspace.roots]")
            try:
                buckets[name] = parse_address(place)
            except ConfigError as error:
                raise ConfigError(f"[workspace.roots] {name}: {error}") from None
    check_apart(buckets, {name: (one.endpoint.rstrip("/"), one.account) for name, one in settings.items()})
    return buckets, {name: place for name, place in roots.items() if name not in buckets}


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
    """Raise for a root inside another: its files would have two URIs and two policies."""
    places = sorted((tree.root.path.rstrip("/") + "/", tree.name or "the main root") for tree in trees)
    for (outer, first), (inner, second) in pairwise(places):
        if inner.startswith(outer):
            raise ConfigError(f"[workspace.roots]: {second} lies inside {first}; serve one of them")
