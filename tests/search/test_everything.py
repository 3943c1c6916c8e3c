"""Everything that is served is searched: files, logs, scopes, memories, packages, objects, mounts, strangers."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from carrel import Shelf
from carrel.catalog.catalog import Catalog
from carrel.catalog.lazy import LazyProvider
from carrel.client.memory import Memory
from carrel.core.errors import NotFound
from carrel.core.model import Resource, Text
from carrel.core.provider import Match, Place, Project, Provider, Route
from carrel.providers.alc import Alc
from carrel.providers.logs import Logs
from carrel.providers.mounts.provider import Mount
from carrel.providers.mounts.settings import MountSettings
from carrel.providers.objects import serve_object
from carrel.providers.sage import Sage
from carrel.providers.scopes import Scopes
from carrel.providers.workspace import Workspace
from carrel.search.answers import SearchHit, SearchRequest
from carrel.search.search import Search
from carrel.server.server import Server
from tests.support import scopes_sample
from tests.support.logging_project import writer
from tests.support.sage_folder import FAILURE_STEM, FILES, STEM
from tests.support.waiting import PATIENCE_S


class Birds(Provider):
    """A stranger's provider that knows nothing of search: entries and a reader."""

    name = "birds"
    schemes = ("bird",)

    def __init__(self) -> None:
        self.texts = {"robin": "a red breast and a loud song", "wren": "small, brown and hidden"}
        self.reads = 0

    def routes(self) -> Sequence[Route]:
        return (Route("bird://{name}", self.read_bird, mime_type="text/plain"),)

    def entries(self, after: str = "") -> Iterator[Resource]:
        return (Resource(f"bird://{name}", name) for name in sorted(self.texts) if f"bird://{name}" > after)

    def read_bird(self, name: str) -> Text:
        """Read a bird."""
        self.reads += 1
        if name not in self.texts:
            raise NotFound(f"bird://{name}")
        return Text(self.texts[name])


class Answering(Birds):
    """One that answers searches itself."""

    name = "answering"
    schemes = ("answer",)

    def __init__(self, answer: Sequence[Match] | None) -> None:
        super().__init__()
        self.answer = answer
        self.asked: list[str] = []

    def routes(self) -> Sequence[Route]:
        return (Route("answer://{name}", self.read_bird, mime_type="text/plain"),)

    def entries(self, after: str = "") -> Iterator[Resource]:
        return (Resource(f"answer://{name}", name) for name in sorted(self.texts) if f"answer://{name}" > after)

    def search(self, query: str, limit: int) -> Sequence[Match] | None:
        """Return what the test wants."""
        del limit
        self.asked.append(query)
        return self.answer


def hits(search: Search, query: str, scheme: str = "") -> list[SearchHit]:
    """Return what a query finds."""
    return list(search.search(SearchRequest(query, scheme=scheme)).hits)


def found(search: Search, query: str, scheme: str = "") -> list[str]:
    """Return the URIs that a query finds."""
    return [hit.base for hit in hits(search, query, scheme)]


def project(folder: Path) -> Project:
    """Return a project."""
    return Project(str(folder), {"HOME": str(folder), "ALC_HOME": str(folder / "alc")})


def test_every_scope_is_found_by_its_title_whether_it_is_listed_or_not(tmp_path: Path) -> None:
    store = scopes_sample.planted(tmp_path)
    search = Search(Catalog((Scopes(project(tmp_path), list_roots=0),)), None)

    [hit] = hits(search, "implement api")
    assert (hit.base, hit.title, hit.definition) == ("scopes://scope/task-1", "Implement API", "task-1")

    scopes_sample.plant(store, (("task-9", "Water the greenhouse", "TODO", None),))
    assert found(search, "greenhouse") == ["scopes://scope/task-9"]


def test_scopes_that_did_not_change_are_not_read_again(tmp_path: Path) -> None:
    scopes_sample.planted(tmp_path)
    provider = Scopes(project(tmp_path))
    first = provider.document_changes(None)

    again = provider.document_changes(first.token)

    assert (len(first.documents), again.documents, again.is_whole) == (7, (), False)


def test_every_kind_of_memory_is_found(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    search = Search(Catalog((Sage(project(tmp_path)),)), None)

    assert found(search, "login page")[0] == "sage://system/objective.md"
    assert found(search, "httpOnly cookies thesis")[0] == f"sage://checkpoint/{STEM}"
    assert "sage://knowledge/auth-patterns" in found(search, "secure token")
    assert any(FAILURE_STEM in uri or "jwt-localstorage" in uri for uri in found(search, "localStorage script"))

    (tmp_path / ".sage/system/objective.md").write_text("# Ship the greenhouse\n")
    assert found(search, "greenhouse") == ["sage://system/objective.md"]


def test_a_log_is_found_by_a_line_and_again_when_it_grows(tmp_path: Path) -> None:
    log = writer(tmp_path)
    log.feed("out", b"compiling the greenhouse\n")
    log.flush()
    search = Search(Catalog((Logs(project(tmp_path)),)), None)

    assert found(search, "greenhouse") == [log.uri]
    assert found(search, "tomatoes") == []

    log.feed("err", b"error: no tomatoes\n")
    log.flush()
    assert found(search, "tomatoes") == [log.uri]
    log.end(0)


def test_packages_and_cards_of_algocline_are_found(tmp_path: Path) -> None:
    place = tmp_path / "alc" / "packages" / "sketch" / "init.lua"
    place.parent.mkdir(parents=True)
    place.write_text('local M = {}\nM.meta = { name = "sketch", description = "draws greenhouses" }\nreturn M\n')
    search = Search(Catalog((Alc(project(tmp_path), home=Place(str(tmp_path / "alc"))),)), None)

    assert "alc://packages/sketch/init.lua" in found(search, "greenhouses")


def test_an_object_is_read_in_the_background_and_found(tmp_path: Path) -> None:
    shelf = Shelf("garden")
    reads: list[str] = []

    @shelf.resource("garden://beds/north", name="north bed")
    def north() -> str:
        reads.append("north")
        return "tomatoes and basil"

    search = Search(Catalog((serve_object(shelf, "garden"),)), str(tmp_path / "index"))
    search.build()
    before = len(reads)

    assert found(search, "basil") == ["garden://beds/north"]
    assert len(reads) == before + 1, "only the hit itself is read on the way of an answer"
    search.build()
    assert len(reads) == before + 1, "what is not reported to have changed is not read again"
    search.close()


def test_a_mounted_server_is_read_in_the_background_and_found() -> None:
    birds = Birds()
    mount = Mount("there", MountSettings(["played"]), lambda: Memory(Server(Catalog((birds,)))))
    catalog = Catalog((mount,))
    mount.begin()
    assert mount.wait(30)
    search = Search(catalog, None)
    try:
        search.build()

        [hit] = hits(search, "loud song")
        assert hit.base.endswith("bird://robin")
        assert [line.text for line in hit.lines] == ["a red breast and a loud song"]

        del birds.texts["robin"]
        assert found(search, "loud song") == []
    finally:
        search.close()
        catalog.close()


def test_a_strangers_provider_is_searched_as_it_is_now() -> None:
    birds = Birds()
    search = Search(Catalog((birds,)), None)
    assert found(search, "song") == ["bird://robin"]

    birds.texts["robin"] = "silent in winter"
    birds.texts["lark"] = "a song in the sky"

    assert found(search, "song") == ["bird://lark"]
    assert found(search, "winter") == ["bird://robin"]
    del birds.texts["lark"]
    assert found(search, "sky") == []


def test_a_provider_may_answer_itself_and_its_matches_are_read_before_they_are_shown() -> None:
    answering = Answering([Match("answer://robin", 3.0), Match("answer://gone", 2.0)])
    search = Search(Catalog((answering, Birds())), None)

    assert set(found(search, "song")) == {"answer://robin", "bird://robin"}
    assert found(search, "song", "bird") == ["bird://robin"]
    assert answering.asked == ["song"], "it is not asked for what another scheme has"


def test_a_provider_that_declines_to_answer_is_indexed() -> None:
    search = Search(Catalog((Answering(None),)), None)
    found(search, "song")

    assert found(search, "song") == ["answer://robin"]


def test_a_provider_that_fails_leaves_a_note_and_the_others_are_searched() -> None:
    class Broken(Birds):
        name = "broken"
        schemes = ("broken",)

        def routes(self) -> Sequence[Route]:
            return (Route("broken://{name}", self.read_bird),)

        def entries(self, after: str = "") -> Iterator[Resource]:
            raise ValueError("its index card is torn")

    answer = Search(Catalog((Broken(), Birds())), None).search(SearchRequest("song"))

    assert [hit.base for hit in answer.hits] == ["bird://robin"]
    assert any("broken" in note for note in answer.notes)
    assert "torn" not in str(answer.notes)


def test_a_provider_that_hangs_does_not_keep_the_others_waiting() -> None:
    class Hanging(Answering):
        name = "hanging"

        def search(self, query: str, limit: int) -> Sequence[Match] | None:
            released.wait(30)
            return super().search(query, limit)

    released = threading.Event()
    answer = Search(Catalog((Hanging([]), Birds())), None).search(SearchRequest("song"))
    released.set()

    assert [hit.base for hit in answer.hits] == ["bird://robin"]
    assert any("hanging did not answer in time" in note for note in answer.notes)


def test_data_that_appears_is_searched(tmp_path: Path) -> None:
    catalog = Catalog()
    catalog.mount(LazyProvider("birds", ("bird",), Birds, (tmp_path / "there").exists, catalog))
    search = Search(catalog, None)
    assert found(search, "song") == []

    (tmp_path / "there").touch()

    assert found(search, "song") == ["bird://robin"]


def test_files_of_a_further_root_are_found(tmp_path: Path) -> None:
    (tmp_path / "main").mkdir()
    (tmp_path / "more").mkdir()
    (tmp_path / "main" / "a.txt").write_text("tomatoes")
    (tmp_path / "more" / "b.txt").write_text("cucumbers")
    files = Workspace(project(tmp_path / "main"), roots={"more": Place(str(tmp_path / "more"))})
    search = Search(Catalog((files,)), None)

    for _ in range(3):
        assert found(search, "cucumbers") == ["workspace://@more/b.txt"]
    (tmp_path / "more" / "b.txt").write_text("pumpkins")
    assert found(search, "cucumbers") == []
    assert found(search, "pumpkins tomatoes") != []


@pytest.mark.parametrize("name", ["picture.png", "archive.zip"])
def test_a_file_that_is_no_text_is_found_by_its_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\x89PNG\0\0garden")
    search = Search(Catalog((Workspace(project(tmp_path), preset="all"),)), None)

    [hit] = hits(search, name.partition(".")[0])

    assert (hit.uri, hit.lines) == (f"workspace:///{name}", ())
    assert found(search, "garden") == []


def test_a_server_reads_a_mount_after_the_first_search_and_a_list_that_changes_again(tmp_path: Path) -> None:
    birds = Birds()
    mount = Mount("there", MountSettings(["played"], refresh_s=0.0), lambda: Memory(Server(Catalog((birds,)))))
    catalog = Catalog((mount,))
    mount.begin()
    assert mount.wait(30)
    search = Search(catalog, str(tmp_path / "index"))
    try:
        first = search.search(SearchRequest("loud song"))
        assert any("there is still being read" in note for note in first.notes)
        assert wait_for(lambda: found(search, "loud song"))

        birds.texts["lark"] = "rises at dawn"
        list(mount.entries())
        assert wait_for(lambda: found(search, "dawn"))
    finally:
        search.close()
        catalog.close()


def wait_for(condition: Callable[[], object]) -> bool:
    """Return whether a condition came to hold."""
    until = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True
