"""The kept list of a bucket: what it holds, when it is renewed, and what callers get while the bucket is down."""

import threading
from collections.abc import Iterator

import pytest

from carrel.buckets import contents as module
from carrel.buckets.address import parse
from carrel.buckets.bucket import BucketFault, BucketObject, ObjectPart
from carrel.buckets.contents import BucketContents, ObjectTable
from carrel.buckets.guarded import GuardedBucket
from tests.support.waiting import until


def made(key: str, size: int = 1) -> BucketObject:
    return BucketObject(key, size, f'"{size}"', 0)


class ListedBucket:
    """A bucket whose pages a test decides."""

    def __init__(self, *keys: str) -> None:
        self.keys = list(keys)
        self.fault: BucketFault | None = None
        self.lists = 0
        self.gate = threading.Event()
        self.gate.set()

    def fetch(
        self, key: str, start: int, length: int, *, if_match: str = "", if_none_match: str = ""
    ) -> ObjectPart | None:
        if self.fault is not None:
            raise self.fault
        return ObjectPart(made(key), b"x")

    def pages(self, start: str) -> Iterator[list[BucketObject]]:
        self.lists += 1
        assert self.gate.wait(10)
        if self.fault is not None:
            raise self.fault
        yield [made(key) for key in self.keys if key.startswith(start)]

    def close(self) -> None:
        self.gate.set()


@pytest.fixture(autouse=True)
def _renewed_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHARE", 0)


def contents_of(bucket: ListedBucket, prefix: str = "") -> BucketContents:
    return BucketContents("docs", bucket, parse(f"s3://team/{prefix}"))


def test_names_are_keys_without_the_prefix_and_odd_ones_are_counted() -> None:
    keys = ["p/a.md", "p/b/c.md", "p/", "p/b//d.md", "p/../x", "p/e\tf", "p/back\\slash", "p/sub/", "q.md"]
    table = contents_of(ListedBucket(*keys), "p").look()
    assert (table.names, table.unservable) == (["a.md", "b/c.md", "sub/"], 4)


def test_a_folder_has_each_child_once_and_skips_what_is_deeper() -> None:
    names = ["a.md", "b", "b-c", "b/1", "b/2/3", "b/2/4", "b0", "sub/"]
    table = ObjectTable({name: made(name) for name in names})
    assert [(name, state is None) for name, state in table.children("")] == [
        ("a.md", False),
        ("b", False),
        ("b-c", False),
        ("b", True),
        ("b0", False),
        ("sub", True),
    ]
    assert [(name, state is None) for name, state in table.children("b/")] == [("1", False), ("2", True)]
    assert list(table.children("sub/")) == []
    assert [table.has_folder(path) for path in ("", "b/", "b/2/", "sub/", "a.md/", "c/")] == [True] * 4 + [False] * 2


def test_a_list_is_used_while_it_is_fresh_and_renewed_when_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = ListedBucket("a.md")
    kept = contents_of(bucket)
    first = kept.look()
    bucket.keys.append("b.md")
    assert kept.look() is first
    assert (bucket.lists, kept.version) == (1, 1)
    kept.begin(age_s=0.0)
    assert kept.wait(10)
    assert (kept.look().names, kept.version) == (["a.md", "b.md"], 2)
    kept.begin(age_s=0.0)
    assert kept.wait(10)
    assert kept.version == 2


def test_while_the_bucket_is_down_the_last_list_is_served_and_said_to_be_stale() -> None:
    bucket = ListedBucket("a.md")
    kept = contents_of(bucket)
    kept.look()
    bucket.fault = BucketFault("it cannot be reached", is_down=True)
    kept.begin(age_s=0.0)
    assert kept.wait(10)
    assert kept.look().names == ["a.md"]
    state = kept.state()
    assert (state.is_stale, state.problem) == (True, "it cannot be reached")
    kept.begin(age_s=0.0)  # not asked again at once
    assert bucket.lists == 2


def test_without_any_list_the_fault_is_raised() -> None:
    bucket = ListedBucket()
    bucket.fault = BucketFault("there is no such bucket", is_down=True)
    kept = contents_of(bucket)
    with pytest.raises(BucketFault, match="there is no such bucket"):
        kept.look()
    state = kept.state()
    assert (state.table, state.is_stale, state.problem) == (None, False, "there is no such bucket")


def test_a_list_that_takes_long_is_not_waited_for() -> None:
    bucket = ListedBucket("a.md")
    bucket.gate.clear()
    kept = contents_of(bucket)
    with pytest.raises(BucketFault, match="it has not answered yet"):
        kept.look(0.0, 0.0)
    assert kept.recent(60.0) is None
    bucket.gate.set()
    until(lambda: kept.table is not None)
    bucket.gate.clear()
    kept.begin(age_s=0.0)
    assert kept.look(0.0).names == ["a.md"]
    bucket.gate.set()


def test_a_large_list_is_cut_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_OBJECTS", 3)
    kept = contents_of(ListedBucket("d", "c", "b", "a"))
    table = kept.look()
    assert (table.names, table.is_cut) == (["a", "b", "c"], True)
    assert kept.recent(60.0) is None  # what is not in it may exist


def test_a_failed_preparation_is_a_fault_and_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0.0)
    kept, tables = contents_of(ListedBucket("a.md")), []

    def prepare(table: ObjectTable) -> None:
        tables.append(table)
        if len(tables) == 1:
            raise BucketFault("it did not answer in time", "timeout")

    kept.prepare = prepare
    kept.look()
    assert (kept.state().problem, kept.version) == ("it did not answer in time", 0)
    kept.begin(age_s=0.0)
    assert kept.wait(10)
    assert (kept.state().problem, kept.version, len(tables)) == ("", 1, 2)


def test_a_bucket_that_is_down_is_not_asked_until_a_while_has_passed() -> None:
    bucket = ListedBucket("a.md")
    bucket.fault = BucketFault("it did not answer in time", "timeout", is_down=True)
    opened = []

    def open_() -> ListedBucket:
        opened.append(bucket)
        return bucket

    guarded = GuardedBucket(open_)
    for _ in range(3):
        with pytest.raises(BucketFault, match="it did not answer in time") as fault:
            list(guarded.pages(""))
        assert fault.value.word == "timeout"
        with pytest.raises(BucketFault):
            guarded.fetch("a.md", 0, 1)
    assert (bucket.lists, len(opened), str(guarded.fault)) == (1, 1, "it did not answer in time")
    guarded._ask_at = 0.0
    bucket.fault = None
    assert [one.key for page in guarded.pages("") for one in page] == ["a.md"]
    assert guarded.fault is None
    assert guarded.fetch("a.md", 0, 1) is not None
    guarded.close()


def test_a_refusal_that_concerns_one_object_closes_nothing() -> None:
    bucket = ListedBucket("a.md")
    bucket.fault = BucketFault("the credentials do not allow this")
    guarded = GuardedBucket(lambda: bucket)
    with pytest.raises(BucketFault):
        guarded.fetch("a.md", 0, 1)
    bucket.fault = None
    assert guarded.fetch("b.md", 0, 1) is not None
