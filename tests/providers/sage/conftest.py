"""Where the memory of a test is: in a folder, or in the team's store. Tests that read run with both."""

from collections.abc import Iterator

import pytest

from carrel.core.store_address import StoreAddress, parse_address
from carrel.stores.shared import acquire, release
from tests.support import sage_folder
from tests.support.postgres import PostgresServer, fresh_schema


@pytest.fixture(scope="session")
def team_address(postgres: PostgresServer) -> Iterator[StoreAddress]:
    """The address of a store with the present schema, and connections that stay open for all tests."""
    with fresh_schema(postgres) as url:
        database = acquire(parse_address(url))
        database.prepare()
        yield database.address
        release(database)


@pytest.fixture(params=["local", "team"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Have `open_sage` use one kind of memory."""
    if request.param == "local":
        yield "local"
        return
    with sage_folder.in_team(request.getfixturevalue("team_address")):
        yield "team"
