"""What all tests share: how hard Hypothesis tries, that nothing is skipped unseen, and what keeps a run short.

With `CARREL_NO_SKIPS=1` (as `make test` sets it) a skipped test, or a folder on the command line in which no test
ran, fails the run and is named. Without it, skipping is for people who lack a tool.
"""

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from carrel.core import refresh
from tests.support.waiting import PATIENCE_S

OF_USERS_S = refresh.PATIENCE_S
vars(refresh)["PATIENCE_S"] = PATIENCE_S  # lists wait for newer ones however busy the machine is

if TYPE_CHECKING:
    from tests.support.postgres import PostgresServer

SLOW_MACHINES = (HealthCheck.too_slow,)

settings.register_profile("dev", max_examples=10, deadline=None, suppress_health_check=SLOW_MACHINES)
settings.register_profile(
    "ci", max_examples=200, deadline=None, derandomize=True, print_blob=True, suppress_health_check=SLOW_MACHINES
)
settings.register_profile("long", max_examples=10_000, deadline=None, suppress_health_check=SLOW_MACHINES)
settings.load_profile("dev")

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # a run under nohup ignores it, and the servers it starts would too
os.environ.pop("CLAUDE_PROJECT_DIR", None)  # set where the tests are started by a host, it would name their project


class NoSkips:
    """Turns what did not run into a failure of the whole run."""

    def __init__(self) -> None:
        self._ran: set[str] = set()
        self._skipped: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember which tests ran and which were skipped; an expected failure ran unless it says otherwise."""
        expected = getattr(report, "wasxfail", None)
        if report.skipped and (expected is None or "[NOTRUN]" in expected):
            self._skipped[report.nodeid] = _reason(report)
        elif report.when == "call":
            self._ran.add(report.nodeid.partition("::")[0])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remember modules that skipped themselves while being imported."""
        if report.skipped:
            self._skipped[report.nodeid] = _reason(report)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the run although every test that ran has passed."""
        if self._complaints(session.config):
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        """Name everything that did not run."""
        complaints = self._complaints(config)
        if complaints and not config.option.collectonly:
            terminalreporter.section("not run, and CARREL_NO_SKIPS is set", red=True)
            for complaint in complaints:
                terminalreporter.write_line(complaint)

    def _complaints(self, config: pytest.Config) -> list[str]:
        if config.option.collectonly:
            return []
        skipped = [f"skipped: {test}: {reason}" for test, reason in sorted(self._skipped.items())]
        if config.getoption("lf", False):
            return skipped
        empty = [f"no test ran in {argument}" for argument in config.args if not self._ran_in(argument, config)]
        return skipped + empty

    def _ran_in(self, argument: str, config: pytest.Config) -> bool:
        wanted = (config.invocation_params.dir / argument.partition("::")[0]).resolve()
        return any((config.rootpath / Path(file)).resolve().is_relative_to(wanted) for file in self._ran)


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    return report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)


def pytest_configure(config: pytest.Config) -> None:
    """Prepare the run, in every process of it."""
    # A run in the background begins with SIGINT ignored, and a shell that a test starts could then not trap it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _watch_for_skips(config)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Leave to the slow part what needs a real Postgres, and the law that races, whatever provider is on trial."""
    needs_postgres = "postgres" in getattr(item, "fixturenames", ())
    if needs_postgres or item.name.startswith("test_law_9_32_reads_at_once"):
        item.add_marker(pytest.mark.slow)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have lists wait for newer ones as briefly as they do for users."""
    monkeypatch.setattr(refresh, "PATIENCE_S", OF_USERS_S)


@pytest.fixture(scope="session")
def postgres() -> "PostgresServer":
    """A Postgres server that all tests of the run share."""
    from tests.support.postgres import shared_server  # only where a test needs it

    return shared_server()


@pytest.fixture
def store_url(postgres: "PostgresServer") -> Iterator[str]:
    """The URL of an empty store."""
    from tests.support.postgres import fresh_schema

    with fresh_schema(postgres) as url:
        yield url


@pytest.fixture
def unused_port() -> int:
    """A loopback port on which nothing listens."""
    import socket  # only where a test needs it

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder whose path is short enough for a Unix socket, and which every user may enter."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="carrel-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def pytest_collection_finish() -> None:
    """Keep thousands of tests from being looked at again whenever something is thrown away, and look more rarely."""
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


def _watch_for_skips(config: pytest.Config) -> None:
    """Watch for skips in the process that reports: a worker's reports all arrive there."""
    if os.environ.get("CARREL_NO_SKIPS") == "1" and not hasattr(config, "workerinput"):
        config.pluginmanager.register(NoSkips(), "carrel-no-skips")
