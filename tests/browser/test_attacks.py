"""Content that attacks its readers: no script in it runs, wherever it is shown, and nothing is loaded for it."""

from urllib.parse import quote

import pytest

from tests.browser.conftest import Visiting
from tests.browser.desk import Desk
from tests.browser.pages import log_of
from tests.browser.person import Person
from tests.browser.project import EVIL, EVIL_FILES, EVIL_NAMES


def look_around(person: Person, path: str) -> None:
    """Open a page, everything on it that opens, and move over it; then see whether anything ran."""
    page = person.page
    person.forgive("/-/raw?uri=")  # pictures that Markdown names and nobody has
    person.go(path)
    page.wait_for_load_state("networkidle")
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    for place in page.locator("main a, main [class]").all()[:15]:
        if place.is_visible():
            place.hover(timeout=2_000, force=True)
    assert page.url.startswith(person.origin + path.partition("?")[0]), "the page went away"
    assert page.locator("base, meta[http-equiv=refresh], iframe[srcdoc], object, embed").count() == 0
    for frame in page.locator("iframe").all():
        assert "allow-scripts" not in (frame.get_attribute("sandbox") or "no sandbox: allow-scripts")
    links: list[str] = page.evaluate(
        "[...document.querySelectorAll('a, area, form, use, image')].map("
        "one => String(one.href?.baseVal ?? one.href ?? one.action ?? ''))"
    )
    assert [link for link in links if link.lower().startswith(("javascript:", "data:", "vbscript:"))] == []


@pytest.mark.parametrize("name", EVIL_FILES)
def test_nothing_runs_that_stands_in_the_file(name: str, person: Person) -> None:
    look_around(person, f"/workspace/{name}")
    assert person.page.locator("main").inner_text().strip()


def test_nothing_runs_that_stands_in_file_names(person: Person) -> None:
    look_around(person, "/workspace/evil/names")
    shown = person.text("main")
    assert all(name in shown for name in EVIL_NAMES)
    assert "{{ 7 * 7 }}.txt" in shown
    for name in EVIL_NAMES:
        person.go("/workspace/evil/names")
        person.row(name).click()
        assert person.page.url == f"{person.origin}/workspace/evil/names/{spelled(name)}"
        look_around(person, f"/workspace/evil/names/{spelled(name)}")
        assert name in person.text("h1")
        assert name.strip() in person.text("main")


def spelled(name: str) -> str:
    return quote(name, safe="!$&'()*+,;=:@-._~")


def test_nothing_runs_that_stands_in_log_lines(person: Person, desk: Desk) -> None:
    look_around(person, f"/logs/build/{log_of(desk, 'evil', 'build')}")
    assert "<script>window.pwned='element'</script>" in person.text("main")


@pytest.mark.parametrize("path", ["/scopes/scope/evil", "/scopes/scope", "/scopes/tree/evil"])
def test_nothing_runs_that_stands_in_titles_of_tasks(path: str, person: Person) -> None:
    look_around(person, path)
    assert "<script>window.pwned='title'</script>" in person.text("main")


@pytest.mark.parametrize("path", ["/sage/failure/evil", "/sage/failure", "/sage/"])
def test_nothing_runs_that_stands_in_memory(path: str, person: Person) -> None:
    look_around(person, path)


@pytest.mark.parametrize("path", ["/friend+friend/letters/first", "/friend+friend/page", "/friend+friend/letters", "/"])
def test_nothing_runs_that_another_server_answers(path: str, person: Person) -> None:
    look_around(person, path)


@pytest.mark.parametrize("path", ["/git/log", "/git/commit/HEAD", "/workspace/NOTES.md?log", "/git/diff/HEAD~1..HEAD"])
def test_nothing_runs_that_stands_in_commits(path: str, person: Person) -> None:
    look_around(person, path)


@pytest.mark.parametrize("query", [EVIL, "window.pwned", "<script>", "path:<img> pwned", "javascript:window.pwned=1"])
def test_nothing_runs_that_is_searched_for_or_found(query: str, person: Person) -> None:
    person.forgive("status of 400")
    look_around(person, f"/-/search?q={quote(query, safe='')}")
    assert person.page.get_by_role("searchbox").first.input_value() == query


@pytest.mark.parametrize(
    "path",
    [
        f"/-/explain?uri={quote(EVIL, safe='')}",
        f"/-/read?uri={quote('workspace:///' + EVIL, safe='')}",
        f"/workspace/{quote(EVIL[:200], safe='')}",
        f"/{quote('<script>', safe='')}/x",
        f"/workspace/README.md?{quote(EVIL[:90], safe='')}=1",
        f"/workspace/README.md?lines={quote(EVIL[:90], safe='')}",
    ],
)
def test_nothing_runs_that_stands_in_an_address(path: str, person: Person) -> None:
    person.forgive("status of 400", "status of 403", "status of 404")
    look_around(person, path)


def test_files_that_are_pages_are_never_pages_of_ours(desk: Desk, visit: Visiting) -> None:
    """A file as it is comes in a sandbox, without scripts, without an origin, and loads nothing."""
    with visit() as person:
        for name in ("evil/page.html", "evil/page.xhtml", "evil/drawing.svg"):
            raw = f"/-/raw?uri={quote('workspace:///' + name, safe='')}"
            answer = desk.get(raw)
            assert answer.status == 200
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert "sandbox" in answer.headers["content-security-policy"]
            person.forgive("Blocked script", "sandboxed", "Content Security Policy", "example.org/pixel.png")
            person.go(raw)
            person.page.wait_for_load_state("networkidle")
