"""Buckets through obstore: with its store in memory, and with servers on loopback that speak as Google and Azure do.

The interface of Google Cloud that obstore uses is that of S3, with another login: moto answers it.
"""

import obstore
import pytest
from obstore.store import MemoryStore

from carrel.buckets.address import parse
from carrel.buckets.bucket import BucketFault, NoSuchObject, ObjectChanged
from carrel.buckets.cloud import CloudBucket, open_store
from carrel.buckets.settings import BucketSettings
from carrel.core.provider import Place
from tests.support.s3_servers import S3Server, ScriptedStore
from tests.support.waiting import PATIENCE_S


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def test_parts_join_and_conditions_hold(store: MemoryStore) -> None:
    obstore.put(store, "a/b.md", b"0123456789")
    there = CloudBucket(store)
    whole = there.fetch("a/b.md", 0, 100)
    assert whole is not None
    assert (whole.data, whole.found.size) == (b"0123456789", 10)
    part = there.fetch("a/b.md", 4, 3, if_match=whole.found.tag)
    assert part is not None
    assert part.data == b"456"
    assert there.fetch("a/b.md", 0, 100, if_none_match=whole.found.tag) is None
    obstore.put(store, "a/b.md", b"other")
    with pytest.raises(ObjectChanged):
        there.fetch("a/b.md", 4, 3, if_match=whole.found.tag)


def test_an_empty_object_and_a_missing_one_are_told_apart(store: MemoryStore) -> None:
    obstore.put(store, "empty", b"")
    there = CloudBucket(store)
    empty = there.fetch("empty", 0, 100)
    assert empty is not None
    assert (empty.data, empty.found.size) == (b"", 0)
    for key in ("nope", "a//b", "x/../y"):
        with pytest.raises(NoSuchObject):
            there.fetch(key, 0, 100)


def test_objects_are_listed_in_pages(store: MemoryStore) -> None:
    for number in range(2_300):
        obstore.put(store, f"n/{number:04d}", b"x")
    obstore.put(store, "other", b"x")
    pages = list(CloudBucket(store).pages("n/"))
    assert sum(len(page) for page in pages) == 2_300
    assert max(len(page) for page in pages) <= 1_000
    assert {one.key for page in CloudBucket(store).pages("") for one in page} >= {"other", "n/0000"}


def test_a_container_of_azure_needs_an_account() -> None:
    with pytest.raises(BucketFault, match="account is not known"):
        open_store(parse("az://container"), BucketSettings(), {})
    settings = BucketSettings(account="team", anonymous=True)
    assert type(open_store(parse("az://container"), settings, {})).__name__ == "AzureStore"


def test_a_bucket_of_google_is_opened_without_asking_for_anything() -> None:
    opened = open_store(parse("gs://team/docs"), BucketSettings(anonymous=True), {})
    assert type(opened).__name__ == "GCSStore"


GOOGLE = {"GOOGLE_BEARER_TOKEN": "secret-of-tests"}
AZURE = {"AZURE_STORAGE_ACCOUNT_KEY": "c2VjcmV0LW9mLXRlc3Rz"}


def opened(monkeypatch: pytest.MonkeyPatch, address: str, endpoint: str) -> CloudBucket:
    """Open a bucket of a server on loopback."""
    for name, value in (GOOGLE | AZURE).items():
        monkeypatch.setenv(name, value)
    settings = BucketSettings(endpoint=Place(endpoint), account="team", timeout_s=PATIENCE_S)
    return CloudBucket(open_store(parse(address), settings, {}))


@pytest.mark.slow
def test_a_bucket_of_google_is_listed_and_read(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = s3.make_bucket("google")  # obstore encodes a hyphen, which moto does not decode
    there = opened(monkeypatch, "gs://google", bucket.url)
    texts = {"docs/a.md": b"0123456789", "docs/empty": b"", "docs/x y/é#%.md": b"abc"}
    for key, text in texts.items():
        bucket.put(key, text)
    bucket.put("other", b"x")

    assert [(one.key, one.size) for page in there.pages("docs/") for one in page] == [
        (key, len(text)) for key, text in texts.items()
    ]
    parts = {key: there.fetch(key, 0, 100) for key in texts}
    assert {key: part and part.data for key, part in parts.items()} == texts
    tag = parts["docs/a.md"].found.tag if parts["docs/a.md"] else ""
    part = there.fetch("docs/a.md", 4, 3, if_match=tag)
    assert part is not None
    assert part.data == b"456"
    assert there.fetch("docs/a.md", 0, 100, if_none_match=tag) is None
    bucket.put("docs/a.md", b"other")
    with pytest.raises(ObjectChanged):
        there.fetch("docs/a.md", 4, 3, if_match=tag)
    with pytest.raises(NoSuchObject):
        there.fetch("docs/none", 0, 3)


@pytest.mark.slow
def test_a_bucket_of_google_that_is_missing_is_reported(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BucketFault) as fault:
        list(opened(monkeypatch, "gs://missing", s3.url).pages(""))

    assert str(fault.value) == "there is no such bucket"


@pytest.mark.parametrize("address", ["gs://team", "az://team"])
@pytest.mark.parametrize(
    ("status", "told"),
    [
        (401, "the store does not accept the credentials"),
        (403, "the credentials do not allow this"),
        (400, "it cannot be reached, or there is no such bucket"),
    ],
)
def test_a_store_that_refuses_is_reported_alike_for_a_read_and_a_list(
    address: str, status: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedStore(lambda *_: (status, {}, b"")) as store:
        there = opened(monkeypatch, address, store.url)
        for ask in (lambda: there.fetch("a.md", 0, 10), lambda: list(there.pages(""))):
            with pytest.raises(BucketFault) as fault:
                ask()
            assert str(fault.value) == told


@pytest.mark.parametrize(
    ("address", "name"),
    [("gs://team", "GOOGLE_APPLICATION_CREDENTIALS"), ("az://team", "AZURE_STORAGE_ACCOUNT_KEY")],
)
@pytest.mark.parametrize("status", [403, 404])
def test_a_machine_without_credentials_is_not_taken_for_a_missing_or_forbidden_bucket(
    address: str, name: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedStore(lambda *_: (status, {}, b"")) as platform:
        monkeypatch.setenv("GCE_METADATA_HOST", platform.url.removeprefix("http://"))
        monkeypatch.setenv("AZURE_MSI_ENDPOINT", platform.url)
        settings = BucketSettings(account="team", timeout_s=PATIENCE_S)
        there = CloudBucket(open_store(parse(address), settings, {}))
        for ask in (lambda: there.fetch("a.md", 0, 10), lambda: list(there.pages(""))):
            with pytest.raises(BucketFault) as fault:
                ask()
            message = f"there are no credentials for it that work; set {name}, or give the machine a role"
            assert (str(fault.value), fault.value.is_down) == (message, True)
        assert platform.asked


def test_the_credentials_of_each_store_are_those_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    head = {"ETag": '"1"', "Last-Modified": "Wed, 18 Nov 2026 10:00:00 GMT", "Content-Range": "bytes 0-1/2"}
    with ScriptedStore(lambda *_: (206, head, b"hi")) as store:
        for address in ("gs://team", "az://team"):
            part = opened(monkeypatch, address, f"{store.url}/place").fetch("a.md", 0, 10)
            assert part is not None
            assert (part.data, part.found.tag) == (b"hi", '"1"')
        (google, of_google), (azure, of_azure) = store.asked

    assert (google, of_google["authorization"]) == ("/place/team/a%2Emd", "Bearer secret-of-tests")
    assert (azure, of_azure["authorization"].partition(":")[0]) == ("/place/team/a.md", "SharedKey team")


def test_a_fault_names_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("no_proxy", "")
    there = CloudBucket(open_store(parse("gs://team"), BucketSettings(anonymous=True, timeout_s=1), {}))
    with pytest.raises(BucketFault) as fault:
        there.fetch("a.md", 0, 10)
    assert str(fault.value) == "it cannot be reached, or there is no such bucket"
    with pytest.raises(BucketFault, match="it cannot be reached"):
        list(there.pages(""))
