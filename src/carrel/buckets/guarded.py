"""Open a bucket at the first request, and send it no requests for a while after it failed to answer."""

import threading
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from time import monotonic
from typing import Final

from carrel.buckets.address import BucketAddress
from carrel.buckets.bucket import Bucket, BucketFault, BucketObject, ObjectPart
from carrel.buckets.settings import BucketSettings
from carrel.core.errors import ConfigError
from carrel.core.version import how_to_install

RETRY_S: Final = 5.0
"""How long a bucket that is down gets no requests: callers get the last fault at once, and no thread waits."""


def check_installed() -> None:
    """Raise ConfigError if the packages for buckets are not installed; nothing is imported."""
    if find_spec("obstore") is None:
        raise ConfigError(f"files from a bucket need packages that are not installed: {how_to_install('team')}")


def opener(address: BucketAddress, settings: BucketSettings, environment: Mapping[str, str]) -> Callable[[], Bucket]:
    """Return a function that opens the bucket of an address."""
    if address.scheme == "s3":
        settings.endpoint_in(environment)  # raises for an endpoint that cannot be used

    def open_() -> Bucket:
        if address.scheme == "s3":
            from carrel.buckets.s3 import S3Bucket  # only where there is one

            return S3Bucket(address, settings, environment)
        from carrel.buckets.cloud import CloudBucket, open_store

        return CloudBucket(open_store(address, settings, environment))

    return open_


class GuardedBucket:
    """A bucket that gets requests only while it answers."""

    def __init__(self, open_: Callable[[], Bucket]) -> None:
        self._open = open_
        self._lock = threading.Lock()
        self._bucket: Bucket | None = None
        self._fault: BucketFault | None = None
        self._ask_at = 0.0

    @property
    def fault(self) -> BucketFault | None:
        """The last fault, if the bucket has not answered since."""
        return self._fault

    def fetch(
        self, key: str, start: int, length: int, *, if_match: str = "", if_none_match: str = ""
    ) -> ObjectPart | None:
        """Return a part of an object; see `Bucket`."""
        try:
            part = self._opened().fetch(key, start, length, if_match=if_match, if_none_match=if_none_match)
        except BucketFault as fault:
            self._note(fault)
            raise
        self._fault = None
        return part

    def pages(self, start: str) -> Iterator[list[BucketObject]]:
        """Yield all objects whose key begins with `start`; see `Bucket`."""
        try:
            for page in self._opened().pages(start):
                self._fault = None
                yield page
        except BucketFault as fault:
            self._note(fault)
            raise

    def close(self) -> None:
        """Close the bucket, if it was opened."""
        with self._lock:
            bucket, self._bucket = self._bucket, None
        if bucket is not None:
            bucket.close()

    def _opened(self) -> Bucket:
        fault = self._fault
        if fault is not None and monotonic() < self._ask_at:
            raise BucketFault(str(fault), fault.word)
        with self._lock:
            if self._bucket is None:
                self._bucket = self._open()
            return self._bucket

    def _note(self, fault: BucketFault) -> None:
        self._fault = fault
        if fault.is_down:
            self._ask_at = monotonic() + RETRY_S
