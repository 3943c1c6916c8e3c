"""`carrel serve --http --workers N` with real processes: they serve as one server, and outlive each other's death."""

import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.team import CARREL
from tests.support.postgres import PostgresServer
from tests.support.team_client import TeamClient, follow
from tests.support.waiting import until

WORKERS = 3
PATIENCE_S = 60.0
SCOPE = "scopes://scope/garden"


class WorkersDesk:
    """A running server of several workers; its lines on stderr come as they are printed."""

    def __init__(self, folder: Path, store_url: str, *flags: str, environment: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        places = {"HOME": str(folder), "XDG_STATE_HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
        self.environment = {**os.environ, **places, "CARREL_STORE_URL": store_url, **(environment or {})}
        words = [CARREL, "serve", "--http", "0", "--workers", str(WORKERS), "--project", str(folder), *flags]
        self.process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=self.environment)
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip())

    @property
    def printed(self) -> str:
        """Everything that was printed on stderr."""
        return "\n".join(self.lines)

    def port(self) -> int:
        """Wait until the address is printed; return its port."""
        return int(self.find(r"listening on http://127\.0\.0\.1:(\d+)/mcp"))

    def find(self, pattern: str) -> str:
        """Wait until something is printed; return the group of the pattern."""
        found: list[str] = until(lambda: re.findall(pattern, self.printed), PATIENCE_S)
        return found[0]

    def workers(self) -> list[int]:
        """Return the processes of the workers that exist now."""
        return [
            int(pid) for pid in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        ]

    def all_workers(self) -> list[int]:
        """Wait until there are as many workers as were asked for; return them."""
        return until(lambda: found if len(found := self.workers()) == WORKERS else [], PATIENCE_S)

    def carrel(self, *words: str) -> None:
        """Run a command as another member of the team would."""
        subprocess.run(
            [CARREL, *words], env=self.environment, cwd=self.folder, capture_output=True, timeout=PATIENCE_S, check=True
        )

    def stop(self) -> int:
        """End the server as a person does; return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code

    def close(self) -> None:
        """Make sure that nothing is left."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        assert self.process.stderr is not None
        self.process.stderr.close()


@contextmanager
def workers_of(folder: Path, store_url: str, *flags: str, **variables: str) -> Iterator[WorkersDesk]:
    desk = WorkersDesk(folder, store_url, *flags, environment=variables)
    try:
        yield desk
    finally:
        desk.close()


@pytest.fixture(name="desk")
def open_desk(tmp_path: Path, store_url: str) -> Iterator[WorkersDesk]:
    with workers_of(tmp_path / "desk", store_url, "--no-token") as desk:
        yield desk


def get(port: int, path: str, headers: Mapping[str, str] | None = None) -> http.client.HTTPResponse:
    """Ask on a connection of its own, which any worker may take."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request("GET", path, headers=dict(headers or {}))
        response = connection.getresponse()
        response.read()
        return response
    finally:
        connection.close()


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def is_refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S).close()
    except ConnectionRefusedError:
        return True
    return False


# One server


def test_workers_print_the_lines_of_one_server_and_end_with_its_code(desk: WorkersDesk) -> None:
    port = desk.port()
    workers = desk.all_workers()
    assert all(get(port, "/-/ready").status == 200 for _ in range(10))

    assert desk.stop() == 0

    kinds = [line.split()[1] for line in desk.lines]
    assert kinds == ["serving", "listening", "no"], desk.printed
    assert not any(map(is_alive, workers))
    assert is_refused(port)


def test_a_session_and_its_stream_are_right_whichever_worker_answers(desk: WorkersDesk) -> None:
    port = desk.port()
    desk.all_workers()
    desk.carrel("scopes", "create", "Garden", "--alias", "garden")
    client = TeamClient(port)
    client.open()
    for _ in range(20):
        assert "Garden" in client.call("resources/read", {"uri": SCOPE})["contents"][0]["text"]
    client.call("resources/subscribe", {"uri": SCOPE})
    seen: list[str] = []
    ended = threading.Event()
    follower = threading.Thread(target=follow, args=(port, client, SCOPE, seen, [], ended), daemon=True)
    follower.start()
    for number in range(3):
        title = f"Garden {number}"
        desk.carrel("scopes", "update", "garden", "--title", title)
        until(lambda title=title: any(title in text for text in seen), PATIENCE_S)  # type: ignore[misc]
    ended.set()
    follower.join(PATIENCE_S)


def test_the_log_of_a_command_is_readable_on_every_worker(desk: WorkersDesk) -> None:
    port = desk.port()
    desk.all_workers()
    desk.carrel("run", "--name", "web", "--", "echo", "hello")
    listed = TeamClient(port)
    listed.open()
    uris = [one["uri"] for one in listed.call("resources/list", {})["resources"]]
    [log] = [uri for uri in uris if uri.startswith("logs://run/web")]

    assert {TeamClient(port).read(log) for _ in range(20)} == {"hello\n"}


def test_a_browser_that_was_let_in_is_known_to_all_workers_and_its_link_works_once(
    tmp_path: Path, store_url: str
) -> None:
    with workers_of(tmp_path / "desk", store_url, "--open", BROWSER="no-browser-here") as desk:
        port = desk.port()
        link = desk.find(r"http://127\.0\.0\.1:\d+(/-/open\?key=\S+)")
        desk.all_workers()
        assert get(port, "/").status == 401

        first = get(port, link)

        assert first.status == 303
        assert {get(port, link).status for _ in range(10)} == {410}
        cookie = {"cookie": (first.getheader("set-cookie") or "").partition(";")[0], "accept": "text/html"}
        assert {get(port, "/", cookie).status for _ in range(20)} == {200}
        for worker in desk.all_workers():
            os.kill(worker, signal.SIGKILL)
        desk.all_workers()
        assert get(port, "/", cookie).status == 200
        assert desk.printed.count("/-/open?key=") == 1
        assert desk.stop() == 0


# Death


def test_every_request_is_answered_while_workers_are_killed_and_started_again(desk: WorkersDesk) -> None:
    port = desk.port()
    desk.carrel("scopes", "create", "Garden", "--alias", "garden")
    killed: set[int] = set()
    for _ in range(4):
        victim = desk.all_workers()[0]
        os.kill(victim, signal.SIGKILL)
        killed.add(victim)
        for _ in range(10):
            assert "Garden" in retried(port)
        until(lambda victim=victim: victim not in desk.workers(), PATIENCE_S)  # type: ignore[misc]

    assert not killed & set(desk.all_workers())
    assert desk.stop() == 0
    assert desk.printed.count("SIGKILL") == 4


def retried(port: int) -> str:
    """Read once more if a kill cut the connection, as a client does."""
    for _ in range(5):
        try:
            return TeamClient(port).read(SCOPE)
        except (ConnectionError, http.client.HTTPException):
            continue
    raise AssertionError("five workers were killed during one read")


def test_workers_end_when_the_process_above_them_is_killed(desk: WorkersDesk) -> None:
    port = desk.port()
    workers = desk.all_workers()
    until(lambda: get(port, "/-/ready").status == 200, PATIENCE_S)

    desk.process.kill()
    desk.process.wait(PATIENCE_S)

    until(lambda: not any(map(is_alive, workers)), PATIENCE_S)
    assert is_refused(port)


@pytest.mark.slow
def test_a_worker_that_cannot_start_is_tried_again_until_the_database_is_back(tmp_path: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="carrel-", dir="/tmp"))  # the path of a socket is short
    folder.chmod(0o755)
    with (
        PostgresServer(folder / "postgres").running() as server,
        workers_of(tmp_path / "desk", server.url, "--no-token", "--debug") as desk,
    ):
        port = desk.port()
        until(lambda: len(re.findall(r"worker \d+ serves", desk.printed)) == WORKERS, PATIENCE_S)
        victim = desk.all_workers()[0]
        server.stop()
        os.kill(victim, signal.SIGKILL)
        until(lambda: "ended with exit code 2" in desk.printed, PATIENCE_S)
        assert get(port, "/-/ready").status == 200
        server.start()
        until(lambda: len(desk.workers()) == WORKERS and victim not in desk.workers(), PATIENCE_S)
        assert desk.stop() == 0
    shutil.rmtree(folder)
