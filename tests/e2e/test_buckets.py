"""Files from a real S3 store, which checks signatures: SeaweedFS as a child, a real server over stdio."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from carrel.client.client import Client
from carrel.core.errors import RemoteError
from carrel.core.model import Text
from tests.support.s3_servers import SECRETS, SignedServer, seaweed_server
from tests.support.waiting import until

pytestmark = pytest.mark.slow

COUNT = 10_000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SignedServer]:
    with seaweed_server(tmp_path_factory.mktemp("weed"), "team") as server:
        yield server


def environment_of(folder: Path, store: SignedServer, **others: str) -> dict[str, str]:
    (folder / "config" / "carrel").mkdir(parents=True)
    settings = f'[server]\nmax_listed = 0\n[workspace.roots]\ndocs = "s3://{store.bucket}/docs"\n'
    (folder / "config" / "carrel" / "config.toml").write_text(settings)
    (folder / "project").mkdir()
    (folder / "project" / "local.md").write_text("# Local\n")
    places = {"HOME": "home", "XDG_CONFIG_HOME": "config", "XDG_STATE_HOME": "state", "XDG_CACHE_HOME": "cache"}
    return {**os.environ, **{name: str(folder / at) for name, at in places.items()}, **store.environment, **others}


def served(folder: Path, environment: dict[str, str]) -> Client:
    command = [sys.executable, "-m", "carrel", "serve", "--project", str(folder / "project")]
    return Client.start(command, env=environment)


def text_of(client: Client, uri: str) -> str:
    [item] = client.read(uri).items
    assert isinstance(item, Text)
    return item.text


def test_a_real_store_is_listed_read_and_searched(store: SignedServer, tmp_path: Path) -> None:
    large = "".join(f"line {number} é€😀\n" for number in range(100_000))
    store.put("docs/README.md", "# Handbook\n\nthe mandelbrot set\n")
    store.put("docs/a b+c%/日#.md", "odd name\n")
    store.put("docs/empty.md", "")
    store.put("docs/large.txt", large)
    store.put("docs/.gitignore", "draft*\n")
    store.put("docs/draft.md", "no")
    store.put("docs/.env", "SECRET=1")
    with served(tmp_path, environment_of(tmp_path, store)) as client:
        assert [one.uri for one in client.resources("workspace://@docs/")] == [
            "workspace://@docs/README.md",
            "workspace://@docs/a%20b+c%25/%E6%97%A5%23.md",
            "workspace://@docs/empty.md",
            "workspace://@docs/large.txt",
        ]
        assert text_of(client, "workspace://@docs/a%20b+c%25/%E6%97%A5%23.md") == "odd name\n"
        assert text_of(client, "workspace://@docs/empty.md") == ""
        size, step = len(large.encode()), 700_001
        parts = [
            text_of(client, f"workspace://@docs/large.txt?start={at}&length={step}") for at in range(0, size, step)
        ]
        assert "".join(parts) == large
        assert text_of(client, "workspace://@docs/large.txt?lines=90001-90001") == "line 90000 é€😀\n"
        first = client.read("workspace://@docs/README.md")
        assert client.read("workspace://@docs/README.md", if_none_match=first.etag).unchanged
        for name in ("draft.md", ".env"):
            with pytest.raises(RemoteError, match="Access denied"):
                client.read(f"workspace://@docs/{name}")
        until(lambda: "@docs/README.md" in str(client.call("search", {"query": "mandelbrot"}).blocks), 30)
        store.put("docs/README.md", "# Handbook\n\nnothing\n")
        until(lambda: "@docs/README.md" not in str(client.call("search", {"query": "mandelbrot"}).blocks), 30)
        assert client.read("workspace://@docs/README.md", if_none_match=first.etag).unchanged is False


def test_credentials_that_the_store_refuses_are_reported_and_not_shown(store: SignedServer, tmp_path: Path) -> None:
    environment = environment_of(tmp_path, store, AWS_SECRET_ACCESS_KEY="wrong-secret-of-tests")
    with served(tmp_path, environment) as client:
        with pytest.raises(RemoteError) as refused:
            client.read("workspace://@docs/README.md")
        assert (
            refused.value.message == "The bucket of @docs is not available: the store does not accept the credentials"
        )
        assert text_of(client, "workspace:///local.md") == "# Local\n"
        health = text_of(client, "carrel://health")
        assert "the store does not accept the credentials" in health
        assert not [one for one in (*SECRETS, "wrong-secret-of-tests", store.url) if one in health + str(refused.value)]


def test_ten_thousand_objects_are_listed_in_pages_once_each(store: SignedServer, tmp_path: Path) -> None:
    store.put_many((f"docs/many/{number % 100:02d}/{number:05d}.md" for number in range(COUNT)), b"x")
    with served(tmp_path, environment_of(tmp_path, store)) as client:
        until(lambda: sum(1 for _ in client.resources("workspace://@docs/many/")) == COUNT, 60)
        uris = [one.uri for one in client.resources("workspace://@docs/many/")]
        assert uris == sorted(set(uris))
        assert len(client.read("workspace://@docs/many").items) == 100
        assert len(client.read("workspace://@docs/many/07").items) == 100
