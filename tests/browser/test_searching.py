"""Searching the whole desk: as one types, with filters, with addresses to share."""

import json
import re
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import expect

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
