"""Buckets of Amazon S3 and of compatible stores.

obstore finds the credentials, in the environment or on the platform, and signs URLs that are valid for a minute.
`bounded_http` sends the requests, because obstore follows redirects with the session token, and its lists fail as a
whole if one key contains `//` or a control character (decision 21).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote_plus, urlencode, urlsplit
from xml.etree import ElementTree

from carrel.buckets.address import BucketAddress, is_name
from carrel.buckets.bounded_http import BoundedHttp, HttpAnswer, HttpUnanswered
from carrel.buckets.bucket import PAGE_KEYS, BucketFault, BucketObject, NoSuchObject, ObjectChanged, ObjectPart
from carrel.buckets.settings import BucketSettings

if TYPE_CHECKING:
    from obstore.store import S3Config

MAX_LIST_BYTES: Final = 8 << 20
"""Maximum size of one page of a list: a thousand keys of 1,024 bytes, escaped, fit."""
VALID_S: Final = 60
TRIES: Final = 2
NO_CREDENTIALS: Final = (
    "there are no credentials for it; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine a role"
)
_REFUSED: Final = frozenset({"InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"})
_CODE: Final = re.compile(rb"<Code>([A-Za-z0-9]{1,64})</Code>")
_REGION: Final = re.compile(r"[a-z0-9-]{1,32}")
_RANGE: Final = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})")

Sign = Callable[[str, str], str]
"""Returns the URL for a key, or with an empty key for a query of the bucket."""


class S3Bucket:
    """A bucket that is asked over HTTP."""

    def __init__(self, address: BucketAddress, settings: BucketSettings, environment: Mapping[str, str]) -> None:
        self._http = BoundedHttp(settings.timeout_s)
        endpoint, region = settings.endpoint_in(environment), settings.region_in(environment)
        place = place_of(endpoint or f"https://s3.{region}.amazonaws.com", address.bucket, settings)
        is_anonymous = settings.anonymous or environment.get("AWS_SKIP_SIGNATURE", "").lower() in ("1", "true")
        self._sign = _unsigned(place) if is_anonymous else _signer(address.bucket, place, region, settings, environment)

    def fetch(
        self, key: str, start: int, length: int, *, if_match: str = "", if_none_match: str = ""
    ) -> ObjectPart | None:
        """Return a part of an object; see `Bucket`."""
        if not all(map(is_name, key.split("/"))):
            raise NoSuchObject  # obstore cannot sign such a key
        conditions = {"If-Match": if_match, "If-None-Match": if_none_match}
        headers = {name: value for name, value in conditions.items() if value}
        answer = self._get(key, "", {**headers, "Range": f"bytes={start}-{start + length - 1}"}, length)
        if answer.status == 416 and start == 0:  # an empty object has no range
            answer = self._get(key, "", headers, length)
        if answer.status == 304:
            return None
        if answer.status == 412:
            raise ObjectChanged
        if answer.status == 404 and _code_of(answer) != "NoSuchBucket":
            raise NoSuchObject
        if answer.status not in (200, 206):
            raise _fault(answer)
        return _part(key, answer, start)

    def pages(self, start: str) -> Iterator[list[BucketObject]]:
        """Yield all objects whose key begins with `start`; see `Bucket`."""
        token = ""
        while True:
            asked = {"list-type": "2", "encoding-type": "url", "max-keys": str(PAGE_KEYS), "prefix": start}
            if token:
                asked["continuation-token"] = token
            answer = self._get("", urlencode(sorted(asked.items()), quote_via=quote), {}, MAX_LIST_BYTES)
            if answer.status != 200 or answer.is_cut:
                raise _fault(answer)
            objects, following = _page(answer.body)
            yield objects
            if not following or following == token:
                return
            token = following

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _get(self, key: str, query: str, headers: Mapping[str, str], most: int) -> HttpAnswer:
        """Send a request; once more if the store is busy."""
        url = self._sign(key, query)
        answer = HttpAnswer(0, {}, b"")
        for _ in range(TRIES):
            try:
                answer = self._http.get(url, headers, most)
            except HttpUnanswered as error:
                message = "it did not answer in time" if error.is_late else "it cannot be reached"
                raise BucketFault(message, "timeout" if error.is_late else "unavailable", is_down=True) from None
            if answer.status < 500:
                break
        return answer


def place_of(endpoint: str, bucket: str, settings: BucketSettings) -> str:
    """Return the URL of a bucket: a path of the endpoint, or a host name before it."""
    if not settings.virtual_hosted:
        return f"{endpoint}/{bucket}"
    parts = urlsplit(endpoint)
    return f"{parts.scheme}://{bucket}.{parts.netloc}{parts.path}"


def _unsigned(place: str) -> Sign:
    return lambda key, query: f"{place}/{quote(key)}" if key else f"{place}?{query}"


def _signer(bucket: str, place: str, region: str, settings: BucketSettings, environment: Mapping[str, str]) -> Sign:
    import obstore  # only where a bucket is asked
    from obstore.exceptions import BaseError
    from obstore.store import S3Store

    given: S3Config = {}
    if environment.get("AWS_ACCESS_KEY_ID") and environment.get("AWS_SECRET_ACCESS_KEY"):
        given["access_key_id"] = environment["AWS_ACCESS_KEY_ID"]
        given["secret_access_key"] = environment["AWS_SECRET_ACCESS_KEY"]
    if environment.get("AWS_SESSION_TOKEN"):
        given["session_token"] = environment["AWS_SESSION_TOKEN"]
    time_s = min(5.0, settings.timeout_s)

    def store_at(endpoint: str) -> S3Store:
        return S3Store(
            bucket,
            endpoint=endpoint,
            region=region,
            virtual_hosted_style_request=True,  # the place names the bucket already
            client_options={"allow_http": True, "timeout": f"{time_s}s", "connect_timeout": f"{time_s}s"},
            retry_config={"max_retries": 1, "retry_timeout": timedelta(seconds=time_s)},
            config=given,
        )

    objects = store_at(place)

    def sign(key: str, query: str) -> str:
        try:
            # A query is signed as part of the endpoint. `x-id` is the parameter with which SDKs name the operation.
            store, path = (objects, key) if key else (store_at(f"{place}?{query}&x-id="), "ListObjectsV2")
            return obstore.sign(store, "GET", path, timedelta(seconds=VALID_S))
        except (BaseError, OSError):
            raise BucketFault(NO_CREDENTIALS, is_down=True) from None

    return sign


def _part(key: str, answer: HttpAnswer, start: int) -> ObjectPart:
    """Return the part of an object in an answer; raise if it is not the requested part."""
    if answer.status == 200:
        told = answer.headers.get("content-length", "")
        size = int(told) if told.isdecimal() else len(answer.body)
        is_sound = start == 0 and (told.isdecimal() or not answer.is_cut)
    else:
        found = _RANGE.fullmatch(answer.headers.get("content-range", ""))
        first, last, size = map(int, found.groups()) if found else (0, 0, 0)
        is_sound = found is not None and first == start and len(answer.body) == last - first + 1
    if not is_sound:
        raise BucketFault("it sent another part of the object than the requested one", "failed")
    modified = _milliseconds(parsedate_to_datetime, answer.headers.get("last-modified", ""))
    return ObjectPart(BucketObject(key, size, answer.headers.get("etag", ""), modified), answer.body)


def _page(body: bytes) -> tuple[list[BucketObject], str]:
    """Return the objects of one page of a list, and the token of the next; empty after the last."""
    if b"<!" in body:  # no list has a document type, and nothing in one may be expanded
        raise BucketFault("it sent a list that cannot be read", "failed")
    try:
        top = ElementTree.fromstring(body)
        fields = [{_local(one.tag): one.text or "" for one in row} for row in top if _local(row.tag) == "Contents"]
        whole = {_local(one.tag): one.text or "" for one in top}
        decode = unquote_plus if whole.get("EncodingType") == "url" else str
        objects = [
            BucketObject(
                decode(row["Key"]),
                int(row["Size"]),
                row.get("ETag", ""),
                _milliseconds(_from_iso, row.get("LastModified", "")),
            )
            for row in fields
        ]
    except (ElementTree.ParseError, KeyError, ValueError):
        raise BucketFault("it sent a list that cannot be read", "failed") from None
    is_truncated = whole.get("IsTruncated", "").lower() == "true"
    return objects, whole.get("NextContinuationToken", "") if is_truncated else ""


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


def _from_iso(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _milliseconds(parse: Callable[[str], datetime], text: str) -> int:
    try:
        return int(parse(text).timestamp() * 1_000)
    except (ValueError, OverflowError, TypeError):
        return 0


def _code_of(answer: HttpAnswer) -> str:
    found = _CODE.search(answer.body)
    return "" if found is None else found[1].decode()


def _fault(answer: HttpAnswer) -> BucketFault:
    """Return the fault for an answer with an error status."""
    code = _code_of(answer)
    if code == "NoSuchBucket" or answer.status == 404:
        return BucketFault("there is no such bucket", is_down=True)
    if code in _REFUSED:
        return BucketFault("the store does not accept the credentials", is_down=True)
    if answer.status in (401, 403):
        return BucketFault("the credentials do not allow this")
    if 300 <= answer.status < 400 or code == "AuthorizationHeaderMalformed":
        region = answer.headers.get("x-amz-bucket-region", "")
        advice = f"it is in the region {region}" if _REGION.fullmatch(region) else "check the region and the endpoint"
        return BucketFault(f"the store redirects to another place, and redirects are not followed; {advice}")
    return BucketFault("the store failed" if answer.status >= 500 else "the store refused the request")
