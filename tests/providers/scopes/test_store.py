"""The store of scopes: what it refuses, what a crash leaves, which transactions wait, versions."""

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from carrel.catalog.catalog import Catalog
from carrel.providers.scopes import changes, queries, schema, sqlite
from carrel.providers.scopes.scope_errors import ScopeError, StoreFault
from carrel.providers.scopes.store import Store
from tests.support.scopes_sample import NOW, check_invariants, file_in, get, plant, planted_file, provider_in
from tests.support.workspaces import handles


@pytest.fixture(name="store")
def sample_store(tmp_path: Path) -> Iterator[Store]:
    store = planted_file(tmp_path)
    yield store
    store.close()


@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        ("UPDATE scopes SET alias = 'task-2' WHERE alias = 'task-1'", "UNIQUE constraint failed: scopes.alias"),
        ("UPDATE scopes SET alias = 'nobody-has-it' WHERE alias = 'task-1'", "FOREIGN KEY constraint failed"),
        ("DELETE FROM aliases WHERE name = 'task-1'", "FOREIGN KEY constraint failed"),
        ("DELETE FROM scopes WHERE alias = 'feature-x'", "FOREIGN KEY constraint failed"),
        ("UPDATE scopes SET title = 'Write tests' WHERE alias = 'task-1'", "UNIQUE constraint failed: index"),
        (
            "UPDATE scopes SET parent_id = (SELECT id FROM scopes WHERE alias = 'task-1') WHERE alias = 'feature-x'",
            "cycle",
        ),
        ("UPDATE scopes SET parent_id = id", "cycle"),
        ("UPDATE scopes SET status = 'LATER'", "CHECK constraint failed"),
        ("UPDATE scopes SET title = ''", "CHECK constraint failed"),
        ("UPDATE scopes SET updated_at = created_at - 1", "CHECK constraint failed"),
        ("UPDATE aliases SET name = 'Upper' WHERE name = 'task-1'", "CHECK constraint failed"),
        ("UPDATE aliases SET name = 'two--hyphens' WHERE name = 'task-1'", "CHECK constraint failed"),
    ],
)
def test_no_program_can_commit_what_must_not_be(store: Store, statement: str, complaint: str) -> None:
    refused = pytest.raises(sqlite3.IntegrityError, match=complaint)
    with closing(sqlite.connect(store.path, "rw")) as connection, refused:
        connection.execute(statement)

    check_invariants(store)


def test_an_archived_scope_stays_so_until_it_is_restored(store: Store) -> None:
    with closing(sqlite.connect(store.path, "rw")) as connection:
        connection.execute("UPDATE scopes SET status = 'ARCHIVED' WHERE alias = 'task-1'")
        with pytest.raises(sqlite3.IntegrityError, match="archived"):
            connection.execute("UPDATE scopes SET status = 'DONE' WHERE alias = 'task-1'")


def test_the_store_is_made_by_the_first_write_with_its_folder(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "a b%?#/ü/scopes.db"))
    with store.reading() as connection:
        assert connection is None
    assert list(tmp_path.iterdir()) == []

    plant(store)

    with store.reading() as connection:
        assert connection is not None
        facts = {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in PRAGMAS}
    store.close()
    assert facts == PRAGMAS
    assert [path.name for path in Path(store.path).parent.iterdir()] == ["scopes.db"]


PRAGMAS = {"journal_mode": "wal", "foreign_keys": 1, "synchronous": 2, "busy_timeout": 5_000, "user_version": 1}


def test_what_fails_leaves_nothing(store: Store) -> None:
    before = dump(store)

    with pytest.raises(ScopeError, match="Alias already exists: task-2"):
        plant(store, (("fresh", "New", "TODO", None), ("task-2", "Newer", "TODO", None)))

    assert dump(store) == before


def dump(store: Store) -> list[str]:
    with closing(sqlite3.connect(store.path)) as connection:
        return list(connection.iterdump())


def test_a_reader_keeps_its_snapshot_while_others_write(store: Store) -> None:
    with store.reading() as connection:
        assert connection is not None
        before = queries.find(connection, "task-1")

        def write() -> None:
            with store.writing() as other:
                changes.update(other, NOW + 9, get(store, "task-1"), changes.Change(status="DONE"))

        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
        assert queries.find(connection, "task-1") == before
    assert get(store, "task-1").status == "DONE"


def test_two_who_change_different_fields_both_win(store: Store) -> None:
    stale = get(store, "task-1")
    with store.writing() as connection:
        changes.update(connection, NOW, stale, changes.Change(title="One"))
    with store.writing() as connection:
        changes.update(connection, NOW, stale, changes.Change(description="Two"))

    found = get(store, "task-1")
    assert (found.title, found.description, found.updated_at) == ("One", "Two", NOW + 2)


def test_a_lock_that_is_not_had_in_time_is_said(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "BUSY_MS", 20)
    with closing(sqlite.connect(store.path, "rw")) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ScopeError) as raised, store.writing():
            pass

    assert (raised.value.code, raised.value.status, raised.value.text) == ("BUSY", 503, "Store is busy")


CRASH = """
import os, sys
from carrel.providers.scopes import changes
from carrel.providers.scopes.store import Store
from carrel.core.isotime import now_ms
store = Store(sys.argv[1])
with store.writing() as connection:
    changes.create(connection, now_ms(), title="Kept", alias="kept")
with store.writing() as connection:
    for number in range(2000):
        changes.create(connection, now_ms(), title=f"Lost {number}", alias=f"lost-{number}")
    connection.execute("PRAGMA cache_spill = 1")
    os.kill(os.getpid(), 9)
"""


@pytest.mark.slow
def test_a_crash_in_the_middle_of_a_write_leaves_what_was_committed(tmp_path: Path) -> None:
    store = file_in(tmp_path)

    ran = subprocess.run([sys.executable, "-c", CRASH, store.path], check=False)

    assert ran.returncode == -signal.SIGKILL
    check_invariants(store)
    with store.reading() as connection:
        assert connection is not None
        assert [scope.alias for scope in queries.children(connection, None)] == ["kept"]
    plant(store)
    store.close()


def test_what_a_crash_left_of_a_store_that_was_never_finished_is_no_hindrance(tmp_path: Path) -> None:
    folder = tmp_path / ".carrel"
    folder.mkdir()
    for name in ("scopes.db.new", "scopes.db.new-wal", "scopes.db-wal", "scopes.db-shm"):
        (folder / name).write_bytes(b"left over " * 500)

    store = planted_file(tmp_path)

    check_invariants(store)
    store.close()


def test_an_empty_file_is_an_empty_store(tmp_path: Path) -> None:
    store = file_in(tmp_path)
    Path(store.path).parent.mkdir()
    Path(store.path).touch()
    with store.reading() as connection:
        assert connection is None

    plant(store)

    assert get(store, "task-1").title == "Implement API"
    store.close()


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("CREATE TABLE notes (x)", "is a SQLite database, but not a store of scopes"),
        ("CREATE TABLE notes (x); PRAGMA user_version = 7", "has version 7; this Carrel knows versions up to 1"),
    ],
)
def test_what_is_no_store_of_ours_is_refused_and_untouched(tmp_path: Path, script: str, reason: str) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    content = path.read_bytes()
    store = Store(str(path))

    with pytest.raises(StoreFault, match=reason), store.reading():
        pass
    with pytest.raises(StoreFault, match=reason), store.writing():
        pass
    assert path.read_bytes() == content


def test_an_older_store_is_migrated_once_after_a_copy(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.close()
    before = dump(store)
    monkeypatch.setattr(schema, "VERSION", 3)
    steps = {1: "ALTER TABLE scopes ADD COLUMN colour TEXT;\n", 2: "UPDATE scopes SET colour = 'red';\n"}
    monkeypatch.setattr(schema, "STEPS", steps)

    found = [Store(store.path) for _ in range(2)]
    for one in found:
        with one.reading() as connection:
            assert connection is not None
            assert connection.execute("SELECT DISTINCT colour FROM scopes").fetchall() == [("red",)]
            assert connection.execute("PRAGMA user_version").fetchone() == (3,)
        one.close()
    kept = Store(f"{store.path}.bak-v1")
    assert dump(kept) == before
    assert not Path(f"{kept.path}.new").exists()


def test_a_new_store_is_for_the_user_alone_with_all_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = file_in(tmp_path)
    plant(store)
    with store.reading() as _:
        assert modes_below(tmp_path) == {
            ".carrel": 0o700,
            ".gitignore": 0o600,
            "scopes.db": 0o600,
            "scopes.db-shm": 0o600,
            "scopes.db-wal": 0o600,
        }
    store.close()

    monkeypatch.setattr(schema, "VERSION", 2)
    monkeypatch.setattr(schema, "STEPS", {1: ""})
    with Store(store.path).reading() as _:
        assert modes_below(tmp_path)["scopes.db.bak-v1"] == 0o600


def test_a_folder_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / ".carrel").mkdir()
    (tmp_path / ".carrel").chmod(0o755)
    store = file_in(tmp_path)
    plant(store)
    store.close()

    assert modes_below(tmp_path) == {".carrel": 0o755, ".gitignore": 0o600, "scopes.db": 0o600}


def test_git_ignores_the_folder_of_the_store_and_no_other(tmp_path: Path) -> None:
    for folder in (tmp_path / ".carrel", tmp_path / "data"):
        store = Store(str(folder / "scopes.db"))
        plant(store)
        store.close()

    assert (tmp_path / ".carrel/.gitignore").read_text() == "*\n"
    assert not (tmp_path / "data/.gitignore").exists()


def modes_below(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}


def test_a_migration_that_fails_leaves_the_old_store(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.close()
    before = dump(store)
    monkeypatch.setattr(schema, "VERSION", 2)
    monkeypatch.setattr(schema, "STEPS", {1: "DELETE FROM idempotency;\nALTER TABLE nothing ADD COLUMN x;\n"})

    with pytest.raises(StoreFault, match="nothing"), Store(store.path).reading():
        pass

    assert dump(store) == before


def test_a_write_goes_to_the_store_that_has_the_name(tmp_path: Path) -> None:
    store = planted_file(tmp_path)
    for path in Path(store.path).parent.iterdir():
        path.unlink()

    plant(store, (("fresh", "Fresh", "TODO", None),))

    with store.reading() as connection:
        assert connection is not None
        assert [scope.alias for scope in queries.children(connection, None)] == ["fresh"]
    store.close()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(StoreFault, match="cannot be written"), Store(str(tmp_path / "file/scopes.db")).writing():
        pass


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Make a folder read-only, and run as a user who is bound by that."""
    folder.chmod(0o555)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65_534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o755)


@pytest.fixture(name="open_folder")
def folder_for_everybody() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="carrel-test-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_store_in_a_read_only_folder_is_read(open_folder: Path) -> None:
    planted_file(open_folder).close()
    (open_folder / ".carrel/scopes.db").chmod(0o644)
    with read_only(open_folder / ".carrel"):
        provider = provider_in(open_folder)
        assert Catalog([provider]).read("scopes://scope/task-1").etag
        assert provider.health() == {
            "store": "read-only",
            "problems": ["The store's folder cannot be written: changes made elsewhere may not be seen"],
        }
        with pytest.raises(StoreFault, match="its folder is read-only"), file_in(open_folder).writing():
            pass
        assert [path.name for path in (open_folder / ".carrel").iterdir()] == ["scopes.db"]
        provider.close()


def test_a_read_only_store_that_is_changed_is_opened_anew(open_folder: Path) -> None:
    store = planted_file(open_folder)
    (open_folder / ".carrel/scopes.db").chmod(0o644)
    reader = file_in(open_folder)
    with read_only(open_folder / ".carrel"):
        assert get(reader, "task-1").title == "Implement API"

    with store.writing() as connection:
        changes.update(connection, NOW + 9, get(store, "task-1"), changes.Change(title="Changed"))
    store.close()

    with read_only(open_folder / ".carrel"):
        assert get(reader, "task-1").title == "Changed"
        reader.close()


def test_many_threads_read_and_write_at_once(tmp_path: Path) -> None:
    store = file_in(tmp_path)
    failures: list[Exception] = []

    def work(number: int) -> None:
        try:
            for step in range(10):
                plant(store, ((f"t{number}-{step}", f"{number} {step}", "TODO", None),))
                get(store, f"t{number}-{step}")
        except ScopeError as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    check_invariants(store)
    with store.reading() as connection:
        assert connection is not None
        assert queries.count_children(connection, None) == 60
    store.close()


def test_a_store_that_is_closed_leaves_a_connection_in_use_to_its_thread(store: Store) -> None:
    begun, failures = threading.Event(), list[BaseException]()

    def read() -> None:
        try:
            with store.reading() as connection:
                assert connection is not None
                connection.create_function("mark", 0, begun.set)
                connection.execute(
                    "WITH RECURSIVE c(x) AS (SELECT mark() UNION ALL SELECT 1 FROM c) SELECT count(*) FROM c"
                )
        except ScopeError as error:
            failures.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    assert begun.wait(10)
    store.close()
    thread.join(10)

    assert [error.code for error in failures if isinstance(error, ScopeError)] == ["INTERNAL"]
    with store.reading() as connection:
        assert connection is not None


def test_a_thread_that_uses_a_store_after_its_end_gets_an_answer_and_leaves_nothing_open(
    store: Store, tmp_path: Path
) -> None:
    store.close()

    with store.reading() as connection:
        assert connection is not None
    assert store.stamp()

    assert handles(tmp_path) == []


def test_a_thread_that_polls_a_store_after_its_end_leaves_nothing_open_where_there_is_no_file(
    store: Store, tmp_path: Path
) -> None:
    store.close()
    Path(store.path).unlink()

    assert store.stamp() is None
    assert handles(tmp_path) == []


def test_a_thread_that_polls_a_store_after_its_end_leaves_nothing_open_where_the_file_is_refused(
    store: Store, tmp_path: Path
) -> None:
    store.close()
    Path(store.path).write_bytes(b"no store")

    with pytest.raises(StoreFault):
        store.stamp()
    assert handles(tmp_path) == []
