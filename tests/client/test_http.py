"""The client over HTTP against servers that are not Carrel: event streams, sessions, and what becomes of them."""

import json
import queue
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from carrel.catalog.access import Access
from carrel.catalog.catalog import Catalog
from carrel.cli import main
from carrel.client.client import Client
from carrel.client.http import Http
from carrel.client.rpc import Unanswered
from carrel.core.errors import Disconnected, RemoteError, Unreachable
from carrel.core.model import Text
from carrel.providers.mounts import Mount, MountSettings
from carrel.providers.mounts.connect import address_of
from carrel.server.server import Server
from carrel.testing.harness import join
from carrel.transports.http.app import App
from carrel.transports.http.guard import AcceptedNames, Guard
from tests.support.http_asking import modern, modern_headers, post
from tests.support.waiting import PATIENCE_S, until

PRIMING = b"id: 1\nretry: 10\ndata: \n\n"
"""How a server begins a stream that could be resumed: an event without data."""


class Legacy(ThreadingHTTPServer):
    """A legacy server as others write it: answers are event streams, refusals name no request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Asked)
        self.sessions: set[str] = set()
        self.opened = 0
        self.unknown_session = 404
        self.refusal = 0
        self.moved: dict[str, str] = {}
        self.moved_status = 307
        self.posted: Counter[str] = Counter()
        self.text = "first"
        self.asked: Counter[str] = Counter()
        self.credentials: Counter[str] = Counter()
        self.news: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.has_stream = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/mcp"

    def forget(self) -> None:
        """Lose every session, as a server that was started anew has."""
        self.sessions.clear()
        self.has_stream.clear()

    def result(self, method: str, params: dict[str, Any]) -> Any:
        if method == "initialize":
            declared = {"resources": {"subscribe": True}}
            return {"protocolVersion": "2025-11-25", "capabilities": declared, "serverInfo": {"name": "foreign"}}
        if method == "resources/list":
            return {"resources": [{"uri": "foreign://a", "name": "a"}]}
        if method == "resources/templates/list":
            return {"resourceTemplates": []}
        if method == "resources/read":
            return {"contents": [{"uri": params["uri"], "text": self.text}]}
        return {}


class Asked(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Legacy

    def do_POST(self) -> None:
        self.server.posted[self.path] += 1
        if self._has_moved():
            return
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method = request["method"]
        self.server.asked[method] += 1
        self.server.credentials[self.headers.get("Authorization", "")] += 1
        session = self.headers.get("Mcp-Session-Id")
        if self.server.refusal:
            self._refuse(self.server.refusal)
        elif method == "initialize":
            self.server.opened += 1
            session = f"session-{self.server.opened}"
            self.server.sessions.add(session)
            self._stream(request["id"], self.server.result(method, {}), session)
        elif session is None:
            self._refuse(400)
        elif session not in self.server.sessions:
            self._refuse(self.server.unknown_session)
        elif "id" not in request:
            self._reply(202, "application/json", b"")
        else:
            self._stream(request["id"], self.server.result(method, request.get("params", {})), session)

    def do_GET(self) -> None:
        if self._has_moved():
            return
        if self.headers.get("Mcp-Session-Id") not in self.server.sessions:
            self._refuse(self.server.unknown_session)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(PRIMING)
        self.wfile.flush()
        self.server.has_stream.set()
        while news := self.server.news.get():
            self.wfile.write(b"data: " + news + b"\n\n")
            self.wfile.flush()
        self.close_connection = True

    def do_DELETE(self) -> None:
        if self._has_moved():
            return
        self.server.asked["DELETE"] += 1
        self.server.sessions.discard(self.headers["Mcp-Session-Id"])
        self._reply(200, "application/json", b"")

    def _has_moved(self) -> bool:
        if self.path not in self.server.moved:
            return False
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._reply(self.server.moved_status, "text/plain", b"moved", {"Location": self.server.moved[self.path]})
        return True

    def _stream(self, number: int, result: Any, session: str) -> None:
        answer = json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode()
        body = PRIMING + b"event: message\ndata: " + answer + b"\n\n"
        self._reply(200, "text/event-stream", body, {"Mcp-Session-Id": session})

    def _refuse(self, status: int) -> None:
        error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "Bad Request: no such session"}}
        self._reply(status, "application/json", json.dumps(error).encode())

    def _reply(self, status: int, kind: str, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Say nothing."""


@pytest.fixture(name="foreign")
def foreign_server() -> Iterator[Legacy]:
    before = set(threading.enumerate())
    with Legacy() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server
        ours = [one for one in set(threading.enumerate()) - before if one.name.startswith("carrel-")]
        left = join((one for one in ours if one.name not in {"carrel-worker", "carrel-clock"}), PATIENCE_S)
        server.news.put(b"")
        server.shutdown()
        thread.join(PATIENCE_S)
    assert left == []


def text_of(client: Client, uri: str) -> str:
    [item] = client.read(uri).items
    assert isinstance(item, Text)
    return item.text


def test_a_legacy_server_that_answers_by_event_streams_is_asked_in_its_session(foreign: Legacy) -> None:
    with Client.at(foreign.url, timeout_s=PATIENCE_S) as client:
        assert (client.era, client.server_info["name"]) == ("legacy", "foreign")
        assert [entry.uri for entry in client.resources()] == ["foreign://a"]
        assert text_of(client, "foreign://a") == "first"

    assert (foreign.sessions, foreign.asked["DELETE"]) == (set(), 1)


def test_a_refusal_that_names_no_request_is_the_answer_to_the_one_that_was_sent(foreign: Legacy) -> None:
    foreign.refusal = 400
    with pytest.raises(RemoteError, match="no such session"):
        Client.at(foreign.url, timeout_s=PATIENCE_S)
    foreign.refusal = 503
    with pytest.raises(Unreachable, match="The server answered 503"):
        Client.at(foreign.url, timeout_s=PATIENCE_S)
    foreign.refusal = 401
    with pytest.raises(Unreachable, match="401: it needs a valid token") as caught:
        Client.at(foreign.url, timeout_s=PATIENCE_S)

    assert caught.value.word == "denied"


@pytest.mark.parametrize(
    ("token", "told"),
    [(None, "set CARREL_TOKEN to a token of that server"), ("x", "the token in CARREL_TOKEN was refused")],
)
def test_the_command_line_says_where_the_token_goes_that_a_server_wants(
    foreign: Legacy,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    token: str | None,
    told: str,
) -> None:
    foreign.refusal = 401
    monkeypatch.delenv("CARREL_TOKEN", raising=False)
    if token is not None:
        monkeypatch.setenv("CARREL_TOKEN", token)

    assert main(["ls", "--server", foreign.url]) == 1
    assert capsys.readouterr().err == f"carrel: The server answered 401: it needs a valid token; {told}\n"


def test_a_redirect_is_followed_on_the_same_server_and_nowhere_else(foreign: Legacy) -> None:
    foreign.moved = {"/mcp": "/mcp/", "/loop": "/loop"}
    with Client.at(foreign.url, timeout_s=PATIENCE_S) as client:
        assert text_of(client, "foreign://a") == "first"
    with pytest.raises(Unreachable, match="The server answered 307: it redirects"):
        Client.at(foreign.url.replace("/mcp", "/loop"), timeout_s=PATIENCE_S)
    with Legacy() as other:
        foreign.moved = {"/mcp": other.url}
        with pytest.raises(Unreachable, match="307: it redirects to another server"):
            Client.at(foreign.url, headers={"Authorization": "Bearer secret"}, timeout_s=PATIENCE_S)
        assert other.asked == Counter()


@pytest.mark.parametrize("status", [404, 400])
def test_a_session_that_the_server_forgot_ends_the_conversation(foreign: Legacy, status: int) -> None:
    foreign.unknown_session = status
    with Client.at(foreign.url, timeout_s=PATIENCE_S) as client:
        foreign.forget()
        with pytest.raises(Disconnected):
            client.read("foreign://a")
        assert client.is_gone

    assert foreign.asked["DELETE"] == 0


def test_a_server_that_wants_us_to_be_slower_is_not_left(foreign: Legacy) -> None:
    with mounted(foreign.url) as client:
        foreign.refusal = 429
        with pytest.raises(RemoteError, match="Mount failed: foreign"):
            client.read("foreign://a")
        foreign.refusal = 0
        assert text_of(client, "foreign://a") == "first"

    assert foreign.opened == 1


@contextmanager
def served(url: str, **settings: Any) -> Iterator[Server]:
    options = MountSettings(url=url, timeout_s=PATIENCE_S, **settings)
    mount = Mount("foreign", options, address_of(options, {}))
    catalog = Catalog([mount])
    mount.begin()
    assert mount.wait(PATIENCE_S)
    yield Server(catalog)
    catalog.close()


@contextmanager
def mounted(url: str) -> Iterator[Client]:
    with served(url) as server, Client.to(server) as client:
        yield client


class Keys:
    """Knows one token."""

    def find(self, token: str) -> Access | None:
        return Access("caller") if token == "of-the-caller" else None


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer of-the-mount"}])
def test_the_token_of_a_caller_is_not_passed_on_to_a_mount(foreign: Legacy, headers: dict[str, str]) -> None:
    uri = "foreign://a"
    sent = {**modern_headers("resources/read", uri), "authorization": "Bearer of-the-caller"}
    with served(foreign.url, headers=headers) as server:
        app = App(server, Guard(AcceptedNames(is_loopback=True), Keys()))
        reply = post(app, modern("resources/read", {"uri": uri}), sent)

    assert reply.json["result"]["contents"][0]["text"] == "first"
    assert set(foreign.credentials) == {headers.get("Authorization", "")}


@pytest.mark.parametrize("status", [404, 400])
def test_a_mount_whose_session_was_forgotten_initialises_anew_and_reads(
    foreign: Legacy, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("carrel.providers.mounts.link.random.uniform", lambda low, high: 0.01)
    foreign.unknown_session = status
    with mounted(foreign.url) as client:
        assert text_of(client, "foreign://a") == "first"
        foreign.forget()
        assert text_of(client, "foreign://a") == "first"

    assert foreign.opened == 2


def test_a_mount_that_listens_learns_of_a_forgotten_session_by_itself_and_subscribes_anew(
    foreign: Legacy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("carrel.providers.mounts.link.random.uniform", lambda low, high: 0.01)
    monkeypatch.setattr("carrel.client.http.RETRY_S", (0.01,))
    with mounted(foreign.url) as client, client.listen(["foreign://a"]) as listening:
        assert listening.honoured == ("foreign://a",)
        assert foreign.has_stream.wait(PATIENCE_S)
        until(lambda: foreign.asked["resources/subscribe"])
        foreign.text = "changed"  # else news before the watch has begun would be of no change, and rightly be dropped
        foreign.news.put(json.dumps(UPDATED).encode())
        assert listening.wait(PATIENCE_S) == "foreign://a"
        foreign.forget()
        foreign.news.put(b"")
        assert foreign.has_stream.wait(PATIENCE_S)
        assert listening.wait(PATIENCE_S) == "foreign://a"
        foreign.text = "second"
        foreign.news.put(json.dumps(UPDATED).encode())
        assert listening.wait(PATIENCE_S) == "foreign://a"

    assert foreign.opened == 2


UPDATED = {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "foreign://a"}}


# Redirects, and connections that fail


def test_a_temporary_redirect_is_asked_for_each_time_and_a_lasting_one_is_kept(foreign: Legacy) -> None:
    foreign.moved = {"/mcp": "/mcp/"}
    for status, reads_at in ((307, {"/mcp": 2, "/mcp/": 2}), (308, {"/mcp/": 2})):
        foreign.moved_status = status
        with Client.at(foreign.url, timeout_s=PATIENCE_S) as client:
            assert foreign.has_stream.wait(PATIENCE_S)  # by then all that opens the session is said
            foreign.posted.clear()
            assert [text_of(client, "foreign://a") for _ in range(2)] == ["first", "first"]
            assert foreign.posted == reads_at
        foreign.has_stream.clear()


def test_what_has_no_answer_goes_where_a_temporary_redirect_says_too(foreign: Legacy) -> None:
    foreign.moved = {"/mcp": "/mcp/"}
    with Client.at(foreign.url, timeout_s=PATIENCE_S):
        assert foreign.has_stream.wait(PATIENCE_S)
    assert (foreign.asked["notifications/initialized"], foreign.asked["DELETE"], foreign.sessions) == (1, 1, set())


def test_a_server_that_redirects_without_end_is_not_said_to_be_another(foreign: Legacy) -> None:
    foreign.moved = {f"/{number}": f"/{number + 1}" for number in range(9)}
    with pytest.raises(Unreachable, match="The server answered 307: it redirects again and again"):
        Client.at(foreign.url.replace("/mcp", "/0"), timeout_s=PATIENCE_S)


def http_at(port: int, kind: type[Http] = Http) -> Http:
    return kind(f"http://127.0.0.1:{port}/mcp", max_message_bytes=1 << 20)


PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


def test_a_connection_whose_answer_is_no_http_is_closed_and_forgotten() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        http = http_at(listener.getsockname()[1])
        http.send(PING)
        taken, _ = listener.accept()
        with taken:
            taken.settimeout(PATIENCE_S)
            assert taken.recv(1 << 16)
            taken.sendall(b"nonsense\r\n\r\n")
            assert isinstance(http.receive(), Unanswered)
            while taken.recv(1 << 16):
                pass
        assert http._open == {}
        http.close()


class ClosedMeanwhile(Http):
    """Is closed as soon as it has connected, before anybody knows of the connection."""

    def _connect(self, timeout_s: float | None = None) -> HTTPConnection:
        connection = super()._connect(timeout_s)
        self.close()
        return connection


def test_closing_while_a_request_connects_ends_that_request() -> None:
    before = set(threading.enumerate())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        http = http_at(listener.getsockname()[1], ClosedMeanwhile)
        http.send(PING)
        assert http.receive() is None
        asking = (one for one in set(threading.enumerate()) - before if one.name == "carrel-http-request")
        assert join(asking, PATIENCE_S) == []
    assert http._open == {}
