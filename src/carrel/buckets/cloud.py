"""Buckets of Google Cloud and Azure, read with obstore."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import (
    BaseError,
    InvalidPathError,
    NotModifiedError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import AzureStore, GCSStore, ObjectStore

from carrel.buckets.address import BucketAddress
from carrel.buckets.bucket import PAGE_KEYS, BucketFault, BucketObject, NoSuchObject, ObjectChanged, ObjectPart
from carrel.buckets.settings import BucketSettings

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta
    from obstore.store import AzureConfig, ClientConfig, GCSConfig, RetryConfig

_BAD_NAMES = "the bucket cannot be listed: the name of an object contains // or a control character"


def open_store(address: BucketAddress, settings: BucketSettings, environment: Mapping[str, str]) -> ObjectStore:
    """Return the store of an address; the credentials come from the environment or the platform."""
    time_s = settings.timeout_s
    place = settings.endpoint.rstrip("/")
    client: ClientConfig = {"timeout": f"{time_s}s", "connect_timeout": f"{min(3.0, time_s)}s"}
    if place.startswith("http:"):  # the settings allow it for loopback, and with `insecure`
        client["allow_http"] = True
    retry: RetryConfig = {"max_retries": 1, "retry_timeout": timedelta(seconds=time_s)}
    try:
        if address.scheme == "gs":
            google: GCSConfig = {"skip_signature": settings.anonymous, **({"base_url": place} if place else {})}
            return GCSStore(address.bucket, config=google, client_options=client, retry_config=retry)
        account = settings.account or environment.get("AZURE_STORAGE_ACCOUNT_NAME", "")
        if not account:
            raise BucketFault("its account is not known; set [buckets.NAME] account, or AZURE_STORAGE_ACCOUNT_NAME")
        azure: AzureConfig = {"account_name": account, "skip_signature": settings.anonymous}
        if place:
            azure["endpoint"] = place
        return AzureStore(address.bucket, config=azure, client_options=client, retry_config=retry)
    except (BaseError, ValueError):
        raise BucketFault("it cannot be opened: its credentials are not complete", is_down=True) from None


class CloudBucket:
    """A bucket in a store of obstore."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def fetch(
        self, key: str, start: int, length: int, *, if_match: str = "", if_none_match: str = ""
    ) -> ObjectPart | None:
        """Return a part of an object; see `Bucket`."""
        options: GetOptions = {"range": (start, start + length)}
        if if_match:
            options["if_match"] = if_match
        if if_none_match:
            options["if_none_match"] = if_none_match
        try:
            try:
                result = obstore.get(self._store, key, options=options)
            except BaseError as error:
                if start or _is_known(error):
                    raise
                found = _object_of(obstore.head(self._store, key))
                if found.size:
                    raise
                return None if if_none_match and found.tag == if_none_match else ObjectPart(found, b"")
            return ObjectPart(_object_of(result.meta), bytes(result.bytes()))
        except NotModifiedError:
            return None
        except PreconditionError:
            raise ObjectChanged from None
        except (FileNotFoundError, ValueError):
            raise NoSuchObject from None
        except (BaseError, OSError) as error:
            raise _fault_of(error) from None

    def pages(self, start: str) -> Iterator[list[BucketObject]]:
        """Yield all objects whose key begins with `start`; see `Bucket`."""
        try:
            for chunk in obstore.list(self._store, start.removesuffix("/") or None, chunk_size=PAGE_KEYS):
                yield [_object_of(meta) for meta in chunk]
        except InvalidPathError:
            raise BucketFault(_BAD_NAMES, "failed") from None
        except (BaseError, OSError, ValueError) as error:
            raise _fault_of(error) from None

    def close(self) -> None:
        """Do nothing: obstore closes its connections itself."""


def _is_known(error: BaseError) -> bool:
    known = (NotModifiedError, PreconditionError, PermissionDeniedError, UnauthenticatedError)
    return isinstance(error, known)


def _object_of(meta: "ObjectMeta") -> BucketObject:
    modified = int(meta["last_modified"].timestamp() * 1_000)
    return BucketObject(meta["path"], meta["size"], meta["e_tag"] or "", modified)


def _fault_of(error: Exception) -> BucketFault:
    """Return the fault for an error of obstore; its text is only looked at, because it contains addresses."""
    text = str(error)
    if "Error performing token request" in text:  # it has a status too, which is not that of the bucket
        name = "GOOGLE_APPLICATION_CREDENTIALS" if "GCS error" in text else "AZURE_STORAGE_ACCOUNT_KEY"
        message = f"there are no credentials for it that work; set {name}, or give the machine a role"
        return BucketFault(message, is_down=True)
    # A list that fails has one class of error, whatever the store answered.
    status = text.partition("non-2xx status code: ")[2][:3]
    if isinstance(error, UnauthenticatedError) or status == "401":
        return BucketFault("the store does not accept the credentials", is_down=True)
    if isinstance(error, PermissionDeniedError) or status == "403":
        return BucketFault("the credentials do not allow this")
    if status == "404":
        return BucketFault("there is no such bucket", is_down=True)
    if "kind: Timeout" in text:
        return BucketFault("it did not answer in time", "timeout", is_down=True)
    return BucketFault("it cannot be reached, or there is no such bucket", is_down=True)
