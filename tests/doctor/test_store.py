"""The team's store, as the doctor finds it."""

from contextlib import closing

from carrel.doctor import store
from carrel.stores.migrations import VERSION
from tests.support.doctor import Ward


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
