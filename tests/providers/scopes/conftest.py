"""Where the store of a test is: in a file of the project, or in the team's database. Most tests run with both."""

from collections.abc import Iterator

import pytest

from tests.support import scopes_sample


@pytest.fixture(params=["local", pytest.param("team", marks=pytest.mark.slow)])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Have `store_in`, `planted` and `provider_in` use one kind of store, which is empty."""
    if request.param == "local":
        yield "local"
        return
    with scopes_sample.in_team(request.getfixturevalue("team_address")):
        yield "team"
