"""The bus, as the doctor finds it."""

from contextlib import closing
from pathlib import Path

from carrel.doctor import store
from tests.support.doctor import Ward
from tests.support.nats import NatsServer


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
