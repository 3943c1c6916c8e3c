"""Coming in: by the link that works once, with the cookie that it sets, or with a token; and staying out."""

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import Visiting
from tests.browser.desk import Desk, serving
from tests.browser.person import visiting
from tests.support.sage_folder import put


@pytest.fixture(name="fresh")
def fresh_desk(tmp_path: Path) -> Iterator[Desk]:
    """Serve a small desk whose link nobody has used."""
    put(tmp_path / "small/README.md", "# Small\n")
    with serving(tmp_path / "small", tmp_path / "home") as desk:
        yield desk


def test_the_link_opens_the_desk_and_leaves_the_address_bar(browser: Browser, fresh: Desk) -> None:
    with visiting(browser, fresh.origin) as person:
        assert person.go(fresh.link).status == 200
        assert person.page.url == f"{fresh.origin}/"
        assert person.text("h1") == "small"
        person.page.get_by_role("link", name="workspace:///").click()
        person.page.get_by_role("link", name="README.md").click()
        assert person.page.url == f"{fresh.origin}/workspace/README.md"


def test_the_link_is_dead_after_its_first_use(browser: Browser, fresh: Desk) -> None:
    with visiting(browser, fresh.origin) as person:
        person.go(fresh.link)
    with visiting(browser, fresh.origin) as second:
        second.forgive("410 (Gone)", "401 (Unauthorized)")
        assert second.go(fresh.link).status == 410
        assert "carrel open" in second.text()
        assert second.context.cookies() == []
        assert second.go("/").status == 401


def test_a_preview_of_the_link_does_not_use_it_up(browser: Browser, fresh: Desk) -> None:
    path = fresh.link.removeprefix(fresh.origin)
    assert "set-cookie" not in fresh.get(path, headers={}, method="HEAD").headers
    with visiting(browser, fresh.origin) as person:
        assert person.go(fresh.link).status == 200


def test_a_link_that_somebody_made_up_opens_nothing(browser: Browser, fresh: Desk) -> None:
    with visiting(browser, fresh.origin) as person:
        person.forgive("410 (Gone)")
        for made_up in ("/-/open?key=", "/-/open", f"/-/open?key={'a' * 43}"):
            assert person.go(made_up).status == 410
        assert person.context.cookies() == []
        assert person.go(fresh.link).status == 200


def test_the_cookie_is_for_this_server_only_short_lived_and_out_of_reach_of_scripts(
    browser: Browser, fresh: Desk
) -> None:
    with visiting(browser, fresh.origin) as person:
        person.go(fresh.link)
        [cookie] = person.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/")
        now: float = person.page.evaluate("Date.now() / 1000")
        assert 0 < cookie["expires"] - now <= 12 * 3600
        assert cookie["name"].endswith(fresh.origin.rpartition(":")[2])
        assert person.page.evaluate("document.cookie") == ""


def test_the_cookie_of_one_desk_opens_no_other(browser: Browser, fresh: Desk, desk: Desk) -> None:
    with visiting(browser, fresh.origin) as person:
        person.go(fresh.link)
        person.origin = desk.origin
        person.forgive("401 (Unauthorized)")
        assert person.go("/").status == 401


def test_a_stranger_sees_how_to_come_in_and_nothing_else(visit: Visiting, desk: Desk) -> None:
    with visit(is_stranger=True) as person:
        person.forgive("401 (Unauthorized)")
        for path in ("/", "/workspace/", "/workspace/README.md", "/-/search?q=weather", "/-/explain?uri=logs://run"):
            assert person.go(path).status == 401, path
            assert "carrel open" in person.text()
            assert "weather" not in person.page.content().replace("weather desk", "").lower(), path
        assert person.page.locator("link[rel=stylesheet]").count() >= 1


def test_a_token_shows_pages_too_with_only_what_it_may_read(visit: Visiting, desk: Desk) -> None:
    token = desk.add_token("tasks", "scopes:read")
    with visit(headers={"Authorization": f"Bearer {token}"}) as person:
        assert person.go("/").status == 200
        text = person.text("main")
        assert "scopes://" in text
        assert "workspace:///" not in text.replace("workspace:///path/to/file", "")
        assert "garden" not in text
        assert person.go("/scopes/scope/project-alpha").status == 200
        person.forgive("403 (Forbidden)")
        assert person.go("/workspace/README.md").status == 403


class _Elsewhere(BaseHTTPRequestHandler):
    target = ""

    def do_GET(self) -> None:
        page = f"""<!doctype html><title>Elsewhere</title><iframe src="{self.target}/"></iframe>
        <form method=post action="{self.target}/mcp"><input name=a></form><p id=out></p><script>
        fetch("{self.target}/workspace/README.md", {{credentials: "include", mode: "no-cors"}})
          .then(a => a.text()).then(t => out.textContent = "got " + t.length, e => out.textContent = "nothing");
        </script>"""
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(page.encode())

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the name that the library gives it
        """Keep quiet."""


def test_a_page_of_another_site_gets_nothing_with_the_cookie(visit: Visiting, desk: Desk) -> None:
    handler = type("Pages", (_Elsewhere,), {"target": desk.origin})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, visit() as person:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        person.forgive("")  # everything that it tries is refused, loudly
        person.page.goto(f"http://127.0.0.1:{server.server_port}/")
        person.page.wait_for_function("document.getElementById('out').textContent")
        assert person.text("#out") in ("nothing", "got 0")
        assert not any(frame.locator("main").count() for frame in person.page.frames[1:])
        server.shutdown()


def test_the_commands_print_the_link_where_there_is_no_browser(fresh: Desk) -> None:
    [line] = [line for line in fresh.said if fresh.link in line]
    assert re.search(r"no browser was found.*works once.*60 seconds", line), line
