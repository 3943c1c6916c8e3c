"""Named documents, and the mirror of them in a folder."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from carrel.core.store_address import parse_address
from carrel.stores.database import Database
from carrel.stores.documents import DocumentMirror, StoredDocument, documents_since, is_name, writing_documents


@pytest.fixture(name="store")
def prepared_store(store_url: str) -> Iterator[Database]:
    with closing(Database(parse_address(store_url))) as store:
        store.prepare()
        yield store


@pytest.fixture(name="mirror")
def empty_mirror(store: Database) -> Iterator[DocumentMirror]:
    with closing(DocumentMirror(store, "sage")) as mirror:
        yield mirror


def put(store: Database, **documents: bytes | None) -> None:
    """Write documents in one transaction."""
    with writing_documents(store, "sage") as writer:
        for name, data in documents.items():
            writer.put(name, data, 1_000)


def files(mirror: DocumentMirror) -> dict[str, bytes]:
    """Return the files of a mirror."""
    folder = Path(mirror.path)
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_documents_are_written_and_read_by_name(store: Database) -> None:
    put(store, a=b"1", b=b"2")
    with writing_documents(store, "sage") as writer:
        assert (writer.get("a"), writer.get("c")) == (b"1", None)
        writer.put("a", b"3")
        assert writer.get("a") == b"3"


def test_only_what_is_new_is_fetched(store: Database) -> None:
    put(store, a=b"1", b=b"2")
    first, generation = documents_since(store, "sage", -1)
    put(store, b=None, c=b"3")

    second, later = documents_since(store, "sage", generation)

    assert first == [StoredDocument("a", b"1", 1_000), StoredDocument("b", b"2", 1_000)]
    assert second == [StoredDocument("b", None, 1_000), StoredDocument("c", b"3", 1_000)]
    assert (generation, later) == (1, 2)


def test_a_failed_write_writes_nothing(store: Database) -> None:
    def fail() -> None:
        with writing_documents(store, "sage") as writer:
            writer.put("a", b"1")
            writer.put("../b", b"2")

    with pytest.raises(ValueError, match="not a name"):
        fail()
    assert documents_since(store, "sage", -1) == ([], 0)


@pytest.mark.parametrize("name", ["", "/a", "a/", "a//b", "..", "a/../b", "./a", "a\0b", "a\nb", "x" * 1_025])
def test_what_is_no_name(name: str) -> None:
    assert not is_name(name)


def test_a_mirror_follows_the_store(store: Database, mirror: DocumentMirror) -> None:
    mirror.refresh()
    assert files(mirror) == {}
    put(store, **{"system/a.md": b"1", "b.md": b"2"})
    mirror.refresh()
    assert files(mirror) == {"system/a.md": b"1", "b.md": b"2"}
    put(store, **{"system/a.md": None, "b.md": b"3"})
    mirror.refresh()

    assert files(mirror) == {"b.md": b"3"}
    assert Path(mirror.path, "b.md").stat().st_mtime_ns == 1_000


def test_a_file_that_did_not_change_is_left_alone(store: Database, mirror: DocumentMirror) -> None:
    put(store, a=b"1", b=b"1")
    mirror.refresh()
    before = Path(mirror.path, "a").stat().st_ino
    put(store, b=b"2")
    mirror.refresh()

    assert Path(mirror.path, "a").stat().st_ino == before
    assert files(mirror) == {"a": b"1", "b": b"2"}


def test_a_store_that_was_emptied_and_begun_again_is_mirrored_anew(store: Database, mirror: DocumentMirror) -> None:
    put(store, a=b"1")
    put(store, b=b"2")
    mirror.refresh()
    with store.connection() as connection:
        connection.execute("DELETE FROM carrel_documents")
        connection.execute("UPDATE carrel_generations SET generation = 0")
    put(store, **{"x/c": b"3"})
    mirror.refresh()

    assert files(mirror) == {"x/c": b"3"}


def test_a_name_that_leads_out_of_the_folder_is_never_written(store: Database, mirror: DocumentMirror) -> None:
    put(store, a=b"1")
    with store.connection() as connection:
        connection.execute("UPDATE carrel_documents SET name = '../stray'")
    mirror.refresh()

    assert files(mirror) == {}
    assert not Path(mirror.path).with_name("stray").exists()
