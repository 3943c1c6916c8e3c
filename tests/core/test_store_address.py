"""The address of a store: what is accepted, what is shown, and that a password never is."""

import pytest

from carrel.core.errors import ConfigError
from carrel.core.store_address import parse_address


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://localhost/carrel", "localhost/carrel"),
        ("postgres://ann@db.example.org:6543/team", "db.example.org:6543/team"),
        ("postgresql://ann:s3cret@db/team?sslmode=require", "db/team"),
        ("postgresql://ann:s%40cret@10.0.0.1,10.0.0.2:5433/team", "10.0.0.1,10.0.0.2:5433/team"),
        ("postgresql://[::1]:5432/team", "[::1]:5432/team"),
        ("postgresql://ann@/team?host=/var/run/postgresql&password=s3cret", "/var/run/postgresql/team"),
        ("postgresql://ann@/team?host=%2Ftmp%2Fpg", "/tmp/pg/team"),
        ("postgresql:///team", "localhost/team"),
        ("postgresql://db", "db"),
    ],
)
def test_an_address_shows_the_server_and_the_database_only(url: str, shown: str) -> None:
    address = parse_address(url)

    assert (address.url, address.shown, repr(address)) == (url, shown, f"StoreAddress({shown!r})")


@pytest.mark.parametrize("url", ["mysql://ann:s3cret@db/team", "db.example.org", "", "s3cret", "http://ann:s3cret@db"])
def test_another_kind_of_url_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_address(url)

    assert str(refused.value) == "[store] url: expected a URL such as postgresql://user@host:5432/database"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:s3/cret@db/team",
        "postgresql://ann:s3#cret@db/team",
        "postgresql://ann:s3@cret@db/team",
        "postgresql://ann:s3?cret@db/team",
        "postgresql://ann:s3 cret@db/team",
        "postgresql://ann:s3%cret@db/team",
        "postgresql://db:port/team",
        "postgresql://db:123456/team",
    ],
)
def test_a_password_that_breaks_the_url_is_not_repeated(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_address(url)

    assert str(refused.value) == (
        "[store] url: this URL cannot be read; "
        "percent-encode special characters of the password, such as %40 for @, %2F for / and %25 for %"
    )


@pytest.mark.parametrize("hosts", ["db:99999", "db,other:65536", "[::1]:70000"])
def test_a_port_that_cannot_be_is_one_sentence(hosts: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_address(f"postgresql://ann:s3cret@{hosts}/team")

    assert str(refused.value) == "[store] url: a port is a number from 1 to 65535"
