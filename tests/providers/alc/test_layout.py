"""What a stranger's project cannot have read: what lies outside it, what is denied, and what is another user's."""

import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from carrel.app.app import Desk, open_desk
from carrel.app.config import load
from carrel.cli import main
from carrel.core.errors import CarrelError
from carrel.files import marks, sandbox
from carrel.providers.alc import local_packages, samples
from tests.providers.alc.homes import read
from tests.support.trusting import trust

SECRET = "canary-1f3a"
SOURCE = f'--- {SECRET}\nlocal M = {{}}\nM.meta = {{ name = "{SECRET}", description = "{SECRET}" }}\nreturn M\n'


class Machine:
    """A user's home with secrets in it, and a stranger's project beside them."""

    def __init__(self, folder: Path) -> None:
        self.user = folder / "user"
        self.project = self.user / "src" / "project"
        self.project.mkdir(parents=True)
        (self.project / ".git").mkdir()
        self.environment = {"HOME": str(self.user)}
        self.write(self.user / ".docker/config.json", json.dumps({"auths": SECRET, "transcript": []}))
        self.write(self.user / ".cargo/credentials.toml", f'token = "{SECRET}"')
        self.write(self.user / ".config/nvim/init.lua", SOURCE)
        self.write(self.user / "notes/scenario.lua", SECRET)
        self.write(self.user / "notes/eval_1.json", json.dumps(SECRET))

    def write(self, path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def link(self, name: str, target: str | Path) -> None:
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)

    def desk(self) -> Desk:
        return open_desk(load(str(self.project), self.environment))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


IDS = ("config", "credentials", "scenario", "eval_1", "nvim", "x", "init")


def everything(desk: Desk) -> Iterator[str]:
    """Yield all that a client can be told of alc: entries, texts, refusals, completions, notes."""
    uris = [entry.uri for entry in desk.catalog.entries() if entry.uri.startswith("alc:")]
    yield from (repr(entry) for entry in desk.catalog.entries())
    for kind, rest in (
        ("cards", ""),
        ("cards", "/samples"),
        ("logs", ""),
        ("logs", "?limit=1"),
        ("scenarios", ""),
        ("eval", ""),
        *(("packages", f"/{word}") for word in ("init.lua", "meta", "narrative")),
    ):
        uris += [f"alc://{kind}/{one}{rest}" for one in IDS]
    for uri in (*uris, "alc://types/alc.d.lua", "alc://hub/index", "carrel://health", "carrel://guide"):
        try:
            yield read(desk.catalog, uri)
        except CarrelError as error:
            yield str(error)
    templates, _ = desk.catalog.templates()
    for template in templates:
        variable = template.uri_template.partition("{")[2].partition("}")[0]
        if template.uri_template.startswith("alc:"):
            yield from desk.catalog.complete(template.uri_template, variable, "", {}).values


def told(machine: Machine) -> str:
    desk = machine.desk()
    try:
        return "\n".join(everything(desk))
    finally:
        desk.close()


AREAS = {
    "logs": "../../../.docker",
    "cards": "../../..",
    "scenarios": "../../../notes",
    "evals": "../../../notes",
    "types": "../../../notes",
    "packages": "../../../.config",
    "packages/nvim": "../../../../.config/nvim",
}


@pytest.mark.slow
@pytest.mark.parametrize("area", AREAS)
@pytest.mark.parametrize("is_absolute", [False, True])
def test_a_home_that_the_project_names_may_not_link_out_of_it(machine: Machine, area: str, is_absolute: bool) -> None:
    (machine.project / "carrel.toml").write_text('[alc]\nhome = "a"\n')
    target = ((machine.project / "a" / area).parent / AREAS[area]).resolve()
    machine.link(f"a/{area}", target if is_absolute else AREAS[area])

    assert target.is_dir()
    assert SECRET not in told(machine)


def test_a_place_that_is_refused_is_noted(machine: Machine) -> None:
    (machine.project / "carrel.toml").write_text('[alc]\nhome = "a"\n')
    machine.link("a/logs", "../../../.docker")

    note = "alc: a/logs is not served as alc: it leads out of the project, is denied, or belongs to another user"
    assert note in told(machine)


def test_a_place_outside_that_cannot_be_read_is_named_once_and_without_its_path(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = machine.user / ".algocline/packages"
    packages.mkdir(parents=True)
    monkeypatch.setattr(
        "os.access", lambda path, _: os.path.normpath(path) != str(packages)
    )  # root may read it all the same
    machine.environment["ALC_PACKAGES_PATH"] = f"../../.algocline/packages:{packages}"
    with closing(machine.desk()) as desk:
        health = json.loads(read(desk.catalog, "carrel://health"))

    assert health["problems"] == ["alc: …/packages cannot be read: permission denied"]


def test_logs_beside_an_alc_toml_may_not_link_out_of_the_project(machine: Machine) -> None:
    (machine.project / "alc.toml").write_text("")
    machine.link("algocline-logs", "../../.docker")

    assert SECRET not in told(machine)


@pytest.mark.parametrize("kind", ["log_dir", "packages_path", "project_root", "home"])
def test_a_place_of_the_project_that_becomes_a_link_is_not_followed(machine: Machine, kind: str) -> None:
    (machine.project / "carrel.toml").write_text(f'[alc]\n{kind} = "place"\n')
    place = machine.project / "place"
    place.mkdir()
    desk = machine.desk()
    place.rmdir()
    place.symlink_to(machine.user / (".docker" if kind == "log_dir" else ".config"))

    assert SECRET not in "\n".join(everything(desk))
    desk.close()


@pytest.mark.parametrize("name", [".git", ".ssh", ".aws"])
def test_denied_folders_of_the_project_are_not_served_through_alc(machine: Machine, name: str) -> None:
    (machine.project / "alc.toml").write_text("")
    machine.write(machine.project / name / "config.json", json.dumps(SECRET))
    machine.link("algocline-logs", name)
    machine.write(machine.project / name / "nvim/init.lua", SOURCE)
    (machine.project / "alc.local.toml").write_text(f'[packages]\nnvim = {{ path = "{name}/nvim" }}\n')

    shown = told(machine)

    assert SECRET not in shown
    assert "[packages] nvim in alc.local.toml is not used: its folder is denied" in shown


def test_what_the_operator_denies_is_not_served_through_alc(machine: Machine) -> None:
    (machine.project / "alc.toml").write_text("")
    machine.write(machine.project / "algocline-logs/config.json", json.dumps(SECRET))
    assert SECRET in told(machine)

    (machine.project / "carrel.toml").write_text('[workspace]\ndeny = ["algocline-logs/"]\n')
    assert SECRET not in told(machine)


def test_a_home_in_the_project_works_with_links_in_the_project(machine: Machine) -> None:
    (machine.project / "carrel.toml").write_text('[alc]\nhome = "a"\n')
    machine.write(machine.project / "drafts/init.lua", "-- a draft")
    machine.write(machine.project / "results/s.json", '"a log"')
    machine.write(machine.project / "results/plain.json", '"plain"')
    machine.write(machine.project / "a/cards/p/c.toml", "x = 1")
    machine.link("a/packages/nvim", "../../drafts")
    machine.link("a/logs", "../results")
    machine.link("results/linked.json", "plain.json")
    desk = machine.desk()

    assert read(desk.catalog, "alc://packages/nvim/init.lua") == "-- a draft"
    assert json.loads(read(desk.catalog, "alc://packages/nvim/meta"))["linked"] is True
    assert read(desk.catalog, "alc://logs/linked") == '"plain"'
    assert read(desk.catalog, "alc://cards/c") == '{"x":1}'
    listed = [entry.uri for entry in desk.catalog.entries() if entry.uri.startswith("alc:")]
    assert listed == [
        "alc://types/alc.d.lua",
        "alc://types/alc_shapes.d.lua",
        "alc://cards/c",
        "alc://hub/index",
        "alc://logs/linked",
        "alc://logs/plain",
        "alc://logs/s",
        "alc://packages/nvim/init.lua",
        "alc://packages/nvim/meta",
    ]
    desk.close()


def test_a_link_out_of_a_confined_folder_is_answered_alike_whether_or_not_its_target_exists(machine: Machine) -> None:
    (machine.project / "alc.toml").write_text("")
    machine.link("algocline-logs/here.json", "../../../.docker/config.json")
    machine.link("algocline-logs/gone.json", "../../../.docker/nothing.json")
    desk = machine.desk()
    answers = []
    for name in ("here", "gone"):
        with pytest.raises(CarrelError) as caught:
            read(desk.catalog, f"alc://logs/{name}")
        answers.append(str(caught.value).replace(name, "NAME"))
    desk.close()

    assert answers == ["Path 'NAME.json' escapes base directory"] * 2


# The user's own home


@pytest.mark.parametrize("variable", ["HOME", "ALC_HOME"])
def test_links_in_the_users_own_home_of_algocline_go_on_working(machine: Machine, variable: str) -> None:
    home = machine.user / ".algocline" if variable == "HOME" else machine.user / "elsewhere"
    if variable == "ALC_HOME":
        machine.environment["ALC_HOME"] = str(home)
    for name, target in {"packages": "packages", "logs": "state/logs", "cards": "cards"}.items():
        (machine.user / "data" / target).mkdir(parents=True)
        home.mkdir(exist_ok=True)
        (home / name).symlink_to(machine.user / "data" / target)
    machine.write(machine.user / "data/mine/init.lua", "-- mine")
    (home / "packages/mine").symlink_to(machine.user / "data/mine")
    machine.write(machine.user / "data/state/logs/s.json", '"log"')
    machine.write(machine.user / "data/cards/credentials/credentials_1.toml", "x = 1")
    desk = machine.desk()

    assert read(desk.catalog, "alc://packages/mine/init.lua") == "-- mine"
    assert read(desk.catalog, "alc://logs/s") == '"log"'
    assert read(desk.catalog, "alc://cards/credentials_1") == '{"x":1}'
    desk.close()


def test_a_home_that_a_trusted_project_file_names_is_the_users_own(machine: Machine) -> None:
    file = machine.write(machine.project / "carrel.toml", '[alc]\nhome = "../data"\n')
    machine.write(machine.user / "src/data/scenarios/x.lua", "-- x")
    assert "-- x" not in told(machine)

    trust(file, machine.environment)

    assert "-- x" in told(machine)


# alc.local.toml


def local(machine: Machine, folder: Path | str, name: str = "nvim") -> Path:
    (machine.project / "alc.toml").write_text("")
    return machine.write(machine.project / "alc.local.toml", f'[packages]\n{name} = {{ path = "{folder}" }}\n')


NOTE = (
    "[packages] nvim in alc.local.toml is not in effect: it names a place outside the project; "
    "run `carrel trust` to allow it"
)


@pytest.mark.parametrize("place", ["{user}/.config/nvim", "../../.config/nvim", "linked"])
def test_a_variant_outside_the_project_counts_only_after_trust(machine: Machine, place: str) -> None:
    machine.link("linked", "../../.config/nvim")
    file = local(machine, place.format(user=machine.user))

    assert SECRET not in told(machine)
    desk = machine.desk()
    assert read(desk.catalog, "carrel://guide").count(NOTE) == 1
    desk.close()
    trust(file, machine.environment)

    desk = machine.desk()
    assert read(desk.catalog, "alc://packages/nvim/init.lua") == SOURCE
    assert json.loads(read(desk.catalog, "alc://packages/nvim/meta"))["scope"] == "variant"
    desk.close()
    assert NOTE not in told(machine)


def test_a_changed_file_of_variants_must_be_trusted_again_while_carrel_runs(machine: Machine) -> None:
    machine.write(machine.user / "mine/init.lua", "-- mine")
    file = local(machine, machine.user / "mine")
    trust(file, machine.environment)
    desk = machine.desk()
    assert read(desk.catalog, "alc://packages/nvim/init.lua") == "-- mine"

    local(machine, machine.user / ".config/nvim")

    assert SECRET not in "\n".join(everything(desk))
    assert f"alc: {NOTE}" in read(desk.catalog, "carrel://guide")
    desk.close()


def test_a_variant_in_the_project_needs_no_trust(machine: Machine) -> None:
    machine.write(machine.project / "drafts/init.lua", "-- a draft")
    local(machine, "drafts")
    desk = machine.desk()

    assert read(desk.catalog, "alc://packages/nvim/init.lua") == "-- a draft"
    assert desk.notes == ()
    desk.close()


def test_a_variant_that_is_left_out_leaves_the_installed_one(machine: Machine) -> None:
    machine.write(machine.user / ".algocline/packages/nvim/init.lua", "-- installed")
    local(machine, machine.user / ".config/nvim")
    desk = machine.desk()

    assert read(desk.catalog, "alc://packages/nvim/init.lua") == "-- installed"
    desk.close()


@pytest.fixture
def run(machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    for name, value in machine.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(machine.project)

    def call(*words: str) -> str:
        main(words)
        return capsys.readouterr().out

    return call


def test_trust_shows_what_a_file_of_variants_names_and_trusts_it_by_its_hash(machine: Machine, run: Any) -> None:
    place = machine.user / ".config/nvim"
    file = local(machine, place)

    assert run("trust").splitlines() == [
        "Now allowed (it names a place outside the project):",
        "  [packages]",
        f'  nvim = "{place}"',
        f"Trusted, with its present content: {file}",
    ]
    assert SECRET in told(machine)
    assert run("trust", "--revoke") == f"No longer trusted: {file}\n"
    assert SECRET not in told(machine)


def test_trust_covers_the_settings_and_the_file_of_variants_at_once(machine: Machine, run: Any) -> None:
    settings = machine.write(machine.project / "carrel.toml", '[alc]\nhome = "../data"\n')
    file = local(machine, machine.user / ".config/nvim")

    out = run("trust")

    assert out.index('home = "../data"') < out.index(f"content: {settings}") < out.index(f"content: {file}")
    assert json.loads(run("trust", "--json")) == {"path": str(settings), "trusted": True, "others": [str(file)]}


@pytest.mark.slow
def test_doctor_names_what_waits_for_trust_once(machine: Machine, run: Any) -> None:
    local(machine, machine.user / ".config/nvim")

    findings = [one for one in json.loads(run("doctor", "--json")) if one["state"] != "ok"]
    found = [one for one in findings if "alc.local.toml" in one["message"]]

    assert [one["fix"] for one in found] == ["carrel trust"]
    assert "[packages] nvim (it names a place outside the project)" in found[0]["message"]


# Other users


def owned_by_another(monkeypatch: pytest.MonkeyPatch, *paths: Path) -> None:
    """Make files look like another user's; only the administrator could give them away."""
    inodes = {path.lstat().st_ino for path in paths}

    def belongs_here(found: os.stat_result, *_: int) -> bool:
        return found.st_ino not in inodes

    for module in (sandbox, marks, local_packages):
        monkeypatch.setattr(module, "belongs_here", belongs_here)


def test_an_alc_toml_of_another_user_is_passed_over_with_a_note(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    above = machine.write(machine.user / "src/alc.toml", "[hub]\n")
    machine.write(machine.user / "src/alc.local.toml", '[packages]\nnvim = { path = "project" }\n')
    machine.write(machine.project / "init.lua", SOURCE)
    machine.environment["ALC_HOME"] = str(machine.user / "none")
    assert SECRET in told(machine)

    owned_by_another(monkeypatch, above)

    assert SECRET not in told(machine)
    del machine.environment["ALC_HOME"]
    desk = machine.desk()
    assert [choice.state for choice in desk.choices if choice.name == "alc"] == ["not served"]
    note = "alc.toml in a folder above is not used: it belongs to another user"
    assert read(desk.catalog, "carrel://guide").count(note) == 1
    desk.close()


def test_a_file_of_variants_of_another_user_is_passed_over_with_a_note(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.write(machine.project / "drafts/init.lua", SOURCE)
    file = local(machine, "drafts")
    assert SECRET in told(machine)

    owned_by_another(monkeypatch, file)

    shown = told(machine)
    assert SECRET not in shown
    assert "alc.local.toml is not used: it belongs to another user" in shown


def test_a_folder_of_another_user_is_not_served(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    (machine.project / "alc.toml").write_text("")
    machine.write(machine.project / "algocline-logs/x.json", json.dumps(SECRET))
    assert SECRET in told(machine)

    owned_by_another(monkeypatch, machine.project / "algocline-logs")

    assert SECRET not in told(machine)


# Files that are none


def test_records_of_installs_that_are_a_fifo_block_nothing(machine: Machine) -> None:
    machine.write(machine.user / ".algocline/packages/x/init.lua", 'M.meta = { name = "x" }')
    os.mkfifo(machine.user / ".algocline/installed.json")

    assert '"source":{"type":"unknown"}' in told(machine)


@pytest.mark.slow
def test_a_log_of_millions_of_values_is_refused(machine: Machine) -> None:
    (machine.project / "alc.toml").write_text("")
    machine.write(machine.project / "algocline-logs/x.json", "[" + "{}," * 4_000_001 + "{}]")

    assert "Failed to parse log: it holds too many values" in told(machine)


@pytest.mark.parametrize("name", ["alc.toml", "alc.local.toml"])
@pytest.mark.parametrize("kind", ["fifo", "folder", "sparse", "device"])
def test_a_strange_file_blocks_nothing(machine: Machine, name: str, kind: str) -> None:
    machine.environment["ALC_HOME"] = str(machine.user / "none")
    (machine.project / "alc.toml").write_text("")
    path = machine.project / name
    path.unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.touch()
        os.truncate(path, 1 << 40)

    shown = told(machine)

    assert '"packages":[]' in shown or name in shown


def test_a_sparse_file_of_samples_is_given_up_in_time(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "SEARCHING_S", 0.05)
    machine.write(machine.user / ".algocline/cards/p/x.toml", "")
    path = machine.user / ".algocline/cards/p/x.samples.jsonl"
    path.touch()
    os.truncate(path, 1 << 40)
    desk = machine.desk()

    for query in ("", "?offset=5"):
        with pytest.raises(CarrelError) as caught:
            read(desk.catalog, f"alc://cards/x/samples{query}")
        assert (
            str(caught.value) == f"Failed to read samples file: row {query[8:] or 0} was not found in time; ask again"
        )
    desk.close()
