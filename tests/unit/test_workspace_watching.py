"""Watching files: who is told what, as it was spelled; and what must cause nothing."""

import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from carrel.errors import Denied, RequestError
from carrel.providers.workspace import watching
from carrel.watch import LIST, Subscription
from tests.waiting import PATIENCE_S
from tests.workspaces import NOON_NS, SECRET, Served, fill

BELL = "workspace:///zz-bell.yaml"
"""Changed last: what was not told before it is not told."""

FILES = {
    "pubspec.yaml": "name: x",
    "lib/main.dart": "one",
    "lib/src/a.dart": "a",
    "notes.txt": "refused",
    ".dot/x.yaml": "unlisted",
    ".gitignore": "gen/\n",
    "gen/g.dart": "unlisted",
    "lib/.env": SECRET,
    "zz-bell.yaml": "0",
}


class Ear:
    """Hears what one subscription is told."""

    def __init__(self, served: Served, root: Path) -> None:
        self._served = served
        self._root = root
        self._heard: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._subscription: Subscription | None = None

    def listen(self, *uris: str, list_changes: bool = False) -> list[str]:
        """Begin to listen, and wait until events come; give what is honoured."""
        honoured = self.begin(*uris, list_changes=list_changes)
        self.heard()
        return honoured

    def begin(self, *uris: str, list_changes: bool = False) -> list[str]:
        """Begin to listen; give what is honoured."""
        watcher = self._served.server.watcher
        self._subscription = watcher.subscribe(self._heard.put, [*uris, BELL], list_changes=list_changes)
        self._subscription.start()
        return sorted(self._subscription.uris - {BELL})

    def heard(self) -> list[str]:
        """Ring the bell, and give what was told until it is heard; each once."""
        told: list[str] = []
        with (self._root / "zz-bell.yaml").open("ab", buffering=0) as bell:
            bell.write(b"x")  # one event: to empty it and write it anew would be two
        while True:
            what = self._heard.get(timeout=PATIENCE_S)
            if what == BELL:
                return sorted(set(told))
            told.append(what)

    def next(self) -> str:
        """Give what is told next."""
        return self._heard.get(timeout=PATIENCE_S)

    def close(self) -> None:
        if self._subscription is not None:
            self._subscription.close()


@pytest.fixture(autouse=True)
def _events_come_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, ms in {"WAKE_MS": 10, "DEBOUNCE_MS": 10, "STEP_MS": 5}.items():
        monkeypatch.setattr(watching, name, ms)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = fill(tmp_path / "app", FILES)
    for folder in (root, *root.rglob("*/")):
        os.utime(folder, ns=(NOON_NS, NOON_NS))
    return root


@pytest.fixture
def served(root: Path) -> Iterator[Served]:
    with Served(root, preset="flutter") as served:
        yield served


@pytest.fixture
def ear(served: Served, root: Path) -> Iterator[Ear]:
    ear = Ear(served, root)
    yield ear
    ear.close()
    served.server.watcher.close()


MAIN = "workspace:///lib/main.dart"


@pytest.mark.parametrize(
    "spelling",
    [
        MAIN,
        "workspace://lib/main.dart",
        "workspace:lib/./main.dart",
        "WORKSPACE:///lib//main.dart",
        "workspace:///%6Cib/main.dart?lines=1-2",
        "workspace:///link/main.dart",
        "workspace:///file-link.dart",
    ],
)
def test_a_change_is_told_as_it_was_spelled(root: Path, ear: Ear, spelling: str) -> None:
    (root / "link").symlink_to("lib")
    (root / "file-link.dart").symlink_to("lib/main.dart")
    ear.listen(spelling)

    fill(root, {"lib/main.dart": "changed"})

    assert ear.heard() == [spelling]


def test_a_change_is_told_to_who_asked_by_an_absolute_path(root: Path, ear: Ear) -> None:
    spelling = f"workspace://{root}/lib/main.dart"
    ear.listen(spelling)

    fill(root, {"lib/main.dart": "changed"})

    assert ear.heard() == [spelling]


def test_a_file_that_comes_is_told_to_its_folder_and_to_the_list(root: Path, ear: Ear) -> None:
    ear.listen("workspace:///lib", "workspace:///lib/", "workspace:///", "workspace:///lib/new.dart", list_changes=True)

    fill(root, {"lib/new.dart": "new"})

    assert ear.heard() == [LIST, "workspace:///lib", "workspace:///lib/", "workspace:///lib/new.dart"]


@pytest.mark.parametrize("away", [False, True])
def test_a_file_or_folder_that_goes_is_told_to_its_folder_and_to_the_list(root: Path, ear: Ear, away: bool) -> None:
    ear.listen("workspace:///lib", "workspace:///lib/src", "workspace:///lib/src/a.dart", list_changes=True)

    if away:
        (root / "lib/src").rename(root.parent / "away")
    else:
        (root / "lib/src/a.dart").unlink()

    told = ear.heard()
    assert LIST in told
    assert "workspace:///lib/src" in told
    assert ("workspace:///lib" in told) == away


def test_a_change_of_content_is_told_neither_to_the_folder_nor_to_the_list(root: Path, ear: Ear) -> None:
    ear.listen("workspace:///lib", "workspace:///", list_changes=True)

    fill(root, {"lib/main.dart": "changed"})

    assert ear.heard() == []


@pytest.mark.parametrize(
    "path",
    [
        "lib/.env",
        "lib/new.pem",
        ".git/index",
        "notes.txt",
        "lib/readme.md",
        "lib/.hidden.dart",
        ".dot/new.yaml",
        "gen/new.dart",
        "a\\b.dart",
    ],
)
def test_what_is_refused_or_unlisted_causes_nothing(root: Path, ear: Ear, path: str) -> None:
    ear.listen("workspace:///lib", "workspace:///", list_changes=True)

    fill(root, {path: SECRET})
    after_coming = ear.heard()
    (root / path).unlink()

    assert (after_coming, ear.heard()) == ([], [])


def test_binary_files_cause_nothing_where_only_text_is_served(root: Path) -> None:
    with Served(root, preset="code") as served:
        ear = Ear(served, root)
        ear.listen("workspace:///lib", list_changes=True)
        fill(root, {"lib/image.png": b"\0", "lib/raw": b"\0"})
        after_coming = ear.heard()
        (root / "lib/image.png").unlink()

        assert (after_coming, ear.heard()) == ([], [])
        ear.close()
        served.server.watcher.close()


def test_an_unlisted_file_is_told_to_who_asked_for_it_by_name(root: Path, ear: Ear) -> None:
    ear.listen("workspace:///.dot/x.yaml", list_changes=True)

    fill(root, {".dot/x.yaml": "changed"})

    assert ear.heard() == ["workspace:///.dot/x.yaml"]


def test_an_empty_folder_is_told_to_its_folder_but_not_to_the_list(root: Path, ear: Ear) -> None:
    ear.listen("workspace:///lib", list_changes=True)

    (root / "lib/empty").mkdir()
    came = ear.heard()
    (root / "lib/empty").rename(root / "lib/other")

    assert came == ["workspace:///lib"]
    assert "workspace:///lib" in ear.heard()


def test_a_folder_moved_in_with_files_is_told_to_the_list(root: Path, ear: Ear) -> None:
    fill(root.parent / "elsewhere", {"deep/x.dart": "x"})
    ear.listen(list_changes=True)

    (root.parent / "elsewhere").rename(root / "moved")

    assert ear.heard() == [LIST]


def test_subscribing_needs_the_permission_of_a_read(ear: Ear) -> None:
    refused = ["workspace:///.env", "workspace:///notes.txt", "workspace:///../x", "workspace:///lib/main.dart?foo=1"]

    assert ear.listen(MAIN, "workspace:///later.dart", "workspace:///lib", *refused) == sorted(
        [MAIN, "workspace:///later.dart", "workspace:///lib"]
    )


@pytest.mark.parametrize("uri", ["workspace:///.env", "workspace:///notes.txt", "workspace:///lib/../x"])
def test_a_refused_subscription_has_the_error_of_a_read(served: Served, uri: str) -> None:
    def fails(ask: Callable[[str], object]) -> tuple[type[RequestError], str, object]:
        try:
            ask(uri)
        except RequestError as error:
            return type(error), error.message, error.data
        raise AssertionError(uri)

    subscription = served.server.watcher.subscribe(lambda _: None)
    try:
        assert fails(subscription.add) == fails(served.catalog.read)
        assert fails(subscription.add)[0] is Denied
    finally:
        subscription.close()
        served.server.watcher.close()


def test_where_events_fail_files_are_looked_at(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    really = watching._follow
    ways: list[bool] = []

    def failing(
        reports: Sequence[watching.Report], stop: threading.Event, ready: threading.Event, *, is_polling: bool
    ) -> None:
        ways.append(is_polling)
        if not is_polling:
            raise OSError(28, "no more watches")
        really(reports, stop, ready, is_polling=True)

    monkeypatch.setattr(watching, "_follow", failing)
    with Served(root, preset="flutter") as served:
        ear = Ear(served, root)
        ear.listen(MAIN)
        (root / "lib/main.dart").write_text("changed")

        assert (ear.next(), ways) == (MAIN, [False, True])
        ear.close()
        served.server.watcher.close()


@pytest.mark.parametrize("is_changed", [True, False])
def test_a_list_change_before_the_events_begin_is_told(
    root: Path, monkeypatch: pytest.MonkeyPatch, is_changed: bool
) -> None:
    go = threading.Event()
    really: Callable[..., None] = watching._follow

    def late(*given: object, **more: object) -> None:
        go.wait(PATIENCE_S)
        really(*given, **more)

    monkeypatch.setattr(watching, "_follow", late)
    with Served(root, preset="flutter") as served:
        ear = Ear(served, root)
        ear.begin(list_changes=True)
        if is_changed:
            (root / "lib/new.dart").write_text("new")
        go.set()

        assert ear.heard() == [LIST] * is_changed
        ear.close()
        served.server.watcher.close()


def test_nothing_is_watched_before_somebody_listens(root: Path) -> None:
    before = set(threading.enumerate())
    with Served(root, preset="flutter") as served:
        served.uris()

        assert set(threading.enumerate()) <= before
