"""A bucket as a further root of the workspace.

workspace://@{root}/{+path}{?start,length,lines,outline}  an object, or a folder's children

It is a separate provider under the scheme of the local files, so that a bucket that is slow or down takes no worker
thread from them. Reads ask the bucket. Lists, folders, completion and search use the last list of the bucket, which is
renewed in the background; changes are found by comparing lists.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from carrel.buckets.address import BucketAddress
from carrel.buckets.bucket import BucketFault
from carrel.buckets.contents import FIRST_S, BucketContents
from carrel.buckets.guarded import GuardedBucket
from carrel.buckets.settings import BucketSettings
from carrel.core.errors import NotFound, ProviderError, RequestError
from carrel.core.gateway import Gateway
from carrel.core.hashing import blake2b
from carrel.core.hierarchy import NotAFolder
from carrel.core.limits import REQUEST_DEADLINE_S
from carrel.core.model import Completion, Meta, Reading, Resource, Stored, Text
from carrel.core.provider import Document, Route
from carrel.core.record import replace
from carrel.core.uri import pairs, quote, split_query
from carrel.files import file_types
from carrel.providers.workspace import list_filters, paths
from carrel.providers.workspace.bucket_files import BucketFiles, BucketSource, FoundFolder, FoundObject
from carrel.providers.workspace.bucket_listing import BucketListing, item_of, resource_of
from carrel.providers.workspace.bucket_rules import BucketIgnoreFiles
from carrel.providers.workspace.explain import ADVICE, size_sentence, unusable_message
from carrel.providers.workspace.file_query import (
    FILE_QUERY,
    FOLDER_KEYS,
    NO_QUERY,
    WHOLE,
    FileQuery,
    asks_for_history,
    checked,
    wanted_part,
)
from carrel.providers.workspace.folders import TTL_MS, folder_reading
from carrel.providers.workspace.ignore_rules import IgnoreRules
from carrel.providers.workspace.paths import Target
from carrel.providers.workspace.policy import Policy

_ONE_TAG: Final = re.compile(r'(?:W/)?"?([A-Za-z0-9._+/=-]{1,128})"?')


class BucketRoot(Gateway):
    """The objects of a bucket that the policy of the workspace allows to be read."""

    schemes = (paths.SCHEME,)
    speed = "blocking"

    def __init__(
        self,
        root: str,
        address: BucketAddress,
        settings: BucketSettings,
        bucket: GuardedBucket,
        policy: Callable[[IgnoreRules], Policy],
        max_listed_bytes: int,
    ) -> None:
        self.name = f"{paths.SCHEME}@{root}"
        self.summary = f"Files of the bucket {address}, under workspace://@{root}/."
        self.deadline_s = max(REQUEST_DEADLINE_S, settings.timeout_s * 2)
        self.poll_s = settings.poll_s
        self._root = root
        self._address = address
        self._patience_s = settings.timeout_s
        self._bucket = bucket
        self._contents = BucketContents(root, bucket, address)
        rules = policy(BucketIgnoreFiles(bucket, self._contents, address))
        self._files = BucketFiles(root, bucket, self._contents, address, rules)
        self._listing = BucketListing(self._files, max_listed_bytes)
        self._contents.prepare = self._listing.prepare

    def begin(self) -> None:
        """Take the first list in the background."""
        self._contents.begin()

    def wait(self, timeout_s: float) -> bool:
        """Wait until the first list came or failed, at most `timeout_s`; return False after a timeout."""
        return self._contents.wait(timeout_s)

    def routes(self) -> Sequence[Route]:
        return (
            Route(
                f"workspace://@{self._root}/{{+path}}{{?start,length,lines,outline}}",
                self.read,
                name=f"workspace-bucket-{self._root}",
                title=f"File or folder in @{self._root}",
                description=f"A file of the bucket {self._address}, whole or in parts, or the children of a folder",
                query=FILE_QUERY,
            ),
        )

    # Lists

    def entries(self, after: str = "") -> Iterator[Resource]:
        """Yield every listed object in URI order, after the URI `after`."""
        self._try_to_look()
        return self._listing.files(after)

    def shortlist(self) -> Sequence[Iterable[Resource]]:
        """Return the listed objects, shallow before deep."""
        self._try_to_look()
        return (self._listing.shallow_first(),)

    def browse(self, directory: str | None, prefix: str, after: str = "") -> Iterator[Resource]:
        """Return the objects below a folder, or those whose URI starts with the prefix."""
        if directory is None:
            begins = list_filters.canonical_prefix(prefix, {}, (self._root,))
            own = paths.prefix_of(self._root)
            if not own.startswith(begins) and not begins.startswith(own):
                return iter(())
            self._try_to_look()
            return self._listing.files(after, begins)
        if not directory.lower().startswith(f"{paths.SCHEME}:"):
            return iter(())
        target = paths.parse(directory, (self._root,))
        if target.root != self._root:
            return iter(())
        found = self._open(target)
        if not isinstance(found, FoundFolder):
            raise paths.invalid("directory", directory, "expected a folder, and this is a file")
        return self._listing.files(after, paths.prefix_of(self._root, found.segments))

    def children(self, uri: str, after: str = "") -> Iterator[Resource]:
        """Yield what a read of the folder shows."""
        target = self._target(uri)
        found = self._open(target)
        if not isinstance(found, FoundFolder) or split_query(uri)[1] is not None:
            raise NotAFolder(uri)
        return map(resource_of, self._listing.children(found, after))

    def list_fingerprint(self) -> str:
        """Return a token that changes with the list."""
        self._try_to_look(first_s=None)
        return str(self._contents.version)

    def documents(self) -> Iterator[Document]:
        """Yield every listed object, for search."""
        try:
            self._look()
        finally:
            self._contents.log_fault()
        for one in self._listing.every():
            state, title = one.state, one.name.rpartition("/")[2]
            yield Document(one.uri, state.etag, title, one.mime_type, state.size, state.modified_ms)

    def _try_to_look(self, first_s: float | None = FIRST_S) -> None:
        """Renew the list in the background, and wait a little for it. Without a list, health says why."""
        with suppress(BucketFault):
            self._contents.look(first_s=first_s)
        self._contents.log_fault()

    def _look(self) -> None:
        """Renew the list in the background, and wait a little for it; raise if there is no list."""
        try:
            self._contents.look()
        except BucketFault as fault:
            raise self._files.unavailable(fault) from None

    # Reading

    def read(self, uri: str) -> Reading:
        """Read an object, whole or in parts, or a folder's children."""
        reading = self._read(uri)
        assert reading is not None
        return reading

    def read_if(self, uri: str, condition: str) -> Reading | None:
        """Read a URI; the store compares the ETag, so that an unchanged object is not sent."""
        tag = _ONE_TAG.fullmatch(condition.strip())
        if tag is None:
            return None
        reading = self._read(uri, f'"{tag[1]}"')
        return reading or Reading((Text(""),), etag=tag[1], ttl_ms=TTL_MS, unchanged=True)

    def _read(self, uri: str, tag: str = "") -> Reading | None:
        """Return the reading of a URI; None if its object still has this tag."""
        target, query = self._target(uri), self._query(uri)
        found = self._open(target, tag)
        if found is None:
            return None
        if isinstance(found, FoundObject):
            return self._object(target, found, query)
        after = checked(query, FOLDER_KEYS, uri).get("after", "")
        return self._folder(target, found, quote(after, safe=paths.KEY_SAFE))

    def _object(self, target: Target, found: FoundObject, query: FileQuery) -> Reading:
        kind, name = found.kind, found.segments[-1]
        meta: dict[str, object] = {
            "dev.carrel/uri": paths.canonical(self._root, found.segments),
            "dev.carrel/encoding": kind.encoding if kind.is_text else "base64",
        }
        if kind.is_fallback:
            meta["dev.carrel/fallback"] = True
        source = BucketSource(self._files, found)
        part, of_part = WHOLE if query == NO_QUERY else wanted_part(query, target.uri, source, kind)
        mime_type = file_types.type_of(name, is_text=kind.is_text)
        item = Stored(source, kind.encoding, mime_type, None, {**meta, **of_part})
        state = found.state
        return Reading((item,), etag=state.etag, last_modified_ms=state.modified_ms, ttl_ms=TTL_MS, range=part)

    def _folder(self, target: Target, found: FoundFolder, after: str) -> Reading:
        children = ((one.key, item_of(one)) for one in self._listing.children(found, after))
        reading = folder_reading(target.uri, paths.canonical(self._root, found.segments), children)
        return replace(reading, meta={"dev.carrel/stale": True}) if self._contents.state().is_stale else reading

    def _target(self, uri: str) -> Target:
        target = paths.parse(uri, (self._root,))
        if target.root != self._root:
            raise NotFound(uri)
        return target

    def _query(self, uri: str) -> FileQuery:
        text = split_query(uri)[1]
        query = FILE_QUERY.check_query(pairs(text) if text else (), uri)
        assert isinstance(query, FileQuery)
        if asks_for_history(query):
            name = next(name for name in ("at", "diff", "blame", "log") if getattr(query, name) is not None)
            raise paths.invalid(name, getattr(query, name), "a bucket has no git history", uri)
        return query

    def _open(self, target: Target, tag: str = "") -> FoundObject | FoundFolder | None:
        try:
            return self._files.open(target, self._patience_s, tag)
        except BucketFault as fault:
            raise self._files.unavailable(fault, target.uri) from None

    # Changes, completion, explanations

    def fingerprint(self, uri: str) -> str | None:
        """Return the ETag of an object, or a token of the names in a folder; None if there is nothing."""
        target, query = self._target(uri), self._query(uri)
        try:
            self._contents.look(FIRST_S, self._patience_s)
            listed = self._listing.find(paths.canonical(self._root, target.segments))
            if listed is not None and not target.is_folder:
                return listed.state.etag
            found = self._open(target)
        except BucketFault as fault:
            raise self._files.unavailable(fault, uri) from None
        except NotFound:
            return None
        if isinstance(found, FoundObject):
            return found.state.etag
        assert found is not None  # no tag was given
        checked(query, FOLDER_KEYS, uri)
        names = "\0".join(child.key for child in self._listing.children(found))
        return blake2b(names.encode(), digest_size=8).hexdigest()

    def complete(self, template: str, variable: str, value: str, context: Mapping[str, str]) -> Completion:
        """Return the children of a folder that start with the typed name; folders end with `/`."""
        del template, context
        if variable != "path":
            return paths.NO_VALUES
        folder, begun = paths.split_typed(value)
        try:
            target = paths.parse(paths.canonical(self._root, value.split("/")[:-1]) + "/", (self._root,))
            found = self._open(target)
        except (RequestError, ProviderError):
            return paths.NO_VALUES
        if not isinstance(found, FoundFolder) or begun == "..":
            return paths.NO_VALUES
        children = self._listing.children(found, begun=quote(begun))
        return paths.completion(folder, ((child.name, child.listed is None) for child in children))

    def explain(self, uri: str) -> list[str]:
        """Return sentences that say why a URI is served or not."""
        lines = [f"Preset {self._files.policy.preset}, in the root {self._root}: the bucket {self._address}."]
        try:
            self._look()
            target = self._target(uri)
            found = self._open(target)
        except NotFound:
            return [*lines, "Not served: there is no such object. The rules allow it to be read."]
        except RequestError as error:
            reason = getattr(error, "reason", "")
            why = f"{getattr(error, 'explanation', error.message)} ({reason})" if reason else error.message
            return [*lines, f"Not served: {why}.", *([ADVICE[reason]] if reason in ADVICE else [])]
        except ProviderError as error:
            return [*lines, f"Not served now. {error.message}."]
        assert found is not None  # no tag was given
        lines.append(f"Path: {'/'.join(found.segments) or 'the root'}.")
        if isinstance(found, FoundFolder):
            return [*lines, "Served: a folder; a read returns its children."]
        lines.append(size_sentence(found.state.size, found.kind.encoding))
        is_listed = self._listing.find(paths.canonical(self._root, found.segments)) is not None
        return [*lines, "Served and listed." if is_listed else "Served, but not listed."]

    def health(self) -> Meta:
        """Return the state of the bucket, and what is not listed."""
        self._contents.begin()
        known, fault = self._contents.state(), self._bucket.fault
        if fault is not None and fault.is_down and not known.problem:
            known = replace(known, problem=str(fault), is_stale=known.table is not None)
        table = known.table
        state = "stale" if known.is_stale else "up" if table else "down" if known.problem else "starting"
        problems = []
        if known.is_stale:
            problems.append(f"the bucket gives no list: {known.problem}; the one of {known.age_s:.0f} s ago is served")
        elif known.problem:
            problems.append(f"the bucket is not available: {known.problem}")
        if table is not None and table.unservable:
            problems.append(f"{table.unservable} object(s) are not served: no URI can have their names")
        if table is not None and table.is_cut:
            problems.append(f"only the first {len(table.names)} objects are listed; the others can be read by name")
        unusable = sorted(self._files.policy.unusable_ignore_files().items())
        problems += [unusable_message(*one) for one in unusable]
        count = 0 if table is None else len(table.names)
        facts = {"state": state, "bucket": str(self._address), "objects": count, "entries": len(self._listing)}
        return {**facts, "problems": problems}

    def close(self) -> None:
        """Close the connections to the store."""
        self._bucket.close()
