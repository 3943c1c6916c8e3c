"""Without a mouse: every shortcut, and every control by Tab."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.person import Person

FOCUSED = "document.activeElement"
RING = """() => { const style = getComputedStyle(document.activeElement);
    return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1 || style.boxShadow !== 'none' }"""


def focused_uri(person: Person) -> str | None:
    found: str | None = person.page.evaluate(f"{FOCUSED}.dataset.uri ?? {FOCUSED}.closest('[data-uri]')?.dataset.uri")
    return found


def test_slash_goes_to_the_search_and_escape_leaves_it(person: Person) -> None:
    person.go("/workspace/lib/main.dart")
    page = person.page
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox").first).to_be_focused()
    page.keyboard.type("a/b?jkuy")
    assert page.get_by_role("searchbox").first.input_value() == "a/b?jkuy"
    page.keyboard.press("Escape")
    expect(page.get_by_role("searchbox").first).not_to_be_focused()
    assert page.url == f"{person.origin}/workspace/lib/main.dart"


def test_j_and_k_go_through_the_rows_and_enter_opens_one(person: Person) -> None:
    person.go("/workspace/lib")
    page = person.page
    page.keyboard.press("j")
    assert focused_uri(person) == "workspace:///lib/forecast.dart"
    assert page.evaluate(RING)
    page.keyboard.press("j")
    assert focused_uri(person) == "workspace:///lib/long.py"
    page.keyboard.press("k")
    assert focused_uri(person) == "workspace:///lib/forecast.dart"
    page.keyboard.press("k")
    assert focused_uri(person) == "workspace:///lib/forecast.dart"
    page.keyboard.press("Enter")
    page.wait_for_url("**/workspace/lib/forecast.dart")


def test_u_goes_up_to_the_desk(person: Person) -> None:
    person.go("/workspace/deep/er/and/deeper/down.txt")
    for path in ("/workspace/deep/er/and/deeper", "/workspace/deep/er/and", "/workspace/deep/er", "/workspace/deep"):
        person.page.keyboard.press("u")
        person.page.wait_for_url(person.origin + path)
    person.page.keyboard.press("u")
    person.page.wait_for_url(re.compile("/workspace/$"))
    person.page.keyboard.press("u")
    person.page.wait_for_url(f"{person.origin}/")


def test_y_copies_the_uri_of_the_page_or_of_the_row(person: Person) -> None:
    person.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = person.page
    for path, keys, uri in (
        ("/workspace/lib/main.dart", "y", "workspace:///lib/main.dart"),
        ("/workspace/lib", "jjy", "workspace:///lib/long.py"),
        ("/scopes/scope/project-alpha", "y", "scopes://scope/project-alpha"),
    ):
        person.go(path)
        for key in keys:
            page.keyboard.press(key)
        page.wait_for_function("uri => navigator.clipboard.readText().then(text => text === uri)", arg=uri)
        expect(page.get_by_text(re.compile("copied", re.IGNORECASE)).first).to_be_visible()


def test_what_a_page_says_is_in_view_and_moves_nothing(person: Person) -> None:
    person.go("/workspace/lib/long.py")
    page = person.page
    page.evaluate("scrollTo(0, 3000)")
    before = page.locator("#L150").bounding_box()
    page.keyboard.press("y")
    said = page.locator("#status")
    expect(said).to_have_text("Copied workspace:///lib/long.py")
    expect(said).to_be_in_viewport(ratio=1)
    assert page.locator("#L150").bounding_box() == before


def test_question_mark_shows_every_key_and_escape_hides_it(person: Person) -> None:
    person.go("/workspace/lib")
    page = person.page
    page.keyboard.press("?")
    help_ = page.get_by_role("dialog")
    expect(help_).to_be_visible()
    shown = help_.inner_text()
    keys = help_.locator("kbd").all_inner_texts()
    assert {"/", "j", "k", "u", "y", "?"} <= {key.strip().lower() for key in keys}, keys
    assert "enter" in shown.lower()
    page.keyboard.press("Escape")
    expect(help_).not_to_be_visible()


def test_keys_with_control_or_alt_stay_those_of_the_browser(person: Person) -> None:
    person.go("/workspace/lib/main.dart")
    for key in ("Control+u", "Alt+j", "Meta+k", "Control+y"):
        person.page.keyboard.press(key)
    assert person.page.url == f"{person.origin}/workspace/lib/main.dart"


@pytest.mark.parametrize("path", ["/", "/workspace/lib", "/workspace/lib/main.dart", "/-/search?q=forecast"])
def test_tab_reaches_every_control_and_shows_where_one_is(path: str, person: Person) -> None:
    person.go(path)
    page = person.page
    wanted: int = page.evaluate(
        "[...document.querySelectorAll('a[href], button, input, summary, select')]"
        ".filter(one => one.tabIndex >= 0 && one.checkVisibility() && !one.disabled).length"
    )
    seen: set[str] = set()
    for _ in range(min(wanted, 60)):
        page.keyboard.press("Tab")
        seen.add(page.evaluate(f"{FOCUSED}.outerHTML.slice(0, 200) + {FOCUSED}.getBoundingClientRect().top"))
        assert page.evaluate(RING), page.evaluate(f"{FOCUSED}.outerHTML.slice(0, 200)")
    assert len(seen) >= min(wanted, 60) - 1


def test_the_first_tab_skips_to_the_content(person: Person) -> None:
    person.go("/workspace/lib/main.dart")
    page = person.page
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    assert page.evaluate(f"{FOCUSED}.tagName") == "MAIN"


def test_a_desk_is_searched_and_read_with_keys_alone(person: Person) -> None:
    person.go("/")
    page = person.page
    page.keyboard.press("/")
    page.keyboard.type("ForecastView")
    page.keyboard.press("Enter")
    page.wait_for_url("**/-/search?*")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    assert focused_uri(person)
    page.keyboard.press("Enter")
    page.wait_for_url("**/workspace/**")
    assert "ForecastView" in person.text("main")


def test_folds_and_the_model_view_open_by_keys(person: Person) -> None:
    person.go("/workspace/lib/main.dart")
    page = person.page
    summary = page.locator("summary", has_text="As the model sees it")
    summary.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".model pre").first).to_be_visible()
