"""Queries, callers and folders that mean harm: none learns what it may not, holds up others or spoils the index."""

import os
import sqlite3
import threading
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import monotonic

import pytest

from carrel.catalog.access import Access, ActingAs
from carrel.catalog.catalog import Catalog
from carrel.core.errors import ProviderError
from carrel.core.model import Resource, Text
from carrel.core.provider import Document, Project, Provider, Route
from carrel.providers.workspace import Workspace
from carrel.search.answers import SearchRequest
from carrel.search.index import Index, IndexUnavailable, SourceText
from carrel.search.query import MAX_FILTERS, MAX_NOTES, parse
from carrel.search.search import Search

QUICK_S = 1.0
"""More than any of these takes on a slow machine, and a fraction of what each took before it was bounded."""


class TwoSchemes(Provider):
    """A provider with a document in each of two schemes."""

    name = "twofold"
    schemes = ("open", "closed")

    def routes(self) -> Sequence[Route]:
        return (Route("open://{name}", self.read_text), Route("closed://{name}", self.read_text))

    def read_text(self, name: str) -> Text:
        """Read a text."""
        return Text(f"tomato {name}")

    def entries(self, after: str = "") -> Iterator[Resource]:
        return (Resource(uri, uri) for uri in ("closed://b", "open://a") if uri > after)


class Failing(Provider):
    """A provider whose documents cannot be had."""

    name = "vault"
    schemes = ("vault",)

    def routes(self) -> Sequence[Route]:
        return (Route("vault://{name}", self.read_text),)

    def read_text(self, name: str) -> Text:
        """Read a text."""
        return Text(name)

    def documents(self) -> Iterator[Document]:
        raise ProviderError("the safe of the third floor is locked")


def guest(*scopes: str) -> ActingAs:
    """Return a caller with these scopes."""
    return ActingAs(Access("guest", frozenset(scopes)))


def files(root: Path, **settings: object) -> Catalog:
    """Return the files of a folder."""
    return Catalog((Workspace(Project(str(root), {"HOME": str(root)}), **settings),))  # type: ignore[arg-type]


# Queries


@pytest.mark.parametrize("filters", ["path:a ", "-path:q ", "lang:python ", "-scheme:logs "])
def test_a_thousand_filters_do_not_cost_the_index(tmp_path: Path, filters: str) -> None:
    index = Index(str(tmp_path / "index" / "index.db"))
    index.put([SourceText("workspace:///a.py", "1", "workspace", "a.py", "tomato")])
    many = "".join(f"{filters.strip()}{number} " if "path" in filters else filters for number in range(1_400))

    index.find(parse(f"tomato {many}"))

    assert index.known() == {"workspace:///a.py": "1"}
    index.close()


def test_filters_beyond_the_bound_are_left_out_with_a_note() -> None:
    query = parse("tomato " + " ".join(f"path:{number}" for number in range(MAX_FILTERS + 1)))

    assert len(query.filters) == MAX_FILTERS
    assert query.notes == (f"Only the first {MAX_FILTERS} filters of the query were used.",)


def test_a_query_that_is_wrong_in_a_thousand_ways_has_a_few_notes() -> None:
    query = parse(" ".join(f"nope:{number}" for number in range(1_000)))

    assert len(query.notes) <= MAX_NOTES


@pytest.mark.parametrize("part", ["/a ", "/\\a ", '/a"b" ', "//a/b ", "/\\/ "])
def test_expressions_that_never_end_are_read_in_linear_time(part: str) -> None:
    began = monotonic()

    parse("tomato " + part * (9_990 // len(part)))

    assert monotonic() - began < QUICK_S


def test_an_expression_after_one_that_does_not_end_is_still_one() -> None:
    assert parse("// /lend_.*/").expression == "lend_.*"
    assert parse("/usr/bin /lend_.*/").expression == "usr/bin /lend_.*"
    assert parse("a / b").words == ("a", "b")


@pytest.mark.slow
@pytest.mark.parametrize("source", [r"[\pL]{400}Q", r"(w|x|.w)[^Q]{0,900}Q", r"(?i)[\pL\pN]{30}Q"])
def test_an_expression_that_is_too_large_is_searched_as_words(source: str) -> None:
    query = parse(f"/{source}/")

    assert query.expression is None
    assert "too large" in query.notes[0]


@pytest.mark.slow
def test_an_expression_of_a_thousand_alternatives_is_answered_in_time(tmp_path: Path) -> None:
    index = Index(str(tmp_path / "index" / "index.db"))
    texts = (" ".join(f"word{number}x{other}" for other in range(4_000)) for number in range(20))
    index.put(SourceText(f"workspace:///{at}", "1", "workspace", str(at), text) for at, text in enumerate(texts))
    query = parse("/" + "|".join(f"ab{number}" for number in range(1_500)) + "/")
    index.find(query)
    began = monotonic()

    index.find(query)

    assert monotonic() - began < QUICK_S
    index.close()


@pytest.mark.parametrize("text", ["1:_", "_", "__ a", "-_-"])
def test_a_word_without_letters_is_no_fault(text: str) -> None:
    index = Index(":memory:")
    index.put([SourceText("workspace:///1.py", "1", "workspace", "1.py", "1 a")])

    index.find(parse(text))

    index.close()


# Callers


def test_a_caller_is_not_told_what_is_wrong_with_a_provider_that_he_may_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("tomato")
    project = Project(str(tmp_path), {"HOME": str(tmp_path)})
    search = Search(Catalog((Workspace(project), Failing())), None)

    assert any("vault" in note for note in search.search(SearchRequest("tomato")).notes)
    with guest("workspace:read"):
        assert search.search(SearchRequest("tomato")).notes == ()
        assert search.facts()["problems"] == []


def test_a_caller_of_one_scheme_of_a_provider_learns_nothing_of_its_other_one() -> None:
    search = Search(Catalog((TwoSchemes(),)), None)
    assert search.build().total == 2
    search.search(SearchRequest("tomato"))

    with guest("open:read"):
        answer = search.search(SearchRequest("tomato"))
        facts = search.facts()
        with pytest.raises(Exception, match="Unknown scheme"):
            search.search(SearchRequest("tomato", scheme="closed"))

    assert [hit.uri for hit in answer.hits] == ["open://a"]
    assert (answer.total, answer.coverage.total, facts["documents"]) == (1, 1, 1)


# Folders


def test_a_folder_that_others_may_write_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    folder.mkdir()
    folder.chmod(0o777)

    with pytest.raises(IndexUnavailable):
        Index(str(folder / "index.db"))

    assert not any(folder.iterdir())


def test_a_folder_that_is_a_link_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "index").symlink_to("elsewhere")

    with pytest.raises(IndexUnavailable):
        Index(str(tmp_path / "index" / "index.db"))

    assert not any((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("name", ["index.db", "index.db-wal", "index.db.lock"])
def test_a_fifo_in_the_place_of_a_file_holds_nobody_up(tmp_path: Path, name: str) -> None:
    root, folder = tmp_path / "root", tmp_path / "index"
    root.mkdir()
    (root / "a.md").write_text("tomato")
    folder.mkdir(mode=0o700)
    os.mkfifo(folder / name)
    search = Search(files(root), str(folder))
    found: list[str] = []
    thread = threading.Thread(
        target=lambda: found.extend(hit.base for hit in search.search(SearchRequest("tomato")).hits), daemon=True
    )
    thread.start()
    thread.join(10)

    assert found == ["workspace:///a.md"]
    search.close()


# What was served once


@pytest.mark.parametrize("how", ["ignored", "denied"])
def test_a_file_that_is_refused_from_now_on_leaves_no_trace(tmp_path: Path, how: str) -> None:
    root, folder = tmp_path / "root", tmp_path / "index"
    root.mkdir()
    (root / "plan.md").write_text("rutabaga\n")
    (root / "a.md").write_text("tomato\n")
    search = Search(files(root), str(folder))
    search.build()
    search.close()
    if how == "ignored":
        (root / ".git").mkdir()
        (root / ".gitignore").write_text("plan.md\n")

    again = Search(files(root, deny=["plan.md"] if how == "denied" else []), str(folder))
    again.search(SearchRequest("tomato"))
    again.close()

    kept = b"".join(one.read_bytes() for one in folder.iterdir())
    assert b"tomato" in kept
    assert b"rutabaga" not in kept
    assert b"plan.md" not in kept


def test_a_deleted_file_does_not_cost_the_rest_of_the_index(tmp_path: Path) -> None:
    root, folder = tmp_path / "root", tmp_path / "index"
    root.mkdir()
    for name in ("a.md", "b.md"):
        (root / name).write_text("tomato\n")
    search = Search(files(root), str(folder))
    search.build()
    before = (folder / "index.db").stat().st_ino
    (root / "b.md").unlink()

    assert [hit.base for hit in search.search(SearchRequest("tomato")).hits] == ["workspace:///a.md"]
    assert (folder / "index.db").stat().st_ino == before
    search.close()


ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT"
FORGED = {
    "a view that never ends": "DROP TABLE documents; CREATE VIEW documents AS "
    f"{ENDLESS} x AS id, 'a' || x AS uri, '' AS fingerprint FROM c;",
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON documents BEGIN DELETE FROM documents; END;",
    "no tables": "DROP TABLE documents; DROP TABLE dead;",
    "other columns": "DROP TABLE dead; CREATE TABLE dead (number INTEGER PRIMARY KEY);",
    "a uri of bytes": "UPDATE documents SET uri = x'00ff';",
    "a path of bytes": "UPDATE documents SET path = x'00ff';",
    "a fingerprint of bytes": "UPDATE documents SET fingerprint = x'00';",
    "lines beyond all": "UPDATE documents SET lines_each = 9e18, pieces = -5;",
    "pieces in words": "UPDATE documents SET pieces = 'many', lines_each = 'few', traits = 'x', size = 'big';",
    "negative pieces": "UPDATE documents SET pieces = -1; INSERT INTO dead (id, pieces) VALUES (99, 1);",
    "dead in words": "INSERT INTO dead (id, pieces) VALUES ('a', 'b');",
    "everything dead": "INSERT INTO dead (id, pieces) SELECT id, 1 FROM documents;",
    "no vocabulary": "UPDATE vocabulary SET words = 'none';",
    "a vocabulary that bursts": "UPDATE vocabulary SET words = bomb();",
    "documents that are not there": "INSERT INTO documents SELECT 77, 'workspace:///../../etc/passwd', fingerprint, "
    "scheme, 'etc/passwd', title, language, modified_ms, is_partial, traits, lines_each, pieces, size "
    "FROM documents LIMIT 1; INSERT INTO words (rowid, terms) VALUES (77 << 10, 'tomato');",
    "a secret": "INSERT INTO documents SELECT 77, 'workspace:///.env', fingerprint, scheme, '.env', title, language, "
    "modified_ms, is_partial, traits, lines_each, pieces, size FROM documents LIMIT 1; "
    "INSERT INTO words (rowid, terms) VALUES (77 << 10, 'tomato');",
    "rows of no document": "INSERT INTO words (rowid, terms) VALUES (5000 << 10, 'tomato');",
    "FTS5 cut off": "DELETE FROM words_data WHERE id > 10;",
    "FTS5 of noise": "UPDATE words_data SET block = randomblob(400) WHERE id > 10;",
}


HIDES = {"everything dead", "FTS5 cut off"}
"""What an index does not say cannot be known: who can write to the folder can hide hits, and no more."""


@pytest.mark.slow
@pytest.mark.parametrize("how", FORGED)
def test_a_forged_index_with_the_right_marks_neither_harms_nor_shows_anything(tmp_path: Path, how: str) -> None:
    root, folder = tmp_path / "root", tmp_path / "index"
    root.mkdir()
    (root / "a.md").write_text("a tomato\n")
    (root / ".env").write_text("tomato=secret\n")
    search = Search(files(root), str(folder))
    search.build()
    search.close()
    connection = sqlite3.connect(folder / "index.db", isolation_level=None)
    connection.create_function("bomb", 0, lambda: zlib.compress(b"tomato\n" * 8_000_000, 1))
    connection.executescript(FORGED[how])
    connection.close()

    again = Search(files(root), str(folder))
    for query in ("tomato", "/tomat./", '"a tomato"', "tomato path:a"):
        assert {hit.base for hit in again.search(SearchRequest(query)).hits} <= {"workspace:///a.md"}
    again.facts(looks=True)
    again.build()
    if how not in HIDES:
        assert [hit.base for hit in again.search(SearchRequest("tomato")).hits] == ["workspace:///a.md"]
    again.close()
