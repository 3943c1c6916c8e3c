"""Whatever comes over HTTP, the application answers it, says nothing of its insides, and stays as it was."""

import asyncio
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from carrel.protocol.events import Events
from carrel.protocol.framing import OverLong
from carrel.transports.http.app import App
from tests.support.http_asking import JSON, application, modern, modern_headers
from tests.support.memory_provider import Memory

APP = application(Memory())
HEADER_NAMES = (
    "accept content-type mcp-protocol-version mcp-method mcp-name mcp-session-id origin range if-none-match if-range "
    "authorization last-event-id host content-length sec-fetch-site"
).split()
HEADERS = st.lists(st.tuples(st.sampled_from(HEADER_NAMES).map(str.encode), st.binary(max_size=40)), max_size=6)
BODIES = st.one_of(
    st.binary(max_size=200),
    st.sampled_from([modern("resources/list"), modern("resources/read", {"uri": "test:///plain"}), b"[]", b"null"]),
)
PATHS = st.one_of(
    st.sampled_from([b"/mcp", b"/", b"/-/read", b"/-/health", b"/test/plain", b"/test/stored/utf-16le"]),
    st.binary(max_size=60).map(lambda path: b"/" + path),
    st.text(alphabet="/.%2eEfF0testplain:?#", max_size=40).map(lambda path: b"/" + path.encode()),
)
METHODS = st.sampled_from(["GET", "HEAD", "POST", "DELETE", "PUT", "OPTIONS"])
Headers = list[tuple[bytes, bytes]]


def spelled(headers: dict[str, str]) -> Headers:
    """Return headers as a server hands them over."""
    return [(name.encode(), value.encode()) for name, value in headers.items()]


async def send(app: App, method: str, path: bytes, query: bytes, headers: Headers, body: bytes) -> Any:
    """Hand a request over as a server would; return its status and body."""
    sent: list[Any] = []
    events = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Any:
        return next(events, {"type": "http.disconnect"})

    async def take(event: Any) -> None:
        sent.append(event)

    scope = {"type": "http", "method": method, "raw_path": path, "path": "/", "query_string": query}
    await app({**scope, "headers": headers}, receive, take)
    return sent[0]["status"] if sent else None, b"".join(event.get("body", b"") for event in sent[1:])


@given(METHODS, PATHS, st.binary(max_size=40), HEADERS, BODIES)
@example("POST", b"/mcp", b"", spelled(JSON), b"[" * 10_000)
@example("POST", b"/mcp", b"", spelled(modern_headers("x")), modern("x"))
@example("GET", b"/test/plain", b"", [(b"range", b"bytes=" + b"9" * 30 + b"-")], b"")
def test_any_request_is_answered_without_a_fault(
    method: str, path: bytes, query: bytes, headers: Headers, body: bytes
) -> None:
    has_host = any(name == b"host" for name, _ in headers)
    given_headers = headers if has_host else [(b"host", b"localhost"), *headers]
    status, answered = asyncio.run(send(APP, method, path, query, given_headers, body))

    assert status is None or 200 <= status < 500, (status, answered)
    assert b"Traceback" not in answered
    assert APP.threads.open_streams == 0


@given(st.lists(st.text(alphabet="ab{}:é \t", min_size=1, max_size=20), max_size=5), st.data())
def test_events_are_the_same_however_the_bytes_come(messages: list[str], data: st.DataObject) -> None:
    wire = b"".join(f"event: message\ndata: {message}\n\n: note\n\n".encode() for message in messages)
    events = Events(1_000)
    found: list[bytes | OverLong] = []
    while wire:
        size = data.draw(st.integers(1, max(1, len(wire))))
        found += events.feed(wire[:size])
        wire = wire[size:]

    assert found == [message.encode() for message in messages]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_an_event_over_the_bound_is_not_kept(end: bytes) -> None:
    events = Events(1_000)
    found: list[bytes | OverLong] = [*events.feed(b'data: {"id":1,')]
    for _ in range(1_000):
        found += events.feed(b"x" * 1_000)
        assert len(events._rest) <= 6_200
    found += events.feed(end + end + b"data: next" + end + end)

    assert isinstance(found[0], OverLong)
    assert found[1:] == [b"next"]
