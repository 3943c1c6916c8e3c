"""Records with weighted fields: found by the engine's own words and BM25, and never lost with their file."""

import sqlite3
from pathlib import Path

from carrel.search.index import IndexUnavailable
from carrel.search.records import IndexedRecord, RecordIndex

WEIGHTS = (5.0, 1.0)


def index(path: Path | None = None, **texts: tuple[str, str]) -> RecordIndex:
    """Return an index with one kind of records."""
    made = RecordIndex(None if path is None else str(path), WEIGHTS)
    update(made, **texts)
    return made


def update(made: RecordIndex, **texts: tuple[str, str]) -> list[str]:
    """Make an index hold these records; return the keys that were read."""
    read: list[str] = []

    def reader(key: str) -> IndexedRecord | None:
        read.append(key)
        return IndexedRecord(texts[key], len(read))

    made.update("note", {key: f"{fields}" for key, fields in texts.items()}, reader)
    return read


def found(made: RecordIndex, query: str) -> list[str]:
    """Return the keys that words find."""
    return [hit.key for hit in made.find_words("note", query, 10)[0]]


def test_a_word_in_a_weightier_field_counts_more() -> None:
    made = index(a=("other", "queue queue queue"), b=("queue", "other"), c=("other", "other"))

    assert found(made, "queues") == ["b", "a"]
    assert found(made, "nothing such") == []


def test_names_are_found_in_every_spelling_as_in_all_of_search() -> None:
    made = index(a=("", "see parse_config"), b=("", "parse it, then configure"))

    assert found(made, "parseConfig")[0] == "a"


def test_every_record_that_matches_is_counted() -> None:
    texts = {f"k{number}": ("queue", "common words") for number in range(300)}

    hits, total = index(None, **texts).find_words("note", "common", 5)

    assert (len(hits), total) == (5, 300)


def test_only_what_changed_is_read_again(tmp_path: Path) -> None:
    made = index(tmp_path / "x.db", a=("zebra", ""), b=("lion", ""))

    assert update(made, a=("zebra", ""), b=("lion", "")) == []
    assert update(made, a=("giraffe", ""), b=("lion", "")) == ["a"]
    assert (found(made, "zebra"), found(made, "giraffe")) == ([], ["a"])
    assert update(made, b=("lion", "")) == []
    assert found(made, "giraffe") == []


def test_two_processes_see_what_the_other_wrote(tmp_path: Path) -> None:
    first = index(tmp_path / "x.db", a=("zebra", ""))
    second = index(tmp_path / "x.db", a=("zebra", ""), b=("lion", ""))

    assert found(first, "lion") == ["b"]
    assert update(first, a=("zebra", ""), b=("lion", "")) == []
    assert update(second, a=("zebra", "")) == []
    assert found(first, "lion") == []


def test_a_file_that_is_damaged_is_made_anew_and_one_that_cannot_be_used_is_replaced_by_memory(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "x.db"
    made = index(path, a=("zebra", ""))
    made.close()
    path.write_bytes(b"no database" * 1_000)
    assert update(made, a=("zebra", "")) == ["a"]
    assert found(made, "zebra") == ["a"]

    assert made.recover(IndexUnavailable("full"))
    assert update(made, a=("zebra", "")) == ["a"]
    assert not made.recover(IndexUnavailable("full"))


def test_a_record_that_is_gone_leaves_no_text_and_no_vector(tmp_path: Path) -> None:
    made = index(tmp_path / "x.db", a=("zebra", "secret"))
    [(number, text)] = made.texts_without_vector("note")
    assert text == "zebra\nsecret"
    made.put_vectors([(number, b"1234")])
    assert made.vectors("note") == [("a", 1, b"1234")]
    update(made)
    made.close()

    with sqlite3.connect(tmp_path / "x.db") as connection:
        assert connection.execute("SELECT count(*) FROM records").fetchone() == (0,)
