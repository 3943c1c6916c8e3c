"""What the end-to-end tests share: the installed command, and a sample project far from the checkout."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.team import Team
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
    """Return the path of the installed command."""
    return CARREL


@pytest.fixture(name="team")
def team_of_three(tmp_path: Path, store_url: str) -> Iterator[Team]:
    """Start three replicas with one store; stop them afterwards."""
    team = Team(tmp_path / "team", store_url)
    team.start()
    try:
        yield team
    finally:
        team.stop()
