"""Children: started without a shell, captured, stopped with their group, never left behind."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic

import pytest

from carrel.providers.logs import process as processes_module
from carrel.providers.logs.process import End, Launch, Process, Processes
from carrel.providers.logs.ring import Stream
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.slow


class Kept:
    """Keeps everything it is given."""

    def __init__(self) -> None:
        self.written: dict[Stream, bytes] = {"out": b"", "err": b""}
        self.ends: list[tuple[End, int | None, str]] = []
        self.pauses = 0
        self.changed = threading.Condition()

    def write(self, stream: Stream, data: bytes) -> None:
        with self.changed:
            self.written[stream] += data
            self.changed.notify_all()

    def pause(self, stream: Stream) -> None:
        with self.changed:
            self.pauses += 1
            self.changed.notify_all()

    def end(self, end: End, exit_code: int | None, reason: str) -> None:
        self.ends.append((end, exit_code, reason))

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(is_so, PATIENCE_S)


@pytest.fixture
def processes() -> Iterator[Processes]:
    made = Processes(grace_s=0.3)
    yield made
    made.close()


def start(processes: Processes, *argv: str, cwd: str = "/", timeout_s: float = 0, **env: str) -> tuple[Process, Kept]:
    kept = Kept()
    program = Launch(argv, cwd, {"PATH": os.environ["PATH"], **env}, timeout_s)
    return processes.start(program, kept), kept


def shell(processes: Processes, script: str, timeout_s: float = 0) -> tuple[Process, Kept]:
    return start(processes, "sh", "-c", script, timeout_s=timeout_s)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


def test_both_streams_are_captured_and_the_exit_code_is_known(processes: Processes) -> None:
    process, kept = shell(processes, "echo out; echo err >&2; exit 3")

    assert process.wait(PATIENCE_S)
    assert kept.written == {"out": b"out\n", "err": b"err\n"}
    assert kept.ends == [("exited", 3, "")]
    assert (process.end, process.exit_code, process.signal) == ("exited", 3, None)


def test_a_signal_is_an_exit_code_of_128_and_its_number(processes: Processes) -> None:
    process, kept = shell(processes, "kill -9 $$")

    assert process.wait(PATIENCE_S)
    assert kept.ends == [("exited", 137, "")]


def test_a_child_has_a_group_of_its_own_no_input_and_the_folder_and_environment_given(
    processes: Processes, tmp_path: Path
) -> None:
    script = "import os,sys; print(os.getpgid(0)==os.getpid(), os.read(0,1), os.getcwd(), sorted(os.environ.items()))"
    process, kept = start(processes, sys.executable, "-I", "-c", script, cwd=str(tmp_path), LC_ALL="C.UTF-8", A="b c")

    assert process.wait(PATIENCE_S)
    environment = sorted({"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "A": "b c"}.items())
    assert kept.written["out"].decode() == f"True b'' {tmp_path.resolve()} {environment}\n"


def test_a_child_has_the_usual_signals_and_no_foreign_files(processes: Processes) -> None:
    script = "grep -E 'Sig(Blk|Ign)' /proc/self/status; ls /proc/self/fd"
    process, kept = shell(processes, script)

    assert process.wait(PATIENCE_S)
    words = kept.written["out"].decode().split()
    ignored_by_python = 1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1
    assert words[:3] == ["SigBlk:", "0" * 16, "SigIgn:"]
    assert int(words[3], 16) & ignored_by_python == 0
    assert words[4:] == ["0", "1", "2", "3"]  # 3 is the folder that `ls` reads


@pytest.mark.parametrize(
    ("program", "reason"),
    [("no-such-program-anywhere", "there is no such program"), ("/etc/passwd", "it may not be executed")],
)
def test_what_cannot_be_started_says_why(processes: Processes, program: str, reason: str) -> None:
    process, kept = start(processes, program)

    assert process.wait(PATIENCE_S)
    assert kept.ends == [("not-started", None, reason)]


def test_a_missing_folder_is_a_reason_not_to_start(processes: Processes, tmp_path: Path) -> None:
    process, kept = start(processes, "true", cwd=str(tmp_path / "missing"))

    assert process.wait(PATIENCE_S)
    assert kept.ends == [("not-started", None, "there is no such program")]


def test_output_of_surviving_grandchildren_is_read_for_a_while(processes: Processes) -> None:
    process, kept = shell(processes, "(sleep 0.3; echo late) & echo now")

    assert process.wait(PATIENCE_S)
    assert kept.written["out"] == b"now\nlate\n"
    assert kept.ends == [("exited", 0, "")]


def test_a_grandchild_that_keeps_the_pipe_does_not_keep_the_log_open(processes: Processes) -> None:
    began = monotonic()
    process, kept = shell(processes, "sleep 60 & echo $!")

    assert process.wait(PATIENCE_S)
    assert 1.9 < monotonic() - began < 4.0
    assert kept.ends == [("exited", 0, "")]
    assert processes.running() == 1
    grandchild = int(kept.written["out"])
    assert is_alive(grandchild)
    processes.close()
    assert not is_alive(grandchild)
    assert processes.running() == 0


def test_stopping_ends_the_whole_group(processes: Processes) -> None:
    process, kept = shell(processes, "sleep 60 & echo $!; wait")
    kept.wait_for(lambda: b"\n" in kept.written["out"])

    processes.stop(process)

    assert process.wait(PATIENCE_S)
    assert kept.ends == [("stopped", 143, "")]
    assert process.signal == "SIGTERM"
    assert not is_alive(int(kept.written["out"]))


def test_who_ignores_the_request_is_made_to_end_grandchildren_too(processes: Processes) -> None:
    process, kept = shell(processes, "trap '' TERM; sleep 60 & echo $!; while :; do sleep 0.05; done")
    kept.wait_for(lambda: b"\n" in kept.written["out"])

    processes.stop(process)

    assert process.wait(PATIENCE_S)
    assert kept.ends == [("stopped", 137, "")]
    assert process.signal == "SIGKILL"
    assert not is_alive(int(kept.written["out"]))


def test_a_leader_that_stops_leaves_no_process_that_does_not(processes: Processes) -> None:
    process, kept = shell(processes, "(trap '' TERM; while :; do sleep 0.05; done) & echo $!; wait")
    kept.wait_for(lambda: b"\n" in kept.written["out"])

    processes.stop(process)

    assert process.wait(PATIENCE_S)
    assert kept.ends == [("stopped", 143, "")]
    assert not is_alive(int(kept.written["out"]))


def test_a_time_limit_ends_it(processes: Processes) -> None:
    process, kept = shell(processes, "sleep 60", timeout_s=0.2)

    assert process.wait(PATIENCE_S)
    assert kept.ends == [("timed-out", 143, "")]


def test_a_silence_is_reported(processes: Processes) -> None:
    process, kept = shell(processes, "printf prompt; sleep 60")

    kept.wait_for(lambda: kept.pauses == 1)
    assert kept.written["out"] == b"prompt"
    assert not process.is_over


def test_a_killed_supervisor_takes_its_group_along_and_the_end_is_lost(processes: Processes) -> None:
    process, kept = shell(processes, "sleep 60 & echo $!; wait")
    kept.wait_for(lambda: b"\n" in kept.written["out"])
    # A program may write before its supervisor has told its group, by which it could be ended.
    assert process.wait_until_started(PATIENCE_S)
    assert process.supervisor is not None

    os.kill(process.supervisor.pid, signal.SIGKILL)

    assert process.wait(PATIENCE_S)
    assert kept.ends == [("lost", None, "")]
    until(lambda: not is_alive(int(kept.written["out"])))


def test_closed_nothing_is_left_and_nothing_starts_any_more(processes: Processes) -> None:
    threads, files = set(threading.enumerate()), len(list(Path("/proc/self/fd").iterdir()))
    children = [shell(processes, "sleep 60") for _ in range(3)]

    processes.close()
    processes.close()

    assert [kept.ends for _, kept in children] == [[("stopped", 143, "")]] * 3
    assert processes.running() == 0
    assert set(threading.enumerate()) <= threads  # fewer, where those of other tests ended meanwhile
    assert len(list(Path("/proc/self/fd").iterdir())) <= files
    late, kept = shell(processes, "true")
    assert kept.ends == [("not-started", None, "the system refused to start it")]
    assert late.is_over


def test_no_child_outlives_a_parent_that_was_killed(tmp_path: Path) -> None:
    """The parent is killed with SIGKILL; children, grandchildren and those in sessions of their own are soon gone.

    One ignores SIGTERM; the parent of another has ended, so that nothing but its origin ties it to the others.
    """
    script = (
        "import os, sys, threading\n"
        "from carrel.providers.logs.process import Processes, Launch\n"
        "class Output:\n"
        "    def write(self, stream, data): sys.stdout.write(data.decode()); sys.stdout.flush()\n"
        "    def pause(self, stream): pass\n"
        "    def end(self, *given): pass\n"
        "processes = Processes(5)\n"
        "for line in ('sleep 60 & echo $! $$; wait', \"trap '' TERM; echo $$; while :; do sleep 0.1; done\",\n"
        "             'setsid sleep 60 & echo $!; wait', '(setsid sleep 60 & echo $!); echo $$; exec sleep 60'):\n"
        "    processes.start(Launch(('sh', '-c', line), '/', dict(os.environ)), Output())\n"
        "threading.Event().wait()\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pids: list[int] = []
    while len(pids) < 6:
        pids += [int(word) for word in parent.stdout.readline().split()]
    assert all(is_alive(pid) for pid in pids)

    parent.kill()
    killed = monotonic()

    until(lambda: not any(is_alive(pid) for pid in pids), 5)
    assert monotonic() - killed < 3.0
    parent.wait()
    parent.stdout.close()


def test_ten_children_at_full_speed_are_captured_without_a_torn_line(processes: Processes) -> None:
    count = 20_000
    script = f"i=0; while [ $i -lt {count} ]; do echo line-NAME-$i-NAME; i=$((i+1)); done"
    children = [(name, *shell(processes, script.replace("NAME", name))) for name in "abcdefghij"]

    for name, process, kept in children:
        assert process.wait(60)
        assert kept.written["out"] == b"".join(b"line-%b-%d-%b\n" % (n := name.encode(), i, n) for i in range(count))


def test_a_server_that_is_gone_before_it_hears_of_the_start_leaves_no_process_behind() -> None:
    hearing, status = os.pipe()
    os.close(hearing)
    script = Path(processes_module.__file__).with_name("supervisor.py")
    program = ("sh", "-c", "trap '' TERM; echo $$; while :; do sleep 0.05; done")
    with subprocess.Popen(
        [sys.executable, "-I", "-S", str(script), str(status), "", *program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=(status,),
        start_new_session=True,
    ) as supervisor:
        os.close(status)
        assert supervisor.stdin is not None
        assert supervisor.stdout is not None
        pid = int(supervisor.stdout.readline())
        supervisor.stdin.close()

        until(lambda: not is_alive(pid), 5)
        assert supervisor.wait(5) == 0
