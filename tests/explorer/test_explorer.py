"""Which page answers a request: home, resources, their twins, the style sheet, and the 401 of a stranger."""

import pytest

from tests.support.explorer_desk import BROWSER, Browsed
from tests.support.http_asking import Reply
from tests.support.waiting import until

POLICY_WORDS = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
)


def settled(browsed: Browsed, target: str) -> Reply:
    """Return a page once its file has its last ETag: one that was just written has another for a moment."""
    until(lambda: "-" not in browsed.get(target).headers["etag"])
    return browsed.get(target)


@pytest.mark.parametrize("target", ["/", "/workspace/", "/workspace/README.md", "/workspace/lib", "/workspace/nothing"])
def test_every_page_has_a_strict_policy_and_names_no_inline_script_or_style(browsed: Browsed, target: str) -> None:
    reply = browsed.get(target)

    assert all(word in reply.headers["content-security-policy"] for word in POLICY_WORDS)
    assert "unsafe" not in reply.headers["content-security-policy"]
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["referrer-policy"] == "no-referrer"
    page = reply.body.decode()
    assert " style=" not in page
    assert "<style" not in page
    assert "<script>" not in page
    assert " onclick" not in page


@pytest.mark.parametrize("accept", ["*/*", "", "text/plain", "application/json", "text/html;q=0.4, */*"])
def test_a_client_that_does_not_prefer_html_gets_the_bytes(browsed: Browsed, accept: str) -> None:
    reply = browsed.get("/workspace/README.md", {"accept": accept} if accept else {})

    assert reply.body == b"# Garden\n\nSee [the code](lib/main.py).\n"
    assert reply.headers["content-type"].startswith("text/markdown")
    assert "Accept" in reply.headers["vary"]


def test_a_page_names_its_twins_and_they_answer_with_the_same_etag(browsed: Browsed) -> None:
    page = settled(browsed, "/workspace/README.md")
    text = page.body.decode()

    assert '<link rel="alternate" type="application/json" href="/workspace/README.md.json">' in text
    assert '<link rel="alternate" type="text/markdown" href="/workspace/README.md.md">' in text
    as_json = browsed.get("/workspace/README.md.json", {"accept": "*/*"})
    as_markdown = browsed.get("/workspace/README.md.md", {"accept": "*/*"})
    assert as_json.headers["content-type"] == "application/json"
    assert as_markdown.headers["content-type"] == "text/markdown; charset=utf-8"
    assert page.headers["etag"] == as_json.headers["etag"] == as_markdown.headers["etag"]
    assert as_json.json["result"]["contents"][0]["text"].startswith("# Garden")


@pytest.mark.parametrize("target", ["/", "/index.json", "/index.md", "/workspace/", "/workspace/.json"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_client_that_has_a_page_already_gets_only_its_headers(browsed: Browsed, target: str, method: str) -> None:
    etag = browsed.get(target).headers["etag"]

    again = browsed.get(target, {**BROWSER, "if-none-match": etag}, method)

    assert (again.status, again.body) == (304, b"")
    assert again.headers["etag"] == etag


def test_a_browser_that_asks_for_a_twin_gets_the_twin(browsed: Browsed) -> None:
    assert browsed.get("/workspace/README.md.json").headers["content-type"] == "application/json"
    assert browsed.get("/workspace.json").json["kind"] == "folder"


def test_a_resource_with_exactly_this_path_wins_over_a_twin(browsed: Browsed) -> None:
    exact = browsed.get("/workspace/data.json", {"accept": "*/*"})
    twin = browsed.get("/workspace/data.md", {"accept": "*/*"})

    assert exact.json == {"exact": True}
    assert twin.body.startswith(b"# workspace:///data\n")


def test_a_page_whose_twin_is_hidden_by_a_resource_names_the_other_address(browsed: Browsed) -> None:
    page = settled(browsed, "/workspace/data")
    address = "/-/read.json?uri=workspace%3A%2F%2F%2Fdata"

    assert f'<link rel="alternate" type="application/json" href="{address}">' in page.body.decode()
    twin = browsed.get(address, {})
    assert twin.json["uri"] == "workspace:///data"
    assert twin.headers["etag"] == page.headers["etag"]


def test_a_path_that_is_neither_resource_nor_twin_is_refused_as_before(browsed: Browsed) -> None:
    reply = browsed.get("/workspace/nothing.json", {"accept": "*/*"})

    assert reply.status == 404
    assert "workspace:///nothing.json" in reply.json["error"]


def test_what_the_pages_need_is_sent_to_everybody_and_kept_for_long(guarded: Browsed) -> None:
    for name, kind in (("explorer.css", "text/css"), ("explorer.js", "text/javascript"), ("icon.svg", "image/svg+xml")):
        reply = guarded.get(f"/-/static/{name}?v=1", {"accept": "*/*"})
        assert reply.status == 200
        assert reply.headers["content-type"].startswith(kind)
        assert "immutable" in reply.headers["cache-control"]
    assert guarded.get("/-/static/../explorer.py", {"accept": "*/*"}).status == 404


def test_styles_and_scripts_are_at_most_two_each_and_small(browsed: Browsed) -> None:
    page = browsed.page("/")

    assert page.count("<script") <= 2
    assert page.count('rel="stylesheet"') <= 2
    sizes = [len(browsed.get(f"/-/static/{name}", {}).body) for name in ("explorer.css", "explorer.js")]
    assert sum(sizes) <= 60_000


def test_a_stranger_sees_a_page_that_says_how_to_come_in(guarded: Browsed) -> None:
    reply = guarded.get("/workspace/README.md")

    assert reply.status == 401
    assert b"carrel open" in reply.body
    assert b"Garden" not in reply.body
    assert reply.headers["www-authenticate"].startswith("Bearer")


def test_a_bearer_token_shows_pages_too(guarded: Browsed) -> None:
    assert "Garden" in guarded.page("/workspace/README.md", caller="all")
    assert guarded.get("/workspace/README.md", caller="logs").status == 403


def test_a_put_is_no_page(browsed: Browsed) -> None:
    assert browsed.get("/workspace/README.md", method="PUT").status == 405


def test_a_page_is_compressed_only_for_clients_that_take_it(browsed: Browsed) -> None:
    packed = browsed.get("/", {**BROWSER, "accept-encoding": "gzip, br"})
    plain = browsed.get("/", {**BROWSER, "accept-encoding": "gzip;q=0"})

    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < len(packed.body)
    assert "content-encoding" not in plain.headers
    assert packed.body == plain.body
