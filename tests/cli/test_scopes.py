"""`carrel scopes`: what each command prints, as text and as JSON, and how it exits."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from carrel.cli.scopes import scopes
from carrel.cli.scopes_work import WORK
from carrel.providers.scopes.commands import COMMANDS
from tests.support.command_line import Ran, Run, runner
from tests.support.scopes_sample import TREE, get, plant, planted, store_in, told


@pytest.fixture(name="project", autouse=True)
def project_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "desk"
    folder.mkdir()
    planted(folder).close()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return folder


@pytest.fixture(name="run")
def scopes_command(capfd: pytest.CaptureFixture[str]) -> Run:
    return runner(capfd, "scopes")


def test_every_command_of_the_table_exists_and_no_other() -> None:
    names = []
    for name, command in scopes.commands.items():
        inner = getattr(command, "commands", None)
        names += [name] if inner is None else [f"{name} {one}" for one in inner]

    assert sorted(names) == sorted(WORK) == sorted(command.name for command in COMMANDS)


def test_create(run: Run) -> None:
    assert run("create", " New ", "-a", "NEW", "-s", "done", "-d", "text", "-p", "task-1") == Ran(
        0, "Created new (New) [DONE]\n", ""
    )
    made = run("create", "Newer", "--json")
    assert re.fullmatch(r"[a-z]+-[a-z]+-[a-z0-9]{3}", json.loads(made.out)["alias"])


def test_show(run: Run, project: Path) -> None:
    run("update", "feature-x", "-d", "Line one\nLine two")
    store = store_in(project)
    x = told(store, "feature-x")

    shown = run("show", x["id"].upper())

    assert shown.out == (
        "feature-x (Feature X) [IN_PROGRESS]\n"
        f"id: {x['id']}\nparent: project-alpha\naliases: feature-x\nchildren: 2\n"
        f"created: {x['createdAt']}\nupdated: {x['updatedAt']}\n\nLine one\nLine two\n"
    )
    assert json.loads(run("--json", "show", "feature-x").out) == x
    assert json.loads(run("show", "--json", "feature-x").out) == x
    store.close()


def test_update(run: Run, project: Path) -> None:
    assert run("update", "task-1", "-t", "New") == Ran(0, "Updated task-1\n", "")
    assert run("update", "task-1", "-t", "New") == Ran(0, "No change: task-1\n", "")
    stale = run("update", "task-1", "-t", "x", "--if-updated-at", "2020-01-01T00:00:00.000Z")
    assert (stale.code, stale.err) == (1, "Error: Scope was changed meanwhile: task-1\n")
    store = store_in(project)
    now = told(store, "task-1")["updatedAt"]
    store.close()
    assert run("update", "task-1", "-d", "d", "--if-updated-at", now).code == 0
    assert (run("update", "task-1").code, run("update", "task-1", "--if-updated-at", now).code) == (2, 2)


def test_status(run: Run) -> None:
    assert run("status", "task-1") == Ran(0, "TODO\n", "")
    assert run("status", "task-1", "in-progress") == Ran(0, "task-1: TODO -> IN_PROGRESS\n", "")
    assert run("status", "task-1", "archived") == Ran(0, "task-1: IN_PROGRESS -> ARCHIVED\n", "")
    back = "(to restore it: carrel scopes status task-1 --restore)"
    assert run("status", "task-1", "done") == Ran(1, "", f"Error: Scope is archived: task-1 {back}\n")
    assert run("status", "task-1", "done", "--restore") == Ran(0, "task-1: ARCHIVED -> DONE\n", "")
    assert run("status", "task-1", "--restore") == Ran(0, "task-1: DONE -> DONE\n", "")
    assert run("status", "task-1", "later").code == 2


@pytest.mark.parametrize(
    ("command", "values"),
    [
        ("create", "PLANNING, TODO, IN_PROGRESS, BLOCKED, DONE, ARCHIVED"),
        ("list", "PLANNING, TODO, IN_PROGRESS, BLOCKED, DONE, ARCHIVED"),
        ("import", "fail, skip, replace"),
    ],
)
def test_help_names_the_values_of_an_option(run: Run, command: str, values: str) -> None:
    assert values in " ".join(run(command, "--help").out.split())


def test_move(run: Run) -> None:
    assert run("move", "task-3", "--parent", "feature-x", "--before", "task-1") == Ran(
        0, "Moved task-3 to feature-x\n", ""
    )
    assert run("move", "task-3", "--after", "task-2").out == "Moved task-3 to feature-x\n"
    assert json.loads(run("show", "feature-x", "--json").out)["children"] == ["task-1", "task-2", "task-3"]
    assert run("move", "task-3", "--root") == Ran(0, "Moved task-3 to the root\n", "")
    assert run("move", "feature-x", "--parent", "task-1").code == 1
    for words in ((), ("--root", "--parent", "task-1"), ("--before", "task-1", "--after", "task-2")):
        assert run("move", "task-2", *words).code == 2


def test_delete(run: Run) -> None:
    assert run("delete", "feature-x") == Ran(1, "", "Error: Scope has 2 children: feature-x\n")
    assert run("delete", "feature-x", "--cascade", "--dry-run").out == "Would delete feature-x and 2 descendants\n"
    assert json.loads(run("delete", "feature-x", "--cascade", "--dry-run", "--json").out) == {
        "alias": "feature-x",
        "deleted": False,
        "count": 3,
    }
    assert run("delete", "feature-x", "--cascade") == Ran(0, "Deleted feature-x and 2 descendants\n", "")
    assert run("delete", "task-3") == Ran(0, "Deleted task-3\n", "")
    assert json.loads(run("delete", "feature-y", "--json").out) == {"alias": "feature-y", "deleted": True, "count": 1}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (
            ("delete", "feature-x"),
            1,
            ["Error: Scope has 2 children: feature-x", "To delete its descendants too, add --cascade"],
        ),
        (
            ("create", "Ä", "--alias", "ä b"),
            2,
            [
                "Error: Invalid alias: ä b",
                "An alias begins with a letter, and has 2 to 64 of a-z, 0-9, and single - and _ between them",
            ],
        ),
    ],
)
def test_at_a_terminal_an_error_comes_with_what_to_do(
    project: Path, words: tuple[str, ...], code: int, told: list[str]
) -> None:
    outer, inner = pty.openpty()
    command = [sys.executable, "-m", "carrel", "scopes", "--project", str(project), *words]
    ran = subprocess.run(command, stderr=inner, check=False)
    os.close(inner)
    shown = os.read(outer, 65_536).decode().splitlines()
    os.close(outer)

    assert (ran.returncode, shown) == (code, told)


def test_wrong_usage_is_reported_as_every_error_of_scopes(run: Run) -> None:
    ran = run("list", "--nope")

    assert (ran.code, ran.out, ran.err.splitlines()[-1]) == (2, "", "Error: No such option '--nope'.")


def test_list(run: Run) -> None:
    assert run("list") == Ran(0, "project-alpha (Project Alpha) [IN_PROGRESS]\n", "")
    assert run("list", "-p", "feature-y").out == "task-3 (Design UI) [TODO]\n"
    assert run("list", "--all", "--limit", "2", "--offset", "1").out == (
        "feature-y (Feature Y) [PLANNING]\nproject-alpha (Project Alpha) [IN_PROGRESS]\n"
        "Showing 2-3 of 6; next: --offset 3\n"
    )
    assert (
        run("list", "--all", "--status", "planning", "--status", "in-progress", "--json").out
        == json.dumps(
            {
                "scopes": [
                    {"alias": "feature-x", "title": "Feature X", "status": "IN_PROGRESS"},
                    {"alias": "feature-y", "title": "Feature Y", "status": "PLANNING"},
                    {"alias": "project-alpha", "title": "Project Alpha", "status": "IN_PROGRESS"},
                ],
                "total": 3,
                "nextOffset": None,
            },
            indent=2,
        )
        + "\n"
    )
    assert run("list", "-p", "task-1") == Ran(0, "No scopes.\n", "")
    assert json.loads(run("list", "--all", "--limit", "1", "--json").out)["nextOffset"] == 1
    for words in (
        ("--limit", "0"),
        ("--limit", "1001"),
        ("--offset", "-1"),
        ("--all", "-p", "task-1"),
        ("--limit", "x"),
    ):
        assert run("list", *words).code == 2


def test_tree(run: Run) -> None:
    assert run("tree", "project-alpha", "--depth", "2") == Ran(0, f"{TREE}\n", "")
    paged = json.loads(run("tree", "project-alpha", "--limit", "1", "--json").out)
    assert {**paged, "etag": len(paged["etag"])} == {
        "uri": "scopes://tree/project-alpha?limit=1",
        "text": "project-alpha (Project Alpha) [IN_PROGRESS]\n└── feature-x (Feature X) [IN_PROGRESS]\n"
        "... 1 more: scopes://tree/project-alpha?skip=1&limit=1",
        "etag": 64,
        "nodes": 2,
        "truncated": False,
        "next": "scopes://tree/project-alpha?skip=1&limit=1",
    }
    assert run("tree", "project-alpha", "--limit", "0") == Ran(
        2, "", "Error: Invalid parameter: limit=0 (expected an integer from 1 to 1000)\n"
    )


@pytest.mark.slow
def test_the_tree_is_coloured_on_a_terminal(project: Path) -> None:
    outer, inner = pty.openpty()
    command = [sys.executable, "-m", "carrel", "scopes", "--project", str(project), "tree", "project-alpha"]
    environment = {**os.environ, "TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    ran = subprocess.run(command, stdout=inner, env=environment, check=False)
    os.close(inner)
    shown = os.read(outer, 65_536).decode()
    os.close(outer)

    assert ran.returncode == 0
    assert "\x1b[33m[IN_PROGRESS]\x1b[0m" in shown
    assert re.sub(r"\x1b\[[0-9;]*m|\r", "", shown).splitlines()[1] == "├── feature-x (Feature X) [IN_PROGRESS]"


def test_aliases(run: Run) -> None:
    assert run("alias", "add", "task-1", "API") == Ran(0, "Added api to task-1\n", "")
    assert run("alias", "list", "api") == Ran(0, "task-1 (canonical)\napi\n", "")
    assert run("alias", "set-canonical", "task-1", "api") == Ran(0, "Canonical alias: api\n", "")
    assert run("alias", "rename", "api", "main-api") == Ran(0, "Renamed api to main-api\n", "")
    assert run("alias", "rm", "main-api", "main-api") == Ran(1, "", "Error: Cannot remove canonical alias: main-api\n")
    assert run("alias", "rm", "main-api", "task-1") == Ran(0, "Removed task-1 from main-api\n", "")
    added = json.loads(run("alias", "add", "main-api", "aa", "--canonical", "--json").out)
    assert [(one["name"], one["canonical"]) for one in added["aliases"]] == [("aa", True), ("main-api", False)]
    assert (added["scope"], sorted(added["aliases"][0])) == ("aa", ["canonical", "createdAt", "name"])
    assert run("alias", "add", "aa", "bb", "--canonical") == Ran(0, "Added bb to aa\n", "")
    assert run("alias", "rename", "nobody", "other") == Ran(1, "", "Error: Alias not found: nobody\n")


# Errors


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("show", "nobody"), 1, {"error": "Scope not found: nobody", "code": "SCOPE_NOT_FOUND", "status": 404}),
        (("show", "a--b"), 2, {"error": "Invalid alias: a--b", "code": "INVALID_ALIAS", "status": 400}),
        (("create", " "), 2, None),
        (
            ("create", "x", "-a", "task-1"),
            1,
            {"error": "Alias already exists: task-1", "code": "DUPLICATE_ALIAS", "status": 409},
        ),
        (("update", "task-1"), 2, None),
        (("nothing",), 2, None),
        (("show",), 2, None),
        (("list", "--nope"), 2, None),
    ],
)
def test_an_error_in_json_stands_on_stderr(run: Run, words: tuple[str, ...], code: int, error: Any) -> None:
    ran = run("--json", *words)

    told_error = json.loads(ran.err)
    assert (ran.code, ran.out, list(told_error)) == (code, "", ["error", "code", "status"])
    assert error is None or told_error == error
    assert run(*words, "--json").err == ran.err


def test_a_store_that_cannot_be_used_is_named_with_its_reason(run: Run, project: Path) -> None:
    (project / "x.db").write_bytes(b"no database at all, whatever SQLite may hope" * 100)

    ran = run("--db", "x.db", "list")

    assert ran == Ran(1, "", f"Error: {project.resolve() / 'x.db'}: file is not a database\n")
    assert run("--db", "x.db", "create", "x").code == 1


def test_another_store_and_another_project_can_be_named(run: Run, project: Path, tmp_path: Path) -> None:
    assert run("--db", str(tmp_path / "other.db"), "create", "Elsewhere", "-a", "else").code == 0
    assert run("list", "--db", str(tmp_path / "other.db")).out == "else (Elsewhere) [TODO]\n"
    os.chdir("/")
    assert run("--project", str(project), "status", "task-1").out == "TODO\n"
    assert run("status", "task-1", "--project", str(project)).out == "TODO\n"
    assert run("list", "--project", str(tmp_path / "nowhere")).code == 2


def test_the_configured_store_is_used(run: Run, project: Path) -> None:
    (project / "carrel.toml").write_text("[scopes]\ndb = 'data/tasks.db'\nmax_nodes_ceiling = 2\n", encoding="utf-8")

    assert run("list").out == "No scopes.\n"
    run("create", "One", "-a", "one")
    assert (project / "data/tasks.db").exists()
    assert run("tree", "one", "--max-nodes", "3").code == 2


def test_reading_and_failing_make_no_store(run: Run, project: Path) -> None:
    for words in (
        ("list",),
        ("show", "ab"),
        ("export",),
        ("delete", "ab"),
        ("create", " "),
        ("alias", "rename", "ab", "cd"),
    ):
        run("--db", "none/none.db", *words)
    run("--db", "none/none.db", "create", "x", "-p", "nobody")

    assert not (project / "none").exists()


@pytest.mark.slow
def test_two_command_lines_see_each_other(run: Run, project: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "carrel", "scopes", "status", "task-1", "done"], check=True, capture_output=True
    )

    assert run("status", "task-1").out == "DONE\n"
    store = store_in(project)
    plant(store, (("late", "Late", "TODO", None),))
    assert get(store, "task-1").status == "DONE"
    store.close()
    assert run("status", "late").out == "TODO\n"
