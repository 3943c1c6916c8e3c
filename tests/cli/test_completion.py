"""Completion in a real bash, in zsh and fish where they are installed, and its installation."""

import os
import pty
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from carrel.connect import shell as shell_files
from carrel.connect.errors import NotProved
from tests.support.command_line import Run
from tests.support.waiting import PATIENCE_S

ASK = 'for line in "$@"; do COMP_LINE="$line"; COMP_POINT=${#line}; _carrel_completion; echo "${COMPREPLY[*]}"; done'


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
def test_bash_completes_commands_hosts_and_uris(run: Run, tmp_path: Path, lines: dict[str, str]) -> None:
    script = tmp_path / "carrel.bash"
    script.write_text(run("completion", "bash").out, encoding="utf-8")

    shell = shutil.which("bash")
    assert shell is not None
    asked = subprocess.run(
        [shell, "--norc", "-c", f". {script}; {ASK}", "bash", *lines], capture_output=True, text=True, check=True
    )

    assert dict(zip(lines, asked.stdout.splitlines(), strict=True)) == lines
    assert asked.stderr == ""


AT_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Starts a program whose terminal is its standard input."""


def type_in(shell: str, keys: bytes, awaited: bytes) -> bytes:
    """Start a shell at a terminal, type, and return what it shows until the awaited text has come."""
    terminal, end = pty.openpty()
    environment = {**os.environ, "TERM": "dumb", "PS1": "> ", "HISTFILE": ""}
    shown = b""
    command = [sys.executable, "-c", AT_TERMINAL, shell, "-i"]
    with subprocess.Popen(command, stdin=end, stdout=end, stderr=end, env=environment) as running:
        os.close(end)
        os.write(terminal, keys)
        while awaited not in shown and select.select([terminal], [], [], PATIENCE_S)[0]:
            shown += os.read(terminal, 1024)
        running.kill()
    os.close(terminal)
    return shown


START_FILES = [
    ("bash", "", ""),
    ("fish", "", ""),
    ("zsh", "", ""),
    ("zsh", "autoload -Uz compinit; compinit -u\n", ""),
    ("zsh", "", "autoload -Uz compinit; compinit -u\n"),
]
"""A shell, and what stands in its start file before and after the line of `connect shell`."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shell", "before", "after"), [row for row in START_FILES if row[0] == "bash" or shutil.which(row[0])]
)
def test_a_person_who_presses_tab_gets_the_uri(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch, shell: str, before: str, after: str
) -> None:
    start = home / f".{shell}rc"
    start.write_text(before, encoding="utf-8")
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    assert run("connect", "shell", "--yes").code == 0
    with start.open("a", encoding="utf-8") as file:
        file.write(after)

    shown = type_in(shell, b"carrel cat workspace:///REA\t\n", b"# A")

    assert b"workspace:///README.md" in shown
    assert b"# A" in shown


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "words", "word", "answer"),
    [
        ("zsh_complete", "carrel cat workspace:///not", "2", "plain\n{0}/\n_\nplain\n{0}/a%20b.md\n_\n"),
        ("zsh_complete", "carrel connect claude-c", "2", "plain\nclaude-code\nClaude Code\n"),
        ("fish_complete", "carrel cat workspace:///not", "workspace:///not", "plain,{0}/\nplain,{0}/a%20b.md\n"),
        ("fish_complete", "carrel connect claude-c", "claude-c", "plain,claude-code\tClaude Code\n"),
        ("fish_complete", "carrel cat workspace:///x", "workspace:///x", "plain,workspace:///x,%20y.md\n"),
    ],
)
def test_what_zsh_and_fish_ask_for_has_the_form_that_their_scripts_read(
    home: Path, asked: str, words: str, word: str, answer: str
) -> None:
    (home / "library/x, y.md").write_text("# X\n", encoding="utf-8")
    environment = {**os.environ, "_CARREL_COMPLETE": asked, "COMP_WORDS": words, "COMP_CWORD": word}

    ran = subprocess.run(["carrel"], env=environment, capture_output=True, text=True, check=True)

    assert ran.stdout == answer.format("workspace:///notes")


@pytest.mark.parametrize(
    ("shell", "words"),
    [
        ("zsh", ["#compdef carrel\n", "_CARREL_COMPLETE=zsh_complete", "autoload -Uz compinit"]),
        ("fish", ["_CARREL_COMPLETE=fish_complete", "complete --no-files --command carrel"]),
    ],
)
def test_the_scripts_of_zsh_and_fish_are_printed(run: Run, shell: str, words: list[str]) -> None:
    ran = run("completion", shell)

    assert (ran.code, [word for word in words if word not in ran.out]) == (0, [])


def test_another_shell_is_refused(run: Run) -> None:
    assert run("completion", "tcsh").code == 2


@pytest.mark.slow
@pytest.mark.parametrize("before", [None, "", "alias x=y", "alias x=y\n"])
def test_the_completion_of_bash_is_installed_and_removed_again(run: Run, home: Path, before: str | None) -> None:
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
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch, shell: str, script: str, start: str | None
) -> None:
    monkeypatch.setenv("SHELL", shell)

    assert run("connect", "shell", "--yes").code == 0

    assert (home / script).exists()
    assert start is None or script in (home / start).read_text("utf-8")


def test_without_agreement_nothing_is_installed(run: Run, home: Path) -> None:
    assert run("connect", "shell").code == 1
    assert sorted(path.name for path in home.iterdir()) == ["library"]


def test_a_shell_that_is_not_known_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")

    ran = run("connect", "shell", "--yes")

    assert (ran.code, ran.err) == (
        1,
        "carrel: shell: tcsh has no completion for Carrel; the known shells are bash, zsh, fish\n",
    )


def test_a_script_that_does_not_work_is_not_left_behind(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_files: object) -> str:
        raise NotProved("bash completes nothing with the script")

    monkeypatch.setattr(shell_files, "_prove", fail)

    assert run("connect", "shell", "--yes").code == 1
    assert [path.name for path in home.rglob("*") if path.is_file()] == ["README.md", "a b.md"]
