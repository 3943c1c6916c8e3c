"""How long the fuzzing runs, and with which seed; the seed is told at the end of every run.

CARREL_FUZZ_SEED    another seed than the usual one
CARREL_FUZZ_ROUNDS  how many times as much; `--hypothesis-profile=long` alone means twenty
"""

import os

import pytest

from tests.fuzz.generation import Source

USUAL_SEED = 20_260_728


def _seed() -> int:
    return int(os.environ.get("CARREL_FUZZ_SEED") or USUAL_SEED)


def _rounds(config: pytest.Config) -> int:
    is_long = config.getoption("--hypothesis-profile", None) == "long"
    return int(os.environ.get("CARREL_FUZZ_ROUNDS") or (20 if is_long else 1))


@pytest.fixture
def source(request: pytest.FixtureRequest) -> Source:
    """Return the randomness of one test; each test has its own, so that it fails alone as it does among others."""
    return Source(f"{_seed()} {request.node.name}")


@pytest.fixture
def rounds(pytestconfig: pytest.Config) -> int:
    """Return how many times as much is to be done."""
    return _rounds(pytestconfig)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Keep thousands of expected faults out of the log."""
    caplog.set_level("CRITICAL")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Return how to do the same again."""
    terminalreporter.write_line(f"fuzz: CARREL_FUZZ_SEED={_seed()} CARREL_FUZZ_ROUNDS={_rounds(config)}")
