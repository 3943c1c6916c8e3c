"""The balancer's rule, with a real nginx: what is sent to another replica when one is lost, and what is not."""

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from carrel.providers.sage.tools import TOOLS as SAGE_TOOLS
from carrel.providers.scopes.tool_schemas import tools_of
from deploy.balancer import Balancer
from tests.support.http_asking import modern
from tests.support.ports import free_ports


class Replicas:
    """Two replicas, of which the one that is asked first is lost: it takes the request, and sends no answer."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.lost = 1
        both = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                both.asked.append(self.rfile.read(int(self.headers.get("content-length", "0"))))
                if len(both.asked) > both.lost:
                    self.send_response(200)
                    self.send_header("content-length", "2")
                    self.end_headers()
                    self.wfile.write(b"{}")

            do_GET = do_DELETE = do_POST  # noqa: N815 (the names that the base class calls)

            def log_message(self, *_: object) -> None:
                pass

        self.servers = [ThreadingHTTPServer(("127.0.0.1", 0), Handler) for _ in range(2)]

    def forget(self, lost: int = 1) -> None:
        """Forget what was asked; the first `lost` requests get no answer."""
        self.asked.clear()
        self.lost = lost


@pytest.fixture(scope="module", name="replicas")
def two_replicas() -> Iterator[Replicas]:
    replicas = Replicas()
    with ExitStack() as until_ended:
        for server in replicas.servers:
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
            until_ended.callback(server.server_close)
            until_ended.callback(server.shutdown)
        yield replicas


@pytest.fixture(scope="module", name="port")
def balancer_port(replicas: Replicas, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    ports = [server.server_port for server in replicas.servers]
    with Balancer(tmp_path_factory.mktemp("balancer") / "nginx", ports).running() as balancer:
        yield balancer.port


def ask(port: int, method: str, body: bytes = b"") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, "/mcp", body or None)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def call(name: str, **arguments: object) -> bytes:
    return message("tools/call", {"name": name, "arguments": arguments})


def message(method: str, params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


KEY = {"idempotencyKey": "write-00000001"}
READING = [
    message("resources/read", {"uri": 'scopes://scope/a"tools/call"'}),
    message("resources/templates/list", {}),
    message("subscriptions/listen", {"notifications": {}}),
    message("notifications/cancelled", {"requestId": 1}),
    *(message(method, {}) for method in ("initialize", "ping", "server/discover", "tools/list", "completion/complete")),
    *(call(tool.name) for tool in (*tools_of("read"), *(one.tool for one in SAGE_TOOLS)) if tool.read_only),
    *(call(name) for name in ("search", "list_resources", "read_resource")),
]
KEYED = [
    *(call(tool.name, alias="a", **KEY) for tool in tools_of("write") if not tool.read_only),
    modern("tools/call", {"name": "scopes.update", "arguments": {**KEY, "title": 'a "method": \\ {', "restore": True}}),
    message("tools/call", {"arguments": {"name": "elsewhere.write", **KEY}, "name": "scopes.create"}),
    json.dumps(json.loads(call("scopes.create", title="ü", **KEY)), indent=2).encode(),
    call("scopes.create", title='"' * 30_000, **KEY),
    call("scopes.create", labels={f"label{number}": "a" for number in range(3_000)}, **KEY),
    call("scopes.create", labels=[[[{"a": [1, -2.5e3, None, {}]}]] for _ in range(20)], **KEY),
    b'{"params":{"arguments":{"idempotencyKey":"write-00000001"},"name":"scopes.move"},"method":"tools/call","id":"a"}',
]
UNKNOWN = [
    *(call(tool.name, alias="a", ifMatch="5f1c") for tool in tools_of("write") if not tool.read_only),
    *(call(one.tool.name) for one in SAGE_TOOLS if not one.tool.read_only),
    call("elsewhere.write", **KEY),
    call("elsewhere.write", method="resources/read"),
    call("elsewhere.write", params={"name": "search"}),
    call("scopes.create", title=json.dumps(KEY)),
    call("scopes.create", idempotencyKey="short"),
    call("scopes.create", labels=KEY),
    call("scopes.create", labels=[KEY]),
    message("tools/call", {"_meta": KEY, "name": "scopes.create", "arguments": {}}),
    message("tools/call", {"name": "elsewhere.write", "_meta": {"name": "search"}, "arguments": {"name": "search"}}),
    call("elsewhere.write", method="resources/read").replace(b'"method"', b'"\\u006dethod"', 1),
    call("scopes.create").replace(b'"params"', b'"params": {"name": "search", "arguments": {}}, "params"'),
    call("scopes.create", **KEY).replace(b"}}}", b'}, "arguments": {}}}'),
    call("scopes.create", nested="DEEP", **KEY).replace(b'"DEEP"', b"[" * 20_000 + b"]" * 20_000),
    call("scopes.create", title="a" * 100_000, **KEY),
    message("unheard/of", {}),
    b"[" + call("scopes.create") + b"," + message("ping", {}) + b"]",
    b"not JSON",
]


@pytest.mark.parametrize("body", [*READING, *KEYED], ids=lambda body: body[34:90].decode())
def test_what_reads_and_what_has_a_key_is_sent_to_another_replica(port: int, replicas: Replicas, body: bytes) -> None:
    replicas.forget()

    assert ask(port, "POST", body) == (200, b"{}")
    assert replicas.asked == [body, body]


@pytest.mark.parametrize("body", UNKNOWN, ids=lambda body: body[34:90].decode())
def test_what_may_have_changed_something_is_never_repeated(port: int, replicas: Replicas, body: bytes) -> None:
    replicas.forget()

    status, text = ask(port, "POST", body)

    assert (status, replicas.asked) == (502, [body])
    assert "not known whether the call was carried out" in json.loads(text)["error"]["message"]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_streams_and_the_end_of_a_session_go_to_another_replica(port: int, replicas: Replicas, method: str) -> None:
    replicas.forget()

    assert ask(port, method) == (200, b"{}")
    assert len(replicas.asked) == 2


def test_a_request_that_no_replica_took_is_answered_503(tmp_path: Path) -> None:
    with Balancer(tmp_path / "nginx", free_ports(2)).running() as balancer:
        for body in (call("scopes.create"), READING[0]):
            status, text = ask(balancer.port, "POST", body)

            assert status == 503
            assert "nothing was carried out" in json.loads(text)["error"]["message"]


def test_a_read_that_every_replica_lost_is_answered_503(tmp_path: Path, replicas: Replicas) -> None:
    [nobody] = free_ports(1)
    with Balancer(tmp_path / "nginx", [replicas.servers[0].server_port, nobody]).running() as balancer:
        replicas.forget(lost=9)

        status, text = ask(balancer.port, "POST", READING[0])

        assert (status, set(replicas.asked)) == (503, {READING[0]})
        assert json.loads(text)["error"]["message"].startswith("No replica answered.")
