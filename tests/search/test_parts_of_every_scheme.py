"""Parts of every scheme that comes with Carrel: what is found and completed is what a read gives."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from carrel import Shelf
from carrel.catalog.access import Access, ActingAs, is_at
from carrel.catalog.catalog import Catalog
from carrel.catalog.suggestions import nearest
from carrel.client.memory import Memory
from carrel.core.errors import CarrelError, RequestError
from carrel.core.provider import FractionalCeiling, Place, Project, Provider
from carrel.core.template import UriTemplate
from carrel.providers.alc import Alc
from carrel.providers.git import GitHistory
from carrel.providers.logs import Logs
from carrel.providers.mounts.provider import Mount
from carrel.providers.mounts.settings import MountSettings
from carrel.providers.objects import serve_object
from carrel.providers.sage import Sage
from carrel.providers.scopes import Scopes
from carrel.providers.workspace import Workspace
from carrel.search.answers import SearchRequest
from carrel.search.search import Search
from carrel.search.settings import SearchSettings
from carrel.server.server import Server
from tests.support import scopes_sample
from tests.support.logging_project import writer
from tests.support.sage_folder import FILES
from tests.support.waiting import PATIENCE_S
from tests.support.workspaces import fill

WORDS = "greenhouse api login cookies token task"


class Everything:
    """One desk with something of every scheme."""

    def __init__(self, root: Path) -> None:
        fill(
            root, FILES | {"docs/a.md": "greenhouse", "docs/deep/b.md": "the greenhouse", "src/c.py": "greenhouse = 1"}
        )
        for name in ("web", "web-old", "worker"):
            log = writer(root, name)
            log.feed("out", b"the greenhouse is open\n")
            log.end(0)
        scopes_sample.planted(root)
        for package in ("sketch", "sketchbook"):
            fill(root, {f"alc/packages/{package}/init.lua": f'local M = {{}}\nM.meta = {{ name = "{package}", '
                        'description = "draws greenhouses" }\nreturn M\n'})  # fmt: skip
        author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        for words in (["init", "-b", "trunk"], [*author, "commit", "--allow-empty", "-m", "x"], ["branch", "other"]):
            subprocess.run(["git", *words], cwd=root, check=True, capture_output=True)
        project = Project(str(root), {"HOME": str(root)})
        self.mount = Mount("there", MountSettings(["played"]), lambda: Memory(Server(Catalog((self.shelf("far"),)))))
        providers = (Workspace(project), Logs(project), Scopes(project), Sage(project), GitHistory(project))
        alc = Alc(project, home=Place(str(root / "alc")))
        self.catalog = Catalog((*providers, alc, serve_object(self.shelf_of("garden"), "garden"), self.mount))
        self.mount.begin()
        assert self.mount.wait(PATIENCE_S)
        self.search = Search(self.catalog, None, SearchSettings(answer_s=FractionalCeiling(PATIENCE_S)))
        self.search.build()

    @staticmethod
    def shelf_of(scheme: str) -> Shelf:
        """Return an object with two resources."""
        shelf = Shelf(scheme)
        for bed in ("north", "northern"):
            shelf.resource(f"{scheme}://beds/{bed}", name=bed)(lambda bed=bed: f"the greenhouse has a {bed} bed")
        return shelf

    def shelf(self, scheme: str) -> Provider:
        """Return the same as a provider."""
        return serve_object(self.shelf_of(scheme), scheme)

    def found(self) -> list[str]:
        """Return what the caller finds."""
        answer = self.search.search(SearchRequest(WORDS, limit=100))
        assert answer.total == len(answer.hits)
        return [hit.base for hit in answer.hits]

    def can_read(self, uri: str) -> bool:
        """Return whether the caller can read a URI."""
        try:
            self.catalog.read(uri)
        except CarrelError:
            return False
        return True


@pytest.fixture(scope="module", name="desk")
def desk_with_everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Everything]:
    desk = Everything(tmp_path_factory.mktemp("desk"))
    yield desk
    desk.search.close()
    desk.catalog.close()


def places_of(uris: list[str]) -> set[str]:
    """Return every URI and every folder above one."""
    places = set(uris)
    for uri in uris:
        scheme, _, path = uri.partition("://")
        names = path.split("/")
        places |= {f"{scheme}://{'/'.join(names[:end])}/" for end in range(1, len(names))}
    return {place for place in places if not place.endswith("://")}


def guest(place: str) -> ActingAs:
    return ActingAs(Access("guest", frozenset({f"{place}:read"})))


def test_everything_takes_part(desk: Everything) -> None:
    found = desk.found()
    assert {uri.partition(":")[0] for uri in found} >= {"workspace", "logs", "scopes", "sage", "alc", "garden"}
    assert any("beds/north" in uri and not uri.startswith("garden:") for uri in found), "the mounted server"


def test_what_is_found_in_a_part_is_what_everybody_finds_there(desk: Everything) -> None:
    every = desk.found()
    for place in sorted(places_of(every)):
        with guest(place):
            found = desk.found()
            assert set(found) == {uri for uri in every if is_at(uri, place)}, place
            assert all(map(desk.can_read, found))


def test_what_is_completed_in_a_part_is_what_everybody_is_offered_there(desk: Everything) -> None:
    offered = {
        (template.uri_template, variable): desk.catalog.complete(template.uri_template, variable, "", {}).values
        for template in desk.catalog.templates()[0]
        for variable in UriTemplate(template.uri_template).variables[:1]
        if variable not in UriTemplate(template.uri_template).query_variables
        if template.uri_template.partition(":")[0] not in ("workspace", "carrel")
        if variable != "range"  # what is offered is the begin of a value
    }
    assert {text.partition(":")[0] for (text, _), values in offered.items() if values} >= {"logs", "scopes", "sage"}
    uris = {
        (text, variable, value): UriTemplate(text).expand({variable: value})
        for (text, variable), values in offered.items()
        for value in values
    }
    for place in sorted(places_of(list(uris.values()))):
        with guest(place):
            for text, variable in offered:
                try:
                    values = desk.catalog.complete(text, variable, "", {}).values
                except RequestError:
                    values = ()
                mine = {key[2]: uri for key, uri in uris.items() if key[:2] == (text, variable)}
                wanted = {value for value, uri in mine.items() if is_at(uri, place)}
                assert set(values) == wanted, (place, text)


@pytest.mark.parametrize(
    ("place", "template", "variable", "offered"),
    [
        ("git://commit/trunk", "git://commit/{+id}{?skip,format}", "id", {"trunk"}),
        ("git://log", "git://log{?at,skip,format}", "at", {"trunk", "other"}),
    ],
)
def test_branches_are_offered_where_they_may_be_read(
    desk: Everything, place: str, template: str, variable: str, offered: set[str]
) -> None:
    with guest(place):
        assert [one.uri_template for one in desk.catalog.templates()[0]] == [template]
        assert set(desk.catalog.complete(template, variable, "", {}).values) == offered


@pytest.mark.parametrize(
    ("place", "mistake"),
    [
        ("workspace:///docs/", "workspace:///docs/aa.md"),
        ("scopes://scope/task-1", "scopes://scope/task-1/x"),
        ("garden://beds/north", "garden://beds/north/nort"),
    ],
)
def test_a_mistake_in_a_part_is_answered_with_names_of_the_part(desk: Everything, place: str, mistake: str) -> None:
    with guest(place):
        assert all(is_at(uri, place) for uri in nearest(desk.catalog, mistake))
