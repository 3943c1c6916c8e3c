"""One browser for all tests of a process, and one window for each test."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

import pytest
from playwright.sync_api import Browser, StorageState

from tests.browser.chromium import Outside, browsing
from tests.browser.desk import Desk, lay_out_desk, running, serving
from tests.browser.person import Person, visiting


@pytest.fixture(scope="session", name="outside")
def rest_of_the_world() -> Iterator[Outside]:
    """Stand in for every other machine."""
    outside = Outside()
    try:
        yield outside
    finally:
        outside.close()


@pytest.fixture(scope="session", name="browser")
def one_browser(outside: Outside) -> Iterator[Browser]:
    """Start the browser once."""
    with browsing(outside) as browser:
        yield browser


@pytest.fixture(autouse=True)
def _nothing_leaves_the_machine(outside: Outside) -> Iterator[None]:
    """Fail a test during which the browser asked anything of another machine, for a page or for itself."""
    already = len(outside.asked)
    yield
    assert outside.asked[already:] == []


class Visiting(Protocol):
    """Opens a window of some kind on the desk."""

    def __call__(self, **options: Any) -> AbstractContextManager[Person]:
        """Return a person, who is let in unless `is_stranger`."""


@pytest.fixture(scope="session", name="desk")
def served_desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Serve a project with something of everything, with a log that has ended."""
    folder = tmp_path_factory.mktemp("desk")
    project = lay_out_desk(folder)
    with serving(project, folder / "home", [str(folder / "garden.py")]) as desk:
        desk.run("run", "--name", "lamps", "--", "cat", "server.log.txt")
        with running(desk, "broken", "echo no power; exit 3"):
            pass
        desk.run("run", "--name", "evil", "--kind", "build", "--", "cat", "evil/run-log.txt")
        yield desk


@pytest.fixture(scope="session", name="cookies")
def let_in(desk: Desk, browser: Browser) -> StorageState:
    """Use the link of the desk up; return the cookie that it set."""
    with visiting(browser, desk.origin) as person:
        person.go(desk.link)
        return person.context.storage_state()


@pytest.fixture(name="visit")
def windows(desk: Desk, browser: Browser, cookies: StorageState) -> Visiting:
    """Return windows on the desk."""

    def visit(*, is_stranger: bool = False, **options: Any) -> AbstractContextManager[Person]:
        if not is_stranger and "headers" not in options:
            options["storage_state"] = cookies
        return visiting(browser, desk.origin, **options)

    return visit


@pytest.fixture(name="person")
def one_person(visit: Visiting) -> Iterator[Person]:
    """Yield a person in a wide, light window, who may read everything."""
    with visit() as person:
        yield person
