"""Buckets through obstore, with its store in memory; the stores of Google and Azure differ only in their address."""

import obstore
import pytest
from obstore.store import MemoryStore

from carrel.buckets.address import parse
from carrel.buckets.bucket import BucketFault, NoSuchObject, ObjectChanged
from carrel.buckets.cloud import CloudBucket, open_store
from carrel.buckets.settings import BucketSettings


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
