"""The interface of a bucket, the same for every store, and its errors."""

from collections.abc import Iterator
from typing import Final, Literal, Protocol

from carrel.core.hashing import blake2b
from carrel.core.record import Value

FaultWord = Literal["unavailable", "timeout", "failed"]

PAGE_KEYS: Final = 1_000
"""Number of keys in one request for a list: the maximum of S3."""


class BucketObject(Value, frozen=True, gc=False):
    """An object in a bucket. `tag` is the store's own ETag as sent, quotes included; empty if it has none."""

    key: str
    size: int
    tag: str
    modified_ms: int

    @property
    def etag(self) -> str:
        """The store's ETag without quotes; of a store without ETags, one made from size and time."""
        tag = self.tag.removeprefix("W/").strip('"')
        state = f"{self.size}:{self.modified_ms}".encode()
        return tag or blake2b(state, digest_size=8).hexdigest()


class ObjectPart(Value, frozen=True):
    """Bytes of an object, and the state of the object that they belong to."""

    found: BucketObject
    data: bytes


class NoSuchObject(Exception):
    """The bucket has no object of this key."""


class ObjectChanged(Exception):
    """The object is no longer the one whose ETag was given."""


class BucketFault(Exception):
    """The bucket gave no answer; the message is one sentence without addresses, secrets or the store's own text.

    With `is_down`, the next requests are expected to fail too.
    """

    def __init__(self, message: str, word: FaultWord = "unavailable", *, is_down: bool = False) -> None:
        super().__init__(message)
        self.word = word
        self.is_down = is_down


class Bucket(Protocol):
    """A bucket; its methods may be called from several threads, and raise `BucketFault`."""

    def fetch(
        self, key: str, start: int, length: int, *, if_match: str = "", if_none_match: str = ""
    ) -> ObjectPart | None:
        """Return at most `length` bytes of an object from `start` on; None if it still has the tag `if_none_match`.

        Raise `NoSuchObject`, or `ObjectChanged` if it does not have the tag `if_match`.
        """

    def pages(self, start: str) -> Iterator[list[BucketObject]]:
        """Yield all objects whose key begins with `start`, some at a time."""

    def close(self) -> None:
        """Release connections."""
