"""Searching the whole desk: as one types, with filters, with addresses to share."""

import json
import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Request, expect

from tests.browser.audit import barriers
from tests.browser.conftest import Visiting
from tests.browser.desk import Desk
from tests.browser.person import Person


def hits(person: Person) -> list[str]:
    """Return the URIs that are found, in order."""
    found: list[str] = person.page.locator("main [data-uri]").evaluate_all("all => all.map(one => one.dataset.uri)")
    return list(dict.fromkeys(uri.partition("?")[0] for uri in found))


def test_hits_come_as_one_types(person: Person) -> None:
    person.go("/-/search")
    page = person.page
    box = page.get_by_role("main").get_by_role("searchbox").or_(page.get_by_role("searchbox")).first
    box.press_sequentially("ForecastV", delay=20)
    expect(page.locator("main [data-uri*='forecast.dart']").first).to_be_visible()
    box.clear()
    box.press_sequentially("zyzzyvaquokk", delay=20)
    expect(page.locator("main [data-uri]")).to_have_count(0)
    box.clear()
    box.press_sequentially("ForecastView", delay=20)
    expect(page.locator("main [data-uri*='forecast.dart']").first).to_be_visible()


def test_what_is_typed_last_is_what_is_shown(person: Person) -> None:
    """Answers that come late are not shown over those of a later query."""
    person.go("/-/search")
    page = person.page
    held: list[str] = []

    def delay(route, request) -> None:  # type: ignore[no-untyped-def]
        if "lamp" in request.url and not held:
            held.append(request.url)
            page.wait_for_timeout(700)
        route.continue_()

    page.route("**/-/search*", delay)
    box = page.get_by_role("searchbox").first
    box.fill("lamp")
    box.fill("ForecastView")
    expect(page.locator("main [data-uri*='forecast.dart']").first).to_be_visible()
    page.wait_for_load_state("networkidle")
    assert "lamp" not in person.text("main").lower().replace("lamps", "")


def test_the_address_of_a_search_can_be_shared(person: Person, visit: Visiting) -> None:
    person.go("/-/search")
    page = person.page
    page.get_by_role("searchbox").first.press_sequentially("ForecastView", delay=10)
    page.wait_for_url("**/-/search?*ForecastView*")
    expect(page.locator("main [data-uri*='forecast.dart']").first).to_be_visible()
    found = hits(person)
    with visit(scripts=False) as other:
        other.go(page.url)
        assert hits(other) == found
        assert other.page.get_by_role("searchbox").first.input_value() == "ForecastView"


def test_hits_are_those_of_the_protocol_in_its_order(person: Person, desk: Desk) -> None:
    person.go("/-/search?q=forecast")
    told = desk.read("carrel://search?q=forecast&format=json")
    expected = json.loads(told["result"]["contents"][0]["text"]) if "result" in told else None
    if expected is None:
        expected = json.loads(desk.get("/-/search?q=forecast").body)
    uris = [hit["uri"].partition("?")[0] for hit in expected["hits"]]
    assert hits(person) == list(dict.fromkeys(uris))


def test_a_hit_shows_its_context_and_marks_the_words(person: Person) -> None:
    person.go("/-/search?q=ForecastView")
    main = person.page.get_by_role("main")
    assert main.locator("mark", has_text=re.compile("ForecastView", re.IGNORECASE)).count() >= 1
    assert "StatelessWidget" in person.text("main")


def test_a_hit_leads_to_its_lines(person: Person) -> None:
    person.go("/-/search?q=function_1250")
    person.page.get_by_role("main").get_by_role("link", name=re.compile("long.py")).first.click()
    expect(person.page.get_by_text("def function_1250()").first).to_be_in_viewport()


def test_filters_by_scheme_and_path_narrow_the_hits(person: Person) -> None:
    page = person.page
    person.go("/-/search?q=auth")
    assert {uri.partition(":")[0] for uri in hits(person)} >= {"sage"}
    schemes = {uri.partition(":")[0] for uri in hits(person)}
    filters = (
        page.get_by_role("main")
        .get_by_label(re.compile("scheme", re.IGNORECASE))
        .or_(page.get_by_role("main").get_by_role("link", name=re.compile("^sage")))
    )
    assert filters.count() >= 1
    person.go("/-/search?q=auth&scheme=sage")
    assert {uri.partition(":")[0] for uri in hits(person)} == {"sage"}
    assert schemes >= {"sage"}
    person.go("/-/search?q=import&path=lib")
    assert hits(person)
    assert all("/lib/" in uri for uri in hits(person))


def test_filters_are_part_of_the_address_and_of_the_form(person: Person) -> None:
    person.go("/-/search?q=auth&scheme=sage")
    person.page.get_by_role("searchbox").first.press("Enter")
    person.page.wait_for_load_state()
    query = parse_qs(urlsplit(person.page.url).query)
    assert query["q"] == ["auth"]
    assert query.get("scheme") == ["sage"]


def test_a_search_without_hits_says_so_and_what_to_try(person: Person) -> None:
    person.go("/-/search?q=zyzzyvas")
    assert hits(person) == []
    assert re.search(r"nothing|no hits|not found", person.text("main"), re.IGNORECASE)


def test_a_query_that_cannot_be_understood_says_why(person: Person) -> None:
    person.forgive("status of 400")
    person.go("/-/search?q=%2F%28%2F")
    assert person.page.locator("h1").count() == 1
    assert len(person.text("main")) > 20


def test_back_leads_to_the_search_as_it_was(person: Person) -> None:
    person.go("/-/search?q=ForecastView")
    page = person.page
    page.get_by_role("main").get_by_role("link", name=re.compile(r"forecast\.dart")).first.click()
    page.go_back()
    assert page.get_by_role("searchbox").first.input_value() == "ForecastView"
    assert hits(person)


def test_a_search_from_any_page_finds_a_fresh_file(person: Person, desk: Desk) -> None:
    (desk.project / "fresh.txt").write_text("a quokka came by\n", encoding="utf-8")
    person.go("/workspace/lib/main.dart")
    person.page.get_by_role("searchbox").first.fill("quokka")
    person.page.get_by_role("searchbox").first.press("Enter")
    expect(person.page.locator("main [data-uri*='fresh.txt']").first).to_be_visible()


def test_json_of_a_search_is_what_it_was_for_programs(desk: Desk) -> None:
    """A program that does not ask for HTML gets the JSON that it always got."""
    told = json.loads(desk.get("/-/search?q=forecast").body)
    assert told["hits"]


OFFERED = "#found [role=option]"


def type_on(person: Person, path: str, query: str) -> None:
    """Open a page and type into the field of its header."""
    person.go(path)
    person.page.keyboard.press("/")
    person.page.keyboard.type(query, delay=15)


@pytest.mark.parametrize("path", ["/", "/workspace/lib", "/workspace/lib/main.dart", "/-/health", "/-/explain"])
def test_hits_are_offered_as_one_types_on_every_page_which_stays_as_it_is(path: str, person: Person) -> None:
    type_on(person, path, "ForecastView")
    page = person.page
    first = page.locator(OFFERED).first
    expect(first).to_contain_text("forecast.dart")
    expect(first.locator("mark").first).to_have_text("ForecastView")
    assert page.url == person.origin + path
    assert page.locator("main > h1").count() == 1
    assert barriers(page) == []


def test_arrows_choose_a_hit_and_enter_opens_its_line(person: Person) -> None:
    type_on(person, "/", "function_1250")
    page = person.page
    box = page.get_by_role("searchbox").first
    expect(page.locator(OFFERED).first).to_contain_text("long.py")
    page.keyboard.press("ArrowDown")
    chosen = page.locator("#found [aria-selected=true]")
    expect(chosen).to_contain_text("long.py")
    assert box.get_attribute("aria-activedescendant") == chosen.get_attribute("id")
    expect(box).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(chosen).to_have_count(0)
    page.keyboard.press("ArrowUp")
    expect(chosen).to_contain_text("open the search page")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/workspace/lib/long.py*#L5001")
    expect(page.get_by_text("def function_1250()").first).to_be_in_viewport()


def test_enter_without_a_choice_shows_all_hits_at_an_address_to_share(person: Person) -> None:
    type_on(person, "/workspace/lib/main.dart", "forecast scheme:workspace path:lib")
    expect(person.page.locator(OFFERED).first).to_be_visible()
    person.page.keyboard.press("Enter")
    person.page.wait_for_url("**/-/search?q=*")
    assert hits(person)
    assert all(uri.startswith("workspace:///lib/") for uri in hits(person))


def test_escape_and_a_click_elsewhere_put_the_hits_away(person: Person) -> None:
    type_on(person, "/workspace/lib/main.dart", "ForecastView")
    page = person.page
    offered = page.locator("#found")
    expect(offered).to_be_visible()
    page.keyboard.press("Escape")
    expect(offered).to_be_hidden()
    expect(page.get_by_role("searchbox").first).not_to_be_focused()
    page.keyboard.press("/")
    page.keyboard.type("ForecastVie")
    expect(offered).to_be_visible()
    page.mouse.click(1_200, 600)
    expect(offered).to_be_hidden()
    assert page.url == f"{person.origin}/workspace/lib/main.dart"


def test_a_hit_is_opened_with_the_mouse(person: Person) -> None:
    type_on(person, "/", "ForecastView")
    person.page.locator(OFFERED, has_text="forecast.dart").first.click()
    person.page.wait_for_url("**/workspace/lib/forecast.dart*")


def test_what_matches_is_in_view_in_a_narrow_list(visit: Visiting) -> None:
    with visit(width="phone") as person:
        type_on(person, "/", "forecast")
        marks = person.page.locator(OFFERED, has_text="guide.md").locator("mark")
        expect(marks.first).to_be_visible()
        inside = "mark => mark.getBoundingClientRect().right <= mark.closest('code').getBoundingClientRect().right"
        assert marks.first.evaluate(inside)


def test_how_many_hits_there_are_is_announced(person: Person) -> None:
    type_on(person, "/", "ForecastView")
    said = person.page.locator("#found-said")
    expect(said).to_have_text(re.compile(r"\d+ hit"))
    assert said.get_attribute("role") == "status"
    person.page.get_by_role("searchbox").first.fill("zyzzyvaquokk")
    expect(said).to_have_text(re.compile("^No hits for zyzzyvaquokk"))
    expect(person.page.locator(OFFERED)).to_have_count(1)


@pytest.mark.parametrize("path", ["/", "/-/search"])
def test_one_request_is_under_way_and_none_is_sent_for_an_unchanged_query(path: str, person: Person) -> None:
    page = person.page
    open_: set[str] = set()
    asked: list[str] = []
    most = 0

    def count(request: Request) -> None:
        nonlocal most
        if "/-/search?" in request.url:
            asked.append(request.url)
            open_.add(request.url)
            most = max(most, len(open_))

    page.on("request", count)
    page.on("requestfinished", lambda request: open_.discard(request.url))
    page.on("requestfailed", lambda request: open_.discard(request.url))
    type_on(person, path, "Forecast")
    box = page.get_by_role("searchbox").first
    with page.expect_request_finished(lambda request: "ForecastView" in request.url):
        box.press_sequentially("View", delay=5)
    assert "ForecastView" in asked[-1]
    assert most == 1
    before = len(asked)
    box.press_sequentially("  ")
    box.press("Backspace")
    box.dispatch_event("input")
    box.press("ArrowDown")
    page.wait_for_load_state("networkidle")
    page.evaluate("() => new Promise(done => setTimeout(done, 150))")  # longer than the pause after a letter
    assert len(asked) == before


def test_the_keys_of_the_search_page_go_from_the_field_to_the_hits_and_back(person: Person) -> None:
    person.go("/-/search?q=forecast")
    page = person.page
    box = page.get_by_role("searchbox").first
    box.focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator("main a.go").first).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.locator("main a.go").nth(1)).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(box).to_be_focused()


def test_the_field_of_every_page_works_without_scripts(visit: Visiting) -> None:
    with visit(scripts=False) as person:
        person.go("/workspace/lib/main.dart")
        box = person.page.get_by_role("searchbox").first
        box.fill("ForecastView")
        box.press("Enter")
        person.page.wait_for_url("**/-/search?q=ForecastView")
        assert hits(person)


def test_what_is_found_is_never_html_in_the_list(person: Person) -> None:
    type_on(person, "/", "window pwned")
    expect(person.page.locator(OFFERED).nth(2)).to_be_visible()
    assert person.page.locator("#found script, #found img, #found svg, #found iframe").count() == 0
    assert person.page.locator("#found").inner_text().count("<") >= 1


@pytest.mark.parametrize("is_late", [False, True])
def test_a_list_never_has_the_hits_of_an_earlier_query(is_late: bool, person: Person) -> None:
    """The reader leaves the field before the answer comes, and returns after it, or before it `is_late`."""
    type_on(person, "/workspace/empty.txt", "Forecast")
    page = person.page
    offered = page.locator("#found")
    expect(page.locator(OFFERED).first).to_contain_text("forecast.dart")
    held = person.hold("**/-/search?q=Forecastzyzzyva*")
    with page.expect_request("**/-/search?q=Forecastzyzzyva*"):
        page.keyboard.insert_text("zyzzyva")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(offered).to_be_hidden()
    if not is_late:
        with page.expect_response("**/-/search?q=Forecastzyzzyva*"):
            held[0].continue_()
        page.unroute("**/-/search?q=Forecastzyzzyva*")
    page.keyboard.press("/")
    assert "forecast.dart" not in (offered.inner_text() if offered.is_visible() else "")
    if is_late:
        held[0].continue_()
    expect(page.locator(OFFERED)).to_have_text([re.compile("^No hits for Forecastzyzzyva")])


def test_a_server_that_is_gone_is_said_and_the_search_goes_on_when_it_is_back(person: Person) -> None:
    person.forgive("ERR_INTERNET_DISCONNECTED", "Failed to load resource")
    person.go("/workspace/empty.txt")
    person.context.set_offline(True)
    person.page.keyboard.press("/")
    person.page.keyboard.type("Forecast")
    expect(person.page.locator("#status")).to_contain_text("does not answer")
    person.context.set_offline(False)
    person.page.keyboard.type("View")
    expect(person.page.locator(OFFERED).first).to_contain_text("forecast.dart")
