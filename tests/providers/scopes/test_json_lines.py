"""Scopes out and in: exports come back as they were, imports are whole or nothing, the original's database is read."""

import json
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import pytest

from carrel.cli import main
from carrel.providers.scopes import changes, queries, sqlite
from carrel.providers.scopes.changes import Change
from carrel.providers.scopes.connection import ScopesConnection
from carrel.providers.scopes.original_database import convert_id
from carrel.providers.scopes.scope_errors import ScopeError
from carrel.providers.scopes.store import Store
from carrel.providers.scopes.values import Scope
from tests.support import scopes_sample
from tests.support.scopes_sample import NOW, check_invariants, get, plant, planted, told

pytestmark = pytest.mark.usefixtures("backend")
LOCAL = pytest.mark.parametrize("backend", ["local"], indirect=True)
"""Marks tests about the file itself."""


class Desk:
    """A project on whose command line things are exported and imported."""

    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.store = planted(folder)
        self._capfd = capfd

    def run(self, *words: str, db: str | None = None) -> tuple[int, str, str]:
        code = main(["scopes", "--project", str(self.folder), *(() if db is None else ("--db", db)), *words])
        captured = self._capfd.readouterr()
        return code, captured.out, captured.err

    def export(self, *words: str, db: str | None = None) -> list[dict[str, Any]]:
        code, out, err = self.run("export", *words, db=db)
        assert (code, err) == (0, "")
        return [json.loads(line) for line in out.splitlines()]

    def take(self, lines: list[Any], *words: str, db: str | None = None) -> tuple[int, str, str]:
        path = self.folder / "in.jsonl"
        spelled = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        path.write_text("".join(f"{line}\n" for line in spelled), encoding="utf-8")
        return self.run("import", str(path), *words, db=db)


@pytest.fixture(name="desk")
def sample_desk(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CARREL_STORE_URL", scopes_sample.team_url())
    desk = Desk(tmp_path, capfd)
    yield desk
    check_invariants(desk.store)
    desk.store.close()


def test_what_is_exported_imported_and_exported_again_is_the_same(desk: Desk) -> None:
    with desk.store.writing() as connection:
        scope = queries.find(connection, "feature-x")
        assert scope is not None
        changes.add_alias(connection, NOW + 70, scope, "zz")
        changes.add_alias(connection, NOW + 80, scope, "aa")
        changes.update(connection, NOW + 90, scope, Change(description="Zwei\nZeilen ☀", status="ARCHIVED"))
    out, other = str(desk.folder / "out.jsonl"), str(desk.folder / "other.db")

    assert desk.run("export", "--out", out) == (0, "", "")
    assert desk.run("import", out, db=other) == (0, "Imported 6, skipped 0\n", "")

    text = Path(out).read_text(encoding="utf-8")
    assert desk.run("export", db=other) == (0, text, "")
    assert desk.run("export", "--json", db=other) == (0, text, "")
    assert text.splitlines()[0] == '{"carrelScopes":1}'
    x = get(desk.store, "feature-x")
    assert json.loads(text.splitlines()[2]) == {
        "id": x.id,
        "alias": "feature-x",
        "aliases": [
            {"name": "feature-x", "createdAt": "2026-11-15T18:00:00.123Z"},
            {"name": "aa", "createdAt": "2026-11-15T18:00:00.203Z"},
            {"name": "zz", "createdAt": "2026-11-15T18:00:00.193Z"},
        ],
        "title": "Feature X",
        "description": "Zwei\nZeilen ☀",
        "status": "ARCHIVED",
        "parentId": x.parent_id,
        "position": 0,
        "createdAt": "2026-11-15T18:00:00.123Z",
        "updatedAt": "2026-11-15T18:00:00.213Z",
    }
    assert [path.name for path in desk.folder.glob("*.tmp")] == []


def test_a_part_is_exported_without_its_parent(desk: Desk) -> None:
    lines = desk.export("feature-x")

    assert [(line.get("alias"), line.get("parentId") is None) for line in lines[1:]] == [
        ("feature-x", True),
        ("task-1", False),
        ("task-2", False),
    ]


def test_an_import_reads_standard_input(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    path = desk.folder / "out.jsonl"
    desk.run("export", "--out", str(path))
    with path.open(encoding="utf-8") as file:
        monkeypatch.setattr("sys.stdin", file)
        assert desk.run("import", "-", db=str(desk.folder / "o.db")) == (0, "Imported 6, skipped 0\n", "")


def spoil(**changes: Any) -> Any:
    return lambda line: {**line, **changes}


@pytest.mark.parametrize(
    ("spoilt", "code", "text"),
    [
        (spoil(title="a\nb"), 2, "line 3: Invalid title: it holds a control character or a line separator"),
        (spoil(title=5), 2, "line 3: Invalid field: title=5 (expected a string)"),
        (spoil(alias="a--b"), 2, "line 3: Invalid alias: a--b"),
        (spoil(alias="other"), 2, "line 3: Invalid field: aliases (other is missing)"),
        (spoil(aliases=[]), 2, "line 3: Invalid field: aliases (feature-x is missing)"),
        (spoil(aliases="x"), 2, 'line 3: Invalid field: aliases="x" (expected an array of objects)'),
        (spoil(status="LATER"), 2, None),
        (spoil(id="x"), 2, "line 3: Invalid field: id (expected a UUIDv7 in lower case)"),
        (spoil(id="0193a1b2-c3d4-4e5f-8a6b-7c8d9e0f1a2b"), 2, None),
        (
            spoil(parentId="0193a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b"),
            2,
            "line 3: Invalid field: parentId (no scope has the id 0193a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b)",
        ),
        (spoil(position=-1), 2, f"line 3: Invalid field: position=-1 (expected an integer from 0 to {2**53 - 1})"),
        (spoil(position=True), 2, None),
        (spoil(createdAt="2026"), 2, None),
        (spoil(createdAt="2030-01-01T00:00:00.000Z"), 2, "line 3: Invalid field: updatedAt (earlier than createdAt)"),
        (spoil(colour="red"), 2, "line 3: Unknown field: colour"),
        (lambda line: {key: value for key, value in line.items() if key != "title"}, 2, "line 3: Missing field: title"),
        (lambda line: "{", 2, "line 3: not valid JSON"),
        (lambda line: "[" * 100_000, 2, "line 3: not valid JSON"),
        (lambda line: "[]", 2, "line 3: not a JSON object"),
        (spoil(alias="task-1", aliases=[{"name": "task-1", "createdAt": "2026-11-15T18:00:00Z"}]), 1, None),
    ],
)
def test_one_bad_line_and_nothing_is_imported(desk: Desk, spoilt: Any, code: int, text: str | None) -> None:
    lines = desk.export()
    lines[2] = spoilt(lines[2])
    other = str(desk.folder / "other.db")

    ran = desk.take(lines, db=other)

    assert (ran[0], ran[1]) == (code, "")
    assert ran[2].startswith("Error: line ")
    assert text is None or ran[2] == f"Error: {text}\n"
    assert desk.run("list", "--all", db=other)[1] == "No scopes.\n"


@pytest.mark.parametrize("lines", [[], [{"carrelScopes": 2}], [{"id": "x"}]])
def test_what_is_no_export_is_refused(desk: Desk, lines: list[Any]) -> None:
    assert desk.take(lines) == (
        2,
        "",
        'Error: line 1: not an export of scopes: it must begin with {"carrelScopes":1}\n',
    )


def test_a_conflict_is_an_id_that_exists(desk: Desk) -> None:
    lines = desk.export()
    lines[4]["title"] = "Other"

    assert desk.take(lines) == (1, "", f"Error: line 2: Scope already exists: {lines[1]['id']}\n")
    assert desk.take(lines, "--on-conflict", "skip") == (0, "Imported 0, skipped 6\n", "")
    assert get(desk.store, "task-1").title == "Implement API"
    assert desk.take(lines, "--on-conflict", "replace", "--dry-run")[1] == "Would import 0, skip 0, replace 6\n"
    assert get(desk.store, "task-1").title == "Implement API"
    assert json.loads(desk.take(lines, "--on-conflict", "replace", "--json")[1]) == {
        "imported": 0,
        "skipped": 0,
        "replaced": 6,
        "warnings": [],
    }
    assert get(desk.store, "task-1").title == "Other"


def test_a_name_held_by_another_scope_always_fails(desk: Desk) -> None:
    lines = desk.export("task-1")
    lines[1]["id"] = "0193a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b"

    for way in ("fail", "skip", "replace"):
        assert desk.take(lines, "--on-conflict", way) == (1, "", "Error: line 2: Alias already exists: task-1\n")
    lines[1] |= {"alias": "fresh", "aliases": [{"name": "fresh", "createdAt": "2026-11-15T18:00:00.123Z"}]}
    lines[1]["title"] = "Project Alpha"
    assert desk.take(lines)[2] == "Error: line 2: Duplicate title: Project Alpha\n"


def test_what_an_import_changes_gets_a_new_time_and_nothing_else_does(desk: Desk) -> None:
    before = {alias: get(desk.store, alias).updated_at for alias in ALIASES}
    lines = desk.export()
    lines[4] |= {"status": "DONE", "alias": "t1", "aliases": [{"name": "t1", "createdAt": "2026-11-15T18:00:00.123Z"}]}

    assert desk.take(lines, "--on-conflict", "replace")[0] == 0

    after = {alias: get(desk.store, "t1" if alias == "task-1" else alias).updated_at for alias in ALIASES}
    assert {alias for alias in ALIASES if after[alias] > before[alias]} == {"task-1", "feature-x"}
    assert {alias for alias in ALIASES if after[alias] < before[alias]} == set()


ALIASES = ("project-alpha", "feature-x", "feature-y", "task-1", "task-2", "task-3")


def test_an_import_that_would_make_a_cycle_is_refused(desk: Desk) -> None:
    lines = desk.export()
    lines[1]["parentId"] = lines[4]["id"]

    assert desk.take(lines, "--on-conflict", "replace")[2] == (
        "Error: line 2: Cannot move a scope under itself or a descendant: project-alpha\n"
    )


def test_an_archived_scope_is_replaced_by_what_it_was(desk: Desk) -> None:
    lines = desk.export()
    with desk.store.writing() as connection:
        scope = queries.find(connection, "feature-y")
        assert scope is not None
        changes.update(connection, NOW, scope, Change(status="ARCHIVED"))

    desk.take(lines, "--on-conflict", "replace")

    assert get(desk.store, "feature-y").status == "PLANNING"


def test_two_who_swapped_their_names_are_restored(desk: Desk) -> None:
    lines = desk.export()
    for one, other in (("task-1", "task-2"), ("feature-x", "feature-y")):
        with desk.store.writing() as connection:
            first, second = (queries.find(connection, alias) for alias in (one, other))
            assert first is not None
            assert second is not None
            for scope, title in ((first, "Between"), (second, first.title), (first, second.title)):
                changes.update(connection, NOW, get_in(connection, scope.id), Change(title=title))
            for old, new in ((one, "between"), (other, one), ("between", other)):
                changes.rename_alias(connection, NOW, old, new)
    assert get(desk.store, "task-1").title == "Implement API"
    assert get(desk.store, "task-1").id != lines[4]["id"]

    assert desk.take(lines, "--on-conflict", "replace") == (0, "Imported 0, skipped 0, replaced 6\n", "")

    restored = desk.export()
    assert [{**line, "updatedAt": ""} for line in restored] == [{**line, "updatedAt": ""} for line in lines]


def get_in(connection: ScopesConnection, scope_id: str) -> Scope:
    found = queries.by_id(connection, scope_id)
    assert found is not None
    return found


def test_an_exact_import_makes_the_store_what_the_file_says(desk: Desk) -> None:
    assert desk.run("export", "--out", str(desk.folder / "out.jsonl"))[0] == 0
    text = (desk.folder / "out.jsonl").read_text(encoding="utf-8")
    with desk.store.writing() as connection:
        for alias in ("task-1", "task-2", "feature-x"):
            scope = queries.find(connection, alias)
            assert scope is not None
            changes.delete(connection, NOW, scope, cascade=False)
        changes.create(connection, NOW, title="New", alias="task-1")
        top = queries.find(connection, "project-alpha")
        assert top is not None
        changes.create(connection, NOW, title="Feature X", alias="more", parent=top)
        changes.update(connection, NOW, top, Change(title="Renamed"))

    rehearsal = desk.run("import", str(desk.folder / "out.jsonl"), "--exact", "--dry-run")
    ran = desk.run("import", str(desk.folder / "out.jsonl"), "--exact", "--json")

    assert rehearsal == (0, "Would import 3, skip 0, replace 3, remove 2\n", "")
    assert json.loads(ran[1]) == {"imported": 3, "skipped": 0, "replaced": 3, "removed": 2, "warnings": []}
    assert desk.run("export")[1] == text


def test_an_exact_import_of_a_part_needs_its_parents_in_the_file(desk: Desk) -> None:
    lines = desk.export()

    assert desk.take([lines[0], lines[4]], "--exact")[2].startswith("Error: line 2: Invalid field: parentId")
    assert desk.take([lines[0]], "--exact") == (0, "Imported 0, skipped 0, removed 6\n", "")
    assert desk.export() == [lines[0]]


def test_a_swap_that_leaves_two_of_one_title_is_refused(desk: Desk) -> None:
    lines = desk.export()
    lines[4]["title"] = lines[5]["title"]

    assert desk.take(lines, "--on-conflict", "replace") == (1, "", "Error: line 5: Duplicate title: Write tests\n")
    assert get(desk.store, "task-1").title == "Implement API"


def test_nobody_waits_while_an_import_reads(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "BUSY_MS", 20)
    lines = [json.dumps(line).encode() for line in desk.export()]

    def slowly() -> Iterator[bytes]:
        for number, line in enumerate(lines):
            plant(desk.store, ((f"meanwhile-{number}", f"Meanwhile {number}", "TODO", None),))
            yield line

    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=slowly()))

    assert desk.run("import", "-", "--on-conflict", "skip") == (0, "Imported 0, skipped 6\n", "")


@LOCAL
def test_other_writers_wait_for_an_import_however_long_it_takes(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "BUSY_MS", 20)
    other = Store(desk.store.path)
    has_waited, failures = Event(), list[ScopeError]()
    look = Store._is_announced

    def told(store: Store) -> bool:
        is_announced = look(store)
        has_waited.set()
        return is_announced

    def write() -> None:
        try:
            plant(other, (("late", "Late", "TODO", None),))
        except ScopeError as error:
            failures.append(error)

    monkeypatch.setattr(Store, "_is_announced", told)
    writer = Thread(target=write)
    with desk.store.writing(is_long=True) as connection:
        writer.start()
        assert has_waited.wait(30)
        changes.create(connection, NOW, title="Imported", alias="imported")
    writer.join(30)

    assert failures == []
    assert (get(desk.store, "late").title, get(desk.store, "imported").title) == ("Late", "Imported")
    other.close()


def test_an_export_is_for_the_user_alone(desk: Desk) -> None:
    out = desk.folder / "out.jsonl"
    out.write_text("before")
    out.chmod(0o644)

    assert desk.run("export", "--out", str(out)) == (0, "", "")

    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert [path.name for path in desk.folder.iterdir() if ".tmp" in path.name] == []
    assert desk.run("export", "--out", str(desk.folder / "none/out"))[2].endswith("No such file or directory\n")


def test_a_rehearsal_makes_no_store(desk: Desk) -> None:
    lines = desk.export()

    assert desk.take(lines, "--dry-run", db=str(desk.folder / "none.db"))[1] == "Would import 6, skip 0\n"
    assert not (desk.folder / "none.db").exists()


def test_import_wants_one_source(desk: Desk) -> None:
    assert desk.run("import")[0] == 2
    assert desk.run("import", "a", "--from-scopes-db", "b")[0] == 2
    assert desk.run("import", "nowhere.jsonl") == (
        2,
        "",
        "Error: cannot read nowhere.jsonl: No such file or directory\n",
    )
    assert desk.run("import", "--from-scopes-db", "nowhere.db")[0] == 2


# The original application

ORIGINAL = """
CREATE TABLE scopes (id TEXT PRIMARY KEY, title TEXT, description TEXT, parent_id TEXT, created_at INTEGER,
  updated_at INTEGER);
CREATE TABLE scope_aliases (id TEXT PRIMARY KEY, scope_id TEXT, alias_name TEXT, alias_type TEXT, created_at INTEGER,
  updated_at INTEGER);
CREATE TABLE scope_aspects (scope_id TEXT, aspect_key TEXT, aspect_value TEXT);
CREATE TABLE aspect_definitions (key TEXT); CREATE TABLE context_views (id TEXT); CREATE TABLE active_context (id TEXT);
"""
TOP, KID, TWIN, LOST = (
    "01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "01ARZ3NDEKTSV4RRFFQ69G5FAW",
    "plain-id",
    "01ARZ3NDEKTSV4RRFFQ69G5FAX",
)


@pytest.fixture(name="original")
def original_database(tmp_path: Path) -> Path:
    path = tmp_path / "original.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(ORIGINAL)
        connection.executemany(
            "INSERT INTO scopes VALUES (?, ?, ?, ?, ?, ?)",
            [
                (TOP, "Top", "About", None, 1_000, 5_000),
                (TWIN, "Task", None, TOP, 3_000, 3_000),
                (KID, "Task", "", TOP, 2_000, 1_000),
                (LOST, "Bell\x07", None, "gone", 4_000, 4_000),
            ],
        )
        connection.executemany(
            "INSERT INTO scope_aliases VALUES (?, ?, ?, ?, ?, ?)",
            [
                ("a3", TOP, "newer-top", "CANONICAL", 1_002, 0),
                ("a1", TOP, "top-scope", "CANONICAL", 1_001, 0),
                ("a2", TOP, "zz-top", "CUSTOM", 1_000, 0),
                ("a4", KID, "kid", "CANONICAL", 2_000, 0),
                ("a5", TWIN, "twin", "CANONICAL", 3_000, 0),
                ("a6", TWIN, "bad--alias", "CUSTOM", 3_000, 0),
            ],
        )
        connection.executemany(
            "INSERT INTO scope_aspects VALUES (?, ?, ?)",
            [
                (TOP, "status", "active"),
                (KID, "status", "Completed"),
                (TWIN, "status", "whatever"),
                (TOP, "priority", "high"),
                (KID, "type", "bug"),
            ],
        )
        connection.commit()
    return path


def test_ids_of_the_original_are_made_ours_by_a_fixed_rule() -> None:
    assert convert_id(TOP, 0) == "01563e3a-b5d3-7676-8c61-efb99302bd5b"
    assert convert_id(TOP.lower(), 0) == "01563e3a-b5d3-7676-8c61-efb99302bd5b"
    assert convert_id("plain-id", 3_000).startswith("00000000-0bb8-7")
    assert convert_id("8" + TOP[1:], 0).startswith("00000000-0000-7")


def test_the_originals_database_is_imported_once(desk: Desk, original: Path) -> None:
    content, db = original.read_bytes(), str(desk.folder / "from.db")

    code, out, err = desk.run("import", "--from-scopes-db", str(original), db=db)

    assert (code, out) == (0, "Imported 4, skipped 0\n")
    assert len(err.splitlines()) == 6
    for said in (
        f"scope {TWIN}: its alias bad--alias is left out",
        f"scope {TWIN}: a sibling has its title; it is now Task (2)",
        f"scope {LOST}: its parent gone is missing; it is a root now",
        f"scope {LOST}: control characters in its title became U+FFFD",
        f"scope {LOST}: it has no canonical alias; it is now ",
        "2 aspects are not imported: Carrel has no aspects",
    ):
        assert f"Warning: {said}" in err
    store = Store(db)
    top = told(store, "zz-top")
    assert (top["alias"], top["aliases"], top["children"], top["status"]) == (
        "top-scope",
        ["top-scope", "newer-top", "zz-top"],
        ["kid", "twin"],
        "IN_PROGRESS",
    )
    assert (top["id"], top["createdAt"], top["updatedAt"], top["description"]) == (
        "01563e3a-b5d3-7676-8c61-efb99302bd5b",
        "1970-01-01T00:00:01.000Z",
        "1970-01-01T00:00:05.000Z",
        "About",
    )
    kid, twin = get(store, "kid"), get(store, "twin")
    assert (kid.status, kid.title, kid.updated_at, kid.position) == ("DONE", "Task", 2_000, 0)
    assert (twin.status, twin.title, twin.position) == ("TODO", "Task (2)", 1)
    check_invariants(store)
    store.close()
    again = desk.run("import", "--from-scopes-db", str(original), "--on-conflict", "skip", db=db)
    assert again == (0, "Imported 0, skipped 4\n", "")
    assert original.read_bytes() == content


def test_only_what_is_taken_in_is_warned_of(desk: Desk, original: Path) -> None:
    db = str(desk.folder / "from.db")
    desk.run("import", "--from-scopes-db", str(original), db=db)
    assert desk.run("delete", "kid", db=db)[0] == 0

    again = desk.run("import", "--from-scopes-db", str(original), "--on-conflict", "skip", db=db)

    assert again == (0, "Imported 1, skipped 3\n", "Warning: 1 aspects are not imported: Carrel has no aspects\n")


def test_a_cycle_in_the_original_refuses_the_import(desk: Desk, original: Path) -> None:
    with closing(sqlite3.connect(original)) as connection:
        connection.execute("UPDATE scopes SET parent_id = ? WHERE id = ?", (KID, TOP))
        connection.commit()

    assert desk.run("import", "--from-scopes-db", str(original)) == (
        1,
        "",
        "Error: The scopes to import make a cycle: some are their own ancestors\n",
    )


def test_another_database_is_no_original(desk: Desk, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        connection.execute("CREATE TABLE notes (x)")

    code, _, err = desk.run("import", "--from-scopes-db", str(tmp_path / "x.db"))

    assert (code, "is not a database of the original Scopes application" in err) == (1, True)


def test_a_new_child_moves_the_time_of_a_parent_that_was_there(desk: Desk) -> None:
    before = get(desk.store, "feature-y").updated_at
    lines = desk.export()
    plant(desk.store, (("extra", "Extra", "TODO", None),))
    with desk.store.writing() as connection:
        scope = queries.find(connection, "task-3")
        assert scope is not None
        changes.delete(connection, NOW, scope, cascade=False)
    between = get(desk.store, "feature-y").updated_at

    assert desk.take(lines, "--on-conflict", "skip")[1] == "Imported 1, skipped 5\n"

    assert before < between < get(desk.store, "feature-y").updated_at
