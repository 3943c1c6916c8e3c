"""What holds for every page: it can be read by everybody, on every screen; its HTML is right; it is also data."""

import json
import re
from pathlib import Path
from urllib.parse import urljoin

import pytest
from playwright.sync_api import Page, StorageState

from tests.browser.audit import barriers, html_errors
from tests.browser.conftest import Visiting
from tests.browser.desk import Desk
from tests.browser.pages import LIMITED, OUTSIDE, PAGES, REFUSALS, path_of
from tests.browser.person import Person

EVERY = (*PAGES, *REFUSALS)
HTML = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
CHANGING = ("health", "search", "index", "callers", "subscriptions")
"""Pages of which no two are the same: they say what is just going on."""
TOO_WIDE = "document.scrollingElement.scrollWidth - window.innerWidth"
SHORTER = "document.querySelectorAll('.l:nth-of-type(n+40)').forEach(line => line.remove())"
"""Of thousands of lines that are alike, axe need not look at each for a second."""
UNFOLDED = "document.querySelectorAll('details').forEach(one => { one.open = true; })"
CUT_OFF = """() => [...document.querySelectorAll('button, input, a[href]')].filter(one => {
    const box = one.getBoundingClientRect(), style = getComputedStyle(one);
    const rolls = one.closest('pre, .scroll, [tabindex="0"], .skip, .hidden, table');
    return !rolls && box.width && style.position !== 'absolute' && (box.right > innerWidth + 1 || box.left < -1);
}).map(one => one.outerHTML.slice(0, 120))"""


def too_wide(page: Page, across: int) -> list[str]:
    """Return what does not fit into a window of this width."""
    page.set_viewport_size({"width": across, "height": 700})
    beyond: int = page.evaluate(TOO_WIDE)
    cut: list[str] = page.evaluate(CUT_OFF)
    return [f"{across} px: {beyond} px too wide"] * (beyond > 0) + [f"{across} px: cut off: {one}" for one in cut]


def check_reading(person: Person, path: str, status: int) -> None:
    """Open a page; fail if it has another status, a barrier in light and wide or dark and narrow, or does not fit."""
    if status != 200:
        person.forgive(f"status of {status} ")
    assert person.go(path).status == status
    page = person.page
    assert page.title().strip()
    assert page.locator("main > h1").count() == 1
    assert page.locator("main").count() == 1
    page.evaluate(SHORTER)
    assert barriers(page) == []
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 360, "height": 740})
    page.evaluate(UNFOLDED)
    assert barriers(page) == []
    assert too_wide(page, 360) + too_wide(page, 640) + too_wide(page, 820) == []


@pytest.mark.parametrize("name", EVERY)
def test_everybody_can_read_the_page_of(name: str, visit: Visiting, desk: Desk) -> None:
    with visit() as person:
        check_reading(person, path_of(desk, name), REFUSALS.get(name, ("", 200))[1])


@pytest.mark.parametrize("name", OUTSIDE)
def test_everybody_without_access_can_read_the_page_of(name: str, visit: Visiting, desk: Desk) -> None:
    path, status = OUTSIDE[name]
    with visit(is_stranger=True) as person:
        check_reading(person, path.replace("{link}", desk.link), status)


@pytest.fixture(scope="session", name="limited_token")
def token_for_tasks_alone(desk: Desk) -> str:
    """Create a token that covers `scopes:read` alone."""
    return desk.add_token("limited", "scopes:read")


@pytest.mark.parametrize("name", LIMITED)
def test_everybody_with_limited_access_can_read_the_page_of(name: str, visit: Visiting, limited_token: str) -> None:
    with visit(headers={"Authorization": f"Bearer {limited_token}"}) as person:
        check_reading(person, *LIMITED[name])


def test_the_html_of_every_page_is_valid(desk: Desk, cookies: StorageState, limited_token: str, tmp_path: Path) -> None:
    assert cookies  # the link has been used up

    def page(path: str, **headers: str) -> str:
        return desk.get(path, {"Accept": HTML, **headers}).body.decode()

    pages = {name: page(path_of(desk, name), Authorization=f"Bearer {desk.token}") for name in EVERY}
    link = desk.link.removeprefix(desk.origin)
    pages |= {f"{name} (no access)": page(path.replace("{link}", link)) for name, (path, _) in OUTSIDE.items()}
    limited = f"Bearer {limited_token}"
    pages |= {f"{name} (limited)": page(path, Authorization=limited) for name, (path, _) in LIMITED.items()}
    assert html_errors(pages, tmp_path) == []


@pytest.mark.parametrize("name", PAGES)
def test_data_stands_beside_the_page_of(name: str, desk: Desk) -> None:
    path = path_of(desk, name)
    headers = {"Authorization": f"Bearer {desk.token}"}
    page = desk.get(path, {**headers, "Accept": HTML})
    links = dict(re.findall(r'<link rel="alternate" type="([^"]+)" href="([^"]+)"', page.body.decode()))
    assert set(links) == {"application/json", "text/markdown"}
    for kind, address in links.items():
        twin = desk.get(urljoin(path, address.replace("&amp;", "&")), headers)
        assert twin.status == 200, address
        assert twin.headers["content-type"].partition(";")[0] == kind
        assert twin.headers["etag"] == page.headers["etag"] or name in CHANGING, address
        assert isinstance(json.loads(twin.body), dict) if kind == "application/json" else twin.body.strip()


@pytest.mark.parametrize("name", EVERY)
def test_nothing_may_run_on_the_page_of(name: str, desk: Desk) -> None:
    answer = desk.get(path_of(desk, name), {"Authorization": f"Bearer {desk.token}", "Accept": HTML})
    policy = dict(part.strip().partition(" ")[::2] for part in answer.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == "'self'"
    assert policy["style-src"] == "'self'"
    assert (policy["base-uri"], policy["frame-ancestors"], policy["form-action"]) == ("'none'", "'none'", "'self'")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    text = answer.body.decode()
    own = re.compile(r"<script(?! src=\"/-/static/)| style=| on[a-z]+=\"|<style")
    assert not own.search(re.sub(r"&lt;.*?&gt;", "", text))
    assert len(re.findall(r'<link rel="stylesheet"', text)) <= 2
    assert len(re.findall(r"<script ", text)) <= 2


def test_style_sheets_and_scripts_are_small(desk: Desk) -> None:
    text = desk.get("/", {"Authorization": f"Bearer {desk.token}", "Accept": HTML}).body.decode()
    files = set(re.findall(r'"(/-/static/[^"]+\.(?:css|js)[^"]*)"', text))
    assert 2 <= len(files) <= 4
    assert sum(len(desk.get(file, {}).body) for file in files) <= 60_000
