"""Takes the pictures of `docs/explorer/` again.

    python -m tests.browser.pictures

The project is the sample without what would attack a reader, so that no path of the machine is in a picture.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, StorageState

from examples.sample import lay_out
from tests.browser.chromium import Outside, browsing
from tests.browser.desk import Desk, serving
from tests.browser.pages import log_of
from tests.browser.project import DATA, SAMPLE_LOG
from tests.support.sage_folder import git, put

FOLDER = Path(__file__).resolve().parents[2] / "docs/explorer"
HOURS = "".join(
    f"2026-11-18T{minute // 60:02}:{minute % 60:02}:00Z {'ERROR' if 840 < minute < 900 else 'INFO'} "
    f"{'no answer of' if 840 < minute < 900 else 'asked'} the station in Tromsø\n"
    for minute in range(608, 1_088, 4)
)


@contextmanager
def sample_desk(folder: Path) -> Iterator[Desk]:
    """Serve the sample with some history and a log."""
    project = folder / "weather_desk"
    lay_out(project)
    put(project / "carrel.toml", '[alc]\nhome = ".algocline"\n\n[workspace]\npreset = "all"\n')
    put(project / "data/beds.json", DATA)
    put(project / "server.log.txt", SAMPLE_LOG + HOURS)
    git(project, "init", "-q", "-b", "main")
    git(project, "add", "-A")
    git(project, "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-qm", "The desk")
    put(folder / "home/.claude.json", '{"mcpServers": {"carrel": {"command": "carrel", "args": ["serve"]}}}\n')
    with serving(project, folder / "home") as desk:
        desk.run("run", "--name", "station", "--", "cat", "server.log.txt")
        yield desk


def typing(page: Page) -> None:
    """Type a query, and choose its second hit."""
    page.keyboard.press("/")
    page.keyboard.type("forecast", delay=30)
    page.locator("#found a").nth(3).wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")


def open_model_view(page: Page) -> None:
    """Open what the model sees."""
    page.get_by_role("link", name="As the model sees it").click()
    page.locator(".model pre").wait_for()
    page.evaluate("scrollTo(0, 0)")


def leave(page: Page) -> None:
    """Leave a page as it opens."""


Scheme = Literal["light", "dark"]
Picture = tuple[str, int, int, Scheme, Callable[[Page], None]]


def main() -> None:
    """Take all pictures."""
    with tempfile.TemporaryDirectory() as folder, sample_desk(Path(folder)) as desk, browsing(Outside()) as browser:
        pictures: dict[str, Picture] = {
            "home": ("/", 1_100, 640, "light", leave),
            "home-phone": ("/", 360, 640, "light", leave),
            "typing-dark": ("/workspace/lib/main.dart", 900, 420, "dark", typing),
            "log": (f"/logs/run/{log_of(desk, 'station')}", 900, 480, "light", leave),
            "model": ("/workspace/README.md", 900, 610, "light", open_model_view),
        }
        cookies = let_in(browser, desk)
        for name, picture in pictures.items():
            take(browser, desk, cookies, name, picture)


def let_in(browser: Browser, desk: Desk) -> StorageState:
    """Use the link of a desk up; return the cookie that it set."""
    with browser.new_context() as context:
        context.new_page().goto(desk.link)
        return context.storage_state()


def take(browser: Browser, desk: Desk, cookies: StorageState, name: str, picture: Picture) -> None:
    """Take one picture."""
    path, across, down, scheme, act = picture
    size = {"width": across, "height": down}
    with browser.new_context(viewport=size, color_scheme=scheme, storage_state=cookies) as context:  # type: ignore[arg-type]
        page = context.new_page()
        page.goto(desk.origin + path)
        act(page)
        page.screenshot(path=FOLDER / f"{name}.png")


if __name__ == "__main__":
    main()
