"""One moto server for the tests of a folder; each test has a bucket of its own."""

from collections.abc import Iterator
from itertools import count

import pytest

from tests.support.s3_servers import S3Server, moto_server

_numbers = count()


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """Return a running server."""
    with moto_server() as server:
        yield server


@pytest.fixture
def bucket(s3: S3Server) -> S3Server:
    """Return a new empty bucket."""
    return s3.make_bucket(f"bucket-{next(_numbers)}")
