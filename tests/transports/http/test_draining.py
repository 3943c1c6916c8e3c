"""A replica that was told to end: it says so to balancers, and cuts off no request that comes at this moment."""

import http.client
import threading
from collections.abc import Iterator

import pytest
import uvicorn

from carrel.catalog.catalog import Catalog
from carrel.server.server import Server
from carrel.transports.http.app import App, bind, runner
from carrel.transports.http.session_seal import SessionSeal
from carrel.transports.http.shared_sessions import SharedSessions
from tests.support.http_asking import INITIALIZE, JSON, OPEN, legacy
from tests.support.memory_provider import Shelf
from tests.support.waiting import PATIENCE_S, until

DRAIN_S = 10 * PATIENCE_S
"""Longer than any test: each of them ends it."""


class RunningReplica:
    """A replica that serves on a thread, and how to end it."""

    def __init__(self, *, is_replica: bool = True) -> None:
        shared = SharedSessions(SessionSeal(b"a key that all replicas share")) if is_replica else None
        app = App(Server(Catalog([Shelf("a", {"1": "one"})])), OPEN, PATIENCE_S, shared=shared)
        taken = bind("127.0.0.1", 0)
        self.port: int = taken.getsockname()[1]
        self.server: uvicorn.Server = runner(app, drain_s=DRAIN_S)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [taken]}, daemon=True)
        self.thread.start()
        until(lambda: self.server.started)

    def connect(self) -> http.client.HTTPConnection:
        """Return a connection that is kept between requests."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)

    def readiness(self) -> int:
        """Ask as a balancer does, on a new connection."""
        connection = self.connect()
        connection.request("GET", "/-/ready")
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status

    def stop(self) -> None:
        """End it now."""
        self.server.should_exit = self.server.force_exit = True
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive()


def call(connection: http.client.HTTPConnection) -> http.client.HTTPResponse:
    """Make a small call, as most are."""
    connection.request("POST", "/mcp", legacy("initialize", INITIALIZE), JSON)
    answer = connection.getresponse()
    answer.read()
    return answer


@pytest.fixture(name="replica")
def running_replica() -> Iterator[RunningReplica]:
    replica = RunningReplica()
    yield replica
    replica.stop()


def test_a_replica_that_ends_is_not_ready_and_answers_what_still_comes(replica: RunningReplica) -> None:
    assert replica.readiness() == 200

    replica.server.should_exit = True

    until(lambda: replica.readiness() == 503)
    assert call(replica.connect()).status == 200


def test_a_kept_connection_is_closed_with_an_answer_and_not_before(replica: RunningReplica) -> None:
    connection = replica.connect()
    assert call(connection).getheader("connection") is None

    replica.server.should_exit = True
    until(lambda: replica.readiness() == 503)
    answer = call(connection)

    assert (answer.status, answer.getheader("connection")) == (200, "close")
    assert connection.sock is None


def test_a_plain_read_closes_a_kept_connection_too(replica: RunningReplica) -> None:
    def read(connection: http.client.HTTPConnection) -> tuple[bytes, str | None]:
        connection.request("GET", "/a/1")
        answer = connection.getresponse()
        return answer.read(), answer.getheader("connection")

    connection = replica.connect()
    assert read(connection) == (b"one", None)

    replica.server.should_exit = True
    until(lambda: replica.readiness() == 503)

    assert read(connection) == (b"one", "close")
    assert connection.sock is None


def test_a_server_alone_does_not_wait() -> None:
    replica = RunningReplica(is_replica=False)
    replica.server.should_exit = True

    replica.thread.join(PATIENCE_S)

    assert not replica.thread.is_alive()
