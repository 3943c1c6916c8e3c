"""`carrel connect` as a person or a script uses it: what is shown, what is written, and how it exits."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from carrel.connect import changes, program
from carrel.connect.errors import NotProved
from carrel.connect.proof import Proof
from tests.support.command_line import Ran, Run, runner
from tests.support.waiting import PATIENCE_S

CLEARED = (
    "XDG_STATE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "TMPDIR",
    "CARREL_TOKEN",
    "CODEX_HOME",
)


@pytest.fixture(name="home", autouse=True)
def home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    (home / "library").mkdir(parents=True)
    for name in ("a.md", "b.md", "c.md"):
        (home / "library" / name).write_text("# A\n", encoding="utf-8")
    (home / ".claude.json").write_text('{\n  "theme": "dark"\n}\n', encoding="utf-8")
    monkeypatch.setenv("HOME", str(home))
    for name in (*CLEARED, "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(program, "_ALWAYS_CLEARED", ())
    monkeypatch.setattr("carrel.connect.detection.running_programs", lambda _: frozenset())
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.chdir(home / "library")
    return home


@pytest.fixture(name="run")
def connect_command(capfd: pytest.CaptureFixture[str]) -> Run:
    return runner(capfd, "connect")


@pytest.fixture(name="proved")
def always_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "prove", lambda *_: Proof(12, 140, "2025-11-25"))


def carrel() -> str:
    return str(Path(sys.executable).parent / "carrel")


def test_a_host_is_connected_for_real(run: Run, home: Path) -> None:
    ran = run("claude-code", "--yes")

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[-1].startswith("Claude Code: connected, 6 resources, first answer ")
    assert json.loads((home / ".claude.json").read_text("utf-8"))["mcpServers"]["carrel"]["command"] == carrel()


@pytest.mark.usefixtures("proved")
def test_the_change_is_shown_as_a_diff_and_then_the_proof(run: Run, home: Path) -> None:
    path = home / ".claude.json"
    before = path.read_bytes()

    assert (
        run("claude-code", "--yes").out
        == f"""\
--- {path}
+++ {path}
@@ -1,3 +1,10 @@
 {{
-  "theme": "dark"
+  "theme": "dark",
+  "mcpServers": {{
+    "carrel": {{
+      "type": "stdio",
+      "command": "{carrel()}",
+      "args": ["serve"]
+    }}
+  }}
 }}
Claude Code: connected, 12 resources, first answer 140 ms
"""
    )
    assert run("claude-code", "--yes") == Ran(0, "Claude Code: connected, 12 resources, first answer 140 ms\n", "")
    assert run("claude-code", "--remove", "--yes").out.splitlines()[-1] == f"Claude Code: removed from {path}"
    assert path.read_bytes() == before
    assert run("claude-code", "--remove", "--yes") == Ran(0, "Claude Code: was not connected\n", "")


def test_without_a_terminal_and_without_yes_nothing_is_written(run: Run, home: Path) -> None:
    before = (home / ".claude.json").read_bytes()

    ran = run("claude-code")

    assert ran.code == 1
    assert ran.err == (
        f"carrel: Claude Code: {home}/.claude.json was not changed; use --yes to write without being asked\n"
    )
    assert (home / ".claude.json").read_bytes() == before
    assert not (home / ".claude.json.before-carrel").exists()


def test_an_entry_that_is_not_proved_is_not_left_behind(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Proof:
        raise NotProved("it lists no resources")

    before = (home / ".claude.json").read_bytes()
    monkeypatch.setattr(changes, "prove", fail)

    ran = run("claude-code", "--yes")

    assert ran.code == 1
    assert ran.err == (
        f"carrel: Claude Code: not connected: it lists no resources; {home}/.claude.json was left as it was\n"
    )
    assert (home / ".claude.json").read_bytes() == before


@pytest.mark.usefixtures("proved")
def test_a_refusal_names_the_file_and_the_next_host_is_still_connected(run: Run, home: Path) -> None:
    (home / ".claude.json").chmod(0o444)

    ran = run("claude-code", "codex", "--yes")

    assert ran.code == 1
    assert ran.err == (
        f"carrel: Claude Code: {home}/.claude.json: is read-only; make it writable with `chmod u+w`, then try again\n"
    )
    assert ran.out.endswith("Codex: connected, 12 resources, first answer 140 ms\n")


def test_a_printed_entry_that_names_a_temporary_folder_comes_with_a_warning(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "warning" not in run("zed", "--print").err
    monkeypatch.setattr(program, "_ALWAYS_CLEARED", (sys.prefix,))

    ran = run("zed", "--print")

    assert (ran.code, list(json.loads(ran.out))) == (0, ["context_servers"])
    assert ran.err.splitlines()[-1].startswith("carrel: warning: this Carrel runs from ")


def test_a_program_in_a_temporary_folder_is_refused(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "_ALWAYS_CLEARED", (sys.prefix,))

    ran = run("claude-code", "--yes")

    assert ran.code == 1
    assert "install it with `pipx install .` or `uv tool install .` in a checkout" in ran.err
    assert "carrel" not in (home / ".claude.json").read_text("utf-8")


@pytest.mark.usefixtures("proved")
def test_project_and_user_choose_the_file(run: Run, home: Path) -> None:
    assert run("claude-code", "--project", "--yes").out.endswith("  approve .mcp.json when Claude Code starts\n")
    assert run("vscode", "--yes").code == 0
    assert run("vscode", "--user", "--yes").code == 0

    assert (home / "library/.mcp.json").exists()
    assert (home / "library/.vscode/mcp.json").exists()
    assert (home / ".config/Code/User/mcp.json").exists()
    assert run("vscode", "--remove", "--yes").out.count("VS Code: deleted ") == 2
    assert run("vscode", "--project", "--user").code == 2


@pytest.mark.usefixtures("proved")
def test_in_json_everything_is_said_that_was_done(run: Run, home: Path) -> None:
    [told] = json.loads(run("codex", "--yes", "--json").out)

    assert told == {
        "host": "codex",
        "state": "connected",
        "message": "Codex: connected, 12 resources, first answer 140 ms",
        "scope": "user",
        "file": f"{home}/.codex/config.toml",
        "resources": 12,
        "firstAnswerMs": 140,
        "version": "2025-11-25",
        "hint": "",
    }
    [refused] = json.loads(run("zed", "--json").out)
    assert (refused["state"], refused["file"]) == ("failed", f"{home}/.config/zed/settings.json")


def test_print_only_prints(run: Run, home: Path) -> None:
    ran = run("codex", "claude-code", "--print")

    assert ran.code == 0
    assert ran.out.startswith(f'[mcp_servers.carrel]\ncommand = "{carrel()}"\nargs = ["serve"]\n{{\n')
    assert ran.err.splitlines()[0] == f"carrel: Codex: {home}/.codex/config.toml"
    assert not (home / ".codex").exists()


@pytest.mark.usefixtures("proved")
def test_a_url_is_written_with_the_name_of_the_variable_for_its_token(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARREL_TOKEN", "s3cret")

    ran = run("codex", "--http", "https://desk.example/mcp", "--yes")

    assert ran.code == 0
    assert ran.out.endswith("  set CARREL_TOKEN where Codex is started: the entry refers to it\n")
    written = (home / ".codex/config.toml").read_text("utf-8")
    assert written == (
        '[mcp_servers.carrel]\nurl = "https://desk.example/mcp"\nbearer_token_env_var = "CARREL_TOKEN"\n'
    )


@pytest.mark.usefixtures("proved")
def test_a_token_in_an_entry_is_not_shown(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARREL_TOKEN", "s3cret")

    ran = run("lm-studio", "--http", "https://desk.example/mcp", "--yes")

    assert ran.code == 0
    assert "s3cret" not in ran.out
    assert '"Authorization": "Bearer …"' in ran.out


@pytest.mark.usefixtures("proved")
def test_python_objects_are_served_too(run: Run, home: Path) -> None:
    (home / "library/shelf.py").write_text("", encoding="utf-8")

    assert run("codex", "--with", "shelf.py", "--yes").code == 0

    assert f'args = ["serve", "{home}/library/shelf.py"]' in (home / ".codex/config.toml").read_text("utf-8")


@pytest.mark.usefixtures("proved")
def test_an_object_of_a_file_is_named_so_that_every_folder_starts_it(run: Run, home: Path) -> None:
    (home / "library/my shelf.py").write_text("", encoding="utf-8")
    words = ("--with", "my shelf.py:one", "--with", "pkg.shelf:two", "--with", "my shelf.py:three")

    assert run("codex", *words, "--yes").code == 0
    file = f"{home}/library/my shelf.py"
    written = (home / ".codex/config.toml").read_text("utf-8")
    assert f'args = ["serve", "{file}:one", "pkg.shelf:two", "{file}:three"]' in written


@pytest.mark.usefixtures("proved")
def test_a_host_without_a_file_says_where_to_paste(run: Run) -> None:
    ran = run("ai-assistant")

    assert ran.code == 1
    assert json.loads(ran.out)["mcpServers"]["carrel"]["args"][0] == "serve"
    assert "paste this under Settings | Tools | AI Assistant" in ran.err


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("claude", "did you mean claude-code or claude-desktop?"),
        ("Claude Code", "did you mean claude-code?"),
        ("gemni-cli", "did you mean gemini-cli?"),
        ("emacs", "the known ones are: claude-code, claude-desktop, codex"),
    ],
)
def test_an_unknown_host_is_a_mistake_that_names_those_that_may_be_meant(run: Run, name: str, advice: str) -> None:
    ran = run(name)

    assert ran.code == 2
    assert f"unknown host {name}; {advice}" in ran.err


# All hosts


@pytest.mark.slow
def test_without_names_every_host_is_shown_and_every_connection_tried(run: Run, home: Path) -> None:
    (home / ".codex").mkdir()
    assert run("claude-code", "--yes").code == 0
    broken = home / ".cursor/mcp.json"
    broken.parent.mkdir()
    broken.write_text("{", encoding="utf-8")
    gone = home / ".qwen/settings.json"
    gone.parent.mkdir()
    gone.write_text('{"mcpServers": {"carrel": {"command": "/nowhere/carrel", "args": ["serve"]}}}', encoding="utf-8")

    ran = run()

    assert ran.code == 1
    lines = ran.out.splitlines()
    assert lines[0].startswith("✓ Claude Code: connected, 6 resources, first answer ")
    assert lines[0].endswith(f" (user: {home}/.claude.json)")
    why = f"{broken} is broken and was not touched: line 1, column 2: a key in double quotes is missing"
    assert lines[1:] == [
        f"- Codex: not connected; found: folder {home}/.codex; to connect it: carrel connect codex",
        f"✗ Cursor: {why}; repair it, then try again (user: {broken})",
        f"✗ Qwen Code: /nowhere/carrel does not exist; Carrel was moved or removed (user: {gone})",
    ]


@pytest.mark.usefixtures("proved")
def test_without_names_in_json(run: Run, home: Path) -> None:
    assert run("claude-code", "--yes").code == 0

    shown = json.loads(run("--json").out)

    assert shown == [
        {
            "host": "claude-code",
            "title": "Claude Code",
            "found": [f"settings {home}/.claude.json"],
            "state": "connected",
            "connections": [
                {
                    "scope": "user",
                    "file": f"{home}/.claude.json",
                    "state": "connected",
                    "message": "connected, 12 resources, first answer 140 ms",
                    "resources": 12,
                    "firstAnswerMs": 140,
                }
            ],
        }
    ]


def test_on_an_empty_machine_the_known_hosts_are_named(run: Run, home: Path) -> None:
    (home / ".claude.json").unlink()

    ran = run()

    assert ran.code == 0
    assert ran.out.startswith("No host was found here. To connect one anyway: carrel connect HOST (claude-code, ")


# A stranger's project


def test_the_command_of_a_stranger_s_project_is_not_started(run: Run, home: Path) -> None:
    trap = home / "trap"
    server = {"command": "/bin/sh", "args": ["-c", f"touch {trap}"]}
    (home / "library/.mcp.json").write_text(json.dumps({"mcpServers": {"carrel": server}}), encoding="utf-8")

    ran = run()

    assert ran.code == 1
    assert "the project's entry was not written by you, and was not tried" in ran.out
    assert not trap.exists()


def test_a_stranger_s_project_does_not_get_the_token(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARREL_TOKEN", "s3cret")
    monkeypatch.setattr(changes, "prove", lambda *_: pytest.fail("the address was contacted"))
    server = {"type": "http", "url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": "Bearer ${CARREL_TOKEN}"}}
    (home / "library/.mcp.json").write_text(json.dumps({"mcpServers": {"carrel": server}}), encoding="utf-8")

    assert run().code == 1


@pytest.mark.usefixtures("proved")
def test_an_entry_that_was_agreed_to_is_tried_until_somebody_changes_it(run: Run, home: Path) -> None:
    assert run("claude-code", "--project", "--yes").code == 0
    assert run().code == 0

    path = home / "library/.mcp.json"
    path.write_text(path.read_text("utf-8").replace('"serve"', '"serve", "evil.py"'), encoding="utf-8")

    assert "was not tried" in run().out


@pytest.mark.usefixtures("proved")
def test_an_equal_entry_of_a_colleague_is_agreed_to_by_connecting(run: Run, home: Path) -> None:
    path = home / "library/.mcp.json"
    assert run("claude-code", "--project", "--yes").code == 0
    (home / ".local/state/carrel/connect.json").unlink()
    assert run().code == 1

    assert run("claude-code", "--project", "--yes").code == 0

    assert run().code == 0
    assert run("claude-code", "--project", "--remove", "--yes").code == 0
    assert json.loads(path.read_text("utf-8")) == {"mcpServers": {}}


# At a terminal


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "is_written"), [("y\n", True), ("n\n", False)])
def test_at_a_terminal_a_person_is_asked(home: Path, answer: str, is_written: bool) -> None:
    terminal, end = pty.openpty()
    code = "from carrel.connect import program; program._ALWAYS_CLEARED = ()\nfrom carrel.cli import main; main()"
    command = [sys.executable, "-c", code, "connect", "codex"]
    environment = {**os.environ, "HOME": str(home), "TERM": "dumb"}
    with subprocess.Popen(command, stdin=end, stdout=end, stderr=end, env=environment, cwd=home / "library") as asking:
        os.close(end)
        shown = b""
        while b"Write this? [Y/n]" not in shown:
            shown += os.read(terminal, 1024)
        os.write(terminal, answer.encode())
        while chunk := _read(terminal):
            shown += chunk
        asking.wait(PATIENCE_S)
    os.close(terminal)

    assert (home / ".codex/config.toml").exists() == is_written
    assert (b"Codex: connected, 6 resources" in shown) == is_written


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1024)
    except OSError:  # the other end is closed
        return b""
