"""Where the store of a test is: in a file of the project, or in the team's database. Most tests run with both."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from carrel.core.store_address import StoreAddress, parse_address
from carrel.providers.scopes.team_store import TeamStore
from tests.support import scopes_sample
from tests.support.postgres import PostgresServer, fresh_schema


@pytest.fixture(scope="session")
def team_address(postgres: PostgresServer) -> Iterator[StoreAddress]:
    """The address of a store with the present schema, and connections that stay open for all tests."""
    with fresh_schema(postgres) as url, closing(TeamStore(parse_address(url))) as store:
        store.prepare()
        yield parse_address(url)


@pytest.fixture(params=["local", "team"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Have `store_in`, `planted` and `provider_in` use one kind of store, which is empty."""
    if request.param == "local":
        yield "local"
        return
    with scopes_sample.in_team(request.getfixturevalue("team_address")):
        yield "team"
