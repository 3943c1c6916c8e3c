"""`carrel store copy`: everything arrives, either way, and nothing is lost."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from carrel.cli import main
from carrel.core.store_address import parse_address
from carrel.providers.sage.record_files import parse_index
from carrel.providers.sage.team_files import TeamFiles
from carrel.providers.scopes import changes, json_lines, queries, tool_calls
from carrel.providers.scopes.connection import ScopesStore
from carrel.providers.scopes.team_store import TeamStore
from carrel.stores.shared import acquire, release
from tests.providers.logs.test_pushed_logs import end, entry, push
from tests.support import logging_project
from tests.support.logging_project import logs, text, writer
from tests.support.postgres import PostgresServer, fresh_schema
from tests.support.sage_folder import FILES, lay_out, put
from tests.support.scopes_sample import NOW, check_invariants, file_in, get, planted_file, told
from tests.support.waiting import until

LOGS = "logs: 0 copied, 0 already there; 0 compared, all equal\n"
SAGE = sum(name.startswith(".sage/") for name in FILES)


class Copied(NamedTuple):
    """What the command did."""

    code: int
    out: str
    err: str


Copy = Callable[..., Copied]


@pytest.fixture(name="project")
def project_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = lay_out(tmp_path / "shop")
    planted_file(folder).close()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(name="copy")
def copy_command(capfd: pytest.CaptureFixture[str]) -> Copy:
    def copy(*words: str) -> Copied:
        code = main(["store", "copy", *words])
        return Copied(code, *capfd.readouterr())

    return copy


@pytest.fixture(name="team")
def team_scopes(store_url: str) -> Iterator[TeamStore]:
    with closing(TeamStore(parse_address(store_url))) as team:
        team.prepare()
        yield team


def exported(store: ScopesStore) -> list[str]:
    """Return all scopes as lines."""
    with store.reading() as connection:
        return [] if connection is None else list(json_lines.export(connection, None))


def memory_of(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return the files of a memory with their times."""
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}


def memory_in(url: str) -> dict[str, tuple[bytes, int]]:
    """Return the same of a store."""
    database = acquire(parse_address(url))
    try:
        with closing(TeamFiles(parse_address(url))) as files:
            files.refresh()
            return memory_of(Path(files.folder))
    finally:
        release(database)


def test_everything_goes_to_the_store_and_back(
    project: Path, store_url: str, team: TeamStore, copy: Copy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = copy("local", store_url)

    assert there == Copied(
        0,
        "scopes: 6 copied, 0 already there; 6 compared, all equal\n"
        f"sage: {SAGE} copied, 0 already there; {SAGE} compared, all equal\n{LOGS}",
        "",
    )
    local = file_in(project)
    assert exported(team) == exported(local)
    assert memory_in(store_url) == memory_of(project / ".sage")
    check_invariants(team)
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    monkeypatch.setenv("CARREL_SCOPES_DB", str(tmp_path / "other/mine.db"))
    back = copy(store_url, "local")

    assert back.code == 0, back.err
    assert memory_of(tmp_path / "other/.sage") == memory_of(project / ".sage")
    assert (tmp_path / "other/mine.db").exists()


def test_a_copy_that_is_repeated_finds_everything_there(
    project: Path, store_url: str, team: TeamStore, copy: Copy
) -> None:
    copy("local", store_url)
    before = exported(team)

    again = copy("local", store_url, "--json")

    assert json.loads(again.out) == [
        {"kind": "scopes", "copied": 0, "same": 6, "replaced": 0, "verified": 6},
        {"kind": "sage", "copied": 0, "same": SAGE, "replaced": 0, "verified": SAGE},
        {"kind": "logs", "copied": 0, "same": 0, "replaced": 0, "verified": 0},
    ]
    assert exported(team) == before == exported(file_in(project))


def test_from_one_store_to_another(
    project: Path, store_url: str, team: TeamStore, copy: Copy, postgres: PostgresServer
) -> None:
    copy("local", store_url)
    with fresh_schema(postgres) as other_url:
        assert copy(store_url, other_url).code == 0
        with closing(TeamStore(parse_address(other_url))) as other:
            assert exported(other) == exported(team)
        assert memory_in(other_url) == memory_of(project / ".sage")


def test_what_only_the_target_has_stays(project: Path, store_url: str, team: TeamStore, copy: Copy) -> None:
    with team.writing() as connection:
        changes.create(connection, NOW, title="Ours", alias="ours")

    assert copy("local", store_url).code == 0

    assert get(team, "ours").title == "Ours"
    assert get(team, "task-1").title == "Implement API"


def test_another_version_in_the_target_is_a_conflict_and_nothing_is_copied(
    project: Path, store_url: str, team: TeamStore, copy: Copy
) -> None:
    copy("local", store_url)
    with closing(file_in(project)) as local, local.writing() as connection:
        changes.update(connection, NOW + 5, get(local, "task-1"), changes.Change(title="Mine"))
        changes.create(connection, NOW + 5, title="New", alias="new")
    put(project / ".sage/system/new.md", "New.")
    before = exported(team)

    refused = copy("local", store_url)

    assert refused == Copied(
        1,
        "",
        "carrel: scopes: 1 of the records differ in the target, and nothing was copied: task-1; "
        "to overwrite them with those of the source, add --replace\n",
    )
    assert exported(team) == before
    replaced = copy("local", store_url, "--replace")
    assert replaced.out.splitlines()[0] == "scopes: 1 copied, 1 replaced, 5 already there; 7 compared, all equal"
    assert exported(team) == exported(file_in(project))


def test_another_version_of_a_file_is_a_conflict(project: Path, store_url: str, team: TeamStore, copy: Copy) -> None:
    copy("local", store_url)
    put(project / ".sage/system/objective.md", "Another.")

    refused = copy("local", store_url)

    assert (refused.code, "system/objective.md; to overwrite" in refused.err) == (1, True)
    assert memory_in(store_url)["system/objective.md"][0] == FILES[".sage/system/objective.md"].encode()
    assert copy("local", store_url, "--replace").code == 0
    assert memory_in(store_url) == memory_of(project / ".sage")


def test_knowledge_that_only_one_side_has_is_no_conflict_and_stays(
    project: Path, store_url: str, team: TeamStore, copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save(name: str, content: str, url: str = "") -> None:
        monkeypatch.setenv("CARREL_STORE_URL", url)
        assert main(["sage", "save-knowledge", name, "--keyword", name, "--content", content]) == 0
        monkeypatch.delenv("CARREL_STORE_URL")

    def knowledge() -> list[str]:
        index = memory_in(store_url)["knowledge/index.yaml"][0].decode()
        return [item.id for item in parse_index(index)]

    copy("local", store_url)
    old = knowledge()
    save("mine", "Here.")
    save("theirs", "There.", store_url)
    copied = copy("local", store_url)
    assert copied.out.splitlines()[-2].startswith(f"sage: 1 copied, {SAGE} already there; "), copied.err
    assert sorted(knowledge()) == sorted([*old, "mine", "theirs"])
    assert copy("local", store_url).out.splitlines()[1].startswith(f"sage: 0 copied, {SAGE + 1} already there; ")

    save("mine", "Changed here.")
    save("theirs", "Changed there.", store_url)
    refused = copy("local", store_url)
    assert (refused.code, "sage: 2 of the records differ" in refused.err) == (1, True)
    assert copy("local", store_url, "--replace").code == 0
    assert sorted(knowledge()) == sorted([*old, "mine", "theirs"])
    memory = memory_in(store_url)
    assert b"Changed here." in memory["knowledge/global/mine.md"][0]
    assert b"Changed there." in memory["knowledge/global/theirs.md"][0]


def test_an_index_of_knowledge_that_cannot_be_read_is_a_conflict(
    project: Path, store_url: str, team: TeamStore, copy: Copy
) -> None:
    copy("local", store_url)
    circular = "items:\n- &a\n  id: a\n  file: a.md\n  more: *a\n"
    for index in ("items: [", circular, circular.replace("&a", "&b").replace("*a", "*b")):
        put(project / ".sage/knowledge/index.yaml", index)
        assert "nothing was copied: knowledge/index.yaml" in copy("local", store_url).err
        assert copy("local", store_url, "--replace").code == 0


@pytest.mark.parametrize("target", ["store", "local"])
def test_a_scope_that_is_newer_in_the_target_is_replaced_with_its_old_time(
    project: Path, store_url: str, team: TeamStore, copy: Copy, target: str
) -> None:
    copy("local", store_url)
    with closing(file_in(project)) as local:
        sides: dict[str, ScopesStore] = {"local": local, "store": team}
        changed = sides.pop(target)
        [kept] = sides.values()
        with changed.writing() as connection:
            changes.update(connection, NOW + 5, get(changed, "task-1"), changes.Change(title="Newer"))
            changes.create(connection, NOW + 5, title="Only there", alias="extra", parent=get(changed, "task-1"))
        words = ("local", store_url) if target == "store" else (store_url, "local")

        replaced = copy(*words, "--replace")

        lines = replaced.out.splitlines()
        assert lines[:1] == ["scopes: 0 copied, 1 replaced, 5 already there; 6 compared, all equal"], replaced.err
        assert len(lines) == 3
        assert get(changed, "task-1") == get(kept, "task-1")
        assert get(changed, "extra").parent_id == get(kept, "task-1").id


@pytest.mark.parametrize("target", ["store", "local"])
def test_a_scope_that_got_a_child_on_either_side_is_no_conflict(
    project: Path, store_url: str, team: TeamStore, copy: Copy, target: str
) -> None:
    copy("local", store_url)
    with closing(file_in(project)) as local:
        sides: tuple[ScopesStore, ...] = local, team
        for number, store in enumerate(sides):
            with store.writing() as connection:
                parent = queries.find(connection, "feature-x")
                changes.create(connection, NOW + 5, title=f"Child {number}", alias=f"child-{number}", parent=parent)
        words = ("local", store_url) if target == "store" else (store_url, "local")

        copied = copy(*words)
        again = copy(*words)
        back = copy(*reversed(words))

        first = "scopes: 1 copied, 6 already there; 7 compared, all equal"
        assert [one.out.splitlines()[:1] for one in (copied, again, back)] == [
            [first],
            ["scopes: 0 copied, 7 already there; 7 compared, all equal"],
            ["scopes: 1 copied, 7 already there; 8 compared, all equal"],
        ], (copied.err, again.err, back.err)
        assert told(local, "feature-x")["children"] == told(team, "feature-x")["children"]
        assert get(local, "feature-x").updated_at > NOW + 5
        assert copy("local", store_url).code == 0
        assert exported(local) == exported(team)
        check_invariants(local)
        check_invariants(team)


def test_the_aliases_of_a_copied_scope_that_others_have_are_named_with_what_to_do(
    project: Path, store_url: str, team: TeamStore, copy: Copy
) -> None:
    with team.writing() as connection:
        changes.create(connection, NOW, title="Ours", alias="task-1")
    before = exported(team)

    for words in (("local", store_url), ("local", store_url, "--replace")):
        assert copy(*words) == Copied(
            1,
            "",
            "carrel: scopes: nothing was copied: task-1 (Implement API): Alias already exists: task-1; "
            "another scope of the target has it: rename one of the two with `carrel scopes alias rename`, "
            "then run the command again\n",
        )
    assert exported(team) == before


def test_a_title_that_a_sibling_in_the_target_has_is_named_with_what_to_do(
    project: Path, store_url: str, team: TeamStore, copy: Copy
) -> None:
    with team.writing() as connection:
        changes.create(connection, NOW, title="Project Alpha", alias="ours")

    assert copy("local", store_url) == Copied(
        1,
        "",
        "carrel: scopes: nothing was copied: project-alpha (Project Alpha): Duplicate title: Project Alpha; "
        "another scope of the target has it under the same parent: change one of the two with "
        "`carrel scopes update --title`, then run the command again\n",
    )


def test_results_of_calls_with_a_key_are_copied_too(project: Path, store_url: str, team: TeamStore, copy: Copy) -> None:
    call = {"title": "Once", "idempotencyKey": "key-0001"}
    with closing(file_in(project)) as local:
        first = tool_calls.call(local, "scopes.create", call, 10)
    copy("local", store_url)

    assert tool_calls.call(team, "scopes.create", call, 10) == first


def test_logs_that_other_machines_sent_are_copied_and_grow_on(
    project: Path, store_url: str, team: TeamStore, copy: Copy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(logs(project)) as local:
        push(local, entry(1))
        push(local, entry(1), end(2), uri="logs://run/ci_2")
    writer(project).end(0)

    there = copy("local", store_url)
    assert there.out.splitlines()[2] == "logs: 2 copied, 0 already there; 2 compared, all equal"
    with logging_project.in_team(parse_address(store_url), is_emptied=False):
        served = logs(tmp_path)
        assert [one.uri for one in served.entries()] == ["logs://build/ci_1", "logs://run/ci_2"]
        push(served, entry(2))
        assert text(served, "logs://build/ci_1") == "line 1\nline 2\n"
    refused = copy("local", store_url)
    assert (refused.code, "logs: 1 of the records differ in the target" in refused.err) == (1, True)
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert copy(store_url, "local").code == 0
    with closing(logs(tmp_path / "other")) as other:
        assert text(other, "logs://build/ci_1") == "line 1\nline 2\n"


def test_an_empty_project_copies_nothing_and_creates_nothing(
    tmp_path: Path, store_url: str, team: TeamStore, copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    monkeypatch.setenv("HOME", str(tmp_path))

    assert copy("local", store_url).code == 0
    assert copy(store_url, "local").code == 0

    assert list((tmp_path / "empty").iterdir()) == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("local", "local"), "FROM and TO are the same store: give `local` and a URL, or two URLs"),
        (("locl", "local"), "FROM: expected a URL such as postgresql://user@host:5432/database, or `local`"),
        (
            ("local", "http://ann:s3cret@db"),
            "TO: expected a URL such as postgresql://user@host:5432/database, or `local`",
        ),
        (
            ("local", "postgresql://ann:s3cret@no-such-host.invalid/team"),
            "the store no-such-host.invalid/team cannot be found: check the name of the host",
        ),
    ],
)
def test_bad_input_is_one_sentence_and_code_2(project: Path, copy: Copy, words: tuple[str, ...], sentence: str) -> None:
    assert copy(*words) == Copied(2, "", f"carrel: {sentence}\n")


@pytest.mark.slow
def test_a_copy_that_is_killed_again_and_again_is_finished_by_the_same_command(
    project: Path, store_url: str, team: TeamStore, tmp_path: Path
) -> None:
    for number in range(150):
        put(project / f".sage/system/notes/{number}.md", f"Note {number}.\n" * 50)
    words = [sys.executable, "-m", "carrel", "store", "copy", "local", store_url]

    kills = 0
    while kills < 5 and _killed_once(words, store_url, tmp_path):
        kills += 1
    assert subprocess.run(words, env={**os.environ, "HOME": str(tmp_path)}, check=False).returncode == 0

    assert kills > 0
    assert memory_in(store_url) == memory_of(project / ".sage")
    assert exported(team) == exported(file_in(project))


def _killed_once(words: list[str], url: str, home: Path) -> bool:
    """Start a copy, kill it when it has copied something, and return whether it was still running."""
    before = len(memory_in(url))
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, env={**os.environ, "HOME": str(home)})
    until(lambda: len(memory_in(url)) > before or process.poll() is not None)
    is_killed = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    return is_killed
