"""Faults of HTTP: a port that is taken, tokens that others can read, files that are broken."""

import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from carrel.doctor import http
from carrel.doctor.checks import Check
from carrel.transports.http.tokens import TokenStore
from tests.support.doctor import Ward


@pytest.fixture(name="taken")
def other_program() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("check", http.CHECKS, ids=lambda one: one.id)
def test_a_sound_machine_has_no_faults(ward: Ward, check: Check) -> None:
    TokenStore(ward.environment).local()
    TokenStore(ward.environment).add("laptop", None)

    assert ward.find(check) == []


def test_a_port_that_another_program_holds_is_a_problem_and_replaced(
    ward: Ward, taken: int, capfd: pytest.CaptureFixture[str]
) -> None:
    ward.write(ward.user_file, f"[http]\nport = {taken}  # mine\n")

    found = ward.one(http.http_port)
    assert (found.state, found.message) == (
        "problem",
        f"port {taken} of [http] port is held by another program",
    )
    assert ward.fix(http.http_port) == []
    capfd.readouterr()  # the other program logs what it was asked


def test_a_port_in_the_settings_of_a_project_is_not_replaced(ward: Ward, taken: int) -> None:
    ward.environment["CARREL_HTTP_PORT"] = str(taken)

    found = ward.one(http.http_port)
    assert found.repair is None
    assert "CARREL_HTTP_PORT" in (found.fix or "")


def test_a_program_that_listens_and_says_nothing_is_another_program(
    ward: Ward, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "ANSWER_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert http.held_by("127.0.0.1", silent.getsockname()[1]) == "another program"
    del ward


def test_a_port_that_nobody_holds_is_free(ward: Ward) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    ward.environment["CARREL_HTTP_PORT"] = str(port)

    assert ward.find(http.http_port) == []


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("--no-token",)])
def test_a_port_that_carrel_itself_holds_is_no_fault(ward: Ward, words: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "carrel", "serve", "--http", "0", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=ward.environment, text=True) as server:
        try:
            assert server.stderr is not None
            listening = next(line for line in server.stderr if "listening on" in line)
            port = int(listening.rpartition(":")[2].partition("/")[0])
            ward.environment["CARREL_HTTP_PORT"] = str(port)
            assert ward.find(http.http_port) == []
            assert http.held_by("127.0.0.1", port) == "Carrel"
        finally:
            server.terminate()
            server.communicate()


def test_tokens_that_others_can_read_are_closed(ward: Ward) -> None:
    store = TokenStore(ward.environment)
    store.local()
    store.add("laptop", None)
    paths = [ward.state / "local-token", ward.state / "tokens.json"]
    for path in paths:
        path.chmod(0o644)

    assert [one.state for one in ward.find(http.token_mode)] == ["problem", "problem"]
    assert ward.fix(http.token_mode) == []
    assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [0o600, 0o600]


def test_a_local_token_that_is_empty_is_moved_away(ward: Ward) -> None:
    ward.write(ward.state / "local-token", "\n")

    assert ward.one(http.token_local).state == "problem"
    assert ward.fix(http.token_local) == []
    assert TokenStore(ward.environment).local()[1]


def test_a_list_of_tokens_that_is_broken_is_moved_away(ward: Ward) -> None:
    ward.write(ward.state / "tokens.json", "{")

    assert ward.one(http.token_list).state == "problem"
    assert ward.fix(http.token_list) == []
    assert TokenStore(ward.environment).all() == []


def test_a_folder_of_tokens_that_others_can_change_is_closed(ward: Ward) -> None:
    ward.state.mkdir(parents=True)
    ward.state.chmod(0o777)

    assert ward.one(http.state_folder_mode).state == "problem"
    assert ward.fix(http.state_folder_mode) == []
    assert stat.S_IMODE(ward.state.stat().st_mode) == 0o755


def test_a_host_name_that_never_matches_is_noted(ward: Ward) -> None:
    ward.write(ward.user_file, "[http]\nhosts = ['https://desk.example/', 'desk.example:8000']\n")

    assert "'https://desk.example/' never matches" in ward.one(http.http_hosts).message
