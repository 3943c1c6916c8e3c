"""Where the memory of a test is: in a folder, or in the team's store. Tests that read run with both."""

from collections.abc import Iterator

import pytest

from tests.support import sage_folder


@pytest.fixture(params=["local", pytest.param("team", marks=pytest.mark.slow)])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Have `open_sage` use one kind of memory."""
    if request.param == "local":
        yield "local"
        return
    with sage_folder.in_team(request.getfixturevalue("team_address")):
        yield "team"
