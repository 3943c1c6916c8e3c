"""The address of a bucket, as settings name it: `s3://bucket/prefix`, `gs://…` or `az://container/prefix`."""

import re
from collections.abc import Mapping
from itertools import combinations
from typing import Final

from carrel.core.errors import ConfigError, echo
from carrel.core.record import Value

SCHEMES: Final = ("s3", "gs", "az")
_FORM: Final = re.compile(r"([a-z][a-z0-9+.-]*)://([^/]*)(?:/(.*))?", re.IGNORECASE | re.DOTALL)
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_EXPECTED: Final = "expected s3://bucket/prefix, gs://bucket/prefix or az://container/prefix"


class BucketAddress(Value, frozen=True):
    """A bucket, and the beginning of the keys that are served; `prefix` has no closing `/`."""

    scheme: str
    bucket: str
    prefix: str = ""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}" + (f"/{self.prefix}" if self.prefix else "")

    @property
    def start(self) -> str:
        """The beginning of every served key."""
        return f"{self.prefix}/" if self.prefix else ""

    def holds(self, other: "BucketAddress") -> bool:
        """Return whether all objects of another address are also objects of this one."""
        same = (self.scheme, self.bucket) == (other.scheme, other.bucket)
        return same and other.start.startswith(self.start)


def is_url(text: str) -> bool:
    """Return whether a setting names a place on the network rather than a folder."""
    return "://" in text


def parse(text: str) -> BucketAddress:
    """Return the address; raise ConfigError, which never repeats a part that may be a secret."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise ConfigError(_EXPECTED)
    scheme, bucket, prefix = found[1].lower(), found[2], (found[3] or "").removesuffix("/")
    if "@" in bucket or ":" in bucket or "?" in text:
        raise ConfigError(
            "the address of a bucket has no credentials and no query; credentials come from the environment, "
            "the endpoint and the region from [buckets.NAME]"
        )
    if scheme not in SCHEMES:
        raise ConfigError(f"{_EXPECTED}, got {echo(scheme)}://…")
    if not _BUCKET.fullmatch(bucket):
        raise ConfigError(f"{echo(bucket)!r} is not the name of a bucket; {_EXPECTED}")
    if prefix and not all(map(is_name, prefix.split("/"))):
        raise ConfigError("a prefix consists of names that are separated by single slashes, without . and ..")
    return BucketAddress(scheme, bucket, prefix)


def check_apart(addresses: Mapping[str, BucketAddress], stores: Mapping[str, tuple[str, str]]) -> None:
    """Raise ConfigError if one bucket contains another; `stores` are the endpoints and accounts, where configured."""
    for (other, known), (name, address) in combinations(addresses.items(), 2):
        is_same_store = stores.get(name, ("", "")) == stores.get(other, ("", ""))
        if is_same_store and (known.holds(address) or address.holds(known)):
            raise ConfigError(f"[workspace.roots]: {name} and {other} serve the same objects; serve one of them")


def is_name(segment: str) -> bool:
    """Return whether a part of a key can be a name in a path, and can be requested from every store."""
    return segment not in ("", ".", "..") and "\\" not in segment and _CONTROL.search(segment) is None
