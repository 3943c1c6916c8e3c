"""A bucket as a root of the workspace: the same policy, parts, folders, search and changes as for local files."""

import logging
import os
import socket
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from time import monotonic

import pytest

from carrel.app import config, schema
from carrel.app.app import Desk, open_desk
from carrel.buckets import contents, guarded
from carrel.buckets.address import parse
from carrel.buckets.s3 import S3Bucket
from carrel.buckets.settings import BucketSettings
from carrel.catalog.watcher import LIST
from carrel.client.client import Client, EraName
from carrel.core.content import BytesSource
from carrel.core.errors import ConfigError, RemoteError
from carrel.core.model import Blob, Range, Text
from carrel.core.provider import Place, Provider
from carrel.providers.workspace.bucket_root import BucketRoot
from carrel.providers.workspace.policy import Policy
from carrel.testing.contract import ProviderContract
from tests.support.s3_servers import SECRETS, S3Server, ScriptedStore, silent_server
from tests.support.trusting import trust
from tests.support.waiting import until

ERAS: tuple[EraName, ...] = ("modern", "legacy")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Renew lists each time they are asked for."""
    monkeypatch.setattr(contents, "SHARE", 0)


def environment_of(folder: Path, server: S3Server | None, roots: str, more: str = "") -> dict[str, str]:
    """Return an environment whose user has settings with these roots."""
    (folder / "config" / "carrel").mkdir(parents=True)
    (folder / "config" / "carrel" / "config.toml").write_text(f"[workspace.roots]\n{roots}\n{more}")
    (folder / "project").mkdir()
    (folder / "project" / "local.md").write_text("# Local\n")
    named = {"HOME": "home", "XDG_CONFIG_HOME": "config", "XDG_STATE_HOME": "state", "XDG_CACHE_HOME": "cache"}
    places = {name: str(folder / place) for name, place in named.items()}
    return {**places, **({} if server is None else server.environment)}


@contextmanager
def opened(environment: dict[str, str], folder: Path) -> Iterator[Desk]:
    loaded = config.load(str(folder / "project"), environment)
    with closing(open_desk(loaded)) as desk:
        yield desk


@contextmanager
def served(tmp_path: Path, bucket: S3Server, more: str = "", era: EraName = "modern") -> Iterator[Client]:
    """Serve the prefix `docs` of a bucket as @docs."""
    environment = environment_of(tmp_path, bucket, f'docs = "s3://{bucket.bucket}/docs"', more)
    with opened(environment, tmp_path) as desk, Client.to(desk.server, era) as client:
        yield client


def text_of(client: Client, uri: str) -> str:
    [item] = client.read(uri).items
    assert isinstance(item, Text)
    return item.text


def refusal(client: Client, uri: str) -> RemoteError:
    with pytest.raises(RemoteError) as refused:
        client.read(uri)
    return refused.value


def listed(client: Client) -> list[str]:
    return [one.uri for one in client.resources() if one.uri.startswith("workspace://@")]


# Reading


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
def test_objects_are_listed_and_read_in_both_eras(tmp_path: Path, bucket: S3Server, era: EraName) -> None:
    bucket.put("docs/README.md", "# Handbook\n")
    bucket.put("docs/guide/日 1.md", "one\ntwo\nthree\n")
    bucket.put("other/secret.md", "outside the prefix")
    with served(tmp_path, bucket, era=era) as client:
        assert listed(client) == ["workspace://@docs/README.md", "workspace://@docs/guide/%E6%97%A5%201.md"]
        [entry] = [one for one in client.resources() if one.uri.endswith("README.md")]
        assert (entry.name, entry.mime_type, entry.size) == ("README.md", "text/markdown", 11)
        for spelled in ("workspace://@docs/README.md", "workspace://docs/README.md", "workspace://@docs//./README.md"):
            assert text_of(client, spelled) == "# Handbook\n"
        assert text_of(client, "workspace://@docs/guide/日 1.md?lines=2-2") == "two\n"
        assert text_of(client, "workspace:///local.md") == "# Local\n"
        assert refusal(client, "workspace://@docs/../other/secret.md").data["reason"] == "outside"
        assert refusal(client, "workspace://@docs/nope.md").data["name"] == "MCP_NOT_FOUND"
        assert "a bucket has no git history" in refusal(client, "workspace://@docs/README.md?at=HEAD").message


def test_the_etag_is_that_of_the_store_and_an_unchanged_object_is_not_sent_again(
    tmp_path: Path, bucket: S3Server
) -> None:
    bucket.put("docs/a.md", "first")
    with served(tmp_path, bucket) as client:
        there = S3Bucket(parse(f"s3://{bucket.bucket}"), BucketSettings(), bucket.environment)
        state = there.fetch("docs/a.md", 0, 1)
        first = client.read("workspace://@docs/a.md")
        assert state is not None
        assert first.etag == state.found.tag.strip('"')
        again = client.read("workspace://@docs/a.md", if_none_match=first.etag)
        assert (again.unchanged, again.etag) == (True, first.etag)
        assert client.read("workspace://@docs/a.md?start=1&length=2", if_none_match=first.etag).unchanged
        bucket.put("docs/a.md", "other")
        changed = client.read("workspace://@docs/a.md", if_none_match=first.etag)
        assert (changed.unchanged, changed.etag == first.etag) == (False, False)
        assert client.read("workspace://@docs/a.md", if_none_match="*").unchanged
        assert client.read("workspace://@docs/a.md", if_none_match=f'"x", "{changed.etag}"').unchanged


@pytest.mark.slow
def test_parts_of_a_large_object_join_exactly(tmp_path: Path, bucket: S3Server) -> None:
    text = "aé€😀z\n" * 60_000
    bucket.put("docs/big.txt", text)
    with served(tmp_path, bucket) as client:
        uri, parts, step = "workspace://@docs/big.txt", [], 99_991
        for start in range(0, len(text.encode()), step):
            [item] = client.read(f"{uri}?start={start}&length={step}").items
            assert isinstance(item, Text)
            parts.append(item.text)
        assert "".join(parts) == text
        assert text_of(client, f"{uri}?lines=50000-50001") == "aé€😀z\n" * 2
        [cut] = client.read(uri, wanted=Range(3, 3)).items
        assert isinstance(cut, Text)
        assert cut.text == "€"
        assert "big.txt" in text_of(client, f"{uri}?outline")
        assert len(text_of(client, f"{uri}?budget=300")) < 2_000


def test_an_object_that_does_not_fit_one_message_is_refused_with_a_part_that_does(
    tmp_path: Path, bucket: S3Server
) -> None:
    bucket.put("docs/huge.txt", b"0123456789abcde\n" * 200_000)
    with served(tmp_path, bucket) as client:
        refused = refusal(client, "workspace://@docs/huge.txt")
        assert refused.data["size"] == 3_200_000
        assert text_of(client, str(refused.data["suggested"])).startswith("0123456789")


@pytest.mark.slow
def test_memory_does_not_grow_with_the_size_of_an_object(tmp_path: Path) -> None:
    line, size = b"a line of sixteen\n" * 1_000, 180_000_000

    def script(path: str, headers: Mapping[str, str]) -> tuple[int, dict[str, str], bytes]:
        if "list-type" in path:
            return 200, {}, b"<ListBucketResult></ListBucketResult>"
        if not path.partition("?")[0].endswith("/large.txt"):
            return 404, {}, b""
        first, last = (int(one) for one in headers["range"].removeprefix("bytes=").split("-"))
        last = min(last, size - 1)
        body = (line * ((last - first) // len(line) + 2))[first % len(line) :][: last - first + 1]
        return 206, {"Content-Range": f"bytes {first}-{last}/{size}", "ETag": '"x"'}, body

    with ScriptedStore(script) as store:
        environment = environment_of(tmp_path, None, 'docs = "s3://team"')
        environment |= {"AWS_ENDPOINT_URL": store.url, "AWS_SKIP_SIGNATURE": "true"}
        with opened(environment, tmp_path) as desk:
            desk.catalog.read("workspace://@docs/large.txt?lines=1-2")
            tracemalloc.start()
            try:
                [item] = desk.catalog.read("workspace://@docs/large.txt?lines=2000000-2000001").items
                [later] = desk.catalog.read("workspace://@docs/large.txt?start=179999982&length=100").items
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
    assert isinstance(item, Text)
    assert isinstance(later, Text)
    assert (item.text, later.text) == ("a line of sixteen\n" * 2, "a line of sixteen\n")
    assert peak < 16 << 20  # that of the store is in it


def test_binary_objects_are_refused_where_the_preset_serves_text(tmp_path: Path, bucket: S3Server) -> None:
    bucket.put("docs/a.png", b"\x89PNG\0" + bytes(1_000))
    bucket.put("docs/b.md", b"\0\1\2")
    with served(tmp_path, bucket) as client:
        assert listed(client) == ["workspace://@docs/b.md"]
        assert refusal(client, "workspace://@docs/b.md").data["reason"] == "type"


def test_the_preset_all_serves_binary_objects(tmp_path: Path, bucket: S3Server) -> None:
    bucket.put("docs/a.png", b"\x89PNG\0" + bytes(1_000))
    environment = environment_of(tmp_path, bucket, "")
    settings = tmp_path / "config" / "carrel" / "config.toml"
    settings.write_text(f'[workspace]\npreset = "all"\nroots = {{ docs = "s3://{bucket.bucket}/docs" }}\n')
    with opened(environment, tmp_path) as desk, Client.to(desk.server) as client:
        assert listed(client) == ["workspace://@docs/a.png"]
        [item] = client.read("workspace://@docs/a.png").items
        assert isinstance(item, Blob)
        assert (len(item.data), item.mime_type) == (1_005, "image/png")


def test_an_object_that_is_replaced_while_it_is_read_is_read_again_and_never_torn(
    tmp_path: Path, bucket: S3Server
) -> None:
    old, new = "o" * 700_000, "n" * 700_000
    bucket.put("docs/a.txt", old)
    environment = environment_of(tmp_path, bucket, f'docs = "s3://{bucket.bucket}/docs"')
    with opened(environment, tmp_path) as desk:
        found = desk.catalog.find("workspace://@docs/a.txt")
        reading = desk.catalog.open(found)
        [item] = reading.items
        source = getattr(item, "source", BytesSource(b""))
        assert source.read(0, 10) == b"o" * 10
        bucket.put("docs/a.txt", new)
        assert source.read(400_000, 10) == b""
        assert source.has_moved()
        assert source.read(600_000, 10) == b""
        whole = desk.catalog.read("workspace://@docs/a.txt")
        [item] = whole.items
        assert isinstance(item, Text)
        assert item.text == new
        assert "dev.carrel/changing" not in (item.meta or {})


# Policy


def test_the_policy_of_local_files_holds_in_a_bucket(tmp_path: Path, bucket: S3Server) -> None:
    for key in ("docs/.env", "docs/keys/id_rsa", "docs/.hidden/x.md", "docs/drafts/a.md", "docs/drafts/keep.md"):
        bucket.put(key, "x")
    bucket.put("docs/.gitignore", "/drafts/*\n!keep.md\n")
    bucket.put("docs/sub/.gitignore", "*.log\n")
    bucket.put("docs/sub/a.log", "x")
    bucket.put("docs/sub/a.md", "x")
    with served(tmp_path, bucket) as client:
        assert listed(client) == ["workspace://@docs/drafts/keep.md", "workspace://@docs/sub/a.md"]
        for path, reason in {
            ".env": "deny",
            "nowhere/.env": "deny",
            "keys/id_rsa": "deny",
            "keys/id_rsa.bak": "deny",
            ".hidden/x.md": "hidden",
            ".hidden/nope.md": "hidden",
            "drafts/a.md": "ignored",
            "drafts/nope.md": "ignored",
            "sub/a.log": "ignored",
            "sub/nope.log": "ignored",
        }.items():
            assert refusal(client, f"workspace://@docs/{path}").data["reason"] == reason, path
        assert text_of(client, "workspace://@docs/drafts/keep.md") == "x"


@pytest.mark.slow
def test_a_changed_ignore_file_takes_effect(tmp_path: Path, bucket: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "FRESH_S", 0.0)
    bucket.put("docs/a.md", "x")
    bucket.put("docs/b.md", "x")
    with served(tmp_path, bucket) as client:
        assert len(listed(client)) == 2
        bucket.put("docs/.gitignore", "b.md\n")
        until(lambda: listed(client) == ["workspace://@docs/a.md"])
        until(lambda: _reason(client, "workspace://@docs/b.md") == "ignored")


def _reason(client: Client, uri: str) -> str:
    try:
        client.read(uri)
    except RemoteError as error:
        return str(error.data.get("reason"))
    return ""


def test_keys_that_no_uri_can_have_are_counted_and_not_served(tmp_path: Path, bucket: S3Server) -> None:
    for key in ("docs/a.md", "docs//b.md", "docs/c//d.md", "docs/tab\there.md", "docs/back\\slash.md", "docs/sub/"):
        bucket.put(key, "x")
    bucket.put("docs/" + "n" * 1_000 + ".md", "x")
    environment = environment_of(tmp_path, bucket, f'docs = "s3://{bucket.bucket}/docs"')
    with opened(environment, tmp_path) as desk, Client.to(desk.server) as client:
        assert listed(client) == ["workspace://@docs/a.md", f"workspace://@docs/{'n' * 1_000}.md"]
        [health] = [one.provider.health() for one in desk.catalog.mounted if one.provider.name == "workspace@docs"]
        assert health["problems"] == ["4 object(s) are not served: no URI can have their names"]
        assert refusal(client, "workspace://@docs/tab%09here.md").data["name"] == "MCP_NOT_FOUND"


# Folders


def test_a_folder_shows_its_children_in_order(tmp_path: Path, bucket: S3Server) -> None:
    for key in ("b.md", "a b.md", "sub/x.md", "sub/deep/y.md", "sub.md", "same", "same/z.md", "empty/"):
        bucket.put(f"docs/{key}", "12")
    with served(tmp_path, bucket) as client:
        items = client.read("workspace://@docs/").items
        assert [item.uri for item in items] == [
            "workspace://@docs/a%20b.md",
            "workspace://@docs/b.md",
            "workspace://@docs/empty",
            "workspace://@docs/same",
            "workspace://@docs/same/",
            "workspace://@docs/sub.md",
            "workspace://@docs/sub",
        ]
        first, folder = items[0], items[2]
        assert isinstance(first, Text)
        assert first.text.startswith("2 bytes, ")
        assert (first.meta or {})["dev.carrel/entry"] is True
        assert folder.mime_type == "inode/directory"
        page = client.request("resources/directory/read", {"uri": "workspace://@docs/sub"})
        assert [(one["uri"], one["mimeType"]) for one in page["resources"]] == [
            ("workspace://@docs/sub/deep", "inode/directory"),
            ("workspace://@docs/sub/x.md", "text/markdown"),
        ]
        assert [item.uri for item in client.read("workspace://@docs/empty").items] == ["workspace://@docs/empty"]
        assert text_of(client, "workspace://@docs/same") == "12"
        assert [item.uri for item in client.read("workspace://@docs/same/").items] == ["workspace://@docs/same/z.md"]
        with pytest.raises(RemoteError):
            client.request("resources/directory/read", {"uri": "workspace://@docs/b.md"})
        template = "workspace://@docs/{+path}{?start,length,lines,outline}"
        assert client.complete(template, "path", "s").values == ("same", "same/", "sub.md", "sub/")
        assert client.complete(template, "path", "sub/").values == ("sub/deep/", "sub/x.md")
        assert client.complete(template, "path", "../").values == ()


def test_a_large_folder_comes_in_parts(tmp_path: Path, bucket: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("carrel.providers.workspace.folders.MAX_CHILDREN", 3)
    names = [f"{number:02d} é.md" for number in range(8)]
    for name in names:
        bucket.put(f"docs/{name}", "x")
    with served(tmp_path, bucket) as client:
        uri, seen = "workspace://@docs/", []
        while uri:
            items = client.read(uri).items
            seen += [item.uri for item in items]
            uri = str((items[-1].meta or {}).get("dev.carrel/next", ""))
        assert len(seen) == len(set(seen)) == 8


def test_lists_by_prefix_and_by_directory_hold_the_bucket(tmp_path: Path, bucket: S3Server) -> None:
    for key in ("a.md", "sub/b.md", "sub/c.md"):
        bucket.put(f"docs/{key}", "x")
    with served(tmp_path, bucket) as client:
        assert [one.uri for one in client.resources("workspace://@docs/sub/")] == [
            "workspace://@docs/sub/b.md",
            "workspace://@docs/sub/c.md",
        ]
        assert [one.uri for one in client.resources("workspace:///")] == ["workspace:///local.md"]
        page = client.request("resources/list", {"directory": "workspace://@docs/sub", "pageSize": 10})
        assert [one["uri"] for one in page["items"]] == ["workspace://@docs/sub/b.md", "workspace://@docs/sub/c.md"]
        assert page["total"] == 2
        assert client.request("resources/list", {"directory": ""})["total"] == 1


# Changes and search


@pytest.mark.slow
def test_subscribers_are_notified_of_objects_that_change_come_and_go(
    tmp_path: Path, bucket: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "FRESH_S", 0.0)
    bucket.put("docs/a.md", "x")
    with served(tmp_path, bucket, "[buckets.docs]\npoll_s = 1\n") as client:
        listening = client.listen(["workspace://@docs/a.md", "workspace://@docs/"], list_changes=True)
        heard: list[str] = []
        hearing = threading.Thread(target=heard.extend, args=(listening,), daemon=True)
        hearing.start()
        bucket.put("docs/a.md", "changed")
        until(lambda: "workspace://@docs/a.md" in heard)
        bucket.put("docs/b.md", "new")
        until(lambda: "workspace://@docs/" in heard and LIST in heard, 20)
        listening.close()
        hearing.join(10)


def search(client: Client, words: str) -> str:
    result = client.call("search", {"query": words})
    return "\n".join(str(block) for block in result.blocks)


@pytest.mark.slow
def test_search_finds_objects_and_drops_those_that_are_gone(
    tmp_path: Path, bucket: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "FRESH_S", 0.0)
    bucket.put("docs/a.md", "the mandelbrot set\n")
    bucket.put("docs/.env", "mandelbrot=secret\n")
    with served(tmp_path, bucket) as client:
        until(lambda: "workspace://@docs/a.md" in search(client, "mandelbrot"))
        assert ".env" not in search(client, "mandelbrot")
        bucket.put("docs/b.md", "another mandelbrot\n")
        until(lambda: "workspace://@docs/b.md" in search(client, "mandelbrot"))
        bucket.delete("docs/a.md", "docs/b.md")
        until(lambda: "workspace://@docs/" not in search(client, "mandelbrot"))


@pytest.mark.slow
def test_what_an_earlier_process_indexed_is_found_before_the_bucket_is_listed(tmp_path: Path, bucket: S3Server) -> None:
    bucket.put("docs/a.md", "the mandelbrot set\n")
    environment = environment_of(tmp_path, bucket, f'docs = "s3://{bucket.bucket}/docs"')

    def search_anew(*words: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "carrel", "search", *words, "--project", str(tmp_path / "project")],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout

    search_anew("--index")
    # Each process begins without a list. On a busy machine one may not have the time to check the hit.
    until(lambda: "workspace://@docs/a.md" in search_anew("mandelbrot"))


# A bucket that is slow, missing or refused


@pytest.mark.slow
def test_a_bucket_that_never_answers_is_an_error_of_its_own_uris_only(tmp_path: Path) -> None:
    with silent_server() as url:
        environment = environment_of(
            tmp_path, None, 'docs = "s3://team/docs"', f'[buckets.docs]\nendpoint = "{url}"\ntimeout_s = 0.5\n'
        )
        environment |= {"AWS_ACCESS_KEY_ID": SECRETS[0], "AWS_SECRET_ACCESS_KEY": SECRETS[1]}
        with opened(environment, tmp_path) as desk, Client.to(desk.server) as client:
            began = monotonic()
            waiting = [threading.Thread(target=refusal, args=(client, f"workspace://@docs/{n}.md")) for n in range(20)]
            for thread in waiting:
                thread.start()
            assert text_of(client, "workspace:///local.md") == "# Local\n"
            assert "workspace:///local.md" in [one.uri for one in client.resources()]
            assert monotonic() - began < 3
            for thread in waiting:
                thread.join(10)
            error = refusal(client, "workspace://@docs/a.md")
            assert error.word == "timeout"
            assert error.message == "The bucket of @docs is not available: it did not answer in time"
            assert refusal(client, "workspace://@docs/.env").data["reason"] == "deny"


@pytest.mark.slow
def test_while_a_bucket_is_down_its_last_list_is_served_and_health_says_so(
    tmp_path: Path, bucket: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "FRESH_S", 0.0)
    bucket.put("docs/a.md", "x")
    answers = {"down": False}

    def script(path: str, headers: object) -> tuple[int, dict[str, str], bytes]:
        del headers
        if answers["down"]:
            return 503, {}, b"<Error><Code>SlowDown</Code></Error>"
        found = b"<Contents><Key>docs/a.md</Key><Size>1</Size><ETag>&quot;e&quot;</ETag></Contents>"
        is_list = "list-type=2" in path
        return (200, {}, b"<ListBucketResult>" + found + b"</ListBucketResult>") if is_list else (404, {}, b"")

    with ScriptedStore(script) as store:
        environment = environment_of(tmp_path, bucket, 'docs = "s3://team/docs"')
        environment["AWS_ENDPOINT_URL"] = store.url
        with opened(environment, tmp_path) as desk, Client.to(desk.server) as client:
            assert listed(client) == ["workspace://@docs/a.md"]
            answers["down"] = True
            [provider] = [one.provider for one in desk.catalog.mounted if one.provider.name == "workspace@docs"]
            until(lambda: listed(client) and provider.health()["state"] == "stale")
            assert listed(client) == ["workspace://@docs/a.md"]
            assert "the bucket gives no list: the store failed; the one of " in str(provider.health()["problems"])
            folder = client.request("resources/read", {"uri": "workspace://@docs/"})
            assert folder["_meta"]["dev.carrel/stale"] is True
            assert "stale" in text_of(client, "carrel://health")


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (404, "NoSuchBucket", "there is no such bucket"),
        (403, "SignatureDoesNotMatch", "the store does not accept the credentials"),
    ],
)
def test_a_missing_bucket_and_wrong_credentials_are_reported_without_secrets(
    tmp_path: Path, status: int, code: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    body = f"<Error><Code>{code}</Code><AWSAccessKeyId>{SECRETS[0]}</AWSAccessKeyId></Error>".encode()
    with ScriptedStore(lambda path, headers: (status, {}, body)) as store, caplog.at_level(logging.DEBUG):
        environment = environment_of(tmp_path, None, 'docs = "s3://team/docs"')
        environment |= {"AWS_ENDPOINT_URL": store.url, "AWS_ACCESS_KEY_ID": SECRETS[0]}
        environment |= {"AWS_SECRET_ACCESS_KEY": SECRETS[1], "AWS_SESSION_TOKEN": SECRETS[2]}
        with opened(environment, tmp_path) as desk, Client.to(desk.server) as client:
            assert listed(client) == []
            error = refusal(client, "workspace://@docs/a.md")
            assert error.message == f"The bucket of @docs is not available: {words}"
            [provider] = [one.provider for one in desk.catalog.mounted if isinstance(one.provider, BucketRoot)]
            assert provider.health()["problems"] == [f"the bucket is not available: {words}"]
            shown = [text_of(client, "carrel://health"), str(error.data), caplog.text, str(provider.health())]
            shown += provider.explain("workspace://@docs/a.md")
            assert not [secret for secret in (*SECRETS, store.url) for one in shown if secret in one]
            assert words in caplog.text


def test_a_broken_bucket_is_logged_once_and_only_for_those_who_go_on_without_its_list(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    body = b"<Error><Code>NoSuchBucket</Code></Error>"
    with ScriptedStore(lambda path, headers: (404, {}, body)) as store:
        environment = environment_of(tmp_path, None, 'docs = "s3://team/docs"') | {"AWS_ENDPOINT_URL": store.url}
        environment |= {"AWS_ACCESS_KEY_ID": SECRETS[0], "AWS_SECRET_ACCESS_KEY": SECRETS[1]}
        with opened(environment, tmp_path) as desk, Client.to(desk.server) as client:
            [provider] = [one.provider for one in desk.catalog.mounted if isinstance(one.provider, BucketRoot)]
            assert provider.wait(10)
            assert text_of(client, "workspace:///local.md") == "# Local\n"
            assert refusal(client, "workspace://@docs/a.md").word == "unavailable"
            assert caplog.messages == []

            assert "workspace:///local.md" in [one.uri for one in client.resources()]
            assert list(client.resources())
            assert caplog.messages == ["the bucket of @docs cannot be listed: there is no such bucket"]


# Settings


def test_a_project_names_a_bucket_only_with_trust(tmp_path: Path, bucket: S3Server) -> None:
    bucket.put("docs/a.md", "x")
    environment = environment_of(tmp_path, bucket, "")
    file = tmp_path / "project" / "carrel.toml"
    file.write_text(
        f'[workspace.roots]\ndocs = "s3://{bucket.bucket}/docs"\n[buckets.docs]\nendpoint = "{bucket.url}"\n'
    )
    with opened(environment, tmp_path) as desk:
        assert [one.provider.name for one in desk.catalog.mounted if "@" in one.provider.name] == []
        assert [str(one).partition(":")[2] for one in desk.config.withheld] == [
            " it names a place outside the project; run `carrel trust` to allow it",
            " it decides where credentials are sent; run `carrel trust` to allow it",
        ]
    trust(file, environment)
    with opened(environment, tmp_path) as desk, Client.to(desk.server) as client:
        assert listed(client) == ["workspace://@docs/a.md"]


@pytest.mark.parametrize(
    ("roots", "more", "message"),
    [
        ('docs = "ftp://team"', "", "[workspace.roots] docs: expected s3://bucket/prefix"),
        ('docs = "s3://a:SECRET@team"', "", "[workspace.roots] docs: the address of a bucket has no credentials"),
        ('docs = "s3://team/a"\nmore = "s3://team/a/b"', "", "more and docs serve the same objects"),
        ('docs = "s3://team"', "[buckets.other]\nregion = 'x'\n", "[buckets.other]: there is no bucket of this name"),
        ('docs = "s3://team"', "[buckets.docs]\nendpoint = 'http://10.0.0.1'\n", "plain http to another machine"),
        ('docs = "s3://team"', "[buckets.docs]\nendpoint = 'https://u:SECRET@h'\n", "must not contain credentials"),
        ('docs = "s3://team"', "[buckets.docs]\ntimeout_s = 0\n", "timeout_s: expected a number"),
        ('docs = "s3://team"', "[buckets.docs]\nendpiont = 'x'\n", "did you mean 'endpoint'?"),
    ],
)
def test_a_mistake_in_the_settings_is_one_clear_sentence(tmp_path: Path, roots: str, more: str, message: str) -> None:
    environment = environment_of(tmp_path, None, roots, more)
    with pytest.raises(ConfigError) as refused, opened(environment, tmp_path):
        pass
    assert message in str(refused.value)
    assert "SECRET" not in str(refused.value)


@pytest.mark.slow
def test_no_command_shows_a_login_in_an_address(tmp_path: Path) -> None:
    roots = {"docs": "s3://AKID:SECRET@team/docs", "other": "../x", "more": ["https://u:SECRET@h:1/p?q", "s3://team"]}
    shown = schema.shown(dict[str, Place], roots)
    assert shown == {"docs": "s3://…@team/docs", "other": "../x", "more": ["https://…@h:1/p?q", "s3://team"]}
    environment = environment_of(tmp_path, None, "")
    settings = tmp_path / "config" / "carrel" / "config.toml"
    settings.write_text(
        '[workspace.roots]\ndocs = "s3://AKID:SECRET@team"\n[buckets.docs]\nendpoint = "https://SECRET@h"\n'
    )
    for command in (["config", "show"], ["config", "show", "--json"], ["config", "validate"], ["ls"]):
        done = subprocess.run(
            [sys.executable, "-m", "carrel", *command, "--project", str(tmp_path / "project")],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert "SECRET" not in done.stdout + done.stderr, command
        assert done.returncode == (0 if "show" in command else 2)


def test_a_bucket_is_no_main_root(tmp_path: Path) -> None:
    environment = {**environment_of(tmp_path, None, ""), "CARREL_WORKSPACE_ROOT": "s3://team"}
    with pytest.raises(ConfigError, match="a bucket is a further root"), opened(environment, tmp_path):
        pass


def test_without_the_package_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded, "find_spec", lambda name: None)
    environment = environment_of(tmp_path, None, 'docs = "s3://team"')
    with (
        pytest.raises(ConfigError, match=r"not installed: pipx install --force '\.\[team\]' in a checkout of Carrel"),
        opened(environment, tmp_path),
    ):
        pass


@pytest.mark.slow
def test_a_desk_without_buckets_imports_nothing_for_them(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("x")
    program = (
        "import sys\n"
        "from carrel.app import config\n"
        "from carrel.app.app import open_desk\n"
        f"desk = open_desk(config.load({str(tmp_path)!r}, {{'HOME': {str(tmp_path)!r}}}))\n"
        "desk.catalog.page(); desk.catalog.read('workspace:///a.md')\n"
        "names = ('obstore', 'http.client', 'xml', 'carrel.buckets.address', 'carrel.buckets.s3',"
        " 'carrel.buckets.contents', 'carrel.providers.workspace.bucket_root')\n"
        "print([name for name in names if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


def test_a_uri_is_explained(tmp_path: Path, bucket: S3Server) -> None:
    bucket.put("docs/a.md", "text")
    bucket.put("docs/.gitignore", "b.md\n")
    environment = environment_of(tmp_path, bucket, f'docs = "s3://{bucket.bucket}/docs"')
    with opened(environment, tmp_path) as desk:
        [root] = [one.provider for one in desk.catalog.mounted if isinstance(one.provider, BucketRoot)]
        first = f"Preset code, in the root docs: the bucket s3://{bucket.bucket}/docs."
        assert root.explain("workspace://@docs/a.md") == [
            first,
            "Path: a.md.",
            "4 bytes of utf-8.",
            "Served and listed.",
        ]
        assert root.explain("workspace://@docs/b.md")[1:] == [
            "Not served: ignored by git (ignored).",
            'Set [workspace] ignored = "show" or "unlisted", or add it to allow.',
        ]
        assert root.explain("workspace://@docs/nope.md")[1].startswith("Not served: there is no such object")
        assert root.explain("workspace://@docs/")[2] == "Served: a folder; a read returns its children."


@pytest.mark.slow
class TestBucketContract(ProviderContract):
    """A bucket obeys the laws of every provider."""

    noticed_s = 5.0

    @pytest.fixture(autouse=True)
    def _bucket(self, bucket: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(contents, "FRESH_S", 0.0)
        self.bucket = bucket
        for name in ("a.md", "b/c.md", "b/d.txt"):
            bucket.put(f"docs/{name}", f"text of {name}\n")

    def provider(self) -> Provider:
        address, settings = parse(f"s3://{self.bucket.bucket}/docs"), BucketSettings()
        there = guarded.GuardedBucket(guarded.opener(address, settings, self.bucket.environment))
        root = BucketRoot("docs", address, settings, there, lambda ignore: Policy("code", ignore), 1 << 20)
        root.poll_s = None
        return root

    def missing_uri(self) -> str:
        return "workspace://@docs/nope.md"

    def variables(self) -> dict[str, str]:
        return {"path": "a.md"}

    def change(self, uri: str) -> None:
        self.bucket.put("docs/" + uri.partition("@docs/")[2], f"changed {monotonic()}\n")


def test_the_port_that_nobody_listens_on_is_not_needed_to_start(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{unused.getsockname()[1]}"
        environment = environment_of(tmp_path, None, 'docs = "s3://team"', f"[buckets.docs]\nendpoint = '{endpoint}'\n")
        environment |= {"AWS_ACCESS_KEY_ID": SECRETS[0], "AWS_SECRET_ACCESS_KEY": SECRETS[1]}
        with opened(environment, tmp_path) as desk, Client.to(desk.server) as client:
            assert text_of(client, "workspace:///local.md") == "# Local\n"
            assert "it cannot be reached" in refusal(client, "workspace://@docs/a.md").message
