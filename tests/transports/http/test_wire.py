"""Over real sockets: who sends slowly, much or nonsense, who leaves, who does not read; and Carrel's own client."""

import asyncio
import gc
import json
import socket
import struct
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection
from time import monotonic
from typing import Any, cast

import pytest

from carrel.catalog.access import Access
from carrel.client.client import Client, EraChoice
from carrel.client.http import Http
from carrel.core.errors import ConfigError, Disconnected, ProviderError, RemoteError
from carrel.core.model import Reading, Stored, Text
from carrel.core.provider import Provider, Route
from carrel.transports.http.app import App
from carrel.transports.http.asgi import header, quoted
from carrel.transports.http.guard import AcceptedNames, Guard
from carrel.transports.http.mcp import Endpoint
from carrel.transports.http.unauthenticated import NewConnections
from carrel.transports.http.wire import Wire
from tests.support.http_asking import JSON, application, legacy, listening, modern, modern_headers, raw
from tests.support.memory_provider import SAMPLE, Eventful, Gated, Memory, Shelf
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.slow

HOST = b"Host: localhost\r\n"


def statuses(answer: bytes) -> list[int]:
    """Return the status of each answer in what came back."""
    return [int(line.split()[1]) for line in answer.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]


# Hostile senders


class Strict(Wire):
    """As the real one, with less patience."""

    read_s = 0.2
    stall_s = 0.2
    max_header_bytes = 2_000
    max_connections = 4


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /-/limits HTTP/1.1\r\n" + HOST,
        b"GET /-/limits HTT",
        b"POST /mcp HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\nContent-Length: 10\r\n\r\n{",
        b"POST /mcp HTTP/1.1\r\n"
        + HOST
        + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
    ],
)
def test_a_request_that_does_not_arrive_is_given_up(sent: bytes) -> None:
    with listening(application(Memory()), Strict) as port:
        assert statuses(raw(port, sent)) == [408]


def test_a_connection_that_never_asks_is_closed() -> None:
    with listening(application(Memory()), Strict) as port:
        assert raw(port, b"") == b""


def test_bytes_that_trickle_do_not_buy_time() -> None:
    with (
        listening(application(Memory()), Strict) as port,
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection,
    ):
        connection.sendall(b"GET /-/limits HTTP/1.1\r\n" + HOST)
        assert _trickle(connection) in ([408], [])


def _trickle(connection: socket.socket) -> list[int]:
    """Send a byte at a time for as long as anybody takes them; return what was answered."""
    connection.settimeout(0.02)
    for _ in range(1_000):
        try:
            connection.sendall(b"X")
            return statuses(connection.recv(1_000))
        except TimeoutError:
            continue
        except ConnectionError:
            return []
    raise AssertionError("nobody gave up")


def test_a_header_without_end_is_not_kept() -> None:
    with listening(application(Memory()), Strict) as port:
        assert statuses(raw(port, b"GET /-/limits HTTP/1.1\r\n" + HOST + b"X: " + b"x" * 3_000_000)) in ([431], [])


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /-/limits HTTP/1.1\r\n" + HOST + b"X: " + b"x" * 3_000 + b"\r\n\r\n",
        b"GET /-/limits HTTP/1.1\r\n" + HOST + b"X: y\r\n" * 600 + b"\r\n",
        b"GET /" + b"x" * 3_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    ],
)
def test_headers_over_the_bound_are_refused(sent: bytes) -> None:
    with listening(application(Memory()), Strict) as port:
        assert statuses(raw(port, sent)) == [431]


CHUNKED = b"POST /mcp HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


class Brief(Wire):
    """As the real one, with little room for headers."""

    max_header_bytes = 2_000


@pytest.mark.parametrize(
    "endless",
    [b"0\r\n" + b"X: y\r\n" * 200_000, b"0\r\nX: " + b"x" * 1_000_000, b"5;x=" + b"x" * 1_000_000],
    ids=["trailers", "a trailer", "an extension"],
)
@pytest.mark.parametrize("body", [b"", b"1\r\n{\r\n"])
def test_a_body_whose_end_has_no_end_is_refused(body: bytes, endless: bytes) -> None:
    with listening(application(Memory()), Brief) as port:
        assert statuses(raw(port, CHUNKED + body + endless)) in ([431], [])


def test_who_was_answered_before_the_end_of_his_body_is_not_answered_twice() -> None:
    refused = CHUNKED.replace(HOST, b"Host: elsewhere\r\n")
    with listening(application(Memory()), Strict) as port:
        assert statuses(raw(port, refused)) == [421]


def test_trailers_are_not_kept_however_many_there_are() -> None:
    kept: list[int] = []

    class Counting(Wire):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            kept.append(len(self.headers))

    with listening(application(Memory()), Counting) as port:
        raw(port, CHUNKED + b"0\r\n" + b"a:b\r\n" * 100_000)
    assert set(kept) == {3}


def test_a_trailer_says_nothing_of_the_request() -> None:
    head = b"POST /mcp HTTP/1.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    call = head + b"0\r\n" + HOST + b"\r\n"
    with listening(application(Memory())) as port:
        assert statuses(raw(port, call)) == [421]


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        (b"http://evil.example/-/limits", b"localhost", 421),
        (b"http://localhost:80@evil.example/-/limits", b"localhost", 421),
        (b"http:///-/limits", b"localhost", 421),
        (b"http://localhost/-/limits", b"localhost", 200),
        (b"HTTP://LOCALHOST:1/-/limits?x=/", b"localhost", 200),
        (b"http://localhost/-/limits", b"evil.example", 200),
        (b"localhost:80", b"localhost", 400),
        (b"*", b"localhost", 404),
    ],
)
def test_the_name_in_a_target_counts_and_not_the_one_beside_it(target: bytes, host: bytes, status: int) -> None:
    sent = b"GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % (target, host)
    with listening(application(Memory())) as port:
        assert statuses(raw(port, sent)) == [status]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /-/limits HTT", 408),
        (b"GET /" + b"x" * 3_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 431),
        (b"HELO there\r\n\r\n", 400),
        ("GET /workspace/é HTTP/1.1\r\n\r\n".encode(), 400),
    ],
)
def test_what_is_refused_before_it_is_understood_is_reported_in_json(sent: bytes, status: int) -> None:
    with listening(application(Memory()), Strict) as port:
        head, _, body = raw(port, sent).partition(b"\r\n\r\n")
    assert statuses(head) == [status]
    assert b"content-type: application/json" in head
    assert list(json.loads(body)) == ["error"]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"HELO there\r\n\r\n", 400),
        (b"GET /-/limits HTTP/1.1\r\n" + HOST + b"Connection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n", 200),
    ],
)
def test_nonsense_is_not_worth_a_line_in_the_log(sent: bytes, status: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with listening(application(Memory()), Strict) as port:
        assert statuses(raw(port, sent)) == [status]
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == []


# Who would rather speak another protocol

WISH = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAA\r\n"
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
POST = b"POST /mcp HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"
LAST = b"GET /-/limits HTTP/1.1\r\nConnection: close\r\n" + HOST + b"\r\n"


@pytest.mark.parametrize(
    "body",
    [
        b"Content-Length: %d\r\n\r\n%s" % (len(PING), PING),
        b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(PING), PING),
    ],
)
@pytest.mark.parametrize("piece", [1, 7, 1_000])
def test_a_wish_for_another_protocol_is_passed_over_and_the_body_is_read(body: bytes, piece: int) -> None:
    sent = (POST + WISH + body) * 2 + POST + body + LAST
    with (
        listening(application(Memory())) as port,
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection,
    ):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(sent), piece):
            connection.sendall(sent[start : start + piece])
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert answer.count(b"HTTP/1.1 200 OK") == 4
    assert answer.count(b'"result":{}') == 3


def test_a_wish_does_not_get_around_the_bounds() -> None:
    many = b"GET /-/limits HTTP/1.1\r\n" + HOST + WISH + b"X: " + b"x" * 3_000 + b"\r\n\r\n"
    with listening(application(Memory()), Strict) as port:
        assert statuses(raw(port, many)) == [431]
        assert statuses(raw(port, POST + WISH + b"Content-Length: 10\r\n\r\n{")) == [408]


def test_a_tunnel_is_not_opened() -> None:
    with listening(application(Memory())) as port:
        assert statuses(raw(port, b"CONNECT localhost:1 HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"))[:1] == [
            400
        ]


def test_a_body_over_the_bound_is_refused_before_it_is_all_there() -> None:
    app = application(Memory(), max_bytes=1_000)
    head = b"POST /mcp HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"
    with listening(app) as port:
        assert statuses(raw(port, head + b"Content-Length: 99999999\r\n\r\n{")) == [413]
        chunked = head + b"Transfer-Encoding: chunked\r\n\r\n" + b"400\r\n" + b" " * 1024 + b"\r\n"
        assert statuses(raw(port, chunked * 1 + b"400\r\n" + b" " * 1024 + b"\r\n")) == [413]


@pytest.mark.parametrize(
    "sent",
    [b"\0\0\0\0\r\n\r\n", b"HELO there\r\n\r\n", b"GET /\xff HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nA B: c\r\n\r\n"],
)
def test_nonsense_is_refused_and_the_server_lives_on(sent: bytes) -> None:
    with listening(application(Memory())) as port:
        assert statuses(raw(port, sent)) == [400]
        assert statuses(raw(port, b"GET /-/limits HTTP/1.1\r\nConnection: close\r\n" + HOST + b"\r\n")) == [200]


def test_too_many_connections_are_closed_at_once() -> None:
    with listening(application(Memory()), Strict) as port:
        held = [socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) for _ in range(4)]
        for connection in held:
            connection.sendall(b"GET /-/limits HTTP/1.1\r\n" + HOST + b"\r\n")
            assert statuses(connection.recv(10_000)) == [200]
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as extra:
            try:
                told = extra.recv(100)
            except ConnectionResetError:
                told = b""
            assert told == b""
        for connection in held:
            connection.close()


def test_a_reader_who_takes_nothing_is_cut_off() -> None:
    lost = threading.Semaphore(0)

    class Noticing(Strict):
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            lost.release()

    body = modern("resources/read", {"uri": "test:///big/1900000"})
    head = "".join(
        f"{name}: {value}\r\n" for name, value in modern_headers("resources/read", "test:///big/1900000").items()
    )
    request = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    with listening(application(Memory()), Noticing) as port:
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.settimeout(PATIENCE_S)
        connection.connect(("127.0.0.1", port))
        with connection:
            connection.sendall(request * 5)
            assert lost.acquire(timeout=PATIENCE_S)


def test_nothing_is_kept_of_a_connection_that_was_reset() -> None:
    lost = threading.Event()
    kept: list[weakref.ref[Wire]] = []

    class Followed(Wire):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            kept.append(weakref.ref(self))

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            # What is called later on comes after what uvicorn still has to do with this connection.
            self.loop.call_soon(lost.set)

    with listening(application(Memory()), Followed) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
            connection.sendall(b"GET /-/limits HTTP/1.1\r\n" + HOST + b"\r\n")
            assert statuses(connection.recv(10_000)) == [200]
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert lost.wait(PATIENCE_S)
        raw(port, b"GET /-/limits HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
        gc.collect()
        assert kept[0]() is None


def test_requests_on_one_connection_are_answered_in_order() -> None:
    asked = b"GET /test/note/%03d HTTP/1.1\r\n" + HOST + b"\r\n"
    last = b"GET /test/note/003 HTTP/1.1\r\nConnection: close\r\n" + HOST + b"\r\n"
    with listening(application(Memory())) as port:
        answer = raw(port, b"".join(asked % number for number in range(3)) + last)
    assert [part.split(b"\r\n\r\n")[1] for part in answer.split(b"HTTP/1.1 200 OK")[1:]] == [
        b"Note 0\n",
        b"Note 1\n",
        b"Note 2\n",
        b"Note 3\n",
    ]


def asked(target: str, *more: str, method: str = "GET") -> bytes:
    """Spell a request without a body."""
    return "\r\n".join([f"{method} {target} HTTP/1.1", "Host: localhost", *more, "", ""]).encode()


def test_an_answer_without_a_body_leaves_the_connection_to_the_next_request() -> None:
    requests = [
        asked("/test/a-guide"),
        asked("/test/a-guide", method="HEAD"),
        asked("/test/a-guide", 'If-None-Match: "g1"'),
        asked("/test/a-guide", 'If-None-Match: "g1"', method="HEAD"),
        asked("/test/plain", "Connection: close"),
    ]
    with listening(application(Memory())) as port:
        whole, head, same, same_head, last = raw(port, b"".join(requests)).split(b"HTTP/1.1 ")[1:]

    assert whole == head + b"# Guide\n"
    assert b"\r\ncontent-length: 8\r\n" in head
    assert same == same_head
    assert same.startswith(b"304 ")
    assert same.endswith(b"\r\n\r\n")
    assert b"content-length" not in same
    assert b"\r\nconnection: close\r\n" in last
    assert last.endswith(b"\r\n\r\n" + SAMPLE.encode())


def test_an_answer_before_the_body_does_not_ask_for_the_body_afterwards() -> None:
    early = asked("/test/plain", "Expect: 100-continue", "Content-Length: 5", method="POST")
    with listening(application(Memory())) as port:
        answers = raw(port, early + b"abcde" + asked("/test/plain", "Connection: close"))

    assert [part[:3] for part in answers.split(b"HTTP/1.1 ")[1:]] == [b"400", b"200"]


def test_answers_to_a_client_that_does_not_read_yet_arrive_whole_and_in_order() -> None:
    texts = {str(number): f"{number} " * 10_000 for number in range(200)}
    with (
        listening(application(Shelf("shelf", texts))) as port,
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection,
    ):
        for number in range(200):
            connection.sendall(asked(f"/shelf/{number}"))
        connection.sendall(asked("/shelf/0", "Connection: close"))
        with connection.makefile("rb") as answers:
            bodies = [part.partition(b"\r\n\r\n")[2].decode() for part in answers.read().split(b"HTTP/1.1 ")[1:]]

    assert bodies == [*texts.values(), texts["0"]]


def posted(method: str, params: dict[str, Any], request_id: int, *more: str) -> bytes:
    """Spell a modern call."""
    body = modern(method, params, request_id=request_id)
    fields = [f"{name}: {value}" for name, value in modern_headers(method, params.get("uri")).items()]
    lines = ["POST /mcp HTTP/1.1", "Host: localhost", *fields, *more, f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def test_a_client_that_waits_for_a_word_before_it_sends_the_body_gets_it() -> None:
    head, _, body = posted("resources/read", {"uri": "test:///plain"}, 1, "Expect: 100-Continue").partition(b"\r\n\r\n")
    with listening(application(Memory())) as port, connect(port) as connection:
        connection.sendall(head + b"\r\n\r\n")
        assert statuses(connection.recv(10_000)) == [100]
        connection.sendall(body)
        assert statuses(connection.recv(10_000)) == [200]


def test_calls_that_wait_and_calls_that_do_not_are_answered_in_order() -> None:
    gated = Gated("gated", {"quick": "text"})
    uris = ["test:///plain", "gated:///gate/a", "test:///plain", "gated:///quick", "test:///none"]
    calls = [posted("resources/read", {"uri": uri}, number) for number, uri in enumerate(uris)]
    with (
        listening(application(Memory(), gated)) as port,
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection,
    ):
        connection.sendall(b"".join(calls) + posted("resources/list", {}, 5, "Connection: close"))
        assert gated.arrived.acquire(timeout=PATIENCE_S)
        gated.open_gate()
        with connection.makefile("rb") as answers:
            answer = answers.read()
    assert [json.loads(part.split(b"\r\n\r\n")[1])["id"] for part in answer.split(b"HTTP/1.1 ")[1:]] == [*range(6)]


@pytest.mark.parametrize("is_quick", [True, False])
def test_what_is_no_http_is_refused_after_the_answers_to_what_came_before(is_quick: bool) -> None:
    call = posted("resources/read", {"uri": "test:///plain"}, 1)
    memory = Memory()
    memory.speed = "instant" if is_quick else "normal"
    with listening(application(memory)) as port:
        answers = raw(port, call + call + b"\0\0\0\r\n\r\n")
    assert [part[:3] for part in answers.split(b"HTTP/1.1 ")[1:]] == [b"200", b"200", b"400"]


def test_a_plain_read_before_what_is_no_http_is_answered_too() -> None:
    with listening(application(Memory())) as port:
        answers = raw(port, b"GET /test/plain HTTP/1.1\r\nHost: localhost\r\n\r\n\0garbage\r\n\r\n")
    assert [part[:3] for part in answers.split(b"HTTP/1.1 ")[1:]] == [b"200", b"400"]


def test_a_call_in_small_parts_is_answered_as_one_in_one_part() -> None:
    call = posted("resources/read", {"uri": "test:///plain"}, 1)
    end = posted("resources/read", {"uri": "test:///plain"}, 1, "Connection: close")
    with (
        listening(application(Memory())) as port,
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection,
    ):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(call), 7):
            connection.sendall(call[start : start + 7])
        connection.sendall(end)
        with connection.makefile("rb") as answers:
            first, second = (part.split(b"\r\n\r\n") for part in answers.read().split(b"HTTP/1.1 200 OK")[1:])
    assert first[1] == second[1]


@pytest.mark.parametrize("size", [3, 200_000])
def test_an_answer_that_had_to_wait_is_written_at_once_with_its_head(size: int) -> None:
    gated = Gated("gated", {"quick": "a" * size})
    written: list[bytes] = []

    class Noticing(Wire):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            class Noted:
                def __getattr__(self, name: str) -> object:
                    return getattr(transport, name)

                def write(self, data: bytes) -> None:
                    written.append(data)
                    cast("asyncio.Transport", transport).write(data)

                def writelines(self, parts: Sequence[bytes]) -> None:
                    self.write(b"".join(parts))

            super().connection_made(cast("asyncio.BaseTransport", Noted()))

    with listening(application(gated), Noticing) as port:
        answer = raw(port, posted("resources/read", {"uri": "gated:///quick"}, 1, "Connection: close"))
    assert statuses(answer) == [200]
    assert written == [answer]


class Hasty(Wire):
    """As the real one, but does not keep a connection for long."""

    idle_s = 0.05


def test_a_connection_on_which_nothing_but_line_ends_come_is_closed() -> None:
    with listening(application(Memory()), Hasty) as port:
        assert raw(port, b"\r\n") == b""


def test_a_call_of_http_1_0_is_answered_and_the_connection_closed() -> None:
    call = posted("resources/read", {"uri": "test:///plain"}, 1, "Connection: keep-alive")
    with listening(application(Memory())) as port:
        assert statuses(raw(port, call.replace(b"HTTP/1.1", b"HTTP/1.0", 1))) == [200]


def test_the_time_to_arrive_is_that_of_each_request() -> None:
    call = posted("resources/read", {"uri": "test:///plain"}, 1)
    with (
        listening(application(Memory()), Strict) as port,
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection,
        connection.makefile("rb") as answers,
    ):
        ends = monotonic() + 3 * Strict.read_s
        connection.sendall(call[:50])
        while monotonic() < ends:
            # The end of one request and the beginning of the next always come together.
            connection.sendall(call[50:] + call[:50])
            assert answers.readline() == b"HTTP/1.1 200 OK\r\n"
            length = 0
            while (line := answers.readline()) != b"\r\n":
                length = int(line.partition(b":")[2]) if line.startswith(b"content-length") else length
            assert len(answers.read(length)) == length


def test_a_burst_on_one_connection_leaves_the_others_their_turn() -> None:
    class Patient(Wire):
        burst_s = 0.0

    call = posted("resources/read", {"uri": "test:///plain"}, 1)
    end = posted("resources/read", {"uri": "test:///plain"}, 1, "Connection: close")
    with listening(application(Memory()), Patient) as port:
        answers = raw(port, call * 20 + end)
    assert answers.count(b"HTTP/1.1 200 OK") == 21


def test_who_may_not_ask_is_refused_before_the_body_is_there() -> None:
    call = posted("resources/read", {"uri": "test:///plain"}, 1).replace(b"Host: localhost", b"Host: elsewhere")
    with (
        listening(application(Memory())) as port,
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection,
    ):
        connection.sendall(call[:-5])
        assert statuses(connection.recv(10_000)) == [421]


def test_an_unexpected_exception_is_answered_as_an_internal_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    app = application(Memory())
    call = posted("resources/read", {"uri": "test:///plain"}, 1)
    end = posted("resources/read", {"uri": "test:///plain"}, 1, "Connection: close")

    def fail(*_: object) -> None:
        raise RuntimeError("nobody planned this")

    monkeypatch.setattr(Endpoint, "_accept", fail)
    with listening(app) as port:
        answers = raw(port, call + end)
    assert answers.count(b"HTTP/1.1 500 ") == 2
    assert b"nobody planned this" not in answers
    assert caplog.text.count("RuntimeError: nobody planned this") == 2


def test_a_call_that_is_arriving_when_the_server_stops_is_answered() -> None:
    call = posted("resources/read", {"uri": "test:///plain"}, 1)
    arrived = threading.Event()

    class Noticing(Wire):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            arrived.set()

    with ExitStack() as stack:
        served = ExitStack()
        port = served.enter_context(listening(application(Memory()), Noticing))
        connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S))
        connection.sendall(call[:-5])
        assert arrived.wait(PATIENCE_S)
        stopping = threading.Thread(target=served.close)
        stopping.start()
        connection.sendall(call[-5:])
        answer = stack.enter_context(connection.makefile("rb")).read()
        stopping.join(PATIENCE_S)
    assert statuses(answer) == [200]


def test_a_connection_that_rests_too_long_is_closed() -> None:
    for call in (posted("resources/read", {"uri": "test:///plain"}, 1), b"GET /-/limits HTTP/1.1\r\n" + HOST + b"\r\n"):
        with listening(application(Memory()), Hasty) as port:
            assert statuses(raw(port, call)) == [200]


def test_a_server_that_stops_ends_its_streams_in_good_order() -> None:
    shelf = Eventful("e", {"a": "1"})
    body = modern("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["e:///a"]}}, request_id=5)
    with listening(application(shelf)) as port:
        connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        connection.request("POST", "/mcp", body, modern_headers("subscriptions/listen"))
        stream = connection.getresponse()
        assert b"acknowledged" in b"".join(stream.readline() for _ in range(4))
    rest = stream.read().split(b"data: ")[-1]
    stream.close()
    connection.close()
    assert json.loads(rest)["id"] == 5


class Endless(Provider):
    """One resource of a terabyte that is made as it is read."""

    name = "endless"
    schemes = ("endless",)

    def __init__(self) -> None:
        self.reads = threading.Semaphore(0)
        self.closed = threading.Event()

    def routes(self) -> Sequence[Route]:
        """Return the one there is."""
        return (Route("endless:///all", self.read_all, mime_type="text/plain"),)

    def read_all(self) -> Reading:
        """Return the terabyte."""
        return Reading((Stored(_Zeros(self), encoding="binary"),), etag="1")


class _Zeros:
    size = 1 << 40

    def __init__(self, owner: Endless) -> None:
        self._owner = owner

    def read(self, start: int, length: int) -> bytes:
        """Return zeros."""
        self._owner.reads.release()
        return bytes(length)

    def has_moved(self) -> bool:
        """Return that it never does."""
        return False

    def close(self) -> None:
        """Tell that nobody reads it any more."""
        self._owner.closed.set()


@contextmanager
def downloading(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        connection.sendall(b"GET /endless/all HTTP/1.1\r\n" + HOST + b"\r\n")
        assert statuses(connection.recv(65_536)) == [200]
        yield connection


def test_a_download_whose_client_has_gone_stops(caplog: pytest.LogCaptureFixture) -> None:
    provider = Endless()
    with listening(application(provider)) as port:
        with downloading(port):
            pass
        assert provider.closed.wait(PATIENCE_S)
    assert caplog.text == ""


def test_a_server_that_stops_breaks_off_a_download_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    provider = Endless()
    with ExitStack() as stack:
        served = ExitStack()
        port = served.enter_context(listening(application(provider)))
        connection = stack.enter_context(downloading(port))
        stopping = threading.Thread(target=served.close)
        stopping.start()
        with suppress(ConnectionError):
            while connection.recv(1 << 20):
                pass
        stopping.join(PATIENCE_S)
        assert not stopping.is_alive()
    assert provider.closed.is_set()
    assert caplog.text == ""


def test_a_server_that_stops_breaks_off_a_download_that_nobody_reads(caplog: pytest.LogCaptureFixture) -> None:
    provider = Endless()
    with ExitStack() as stack, listening(application(provider)) as port:
        stack.enter_context(downloading(port))
    assert provider.closed.is_set()
    assert "Traceback" not in caplog.text


def test_a_resource_that_becomes_shorter_while_it_is_sent_breaks_off_without_a_traceback(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Zeros, "read", lambda _, start, length: bytes(length) if start < 1 << 20 else b"")
    provider = Endless()
    with listening(application(provider)) as port:
        with downloading(port) as connection, suppress(ConnectionError):
            while connection.recv(1 << 20):
                pass
        assert provider.closed.wait(PATIENCE_S)
        assert statuses(raw(port, b"GET /-/limits HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")) == [200]
    assert "Traceback" not in caplog.text
    assert "/endless/all: an answer broke off: The resource became shorter while it was sent" in caplog.text


# Our own client


def text_of(client: Client, uri: str) -> str:
    """Read a text."""
    item = client.read(uri).items[0]
    assert isinstance(item, Text)
    return item.text


class Token:
    """One token that may do everything."""

    def find(self, token: str) -> Access | None:
        """Return the access of a token."""
        return Access("me") if token == "right" else None


@contextmanager
def connected(port: int, era: EraChoice) -> Iterator[Client]:
    """Open our own client."""
    headers = {"Authorization": "Bearer right"}
    with Client.at(f"http://127.0.0.1:{port}/mcp", headers=headers, era=era, timeout_s=PATIENCE_S) as client:
        yield client


@pytest.mark.parametrize("era", ["modern", "legacy", "auto"])
def test_the_client_reads_lists_calls_and_listens(era: EraChoice) -> None:
    shelf = Eventful("e", {"a": "1"})
    app = application(Memory(), shelf, guard=Guard(AcceptedNames(is_loopback=True), Token()))
    with listening(app) as port, connected(port, era) as client:
        assert client.era == ("legacy" if era == "legacy" else "modern")
        assert text_of(client, "test:///plain") == SAMPLE
        assert len(list(client.resources())) == 304
        progress: list[float] = []
        assert client.call("count", {"to": 3}, lambda value, *_: progress.append(value)).structured in (3, None)
        assert progress == [1, 2, 3]
        with pytest.raises(RemoteError, match="not found"):
            client.read("test:///note/é")
        with client.listen(["e:///a"], list_changes=True) as news:
            assert news.honoured == ("e:///a",)
            assert shelf.watched.acquire(timeout=PATIENCE_S)
            shelf.put("a", "2")
            assert news.wait(PATIENCE_S) == "e:///a"
        assert app.threads.open_streams <= 1
    assert len(app.sessions) == 0


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_call_that_is_given_up_is_cancelled_at_the_server(era: EraChoice) -> None:
    memory = Memory()
    with listening(application(memory)) as port, connected(port, era) as client:
        client.timeout_s = 0.3
        with pytest.raises(ProviderError, match="timed out"):
            client.call("wait")
        assert memory.ended.acquire(timeout=PATIENCE_S)


def test_a_server_that_stops_is_noticed_by_who_listens() -> None:
    shelf = Eventful("e", {"a": "1"})
    with listening(application(shelf)) as port:
        client = Client.at(f"http://127.0.0.1:{port}/mcp", timeout_s=PATIENCE_S)
        news = client.listen(["e:///a"])
    assert list(news) == []
    assert news.is_over
    with pytest.raises(RemoteError, match="Cannot reach"):
        client.read("e:///a")
    client.close()
    with pytest.raises(Disconnected):
        client.read("e:///a")


def test_what_http_refuses_is_reported_in_words() -> None:
    app = application(Memory(), guard=Guard(AcceptedNames(is_loopback=True), Token()))
    with listening(app) as port:
        with pytest.raises(RemoteError, match="401: it needs a valid token") as refused:
            Client.at(f"http://127.0.0.1:{port}/mcp", timeout_s=PATIENCE_S)
        assert refused.value.word == "denied"
    with pytest.raises(RemoteError, match="Cannot reach"):
        Client.at(f"http://127.0.0.1:{port}/mcp", timeout_s=PATIENCE_S)


def test_many_threads_share_one_client() -> None:
    gated = Gated("gated", {str(number): f"text {number}" for number in range(20)})
    with listening(application(gated)) as port, connected(port, "modern") as client:
        texts: dict[int, str] = {}

        def read(number: int) -> None:
            for _ in range(5):
                texts[number] = text_of(client, f"gated:///{number}")

        threads = [threading.Thread(target=read, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert texts == {number: f"text {number}" for number in range(20)}


@pytest.mark.parametrize("url", ["ftp://x", "http://desk.example/mcp", "desk", "https://"])
def test_an_address_that_should_not_be_asked_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        Http(url, max_message_bytes=1)


def test_a_legacy_client_without_a_session_is_served() -> None:
    with listening(application(Memory())) as port:
        connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        connection.request("POST", "/mcp", legacy("resources/read", {"uri": "test:///plain"}), JSON)
        assert json.loads(connection.getresponse().read())["result"]["contents"][0]["text"] == SAMPLE
        connection.close()


# What is said in headers


class OneScope:
    """Knows one token, which may read one scheme."""

    def find(self, token: str) -> Access | None:
        return Access("narrow", frozenset({"other:read"})) if token == "t" else None


def narrow() -> App:
    return application(Memory(), guard=Guard(AcceptedNames(is_loopback=True), OneScope()))


BEARER = b"Authorization: Bearer t\r\nConnection: close\r\n"


@pytest.mark.parametrize(
    "text", ["a\r\nX-Injected: 1\r\n\r\n<b>", "a\nb", "a\rb", 'q"; x="', "\x00", "é€😀", "\x7f", "a\\"]
)
def test_no_header_repeats_what_it_may_not_hold(text: str) -> None:
    params = {"ref": {"type": "ref/resource", "uri": f"{text}://x"}, "argument": {"name": "n", "value": ""}}
    with listening(narrow()) as port:
        answer = raw(port, posted("completion/complete", params, 1, "Authorization: Bearer t\r\nConnection: close"))
    head = answer.partition(b"\r\n\r\n")[0]
    lines = head.split(b"\r\n")

    assert statuses(answer) == [403]
    assert head.isascii()
    assert all(0x20 <= one <= 0x7E for line in lines for one in line)
    assert {line.partition(b":")[0].lower() for line in lines[1:]} <= {
        b"www-authenticate",
        b"content-type",
        b"content-length",
        b"connection",
        b"date",
    }
    [challenge] = [line for line in lines if line.lower().startswith(b"www-authenticate")]
    assert challenge.count(b'"') == 4, challenge


@pytest.mark.parametrize(
    "path", [b"/x%0d%0aX-Injected:%201/y", b"/%00/y", b"/%ff%fe/y", b"/x%0d%0a/y", b"/%e2%82%ac/y"]
)
@pytest.mark.parametrize("app", [narrow, lambda: application(Memory())], ids=["scoped", "open"])
def test_a_path_with_control_characters_is_answered(app: Callable[[], App], path: bytes) -> None:
    with listening(app()) as port:
        answer = raw(port, b"GET " + path + b" HTTP/1.1\r\n" + HOST + BEARER + b"\r\n")

    assert statuses(answer)[0] in (400, 403, 404)
    assert b"x-injected" not in answer.partition(b"\r\n\r\n")[0].lower().replace(b"%0d%0ax-injected", b"")


def test_every_header_is_written_by_one_function() -> None:
    assert header(b"x", "a\r\nb: c\0é") == (b"x", b"a%0D%0Ab: c%00%C3%A9")
    assert header(b"x", b"plain \t~") == (b"x", b"plain \t~")
    assert quoted('a"b\\c\r\n') == '"a%22b%5Cc%0D%0A"'


# Who was not let in yet


class Crowded(Wire):
    """As the real one; nobody who was not let in stays for long."""

    first_s = 0.2


def crowded(limit: int, limit_each: int = 1_000) -> App:
    app = application(Memory(), guard=Guard(AcceptedNames(is_loopback=True), OneScope()))
    app.new_connections = NewConnections(limit, limit_each)
    return app


HEALTH = b"GET /-/limits HTTP/1.1\r\n" + HOST + b"Authorization: Bearer t\r\n\r\n"


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1_000) == b""
    except ConnectionError:
        return True


def test_connections_without_a_token_lock_nobody_out() -> None:
    with listening(crowded(8)) as port, ExitStack() as stack:
        old = stack.enter_context(connect(port))
        old.sendall(HEALTH)
        assert statuses(old.recv(10_000)) == [200]
        idle = [stack.enter_context(connect(port)) for _ in range(50)]
        new = stack.enter_context(connect(port))
        new.sendall(HEALTH)

        assert statuses(new.recv(10_000)) == [200]
        assert all(is_closed(one) for one in idle[:42])
        old.sendall(HEALTH)
        assert statuses(old.recv(10_000)) == [200]


def test_a_connection_on_which_nobody_was_let_in_is_closed_soon() -> None:
    with listening(crowded(100), Crowded) as port, ExitStack() as stack:
        silent, refused, welcome = (stack.enter_context(connect(port)) for _ in range(3))
        refused.sendall(b"GET /-/limits HTTP/1.1\r\n" + HOST + b"\r\n")
        assert statuses(refused.recv(10_000)) == [401]
        welcome.sendall(HEALTH)
        assert statuses(welcome.recv(10_000)) == [200]

        assert is_closed(silent)
        assert is_closed(refused)
        welcome.sendall(HEALTH)
        assert statuses(welcome.recv(10_000)) == [200]


def test_one_address_of_another_machine_has_few_places_and_this_machine_has_all() -> None:
    new_connections: NewConnections[int] = NewConnections(limit=6, limit_each=2)
    gone = [new_connections.enter(number, "192.0.2.1") for number in range(4)]

    assert (gone, len(new_connections)) == ([None, None, 0, 1], 2)
    assert [new_connections.enter(number, "127.0.0.1") for number in range(10, 14)] == [None] * 4
    assert new_connections.enter(20, "192.0.2.2") == 2, "the oldest of all goes"
    new_connections.leave(3)
    new_connections.leave(3)
    assert (3 in new_connections, 20 in new_connections, len(new_connections)) == (False, True, 5)
