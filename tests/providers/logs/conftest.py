"""Where the logs of other machines are: in the project's folder, or in the team's store."""

from collections.abc import Iterator

import pytest

from tests.support import logging_project


@pytest.fixture(params=["local", pytest.param("team", marks=pytest.mark.slow)])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Have `logs` use one place."""
    if request.param == "local":
        yield "local"
        return
    with logging_project.in_team(request.getfixturevalue("team_address")):
        yield "team"
