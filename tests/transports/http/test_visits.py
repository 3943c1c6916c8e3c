"""The link that works once, and the cookie that it sets."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from time import time

import pytest

from carrel.catalog.access import EVERYTHING, Access
from carrel.core.record import replace
from carrel.transports.http.asgi import Request
from carrel.transports.http.shared_visits import SharedVisits
from carrel.transports.http.visits import COOKIE_S, LINK_S, Visits
from tests.support.explorer_desk import BROWSER, Browsed, Clock

LIMITED = Access("token logs", frozenset({"logs:read"}))


def request(cookie: str, method: str = "GET", path: str = "/", **headers: str) -> Request:
    """Return a request with a cookie."""

    async def nothing(*_: object) -> dict[str, object]:
        return {}

    given = {"host": "127.0.0.1:8000", "cookie": cookie, **{name.replace("_", "-"): v for name, v in headers.items()}}
    scope = {
        "method": method,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }

    async def send(_: object) -> None:
        """Send nothing."""

    return Request(scope, nothing, send)


def key_of(link: str) -> bytes:
    return link.partition("?")[2].encode()


def value_of(cookie: bytes | None) -> str:
    assert cookie is not None
    return cookie.decode().partition(";")[0]


def access_of(visits: Visits, asked: Request) -> Access | None:
    """Return who is found, whenever that ends."""
    found = visits.find(asked)
    return None if found is None else replace(found, expires_at=None)


def test_a_link_works_once_and_gives_a_cookie_with_its_access() -> None:
    visits = Visits(8000)
    link = visits.link(LIMITED)

    cookie = visits.enter(key_of(link))

    assert visits.enter(key_of(link)) is None
    assert access_of(visits, request(value_of(cookie))) == LIMITED


def test_a_link_is_dead_after_a_minute() -> None:
    clock = Clock()
    visits = Visits(8000, clock)
    link = visits.link(EVERYTHING)
    clock.now += LINK_S

    assert LINK_S <= 60
    assert visits.enter(key_of(link)) is None


def test_a_cookie_is_dead_after_twelve_hours_at_most() -> None:
    clock = Clock()
    visits = Visits(8000, clock)
    value = value_of(visits.enter(key_of(visits.link(EVERYTHING))))
    clock.now += COOKIE_S - 1
    assert access_of(visits, request(value)) == EVERYTHING
    clock.now += 1

    assert COOKIE_S <= 12 * 60 * 60
    assert visits.find(request(value)) is None


def test_a_visitor_knows_when_the_cookie_expires() -> None:
    visits = Visits(8000)
    before = time()
    found = visits.find(request(value_of(visits.enter(key_of(visits.link(EVERYTHING))))))

    assert found is not None
    assert found.expires_at is not None
    assert before + COOKIE_S <= found.expires_at <= time() + COOKIE_S


def test_a_cookie_is_out_of_reach_of_scripts_and_other_sites_and_bound_to_the_port() -> None:
    cookie = Visits(8123).enter(key_of(Visits(8123).link(EVERYTHING)))
    assert cookie is None
    visits = Visits(8123)
    given = (visits.enter(key_of(visits.link(EVERYTHING))) or b"").decode()

    assert re.fullmatch(
        r"carrel-8123=[\w-]{43}; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict",
        given,
    )


def test_no_two_links_and_no_two_cookies_are_alike() -> None:
    visits = Visits(8000)
    links = {visits.link(EVERYTHING) for _ in range(20)}
    cookies = {visits.enter(key_of(link)) for link in links}

    assert len(links) == len(cookies) == 20


@pytest.mark.parametrize("query", [b"", b"key=", b"key=nothing", b"other=x", b"\xff\xfe", b"key=" + b"x" * 10_000])
def test_another_key_opens_nothing(query: bytes) -> None:
    visits = Visits(8000)
    visits.link(EVERYTHING)

    assert visits.enter(query) is None


@pytest.mark.parametrize(
    "asked",
    [
        {"method": "POST"},
        {"method": "DELETE"},
        {"path": "/mcp"},
        {"authorization": "Bearer x"},
        {"origin": "http://127.0.0.1:3000"},
        {"origin": "null"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "same-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "iframe"},
    ],
)
def test_a_cookie_does_not_count_here(asked: Mapping[str, str]) -> None:
    visits = Visits(8000)
    value = value_of(visits.enter(key_of(visits.link(EVERYTHING))))

    assert visits.find(request(value, **asked)) is None


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"method": "HEAD"},
        {"origin": "http://127.0.0.1:8000"},
        {"sec_fetch_site": "none"},
        {"sec_fetch_site": "same-origin"},
        {"sec_fetch_site": "same-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"},
    ],
)
def test_a_cookie_counts_here(asked: Mapping[str, str]) -> None:
    visits = Visits(8000)
    value = value_of(visits.enter(key_of(visits.link(EVERYTHING))))

    assert access_of(visits, request(f"other=1; {value}; more=2", **asked)) == EVERYTHING


def test_the_cookie_of_another_server_does_not_count() -> None:
    first, second = Visits(8000), Visits(8000)
    value = value_of(first.enter(key_of(first.link(EVERYTHING))))

    assert second.find(request(value)) is None


# Several processes


def test_of_all_processes_that_share_visits_one_uses_the_link_up_and_all_know_the_cookie() -> None:
    visits = SharedVisits(8000)
    link = visits.link(EVERYTHING)

    given = [in_another_process(lambda: visits.enter(key_of(link)) or b"") for _ in range(4)]

    assert sorted(map(bool, given)) == [False, False, False, True]
    [cookie] = filter(None, given)
    assert access_of(visits, request(value_of(cookie))) == EVERYTHING
    elsewhere = in_another_process(lambda: repr(access_of(visits, request(value_of(cookie)))).encode())
    assert elsewhere == repr(EVERYTHING).encode()
    assert visits.find(request(value_of(cookie), method="POST")) is None


def in_another_process(action: Callable[[], bytes]) -> bytes:
    """Return what an action returns in a forked process."""
    seen, told = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.write(told, action())
        finally:
            os._exit(0)
    os.close(told)
    os.waitpid(pid, 0)
    with os.fdopen(seen, "rb") as given:
        return given.read()


def test_a_shared_link_and_its_cookie_die_as_others_do() -> None:
    clock = Clock()
    late, visits = SharedVisits(8000, clock), SharedVisits(8000, clock)
    dead, link = late.link(EVERYTHING), visits.link(EVERYTHING)
    value = value_of(visits.enter(key_of(link)))
    clock.now += LINK_S
    assert late.enter(key_of(dead)) is None
    clock.now += COOKIE_S - LINK_S - 1
    found = visits.find(request(value))
    assert found is not None
    assert found.expires_at is not None
    assert found.expires_at <= time() + 1
    clock.now += 1

    assert visits.find(request(value)) is None


@pytest.mark.parametrize("query", [b"", b"key=", b"key=nothing", b"other=x", b"\xff\xfe", b"key=" + b"x" * 10_000])
def test_another_key_opens_no_shared_visit_and_leaves_the_link(query: bytes) -> None:
    visits = SharedVisits(8000)
    link = visits.link(EVERYTHING)

    assert visits.enter(query) is None
    assert visits.enter(key_of(link)) is not None


@pytest.mark.parametrize("forged", ["", ".", "1.2", "99999999999999.", "x.y", "\udce4.\udce4"])
def test_a_forged_cookie_opens_no_shared_visit(forged: str) -> None:
    visits, other = SharedVisits(8000), SharedVisits(8000)
    theirs = value_of(other.enter(key_of(other.link(EVERYTHING))))
    later = str(int(theirs.partition("=")[2].partition(".")[0]) + 1)

    assert visits.find(request(theirs)) is None
    assert other.find(request(f"carrel-8000={later}.{theirs.rpartition('.')[2]}")) is None
    assert visits.find(request(f"carrel-8000={forged.encode(errors='replace').decode()}")) is None


@pytest.fixture(name="guarded")
def guarded_desk(tmp_path: Path) -> Iterator[Browsed]:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("hello\n", "utf-8")
    made = Browsed(root, {})
    yield made
    made.close()


def test_the_link_sets_the_cookie_and_redirects_at_once_and_head_does_not_use_it_up(guarded: Browsed) -> None:
    link = guarded.visits.link(EVERYTHING)

    head = guarded.get(link, method="HEAD")
    first = guarded.get(link)
    second = guarded.get(link)

    assert head.status in (200, 204)
    assert "set-cookie" not in head.headers
    assert (first.status, first.headers["location"]) == (303, "/")
    assert first.headers["cache-control"] == "no-store"
    assert second.status == 410
    assert "set-cookie" not in second.headers
    page = guarded.get(link, BROWSER)
    assert (page.status, page.headers["content-type"]) == (410, "text/html; charset=utf-8")
    assert "<code>carrel open</code>" in page.body.decode()
    cookie = {"cookie": first.headers["set-cookie"].partition(";")[0]}
    assert guarded.get("/", {**BROWSER, **cookie}).status == 200
    assert guarded.get("/workspace/a.txt", cookie).body == b"hello\n"
    assert guarded.get("/mcp", cookie, "POST").status == 401
    assert guarded.get("/mcp", cookie).status == 401


def test_the_link_passes_the_guard_as_everything_does(guarded: Browsed) -> None:
    link = guarded.visits.link(EVERYTHING)

    assert guarded.get(link, {"host": "evil.example"}).status == 421
    assert guarded.get(link, {"origin": "http://evil.example"}).status == 403
    assert guarded.get(link, {"sec-fetch-site": "cross-site"}).status == 403
    assert guarded.get(link).status == 303


def test_a_link_takes_no_other_method(guarded: Browsed) -> None:
    link = guarded.visits.link(EVERYTHING)

    assert guarded.get(link, method="POST").status == 405
    assert guarded.get(link).status == 303
