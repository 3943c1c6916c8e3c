"""Connecting on disk: planned, written, proved, taken back, removed; every host with the file of its documentation."""

import os
import shutil
from pathlib import Path

import pytest

from carrel.connect import changes
from carrel.connect.errors import NotProved, NotWritten
from carrel.connect.hosts import HOSTS, HostFacts, Scope, by_name
from carrel.connect.journal import Journal
from carrel.connect.places import Surroundings, settings_path
from carrel.connect.proof import Proof

FILES = Path(__file__).parent / "files"
WITH_FILES = [host for host in HOSTS if not host.by_hand]
PROOF = Proof(12, 140, "2025-11-25")


def host_of(name: str) -> HostFacts:
    host = by_name(name)
    assert host is not None
    return host


def place(host: HostFacts, around: Surroundings, scope: Scope = "user") -> Path:
    """Put the file of a host's documentation where the host has it."""
    path = path_of(host, around, scope)
    path.parent.mkdir(parents=True, exist_ok=True)
    [fixture] = FILES.glob(f"{host.name}.*")
    shutil.copyfile(fixture, path)
    return path


def path_of(host: HostFacts, around: Surroundings, scope: Scope = "user") -> Path:
    path = settings_path(host, scope, around)
    assert path is not None
    return Path(path)


def plan(host: HostFacts, around: Surroundings, scope: Scope = "user") -> changes.SettingsChange:
    return changes.plan_connection(host, scope, changes.entry_for(host, scope, None, around), around)


@pytest.fixture(name="proved")
def always_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every entry as proved: what a proof is has tests of its own, and each starts a server."""
    monkeypatch.setattr(changes, "prove", lambda *_: PROOF)


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def of_hosts(folder: Path) -> dict[str, bytes]:
    """Return the files of a home folder that are not our own notes."""
    return {name: content for name, content in everything(folder).items() if not name.startswith(".local/state/")}


@pytest.mark.slow
@pytest.mark.usefixtures("proved")
@pytest.mark.parametrize("scope", ["user", "project"])
@pytest.mark.parametrize("host", WITH_FILES, ids=lambda host: host.name)
def test_connecting_and_removing_gives_back_the_file_of_the_documentation(
    host: HostFacts, scope: Scope, around: Surroundings
) -> None:
    if scope == "project" and not host.project:
        with pytest.raises(NotWritten, match=r"has no project settings that Carrel knows; use --user"):
            plan(host, around, scope)
        return
    path = place(host, around, scope)
    before = path.read_bytes()

    assert changes.connect(plan(host, around, scope), around) == PROOF
    assert path.read_bytes() != before
    assert plan(host, around, scope).action == "keep"
    changes.carry_out(changes.plan_removal(host, scope, around), around)

    assert path.read_bytes() == before
    assert path.with_name(path.name + ".before-carrel").read_bytes() == before


@pytest.mark.usefixtures("proved")
@pytest.mark.parametrize("host", WITH_FILES, ids=lambda host: host.name)
def test_a_file_that_was_made_for_our_entry_is_deleted_with_it(host: HostFacts, around: Surroundings) -> None:
    path = path_of(host, around)

    changes.connect(plan(host, around), around)
    assert path.exists()
    changes.carry_out(changes.plan_removal(host, "user", around), around)

    assert not path.exists()
    assert not path.with_name(path.name + ".before-carrel").exists()


@pytest.mark.usefixtures("proved")
@pytest.mark.parametrize("host", WITH_FILES, ids=lambda host: host.name)
def test_folders_that_were_made_for_our_entry_are_deleted_with_it(host: HostFacts, around: Surroundings) -> None:
    home = Path(around.environment["HOME"])
    Journal(around.environment).note("/another", None)  # the folder of our own notes stays
    before = sorted(home.rglob("*"))
    changes.connect(plan(host, around), around)
    changes.connect(plan(host, around), around)  # keeps the entry, and what is known of it

    changes.carry_out(changes.plan_removal(host, "user", around), around)

    assert sorted(home.rglob("*")) == before


@pytest.mark.usefixtures("proved")
def test_a_folder_that_was_there_or_holds_something_else_stays(around: Surroundings) -> None:
    was_there, filled = path_of(host_of("goose"), around), path_of(host_of("cursor"), around)
    was_there.parent.mkdir(parents=True)
    for name in ("goose", "cursor"):
        changes.connect(plan(host_of(name), around), around)
    (filled.parent / "other.json").write_text("{}", encoding="utf-8")

    for name in ("goose", "cursor"):
        changes.carry_out(changes.plan_removal(host_of(name), "user", around), around)

    assert not was_there.exists()
    assert was_there.parent.is_dir()
    assert [path.name for path in filled.parent.iterdir()] == ["other.json"]


@pytest.mark.usefixtures("proved")
def test_a_file_that_was_made_stays_if_it_holds_something_else_by_then(around: Surroundings) -> None:
    host = host_of("claude-code")
    path = path_of(host, around)
    changes.connect(plan(host, around), around)
    path.write_text(path.read_text("utf-8").replace("{", '{\n  "theme": "dark",', 1), encoding="utf-8")

    changes.carry_out(changes.plan_removal(host, "user", around), around)

    assert path.read_text("utf-8") == '{\n  "theme": "dark"\n}\n'


@pytest.mark.usefixtures("proved")
def test_a_changed_entry_is_removed_as_exactly_as_the_first_one(around: Surroundings) -> None:
    host = host_of("zed")
    path = place(host, around)
    before = path.read_bytes()
    changes.connect(plan(host, around), around)
    other = {"command": "/opt/carrel", "args": ["serve", "--debug"]}

    change = changes.plan_connection(host, "user", other, around)
    changes.connect(change, around)
    changes.carry_out(changes.plan_removal(host, "user", around), around)

    assert change.action == "change"
    assert path.read_bytes() == before


@pytest.mark.usefixtures("proved")
def test_an_entry_that_somebody_else_wrote_is_changed_and_the_rest_stays(around: Surroundings) -> None:
    host = host_of("claude-code")
    path = path_of(host, around)
    path.write_text('{"mcpServers": {"carrel": {"command": "old"}, "x": {}}, "a": 1}', encoding="utf-8")

    changes.connect(plan(host, around), around)
    changes.carry_out(changes.plan_removal(host, "user", around), around)

    assert path.read_text("utf-8") == '{"mcpServers": { "x": {}}, "a": 1}'


@pytest.mark.parametrize("has_file", [True, False])
@pytest.mark.parametrize("error", [NotProved("it lists no resources"), KeyboardInterrupt()])
def test_an_entry_that_is_not_proved_leaves_everything_as_it_was(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch, has_file: bool, error: BaseException
) -> None:
    def fail(*_: object) -> Proof:
        raise error

    host = host_of("goose")
    path = path_of(host, around)
    if has_file:
        place(host, around)
        path.chmod(0o640)
    before = of_hosts(Path(around.home))
    monkeypatch.setattr(changes, "prove", fail)

    with pytest.raises(type(error)):
        changes.connect(plan(host, around), around)

    assert of_hosts(Path(around.home)) == before
    assert path.parent.exists() == has_file
    if has_file:
        assert path.stat().st_mode & 0o777 == 0o640
    assert Journal(around.environment).find(str(path)).piece == ""


def test_a_file_that_another_program_changed_during_the_proof_is_not_taken_back(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = host_of("claude-code")
    path = place(host, around)

    def fail(*_: object) -> Proof:
        path.write_text('{"theirs": 1}', encoding="utf-8")
        raise NotProved("no")

    monkeypatch.setattr(changes, "prove", fail)
    with pytest.raises(NotProved):
        changes.connect(plan(host, around), around)

    assert path.read_text("utf-8") == '{"theirs": 1}'


BROKEN = {"claude-code": '{"mcpServers": {', "codex": "[mcp_servers", "goose": "extensions: [", "zed": '{"a" 1}'}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_never_touched(name: str, around: Surroundings) -> None:
    host = host_of(name)
    path = path_of(host, around)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(BROKEN[name], encoding="utf-8")
    before = everything(Path(around.home))

    for planned in (plan, lambda one, here: changes.plan_removal(one, "user", here)):
        with pytest.raises(NotWritten, match=r"is broken and was not touched: .*; repair it, then try again") as error:
            planned(host, around)
        assert str(path) in str(error.value)

    assert everything(Path(around.home)) == before


def test_a_file_without_a_place_for_us_is_not_touched(around: Surroundings) -> None:
    host = host_of("claude-code")
    path_of(host, around).write_text('{"mcpServers": []}', encoding="utf-8")

    with pytest.raises(NotWritten, match="mcpServers is not an object; add what --print shows by hand"):
        plan(host, around)


@pytest.mark.usefixtures("proved")
def test_a_file_that_changes_between_plan_and_write_is_not_written(around: Surroundings) -> None:
    host = host_of("codex")
    path = place(host, around)
    change = plan(host, around)
    path.write_text("model = 'new'\n", encoding="utf-8")

    with pytest.raises(NotWritten, match="was changed by another program meanwhile"):
        changes.connect(change, around)

    assert path.read_text("utf-8") == "model = 'new'\n"


@pytest.mark.usefixtures("proved")
def test_a_project_of_a_stranger_does_not_lead_us_to_another_file(around: Surroundings) -> None:
    victim = Path(around.home) / ".claude.json"
    victim.write_text("{}", encoding="utf-8")
    (Path(around.folder) / ".mcp.json").symlink_to(victim)

    with pytest.raises(NotWritten, match="link out of the project"):
        plan(host_of("claude-code"), around, "project")

    assert victim.read_text("utf-8") == "{}"


@pytest.mark.usefixtures("proved")
@pytest.mark.parametrize("name", ["lm-studio", "zed", "cline", "goose", "continue", "warp"])
def test_a_token_that_must_be_written_makes_the_file_private_while_it_is_there(
    name: str, around: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARREL_TOKEN", "s3cret")
    host = host_of(name)
    path = place(host, around)
    path.chmod(0o644)
    entry = changes.entry_for(host, "user", "https://desk.example/mcp", around)

    change = changes.plan_connection(host, "user", entry, around)
    changes.connect(change, around)

    assert path.stat().st_mode & 0o777 == 0o600
    assert "s3cret" in path.read_text("utf-8")
    assert "s3cret" not in "\n".join(change.diff("s3cret"))

    changes.carry_out(changes.plan_removal(host, "user", around), around)

    assert path.stat().st_mode & 0o777 == 0o644
    assert "s3cret" not in path.read_text("utf-8")


def test_the_home_folder_is_no_project(around: Surroundings) -> None:
    at_home = Surroundings("linux", os.environ, around.home)

    with pytest.raises(NotWritten, match="start in a project, or use --user"):
        changes.default_scope(host_of("vscode"), at_home)
    assert changes.default_scope(host_of("vscode"), around) == "project"
    assert changes.default_scope(host_of("codex"), at_home) == "user"


def test_the_entry_is_read_back_from_the_file_and_proved(around: Surroundings) -> None:
    """The one test here with a real server: plan, write, start, list, read."""
    host = host_of("opencode")
    place(host, around)

    proof = changes.connect(plan(host, around), around)

    found = changes.find_connection(host, "user", around)
    assert found is not None
    assert (proof.resources, proof.version) == (6, "2025-11-25")
    assert changes.find_connection(host, "project", around) is None
