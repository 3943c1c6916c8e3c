"""The harness itself: what must not happen on a page is seen when it happens."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.audit import barriers, html_errors
from tests.browser.chromium import Outside
from tests.browser.person import visiting

PAGES = {
    "/sound": "<!doctype html><html lang=en><title>Sound</title><main><h1>Sound</h1><p>It is.</p></main></html>",
    "/faint": "<!doctype html><html lang=en><title>F</title><h1>F</h1><p style='color:#ccc'>Faint words</p></html>",
    "/tiny": "<!doctype html><html lang=en><title>T</title><main><h1>T</h1>"
    "<button style='width:9px;height:9px;padding:0' aria-label=a></button>"
    "<button style='width:9px;height:9px;padding:0' aria-label=b></button></main></html>",
    "/inline": "<!doctype html><title>I</title><p>x</p><script>document.title = 'ran'</script>",
    "/thrown": "<!doctype html><title>T</title><p>x</p><script>throw new Error('over the wall')</script>",
    "/pwned": "<!doctype html><title>P</title><img alt='' src=data:, onerror='window.pwned = `image`'>",
    "/leaves": "<!doctype html><title>L</title><p>x</p><img alt='' src=http://elsewhere.example/pixel.png>",
    "/broken": "<!doctype html><html lang=en><title>B</title><p id=a></p><p id=a><b>x</p></html>",
}


class _Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        page = PAGES.get(self.path)
        self.send_response(200 if page else 404)
        self.send_header("content-type", "text/html; charset=utf-8")
        if self.path == "/inline":
            self.send_header("content-security-policy", "default-src 'self'")
        self.end_headers()
        self.wfile.write((page or "").encode())

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the name that the library gives it
        """Keep quiet."""


@pytest.fixture(scope="module", name="origin")
def static_pages() -> Iterator[str]:
    """Serve a few pages, good and bad."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Pages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def faults_of(browser: Browser, origin: str, path: str) -> list[str]:
    with visiting(browser, origin) as person:
        person.forgive("favicon.ico")
        person.go(path)
        person.page.wait_for_load_state("networkidle")
        faults = list(person.faults)
        person.faults.clear()
    return [fault for fault in faults if "favicon" not in fault]


def test_a_page_on_which_all_is_well_has_no_faults(browser: Browser, origin: str) -> None:
    assert faults_of(browser, origin, "/sound") == []


def test_what_the_policy_refuses_and_what_throws_is_seen(browser: Browser, origin: str) -> None:
    assert [fault.partition("'")[0] for fault in faults_of(browser, origin, "/inline")] == [
        "console error: Executing inline script violates the following Content Security Policy directive "
    ]
    assert faults_of(browser, origin, "/thrown") == ["uncaught: over the wall"]


def test_a_script_that_ran_is_seen(browser: Browser, origin: str) -> None:
    assert faults_of(browser, origin, "/pwned") == ["a script ran: image"]


def test_a_request_that_leaves_is_seen_twice(browser: Browser, origin: str, outside: Outside) -> None:
    [first, *_] = faults_of(browser, origin, "/leaves")
    assert first == "a request left the desk: GET http://elsewhere.example/pixel.png"
    assert outside.asked.pop() == "GET http://elsewhere.example/pixel.png HTTP/1.1"
    assert outside.asked == []


def test_faint_letters_tiny_controls_and_broken_html_are_found(browser: Browser, origin: str, tmp_path: Path) -> None:
    with visiting(browser, origin) as person:
        person.forgive("favicon.ico")
        person.go("/faint")
        [found] = barriers(person.page)
        assert found.startswith("color-contrast (serious)")
        person.go("/tiny")
        assert {found.partition(" ")[0] for found in barriers(person.page)} == {"target-size"}
        person.go("/sound")
        assert barriers(person.page) == []
    errors = html_errors({"sound": PAGES["/sound"], "broken": PAGES["/broken"]}, tmp_path)
    assert {error.partition(":")[0] for error in errors} == {"broken"}
    assert any("uplicate ID" in error for error in errors)
