"""What a search shows is what a read gives: no caller finds what he may not read, whatever the query is."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from carrel.catalog.access import Access, ActingAs
from carrel.catalog.catalog import Catalog
from carrel.core.errors import BadArgument, Denied, NotFound, RequestError
from carrel.core.model import Resource, Text
from carrel.core.provider import FractionalCeiling, Project, Provider, Route
from carrel.providers.workspace import Workspace
from carrel.search.answers import SearchRequest
from carrel.search.search import Search
from carrel.search.settings import SearchSettings

WORDS = "tomato basil melon carrot radish onion garlic pepper squash bean".split()
SCHEMES = ("workspace", "left", "right")


class Named(Provider):
    """A provider with a few texts; one of them refuses to be read."""

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self.schemes = (name,)
        chance = random.Random(seed)
        self.texts = {f"{name}://{number}": " ".join(chance.sample(WORDS, 3)) for number in range(6)}

    def routes(self) -> Sequence[Route]:
        return (Route(f"{self.name}://{{number}}", self.read_text),)

    def entries(self, after: str = "") -> Iterator[Resource]:
        return (Resource(uri, uri) for uri in sorted(self.texts) if uri > after)

    def read_text(self, number: str) -> Text:
        """Read a text."""
        uri = f"{self.name}://{number}"
        if number == "5":
            raise Denied(f"Access denied: {uri}", reason="closed", uri=uri)
        if uri not in self.texts:
            raise NotFound(uri)
        return Text(self.texts[uri])


class House:
    """Files that may be read, hidden, ignored and secret ones, and two more providers."""

    def __init__(self, root: Path) -> None:
        self.root = root
        chance = random.Random(7)
        (root / "private").mkdir()
        (root / "node_modules").mkdir()
        (root / ".gitignore").write_text("private/\nnode_modules/\n")
        names = ["a.txt", "b.md", "c.py", ".env", "private/d.txt", "node_modules/e.js", "id_rsa", "f.log", "own.secret"]
        for name in names:
            (root / name).write_text(" ".join(chance.sample(WORDS, 4)) + "\n")
        (root / "link.txt").symlink_to(".env")
        (root / "out.txt").symlink_to("/etc/passwd")
        files = Workspace(Project(str(root), {"HOME": str(root)}), deny=["*.secret"])
        self.catalog = Catalog((files, Named("left", 1), Named("right", 2)))
        settings = SearchSettings(answer_s=FractionalCeiling(60.0))
        self.search = Search(self.catalog, str(root.parent / "index"), settings)

    def change(self, chance: random.Random) -> None:
        """Have other files ignored than before, or take a file's words away."""
        if chance.random() < 0.5:
            ignored = chance.sample(["a.txt", "b.md", "c.py", "private/", "node_modules/"], 2)
            (self.root / ".gitignore").write_text("".join(f"{name}\n" for name in ignored))
        else:
            (self.root / chance.choice(["a.txt", "b.md", ".env"])).write_text(" ".join(chance.sample(WORDS, 4)))

    def check(self, chance: random.Random) -> None:
        """Search as some caller for something, and read every hit as he would."""
        scopes = frozenset(f"{name}:read" for name in SCHEMES if chance.random() < 0.5)
        if chance.random() < 0.4:
            scopes |= {f"{chance.choice(['left://1', 'workspace:///a.txt', 'right://2'])}:read"}
        caller = Access("guest", scopes) if chance.random() < 0.9 else Access("guest")
        query = " ".join(chance.sample(WORDS, chance.randrange(1, 4)))
        query = chance.choice([query, f'"{query}"', f"/{query}/", f"path:e {query}", f"-path:txt {query}"])
        scheme = chance.choice(["", "", *SCHEMES])
        with ActingAs(caller):
            try:
                answer = self.search.search(SearchRequest(query, scheme=scheme, limit=50))
            except BadArgument:
                assert scheme
                assert not caller.allows(scheme, "read")
                return
            readable = self.readable(scheme)
            assert {hit.base for hit in answer.hits} <= readable
            assert answer.total <= len(readable)
            assert answer.coverage.total <= len(readable)
            for hit in answer.hits:
                text = "".join(str(getattr(item, "text", "")) for item in self.catalog.read(hit.uri).items)
                assert all(line.text in text for line in hit.lines)

    def readable(self, scheme: str) -> set[str]:
        """Return the documents that the caller can read."""
        every = [f"workspace:///{path.relative_to(self.root)}" for path in self.root.rglob("*") if path.is_file()]
        every += [f"{name}://{number}" for name in ("left", "right") for number in range(6)]
        found = set()
        for uri in every:
            try:
                self.catalog.read(uri)
            except RequestError:
                continue
            if not scheme or uri.startswith(f"{scheme}:"):
                found.add(uri)
        return found


def check_callers(root: Path, pairs: int, seed: int) -> None:
    """Check so many callers with a query each; now and then other files may be read."""
    (root / "house").mkdir()
    house, chance = House(root / "house"), random.Random(seed)
    try:
        for number in range(pairs):
            if number % 20 == 0:
                house.change(chance)
            house.check(chance)
    finally:
        house.search.close()
        house.catalog.close()


@pytest.mark.slow
def test_no_caller_finds_what_a_read_would_refuse(tmp_path: Path) -> None:
    check_callers(tmp_path, 200, 1)


@pytest.mark.slow
@pytest.mark.parametrize("half", range(2))
def test_ten_thousand_callers_find_nothing_that_a_read_would_refuse(tmp_path: Path, half: int) -> None:
    check_callers(tmp_path, 5_000, 2 + half)


def test_a_refused_file_leaves_no_trace_in_the_index(tmp_path: Path) -> None:
    (tmp_path / "house").mkdir()
    (tmp_path / "house" / ".env").write_text("PASSWORD=hunterzwei\n")
    (tmp_path / "house" / "id_rsa").write_text("hunterzwei\n")
    (tmp_path / "house" / "a.txt").write_text("tomato\n")
    root = tmp_path / "house"
    search = Search(Catalog((Workspace(Project(str(root), {"HOME": str(root)})),)), str(tmp_path / "index"))

    answer = search.search(SearchRequest("hunterzwei"))
    search.build()
    search.close()

    assert (answer.hits, answer.total, answer.coverage.total) == ((), 0, 1)
    for path in (tmp_path / "index").iterdir():
        data = path.read_bytes()
        assert b"hunterzwei" not in data
        assert b".env" not in data
        assert b"id_rsa" not in data
