"""Open the objects of a bucket as files: the policy judges the path, then the object is requested.

The first request returns the first bytes, which are all bytes of most objects. Further parts are requested on the
condition that the object has not changed, so that parts of two states are never joined.
"""

from typing import Final

from carrel.buckets.address import BucketAddress, is_name
from carrel.buckets.bucket import Bucket, BucketFault, BucketObject, NoSuchObject, ObjectChanged, ObjectPart
from carrel.buckets.contents import FIRST_S, BucketContents, ObjectTable
from carrel.core.cache import BoundedCache
from carrel.core.errors import NotFound, ProviderError
from carrel.core.record import Value
from carrel.files import file_types
from carrel.files.file_types import Kind
from carrel.providers.workspace.ignore_rules import Segments
from carrel.providers.workspace.paths import Target, denied
from carrel.providers.workspace.policy import TYPE, Policy, Verdict
from carrel.providers.workspace.tree import is_servable, refused

FIRST_BYTES: Final = 262_144
"""Bytes of an object that the first request asks for."""
MAX_CACHED_BYTES: Final = 16 << 20
"""Maximum size of the cache of first bytes; they are used again while the store says that they are unchanged."""
BLOCK_BYTES: Final = 262_144
"""Minimum number of bytes in one further request for a large object."""
_WEIGHT: Final = 512


class FoundObject(Value, frozen=True):
    """An object that may be served: its path, its state, its first bytes, their kind, and the verdict on it."""

    segments: Segments
    state: BucketObject
    head: bytes
    kind: Kind
    verdict: Verdict


class FoundFolder(Value, frozen=True):
    """A folder of a bucket that may be read, and the list that contains it."""

    segments: Segments
    table: ObjectTable

    @property
    def path(self) -> str:
        """The beginning of the names of everything in it."""
        return "".join(f"{name}/" for name in self.segments)


class BucketFiles:
    """One bucket with its policy. Safe to use from several threads."""

    def __init__(
        self, name: str, bucket: Bucket, contents: BucketContents, address: BucketAddress, policy: Policy
    ) -> None:
        self.name = name
        self.bucket = bucket
        self.contents = contents
        self.address = address
        self.policy = policy
        self._heads: BoundedCache[str, ObjectPart] = BoundedCache(MAX_CACHED_BYTES)

    def open(self, target: Target, patience_s: float, tag: str = "") -> FoundObject | FoundFolder | None:
        """Open a target, or raise; None if it is an object that still has the tag `tag`."""
        if not all(is_servable(name) and is_name(name) for name in target.segments):
            raise NotFound(target.uri)
        try:
            return self._open(target, patience_s, tag)
        except BucketFault:
            if self.policy.denies(target.segments, False):  # before the bucket is asked
                raise denied(target.uri, "deny") from None
            raise

    def _open(self, target: Target, patience_s: float, tag: str) -> FoundObject | FoundFolder | None:
        segments = target.segments
        judge = self.policy.judge
        as_folder = judge(segments, is_folder=True)
        as_file = judge(segments, is_folder=False) if segments else as_folder
        may_enter = not as_folder.reason or self.policy.leads_to_allowed(segments, as_folder)
        if target.is_folder or not segments or as_file.reason:
            if not may_enter:
                raise refused(self.policy, target.uri, as_folder if target.is_folder else as_file)
            return self._open_folder(target, patience_s, as_file)
        try:
            return self._open_object(target, as_file, tag)
        except NoSuchObject:
            if not may_enter:
                raise refused(self.policy, target.uri, as_folder) from None
        return self._open_folder(target, patience_s, as_file)

    def _open_object(self, target: Target, verdict: Verdict, tag: str) -> FoundObject | None:
        part = self.head_of("/".join(target.segments), tag)
        if part is None:
            return None
        kind = file_types.sniff(part.data[: file_types.WINDOW], is_whole=part.found.size <= file_types.WINDOW)
        if verdict.needs_text and not kind.is_text:
            raise refused(self.policy, target.uri, TYPE)
        return FoundObject(target.segments, part.found, part.data, kind, verdict)

    def _open_folder(self, target: Target, patience_s: float, as_file: Verdict) -> FoundFolder:
        """Return a folder; one that does not exist gets the error of a file of this name."""
        found = FoundFolder(target.segments, self.contents.look(FIRST_S, patience_s))
        if not found.table.has_folder(found.path):
            if as_file.reason and not target.is_folder:
                raise refused(self.policy, target.uri, as_file)
            raise NotFound(target.uri)
        return found

    def head_of(self, name: str, tag: str = "") -> ObjectPart | None:
        """Return the first bytes of an object as they are now; None if it still has the tag `tag`."""
        known = self._heads.get(name)
        asked = tag or (known.found.tag if known is not None else "")
        try:
            part = self.bucket.fetch(self.address.start + name, 0, FIRST_BYTES, if_none_match=asked)
        except NoSuchObject:
            self._heads.drop(name)
            raise
        if part is not None:
            if part.found.tag:
                self._heads.put(name, part, len(part.data) + len(name) + _WEIGHT)
            return part
        return None if tag else known

    def kind_of(self, name: str, state: BucketObject) -> Kind | None:
        """Return the kind of an object's bytes; None if it is not known for this state."""
        known = self._heads.get(name)
        if known is None or known.found.etag != state.etag:
            return None
        return file_types.sniff(known.data[: file_types.WINDOW], is_whole=known.found.size <= file_types.WINDOW)

    def unavailable(self, fault: BucketFault, uri: str | None = None) -> ProviderError:
        """Return the error for clients."""
        return ProviderError(f"The bucket of @{self.name} is not available: {fault}", word=fault.word, uri=uri)


class BucketSource:
    """An object as a source. Once the object changed, there are no more bytes, and it `has_moved`."""

    def __init__(self, files: BucketFiles, found: FoundObject) -> None:
        self._files = files
        self._state = found.state
        self._head = found.head
        self._block: tuple[int, bytes] = (0, b"")
        self._has_moved = False
        self.size = found.state.size

    def read(self, start: int, length: int) -> bytes:
        """Return bytes, from the known ones or from the bucket."""
        end = min(start + length, self.size)
        if start >= end:
            return b""
        for at, block in ((0, self._head), self._block):
            if at <= start and end <= at + len(block):
                return block[start - at : end - at]
        if self._has_moved:
            return b""
        block = self._fetch(start, max(end - start, BLOCK_BYTES))
        self._block = (start, block)
        return block[: end - start]

    def _fetch(self, start: int, length: int) -> bytes:
        state = self._state
        try:
            part = self._files.bucket.fetch(state.key, start, length, if_match=state.tag)
        except (ObjectChanged, NoSuchObject):
            part = None
        except BucketFault as fault:
            raise self._files.unavailable(fault) from None
        if part is None or part.found.etag != state.etag or part.found.size != self.size:
            self._has_moved = True
            return b""
        return part.data

    def data_from(self, start: int) -> int:
        """Return `start`: objects have no holes."""
        return start

    def has_moved(self) -> bool:
        """Return whether the object changed since its first bytes were read."""
        return self._has_moved

    def close(self) -> None:
        """Forget the bytes."""
        self._block = (0, b"")
