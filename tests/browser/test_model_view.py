"""As the model sees it: the exact answer of the protocol on every page, and what to copy of it."""

import json
import re
from urllib.parse import quote

import pytest

from tests.browser.desk import Desk
from tests.browser.pages import log_of
from tests.browser.person import Person

URIS = (
    "workspace:///lib/main.dart",
    "workspace:///docs/guide.md",
    "workspace:///data/beds.json",
    "workspace:///evil/text.txt",
    "workspace:///lib/long.py?lines=100-140",
    "workspace:///assets/logo.png",
    "scopes://scope/project-alpha",
    "sage://failure/jwt-localstorage",
    "alc://packages/sketch/meta",
    "garden://beds/north",
    "friend+friend://letters/first",
    "git://log",
)


def address_of(uri: str) -> str:
    scheme, _, rest = uri.partition("://")
    return f"/{scheme}/{rest.removeprefix('/')}"


def exact(person: Person) -> str:
    """Open what the model sees, as a person does; return it."""
    page = person.page
    switch = page.locator("summary", has_text="As the model sees it").or_(
        page.get_by_role("link", name=re.compile("As the model sees it"))
    )
    switch.first.click()
    shown = page.locator("[data-exact], .model pre").first
    shown.wait_for()
    text: str = shown.evaluate("one => one.textContent")
    return text


@pytest.mark.parametrize("uri", URIS)
def test_the_page_shows_the_answer_of_the_protocol_byte_for_byte(uri: str, person: Person, desk: Desk) -> None:
    person.go(address_of(uri))
    shown = exact(person)
    answer = desk.read(uri)["result"]
    told = json.loads(shown)
    told = told.get("result", told)
    assert told["contents"] == answer["contents"]
    [item] = answer["contents"]
    spelled = json.dumps(item.get("text", item.get("blob")), ensure_ascii=False)
    assert spelled in shown or json.dumps(item.get("text", item.get("blob"))) in shown


def test_of_a_long_file_the_answer_is_that_of_its_part(person: Person, desk: Desk) -> None:
    person.go("/workspace/lib/long.py")
    told = json.loads(exact(person))
    told = told.get("result", told)
    [item] = told["contents"]
    lines = person.page.locator(".l[id^=L]").count()
    assert item["text"].count("\n") == lines
    assert len(item["text"]) <= 100_000


def test_a_folder_shows_what_the_model_gets_too(person: Person, desk: Desk) -> None:
    person.go("/workspace/lib")
    shown = exact(person)
    assert all(f"workspace:///lib/{name}" in shown for name in ("main.dart", "forecast.dart", "long.py"))


def test_the_page_names_the_etag_that_a_read_has(person: Person, desk: Desk) -> None:
    person.go("/workspace/lib/main.dart")
    etag = desk.get("/workspace/lib/main.dart").headers["etag"].strip('"')
    exact(person)
    assert etag in person.text("main")


def copied(person: Person, name: str) -> str:
    """Press a button that copies, and return what is on the clipboard."""
    page = person.page
    page.evaluate("navigator.clipboard.writeText('nothing yet')")
    button = page.get_by_role("button", name=re.compile(name, re.IGNORECASE)).first
    if not button.is_visible():
        page.get_by_text(re.compile("^copy", re.IGNORECASE)).first.click()
    button.click()
    page.wait_for_function("navigator.clipboard.readText().then(text => text !== 'nothing yet')")
    text: str = page.evaluate("navigator.clipboard.readText()")
    return text


@pytest.fixture(name="copier")
def person_who_copies(person: Person) -> Person:
    """Return a person whose clipboard may be read."""
    person.context.grant_permissions(["clipboard-read", "clipboard-write"])
    person.go("/workspace/lib/main.dart")
    return person


def test_the_uri_is_copied(copier: Person) -> None:
    assert copied(copier, "URI") == "workspace:///lib/main.dart"


def test_the_mention_for_a_host_is_copied(copier: Person) -> None:
    text = copied(copier, "Claude Code")
    assert text.startswith("@")
    assert "workspace:///lib/main.dart" in text


def test_the_command_is_copied_and_prints_the_file(copier: Person, desk: Desk) -> None:
    line = copied(copier, "carrel cat")
    assert line.startswith("carrel cat ")
    words = line.split()[1:]
    assert desk.run(*(word.strip("'\"") for word in words)) == (desk.project / "lib/main.dart").read_text("utf-8")


def test_the_curl_line_is_copied_and_keeps_the_token_out(copier: Person, desk: Desk) -> None:
    line = copied(copier, "curl")
    assert line.startswith("curl ")
    assert f"{desk.origin}/workspace/lib/main.dart" in line
    assert desk.token not in line


def test_lines_that_are_marked_are_what_is_copied(copier: Person) -> None:
    copier.page.evaluate("location.hash = '#L5-L9'")
    assert copied(copier, "URI") == "workspace:///lib/main.dart?lines=5-9"


def test_a_log_and_a_task_are_shown_as_the_model_gets_them(person: Person, desk: Desk) -> None:
    log = log_of(desk, "lamps")
    for uri in (f"logs://run/{log}", "scopes://tree/project-alpha", "carrel://guide"):
        person.go(f"/-/read?uri={quote(uri, safe='')}")
        told = json.loads(exact(person))
        texts = [item["text"] for item in told.get("result", told)["contents"]]
        assert texts == [item["text"] for item in desk.read(uri)["result"]["contents"]]
