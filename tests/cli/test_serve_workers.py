"""`--workers`: when the supervisor gives up, and what is refused; `tests/e2e/test_workers.py` has what works."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.postgres import PostgresServer, fresh_schema

CARREL = str(Path(sys.executable).parent / "carrel")
PATIENCE_S = 60.0

GIVING_UP = """
import logging, os, socket, sys
from carrel.cli import serve_workers
from carrel.transports.http.shared_visits import SharedVisits

serve_workers.PAUSES_S = (0.01,)
logging.basicConfig()
supervisor = serve_workers.Supervisor(2, socket.socket(), SharedVisits(1))
worker = supervisor.run()
if worker is not None:
    worker.report_ready()
    os._exit(3)
sys.exit(supervisor.code)
"""


def test_workers_that_all_die_again_and_again_end_the_server_with_their_code() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", GIVING_UP], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )

    assert ended.returncode == 3, ended.stderr
    assert ended.stderr.count("ended with exit code 3") >= 10
    assert ended.stderr.count("no worker stays alive") == 1


# Refusals


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--http", "0", "--workers", "2"], "--workers needs a store"),
        (["--http", "0", "--workers", "0"], "--workers 0: expected a whole number from 1 to 64"),
        (["--http", "0", "--workers", "many"], "--workers many: expected a whole number from 1 to 64"),
        (["--workers", "2"], "--workers needs --http"),
    ],
)
def test_wrong_use_is_one_sentence_and_exit_code_2(tmp_path: Path, words: list[str], said: str) -> None:
    code, printed = failed(tmp_path, words)

    assert code == 2
    assert said in printed
    assert len(printed.strip().splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_unusable_store_is_the_same_sentence_and_code_as_for_one_server(tmp_path: Path, workers: str) -> None:
    store = {"CARREL_STORE_URL": "postgresql://u:secret-word@127.0.0.1:1/d"}

    code, printed = failed(tmp_path, ["--http", "0", "--no-token", "--workers", workers], store)

    assert (code, printed.count("cannot be reached: is Postgres running there?")) == (2, 1), printed
    assert "secret-word" not in printed
    assert len(printed.strip().splitlines()) == 1


@pytest.mark.slow
def test_tools_that_start_processes_are_refused(tmp_path: Path, postgres: PostgresServer) -> None:
    (tmp_path / "pubspec.yaml").write_text("name: a\n", "utf-8")
    (tmp_path / "flutter").write_text("#!/bin/sh\n", "utf-8")
    (tmp_path / "flutter").chmod(0o755)
    with fresh_schema(postgres) as url:
        environment = {"CARREL_STORE_URL": url, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
        code, printed = failed(tmp_path, ["--http", "0", "--no-token", "--workers", "2"], environment)

    assert code == 2
    assert "--set flutter.tools=off" in printed
    assert len(printed.strip().splitlines()) == 1


def failed(folder: Path, words: list[str], variables: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Run a server that does not start; return its exit code and what it printed."""
    environment = {**os.environ, "HOME": str(folder), "XDG_STATE_HOME": str(folder), **(variables or {})}
    ended = subprocess.run(
        [CARREL, "serve", "--project", str(folder), *words],
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return ended.returncode, ended.stderr
