"""The team's store and its bus, as the doctor finds them."""

from contextlib import closing
from pathlib import Path

from carrel.doctor import store
from carrel.stores.migrations import VERSION
from tests.support.doctor import Ward
from tests.support.nats import NatsServer


def test_without_a_store_nothing_is_said(ward: Ward) -> None:
    assert ward.find(store.store) == []


def test_a_store_that_answers_is_named(ward: Ward, store_url: str) -> None:
    ward.environment["CARREL_STORE_URL"] = store_url

    with closing(ward.setup()) as setup:
        [found] = store.store.find(setup)

    assert found.state == "ok"
    assert found.message.startswith("records are kept in the store /")
    assert found.message.endswith(f", schema version {VERSION}")


def test_a_store_that_cannot_be_reached_is_a_problem_without_its_password(ward: Ward, unused_port: int) -> None:
    ward.environment["CARREL_STORE_URL"] = f"postgresql://ann:s3cret@127.0.0.1:{unused_port}/team"

    found = ward.one(store.store)

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
