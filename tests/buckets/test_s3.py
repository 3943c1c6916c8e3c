"""Buckets over S3: parts, conditions, odd keys, pages, faults, and what never leaves this machine."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from time import monotonic, time
from urllib.parse import parse_qs, urlsplit

import pytest

from carrel.buckets.address import parse
from carrel.buckets.bucket import BucketFault, NoSuchObject, ObjectChanged
from carrel.buckets.s3 import S3Bucket, place_of
from carrel.buckets.settings import BucketSettings
from carrel.core.provider import Place
from tests.support.s3_servers import SECRET, SECRETS, TOKEN, S3Server, ScriptedStore, silent_server

QUICK = BucketSettings(timeout_s=0.3)
_MADE: list[S3Bucket] = []


@pytest.fixture(autouse=True)
def close_buckets() -> Iterator[None]:
    """Close the connections that the buckets of a test keep."""
    yield
    while _MADE:
        _MADE.pop().close()


def made(bucket: S3Bucket) -> S3Bucket:
    _MADE.append(bucket)
    return bucket


def opened(server: S3Server, prefix: str = "", settings: BucketSettings | None = None) -> S3Bucket:
    return made(S3Bucket(parse(f"s3://{server.bucket}/{prefix}"), settings or BucketSettings(), server.environment))


def scripted(store: ScriptedStore, **environment: str) -> S3Bucket:
    given = {"AWS_ACCESS_KEY_ID": "AKIDOFTESTS", "AWS_SECRET_ACCESS_KEY": SECRET, **environment}
    return made(S3Bucket(parse("s3://team"), QUICK, {"AWS_ENDPOINT_URL": store.url, **given}))


def test_parts_of_an_object_join_exactly_and_name_its_state(bucket: S3Server) -> None:
    content = bytes(range(256)) * 40
    bucket.put("a/b.bin", content)
    there = opened(bucket)
    whole = there.fetch("a/b.bin", 0, 1 << 20)
    assert whole is not None
    assert (whole.data, whole.found.size, whole.found.key) == (content, len(content), "a/b.bin")
    parts = [there.fetch("a/b.bin", at, 1_000, if_match=whole.found.tag) for at in range(0, len(content), 1_000)]
    assert b"".join(part.data for part in parts if part is not None) == content
    assert whole.found.etag == whole.found.tag.strip('"')
    assert abs(whole.found.modified_ms - 1_000 * time()) < 60_000


def test_an_unchanged_object_is_not_sent_and_a_replaced_one_is_never_joined(bucket: S3Server) -> None:
    bucket.put("a.md", "first" * 100)
    there = opened(bucket)
    first = there.fetch("a.md", 0, 10)
    assert first is not None
    assert there.fetch("a.md", 0, 10, if_none_match=first.found.tag) is None
    bucket.put("a.md", "other" * 100)
    with pytest.raises(ObjectChanged):
        there.fetch("a.md", 10, 10, if_match=first.found.tag)
    again = there.fetch("a.md", 0, 10, if_none_match=first.found.tag)
    assert again is not None
    assert again.data == b"otherother"


@pytest.mark.parametrize("key", ["x y+z.md", "100%.md", "%41.md", "c#?&=.md", "日本/é.md", "~!$'()*,;:@.md", "n" * 900])
def test_keys_of_any_characters_are_listed_and_read(bucket: S3Server, key: str) -> None:
    bucket.put(key, key)
    there = opened(bucket)
    assert [[one.key for one in page] for page in there.pages("")] == [[key]]
    part = there.fetch(key, 0, 10_000)
    assert part is not None
    assert part.data == key.encode()


def test_an_empty_object_has_no_bytes_and_its_state(bucket: S3Server) -> None:
    bucket.put("empty.md")
    there = opened(bucket)
    part = there.fetch("empty.md", 0, 100)
    assert part is not None
    assert (part.data, part.found.size) == (b"", 0)
    assert there.fetch("empty.md", 0, 100, if_none_match=part.found.tag) is None


def test_odd_keys_spoil_no_list(bucket: S3Server) -> None:
    keys = ["a.md", "a//b.md", "tab\there.md", "z.md"]
    for key in keys:
        bucket.put(key, key)
    there = opened(bucket)
    assert sorted(one.key for page in there.pages("") for one in page) == sorted(keys)
    for key in ("a//b.md", "tab\there.md", "x/../y"):
        with pytest.raises(NoSuchObject):
            there.fetch(key, 0, 10)


@pytest.mark.slow
def test_ten_thousand_keys_come_in_pages(bucket: S3Server) -> None:
    for number in range(2_500):
        bucket.put(f"n/{number:05d}.md", "x")
    pages = list(opened(bucket).pages("n/"))
    assert [len(page) for page in pages] == [1_000, 1_000, 500]
    assert [one.key for page in pages for one in page] == [f"n/{number:05d}.md" for number in range(2_500)]


def test_what_does_not_exist_is_told_apart(bucket: S3Server) -> None:
    with pytest.raises(NoSuchObject):
        opened(bucket).fetch("nope.md", 0, 10)
    missing = opened(S3Server(bucket.url, "no-such-bucket"))
    with pytest.raises(BucketFault, match="there is no such bucket") as fault:
        missing.fetch("nope.md", 0, 10)
    assert (fault.value.word, fault.value.is_down) == ("unavailable", True)
    with pytest.raises(BucketFault, match="there is no such bucket"):
        list(missing.pages(""))


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (403, "SignatureDoesNotMatch", "the store does not accept the credentials"),
        (403, "InvalidAccessKeyId", "the store does not accept the credentials"),
        (400, "ExpiredToken", "the store does not accept the credentials"),
        (403, "AccessDenied", "the credentials do not allow this"),
        (500, "InternalError", "the store failed"),
        (503, "SlowDown", "the store failed"),
        (400, "Whatever", "the store refused the request"),
    ],
)
def test_a_fault_is_one_sentence_without_the_text_of_the_store(status: int, code: str, message: str) -> None:
    body = f"<Error><Code>{code}</Code><AWSAccessKeyId>AKIDOFTESTS</AWSAccessKeyId></Error>".encode()
    with ScriptedStore(lambda path, headers: (status, {}, body)) as store:
        there = scripted(store)
        for ask in (lambda: there.fetch("a.md", 0, 10), lambda: list(there.pages(""))):
            with pytest.raises(BucketFault) as fault:
                ask()
            assert str(fault.value) == message
            assert fault.value.__cause__ is None


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    with ScriptedStore(lambda path, headers: (200, {"ETag": '"x"'}, b"stolen")) as other:
        location = {"Location": f"{other.url}/team/a.md", "x-amz-bucket-region": "eu-west-1"}
        with ScriptedStore(lambda path, headers: (status, location, b"")) as store:
            there = scripted(store, AWS_SESSION_TOKEN=TOKEN)
            for ask in (lambda: there.fetch("a.md", 0, 10), lambda: list(there.pages(""))):
                with pytest.raises(BucketFault, match="not followed; it is in the region eu-west-1"):
                    ask()
        assert other.asked == []


def test_a_request_is_signed_for_a_minute_and_has_no_secret_in_it() -> None:
    with ScriptedStore(lambda path, headers: (200, {"ETag": '"x"'}, b"text")) as store:
        scripted(store).fetch("a b.md", 0, 10)
        [(path, headers)] = store.asked
    query = parse_qs(urlsplit(path).query)
    assert urlsplit(path).path == "/team/a%20b.md"
    assert query["X-Amz-Expires"] == ["60"]
    assert headers["range"] == "bytes=0-9"
    assert SECRET not in path + str(headers)


def test_an_anonymous_request_is_not_signed() -> None:
    with ScriptedStore(lambda path, headers: (200, {"ETag": '"x"'}, b"text")) as store:
        public = BucketSettings(endpoint=Place(store.url), anonymous=True)
        part = S3Bucket(parse("s3://team"), public, {}).fetch("é.md", 0, 10)
        assert part is not None
        assert [path for path, _ in store.asked] == ["/team/%C3%A9.md"]


@pytest.mark.parametrize(
    ("is_host", "place"), [(False, "https://store.example/s3/team"), (True, "https://team.store.example/s3")]
)
def test_a_bucket_is_below_the_endpoint_or_a_host_of_its_own(is_host: bool, place: str) -> None:
    assert place_of("https://store.example/s3", "team", BucketSettings(virtual_hosted=is_host)) == place


def test_a_store_that_never_answers_is_given_up_in_time() -> None:
    with silent_server() as url:
        there = S3Bucket(parse("s3://team"), QUICK, {"AWS_ENDPOINT_URL": url, "AWS_SKIP_SIGNATURE": "true"})
        began = monotonic()
        with pytest.raises(BucketFault, match="it did not answer in time") as fault:
            there.fetch("a.md", 0, 10)
        assert monotonic() - began < 2
        assert (fault.value.word, fault.value.is_down) == ("timeout", True)


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 200 OK\r\nX: " + b"x" * 9_000, b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 9_000]
)
def test_a_store_that_sends_a_byte_now_and_then_is_given_up_in_time(answer: bytes) -> None:
    over = threading.Event()

    def drip(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            for byte in answer:
                connection.send(bytes([byte]))
                if over.wait(0.002 if byte in b"\r\n" else 0.01):
                    return

    with socket.create_server(("127.0.0.1", 0)) as listening:
        dripping = threading.Thread(target=drip, args=(listening,))
        dripping.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        there = S3Bucket(parse("s3://team"), QUICK, {"AWS_ENDPOINT_URL": url, "AWS_SKIP_SIGNATURE": "true"})
        began = monotonic()
        with pytest.raises(BucketFault, match="it did not answer in time"):
            there.fetch("a.md", 0, 100_000)
        assert monotonic() - began < 2
        over.set()
        dripping.join(10)


def test_a_store_that_cannot_be_reached_is_told_at_once() -> None:
    environment = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_SKIP_SIGNATURE": "true"}
    with pytest.raises(BucketFault, match="it cannot be reached"):
        S3Bucket(parse("s3://team"), QUICK, environment).fetch("a.md", 0, 10)


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"Content-Range": "bytes 5-8/100"}, b"text"),
        ({"Content-Range": "bytes 0-99/100"}, b"text"),
        ({"Content-Range": "nonsense"}, b"text"),
        ({}, b"text"),
    ],
)
def test_another_part_than_was_asked_for_is_refused(headers: dict[str, str], body: bytes) -> None:
    script = ScriptedStore(lambda path, asked: (206, headers, body))
    with script as store, pytest.raises(BucketFault, match="another part"):
        scripted(store).fetch("a.md", 0, 10)


def test_a_store_without_ranges_gives_the_beginning_and_nothing_else() -> None:
    with ScriptedStore(lambda path, asked: (200, {"ETag": '"x"'}, b"0123456789" * 100)) as store:
        part = scripted(store).fetch("a.md", 0, 10)
        assert part is not None
        assert (part.data, part.found.size) == (b"0123456789", 1_000)
        with pytest.raises(BucketFault, match="another part"):
            scripted(store).fetch("a.md", 10, 10)


@pytest.mark.parametrize(
    "body",
    [
        b"not xml",
        b"<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>",
        b"<ListBucketResult><Contents><Key>a</Key><Size>x</Size></Contents></ListBucketResult>",
        b'<!DOCTYPE x [<!ENTITY a "aaaa">]><ListBucketResult><Contents><Key>&a;</Key></Contents></ListBucketResult>',
    ],
)
def test_a_list_that_is_none_is_refused(body: bytes) -> None:
    script = ScriptedStore(lambda path, asked: (200, {}, body))
    with script as store, pytest.raises(BucketFault, match="a list that cannot be read"):
        list(scripted(store).pages(""))


def test_a_list_that_never_ends_is_not_followed_in_circles() -> None:
    body = (
        b"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"
        b"<Contents><Key>a</Key><Size>1</Size></Contents></ListBucketResult>"
    )
    with ScriptedStore(lambda path, asked: (200, {}, body)) as store:
        assert len(list(scripted(store).pages(""))) == 2


def test_without_credentials_the_fault_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(BucketFault, match="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"):
        S3Bucket(parse("s3://team"), QUICK, {}).fetch("a.md", 0, 10)


def test_connections_are_used_again_and_a_closed_one_is_replaced() -> None:
    with ScriptedStore(lambda path, asked: (200, {"ETag": '"x"'}, b"text")) as store:
        there = scripted(store)
        for _ in range(3):
            assert there.fetch("a.md", 0, 10) is not None
        store.script = lambda path, asked: (200, {"ETag": '"x"', "Connection": "close"}, b"text")
        for _ in range(3):
            assert there.fetch("a.md", 0, 10) is not None
        there.close()
    assert all(secret not in str(store.asked) for secret in SECRETS[1:])
