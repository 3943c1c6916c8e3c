"""The team's store and its bus, as the doctor finds them."""

from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from carrel.doctor import settings, store
from carrel.doctor.checks import NOT_EXAMINED
from carrel.doctor.examination import examine
from carrel.stores.migrations import MIGRATIONS, VERSION
from tests.support.doctor import Ward
from tests.support.nats import NatsServer
from tests.support.postgres import PostgresServer, fresh_database, fresh_role


def test_without_a_store_nothing_is_said(ward: Ward) -> None:
    assert ward.find(store.store) == []


def begun(url: str, version: int) -> None:
    """Give an empty store the schema of a version."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE carrel_schema (version integer NOT NULL)")
        connection.execute("INSERT INTO carrel_schema VALUES (%s)", (version,))
        for statement in (one for statements in MIGRATIONS[:version] for one in statements):
            connection.execute(statement.encode())


def tables(url: str) -> list[tuple[object, ...]]:
    """Return the names of the tables of a store."""
    with psycopg.connect(url) as connection:
        return connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY 1"
        ).fetchall()


def test_a_store_that_answers_is_named(ward: Ward, store_url: str) -> None:
    begun(store_url, VERSION)
    ward.environment["CARREL_STORE_URL"] = store_url

    with closing(ward.setup()) as setup:
        [found] = store.store.find(setup)

    assert found.state == "ok"
    assert found.message.startswith("records are kept in the store /")
    assert found.message.endswith(f", schema version {VERSION}")


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (None, "its tables are made at the first start"),
        (1, "its schema is older, version 1; a start of this Carrel brings it up to date"),
    ],
)
def test_a_store_that_a_start_would_change_is_examined_and_left_as_it_is(
    ward: Ward, store_url: str, version: int | None, message: str
) -> None:
    if version is not None:
        begun(store_url, version)
    before = tables(store_url)
    ward.environment["CARREL_STORE_URL"] = store_url

    with closing(ward.setup()) as setup:
        found = examine(setup)

    [said] = [one for one in found if one.id == "store"]
    assert (said.state, said.message.partition("; ")[2]) == ("note", message)
    assert said.fix
    assert {one.message for one in found if one.id in ("provider", "handshake-modern")} == {NOT_EXAMINED}
    assert tables(store_url) == before


def test_a_store_that_a_start_could_not_prepare_is_a_problem(ward: Ward, postgres: PostgresServer) -> None:
    with fresh_database(postgres) as url, fresh_role(postgres, url) as role:
        ward.environment["CARREL_STORE_URL"] = url.replace("postgres@", f"{role}@")
        refused = ward.one(store.store)
        ward.environment["CARREL_STORE_URL"] = url
        begun(url, VERSION)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP TABLE carrel_schema")
        versionless = ward.one(store.store)

    assert (refused.state, versionless.state) == ("problem", "problem")
    assert "does not give this user the rights" in refused.message
    assert "not carrel_schema, which says their version" in versionless.message


def test_a_store_that_cannot_be_reached_is_a_problem_without_its_password(ward: Ward, unused_port: int) -> None:
    ward.environment["CARREL_STORE_URL"] = f"postgresql://ann:s3cret@127.0.0.1:{unused_port}/team"

    found = ward.one(store.store)

    assert ward.find(settings.settings_values) == [], "it is reported once, with the fix that fits"
    assert (found.state, found.message) == (
        "problem",
        f"the store 127.0.0.1:{unused_port}/team cannot be reached: is Postgres running there?",
    )
    assert "s3cret" not in repr(found)


def test_a_wrong_url_is_a_problem(ward: Ward) -> None:
    ward.environment["CARREL_STORE_URL"] = "mysql://ann:s3cret@db/team"

    found = ward.one(store.store)

    assert found.state == "problem"
    assert "expected a URL such as postgresql://" in found.message
    assert "s3cret" not in repr(found)


# The bus


def test_without_a_bus_nothing_is_said(ward: Ward, store_url: str) -> None:
    ward.environment["CARREL_STORE_URL"] = store_url

    assert ward.find(store.bus) == []


def test_a_bus_that_answers_is_named(ward: Ward, store_url: str, tmp_path: Path) -> None:
    with NatsServer(tmp_path).running() as server:
        ward.environment.update(CARREL_STORE_URL=store_url, CARREL_BUS_URL=server.url)
        with closing(ward.setup()) as setup:
            [found] = store.bus.find(setup)

    expected = f"changes are signalled through the bus 127.0.0.1:{server.port}"
    assert (found.state, found.message) == ("ok", expected)


def test_a_bus_that_cannot_be_reached_is_a_problem_without_its_password(
    ward: Ward, store_url: str, unused_port: int
) -> None:
    bus = f"nats://ann:s3cret@127.0.0.1:{unused_port}"
    ward.environment.update(CARREL_STORE_URL=store_url, CARREL_BUS_URL=bus)

    found = ward.one(store.bus)

    expected = f"the bus 127.0.0.1:{unused_port} cannot be reached: is NATS running there?"
    assert (found.state, found.message) == ("problem", expected)
    assert "s3cret" not in repr(found)
