"""Sending a log to another desk: everything arrives once, in order, whatever happens on the way."""

import random
import re
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from carrel.catalog.catalog import Catalog
from carrel.core.errors import ConfigError, Unreachable
from carrel.core.limits import MAX_MESSAGE_BYTES
from carrel.providers.logs import Logs, sender
from carrel.providers.logs.log import LogOrigin
from carrel.providers.logs.sender import LogSender, find_origin
from tests.support.logging_project import logs, meta, text
from tests.support.waiting import until

URI = "logs://build/ci_1"
CI = LogOrigin("main", "0123", "test")


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "GATHER_S", 0.001)
    monkeypatch.setattr(sender, "RETRY_S", (0.001,))


class Desk:
    """A desk in this process, which fails as it is told: before a batch is taken, or after."""

    name = "desk.example"

    def __init__(self, provider: Logs, seed: int | None = None) -> None:
        self.provider = provider
        self._catalog = Catalog([provider])
        self._random = None if seed is None else random.Random(seed)
        self.is_down = False
        self.refusal = ""
        self.bodies: list[bytes] = []

    def post(self, path: str, body: bytes) -> Mapping[str, object]:
        fate = 1.0 if self._random is None else self._random.random()
        if self.refusal:
            raise ConfigError(self.refusal)
        if self.is_down or fate < 0.3:
            raise Unreachable(0, "cannot reach desk.example: connection refused")
        self.bodies.append(body)
        taken = self._catalog.append(f"logs:/{path.removeprefix('/logs')}", body)
        if fate < 0.5:
            raise Unreachable(0, "cannot reach desk.example: the connection broke off")
        return taken


def send_to(desk: Desk, warned: list[str] | None = None) -> LogSender:
    return LogSender(desk, "build", "ci_1", "make", CI, (warned if warned is not None else []).append).start()


def test_a_log_arrives_while_the_command_runs_and_ends(tmp_path: Path) -> None:
    provider = logs(tmp_path)
    log = send_to(Desk(provider))
    log.feed("out", b"one\ntw")
    until(lambda: URI in [entry.uri for entry in provider.entries()] and text(provider, URI) == "one\n")
    log.feed("err", b"oops\n")
    log.flush()

    assert log.end(3) is True
    found = meta(provider, URI)
    assert (text(provider, URI), found["state"], found["exit-code"]) == ("one\noops\ntw\n", "exited", 3)
    assert (found["branch"], found["commit"], found["job"]) == ("main", "0123", "test")
    assert log.uri == URI


def test_a_file_that_is_larger_than_what_may_wait_arrives_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "MAX_BYTES", 65_536)
    monkeypatch.setattr(sender, "MAX_ENTRIES", 1_024)
    monkeypatch.setattr(sender, "BATCH_BYTES", 4_096)
    provider = logs(tmp_path)
    log = send_to(Desk(provider))
    for number in range(400):
        log.feed("out", f"{number}:{'x' * 500}\n".encode())
        log.wait_for_room()

    assert log.end(0, is_patient=True) is True
    assert text(provider, URI) == "".join(f"{number}:{'x' * 500}\n" for number in range(400))


class HeldDesk(Desk):
    """A desk that takes the beginning of a log, and holds what follows until it is released."""

    def __init__(self, provider: Logs) -> None:
        super().__init__(provider)
        self.released = threading.Event()

    def post(self, path: str, body: bytes) -> Mapping[str, object]:
        if self.bodies:
            self.released.wait()
        return super().post(path, body)


class SlowDesk(Desk):
    """A desk that needs two thirds of the time in which an answer is expected."""

    now = 0.0

    def post(self, path: str, body: bytes) -> Mapping[str, object]:
        self.now += sender.END_S * 2 / 3
        return super().post(path, body)


def test_lines_of_a_file_that_the_desk_would_drop_at_once_are_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "MAX_BYTES", 8_192)
    monkeypatch.setattr(sender, "BATCH_BYTES", 1_024)
    monkeypatch.setattr(sender, "NEVER_REACHED_S", 1_000.0)
    provider = logs(tmp_path, pushed_max_bytes=4_096)
    desk = HeldDesk(provider)
    log = send_to(desk)
    until(lambda: desk.bodies)
    lines = [f"{number}:{'x' * 500}\n" for number in range(400)]

    def push() -> None:
        for line in lines:
            log.feed("out", line.encode())
            log.wait_for_room()

    with ThreadPoolExecutor(1) as pushing:
        try:
            pushing.submit(push).result(10)
        finally:
            desk.released.set()

    assert log.end(0, is_patient=True) is True
    assert text(provider, URI) == "".join(lines[-8:])
    assert meta(provider, URI)["dropped-entries"] == 392
    assert sum(map(len, desk.bodies)) < 40_000


def test_a_file_arrives_over_a_slow_line_as_long_as_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "BATCH_BYTES", 1_024)
    provider = logs(tmp_path)
    desk = SlowDesk(provider)
    monkeypatch.setattr(sender, "monotonic", lambda: desk.now)
    log = send_to(desk)
    for number in range(100):
        log.feed("out", f"{number}:{'x' * 500}\n".encode())

    assert log.end(0, is_patient=True) is True
    assert text(provider, URI) == "".join(f"{number}:{'x' * 500}\n" for number in range(100))


@pytest.mark.parametrize("character", ['"', "\U0001f600"])
def test_a_line_that_is_larger_than_a_message_is_cut_and_the_rest_arrives(tmp_path: Path, character: str) -> None:
    provider = logs(tmp_path)
    desk = Desk(provider)
    log = send_to(desk)
    log.feed("out", f"{character * 3_000_000}\nnext\n".encode())

    assert log.end(0) is True
    first, second = text(provider, URI).splitlines()
    assert (first.startswith(character * 1_000), second) == (True, "next")
    assert re.search(r"…\[cut \d{7,} bytes\]$", first)
    assert max(map(len, desk.bodies)) < MAX_MESSAGE_BYTES


@pytest.mark.parametrize("refusal", ["", "no"])
def test_a_desk_that_does_not_answer_or_refuses_is_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: str
) -> None:
    monkeypatch.setattr(sender, "NEVER_REACHED_S", 0.01)
    monkeypatch.setattr(sender, "BATCH_BYTES", 1)
    desk, warned = Desk(logs(tmp_path)), list[str]()
    desk.is_down, desk.refusal = not refusal, refusal
    log = send_to(desk, warned)
    log.feed("out", b"one\n")
    log.wait_for_room()
    until(lambda: warned)
    monkeypatch.setattr(sender, "NEVER_REACHED_S", 1_000.0)
    log.feed("out", b"two\n")
    log.wait_for_room()

    monkeypatch.setattr(sender, "NEVER_REACHED_S", 0.01)
    assert log.end(0) is False


def test_secrets_do_not_leave(tmp_path: Path) -> None:
    desk = Desk(logs(tmp_path, redact=False))
    log = send_to(desk)
    log.feed("out", b"password=supersecret\n-----BEGIN PRIVATE KEY-----\nabcdef\n-----END PRIVATE KEY-----\n")

    assert log.end(0)
    assert b"supersecret" not in b"".join(desk.bodies)
    assert b"abcdef" not in b"".join(desk.bodies)


@pytest.mark.parametrize("seed", range(8))
def test_everything_arrives_once_over_a_line_that_is_cut_again_and_again(tmp_path: Path, seed: int) -> None:
    provider = logs(tmp_path)
    desk = Desk(provider, seed)
    log = send_to(desk)
    for number in range(200):
        log.feed("out", f"line {number}\n".encode())

    assert log.end(0) is True
    assert text(provider, URI) == "".join(f"line {number}\n" for number in range(200))


def test_a_desk_that_comes_back_gets_the_rest(tmp_path: Path) -> None:
    provider, warned = logs(tmp_path), list[str]()
    desk = Desk(provider)
    desk.is_down = True
    log = send_to(desk, warned)
    log.feed("out", b"one\n")
    until(lambda: warned)
    desk.is_down = False

    assert log.end(0) is True
    assert text(provider, URI) == "one\n"
    assert warned == ["the log is not sent yet: cannot reach desk.example: connection refused"]


def test_a_desk_that_stays_away_costs_one_warning_and_little_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "NEVER_REACHED_S", 0.05)
    warned: list[str] = []
    desk = Desk(logs(tmp_path))
    desk.is_down = True
    log = send_to(desk, warned)
    log.feed("out", b"one\n")

    assert log.end(0) is False
    assert len(warned) == 1


class SilentDesk(Desk):
    """A desk that accepts a connection and never answers."""

    def __init__(self, provider: Logs) -> None:
        super().__init__(provider)
        self.asked, self.released = threading.Event(), threading.Event()

    def post(self, path: str, body: bytes) -> Mapping[str, object]:
        self.asked.set()
        self.released.wait()
        return super().post(path, body)


def test_the_end_of_a_command_does_not_wait_for_a_desk_that_never_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "NEVER_REACHED_S", 0.01)
    monkeypatch.setattr(sender, "LAST_TRY_S", 0.01)
    warned: list[str] = []
    desk = SilentDesk(logs(tmp_path))
    log = send_to(desk, warned)
    desk.asked.wait()

    assert log.end(0) is False
    assert warned == ["the log is not complete on the desk: desk.example does not answer"]
    assert desk.bodies == []
    desk.released.set()


def test_a_patient_end_waits_for_the_answer_to_the_last_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "NEVER_REACHED_S", 0.01)
    monkeypatch.setattr(sender, "LAST_TRY_S", 0.01)
    desk = SilentDesk(logs(tmp_path))
    log = send_to(desk)
    log.feed("out", b"one\n")
    with ThreadPoolExecutor(1) as ending:
        has_ended = ending.submit(log.end, 0, is_patient=True)
        desk.asked.wait()
        desk.released.set()

        assert has_ended.result() is True
    assert text(desk.provider, URI) == "one\n"


def test_a_desk_that_refuses_is_asked_once(tmp_path: Path) -> None:
    warned: list[str] = []
    desk = Desk(logs(tmp_path))
    desk.refusal = "desk.example refused it: The token is not valid"
    log = send_to(desk, warned)
    log.feed("out", b"one\n")

    assert log.end(0) is False
    assert warned == ["the log is not sent: desk.example refused it: The token is not valid"]


def test_what_waits_is_bounded_and_what_is_dropped_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "MAX_BYTES", 6_400)
    provider = logs(tmp_path)
    desk = Desk(provider)
    desk.is_down = True
    log = send_to(desk)
    for number in range(5_000):
        log.feed("out", b"line %d\n" % number)
    desk.is_down = False

    assert log.end(0)
    found = meta(provider, URI)
    assert text(provider, URI).endswith("line 4999\n")
    assert found["entries"] + found["dropped-entries"] == 5_000


@pytest.mark.slow
def test_a_large_log_goes_in_batches_that_fit_a_message(tmp_path: Path) -> None:
    provider = logs(tmp_path)
    desk = Desk(provider)
    log = send_to(desk)
    log.feed("out", b"".join(b"%0100d\n" % number for number in range(20_000)))

    assert log.end(0)
    assert max(map(len, desk.bodies)) < 600_000
    assert meta(provider, URI)["entries"] == 20_000


@pytest.mark.parametrize(
    ("environment", "origin"),
    [
        ({}, LogOrigin()),
        ({"GITHUB_REF_NAME": "main", "GITHUB_SHA": "ab", "GITHUB_JOB": "test"}, LogOrigin("main", "ab", "test")),
        ({"GITHUB_HEAD_REF": "topic", "GITHUB_REF_NAME": "7/merge", "GITHUB_SHA": "ab"}, LogOrigin("topic", "ab")),
        (
            {"CI_COMMIT_REF_NAME": "main", "CI_COMMIT_SHA": "cd", "CI_JOB_NAME": "unit tests"},
            LogOrigin("main", "cd", "unit tests"),
        ),
        ({"CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "topic", "CI_COMMIT_REF_NAME": "x"}, LogOrigin("topic")),
    ],
)
def test_the_job_is_read_from_the_variables_of_ci(environment: dict[str, str], origin: LogOrigin) -> None:
    assert find_origin(environment) == origin
