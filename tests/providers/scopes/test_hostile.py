"""Stores that a stranger made: links, special files, schemas without end, damaged pages. Nobody waits for them."""

import json
import os
import signal
import sqlite3
import stat
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Event, Thread
from time import monotonic

import pytest

from carrel.catalog.catalog import Catalog
from carrel.cli import main
from carrel.core.cancellation import Cancellable, Cancelled
from carrel.core.errors import ProviderError
from carrel.core.provider import Place, Project
from carrel.providers.scopes import Scopes, queries, schema, sqlite
from carrel.providers.scopes import store as stores
from carrel.providers.scopes.location import DEFAULT, Location
from carrel.providers.scopes.scope_errors import ScopeError, StoreFault
from carrel.providers.scopes.store import Store
from tests.support.owners import give_away
from tests.support.scopes_sample import file_in, get, plant, planted_file, provider_in

SOON_S = 10.0
"""Generous: what is tested here took for ever, or longer than a client waits."""

ENDLESS = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT"


def confined(project: Path) -> Store:
    return Store(Location(Project(str(project), {}), DEFAULT, is_named=False))


def refusal(project: Path) -> str:
    """Return why neither reading nor writing is done there."""
    store = confined(project)
    with pytest.raises(StoreFault) as reading, store.reading():
        pass
    with pytest.raises(StoreFault) as writing, store.writing():
        pass
    store.close()
    assert writing.value.text == reading.value.text
    return reading.value.text


def everything_below(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in folder.rglob("*")
    }


# Links and owners


@pytest.fixture(name="other")
def another_project(tmp_path: Path) -> Path:
    """Return a project beside ours, with a store that is none of ours."""
    planted_file(tmp_path / "other").close()
    (tmp_path / "here").mkdir()
    return tmp_path / "other"


def test_a_folder_that_leads_out_of_the_project_is_neither_read_nor_written(other: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    (here / ".carrel").symlink_to("../other/.carrel")
    before = everything_below(other)

    assert "leads out of the project" in refusal(here)

    assert everything_below(other) == before


def test_no_folder_is_made_through_a_link(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / ".carrel").symlink_to("../made")

    assert "leads out of the project" in refusal(here)

    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
def test_a_file_that_is_a_link_is_neither_read_nor_written(other: Path, tmp_path: Path, suffix: str) -> None:
    here = tmp_path / "here"
    if suffix:
        planted_file(here).close()
    (here / ".carrel").mkdir(exist_ok=True)
    (here / f".carrel/scopes.db{suffix}").symlink_to("../../other/.carrel/scopes.db")
    before = everything_below(other)

    assert f"scopes.db{suffix} is a link" in refusal(here)

    assert everything_below(other) == before


def test_what_is_linked_within_the_project_is_read(tmp_path: Path) -> None:
    planted_file(tmp_path).close()
    (tmp_path / ".carrel").rename(tmp_path / "tasks")
    (tmp_path / ".carrel").symlink_to("tasks")

    store = confined(tmp_path)

    assert get(store, "task-1").title == "Implement API"
    store.close()


def test_a_folder_that_becomes_a_link_is_not_followed(other: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    planted_file(here).close()
    store = confined(here)
    with store.reading() as connection:
        assert connection is not None

    (here / ".carrel").rename(here / "before")
    (here / ".carrel").symlink_to("../other/.carrel")

    with pytest.raises(StoreFault, match="leads out of the project"), store.reading():
        pass
    store.close()


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted_file(tmp_path).close()
    give_away(tmp_path / ".carrel", monkeypatch)

    assert ".carrel belongs to another user" in refusal(tmp_path)


def test_what_the_user_named_may_lie_anywhere(other: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    (here / "link.db").symlink_to("../other/.carrel/scopes.db")

    for place in (str(other / DEFAULT), "../other/.carrel/scopes.db", "link.db"):
        named = Scopes(Project(str(here), {}, named=frozenset({"db"})), db=Place(place))
        assert Catalog([named]).read("scopes://scope/task-1").etag
        named.close()

    with pytest.raises(ProviderError):
        Catalog([Scopes(Project(str(here), {}), db=Place("link.db"))]).read("scopes://scope/task-1")


def test_the_command_line_follows_only_what_was_named(
    other: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    here = tmp_path / "here"
    (here / ".carrel").symlink_to("../other/.carrel")
    before = everything_below(other)

    for words in (["list"], ["create", "Mine"], ["export"], ["tree", "project-alpha"]):
        assert main(["scopes", "--project", str(here), *words]) == 1
        assert "leads out of the project" in capfd.readouterr().err
    assert everything_below(other) == before

    assert main(["scopes", "--project", str(here), "--db", str(here / DEFAULT), "list"]) == 0
    assert "project-alpha" in capfd.readouterr().out


def test_health_says_what_is_refused_and_names_no_path(other: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    (here / ".carrel").symlink_to("../other/.carrel")

    assert provider_in(here).health() == {
        "store": "unreadable",
        "problems": ["The store is not read: .carrel leads out of the project and is not followed"],
    }


# What is no file


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_folder(path: Path) -> None:
    path.mkdir()


def make_device(path: Path) -> None:
    """Make a device that gives zeros without end; a socket where only root may make one."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))
    except PermissionError:
        make_socket(path)


def make_socket(path: Path) -> None:
    os.mknod(path, stat.S_IFSOCK | 0o600)


def make_sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("make", [make_fifo, make_folder, make_device, make_socket])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, make: Callable[[Path], None], suffix: str) -> None:
    if suffix:
        planted_file(tmp_path).close()
    (tmp_path / ".carrel").mkdir(exist_ok=True)
    make(tmp_path / f".carrel/scopes.db{suffix}")
    began = monotonic()

    assert "is not a regular file" in refusal(tmp_path)

    assert monotonic() - began < SOON_S


def test_a_terabyte_of_nothing_is_no_database(tmp_path: Path) -> None:
    (tmp_path / ".carrel").mkdir()
    make_sparse(tmp_path / ".carrel/scopes.db")
    began = monotonic()

    assert "not a database" in refusal(tmp_path)

    assert monotonic() - began < SOON_S


def test_a_journal_of_another_program_is_not_rolled_back(tmp_path: Path) -> None:
    """SQLite would delete the file that the journal names."""
    canary = tmp_path / "canary"
    canary.write_text("kept")
    planted_file(tmp_path).close()
    journal = tmp_path / ".carrel/scopes.db-journal"
    journal.write_bytes(journal_that_deletes(canary))

    assert "journal was left by another program" in refusal(tmp_path)

    assert canary.read_text() == "kept"
    assert journal.exists()


def journal_that_deletes(victim: Path) -> bytes:
    """Return a journal that names a file of several databases, which SQLite deletes after it rolled one back."""
    name = str(victim).encode()
    magic = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
    header = magic + struct.pack(">IIIII", 0, 0, 1, 512, 4096)
    footer = name + struct.pack(">II", len(name), sum(name)) + magic
    return header.ljust(512, b"\0") + struct.pack(">I", 0x40000000 // 4096 + 1) + footer


def test_a_journal_without_its_store_is_removed_when_one_is_made(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    canary.write_text("kept")
    (tmp_path / ".carrel").mkdir()
    for name in ("scopes.db-journal", "scopes.db.new-journal"):
        (tmp_path / ".carrel" / name).write_bytes(journal_that_deletes(canary))
    store = confined(tmp_path)

    plant(store)

    assert get(store, "task-1").title == "Implement API"
    store.close()
    assert canary.read_text() == "kept"


# Schemas


def hostile(project: Path, script: str) -> None:
    """Make a store of ours, and then one of a stranger."""
    planted_file(project).close()
    with closing(sqlite3.connect(project / DEFAULT)) as connection:
        connection.executescript(f"PRAGMA writable_schema = ON;\n{script}")


def without_scopes(script: str) -> str:
    return f"PRAGMA foreign_keys = OFF; DROP TABLE scopes; {script}"


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(without_scopes(f"CREATE VIEW scopes AS {ENDLESS} i AS id FROM r"), id="endless view"),
        pytest.param(f"CREATE VIEW more AS {ENDLESS} i FROM r", id="one more view"),
        pytest.param(
            f"CREATE TRIGGER slow AFTER INSERT ON scopes BEGIN SELECT count(*) FROM ({ENDLESS} i FROM r); END",
            id="endless trigger",
        ),
        pytest.param("ALTER TABLE scopes ADD COLUMN x AS (length(title))", id="generated column"),
        pytest.param("CREATE VIRTUAL TABLE notes USING fts4(x)", id="virtual table"),
        pytest.param("CREATE TABLE notes (x)", id="one more table"),
        pytest.param("DROP INDEX scopes_children", id="an index is missing"),
        pytest.param(
            "DROP INDEX scopes_children; CREATE INDEX scopes_children ON scopes(parent_id)", id="another index"
        ),
        pytest.param("DROP TRIGGER scopes_no_cycle", id="a trigger is missing"),
        pytest.param(
            "UPDATE sqlite_schema SET sql = replace(sql, 'length(title) BETWEEN', 'length(title) + 0 BETWEEN')",
            id="another constraint",
        ),
        pytest.param("PRAGMA user_version = -1", id="a version before the first"),
        pytest.param("PRAGMA user_version = 0", id="no version"),
    ],
)
def test_a_store_whose_schema_is_not_ours_is_not_queried(tmp_path: Path, script: str) -> None:
    hostile(tmp_path, script)
    content = (tmp_path / DEFAULT).read_bytes()
    began = monotonic()

    assert "not a store of scopes" in refusal(tmp_path)

    assert monotonic() - began < SOON_S
    assert (tmp_path / DEFAULT).read_bytes() == content


def test_a_schema_of_very_many_views_is_not_read_to_its_end(tmp_path: Path) -> None:
    hostile(
        tmp_path,
        """INSERT INTO sqlite_schema WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 3000)
           SELECT 'view', 'v' || i, 'v' || i, 0, 'CREATE VIEW v' || i || ' AS SELECT 1' FROM r""",
    )

    assert "its schema is too large" in refusal(tmp_path)


def test_a_schema_that_changes_is_checked_again(tmp_path: Path) -> None:
    planted_file(tmp_path).close()
    store = confined(tmp_path)
    assert get(store, "task-1").title == "Implement API"

    with closing(sqlite3.connect(tmp_path / DEFAULT)) as connection:
        connection.execute(f"CREATE VIEW more AS {ENDLESS} i FROM r")

    plain = (("fresh", "Fresh", "TODO", None),)
    with pytest.raises(StoreFault, match="not a store of scopes"):
        get(store, "task-1")
    with pytest.raises(StoreFault, match="not a store of scopes"):
        plant(store, plain)
    with closing(sqlite3.connect(tmp_path / DEFAULT)) as connection:
        connection.execute("DROP VIEW more")
    assert get(store, "task-1").title == "Implement API"
    plant(store, plain)
    with closing(sqlite3.connect(tmp_path / DEFAULT)) as connection:
        connection.executescript("CREATE VIEW more AS SELECT 1; DROP VIEW more")
    plant(store, (("fresher", "Fresher", "TODO", None),))
    store.close()


def test_statistics_of_sqlite_are_no_hindrance(tmp_path: Path) -> None:
    planted_file(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / DEFAULT)) as connection:
        connection.execute("ANALYZE")

    assert get(confined(tmp_path), "task-1").title == "Implement API"


def test_a_new_store_has_the_schema_that_is_asked_for(tmp_path: Path) -> None:
    store = file_in(tmp_path)
    plant(store)

    with store.reading() as connection:
        assert connection is not None
        assert schema.is_ours(connection, schema.VERSION)
        assert connection.execute("PRAGMA trusted_schema").fetchone() == (0,)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            connection.execute("DELETE FROM aliases")
    store.close()


# Data


def count_for_ever(connection: sqlite.StoreConnection | None, meanwhile: Callable[[], int] | None = None) -> None:
    assert connection is not None
    if meanwhile is not None:
        connection.set_progress_handler(meanwhile, 1_000)
    connection.execute(f"SELECT count(*) FROM ({ENDLESS} i FROM r)").fetchone()


def test_a_text_that_is_far_too_long_is_not_read(tmp_path: Path) -> None:
    planted_file(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / DEFAULT)) as connection, connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute("UPDATE scopes SET title = printf('%.*c', 500000, 'x') WHERE alias = 'task-1'")

    with pytest.raises(StoreFault, match="too big"):
        get(confined(tmp_path), "task-1")


def test_more_aliases_than_anybody_gives_are_not_gathered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "MAX_ALIASES", 2)
    store = planted_file(tmp_path)
    with store.writing() as connection:
        scope = queries.find(connection, "task-1")
        assert scope is not None
        for name in ("aa", "bb"):
            connection.execute("INSERT INTO aliases VALUES (?, ?, 0)", (name, scope.id))
    store.close()

    with pytest.raises(ProviderError):
        Catalog([provider_in(tmp_path)]).read("scopes://scope/task-1")


def test_damaged_pages_are_reported_as_a_fault(tmp_path: Path) -> None:
    planted_file(tmp_path).close()
    path = tmp_path / DEFAULT
    content = bytearray(path.read_bytes())
    content[4096:] = bytes([0xA5]) * (len(content) - 4096)
    path.write_bytes(content)
    store = confined(tmp_path)

    with pytest.raises(StoreFault):
        get(store, "task-1")
    store.close()


def test_a_query_without_end_ends_at_its_deadline(tmp_path: Path) -> None:
    planted_file(tmp_path).close()
    store = Store(Location(Project(str(tmp_path), {}), DEFAULT, is_named=False), read_s=0.05, write_s=0.05)

    for transaction in (store.reading, store.writing):
        with pytest.raises(StoreFault, match="took too long"), transaction() as connection:
            count_for_ever(connection)
    assert get(store, "task-1").title == "Implement API"
    store.close()


def test_a_query_ends_when_nobody_waits_for_it(tmp_path: Path) -> None:
    planted_file(tmp_path).close()
    store = Store(Location(Project(str(tmp_path), {}), DEFAULT, is_named=False), read_s=600.0)

    with Cancellable(lambda: True), pytest.raises(Cancelled), store.reading() as connection:
        count_for_ever(connection)

    assert get(store, "task-1").title == "Implement API"
    store.close()


def test_closing_ends_what_runs(tmp_path: Path) -> None:
    planted_file(tmp_path).close()
    store = Store(Location(Project(str(tmp_path), {}), DEFAULT, is_named=False), read_s=600.0)
    begun, ended = Event(), list[str]()

    def query() -> None:
        try:
            with store.reading() as connection:
                assert connection is not None
                connection.create_function("begun", 0, begun.set)
                connection.execute(f"SELECT count(*) FROM ({ENDLESS} i FROM r WHERE begun() IS NULL)").fetchone()
        except ScopeError as error:
            ended.append(error.text)

    thread = Thread(target=query, daemon=True)
    thread.start()
    assert begun.wait(SOON_S)
    store.close()
    thread.join(SOON_S)

    assert len(ended) == 1


def test_ctrl_c_during_a_query_is_no_fault_of_the_store(tmp_path: Path) -> None:
    planted_file(tmp_path).close()
    store = Store(Location(Project(str(tmp_path), {}), DEFAULT, is_named=False), read_s=600.0)

    def press() -> int:
        signal.raise_signal(signal.SIGINT)
        return 0

    with pytest.raises(KeyboardInterrupt), store.reading() as connection:
        count_for_ever(connection, press)
    store.close()


def test_what_was_swapped_while_it_was_opened_is_not_read(
    other: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    planted_file(here).close()
    store = confined(here)

    def swapped(path: str, *given: object, **options: object) -> sqlite.StoreConnection:
        (here / ".carrel").rename(here / "before")
        (here / ".carrel").symlink_to("../other/.carrel")
        connection = sqlite.connect(path, *given, **options)  # type: ignore[arg-type]
        (here / ".carrel").unlink()
        (here / "before").rename(here / ".carrel")
        return connection

    monkeypatch.setattr(stores, "connect", swapped)

    with pytest.raises(StoreFault, match="was replaced while it was opened"), store.reading():
        pass
    store.close()


def serve_fifo(project: Path) -> None:
    (project / ".carrel").mkdir()
    make_fifo(project / DEFAULT)


def serve_view(project: Path) -> None:
    hostile(project, without_scopes(f"CREATE VIEW scopes AS {ENDLESS} i AS id FROM r"))


@pytest.mark.slow
@pytest.mark.parametrize("make", [serve_fifo, serve_view])
def test_a_server_answers_and_ends_beside_a_hostile_store(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path)
    read = {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "scopes://scope/task-1"}}
    command = [sys.executable, "-m", "carrel", "serve", "--project", str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(read).encode() + b"\n")
        server.stdin.flush()
        answer = json.loads(server.stdout.readline())
        server.terminate()
        server.wait(SOON_S)

    assert answer["error"]["message"].startswith("The store is not read: ")
    assert str(tmp_path) not in json.dumps(answer)


# A database of the original application


@pytest.mark.parametrize(
    "script",
    [
        f"CREATE VIEW scopes AS {ENDLESS} i AS id FROM r",
        "CREATE TABLE scopes (id, title, description, parent_id, created_at, updated_at AS (created_at))",
        "CREATE VIRTUAL TABLE scopes USING fts4(id, title)",
    ],
)
def test_a_hostile_database_of_the_original_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], script: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    source = tmp_path / "theirs.db"
    with closing(sqlite3.connect(source)) as connection:
        connection.execute(script)
    began = monotonic()

    code = main(["scopes", "--project", str(tmp_path), "import", "--from-scopes-db", str(source)])

    assert code == 1
    assert "is not a database of the original Scopes application" in capfd.readouterr().err
    assert monotonic() - began < SOON_S
