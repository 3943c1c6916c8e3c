"""Pages about the server, each also as JSON and Markdown."""

from pathlib import Path

import pytest

from carrel.explorer.about import TITLES
from tests.support.explorer_desk import Browsed


@pytest.mark.parametrize("name", TITLES)
def test_each_page_is_html_json_and_markdown_with_one_etag(browsed: Browsed, name: str) -> None:
    page = browsed.get(f"/-/{name}")
    as_json, as_markdown = (browsed.get(f"/-/{name}.{form}", {"accept": "*/*"}) for form in ("json", "md"))

    assert page.status == 200
    assert TITLES[name].encode() in page.body
    assert isinstance(as_json.json, dict)
    assert as_markdown.body.startswith(b"# ")
    assert page.headers["content-type"].startswith("text/html")
    if name not in ("health", "subscriptions", "index"):  # these change by being looked at
        assert page.headers["etag"] == as_json.headers["etag"] == as_markdown.headers["etag"]


def test_answers_for_programs_stay_as_they_were(browsed: Browsed) -> None:
    assert set(browsed.get("/-/health", {"accept": "*/*"}).json) >= {"status", "version", "sessions", "streams"}
    assert isinstance(browsed.get("/-/providers", {"accept": "*/*"}).json, list)
    assert browsed.get("/-/limits", {"accept": "application/json"}).json["page_size"] > 0


def test_a_caller_sees_itself_and_no_other(guarded: Browsed) -> None:
    data = guarded.get("/-/callers", {"accept": "application/json"}, caller="logs").json

    assert data["callers"] == [{"name": "token logs", "scopes": ["logs:read"], "expiresAt": None}]
    assert guarded.get("/-/subscriptions", {"accept": "*/*"}, caller="logs").json["caller"] == "token logs"


def test_providers_that_a_caller_may_not_read_are_not_named(guarded: Browsed) -> None:
    named = {one["name"] for one in guarded.get("/-/providers.json", {}, caller="logs").json["providers"]}

    assert "logs" in named
    assert "workspace" not in named
    assert "workspace" not in guarded.page("/-/health", caller="logs").partition("<main")[2].partition("</main>")[0]


def test_the_index_says_its_state(browsed: Browsed) -> None:
    assert browsed.get("/-/index", {"accept": "*/*"}).json["state"] == "not built yet: begins with the first search"
    browsed.page("/-/search?q=hello")
    assert browsed.get("/-/index", {"accept": "*/*"}).json["state"] in ("building", "partial", "complete")


def test_no_page_shows_a_path_of_the_server(browsed: Browsed) -> None:
    root = browsed.desk.config.root

    for name in TITLES:
        assert root not in browsed.page(f"/-/{name}")
    assert root not in browsed.page("/")


ODD = """
from carrel.core.provider import Provider


class Odd(Provider):
    name = "odd"
    schemes = ("odd",)

    def routes(self):
        return ()

    def health(self):
        return {"answers": {200: 5, None: 1}}


shelf = Odd()
"""


def test_a_plug_in_whose_health_has_keys_that_are_not_text_breaks_no_page(project: Path) -> None:
    (project / "odd.py").write_text(ODD, "utf-8")
    browsed = Browsed(project, settings=(("objects.odd", "import", "odd.py:shelf"),))
    try:
        page = browsed.page("/-/health")
        data = browsed.get("/-/health.json", {}).json
    finally:
        browsed.close()

    assert "<dt>200</dt><dd>5</dd>" in page
    assert data["providers"]["odd"]["answers"] == {"200": 5, "None": 1}
