"""Run command lines of `carrel` in the process of the tests."""

from collections.abc import Callable
from typing import NamedTuple

import pytest

from carrel.cli import main


class Ran(NamedTuple):
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]
"""Takes the words of a command line."""


def runner(capture: pytest.CaptureFixture[str], *command: str) -> Run:
    """Return a function that runs a command line, with `command` before its words."""

    def run(*words: str) -> Ran:
        code = main((*command, *words))
        return Ran(code, *capture.readouterr())

    return run
