"""Reading: code with lines that have addresses, Markdown, images, JSON, tasks, memory, packages, history."""

import re
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visiting
from tests.browser.desk import Desk
from tests.browser.pages import log_of
from tests.browser.person import Person
from tests.browser.project import LONG
from tests.support.sage_folder import put


def test_code_has_colours_and_numbered_lines(person: Person) -> None:
    person.go("/workspace/lib/main.dart")
    page = person.page
    assert "import 'package:flutter/material.dart';" in page.locator("#L1").inner_text()
    assert page.locator("#L8").inner_text().strip() == "class WeatherDesk extends StatelessWidget {"
    colours = page.locator("#L8 span").evaluate_all("all => all.map(one => getComputedStyle(one).color)")
    assert len(set(colours)) >= 1
    plain = page.locator("main").evaluate("one => getComputedStyle(one).color")
    assert set(colours) - {plain}


def test_the_text_that_is_copied_from_code_is_the_text_of_the_file(person: Person, desk: Desk) -> None:
    person.go("/workspace/lib/main.dart")
    selected: str = person.page.evaluate(
        "() => { getSelection().selectAllChildren(document.querySelector('main pre')); return String(getSelection()) }"
    )
    assert selected.strip() == (desk.project / "lib/main.dart").read_text(encoding="utf-8").strip()


def test_a_click_on_a_line_number_gives_the_line_an_address(person: Person) -> None:
    person.go("/workspace/lib/main.dart")
    page = person.page
    page.locator("#L5 .n").click()
    assert page.url == f"{person.origin}/workspace/lib/main.dart#L5"
    assert is_marked(person, 5)
    assert not is_marked(person, 6)
    page.locator("#L9 .n").click(modifiers=["Shift"])
    assert page.url == f"{person.origin}/workspace/lib/main.dart#L5-L9"
    assert [is_marked(person, number) for number in (4, 5, 7, 9, 10)] == [False, True, True, True, False]


def is_marked(person: Person, number: int) -> bool:
    """Return whether a line looks different from others."""
    look = "(id) => getComputedStyle(document.getElementById(id)).backgroundColor"
    return bool(person.page.evaluate(look, f"L{number}") != person.page.evaluate(look, "L1"))


def test_an_address_with_lines_shows_and_marks_them(person: Person) -> None:
    person.go("/workspace/lib/main.dart#L10-L12")
    page = person.page
    expect(page.locator("#L10")).to_be_in_viewport()
    page.wait_for_function("getComputedStyle(L11).backgroundColor !== getComputedStyle(L1).backgroundColor")
    assert [is_marked(person, number) for number in (9, 10, 11, 12, 13)] == [False, True, True, True, False]


def test_marked_lines_are_copied_as_a_uri_with_lines(person: Person) -> None:
    person.context.grant_permissions(["clipboard-read", "clipboard-write"])
    person.go("/workspace/lib/long.py")
    page = person.page
    page.locator("#L40 .n").click()
    page.locator("#L62 .n").click(modifiers=["Shift"])
    assert page.url.endswith("#L40-L62")
    page.keyboard.press("y")
    page.wait_for_function("navigator.clipboard.readText().then(text => text.includes('lines'))")
    assert page.evaluate("navigator.clipboard.readText()") == "workspace:///lib/long.py?lines=40-62"


def test_an_address_with_lines_beyond_the_first_part_leads_to_them(person: Person) -> None:
    person.go("/workspace/lib/long.py#L5001-L5003")
    page = person.page
    expect(page.locator("#L5001")).to_be_in_viewport(timeout=5_000)
    assert "def function_1250()" in page.locator("#L5001").inner_text()


def test_a_long_file_comes_in_parts_that_join(person: Person) -> None:
    person.go("/workspace/lib/long.py")
    page = person.page
    lines: list[str] = []
    for _ in range(20):
        shown = page.locator(".l[id^=L]")
        first = int((shown.first.get_attribute("id") or "")[1:])
        assert first == len(lines) + 1
        lines += page.evaluate("[...document.querySelectorAll('.l[id^=L]')].map(line => line.textContent)")
        following = page.locator("a[rel=next]")
        if not following.count():
            break
        person.go(following.first.get_attribute("href") or "")
    assert len(page.context.pages) == 1
    assert "\n".join(lines).strip() == LONG.strip()
    assert page.locator("a[rel=prev]").count() >= 1


def test_a_part_of_a_file_has_the_numbers_of_the_file(person: Person) -> None:
    person.go("/workspace/lib/long.py?lines=101-104")
    ids = person.page.locator(".l[id^=L]").evaluate_all("all => all.map(one => one.id)")
    assert ids == ["L101", "L102", "L103", "L104"]
    assert "def function_25()" in person.text("#L101")


def test_markdown_is_laid_out_and_its_links_stay_on_the_desk(person: Person) -> None:
    person.go("/workspace/docs/guide.md")
    page = person.page
    main = page.get_by_role("main")
    assert main.get_by_role("heading", name="Where to begin").count() == 1
    assert main.get_by_role("table").get_by_role("cell", name="north").count() == 1
    for name, address in {
        "the readme": "/workspace/README.md",
        "the view": "/workspace/lib/forecast.dart",
        "its second line": "/workspace/lib/main.dart#L2",
        "tasks": "/scopes/tree/project-alpha",
    }.items():
        person.go("/workspace/docs/guide.md")
        main.get_by_role("link", name=name, exact=True).click()
        assert page.url == person.origin + address
        assert page.locator("main > h1").count() == 1


def test_markdown_leads_to_its_own_headings(person: Person) -> None:
    person.go("/workspace/docs/guide.md")
    page = person.page
    page.get_by_role("main").get_by_role("link", name="this part").click()
    target = page.url.partition("#")[2]
    assert target
    expect(page.locator(f"[id='{target}']")).to_be_in_viewport()


def test_markdown_loads_nothing_from_elsewhere_and_marks_links_that_leave(person: Person) -> None:
    person.go("/workspace/docs/guide.md")
    main = person.page.get_by_role("main")
    leaving = main.get_by_role("link", name=re.compile("the web"))
    assert leaving.get_attribute("href") == "https://example.org/page"
    assert "noreferrer" in (leaving.get_attribute("rel") or "")
    assert main.get_by_role("link", name="a script").count() == 0
    person.page.wait_for_load_state("networkidle")
    assert not [request for request in person.requests if "example.org" in request.url]


def test_an_image_in_markdown_and_alone_is_shown(person: Person) -> None:
    page = person.page
    for path in ("/workspace/docs/guide.md", "/workspace/assets/logo.png"):
        person.go(path)
        image = page.locator("main img").first
        expect(image).to_be_visible()
        page.wait_for_function("document.querySelector('main img').complete")
        assert image.evaluate("one => [one.naturalWidth, one.naturalHeight]") == [64, 32]
        assert image.get_attribute("alt")


def test_bytes_that_are_no_text_are_offered_as_a_file(person: Person, desk: Desk) -> None:
    person.go("/workspace/assets/blob.bin")
    with person.page.expect_download() as started:
        person.page.get_by_role("link", name=re.compile("download", re.IGNORECASE)).first.click()
    assert started.value.path().read_bytes() == (desk.project / "assets/blob.bin").read_bytes()


def test_json_folds_and_unfolds(person: Person) -> None:
    person.go("/workspace/data/beds.json")
    page = person.page
    wet = page.get_by_text("41.5", exact=True)
    inner = page.locator("main .json details details").filter(has_text="41.5").last
    if not wet.is_visible():
        inner.locator("summary").first.click()
    expect(wet).to_be_visible()
    inner.locator("summary").first.click()
    expect(wet).not_to_be_visible()


def test_an_html_file_is_shown_as_text(person: Person) -> None:
    person.go("/workspace/evil/page.html")
    assert "<!doctype html><title>x</title>" in person.text("main")
    assert person.page.title() != "x"


def test_tasks_are_a_tree_with_their_status(person: Person) -> None:
    person.go("/scopes/tree/project-alpha")
    main = person.text("main")
    for words in ("Project Alpha", "Feature X", "IN_PROGRESS", "PLANNING"):
        assert words.lower().replace("_", " ") in main.lower().replace("_", " ")
    person.page.get_by_role("main").get_by_role("link", name=re.compile("Project Alpha|project-alpha")).first.click()
    assert person.page.url == f"{person.origin}/scopes/scope/project-alpha"
    assert "feature-x" in person.text("main")


def test_memory_is_laid_out(person: Person) -> None:
    person.go("/sage/failure/jwt-localstorage")
    main = person.page.get_by_role("main")
    assert main.get_by_text("Any script on the page can read them").count() >= 1
    assert main.get_by_text("Why it failed", exact=True).count() == 1


def test_a_package_shows_its_meta(person: Person) -> None:
    person.go("/alc/packages/sketch/meta")
    main = person.text("main")
    assert "0.1.0" in main
    assert "before writing it" in main


def test_a_shelf_and_a_mount_are_read_like_everything_else(person: Person) -> None:
    person.go("/garden/beds/north")
    assert "41.5" in person.text("main")
    person.go("/friend+friend/letters/first")
    assert "Dear desk," in person.text("main")


def test_history_leads_from_a_file_to_its_commits_and_differences(person: Person) -> None:
    person.go("/workspace/NOTES.md")
    page = person.page
    page.get_by_role("main").get_by_role("link", name=re.compile("history|log", re.IGNORECASE)).first.click()
    assert "Begin notes" in person.text("main")
    page.get_by_role("main").get_by_role("link", name=re.compile("^[0-9a-f]{7,40}$")).first.click()
    assert "/git/commit/" in page.url
    assert "Ada" in person.text("main")


def test_a_difference_shows_what_came_and_went(person: Person) -> None:
    person.go("/workspace/NOTES.md?diff=HEAD~1")
    page = person.page
    came, went = page.locator(".add", has_text="And three."), page.locator(".del", has_text="One.")
    assert came.count() == went.count() == 1
    colours = {one.evaluate("one => getComputedStyle(one).backgroundColor") for one in (came, went)}
    assert len(colours) == 2


def test_blame_and_the_past_of_a_file_are_shown(person: Person) -> None:
    person.go("/workspace/NOTES.md?blame")
    assert "Ada" in person.text("main")
    person.go("/workspace/NOTES.md?at=HEAD~1")
    assert "One." in person.text("main")
    expect(person.page.get_by_role("navigation", name="Views").locator("[aria-current]")).to_have_text("At HEAD~1")


def test_blame_leaves_room_for_the_lines_on_a_phone(visit: Visiting) -> None:
    with visit(width="phone") as person:
        person.go("/workspace/NOTES.md?blame")
        line = person.page.locator(".blame").first
        expect(line.locator(".id")).to_be_visible()
        expect(line.locator(".who")).to_be_hidden()
        expect(line).to_contain_text("# Notes")


def test_log_lines_show_their_level_and_errors_over_time(person: Person, desk: Desk) -> None:
    person.go(f"/logs/run/{log_of(desk, 'lamps')}")
    page = person.page
    error = page.locator("[data-level=error]")
    assert error.count() == 2
    colour = "one => getComputedStyle(one).color"
    normal = page.locator(".l").first.evaluate(colour)
    assert error.first.evaluate(colour) != normal or error.first.locator("span").first.evaluate(colour) != normal
    expect(page.get_by_role("img", name=re.compile("error", re.IGNORECASE)).first).to_be_visible()


@pytest.mark.parametrize("path", ["/workspace/empty.txt", "/workspace/a%20b.txt", "/workspace/lib/"])
def test_odd_addresses_are_read(path: str, person: Person, desk: Desk) -> None:
    (desk.project / "a b.txt").write_text("with a space\n", encoding="utf-8")
    assert person.go(path).status == 200
    assert person.page.locator("h1").count() == 1


def test_a_page_says_what_its_resource_costs(person: Person, desk: Desk) -> None:
    uri = "workspace:///lib/main.dart"
    person.go("/workspace/lib/main.dart")
    size = (desk.project / "lib/main.dart").stat().st_size
    facts = re.sub(r"[,\u202f\u00a0]", "", person.text("main"))
    assert f"{size} B" in facts
    tokens = desk.get(f"/-/read.json?uri={quote(uri, safe='')}")
    assert re.search(r"\d+ tokens", facts), tokens


def test_code_in_a_cell_of_a_table_stays_in_its_line(person: Person, desk: Desk) -> None:
    put(desk.project / "tables/options.md", "| option | what |\n| --- | --- |\n| `--port N` | the `[http]` port |\n")
    person.go("/workspace/tables/options.md")
    expect(person.page.locator(".prose tbody tr code")).to_have_count(2)
    # Looked at as a whole, until it holds: the page is shown anew when it hears of its file.
    person.page.wait_for_function(
        """() => {
            const height = part => document.querySelector(`.prose ${part} tr`)?.getBoundingClientRect().height ?? 0;
            return height("thead") > 0 && height("tbody") > 0 && height("tbody") < 1.5 * height("thead");
        }"""
    )


def test_a_file_of_one_long_line_is_read_in_parts_without_scrolling_sideways(person: Person, desk: Desk) -> None:
    person.go("/workspace/web/app.min.js")
    page = person.page
    text = ""
    for _ in range(9):
        text += page.locator(".code .l").inner_text()
        assert page.evaluate(
            "[...document.querySelectorAll('.scroll')].every(one => one.scrollWidth <= one.clientWidth)"
        )
        following = page.locator("a[rel=next]")
        if not following.count():
            break
        following.first.click()
    assert text == (desk.project / "web/app.min.js").read_text(encoding="utf-8")
    page.locator("a[rel=prev]").first.click()
    expect(page.locator("a[rel=next]").first).to_be_visible()


def test_a_log_whose_run_failed_says_so_in_words(person: Person, desk: Desk) -> None:
    person.go("/logs/run")
    row = person.page.locator("#rows tbody tr").filter(has_text="broken")
    assert "failed (exit code 3)" in row.inner_text()
    row.get_by_role("link").click()
    expect(person.page.locator(".facts-line b")).to_have_text("failed (exit code 3)")
