"""What the tests of commands share."""

import pytest

from tests.support.command_line import Run, runner


@pytest.fixture(name="run")
def command_line(capfd: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a command line."""
    return runner(capfd)
