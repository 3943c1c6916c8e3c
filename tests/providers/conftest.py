"""The store of a team, which tests of several providers use."""

from collections.abc import Iterator

import pytest

from carrel.core.store_address import StoreAddress, parse_address
from carrel.stores.shared import acquire, release
from tests.support.postgres import PostgresServer, fresh_schema


@pytest.fixture(scope="session")
def team_address(postgres: PostgresServer) -> Iterator[StoreAddress]:
    """The address of a store with the present schema, and connections that stay open for all tests."""
    with fresh_schema(postgres) as url:
        database = acquire(parse_address(url))
        database.prepare()
        yield database.address
        release(database)
