"""Watching files: who is told what, as it was spelled; and what must cause nothing."""

import contextlib
import os
import queue
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from carrel.catalog.watcher import LIST, Subscription
from carrel.core.errors import Denied, RequestError
from carrel.files.sandbox import Opened, Unreadable
from carrel.providers.workspace import file_events
from carrel.providers.workspace.ignore_rules import Segments
from carrel.providers.workspace.inotify import Event, Inotify, Lost
from carrel.providers.workspace.listing import Listing, Looked
from tests.support.waiting import PATIENCE_S
from tests.support.workspaces import NOON_NS, SECRET, Served, fill

pytestmark = pytest.mark.slow

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
        """Begin to listen, and wait until events come; return what is honoured."""
        honoured = self.begin(*uris, list_changes=list_changes)
        self.heard()
        return honoured

    def begin(self, *uris: str, list_changes: bool = False) -> list[str]:
        """Begin to listen; return what is honoured."""
        watcher = self._served.server.watcher
        self._subscription = watcher.subscribe(self._heard.put, [*uris, BELL], list_changes=list_changes)
        self._subscription.start()
        return sorted(self._subscription.uris - {BELL})

    def heard(self) -> list[str]:
        """Ring the bell, and return what was told until it is heard; each once."""
        # Twice: what came in one batch with the first ring may be told after it.
        return sorted({*self._until_the_bell(), *self._until_the_bell()})

    def _until_the_bell(self) -> Iterator[str]:
        with (self._root / "zz-bell.yaml").open("ab", buffering=0) as bell:
            bell.write(b"x")  # one event: to empty it and write it anew would be two
        while (what := self._heard.get(timeout=PATIENCE_S)) != BELL:
            yield what

    def next(self) -> str:
        """Return what is told next."""
        return self._heard.get(timeout=PATIENCE_S)

    def close(self) -> None:
        if self._subscription is not None:
            self._subscription.close()


@pytest.fixture(autouse=True)
def _events_come_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, ms in {"WAKE_MS": 10, "DEBOUNCE_MS": 10, "STEP_MS": 5}.items():
        monkeypatch.setattr(file_events, name, ms)


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
def test_a_change_is_reported_as_it_was_spelled(root: Path, ear: Ear, spelling: str) -> None:
    (root / "link").symlink_to("lib")
    (root / "file-link.dart").symlink_to("lib/main.dart")
    ear.listen(spelling)

    fill(root, {"lib/main.dart": "changed"})

    assert ear.heard() == [spelling]


def test_a_change_is_reported_to_who_asked_by_an_absolute_path(root: Path, ear: Ear) -> None:
    spelling = f"workspace://{root}/lib/main.dart"
    ear.listen(spelling)

    fill(root, {"lib/main.dart": "changed"})

    assert ear.heard() == [spelling]


def test_a_file_that_comes_is_reported_to_its_folder_and_to_the_list(root: Path, ear: Ear) -> None:
    ear.listen("workspace:///lib", "workspace:///lib/", "workspace:///", "workspace:///lib/new.dart", list_changes=True)

    fill(root, {"lib/new.dart": "new"})

    assert ear.heard() == [LIST, "workspace:///lib", "workspace:///lib/", "workspace:///lib/new.dart"]


@pytest.mark.parametrize("away", [False, True])
def test_a_file_or_folder_that_goes_is_reported_to_its_folder_and_to_the_list(root: Path, ear: Ear, away: bool) -> None:
    ear.listen("workspace:///lib", "workspace:///lib/src", "workspace:///lib/src/a.dart", list_changes=True)

    if away:
        (root / "lib/src").rename(root.parent / "away")
    else:
        (root / "lib/src/a.dart").unlink()

    told = ear.heard()
    assert LIST in told
    assert "workspace:///lib/src" in told
    assert "workspace:///lib/src/a.dart" in told
    assert ("workspace:///lib" in told) == away


def test_a_change_of_content_is_reported_neither_to_the_folder_nor_to_the_list(root: Path, ear: Ear) -> None:
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


def test_an_unlisted_file_is_reported_to_who_asked_for_it_by_name(root: Path, ear: Ear) -> None:
    ear.listen("workspace:///.dot/x.yaml", list_changes=True)

    fill(root, {".dot/x.yaml": "changed"})

    assert ear.heard() == ["workspace:///.dot/x.yaml"]


def test_an_empty_folder_is_reported_to_its_folder_but_not_to_the_list(root: Path, ear: Ear) -> None:
    ear.listen("workspace:///lib", list_changes=True)

    (root / "lib/empty").mkdir()
    came = ear.heard()
    (root / "lib/empty").rename(root / "lib/other")

    assert came == ["workspace:///lib"]
    assert "workspace:///lib" in ear.heard()


def test_a_folder_moved_in_with_files_is_reported_to_the_list(root: Path, ear: Ear) -> None:
    fill(root.parent / "elsewhere", {"deep/x.dart": "x"})
    ear.listen(list_changes=True)

    (root.parent / "elsewhere").rename(root / "moved")

    assert ear.heard() == [LIST]


IN_LIB = [
    "workspace:///lib",
    "workspace:///lib/main.dart",
    "workspace:///lib/src",
    "workspace:///lib/src/a.dart?lines=1-2",
]


def test_a_folder_that_is_moved_takes_along_what_lies_in_it(root: Path, ear: Ear) -> None:
    ear.listen(*IN_LIB, "workspace:///lib-not.dart", "workspace:///pubspec.yaml")

    (root / "lib").rename(root / "elsewhere")
    gone = ear.heard()
    (root / "elsewhere").rename(root / "lib")

    assert (gone, ear.heard()) == (IN_LIB, IN_LIB)


NEVER = ["workspace:///lib/never.dart", "workspace:///lib/never/at.dart", "workspace:///lib/src/never.dart"]


def test_what_never_was_there_is_not_reported_when_its_folder_goes_and_comes(root: Path, ear: Ear) -> None:
    ear.listen(*IN_LIB, *NEVER)

    (root / "lib").rename(root.parent / "away")
    gone = ear.heard()
    (root.parent / "away").rename(root / "lib")
    back = ear.heard()
    (root / "lib").rename(root / "other")

    assert (gone, back, ear.heard()) == (IN_LIB, IN_LIB, IN_LIB)


def test_what_a_folder_does_not_bring_back_is_reported_when_it_goes_only(root: Path, ear: Ear) -> None:
    ear.listen(MAIN, *NEVER)

    shutil.rmtree(root / "lib")
    gone = ear.heard()
    fill(root, {"lib/other.dart": "other"})
    came = ear.heard()
    shutil.rmtree(root / "lib")

    assert (gone, came, ear.heard()) == ([MAIN], [], [])


def test_what_came_and_was_changed_and_went_in_its_folder_is_known_when_the_folder_goes(root: Path, ear: Ear) -> None:
    come, went = "workspace:///lib/come.dart", "workspace:///lib/went.dart"
    ear.listen(come, went)
    fill(root, {"lib/come.dart": "come", "lib/went.dart": "went"})
    assert ear.heard() == [come, went]
    fill(root, {"lib/come.dart": "changed"})
    assert ear.heard() == [come]
    (root / "lib/went.dart").unlink()
    assert ear.heard() == [went]

    (root / "lib").rename(root.parent / "away")

    assert ear.heard() == [come]


def test_a_folder_that_is_away_for_a_moment_is_reported_with_what_it_holds(root: Path, ear: Ear) -> None:
    ear.listen(*IN_LIB, *NEVER)

    (root / "lib").rename(root / "away")
    (root / "away").rename(root / "lib")

    assert ear.heard() == IN_LIB


def test_what_is_moved_away_is_reported_once(root: Path, ear: Ear) -> None:
    ear.listen(*IN_LIB)

    (root / "lib").rename(root.parent / "away")
    told = [ear.next() for _ in IN_LIB]

    assert (sorted(told), ear.heard()) == (IN_LIB, [])


def test_a_folder_that_takes_the_place_of_another_brings_its_own_files(root: Path, ear: Ear) -> None:
    fill(root.parent / "other", {"main.dart": "other"})
    ear.listen(*IN_LIB)

    (root / "lib").rename(root.parent / "away")
    (root.parent / "other").rename(root / "lib")

    assert ear.heard() == IN_LIB


def test_what_a_folder_brings_is_reported_to_who_waited_for_it(root: Path, ear: Ear) -> None:
    fill(root.parent / "elsewhere", {"deep/x.dart": "x", "deep/.env": SECRET})
    ear.listen("workspace:///moved/deep/x.dart")

    (root.parent / "elsewhere").rename(root / "moved")

    assert ear.heard() == ["workspace:///moved/deep/x.dart"]


@pytest.mark.parametrize(
    ("moved", "spelling"),
    [
        (".dot", "workspace:///.dot/x.yaml"),
        ("link", "workspace:///link/main.dart"),
        ("lib", "workspace:///link/main.dart"),
    ],
)
def test_what_is_not_listed_is_moved_as_well(root: Path, ear: Ear, moved: str, spelling: str) -> None:
    (root / "link").symlink_to("lib")
    ear.listen(spelling)

    (root / moved).rename(root.parent / "away")

    assert ear.heard() == [spelling]


def test_a_root_that_is_deleted_and_made_again_is_watched_anew(root: Path, ear: Ear) -> None:
    ear.listen("workspace:///lib/main.dart", list_changes=True)
    shutil.rmtree(root)
    while ear.next() != "workspace:///lib/main.dart":
        pass  # the list is told too, in either order
    fill(root, FILES)
    while ear.next() != "workspace:///lib/main.dart":
        pass
    ear.heard()

    (root / "lib/main.dart").write_text("changed", encoding="utf-8")

    assert ear.heard() == ["workspace:///lib/main.dart"]


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


def test_where_whole_trees_are_watched_the_same_is_reported(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_events, "_follow_folders", file_events._follow_tree)
    with Served(root, preset="flutter") as served:
        ear = Ear(served, root)
        ear.listen(MAIN, "workspace:///lib", "workspace:///lib/src/a.dart")
        fill(root, {"lib/main.dart": "changed"})
        assert ear.heard() == [MAIN]
        (root / "lib/src").rename(root / "elsewhere")
        assert ear.heard() == ["workspace:///lib", "workspace:///lib/src/a.dart"]
        (root / "elsewhere").rename(root / "lib/src")
        assert ear.heard() == ["workspace:///lib", "workspace:///lib/src/a.dart"]
        ear.close()
        served.server.watcher.close()


def out_of_watches(_system: Inotify, _path: str) -> int:
    raise OSError(28, "No space left on device")


def test_where_events_fail_files_are_looked_at(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Inotify, "add", out_of_watches)
    with Served(root, preset="flutter") as served:
        ear = Ear(served, root)
        ear.begin(MAIN)
        served.server.watcher.updated(BELL)
        assert ear.next() == BELL  # told once the providers are watched
        (root / "lib/main.dart").write_text("changed")

        assert ear.next() == MAIN
        assert caplog.messages == ["file events ended: [Errno 28] No space left on device"]
        ear.close()
        served.server.watcher.close()


def test_where_events_fail_later_all_is_reported_and_looked_at(
    root: Path, ear: Ear, monkeypatch: pytest.MonkeyPatch
) -> None:
    ear.listen(MAIN)
    monkeypatch.setattr(Inotify, "add", out_of_watches)
    (root / "lib/new").mkdir()
    assert {ear.next(), ear.next()} == {MAIN, BELL}
    later = (root / "lib/main.dart").stat().st_mtime + 5  # who looks sees whole seconds
    os.utime(root / "lib/main.dart", (later, later))

    assert ear.next() == MAIN


def test_where_too_much_happens_all_is_reported(root: Path, ear: Ear, monkeypatch: pytest.MonkeyPatch) -> None:
    read, is_flooded = Inotify.read, threading.Event()

    def lose(system: Inotify, patience_s: float) -> list[Event]:
        events = read(system, patience_s)
        if any(event.name == "flood.yaml" for event in events):
            is_flooded.set()
            raise Lost
        return events

    monkeypatch.setattr(Inotify, "read", lose)
    ear.listen(MAIN, list_changes=True)
    (root / "flood.yaml").touch()
    assert is_flooded.wait(PATIENCE_S)
    assert {ear.next() for _ in range(3)} == {LIST, MAIN, BELL}
    fill(root, {"lib/main.dart": "changed"})

    assert MAIN in ear.heard()


def test_a_name_that_no_uri_can_hold_ends_nothing(root: Path, ear: Ear) -> None:
    ear.listen(MAIN)
    odd = root / "lib" / os.fsdecode(b"\xff")
    odd.mkdir()
    (odd / "x.dart").touch()
    odd.with_suffix(".dart").touch()
    assert ear.heard() == []
    fill(root, {"lib/main.dart": "changed"})

    assert ear.heard() == [MAIN]


def test_a_folder_that_becomes_readable_is_watched(root: Path, ear: Ear, monkeypatch: pytest.MonkeyPatch) -> None:
    add = Inotify.add
    monkeypatch.setattr(Listing, "folders", without_src(Listing.folders))
    ear.listen("workspace:///lib/src/a.dart")
    monkeypatch.undo()
    monkeypatch.setattr(Inotify, "add", add)
    (root / "lib/src").chmod(0o755)
    assert ear.heard() == ["workspace:///lib/src/a.dart"]
    fill(root, {"lib/src/a.dart": "changed"})

    assert ear.heard() == ["workspace:///lib/src/a.dart"]


Folders = Callable[[Listing, Segments, Callable[[Segments], object]], Iterator[Looked]]


def without_src(folders: Folders) -> Folders:
    """Leave out a folder, as one is that this user may not read."""

    def some(listing: Listing, top: Segments, enter: Callable[[Segments], object]) -> Iterator[Looked]:
        found = folders(listing, top, lambda segments: "src" in segments or enter(segments))
        return (one for one in found if "src" not in one[0].segments)

    return some


@pytest.mark.parametrize("is_changed", [True, False])
def test_a_list_change_before_the_events_begin_is_reported(
    root: Path, monkeypatch: pytest.MonkeyPatch, is_changed: bool
) -> None:
    go = threading.Event()
    really: Callable[..., None] = file_events._follow_folders

    def late(*given: object) -> None:
        go.wait(PATIENCE_S)
        really(*given)

    monkeypatch.setattr(file_events, "_follow_folders", late)
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


# Names that stay


def save_beside(file: Path) -> None:
    """Write a file anew beside its name, and let it take the name: so do many programs."""
    fill(file.parent, {f".{file.name}.tmp": "saved"})
    (file.parent / f".{file.name}.tmp").rename(file)


def save_with_backup(file: Path) -> None:
    """Move a file away, write it anew, and remove what was moved: so do others."""
    file.rename(f"{file}~.dart")
    fill(file.parent, {file.name: "saved"})
    Path(f"{file}~.dart").unlink()


@pytest.mark.parametrize("save", [save_beside, save_with_backup])
def test_a_file_that_is_replaced_is_reported_neither_to_its_folder_nor_to_the_list(
    root: Path, ear: Ear, save: Callable[[Path], None]
) -> None:
    ear.listen(MAIN, "workspace:///lib", list_changes=True)

    save(root / "lib/main.dart")

    assert ear.heard() == [MAIN]


def test_a_file_that_came_and_is_replaced_and_goes_is_reported_to_its_folder_twice(root: Path, ear: Ear) -> None:
    ear.listen("workspace:///new.dart")
    fill(root, {"new.dart/x.dart": "new"})
    assert ear.heard() == ["workspace:///new.dart"]
    fill(root, {"new.dart/y.dart": "new"})
    came = ear.heard()
    save_beside(root / "new.dart/y.dart")
    replaced = ear.heard()
    (root / "new.dart/y.dart").unlink()
    went = ear.heard()
    fill(root, {"new.dart/y.dart": "new"})

    assert (came, replaced, went, ear.heard()) == (["workspace:///new.dart"], [], *[["workspace:///new.dart"]] * 2)


@pytest.mark.parametrize("name", ["binary.py", "raw"])
def test_what_becomes_listed_and_unlisted_by_its_content_is_told_where_that_is_so(root: Path, name: str) -> None:
    is_listed_as_binary = name == "binary.py"
    with Served(root, preset="code") as served:
        ear = Ear(served, root)
        ear.listen("workspace:///lib")
        fill(root, {f"lib/{name}": b"\0"})
        came = ear.heard()
        fill(root, {f"lib/{name}": "text"})
        text = ear.heard()
        fill(root, {f"lib/{name}": b"\0"})
        binary = ear.heard()
        (root / "lib" / name).unlink()
        went = ear.heard()

        told = [bool(one) for one in (came, text, binary, went)]
        assert told == ([True, False, False, True] if is_listed_as_binary else [False, True, True, False])
        ear.close()
        served.server.watcher.close()


def test_what_comes_and_goes_at_once_is_not_reported_to_its_folder(root: Path, ear: Ear) -> None:
    ear.listen("workspace:///lib", list_changes=True)

    for number in range(10):
        (root / f"lib/{number}.dart").touch()
        (root / f"lib/{number}.dart").unlink()

    assert ear.heard() in ([], [LIST, "workspace:///lib"])  # unless it was seen between


@pytest.mark.parametrize("target", ["src", "main.dart"])
def test_a_link_that_comes_and_goes_is_reported_to_its_folder(root: Path, ear: Ear, target: str) -> None:
    ear.listen("workspace:///lib")

    (root / "lib/link.dart").symlink_to(target)
    came = ear.heard()
    (root / "lib/link.dart").unlink()
    (root / "lib/link").symlink_to("src")
    came_too = ear.heard()
    (root / "lib/link").unlink()

    assert (came, came_too, ear.heard()) == (["workspace:///lib"],) * 3


# Links


def test_a_link_that_leads_elsewhere_is_reported_and_then_what_it_leads_to(root: Path, ear: Ear) -> None:
    through = ["workspace:///file-link.dart", "workspace:///link/main.dart"]
    fill(root, {"other/main.dart": "other"})
    (root / "link").symlink_to("lib")
    (root / "file-link.dart").symlink_to("lib/main.dart")
    ear.listen(*through)

    for link, target in {"link": "other", "file-link.dart": "other/main.dart"}.items():
        (root / "new").symlink_to(target)
        (root / "new").rename(root / link)
    assert ear.heard() == through
    fill(root, {"other/main.dart": "changed"})
    assert ear.heard() == through
    fill(root, {"lib/main.dart": "changed"})

    assert ear.heard() == []


def test_what_is_not_there_yet_behind_a_link_is_reported_when_it_comes(root: Path, ear: Ear) -> None:
    uri = "workspace:///link/new/later.dart"
    (root / "link").symlink_to("lib")
    ear.listen(uri)

    fill(root, {"lib/new/later.dart": "new"})
    came = ear.heard()
    fill(root, {"lib/new/later.dart": "changed"})

    assert (came, ear.heard()) == ([uri], [uri])


def test_every_link_on_the_way_is_reported_when_it_leads_elsewhere(root: Path, ear: Ear) -> None:
    through = ["workspace:///link/x.dart", "workspace:///two.dart"]
    fill(root, {"other/x.dart": "other", "other/y.dart": "other"})
    (root / "link").symlink_to("lib")
    (root / "lib/x.dart").symlink_to("../other/x.dart")
    (root / "two.dart").symlink_to("lib/./x.dart")
    ear.listen(*through)

    (root / "new").symlink_to("../other/y.dart")
    (root / "new").rename(root / "lib/x.dart")
    elsewhere = ear.heard()
    fill(root, {"other/y.dart": "changed"})

    assert (elsewhere, ear.heard()) == (through, through)


def test_what_a_link_leads_to_is_reported_when_it_comes(root: Path, ear: Ear) -> None:
    links = ["workspace:///late-link.dart", "workspace:///link.dart"]
    (root / "link.dart").symlink_to("lib/../later/x.dart")
    ear.listen(*links)
    (root / "late-link.dart").symlink_to("link.dart")
    assert ear.heard() == []

    fill(root, {"later/x.dart": "new"})

    assert ear.heard() == links


# What takes the place of something else


def test_a_file_that_takes_the_place_of_a_folder_is_reported_with_all_that_was_in_it(root: Path, ear: Ear) -> None:
    uris = ["workspace:///odd.dart", "workspace:///odd.dart/a.dart"]
    fill(root, {"odd.dart/a.dart": "a"})
    ear.listen(*uris, "workspace:///odd.dart/never.dart")

    (root / "odd.dart").rename(root.parent / "away")
    (root / "odd.dart").touch()
    replaced = ear.heard()
    (root / "odd.dart").unlink()
    (root.parent / "away").rename(root / "odd.dart")
    back = ear.heard()
    fill(root, {"odd.dart/a.dart": "changed"})

    assert (replaced, back, ear.heard()) == (uris, uris, uris[1:])


# Folders


@pytest.mark.parametrize("link", ["a-link", "lib/self", "lib64", "zz-link"])
def test_a_link_to_a_folder_takes_nothing_from_its_real_place(root: Path, ear: Ear, link: str) -> None:
    (root / link).symlink_to(os.path.relpath(root / "lib", (root / link).parent))
    ear.listen(MAIN, "workspace:///lib", f"workspace:///{link}/src/a.dart")

    fill(root, {"lib/main.dart": "changed", "lib/new.dart": "new", "lib/src/a.dart": "changed"})

    assert set(ear.heard()) == {"workspace:///lib", MAIN, f"workspace:///{link}/src/a.dart"}


@pytest.mark.skipif(not Path("/proc/self/fdinfo").exists(), reason="the system does not tell what is watched")
def test_what_a_link_leads_to_outside_is_not_watched(root: Path, ear: Ear) -> None:
    fill(root.parent / "outside", {f"{number}/x.dart": "" for number in range(50)})
    (root / "out").symlink_to(root.parent / "outside")
    before = inotify_watches()
    ear.listen(MAIN)

    assert inotify_watches() - before <= len(list(root.rglob("*/"))) + 1


def inotify_watches() -> int:
    count = 0
    for told in Path("/proc/self/fdinfo").iterdir():
        with contextlib.suppress(OSError):
            count += told.read_text("utf-8").count("inotify wd:")
    return count


def test_what_is_in_a_folder_is_reported_when_the_folder_goes_and_comes_back(root: Path, ear: Ear) -> None:
    below = [MAIN, "workspace:///lib/src/a.dart"]
    ear.listen(*below)
    (root / "lib").rename(root / "lib2")
    gone = ear.heard()
    (root / "lib2").rename(root / "lib")
    back = ear.heard()
    fill(root, {"lib/src/a.dart": "changed"})

    assert (gone, back) == (below, below)
    assert ear.heard() == ["workspace:///lib/src/a.dart"]


def test_a_folder_that_is_replaced_at_once_is_still_watched(root: Path, ear: Ear) -> None:
    ear.listen("workspace:///lib/src/a.dart")
    fill(root.parent / "other", {"a.dart": "another"})
    (root / "lib/src").rename(root.parent / "away")
    (root.parent / "other").rename(root / "lib/src")
    replaced = ear.heard()
    fill(root, {"lib/src/a.dart": "changed"})

    assert (replaced, ear.heard()) == (["workspace:///lib/src/a.dart"], ["workspace:///lib/src/a.dart"])


def test_what_comes_into_new_folders_is_reported_however_deep(root: Path, ear: Ear) -> None:
    uri = "workspace:///lib/one/two/three/new.dart"
    ear.listen(uri)
    fill(root, {"lib/one/two/three/new.dart": "new"})
    came = ear.heard()
    fill(root, {"lib/one/two/three/new.dart": "changed"})

    assert (came, ear.heard()) == ([uri], [uri])


def test_what_is_ignored_from_now_on_and_no_longer_is_reported(root: Path) -> None:
    with Served(root, preset="code") as served:
        ear = Ear(served, root)
        ear.listen(MAIN, list_changes=True)
        fill(root, {".gitignore": "lib/\n"})
        ignored = ear.heard()
        (root / ".gitignore").unlink()
        seen = ear.heard()
        fill(root, {"lib/main.dart": "changed"})

        # That the list changed is told once a second at most.
        assert (ignored, [one for one in (*seen, *ear.heard()) if one]) == ([LIST, MAIN], [MAIN, MAIN])
        ear.close()
        served.server.watcher.close()


@pytest.mark.parametrize("way", [file_events._follow_folders, file_events._follow_tree])
@pytest.mark.parametrize("there", [".git/info/exclude", ".git/info/", ".git/", ""])
def test_what_git_excludes_from_now_on_and_no_longer_is_reported(
    root: Path, monkeypatch: pytest.MonkeyPatch, way: Callable[..., None], there: str
) -> None:
    monkeypatch.setattr(file_events, "_follow_folders", way)
    fill(root, {there: "# nothing\n"} if there else {})
    os.utime(root, ns=(NOON_NS, NOON_NS))
    with Served(root, preset="code") as served:
        ear = Ear(served, root)
        ear.listen(MAIN, "workspace:///pubspec.yaml", list_changes=True)
        fill(root, {".git/info/exclude": "lib/\n"})
        excluded = ear.heard()
        (root / ".git").rename(root.parent / "away")
        seen = ear.heard()
        fill(root, {"lib/main.dart": "changed"})
        changed = ear.heard()
        (root.parent / "away").rename(root / ".git")

        # That the list changed is told once a second at most.
        later = ([one for one in told if one] for told in (seen, changed, ear.heard()))
        assert (excluded, *later) == ([LIST, MAIN], [MAIN], [MAIN], [MAIN])
        ear.close()
        served.server.watcher.close()


def test_what_git_does_for_itself_causes_nothing(root: Path, ear: Ear) -> None:
    fill(root, {".git/info/exclude": "gen/\n"})
    os.utime(root, ns=(NOON_NS, NOON_NS))
    ear.listen(MAIN, "workspace:///", list_changes=True)

    fill(root, {".git/index": "", ".git/info/sparse-checkout": "", ".git/logs/HEAD": ""})
    (root / ".git/info").rename(root / ".git/old")
    (root / ".git/old").rename(root / ".git/info")

    assert ear.heard() == []


def test_what_came_while_it_was_ignored_is_reported_when_it_goes(root: Path) -> None:
    with Served(root, preset="code") as served:
        ear = Ear(served, root)
        ear.listen("workspace:///lib")
        fill(root, {".gitignore": "new.dart\n"})
        fill(root, {"lib/new.dart": "new"})
        ignored = ear.heard()
        fill(root, {".gitignore": "gen/\n"})
        seen = ear.heard()
        (root / "lib/new.dart").unlink()

        assert (ignored, seen, ear.heard()) == ([], ["workspace:///lib"], ["workspace:///lib"])
        ear.close()
        served.server.watcher.close()


def test_what_is_ignored_as_before_is_not_reported_when_the_rules_change(root: Path) -> None:
    ignored, changed = "workspace:///lib/src/a.dart", "workspace:///pubspec.yaml"
    with Served(root, preset="code") as served:
        ear = Ear(served, root)
        ear.listen(MAIN, ignored, changed, "workspace:///lib/never.dart", "workspace:///lib")
        fill(root, {"pubspec.yaml": "changed"})
        assert ear.heard() == [changed]
        fill(root, {".gitignore": "src/\n"})
        assert ear.heard() == ["workspace:///lib", ignored]
        fill(root, {".gitignore": "never.dart\n"})

        assert ear.heard() == ["workspace:///lib", ignored]
        ear.close()
        served.server.watcher.close()


def test_a_file_that_is_refused_from_now_on_is_reported_to_who_asked_for_it(root: Path) -> None:
    with Served(root, preset="code") as served:
        ear = Ear(served, root)
        ear.listen(MAIN)
        fill(root, {"lib/main.dart": b"\0binary"})

        assert ear.heard() == [MAIN]
        ear.close()
        served.server.watcher.close()


def test_a_file_that_cannot_be_read_ends_no_events(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, is_broken = Opened.read, False

    def failing(opened: Opened, start: int, length: int) -> bytes:
        if is_broken and opened.real[-1] == "main.dart":
            raise Unreadable(5)
        return read(opened, start, length)

    monkeypatch.setattr(Opened, "read", failing)
    with Served(root, preset="code") as served:
        ear = Ear(served, root)
        ear.listen(MAIN)
        is_broken = True
        fill(root, {".gitignore": "never\n"})
        ear.heard()
        is_broken = False
        fill(root, {"lib/main.dart": "read again"})
        assert ear.heard() == [MAIN]
        ear.close()
        served.server.watcher.close()


def test_a_link_that_may_be_read_again_is_reported_with_what_changed_meanwhile(root: Path) -> None:
    link = "workspace:///ln.dart"
    (root / "ln.dart").symlink_to("lib/main.dart")
    os.utime(root, ns=(NOON_NS, NOON_NS))
    with Served(root, preset="code") as served:
        ear = Ear(served, root)
        ear.listen(link)
        fill(root, {".gitignore": "ln.dart\n"})
        assert ear.heard() == [link]
        fill(root, {"lib/main.dart": "two"})
        ear.heard()
        fill(root, {".gitignore": "gen/\n"})
        assert ear.heard() == [link]
        ear.close()
        served.server.watcher.close()
