"""A replica that was told to end: it says so to balancers, and cuts off no request that comes at this moment."""

import asyncio
import http.client
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
import uvicorn

from carrel.catalog.catalog import Catalog
from carrel.server.server import Server
from carrel.transports.http import draining
from carrel.transports.http.app import App, bind, runner
from carrel.transports.http.session_seal import SessionSeal
from carrel.transports.http.shared_sessions import SharedSessions
from tests.support.http_asking import INITIALIZE, JSON, OPEN, legacy
from tests.support.memory_provider import Shelf
from tests.support.waiting import PATIENCE_S, until

DRAIN_S = 10 * PATIENCE_S
"""Longer than any test: each of them ends it."""


def application(*, is_replica: bool = True) -> App:
    """Make the application of a replica, or of a server alone."""
    shared = SharedSessions(SessionSeal(b"a key that all replicas share")) if is_replica else None
    return App(Server(Catalog([Shelf("a", {"1": "one"})])), OPEN, PATIENCE_S, shared=shared)


class RunningReplica:
    """A replica that serves on a thread, and how to end it."""

    def __init__(self, *, is_replica: bool = True, loop: str = "auto") -> None:
        taken = bind("127.0.0.1", 0)
        self.port: int = taken.getsockname()[1]
        self.server: uvicorn.Server = runner(application(is_replica=is_replica), drain_s=DRAIN_S)
        self.server.config.loop = loop
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


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_replica_ends_without_a_traceback_on_every_event_loop(loop: str, caplog: pytest.LogCaptureFixture) -> None:
    replica = RunningReplica(loop=loop)

    replica.stop()  # an exception on its thread fails the test

    assert [record.message for record in caplog.records if record.exc_info] == []
    with pytest.raises(ConnectionRefusedError), closing(replica.connect()) as connection:
        connection.connect()


def drain(listening: socket.socket) -> None:
    """Drain and end a replica whose connections all wait to be accepted."""
    server = runner(application(), drain_s=0.0)

    async def ended() -> None:
        server.config.load()
        server.lifespan = server.config.lifespan_class(server.config)
        server.servers = []
        await asyncio.wait_for(server.shutdown([listening]), PATIENCE_S)

    asyncio.run(ended())


def begin_of_answer(client: socket.socket) -> bytes:
    try:
        return client.recv(12)
    except ConnectionResetError:
        return b"reset"


def queue_of(kind: type[socket.socket]) -> socket.socket:
    with bind("127.0.0.1", 0) as taken:
        made = kind(fileno=taken.detach())
    made.setblocking(False)
    return made


def test_a_dead_connection_among_the_last_ones_costs_the_others_no_answer() -> None:
    dead: list[socket.socket] = []

    class Dying(socket.socket):
        def accept(self) -> tuple[socket.socket, object]:
            accepted, address = super().accept()
            if not dead:
                dead.append(accepted)
                accepted.close()
            return accepted, address

    listening = queue_of(Dying)
    clients = [socket.create_connection(listening.getsockname(), PATIENCE_S) for _ in range(3)]
    for client in clients:
        client.sendall(b"GET /-/ready HTTP/1.1\r\nHost: localhost\r\n\r\n")

    drain(listening)

    assert [begin_of_answer(client) for client in clients[1:]] == [b"HTTP/1.1 503"] * 2
    for client in clients:
        client.close()


def test_the_last_connections_are_accepted_at_once_and_not_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    clients: list[socket.socket] = []

    class Endless(socket.socket):
        def accept(self) -> tuple[socket.socket, object]:
            clients.append(socket.create_connection(self.getsockname(), PATIENCE_S))
            return super().accept()

    monkeypatch.setattr(draining, "MAX_LAST", 8)

    drain(queue_of(Endless))

    assert len(clients) == 8
    for client in clients:
        client.close()


SERVING = textwrap.dedent(
    """
    from carrel.catalog.catalog import Catalog
    from carrel.server.server import Server
    from carrel.transports.http.app import App, bind, serve
    from carrel.transports.http.session_seal import SessionSeal
    from carrel.transports.http.shared_sessions import SharedSessions
    from tests.support.http_asking import OPEN
    from tests.support.memory_provider import Shelf

    shelf = Shelf("a", {"large": "x" * 8_000_000})
    shared = SharedSessions(SessionSeal(b"a key that all replicas share"))
    listening = bind("127.0.0.1", 0)
    app = App(Server(Catalog([shelf], max_bytes=10_000_000)), OPEN, shared=shared)
    serve(
        app,
        listening,
        close=lambda: print("closed", flush=True),
        on_ready=lambda: print(listening.getsockname()[1], flush=True),
    )
    """
)


@pytest.mark.slow
def test_a_replica_whose_client_does_not_read_is_closed_before_it_is_ended_by_force() -> None:
    with (
        subprocess.Popen([sys.executable, "-c", SERVING], stdout=subprocess.PIPE, text=True) as server,
        closing(socket.socket()) as client,
    ):
        assert server.stdout is not None
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        client.settimeout(PATIENCE_S)
        client.connect(("127.0.0.1", int(server.stdout.readline())))
        client.sendall(b"GET /a/large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(12) == b"HTTP/1.1 200"

        server.send_signal(signal.SIGTERM)

        assert server.stdout.read() == "closed\n"
        assert server.wait(PATIENCE_S) == 0
