"""What the end-to-end tests share: the installed command, and a sample project far from the checkout."""

import sys
from pathlib import Path

import pytest

from examples.sample import lay_out

CARREL = str(Path(sys.executable).parent / "carrel")


@pytest.fixture(name="project")
def sample_project(tmp_path: Path) -> Path:
    """Lay the sample project out in a folder of its own."""
    folder = tmp_path / "weather_desk"
    lay_out(folder)
    return folder


@pytest.fixture(name="carrel")
def installed_command() -> str:
    """Give the path of the installed command."""
    return CARREL
