"""What is refused: by which rule, where that rule stands, and what to do next."""

import re

from tests.browser.conftest import Visiting
from tests.browser.desk import Desk
from tests.browser.person import Person


def test_a_secret_is_refused_with_its_rule_and_a_link_that_explains_it(person: Person) -> None:
    person.forgive("status of 403")
    assert person.go("/workspace/.env").status == 403
    assert "Access denied: workspace:///.env" in person.text("main")
    assert "WEATHER_API_KEY" not in person.page.content()
    person.page.get_by_role("main").get_by_role("link", name=re.compile("xplain")).first.click()
    assert person.page.url == f"{person.origin}/-/explain?uri=workspace%3A%2F%2F%2F.env"
    assert "secret" in person.text("main").lower()


def test_a_refusal_is_the_same_whether_or_not_the_file_exists(person: Person) -> None:
    person.forgive("status of 403")
    said = []
    for name in (".env", ".env.production"):
        assert person.go(f"/workspace/{name}").status == 403
        said.append(person.text("main").replace(name, "NAME"))
    assert said[0] == said[1]


def test_a_refusal_has_a_form_to_ask_about_another_uri(person: Person) -> None:
    person.forgive("status of 403")
    person.go("/workspace/.env")
    field = person.page.get_by_label("Why is a URI served")
    field.fill("workspace:///README.md")
    field.press("Enter")
    assert person.page.url.startswith(f"{person.origin}/-/explain?uri=workspace")
    assert "served" in person.text("main").lower()


def test_what_git_ignores_is_said_to_be_ignored_and_how_to_show_it(person: Person) -> None:
    person.go("/-/explain?uri=workspace:///build/app.log")
    assert "ignored by git" in person.text("main")
    assert ".gitignore, line 1" in person.text("main")
    assert "[workspace] ignored" in person.text("main")


def test_the_explanation_is_that_of_the_command(person: Person, desk: Desk) -> None:
    for uri in ("workspace:///.env", "workspace:///lib/main.dart", "workspace:///build/app.log"):
        said = desk.run("explain", uri)
        person.go(f"/-/explain?uri={uri}")
        shown = "".join(person.text("main").split())
        for line in said.splitlines()[1:]:
            assert "".join(line.split()) in shown, line


def test_what_is_missing_offers_what_may_have_been_meant(person: Person) -> None:
    person.forgive("status of 404")
    assert person.go("/workspace/lib/main.drat").status == 404
    main = person.page.get_by_role("main")
    main.get_by_role("link", name=re.compile(r"main\.dart")).click()
    assert person.page.url == f"{person.origin}/workspace/lib/main.dart"


def test_a_caller_without_the_scope_learns_which_one_is_needed(visit: Visiting, desk: Desk) -> None:
    token = desk.add_token("memory", "sage:read")
    with visit(headers={"Authorization": f"Bearer {token}"}) as person:
        person.forgive("status of 403")
        for path in ("/workspace/README.md", "/workspace/nothing.txt", "/workspace/"):
            assert person.go(path).status == 403
            assert "workspace:read" in person.text("main")
        person.go("/-/search?q=forecast")
        assert "workspace:///" not in person.text("main").replace("workspace:///path/to/file", "")
        person.go("/-/explain?uri=workspace:///README.md")
        assert "workspace:read" in person.text("main")


def test_no_page_shows_a_path_of_the_server_in_an_error(person: Person, desk: Desk) -> None:
    person.forgive("status of 4")
    for path in (
        "/workspace/nothing.txt",
        "/workspace/README.md?lines=x",
        "/workspace/%00",
        "/logs/run/nothing",
        "/-/read",
    ):
        person.go(path)
        assert str(desk.project) not in person.page.content(), path
        assert "Traceback" not in person.page.content()
