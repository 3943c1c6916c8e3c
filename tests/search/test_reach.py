"""A caller who may read a part of a scheme finds in that part, as if there were nothing else."""

import os
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from carrel.catalog.access import Access, ActingAs, is_at
from carrel.catalog.catalog import Catalog
from carrel.core.errors import BadArgument, NotFound, RequestError
from carrel.core.model import Resource, Text
from carrel.core.provider import FractionalCeiling, Match, Project, Provider, Route
from carrel.core.record import replace
from carrel.files import sandbox
from carrel.providers.workspace import Workspace
from carrel.search.answers import Coverage, SearchAnswer, SearchRequest
from carrel.search.search import Search
from carrel.search.settings import SearchSettings
from tests.support.waiting import PATIENCE_S

WORDS = (
    "tomato basil melon carrot radish onion garlic pepper squash bean plant_bed plantBox planting wateringCan water "
    "seed seedling compost harvest frost"
).split()
FOLDERS = ("", "docs/", "docs/deep/", "docs2/", "src/", "src/lib/")
NOON_S = 1_800_000_000
PATIENT = SearchSettings(answer_s=FractionalCeiling(PATIENCE_S))


class Nested(Provider):
    """A stranger's provider with texts in folders."""

    def __init__(self, name: str, texts: Mapping[str, str]) -> None:
        self.name = name
        self.schemes = (name,)
        self.texts = texts

    def routes(self) -> Sequence[Route]:
        return (Route(f"{self.name}://{{+path}}", self.read_text),)

    def entries(self, after: str = "") -> Iterator[Resource]:
        return (Resource(uri, uri.rpartition("/")[2]) for uri in sorted(self.texts) if uri > after)

    def read_text(self, path: str) -> Text:
        """Read a text."""
        uri = f"{self.name}://{path}"
        if uri not in self.texts:
            raise NotFound(uri)
        return Text(self.texts[uri])


class Answering(Nested):
    """One that answers searches itself: those with the word, the shortest first."""

    def search(self, query: str, limit: int) -> Sequence[Match] | None:
        found = [uri for uri, text in self.texts.items() if query in text]
        return [Match(uri, 1.0, uri) for uri in sorted(found, key=lambda uri: (len(uri), uri))[:limit]]


class Desk:
    """Files below a folder and a provider beside them, with a search of all."""

    def __init__(self, root: Path, files: Mapping[str, str], texts: Mapping[str, str]) -> None:
        root.mkdir()
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
            os.utime(root / name, (NOON_S + hash_of(name), NOON_S + hash_of(name)))
        self.catalog = Catalog((Workspace(Project(str(root), {"HOME": str(root)})), Nested("shelf", texts)))
        self.search = Search(self.catalog, None, PATIENT)
        self.search.build()
        _open_desks.append(self)

    def close(self) -> None:
        self.search.close()
        self.catalog.close()

    def ask(self, query: str, scheme: str = "", limit: int = 10, after: str = "") -> SearchAnswer | str:
        """Return an answer, or the error."""
        try:
            return self.search.search(SearchRequest(query, scheme, limit, after))
        except BadArgument as error:
            return error.message


_open_desks: list[Desk] = []


@pytest.fixture(autouse=True)
def desks_are_closed() -> Iterator[None]:
    """Close the desks of a test: each has a queue of file events, of which the system has few."""
    yield
    while _open_desks:
        _open_desks.pop().close()


def hash_of(name: str) -> int:
    """Return a number that depends on a name alone."""
    return sum(map(ord, name)) % 50


def text_of(chance: random.Random) -> str:
    lines = (" ".join(chance.choices(WORDS, k=chance.randrange(2, 7))) for _ in range(chance.randrange(1, 60)))
    return "\n".join(lines) + f"\ndef {chance.choice(WORDS)}():\n"


def query_of(chance: random.Random) -> str:
    words = chance.sample(WORDS, chance.randrange(1, 4))
    unfinished = [*words[:-1], words[-1][:-2]]
    return chance.choice(
        [
            " ".join(words),
            " ".join(words),
            " ".join(unfinished),
            f'"{words[0]}"',
            f"/{words[0][:4]}\\w*/",
            f"path:docs {words[0]}",
            f"-path:deep {words[0]}",
            f"lang:python {words[0]}",
            f"scheme:shelf {words[0]}",
            "path:docs",
        ]
    )


def part_of(chance: random.Random, uris: Sequence[str]) -> frozenset[str]:
    """Return rights to parts: folders, single URIs, and now and then a whole scheme."""
    places = [f"workspace:///{folder}" for folder in FOLDERS[1:]] + ["shelf://left/", "shelf://left/a", "shelf://right"]
    places += chance.sample(uris, 2)
    rights = {f"{place}:read" for place in chance.sample(places, chance.randrange(1, 4))}
    return frozenset(rights | ({"shelf:read"} if chance.random() < 0.2 else set()))


def check_desk(root: Path, seed: int, queries: int) -> None:
    """Compare what a caller with parts finds with what a desk finds that holds only these parts."""
    chance = random.Random(seed)
    files = {f"{chance.choice(FOLDERS)}{word}.{end}": text_of(chance) for word in WORDS for end in ("md", "py")}
    shelf = {f"shelf://{folder}/{name}": text_of(chance) for folder in ("left", "left/a", "right") for name in "abcd"}
    whole = Desk(root / "whole", files, shelf)
    uris = sorted([*shelf, *(f"workspace:///{name}" for name in files)])
    for number in range(4):
        caller = Access("guest", part_of(chance, uris))
        with ActingAs(caller):
            readable = {uri for uri in uris if can_read(whole.catalog, uri)}
        mine = {name: text for name, text in files.items() if f"workspace:///{name}" in readable}
        alone = Desk(root / f"part{number}", mine, {uri: text for uri, text in shelf.items() if uri in readable})
        for _ in range(queries):
            asked = (query_of(chance), chance.choice(("", "", "workspace", "shelf")), chance.choice((3, 10, 50)))
            with ActingAs(caller):
                answer, expected = whole.ask(*asked), alone.ask(*asked)
                assert answer == expected, (caller.scopes, asked)
                if isinstance(answer, SearchAnswer):
                    assert {hit.base for hit in answer.hits} <= readable
                    assert answer.coverage.total <= len(readable)


def can_read(catalog: Catalog, uri: str) -> bool:
    try:
        catalog.read(uri)
    except RequestError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_part_is_searched_as_if_there_were_nothing_else(tmp_path: Path, seed: int) -> None:
    check_desk(tmp_path, seed, 12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 14, 36])
def test_files_that_are_indexed_again_for_each_search_are_searched_the_same(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "SETTLED_NS", 1 << 60)
    check_desk(tmp_path, seed, 40)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [10, 11, 12, 13, 14, 20, 28, 36])
def test_many_searches_in_parts_show_nothing_of_the_rest(tmp_path: Path, seed: int) -> None:
    check_desk(tmp_path, seed, 60)


def test_a_link_that_leads_out_of_the_part_is_neither_found_nor_counted(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "whole", {"docs/a.md": "tomato\n", "src/b.md": "tomato basil\n"}, {})
    (tmp_path / "whole" / "docs" / "link.md").symlink_to("../src/b.md")
    (tmp_path / "whole" / "docs" / "own.md").symlink_to("a.md")

    with ActingAs(Access("guest", frozenset({"workspace:///docs/:read"}))):
        both, none = desk.ask("tomato"), desk.ask("basil")
        one = desk.ask("tomato", limit=1)

    assert isinstance(both, SearchAnswer)
    assert isinstance(none, SearchAnswer)
    assert isinstance(one, SearchAnswer)
    assert {hit.base for hit in both.hits} == {"workspace:///docs/a.md", "workspace:///docs/own.md"}
    assert (both.total, one.total, none.total, both.coverage) == (2, 2, 0, Coverage(2, 2))


def test_a_right_that_ends_or_a_link_that_turns_counts_at_once(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "whole", {"docs/a.md": "tomato\n", "src/b.md": "basil\n"}, {})
    link = tmp_path / "whole" / "docs" / "link.md"
    link.symlink_to("a.md")
    guest = Access("guest", frozenset({"workspace:///docs/:read"}))
    with ActingAs(guest):
        before = desk.ask("tomato")
        link.unlink()
        link.symlink_to("../src/b.md")
        after, turned = desk.ask("tomato"), desk.ask("basil")
    with ActingAs(replace(guest, scopes=frozenset({"workspace:///src/:read"}))):
        other = desk.ask("tomato")

    found = [one.total for one in (before, after, turned, other) if isinstance(one, SearchAnswer)]
    assert found == [2, 1, 0, 0]


def test_what_a_provider_finds_itself_outside_the_part_takes_no_place(tmp_path: Path) -> None:
    texts = {f"own://rest/{number}": "tomato" for number in range(300)} | {"own://part/of/the/long/name": "tomato"}
    search = Search(Catalog((Answering("own", texts),)), None, PATIENT)

    with ActingAs(Access("guest", frozenset({"own://part/:read"}))):
        answer = search.search(SearchRequest("tomato"))

    assert ([hit.base for hit in answer.hits], answer.total) == (["own://part/of/the/long/name"], 1)
    del tmp_path


def test_a_scheme_of_which_nothing_may_be_read_is_unknown(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "whole", {"a.md": "tomato"}, {"shelf://left/a": "tomato"})
    with ActingAs(Access("guest", frozenset({"shelf://left/:read"}))):
        assert desk.ask("tomato", "workspace") == "Unknown scheme: workspace (known: shelf)"
        answer = desk.ask("tomato scheme:workspace")
        assert isinstance(answer, SearchAnswer)
        assert answer.notes == ("scheme:workspace was left out: no scheme has that name.",)


@pytest.mark.parametrize("uri", ["x://a", "x://a/", "x://a/b", "x://a?b", "x://ab", "x://a0", "x://a@", "y://a", "x:/"])
@pytest.mark.parametrize("place", ["x://a", "x://a/", "x://", "x://a/b/"])
def test_the_index_and_a_read_agree_what_a_part_is(tmp_path: Path, uri: str, place: str) -> None:
    del tmp_path
    from carrel.search.index import MEMORY, Index, SourceText
    from carrel.search.query import parse
    from carrel.search.reach import Reach

    index = Index(MEMORY)
    index.put([SourceText(uri, "1", uri.partition(":")[0], "a", "tomato")])
    reach = Reach(frozenset({"x"}), {"x": (place,)})
    found = index.find(parse("tomato"), reach=reach).total
    index.close()
    assert found == reach.holds(uri) == (uri.startswith("x:") and is_at(uri, place))
