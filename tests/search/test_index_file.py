"""The file of the index survives what happens to files."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from carrel.search.index import Index, IndexUnavailable, SourceText
from carrel.search.index_file import APPLICATION, VERSION, SearchFile
from carrel.search.query import parse


def source(number: int, text: str = "alpha") -> SourceText:
    """Return a document."""
    return SourceText(f"workspace:///{number}.py", "1", "workspace", f"{number}.py", text)


def uris(index: Index, text: str) -> set[str]:
    """Return what is found."""
    return {found.uri for found in index.find(parse(text), limit=100).found}


@pytest.mark.parametrize("content", [b"no database at all, but a text that is long enough" * 100, b"SQLite format 3\0"])
def test_a_file_that_is_no_index_is_made_anew(tmp_path: Path, content: bytes) -> None:
    place = tmp_path / "index.db"
    place.write_bytes(content)

    index = Index(str(place))
    index.put([source(1)])

    assert uris(index, "alpha") == {"workspace:///1.py"}
    index.close()


def test_a_database_of_others_and_an_older_index_are_made_anew(tmp_path: Path) -> None:
    for application, version in ((0, 5), (APPLICATION, VERSION - 1)):
        place = tmp_path / f"{application}.db"
        with sqlite3.connect(place) as connection:
            connection.executescript(
                f"CREATE TABLE t (x); PRAGMA application_id={application}; PRAGMA user_version={version};"
            )
        connection.close()

        index = Index(str(place))

        assert index.known() == {}
        index.close()


def test_an_index_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    place = tmp_path / "index.db"
    Index(str(place)).close()
    connection = sqlite3.connect(place)
    connection.execute(f"PRAGMA user_version={VERSION + 1}")
    connection.close()
    before = place.read_bytes()

    with pytest.raises(IndexUnavailable) as caught:
        Index(str(place))

    assert caught.value.reason == "newer"
    assert place.read_bytes() == before


def damage(place: Path) -> None:
    """Overwrite everything but the begin of a file."""
    content = bytearray(place.read_bytes())
    content[4_096:] = os.urandom(len(content) - 4_096)
    place.write_bytes(content)


def test_a_damaged_file_is_made_anew(tmp_path: Path) -> None:
    place = tmp_path / "index.db"
    index = Index(str(place))
    index.put(source(number, f"alpha word{number} " * 50) for number in range(200))
    index.tidy()
    index.close()
    damage(place)

    again = Index(str(place))
    again.put([source(7)])

    assert uris(again, "alpha") == {"workspace:///7.py"}
    again.close()


@pytest.mark.slow
def test_a_file_that_is_damaged_while_it_is_open_is_made_anew(tmp_path: Path) -> None:
    place = tmp_path / "index.db"
    writer = Index(str(place))
    writer.put(source(number, f"alpha word{number} " * 50) for number in range(2_000))
    writer.tidy()
    writer.close()
    reader = Index(str(place))
    damage(place)

    with pytest.raises(IndexUnavailable) as caught:
        reader.put([source(1)])
    assert caught.value.reason == "broken"
    reader.put([source(7)])

    assert uris(reader, "alpha") == {"workspace:///7.py"}
    reader.close()


def test_a_file_that_was_deleted_is_made_anew_and_the_words_too(tmp_path: Path) -> None:
    place = tmp_path / "index.db"
    index = Index(str(place))
    index.put([source(1, "someword")])
    for path in tmp_path.iterdir():
        path.unlink()

    assert uris(index, "someword") == set()
    assert index.known() == {}
    index.put([source(2, "someword")])

    assert uris(index, "someword") == {"workspace:///2.py"}
    assert uris(index, "/omewor/") == {"workspace:///2.py"}
    index.close()


def put_by_another(place: str) -> None:
    """Have another process index a document."""
    script = "import sys; from tests.search.test_index_file import Index, source; Index(sys.argv[1]).put([source(2)])"
    subprocess.run([sys.executable, "-c", script, place], check=True)


def test_a_file_whose_journal_was_deleted_is_made_anew(tmp_path: Path) -> None:
    first = Index(str(tmp_path / "index.db"))
    first.put([source(1)])
    first.tidy()
    first.put([source(3)])
    for ending in ("-wal", "-shm"):
        (tmp_path / f"index.db{ending}").unlink()

    put_by_another(str(tmp_path / "index.db"))

    assert uris(first, "alpha") == set(first.known()) == set(), "nobody can say what was lost with the journal"
    first.put([source(4)])
    assert uris(first, "alpha") == {"workspace:///4.py"}
    first.close()


def test_a_folder_that_cannot_be_written_is_named_as_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(IndexUnavailable) as caught:
        Index(str(tmp_path / "file" / "index.db"))

    assert caught.value.reason == "read-only"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    (tmp_path / "index.db").symlink_to("precious.txt")

    with pytest.raises(IndexUnavailable):
        Index(str(tmp_path / "index.db"))

    assert (tmp_path / "precious.txt").read_text() == "mine"


OTHER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=0)
try:
    print(connection.execute("PRAGMA journal_mode=DELETE").fetchone())
except sqlite3.OperationalError as error:
    print(error)
"""
"""What another process can do only while nobody else has the file open."""


def test_a_second_connection_of_a_process_gives_up_no_lock_of_the_first(tmp_path: Path) -> None:
    place = str(tmp_path / "index.db")
    first = Index(place)
    first.put([source(1)])

    second = Index(place)
    other = subprocess.run([sys.executable, "-c", OTHER, place], capture_output=True, text=True, check=True)

    assert other.stdout == "database is locked\n"
    first.close()
    second.close()


def test_a_full_disk_keeps_what_was_there(tmp_path: Path) -> None:
    index = Index(str(tmp_path / "index.db"))
    index.put([source(1)])
    file = index._store
    (pages,) = file.writer.execute("PRAGMA page_count").fetchone()
    file.writer.execute(f"PRAGMA max_page_count={pages}")

    with pytest.raises(IndexUnavailable) as caught:
        index.put(source(number, " ".join(f"w{number}x{other}" for other in range(900))) for number in range(2, 60))

    assert caught.value.reason == "full"
    assert uris(index, "alpha") == {"workspace:///1.py"}
    assert set(index.known()) == {"workspace:///1.py"}
    index.close()


def test_a_batch_that_fails_half_way_leaves_nothing(tmp_path: Path) -> None:
    index = Index(str(tmp_path / "index.db"))

    def broken() -> object:
        yield source(1, "unusualword")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        index.put(broken())  # type: ignore[arg-type]
    assert uris(index, "unusualword") == set()
    index.put([source(2, "unusualword")])

    assert uris(index, "/nusualwor/") == {"workspace:///2.py"}
    index.close()


def test_two_connections_share_one_file(tmp_path: Path) -> None:
    first, second = Index(str(tmp_path / "index.db")), Index(str(tmp_path / "index.db"))
    first.put([source(1)])

    assert uris(second, "alpha") == {"workspace:///1.py"}
    second.put([source(1, "beta")])

    assert uris(first, "alpha") == set()
    assert uris(first, "beta") == {"workspace:///1.py"}
    assert first.known() == second.known()
    first.close()
    second.close()


def test_many_threads_write_and_read(tmp_path: Path) -> None:
    index = Index(str(tmp_path / "index.db"))
    faults: list[Exception] = []

    def work(start: int) -> None:
        try:
            for number in range(start, start + 20):
                index.put([source(number)])
                assert f"workspace:///{number}.py" in index.known()
                assert index.find(parse("alpha")).total
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(start,)) for start in (0, 100, 200, 300)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert faults == []
    assert len(uris(index, "alpha")) == 80
    index.close()


WRITER = """
import sys
from carrel.search.index import Index, SourceText
index = Index(sys.argv[1])
print("ready", flush=True)
for number in range(1_000_000):
    name = f"{number % 50}.py"
    text = f"alpha{number} common " * 40
    index.put([SourceText(f"workspace:///{name}", str(number), "workspace", name, text)])
    print(number, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("after", [0, 1, 7, 30])
def test_a_killed_process_leaves_whole_documents(tmp_path: Path, after: int) -> None:
    place = str(tmp_path / "index.db")
    process = subprocess.Popen([sys.executable, "-c", WRITER, place], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    last = ""
    for _ in range(after + 1):
        last = process.stdout.readline().strip()
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()

    index = Index(place)
    known = index.known()

    assert len(known) >= min(50, after)
    assert last == "ready" or last in known.values() or len(known) == 50
    for uri, fingerprint in known.items():
        assert uri in uris(index, f"alpha{fingerprint}")
    assert uris(index, "common") == set(known)
    index.close()


def test_the_file_is_for_its_user_alone(tmp_path: Path) -> None:
    file = SearchFile(str(tmp_path / "new" / "index.db"))

    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    for path in (tmp_path / "new").iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
    file.close()
