"""Going through the desk: home, folders, breadcrumbs, and what is said of each thing."""

import re
from typing import Literal

import pytest
from playwright.sync_api import expect

from tests.browser.audit import barriers
from tests.browser.conftest import Visiting
from tests.browser.desk import Desk
from tests.browser.person import Person
from tests.support.sage_folder import put

SCHEMES = ("carrel", "garden", "friend+friend", "sage", "scopes", "alc", "logs", "git", "workspace")


def test_home_says_what_is_on_the_desk_and_why(person: Person) -> None:
    person.go("/")
    main = person.text("main")
    for words in ("there is a .sage folder", "there is a git repository", "workspace:///", "garden.py"):
        assert words in main
    assert "skills" in main
    assert "this folder has no .claude/skills" in main
    assert "not served: this folder" not in main  # the heading says so


@pytest.mark.parametrize("scheme", SCHEMES)
def test_home_leads_to_everything_of(scheme: str, person: Person) -> None:
    person.go("/")
    person.page.locator(f'main a.go[data-uri^="{scheme}:"]').first.click()
    assert person.page.url.startswith(f"{person.origin}/{scheme}/")
    assert person.page.locator("h1").count() == 1
    assert person.page.get_by_role("main").get_by_role("link").count() >= 1


def test_home_says_how_hosts_are_connected(person: Person) -> None:
    person.go("/")
    main = person.text("main")
    assert re.search(r"Claude Code\s+connected \(user settings\)", main)
    assert "carrel connect claude-code" in main


def test_a_folder_is_walked_down_and_up_again(person: Person) -> None:
    person.go("/workspace/")
    page = person.page
    for name in ("deep", "er", "and", "deeper"):
        person.row(name).click()
    person.row("down.txt").click()
    assert page.url == f"{person.origin}/workspace/deep/er/and/deeper/down.txt"
    assert "down here" in person.text("main")
    crumbs = page.get_by_role("navigation", name="Path")
    expect(crumbs.get_by_role("link")).to_have_text(
        ["desk", "workspace:///", "deep", "er", "and", "deeper", "down.txt"]
    )
    crumbs.get_by_role("link", name="er", exact=True).click()
    assert page.url == f"{person.origin}/workspace/deep/er"
    crumbs.get_by_role("link", name="desk").click()
    assert page.url == f"{person.origin}/"


def test_a_folder_says_size_tokens_and_time_of_each_file(person: Person) -> None:
    person.go("/workspace/lib")
    row = person.page.locator("#rows tr").filter(has_text="main.dart")
    assert re.search(r"\b\d+ B\b", row.inner_text())
    assert re.search(r"≈?\s*\d+", row.inner_text())
    assert row.locator("time").get_attribute("datetime", timeout=1_000)


def test_a_folder_shows_where_its_bytes_are(person: Person) -> None:
    person.go("/workspace/lib")
    plot = person.page.locator("main .plot")
    expect(plot).to_contain_text("long.py")
    widths = plot.locator("svg.bar rect").evaluate_all("all => all.map(one => one.getBoundingClientRect().width)")
    assert len(widths) == 3
    assert widths == sorted(widths, reverse=True)


def test_what_is_not_served_is_not_in_a_folder(person: Person) -> None:
    person.go("/workspace/")
    main = person.text("main")
    assert ".env" not in main
    assert "build/" not in main
    assert "README.md" in main


def test_a_folder_of_each_kind_lists_what_the_protocol_lists(person: Person, desk: Desk) -> None:
    for uri, path in (
        ("scopes://scope", "/scopes/scope"),
        ("alc://packages", "/alc/packages"),
        ("logs://run", "/logs/run"),
    ):
        listed = desk.call("resources/directory/read", {"uri": uri}, uri)["result"]["resources"]
        person.go(path)
        shown = person.page.locator("main [data-uri]").evaluate_all("all => all.map(one => one.dataset.uri)")
        assert [one for one in dict.fromkeys(shown) if one != uri] == [entry["uri"] for entry in listed]


def test_back_and_forward_go_where_one_was(person: Person) -> None:
    page = person.page
    person.go("/workspace/")
    person.row("lib").click()
    person.row("main.dart").click()
    page.go_back()
    assert page.url == f"{person.origin}/workspace/lib"
    page.go_forward()
    assert page.url == f"{person.origin}/workspace/lib/main.dart"


def test_everything_works_without_scripts(visit: Visiting) -> None:
    with visit(scripts=False) as person:
        page = person.page
        person.go("/")
        page.get_by_role("link", name="workspace:///", exact=True).first.click()
        person.row("lib").click()
        person.row("forecast.dart").click()
        assert "ForecastView" in person.text("main")
        page.get_by_role("searchbox").first.fill("forecast")
        page.get_by_role("searchbox").first.press("Enter")
        assert "/-/search?" in page.url
        page.get_by_role("main").get_by_role("link", name=re.compile(r"forecast\.dart")).first.click()
        assert page.url.startswith(f"{person.origin}/workspace/")
        person.go("/")
        page.get_by_label("Why is a URI served").fill("workspace:///.env")
        page.get_by_label("Why is a URI served").press("Enter")
        assert "/-/explain?uri=" in page.url
        assert "secret" in person.text("main").lower()


def test_pages_of_the_server_say_how_it_is(person: Person) -> None:
    for path, words in {
        "/-/providers": "workspace",
        "/-/limits": "message",
        "/-/health": "friend",
        "/-/subscriptions": "ubscri",
        "/-/callers": "local",
        "/-/index": "index",
    }.items():
        assert person.go(path).status == 200
        assert words in person.text("main"), path


@pytest.mark.parametrize("width", ["phone", "desk"])
def test_a_template_is_broken_only_before_its_query(width: Literal["phone", "desk"], visit: Visiting) -> None:
    with visit(width=width) as person:
        person.go("/-/providers")
        query = person.page.locator(".unit", has_text="{?depth,skip,limit,max_nodes}")
        expect(query).to_have_text("{?depth,skip,limit,max_nodes}")
        box = query.bounding_box()
        assert box is not None
        assert box["height"] < 30, "it has one line"


def test_a_folder_opens_in_place_and_closes_again(person: Person) -> None:
    person.go("/workspace/")
    page = person.page
    fold = page.get_by_role("button", name="Children of deep")
    fold.click()
    expect(person.row("er")).to_be_visible()
    assert fold.get_attribute("aria-expanded") == "true"
    assert page.url == f"{person.origin}/workspace/"
    assert barriers(page) == []
    fold.click()
    expect(person.row("er")).to_have_count(0)


def test_a_child_has_the_columns_of_the_list_on_a_phone_too(visit: Visiting) -> None:
    with visit(width="phone") as person:
        person.go("/workspace/")
        page = person.page
        page.get_by_role("button", name="Children of .algocline").click()
        expect(person.row("cards")).to_be_visible()
        ends = "rows => [...new Set(rows.map(row => Math.round(row.getBoundingClientRect().right)))]"
        assert len(page.locator("#rows tr").evaluate_all(ends)) == 1
        shown = "row => [...row.cells].filter(one => one.checkVisibility()).length"
        assert page.locator("#rows tr[data-depth='1']").first.evaluate(shown) == 3


def test_a_tree_is_walked_with_the_arrows_down_to_a_file(person: Person) -> None:
    person.go("/workspace/")
    page = person.page
    person.row("deep").focus()
    for name in ("er", "and", "deeper", "down.txt"):
        page.keyboard.press("ArrowRight")
        expect(person.row(name)).to_be_visible()
        page.keyboard.press("ArrowDown")
        expect(person.row(name)).to_be_focused()
    assert person.row("down.txt").locator("xpath=ancestor::tr/td").count() == 4
    page.keyboard.press("ArrowLeft")
    expect(person.row("deeper")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(person.row("down.txt")).to_have_count(0)
    page.keyboard.press("ArrowLeft")
    expect(person.row("and")).to_be_focused()


def test_children_that_are_too_many_for_a_page_are_on_the_page_of_their_folder(person: Person, desk: Desk) -> None:
    for number in range(160):
        put(desk.project / f"crowd/of/{number}.txt", f"{number}\n")
    (desk.project / "crowd/none").mkdir()
    person.go("/workspace/crowd")
    page = person.page
    page.get_by_role("button", name="Children of of").click()
    expect(person.row("All of of")).to_have_attribute("href", f"{person.origin}/workspace/crowd/of")
    assert page.locator("#rows tr[data-depth='1']").count() == 151
    page.get_by_role("button", name="Children of none").click()
    expect(page.get_by_text("This folder is empty.")).to_be_visible()
