"""Requests that try to get around the rules: paths, names of this server, links, cookies, streams."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from carrel.catalog.access import EVERYTHING
from carrel.core.limits import MAX_STREAMS_PER_CLIENT
from carrel.transports.http.visits import Visits
from tests.support.explorer_desk import BROWSER, Browsed
from tests.support.http_asking import ask, asking

SECRET = b"SECRET="
EVERY_KIND = [
    "/",
    "/index.json",
    "/index.md",
    "/workspace/",
    "/workspace/README.md",
    "/workspace/README.md.json",
    "/workspace/README.md.md",
    "/-/read?uri=workspace:///README.md",
    "/-/read.json?uri=workspace:///README.md",
    "/-/raw?uri=workspace:///README.md",
    "/-/model?uri=workspace:///README.md",
    "/-/explain?uri=workspace:///.env",
    "/-/search?q=garden",
    "/-/search.json?q=garden",
    "/-/events?uri=workspace:///README.md",
    "/-/providers",
    "/-/limits",
    "/-/health.json",
    "/-/index",
    "/-/subscriptions",
    "/-/callers",
    "/-/static/explorer.js",
    "/-/nothing",
]
TRICKS = [
    "/workspace/.env.json",
    "/workspace/.env.md",
    "/workspace/.env%2ejson",
    "/workspace/.env%00.json",
    "/workspace/lib/../.env.json",
    "/workspace/lib/..%2f.env.json",
    "/workspace/%2e%2e/outside.txt.json",
    "/workspace/..%2foutside.txt.md",
    "/workspace/.env.json.json",
    "/workspace/.env/.json",
    "/workspace/.env;.json",
    "/WORKSPACE/.env.json",
    "//workspace/.env.json",
    "/-/read.json?uri=workspace:///.env",
    "/-/read.md?uri=workspace:///../outside.txt",
    "/-/read.json?uri=file:///etc/passwd",
    "/-/raw?uri=workspace:///.env",
    "/-/raw.md?uri=workspace:///.env",
    "/-/model.json?uri=workspace:///.env",
    "/-/explain.json?uri=workspace:///.env",
    "/-/static/../explorer.py",
    "/-/static/..%2fexplorer.py",
    "/-/../workspace/.env.json",
    "/.json",
    "/-/.md",
]


@pytest.mark.slow
@pytest.mark.parametrize("target", TRICKS)
@pytest.mark.parametrize("headers", [{}, BROWSER], ids=["data", "page"])
def test_no_spelling_of_a_path_leads_around_a_rule(
    browsed: Browsed, project: Path, target: str, headers: dict[str, str]
) -> None:
    (project.parent / "outside.txt").write_text("SECRET=2\n", "utf-8")
    reply = browsed.get(target, headers)

    assert reply.status < 500
    assert SECRET not in reply.body
    assert b"root:" not in reply.body
    assert str(project.parent).encode() not in reply.body


@pytest.mark.slow
@pytest.mark.parametrize("target", EVERY_KIND)
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "127.0.0.1.evil.example"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
    ],
)
def test_every_page_asks_for_the_name_of_the_server_and_the_page_that_asks(
    guarded: Browsed, target: str, headers: dict[str, str], status: int
) -> None:
    cookie = guarded.let_in()
    reply = guarded.get(target, {**BROWSER, "cookie": cookie, **headers})

    # Health tells everybody that the server runs, and nothing else.
    assert reply.status == status or reply.body == b'{"status":"ok"}'


@pytest.mark.parametrize("target", [one for one in EVERY_KIND if "static" not in one])
def test_no_page_is_shown_to_a_stranger_or_with_the_cookie_of_another_server(guarded: Browsed, target: str) -> None:
    other = Visits(8000)
    foreign = (other.enter(other.link(EVERYTHING).partition("?")[2].encode()) or b"").decode().partition(";")[0]

    for headers in ({}, {"cookie": foreign}, {"cookie": f"{guarded.visits.cookie_name}="}):
        reply = guarded.get(target, {**BROWSER, **headers})
        assert reply.status == 401
        assert b"Garden" not in reply.body


def test_of_many_who_use_a_link_at_the_same_moment_one_is_let_in() -> None:
    visits = Visits(8000)
    key = visits.link(EVERYTHING).partition("?")[2].encode()
    together = threading.Barrier(16)

    def enter(_: int) -> bytes | None:
        together.wait(60)
        return visits.enter(key)

    with ThreadPoolExecutor(16) as pool:
        let_in = [cookie for cookie in pool.map(enter, range(16)) if cookie is not None]

    assert len(let_in) == 1


@pytest.mark.slow
def test_a_caller_who_opens_many_streams_is_refused_and_no_other_is(guarded: Browsed) -> None:
    target = "/-/events?uri=logs://run"

    async def talk() -> None:
        greedy, other = {"authorization": "Bearer all"}, {"authorization": "Bearer logs"}
        async with AsyncExitStack() as stack:
            for _ in range(MAX_STREAMS_PER_CLIENT):
                exchange = await stack.enter_async_context(asking(guarded.app, "GET", target, greedy))
                assert await exchange.parts.get() is not None
                assert exchange.status == 200
            assert (await ask(guarded.app, "GET", target, greedy)).status == 429
            assert (await ask(guarded.app, "GET", "/", {**BROWSER, **greedy})).status == 200
            async with asking(guarded.app, "GET", target, other) as exchange:
                assert await exchange.parts.get() is not None
                assert exchange.status == 200
        async with asking(guarded.app, "GET", target, greedy) as exchange:
            assert await exchange.parts.get() is not None
            assert exchange.status == 200

    asyncio.run(talk())
    assert guarded.app.threads.open_streams == 0


def test_a_line_end_in_a_name_is_no_line_of_a_header(browsed: Browsed, project: Path) -> None:
    name = "a%0D%0AX-Evil:%201.txt"
    (project / "a\r\nX-Evil: 1.txt").write_text("x\n", "utf-8")

    for target in (
        f"/workspace/{name}",
        f"/workspace/{name}.json",
        f"/-/raw?uri=workspace:///{name.replace('%', '%25')}",
    ):
        reply = browsed.get(target)
        assert reply.status == 200
        assert "x-evil" not in reply.headers
        assert not any("\n" in value or "\r" in value for value in reply.headers.values())
