"""Pages that follow what happens: logs as they grow, files as they change, connections that go and come back."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import Visiting
from tests.browser.desk import Desk, running, serving
from tests.browser.pages import log_of
from tests.browser.person import Person, visiting
from tests.support.sage_folder import put
from tests.support.waiting import until

ECHO = 'while read -r line; do echo "$line"; done'


class Growing:
    """A log that is being written."""

    def __init__(self, process: "subprocess.Popen[str]", path: str) -> None:
        self._process = process
        self.path = path

    def write(self, *lines: str) -> None:
        """Have the program write lines."""
        assert self._process.stdin is not None
        self._process.stdin.write("".join(f"{line}\n" for line in lines))
        self._process.stdin.flush()

    def end(self) -> None:
        """Have the program end."""
        assert self._process.stdin is not None
        self._process.stdin.close()


@pytest.fixture(name="log")
def growing_log(desk: Desk, request: pytest.FixtureRequest) -> Iterator[Growing]:
    """Start a program that writes what it is told."""
    name = f"live-{abs(hash(request.node.name)) % 10_000}"
    with running(desk, name, ECHO) as process:
        growing = Growing(process, "")
        growing.write("INFO begun")
        growing.path = f"/logs/run/{until(lambda: _found(desk, name))}"
        yield growing


def _found(desk: Desk, name: str) -> str:
    try:
        return log_of(desk, name)
    except ValueError:
        return ""


def test_a_log_is_followed_as_it_grows(person: Person, log: Growing) -> None:
    person.go(log.path)
    page = person.page
    expect(page.locator("main")).to_contain_text("begun")
    page.evaluate("window.same = true")
    log.write("WARNING the cache is cold", "ERROR the lamp is out")
    expect(page.locator("[data-level=error]", has_text="the lamp is out")).to_be_visible()
    expect(page.locator("[data-level=warning]")).to_have_count(1)
    log.write(*(f"INFO line {number}" for number in range(50)))
    expect(page.locator("main")).to_contain_text("line 49")
    assert page.evaluate("window.same") is True, "the page was loaded again"


def test_the_end_of_a_log_that_is_followed_stays_in_view(person: Person, log: Growing) -> None:
    person.go(log.path)
    page = person.page
    log.write(*(f"INFO line {number}" for number in range(200)))
    expect(page.locator("main")).to_contain_text("line 199")
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    log.write("INFO the newest of all")
    expect(page.get_by_text("the newest of all").first).to_be_in_viewport()
    page.evaluate("scrollTo(0, 0)")
    log.write("INFO not followed any more")
    expect(page.locator("main .log")).to_contain_text("not followed any more")
    assert page.evaluate("scrollY") == 0


def test_a_log_says_that_its_program_runs_and_that_it_ended(person: Person, log: Growing) -> None:
    person.go(log.path)
    facts = person.page.locator("main .facts-line")
    expect(facts).to_contain_text("running")
    log.end()
    expect(facts).to_contain_text("succeeded (exit code 0)")


def test_a_log_without_scripts_is_read_again_by_hand(visit: Visiting, log: Growing) -> None:
    with visit(scripts=False) as person:
        person.go(log.path)
        log.write("INFO later")
        until(lambda: (person.page.reload(), "later" in person.text("main"))[1])


def test_a_file_that_changes_says_so_and_shows_itself_anew(person: Person, desk: Desk) -> None:
    put(desk.project / "changing.txt", "before\n")
    person.go("/workspace/changing.txt")
    page = person.page
    expect(page.locator("main")).to_contain_text("before")
    listening(person)
    put(desk.project / "changing.txt", "after <b>all</b>\n")
    expect(page.locator("main")).to_contain_text("after <b>all</b>")
    expect(page.get_by_role("status").first).to_contain_text("changed")


def listening(person: Person) -> None:
    """Wait until the page hears of changes."""
    until(lambda: any("/-/events" in response.url and response.ok for response in person.responses) or _breathe(person))


def _breathe(person: Person) -> bool:
    person.page.evaluate("1")
    return False


def test_a_folder_shows_files_that_come_and_go(person: Person, desk: Desk) -> None:
    put(desk.project / "coming/first.txt", "1\n")
    person.go("/workspace/coming")
    expect(person.row("first.txt")).to_be_visible()
    listening(person)
    put(desk.project / "coming/second.txt", "2\n")
    expect(person.row("second.txt")).to_be_visible()
    (desk.project / "coming/first.txt").unlink()
    expect(person.row("first.txt")).to_have_count(0)


def test_a_folder_that_changes_keeps_its_subfolders_open(person: Person, desk: Desk) -> None:
    put(desk.project / "opened/outer/inner/leaf.txt", "1\n")
    put(desk.project / "opened/shut/leaf.txt", "1\n")
    person.go("/workspace/opened")
    page = person.page
    page.get_by_role("button", name="Children of outer").click()
    page.get_by_role("button", name="Children of inner").click()
    expect(person.row("leaf.txt")).to_have_count(1)
    page.get_by_role("button", name="Children of inner").focus()
    listening(person)
    put(desk.project / "opened/outer/later.txt", "2\n")
    put(desk.project / "opened/second.txt", "2\n")
    expect(person.row("second.txt")).to_be_visible()
    expect(person.row("later.txt")).to_be_visible()
    expect(person.row("leaf.txt")).to_have_count(1)
    expect(page.get_by_role("button", name="Children of inner")).to_be_focused()
    expect(page.get_by_role("button", name="Children of shut")).to_have_attribute("aria-expanded", "false")
    page.get_by_role("button", name="Children of outer").click()
    expect(person.row("leaf.txt")).to_have_count(0)


def test_a_folder_that_changes_while_a_subfolder_opens_shows_both(person: Person, desk: Desk) -> None:
    put(desk.project / "opening/sub/leaf.txt", "1\n")
    person.go("/workspace/opening")
    page = person.page
    listening(person)
    held = person.hold("**/workspace/opening/sub")
    page.get_by_role("button", name="Children of sub").click()
    until(lambda: len(held) == 1 or _breathe(person))
    put(desk.project / "opening/second.txt", "2\n")
    until(lambda: len(held) == 2 or _breathe(person))  # the new list is about to be shown
    held[1].continue_()
    expect(person.row("second.txt")).to_be_visible()
    expect(person.row("leaf.txt")).to_have_count(1)
    held[0].continue_()
    page.wait_for_load_state("networkidle")
    expect(person.row("leaf.txt")).to_have_count(1)
    expect(page.locator("#status")).not_to_contain_text("does not answer")


def test_a_folder_that_is_closed_while_its_parent_changes_stays_closed(person: Person, desk: Desk) -> None:
    put(desk.project / "closing/sub/leaf.txt", "1\n")
    person.go("/workspace/closing")
    page = person.page
    listening(person)
    page.get_by_role("button", name="Children of sub").click()
    expect(person.row("leaf.txt")).to_be_visible()
    held = person.hold("**/workspace/closing/sub")
    put(desk.project / "closing/second.txt", "2\n")
    until(lambda: len(held) == 1 or _breathe(person))
    page.get_by_role("button", name="Children of sub").click()
    held[0].continue_()
    expect(person.row("second.txt")).to_be_visible()
    expect(person.row("leaf.txt")).to_have_count(0)


def test_a_file_that_goes_away_says_so(person: Person, desk: Desk) -> None:
    person.forgive("status of 404")
    put(desk.project / "leaving.txt", "still here\n")
    person.go("/workspace/leaving.txt")
    listening(person)
    (desk.project / "leaving.txt").unlink()
    expect(person.page.get_by_role("status").first).to_contain_text(re.compile("not served|gone"))


def test_a_page_has_one_stream_and_closes_it(person: Person) -> None:
    person.go("/workspace/lib/main.dart")
    listening(person)
    streams = [request for request in person.requests if "/-/events" in request.url]
    assert len(streams) == 1
    person.go("/workspace/lib/forecast.dart")
    listening(person)
    until(lambda: streams[0].failure is not None or _breathe(person))


def test_a_lost_connection_is_reported_and_what_happened_meanwhile_is_shown(person: Person, log: Growing) -> None:
    person.forgive("ERR_INTERNET_DISCONNECTED", "ERR_NETWORK_CHANGED", "ERR_FAILED")
    person.go(log.path)
    page = person.page
    expect(page.locator("main")).to_contain_text("begun")
    listening(person)
    person.context.set_offline(True)
    page.evaluate("dispatchEvent(new Event('offline'))")
    log.write("ERROR while nobody listened")
    expect(page.get_by_role("status").first).to_contain_text(re.compile("lost|does not answer|offline"))
    assert "begun" in person.text("main")
    person.context.set_offline(False)
    expect(page.locator("main")).to_contain_text("while nobody listened", timeout=15_000)


def test_a_server_that_ends_is_reported_and_the_page_stays_readable(browser: Browser, tmp_path: Path) -> None:
    put(tmp_path / "small/README.md", "# Small\n\nStill to be read.\n")
    with serving(tmp_path / "small", tmp_path / "home") as desk, visiting(browser, desk.origin) as person:
        person.forgive("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET", "ERR_EMPTY")
        person.go(desk.link)
        person.go("/workspace/README.md")
        listening(person)
        desk.stop()  # and wait: a second signal may end a process that is about to end with another code
        expect(person.page.get_by_role("status").first).to_contain_text(re.compile("lost|does not answer"))
        assert "Still to be read." in person.text("main")


def test_a_server_that_came_back_asks_for_a_new_link(browser: Browser, tmp_path: Path) -> None:
    """The cookie is that of one server: another at the same address does not know it, and the page says what to do."""
    put(tmp_path / "small/README.md", "# Small\n")
    with visiting(browser, "") as person:
        person.forgive("ERR_", "401 (Unauthorized)")
        with serving(tmp_path / "small", tmp_path / "home") as desk:
            person.origin = desk.origin
            person.go(desk.link)
            person.go("/workspace/README.md")
            listening(person)
        port = int(desk.origin.rpartition(":")[2])
        with serving(tmp_path / "small", tmp_path / "home", port=port) as again:
            expect(person.page.get_by_role("status").first).to_contain_text("carrel open", timeout=20_000)
            person.go(again.link)
            assert person.go("/workspace/README.md").status == 200


def test_a_slow_network_shows_the_page_and_answers_searches(person: Person) -> None:
    tools = person.context.new_cdp_session(person.page)
    slow = {"offline": False, "latency": 400, "downloadThroughput": 50_000, "uploadThroughput": 20_000}
    tools.send("Network.emulateNetworkConditions", slow)
    person.go("/workspace/lib")
    expect(person.row("main.dart")).to_be_visible()
    person.go("/-/search")
    person.page.get_by_role("searchbox").first.press_sequentially("ForecastView", delay=30)
    expect(person.page.locator("main [data-uri*='forecast.dart']").first).to_be_visible()
    person.go("/workspace/lib/main.dart")
    expect(person.page.locator("#L1")).to_be_visible()


def test_a_page_in_the_background_does_not_listen(person: Person) -> None:
    person.go("/workspace/lib/main.dart")
    listening(person)
    page = person.page
    page.evaluate(
        "() => { Object.defineProperty(document, 'hidden', {value: true, configurable: true});"
        " document.dispatchEvent(new Event('visibilitychange')) }"
    )
    stream = next(request for request in person.requests if "/-/events" in request.url)
    until(lambda: stream.failure is not None or _breathe(person))


def test_a_browser_that_is_not_let_in_any_more_says_what_to_do_and_stops_asking(visit: Visiting, desk: Desk) -> None:
    put(desk.project / "shut-out.txt", "before\n")
    with visit() as person:
        person.go("/workspace/shut-out.txt")
        listening(person)
        person.forgive("status of 401")
        person.context.clear_cookies()
        put(desk.project / "shut-out.txt", "after\n")
        expect(person.page.get_by_role("status").first).to_have_text(
            "This browser has no access any more: run `carrel open` for a new link"
        )
        asked = len(person.requests)
        person.page.evaluate("dispatchEvent(new Event('pageshow'))")
        person.page.evaluate("1")
        assert len(person.requests) == asked
        expect(person.page.locator("main")).to_contain_text("before")
