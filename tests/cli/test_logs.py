"""`carrel run` and `carrel tail`: the terminal as always, and the log for everybody."""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from carrel.cli import terminal
from carrel.providers.logs import Logs
from tests.support.http_asking import application, listening
from tests.support.logging_project import logs, meta, text
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.slow

CARREL = (sys.executable, "-m", "carrel")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "carrel.toml").write_text("")
    (tmp_path / "sub").mkdir()
    return tmp_path


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}


@pytest.fixture
def carrel(project: Path, environment: dict[str, str]) -> Callable[..., "subprocess.CompletedProcess[bytes]"]:
    def run(*words: str, cwd: str = ".", given: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            [*CARREL, *words],
            cwd=project / cwd,
            env=environment,
            input=given,
            capture_output=True,
            timeout=30,
            check=False,
        )

    return run


Carrel = Callable[..., "subprocess.CompletedProcess[bytes]"]


def listed(carrel: Carrel) -> list[str]:
    return [line for line in carrel("ls", "logs://").stdout.decode().splitlines() if line]


def test_a_command_is_run_as_always_and_its_log_is_kept(carrel: Carrel) -> None:
    script = "read line; echo got $line; printf '\\033[31mred\\033[0m\\377'; echo oops >&2; exit 7"
    ran = carrel("run", "--", "sh", "-c", script, cwd="sub", given=b"input\n")

    [uri] = listed(carrel)
    told = f"carrel: logging to {uri}\noops\ncarrel: log: {uri}\n".encode()
    assert (ran.returncode, ran.stdout, ran.stderr) == (7, b"got input\n\x1b[31mred\x1b[0m\xff", told)
    assert re.fullmatch(r"logs://run/sh_\d{16}", uri)
    assert sorted(carrel("tail", uri).stdout.decode().splitlines()) == ["got input", "oops", "red\ufffd"]
    assert b'"dev.carrel/state": "exited"' in carrel("cat", uri, "--json").stdout


def test_options_after_the_command_are_the_commands(carrel: Carrel) -> None:
    assert carrel("run", "echo", "--name", "--help", "-x").stdout == b"--name --help -x\n"
    assert carrel("run", "--name", "n", "--kind", "build", "--", "echo", "--", "a b").stdout == b"-- a b\n"
    assert [uri.rpartition("_")[0] for uri in listed(carrel)] == ["logs://build/n", "logs://run/echo"]


def test_the_project_may_be_named_after_the_command(
    carrel: Carrel, project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    assert carrel("run", "--project", str(project), "--", "echo", "a", cwd=str(elsewhere)).returncode == 0

    [uri] = listed(carrel)
    assert carrel("tail", uri, "--project", str(project), cwd=str(elsewhere)).stdout == b"a\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["run"], 2, "Missing argument"),
        (["run", "--name", "a/b", "--", "true"], 2, "--name a/b: use letters"),
        (["run", "--", "no-such-program-anywhere"], 127, "no-such-program-anywhere: no such program"),
        (["run", "--", "/etc/passwd"], 126, "/etc/passwd: cannot be executed"),
        (["run", "--", "sh", "-c", "kill -9 $$"], 137, ""),
        (["tail", "logs://run/nope"], 1, "Resource not found: logs://run/nope"),
        (["tail", "logs://run/nope?tail=0"], 2, "Invalid parameter: tail=0"),
        (["tail", "workspace:///carrel.toml"], 2, "workspace:///carrel.toml is not a log"),
    ],
)
def test_exit_codes(carrel: Carrel, words: list[str], code: int, said: str) -> None:
    ran = carrel(*words)

    assert ran.returncode == code, ran
    assert said in ran.stderr.decode()


def test_a_log_that_cannot_be_kept_costs_one_warning(carrel: Carrel, project: Path) -> None:
    (project / ".carrel").write_text("in the way")
    ran = carrel("run", "--", "sh", "-c", "echo a; echo b; exit 3")

    assert (ran.returncode, ran.stdout) == (3, b"a\nb\n")
    assert ran.stderr == b"carrel: cannot write the log: Not a directory\n"


def test_a_mistake_in_the_configuration_does_not_keep_a_command_from_running(carrel: Carrel, project: Path) -> None:
    (project / "carrel.toml").write_text("[logs]\nmax_byte = 3\n")
    ran = carrel("run", "--", "echo", "a")

    assert (ran.returncode, ran.stdout) == (0, b"a\n")
    assert b"cannot write the log: " in ran.stderr
    assert b"did you mean 'max_bytes'?" in ran.stderr


def test_settings_bound_the_log_and_the_number_of_logs(carrel: Carrel, project: Path) -> None:
    (project / "carrel.toml").write_text("[logs]\nmax_entries = 3\nspool_logs = 2\n")
    for _ in range(3):
        carrel("run", "--", "seq", "1", "9")

    uris = listed(carrel)
    assert len(uris) == 2
    assert carrel("tail", uris[0]).stdout == b"7\n8\n9\n"


@pytest.fixture
def running(project: Path, environment: dict[str, str]) -> Iterator[Callable[[str], "subprocess.Popen[bytes]"]]:
    started: list[subprocess.Popen[bytes]] = []

    def start(script: str) -> "subprocess.Popen[bytes]":
        child = subprocess.Popen(
            [*CARREL, "run", "--name", "job", "--", "sh", "-c", script],
            cwd=project,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        started.append(child)
        return child

    yield start
    for child in started:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


def first_line(child: "subprocess.Popen[bytes]") -> bytes:
    assert child.stdout is not None
    assert select.select([child.stdout], [], [], 20)[0], "nothing is written"
    return child.stdout.readline()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_are_passed_on(running: Callable[[str], "subprocess.Popen[bytes]"], number: signal.Signals) -> None:
    # Not by a shell: one that was started with a signal ignored, as in the background, cannot trap it.
    told = "lambda *_: (print('told', flush=True), os._exit(5))"
    script = f"import os, signal; signal.signal({int(number)}, {told}); print('ready', flush=True); signal.pause()"
    child = running(f'exec {sys.executable} -c "{script}"')
    assert first_line(child) == b"ready\n"

    child.send_signal(number)

    assert first_line(child) == b"told\n"
    assert child.wait(10) == 5


def test_tail_follows_until_the_end(
    carrel: Carrel, running: Callable[[str], "subprocess.Popen[bytes]"], project: Path, environment: dict[str, str]
) -> None:
    child = running("echo one; while ! test -e go; do sleep 0.05; done; echo two; exit 3")
    assert first_line(child) == b"one\n"
    [uri] = listed(carrel)
    assert carrel("tail", uri).stdout == b"one\n"
    command = [*CARREL, "tail", "-f", uri]
    with subprocess.Popen(command, cwd=project, env=environment, stdout=subprocess.PIPE) as tail:
        assert tail.stdout is not None
        assert tail.stdout.readline() == b"one\n"
        (project / "go").touch()
        assert tail.stdout.read() == b"two\n"
        assert tail.wait(10) == 0
    assert child.wait(10) == 3


def test_a_log_is_readable_after_its_writer_was_killed(
    carrel: Carrel, running: Callable[[str], "subprocess.Popen[bytes]"], project: Path
) -> None:
    child = running("echo $$ > pid; echo one; printf unfinished; exec sleep 60")
    assert first_line(child) == b"one\n"
    until(lambda: b"one" in carrel("tail", *listed(carrel)).stdout)

    child.kill()
    child.wait()

    [uri] = listed(carrel)
    assert carrel("tail", uri).stdout.splitlines()[0] == b"one"
    assert b"lost" in carrel("tail", f"{uri}?format=full").stdout
    os.kill(int((project / "pid").read_text()), signal.SIGKILL)


def at_a_terminal(
    command: list[str], cwd: Path, environment: dict[str, str], mark: bytes, act: Callable[[int, int], object]
) -> tuple[bytes, int]:
    """Run a command at a terminal; once it has shown `mark`, do something to it. Give all it showed, and its code."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execvpe(command[0], command, environment)
    shown = b""
    guard = threading.Timer(20, os.kill, (pid, signal.SIGKILL))
    guard.start()
    is_done = False
    while True:
        try:
            data = os.read(terminal, 4_096)
        except OSError:
            break
        shown += data
        if not is_done and mark in shown:
            is_done = True
            act(pid, terminal)
    guard.cancel()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(terminal)
    return shown, code


def test_at_a_terminal_the_command_has_one_too(carrel: Carrel, project: Path, environment: dict[str, str]) -> None:
    script = "test -t 0 && test -t 1 && test -t 2 && echo terminal; printf '\\033[31mred\\033[0m\\n'; read x; echo $x"
    command = [*CARREL, "run", "--", "sh", "-c", script]
    shown, code = at_a_terminal(command, project, environment, b"red", lambda _, fd: os.write(fd, b"typed\n"))

    [uri] = listed(carrel)
    first, _, rest = shown.partition(b"\r\n")
    assert first == f"carrel: logging to {uri}".encode()
    told = f"carrel: log: {uri}\r\n".encode()
    assert (rest, code) == (b"terminal\r\n\x1b[31mred\x1b[0m\r\ntyped\r\ntyped\r\n" + told, 0)
    assert carrel("tail", uri).stdout == b"terminal\nred\ntyped\n"


def test_what_is_typed_at_the_terminal_interrupts_once(project: Path, environment: dict[str, str]) -> None:
    script = (
        "import signal, time\nn = []\nsignal.signal(signal.SIGINT, lambda *_: n.append(1))\n"
        "print('ready', flush=True)\n"
        "end = time.monotonic() + 0.5\nwhile time.monotonic() < end: time.sleep(0.01)\nprint(len(n))"
    )
    command = [*CARREL, "run", "--", sys.executable, "-c", script]
    shown, code = at_a_terminal(command, project, environment, b"ready\r\n", lambda _, fd: os.write(fd, b"\x03"))

    written = [line for line in shown.replace(b"^C", b"").split(b"\r\n") if not line.startswith(b"carrel: ")]
    assert (written, code) == ([b"ready", b"1", b""], 0)


class Copied:
    """Keeps what is copied, piece by piece."""

    def __init__(self) -> None:
        self.pieces: list[tuple[str, bytes]] = []

    def feed(self, stream: str, data: bytes) -> None:
        self.pieces.append((stream, data))

    def flush(self) -> None:
        self.pieces.append(("", b""))


def test_what_comes_at_once_is_copied_in_its_order_and_in_large_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "BUFFER_BYTES", 10)
    monkeypatch.setattr(terminal, "BUFFER_S", PATIENCE_S)
    copied = Copied()
    held = terminal.OutputBuffer(copied)
    held.add("out", b"a")
    held.add("out", b"b")
    held.add("err", b"c")
    held.add("out", b"d")
    held.add("out", b"1234567")
    held.add("err", b"e")
    held.flush()

    assert copied.pieces == [("out", b"ab"), ("err", b"c"), ("out", b"d1234567"), ("err", b"e"), ("", b"")]


def test_what_is_passed_on_slowly_is_not_held_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "BUFFER_S", 0.0)
    copied = Copied()
    terminal.OutputBuffer(copied).add("out", b"a")

    assert copied.pieces == [("out", b"a")]


# Programs that read their keys from the terminal they write to


def paged(
    command: list[str], cwd: Path, environment: dict[str, str], mark: bytes, keys: Iterator[bytes]
) -> tuple[bytes, int, int]:
    """Run a command at a terminal of 24 lines, and type the next key whenever it shows `mark`.

    A key is typed again where nothing comes of it: a pager misses a signal that comes just before it waits for a key.
    Give what it showed, its code, and what the terminal does with keys afterwards.
    """
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execvpe(command[0], command, environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
    guard = threading.Timer(60, os.kill, (pid, signal.SIGKILL))
    guard.start()
    shown, seen, key = b"", 0, b""
    while True:
        is_silent = not select.select([terminal], [], [], 2)[0]
        try:
            shown += b"" if is_silent else os.read(terminal, 4_096)
        except OSError:
            break
        if mark in shown[seen:]:
            seen, key = len(shown), next(keys, key)
            os.write(terminal, key)
        elif is_silent:
            os.write(terminal, key)
    guard.cancel()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    ways = termios.tcgetattr(terminal)[3]
    os.close(terminal)
    return shown, code, ways


STAND_IN = f"""\
#!{sys.executable}
import os, signal, sys, termios, tty

with open(sys.argv[1]) if sys.argv[1:] else sys.stdin as file:
    lines = file.read().splitlines(keepends=True)
keys = os.open("/dev/tty", os.O_RDWR)
before = termios.tcgetattr(keys)

def show(*_):
    tty.setcbreak(keys, termios.TCSANOW)  # keeps what was typed
    os.write(keys, b"KEYS")

signal.signal(signal.SIGCONT, show)
key = b" "
while key != b"q":
    if key == b" ":
        sys.stdout.write("".join(lines[:23]))
        sys.stdout.flush()
        del lines[:23]
    show()
    key = os.read(keys, 1)
termios.tcsetattr(keys, termios.TCSANOW, before)
"""
"""What stands in for `less` where there is none: pages, a prompt, keys from the terminal, Ctrl-Z."""


@pytest.fixture(name="pager", params=["less", "stand-in"])
def pager_environment(
    environment: dict[str, str], project: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> dict[str, str]:
    (project / "long.txt").write_text("".join(f"line {number}\n" for number in range(1_000)), encoding="utf-8")
    paged = {**environment, "TERM": "xterm", "LESS": "-PKEYS", "PAGER": "less", "GIT_PAGER": "less"}
    if request.param == "less" and shutil.which("less") is not None:
        return paged
    stand_in = tmp_path / "bin/less"
    stand_in.parent.mkdir()
    stand_in.write_text(STAND_IN, encoding="utf-8")
    stand_in.chmod(0o755)
    return {**paged, "PATH": f"{stand_in.parent}:{os.environ['PATH']}"}


def test_a_pager_gets_its_keys_and_leaves_the_terminal_as_it_was(
    carrel: Carrel, project: Path, pager: dict[str, str]
) -> None:
    command = [*CARREL, "run", "--", "less", "long.txt"]
    shown, code, ways = paged(command, project, pager, b"KEYS", iter([b" ", b"q"]))

    assert code == 0
    assert b"line 30" in shown
    assert ways & termios.ICANON
    assert ways & termios.ECHO
    assert b"line 30" in carrel("tail", *listed(carrel)).stdout


def test_the_pager_of_git_log_ends_when_q_is_typed(project: Path, pager: dict[str, str]) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run([*git, "init", "-q"], cwd=project, env=pager, check=True)
    message = "".join(f"line {number}\n\n" for number in range(100))
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", message], cwd=project, env=pager, check=True)
    shown, code, _ = paged([*CARREL, "run", "--", "git", "log"], project, pager, b"KEYS", iter([b"q"]))

    assert code == 0
    assert b"line 3" in shown


def test_a_pager_whose_input_is_a_pipe_gets_its_keys_too(project: Path, pager: dict[str, str]) -> None:
    script = f"cat long.txt | {' '.join(CARREL)} run -- less"
    shown, code, _ = paged(["sh", "-c", script], project, pager, b"KEYS", iter([b" ", b"q"]))

    assert code == 0
    assert b"line 30" in shown


def test_a_pager_is_stopped_and_goes_on(project: Path, pager: dict[str, str]) -> None:
    """A shell with job control: Ctrl-Z stops pager and `carrel run` together, `fg` brings both back."""
    script = f"set -m; {' '.join(CARREL)} run -- less long.txt; echo stopped; fg >/dev/null; echo code $?"
    shown, code, _ = paged(["bash", "-c", script], project, pager, b"KEYS", iter([b"\x1a", b" ", b"q"]))

    assert (code, shown.rstrip().endswith(b"code 0")) == (0, True), shown
    assert b"line 30" in shown


# Another desk


@pytest.fixture(name="team_desk")
def desk_of_a_team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Logs]]:
    provider = logs(tmp_path_factory.mktemp("desk"))
    with listening(application(provider)) as port:
        yield port, provider


def test_a_run_is_sent_to_another_desk_with_its_job_and_its_end(
    carrel: Carrel, environment: dict[str, str], team_desk: tuple[int, Logs]
) -> None:
    port, desk = team_desk
    environment.update(GITHUB_REF_NAME="main", GITHUB_SHA="0123456789abcdef", GITHUB_JOB="test")

    ran = carrel(
        "run", "--to", f"http://127.0.0.1:{port}", "--", "sh", "-c", "echo one; echo password=hunter2222; exit 3"
    )

    [sent] = desk.entries()
    assert (ran.returncode, ran.stdout) == (3, b"one\npassword=hunter2222\n")
    assert f"carrel: sent: {sent.uri} on 127.0.0.1:{port}\n" in ran.stderr.decode()
    assert text(desk, sent.uri) == "one\npassword=[redacted]\n"
    found = meta(desk, sent.uri)
    assert [found[key] for key in ("state", "exit-code", "branch", "job")] == ["exited", 3, "main", "test"]
    assert sent.uri.startswith("logs://build/sh_")
    assert sent.uri in listed(carrel), "the log of this machine has the same URI"


def test_a_desk_that_is_not_there_costs_a_run_one_warning(carrel: Carrel) -> None:
    ran = carrel("run", "--to", "http://127.0.0.1:9", "--", "echo", "hello")

    assert (ran.returncode, ran.stdout) == (0, b"hello\n")
    assert ran.stderr.decode().count("not sent") == 1


def test_a_wrong_address_is_refused_before_anything_runs(carrel: Carrel, project: Path) -> None:
    ran = carrel("run", "--to", "http://desk.example", "--", "touch", "ran")

    assert (ran.returncode, (project / "ran").exists()) == (2, False)
    assert b"use https" in ran.stderr


def test_a_file_is_pushed_and_its_uri_printed(carrel: Carrel, project: Path, team_desk: tuple[int, Logs]) -> None:
    port, desk = team_desk
    (project / "build.log").write_bytes(b"one\ntwo")

    pushed = carrel("logs", "push", "build.log", "--to", f"http://127.0.0.1:{port}", "--exit-code", "1", "--json")

    uri = json.loads(pushed.stdout)["uri"]
    assert (pushed.returncode, uri.rpartition("_")[0]) == (0, "logs://build/build.log")
    assert (text(desk, uri), meta(desk, uri)["exit-code"]) == ("one\ntwo\n", 1)
    assert carrel("logs", "push", "build.log", "--to", "http://127.0.0.1:9").returncode == 1
    assert carrel("logs", "push", "missing.log", "--to", f"http://127.0.0.1:{port}").returncode == 2
