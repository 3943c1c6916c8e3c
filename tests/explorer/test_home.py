"""Home: what is on the desk and why, for each caller only what they may read."""

from carrel.app.app import Choice
from carrel.catalog.access import Access, ActingAs
from carrel.explorer.home import reason
from tests.support.explorer_desk import Browsed


def test_home_says_what_is_served_and_why_and_what_is_not(browsed: Browsed) -> None:
    page = browsed.page("/")

    assert "output of runs and builds" in page
    assert 'href="/workspace/"' in page
    assert "this folder has no .sage" in page
    assert 'action="/-/explain"' in page


def test_home_is_data_too(browsed: Browsed) -> None:
    data = browsed.get("/index.json", {"accept": "*/*"}).json
    text = browsed.get("/index.md", {"accept": "*/*"}).body.decode()

    assert {one["name"] for one in data["served"]} >= {"workspace", "logs"}
    assert "sage" in {one["name"] for one in data["notServed"]}
    assert "output of runs and builds" in text
    [logs] = [line for line in text.splitlines() if line.startswith("- **logs** ")]
    assert "workspace" not in logs


def test_home_is_shown_to_every_caller_with_only_what_they_may_read(guarded: Browsed) -> None:
    all_of_it, logs, nothing = (
        {one["name"] for one in guarded.get("/index.json", {"accept": "*/*"}, caller=caller).json["served"]}
        for caller in ("all", "logs", "none")
    )

    assert "workspace" in all_of_it
    assert "logs" in logs
    assert "workspace" not in logs
    assert nothing & {"workspace", "logs", "guide"} == set()


def test_the_models_view_is_offered_only_of_what_the_caller_may_read(guarded: Browsed) -> None:
    for page, uri in (("/", "carrel://guide"), ("/-/health", "carrel://health"), ("/-/providers", "carrel://catalog")):
        assert f"<code>{uri}</code>" in guarded.page(page, caller="all")
        assert "As the model sees it" not in guarded.page(page, caller="logs")


def test_home_answers_in_the_form_that_a_client_prefers(browsed: Browsed) -> None:
    assert browsed.get("/", {"accept": "application/json"}).headers["content-type"] == "application/json"
    assert browsed.get("/", {"accept": "*/*"}).headers["content-type"].startswith("text/html")
    assert browsed.get("/", {}).headers["content-type"].startswith("text/html")


def test_only_a_person_who_may_do_everything_sees_where_the_settings_stand(browsed: Browsed) -> None:
    choice = Choice("friend", "served", "mount carrel, from /home/ada/.config/carrel/config.toml")

    assert reason(browsed.desk, "friend", choice) == choice.why
    with ActingAs(Access("token friend", frozenset({"friend:read"}))):
        assert reason(browsed.desk, "friend", choice) == "mount carrel, from …/config.toml"
