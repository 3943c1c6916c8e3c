"""Why a URI is served or not, on a page."""

from tests.support.explorer_desk import Browsed

SECRET = "/-/explain?uri=workspace%3A%2F%2F%2F.env"


def test_a_page_names_the_rule_and_where_it_stands(browsed: Browsed) -> None:
    page = browsed.page(SECRET)

    assert "deny" in page
    assert "[workspace] deny" in page
    assert "SECRET=1" not in page
    assert browsed.get(SECRET.replace("explain", "explain.json"), {}).json["served"] is False


def test_what_is_served_says_so_and_links_to_it(browsed: Browsed) -> None:
    page = browsed.page("/-/explain?uri=README.md")

    assert "Served and listed." in page
    assert 'href="/workspace/README.md"' in page


def test_what_is_missing_offers_what_may_be_meant(browsed: Browsed) -> None:
    assert 'href="/workspace/README.md"' in browsed.page("/-/explain?uri=workspace:///REDME.md")
    assert b'href="/workspace/README.md"' in browsed.get("/workspace/REDME.md").body


def test_without_a_uri_there_is_the_form(browsed: Browsed) -> None:
    assert 'name="uri"' in browsed.page("/-/explain")


def test_what_a_caller_may_not_read_reveals_nothing(guarded: Browsed) -> None:
    there, missing = (
        guarded.page(f"/-/explain?uri=workspace:///{name}", caller="logs") for name in ("README.md", "MISSNG.md")
    )

    assert "workspace:read" in there
    assert there.replace("README", "X") == missing.replace("MISSNG", "X")
