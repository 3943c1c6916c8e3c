"""`carrel doctor`: what a person sees, what a program gets, and what is changed."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from carrel.cli import doctor
from carrel.core.version import __version__
from carrel.doctor import http, settings, trust
from carrel.doctor.checks import Check
from carrel.doctor.examination import CHECKS, examine
from tests.support.command_line import Run, runner


@pytest.fixture(name="project", autouse=True)
def sound_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder, home = tmp_path / "library", tmp_path / "home"
    for one in (folder, home):
        one.mkdir()
    (folder / "a.md").write_text("# A\n", encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture(name="run")
def doctor_command(capfd: pytest.CaptureFixture[str]) -> Run:
    return runner(capfd, "doctor")


def only(monkeypatch: pytest.MonkeyPatch, *checks: Check) -> None:
    """Run just these checks: the others need seconds."""
    monkeypatch.setattr(doctor, "examine", lambda setup: examine(setup, checks))


@pytest.mark.slow
def test_a_sound_project_fits_one_screen(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    # This checkout may lie in a folder that is emptied, which `doctor` would note.
    monkeypatch.setattr("carrel.connect.program._passing_folders", lambda _: ())
    code, shown, said = run()

    lines = shown.splitlines()
    assert (code, said) == (0, "")
    assert {line.partition(" ")[0] for line in lines} <= {"✓", "!"}
    assert (len(lines) <= 40, max(map(len, lines)) <= 100) == (True, True)
    assert f"✓ python: Carrel {__version__} on Python " in shown
    assert "\n✓ conversation: about " in shown
    assert "\n✓ handshake-legacy: 2025-11-25 in " in shown


def test_json_has_every_check_with_the_same_fields(run: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "carrel.toml").write_text("[server]\npagesize = 7\n", encoding="utf-8")
    only(monkeypatch, *settings.CHECKS)

    code, shown, _ = run("--json")

    found = json.loads(shown)
    assert code == 1
    assert [one["id"] for one in found] == [one.id for one in settings.CHECKS]
    assert all(list(one) == ["id", "state", "host", "message", "fix"] for one in found)
    assert {one["id"]: one["state"] for one in found if one["state"] != "ok"} == {"settings-keys": "problem"}
    [fault] = [one for one in found if one["state"] == "problem"]
    assert (fault["host"], fault["fix"]) == (None, f"rename it to 'page_size' in {project}/carrel.toml")
    assert all(one["message"] for one in found)


def test_a_fault_is_one_line_with_its_fix_and_exits_with_1(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "carrel.toml").write_text("[worksace]\n", encoding="utf-8")
    only(monkeypatch, settings.settings_keys)

    code, shown, _ = run()

    assert code == 1
    assert shown == (
        f"✗ settings-keys: {project}/carrel.toml: unknown section [worksace]; did you mean 'workspace'? "
        f"Fix: rename it to 'workspace' in {project}/carrel.toml\n"
    )


def test_fix_changes_nothing_without_a_terminal_or_yes(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = project / "carrel.toml"
    file.write_text("[server]\npagesize = 7\n", encoding="utf-8")
    only(monkeypatch, settings.settings_keys)

    code, _, said = run("--fix")

    assert (code, file.read_text()) == (1, "[server]\npagesize = 7\n")
    assert "Not done (settings-keys): rename pagesize to page_size in " in said
    assert said.endswith("add --yes, or run it in a terminal\n")


def test_fix_with_yes_fixes_what_it_can_and_looks_again(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = project / "carrel.toml"
    file.write_text("[server]\npagesize = 7\n", encoding="utf-8")
    only(monkeypatch, settings.settings_keys)

    code, shown, said = run("--fix", "--yes")

    assert (code, file.read_text()) == (0, "[server]\npage_size = 7\n")
    assert said == f"Done (settings-keys): rename pagesize to page_size in {file}\n"
    assert shown.endswith("\nAfter the changes:\n✓ doctor: no faults\n")


def test_fix_in_json_gives_what_is_left(run: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "carrel.toml").write_text("[server]\npagesize = 7\n", encoding="utf-8")
    only(monkeypatch, settings.settings_keys)

    code, shown, _ = run("--fix", "--yes", "--json")

    assert (code, [one["state"] for one in json.loads(shown)]) == (0, ["ok"])


def test_a_repair_that_fails_is_reported(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(Path.home() / "state"))
    folder = Path.home() / "state/carrel"
    folder.mkdir(parents=True)
    (folder / "local-token").touch()
    only(monkeypatch, http.token_local)
    monkeypatch.setattr(os, "rename", _refuses)

    code, _, said = run("--fix", "--yes")

    assert code == 1
    assert said.startswith("Failed (token-local): ")


def _refuses(*_: object) -> None:
    raise PermissionError(13, "Permission denied")


def test_yes_never_trusts_a_project(run: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "carrel.toml").write_text("[mounts.x]\ncommand = ['true']\n", encoding="utf-8")
    only(monkeypatch, trust.trust)

    code, shown, said = run("--fix", "--yes")

    assert code == 0
    assert shown == "! trust: not in effect from carrel.toml: [mounts.x] (it runs code). Fix: carrel trust\n"
    assert said.endswith("it needs your answer: run it in a terminal\n")


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "is_done"), [(b"y\n", True), (b"n\n", False)])
def test_fix_asks_in_a_terminal(project: Path, answer: bytes, is_done: bool) -> None:
    file = project / "carrel.toml"
    file.write_text("[server]\npagesize = 7\n", encoding="utf-8")
    script = (
        "import sys; from carrel.cli import doctor, main; from carrel.doctor import settings; whole = doctor.examine; "
        "doctor.examine = lambda setup: whole(setup, (settings.settings_keys,)); sys.exit(main(['doctor', '--fix']))"
    )
    ours, theirs = pty.openpty()
    try:
        os.write(ours, answer)
        ran = subprocess.run(
            [sys.executable, "-c", script],
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.PIPE,
            env={**os.environ, "TERM": "xterm"},
            check=False,
        )
    finally:
        os.close(theirs)
        os.close(ours)

    assert ran.returncode == (0 if is_done else 1)
    assert ("page_size" in file.read_text()) == is_done


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--yes",), "--yes needs --fix"),
        (("--report", "--json"), "--report takes neither --fix nor --json"),
        (("--fix", "--json"), "--fix with --json asks nothing: add --yes"),
    ],
)
def test_options_that_do_not_go_together_are_refused(run: Run, words: tuple[str, ...], told: str) -> None:
    code, shown, said = run(*words)

    assert (code, shown) == (2, "")
    assert said.endswith(f"carrel: {told}\n")


def test_the_report_has_no_path(run: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "carrel.toml").write_text("[server]\npagesize = 7\n", encoding="utf-8")
    only(monkeypatch, *settings.CHECKS)

    code, shown, _ = run("--report")

    assert code == 1
    assert "✗ settings-keys: <path>: [server] has no key 'pagesize'; did you mean 'page_size'?" in shown
    assert str(project.parent) not in shown


@pytest.mark.slow
def test_doctor_finds_in_a_home_what_a_host_would(run: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(project))

    found = {one["id"]: one for one in json.loads(run("--json")[1])}

    assert found["project-home"]["state"] == "note"
    assert all(
        found[f"handshake-{era}"]["message"].endswith(" entries on the first page") for era in ("modern", "legacy")
    )


@pytest.mark.slow
def test_every_check_is_in_the_output(run: Run) -> None:
    found = json.loads(run("--json")[1])

    assert {one["id"] for one in found} == {one.id for one in CHECKS}
