"""The exact answer of the protocol, and what is copied."""

import json

from carrel.catalog.access import Access, ActingAs
from carrel.explorer import exact
from tests.support.explorer_desk import Browsed


def test_an_answer_is_that_of_the_protocol(browsed: Browsed) -> None:
    told = json.loads(exact.answer(browsed.desk.server, "workspace:///README.md"))

    assert told["result"]["contents"][0]["text"].startswith("# Garden")
    assert "dev.carrel/etag" in told["result"]["contents"][0]["_meta"]


def test_an_error_is_an_answer_and_the_access_is_that_of_the_caller(browsed: Browsed) -> None:
    assert "error" in json.loads(exact.answer(browsed.desk.server, "workspace:///.env"))
    with ActingAs(Access("other", frozenset())):
        told = json.loads(exact.answer(browsed.desk.server, "workspace:///README.md"))
    assert "workspace:read" in told["error"]["message"]


def test_the_model_view_is_a_page_with_twins(browsed: Browsed) -> None:
    target = "/-/model?uri=workspace%3A%2F%2F%2FREADME.md"

    page = browsed.page(target)
    told = browsed.get(target.replace("model", "model.json"), {}).json

    assert "resources/read" in page
    assert told["result"]["contents"][0]["uri"] == "workspace:///README.md"
    assert "resources/read" in browsed.get(target.replace("model", "model.md"), {}).body.decode()
    assert browsed.get("/-/model").status == 400


def test_nothing_that_is_copied_holds_a_token_and_words_are_quoted() -> None:
    made = {one["name"]: one["text"] for one in exact.copies("workspace:///a b$(x)", "http://h/workspace/a%20b")}

    assert made["URI"] == "workspace:///a b$(x)"
    assert made["carrel cat"] == "carrel cat 'workspace:///a b$(x)'"
    assert made["mention for Claude Code, Gemini CLI, Qwen Code"] == "@carrel:workspace:///a b$(x)"
    assert "$CARREL_TOKEN" in made["curl"]
