"""Completion in a real bash, and its installation."""

import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from carrel.cli import main
from carrel.connect import shell as shell_files
from carrel.connect.errors import NotProved
from tests.support.waiting import PATIENCE_S

ASK = 'for line in "$@"; do COMP_LINE="$line"; COMP_POINT=${#line}; _carrel_completion; echo "${COMPREPLY[*]}"; done'


class Ran(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str


@pytest.fixture(name="home", autouse=True)
def home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    project = home / "library"
    (project / "notes").mkdir(parents=True)
    (project / "notes/a b.md").write_text("# A\n", encoding="utf-8")
    (project / "README.md").write_text("# A\n", encoding="utf-8")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("SHELL", "/bin/bash")
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "ZDOTDIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.chdir(project)
    return home


@pytest.fixture(name="run")
def runner(capfd: pytest.CaptureFixture[str]) -> Any:
    def run(*words: str) -> Ran:
        code = main(words)
        captured = capfd.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


SOME = {
    "carrel connect claude-": "claude-code claude-desktop",
    "carrel cat workspace:///no": "///notes/ ///notes/a%20b.md",
}
MORE = {
    "carrel con": "config connect",
    "carrel connect codex co": "copilot-cli continue",
    "carrel connect --re": "--remove",
    "carrel cat w": "workspace:///",
    "carrel cat carrel://gu": "//guide",
    "carrel explain READ": "README.md",
    "carrel cat nothing://": "",
}


@pytest.mark.parametrize("lines", [SOME, pytest.param(MORE, marks=pytest.mark.slow)], ids=["some", "more"])
def test_bash_completes_commands_hosts_and_uris(run: Any, tmp_path: Path, lines: dict[str, str]) -> None:
    script = tmp_path / "carrel.bash"
    script.write_text(run("completion", "bash").out, encoding="utf-8")

    shell = shutil.which("bash")
    assert shell is not None
    asked = subprocess.run(
        [shell, "--norc", "-c", f". {script}; {ASK}", "bash", *lines], capture_output=True, text=True, check=True
    )

    assert dict(zip(lines, asked.stdout.splitlines(), strict=True)) == lines
    assert asked.stderr == ""


@pytest.mark.slow
def test_a_person_who_presses_tab_gets_the_uri(run: Any, home: Path) -> None:
    assert run("connect", "shell", "--yes").code == 0
    terminal, end = pty.openpty()
    environment = {**os.environ, "TERM": "dumb", "PS1": "> ", "HISTFILE": ""}
    with subprocess.Popen(["bash", "-i"], stdin=end, stdout=end, stderr=end, env=environment) as shell:
        os.close(end)
        os.write(terminal, b"carrel cat workspace:///REA\t\n")
        shown = b""
        while b"# A" not in shown:
            shown += os.read(terminal, 1024)
        os.write(terminal, b"exit\n")
        shell.wait(PATIENCE_S)
    os.close(terminal)

    assert b"workspace:///README.md" in shown


@pytest.mark.parametrize(
    ("shell", "word"), [("zsh", "#compdef carrel"), ("fish", "complete --no-files --command carrel")]
)
def test_the_scripts_of_zsh_and_fish_are_printed(run: Any, shell: str, word: str) -> None:
    ran = run("completion", shell)

    assert (ran.code, word in ran.out) == (0, True)


def test_another_shell_is_refused(run: Any) -> None:
    assert run("completion", "tcsh").code == 2


@pytest.mark.parametrize("before", [None, "", "alias x=y", "alias x=y\n"])
def test_the_completion_of_bash_is_installed_and_removed_again(run: Any, home: Path, before: str | None) -> None:
    start, script = home / ".bashrc", home / ".local/share/carrel/completion.bash"
    if before is not None:
        start.write_text(before, encoding="utf-8")

    installed = run("connect", "shell", "--yes")

    assert installed.code == 0
    assert installed.out.splitlines()[-1] == (
        f"shell: completion for bash is set up from {start}; tried with `carrel con`. It works in every new shell"
    )
    assert script.exists()
    assert run("connect", "shell", "--yes").code == 0
    assert start.read_text("utf-8").count("carrel connect shell") == 1
    assert run("connect", "shell", "--remove", "--yes").code == 0
    assert not script.exists()
    assert (start.read_text("utf-8") if start.exists() else None) == before


@pytest.mark.parametrize(
    ("shell", "script", "start"),
    [
        ("/usr/bin/zsh", ".local/share/carrel/completion.zsh", ".zshrc"),
        ("/usr/bin/fish", ".config/fish/completions/carrel.fish", None),
    ],
)
def test_each_shell_has_its_own_places(
    run: Any, home: Path, monkeypatch: pytest.MonkeyPatch, shell: str, script: str, start: str | None
) -> None:
    monkeypatch.setenv("SHELL", shell)

    assert run("connect", "shell", "--yes").code == 0

    assert (home / script).exists()
    assert start is None or script in (home / start).read_text("utf-8")


def test_without_agreement_nothing_is_installed(run: Any, home: Path) -> None:
    assert run("connect", "shell").code == 1
    assert sorted(path.name for path in home.iterdir()) == ["library"]


def test_a_shell_that_is_not_known_is_refused(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")

    ran = run("connect", "shell", "--yes")

    assert (ran.code, ran.err) == (
        1,
        "carrel: shell: tcsh has no completion for Carrel; the known shells are bash, zsh, fish\n",
    )


def test_a_script_that_does_not_work_is_not_left_behind(run: Any, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_files: object) -> str:
        raise NotProved("bash completes nothing with the script")

    monkeypatch.setattr(shell_files, "_prove", fail)

    assert run("connect", "shell", "--yes").code == 1
    assert [path.name for path in home.rglob("*") if path.is_file()] == ["README.md", "a b.md"]
