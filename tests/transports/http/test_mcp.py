"""The endpoint `/mcp`, driven as an ASGI server drives it: headers, statuses, streams and sessions of both eras."""

import asyncio
import json
import threading
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pytest

from carrel.catalog.access import Access
from carrel.catalog.catalog import Catalog
from carrel.core.model import Reading, Resource, Text, Tool, ToolResult, Unread
from carrel.core.provider import Call, Route
from carrel.core.record import replace
from carrel.server.server import Server
from carrel.transports.http.app import App
from carrel.transports.http.sessions import LegacySession, Sessions
from carrel.transports.http.sse import Outbox
from tests.support.http_asking import (
    INITIALIZE,
    JSON,
    META,
    Reply,
    application,
    ask,
    asking,
    get,
    legacy,
    modern,
    modern_headers,
    post,
    run,
)
from tests.support.memory_provider import Counted, Eventful, Gated, Memory, Shelf
from tests.support.schemas import check
from tests.support.waiting import PATIENCE_S, until

PLAIN = "test:///plain"


@pytest.fixture(name="app")
def memory_app() -> App:
    return application(Memory())


def error(reply: Reply) -> tuple[int, int, Any]:
    """Return status, code and id of an error."""
    return reply.status, reply.json["error"]["code"], reply.json.get("id")


# Modern


def test_a_read_is_answered_as_json_with_its_status(app: App) -> None:
    reply = post(app, modern("resources/read", {"uri": PLAIN}), modern_headers("resources/read", PLAIN))

    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    assert "mcp-session-id" not in reply.headers
    assert check(reply.body, "2026-07-28", "resources/read")["result"]["contents"][0]["text"] == "aé€😀z\n"


@pytest.mark.parametrize("request_id", [7, "seven", "7"])
def test_the_answer_repeats_the_id(app: App, request_id: object) -> None:
    body = modern("resources/list", request_id=request_id)

    assert post(app, body, modern_headers("resources/list")).json["id"] == request_id


HEADERS = modern_headers("resources/read", PLAIN)


@pytest.mark.parametrize(
    "headers",
    [
        {**HEADERS, "mcp-protocol-version": "2025-11-25"},
        {**HEADERS, "mcp-method": "resources/list"},
        {**HEADERS, "mcp-method": "RESOURCES/READ"},
        {**HEADERS, "mcp-name": "test:///pixel"},
        {**HEADERS, "mcp-name": "=?base64?!!!?="},
        {**HEADERS, "mcp-name": "=?base64?/w==?="},
        {name: value for name, value in HEADERS.items() if name != "mcp-protocol-version"},
        {name: value for name, value in HEADERS.items() if name != "mcp-method"},
        {name: value for name, value in HEADERS.items() if name != "mcp-name"},
    ],
)
def test_headers_that_differ_from_the_body_are_refused(app: App, headers: dict[str, str]) -> None:
    assert error(post(app, modern("resources/read", {"uri": PLAIN}, request_id=3), headers)) == (400, -32020, 3)


def test_the_name_of_a_tool_is_compared_too(app: App) -> None:
    body = modern("tools/call", {"name": "echo", "arguments": {}}, request_id=3)

    assert error(post(app, body, modern_headers("tools/call", "count"))) == (400, -32020, 3)
    assert post(app, body, modern_headers("tools/call", "echo")).status == 200


def test_a_session_id_means_nothing_to_the_modern_era(app: App) -> None:
    headers = {**HEADERS, "mcp-session-id": "unknown", "last-event-id": "7"}
    reply = post(app, modern("resources/read", {"uri": PLAIN}), headers)

    assert (reply.status, "mcp-session-id" in reply.headers) == (200, False)


def test_a_header_that_stands_twice_is_refused(app: App) -> None:
    async def send_twice() -> list[Any]:
        sent: list[Any] = []
        headers = [(name.encode(), value.encode()) for name, value in {"host": "localhost", **HEADERS}.items()]
        scope = {"type": "http", "method": "POST", "raw_path": b"/mcp", "path": "/mcp", "query_string": b""}

        async def receive() -> Any:
            return {"type": "http.request", "body": modern("resources/read", {"uri": PLAIN}), "more_body": False}

        async def send(event: Any) -> None:
            sent.append(event)

        await app({**scope, "headers": [*headers, (b"mcp-name", PLAIN.encode())]}, receive, send)
        return sent

    start, body = asyncio.run(send_twice())

    assert (start["status"], json.loads(body["body"])["error"]["code"]) == (400, -32020)


@pytest.mark.parametrize("other", ["2026-07-28", "2025-11-25", "2025-06-18"])
@pytest.mark.parametrize("first", ["2026-07-28", "2025-11-25"])
def test_of_two_versions_none_is_picked(app: App, first: str, other: str) -> None:
    twice = {"mcp-protocol-version": f"{first}\n{other}"}
    new = post(app, modern("resources/read", {"uri": PLAIN}), {**HEADERS, **twice})
    old = post(app, legacy("ping"), {**JSON, **twice})

    assert (new.status, new.json["error"]["code"]) == (400, -32020)
    assert old.status == (200 if first == other == "2025-11-25" else 400)


def test_what_is_accepted_may_stand_on_several_lines(app: App) -> None:
    headers = {**HEADERS, "accept": "application/json\ntext/event-stream"}

    assert post(app, modern("resources/read", {"uri": PLAIN}), headers).status == 200


@pytest.mark.parametrize("uri", ["test:///note/é", "test:///note/ a", "test:///plain", "=?base64?x?="])
def test_a_name_in_base64_is_decoded_before_it_is_compared(app: App, uri: str) -> None:
    spelled = f"=?base64?{b64encode(uri.encode()).decode()}?="

    reply = post(app, modern("resources/read", {"uri": uri}), modern_headers("resources/read", spelled))

    assert reply.status == 200


def test_white_space_around_a_header_is_no_part_of_it(app: App) -> None:
    headers = {**HEADERS, "mcp-name": f"\t {PLAIN}  "}

    assert post(app, modern("resources/read", {"uri": PLAIN}), headers).status == 200


@pytest.mark.parametrize(
    ("body", "headers", "status", "code"),
    [
        (b"{", JSON, 400, -32700),
        (b'{"jsonrpc":"2.0","id":1}', JSON, 400, -32600),
        (b"[]", JSON, 400, -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', JSON, 400, -32600),
        (b"[" * 100_000, JSON, 400, -32700),
        (modern("nobody/knows"), modern_headers("nobody/knows"), 404, -32601),
        (modern("ping"), modern_headers("ping"), 404, -32601),
        (modern("initialize", INITIALIZE), modern_headers("initialize"), 404, -32601),
        (modern("resources/subscribe", {"uri": PLAIN}), modern_headers("resources/subscribe"), 404, -32601),
        (legacy("server/discover"), modern_headers("server/discover"), 400, -32602),
        (legacy("resources/list"), modern_headers("resources/list"), 400, -32602),
        (modern("resources/list", {"_meta": {next(iter(META)): "v999"}}), {**HEADERS}, 400, -32602),
        (modern("resources/read"), modern_headers("resources/read"), 200, -32602),
        (modern("resources/read", {"uri": "test:///no"}), modern_headers("resources/read", "test:///no"), 200, -32602),
        (modern("resources/list", {"cursor": "x"}), modern_headers("resources/list"), 200, -32602),
        (legacy("resources/read", {"uri": "test:///no"}), JSON, 200, -32002),
        (legacy("nobody/knows"), JSON, 200, -32601),
        (legacy("resources/subscribe", {"uri": PLAIN}), JSON, 400, -32600),
    ],
)
def test_each_error_has_its_status(app: App, body: bytes, headers: dict[str, str], status: int, code: int) -> None:
    reply = post(app, body, headers)

    assert (reply.status, reply.json["error"]["code"]) == (status, code)


def test_an_unknown_version_is_answered_with_those_we_have(app: App) -> None:
    meta = {**META, "io.modelcontextprotocol/protocolVersion": "v999.0.0"}
    headers = {**modern_headers("resources/list"), "mcp-protocol-version": "v999.0.0"}

    reply = post(app, modern("resources/list", {"_meta": meta}), headers)

    assert error(reply) == (400, -32022, 1)
    assert reply.json["error"]["data"]["supported"] == ["2026-07-28"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "text/plain"}, 415),
        ({}, 415),
        ({"content-type": "application/json", "accept": "text/html"}, 406),
        ({"content-type": "application/json", "accept": "application/json"}, 406),
        ({"content-type": "application/json; charset=utf-8", "accept": "*/*"}, 200),
        ({"content-type": "application/json"}, 200),
    ],
)
def test_the_form_of_a_post_is_checked(app: App, headers: dict[str, str], status: int) -> None:
    assert post(app, legacy("ping"), headers).status == status


def test_a_body_over_the_bound_is_refused_by_its_length_and_while_it_comes() -> None:
    app = application(Memory(), max_bytes=1000)

    assert post(app, b" " * 1001).status == 413
    assert post(app, b"", {**JSON, "content-length": "1001"}).status == 413
    assert post(app, legacy("ping") + b" " * 500).status == 200


def test_what_wants_no_answer_gets_none(app: App) -> None:
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    response = {"jsonrpc": "2.0", "id": 1, "result": {}}

    assert post(app, json.dumps(note).encode())[::2] == (202, b"")
    assert post(app, json.dumps(response).encode())[::2] == (202, b"")
    assert post(app, json.dumps(response).encode(), modern_headers("x")).status == 400


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_without_a_session_there_is_only_post(app: App, method: str) -> None:
    reply = get(app, "/mcp", {"accept": "text/event-stream"}, method)

    assert (reply.status, reply.headers["allow"]) == (405, "POST")
    assert get(app, "/mcp", {"mcp-protocol-version": "2026-07-28", "mcp-session-id": "x"}, method).status == 405
    assert get(app, "/mcp", {}, "PUT").status == 405


# Work that waits


def test_a_client_that_leaves_has_cancelled() -> None:
    memory = Memory()
    app = application(memory)

    async def talk() -> None:
        body = modern("tools/call", {"name": "wait", "arguments": {}})
        async with asking(app, "POST", "/mcp", modern_headers("tools/call", "wait"), body):
            assert await asyncio.to_thread(memory.waiting.acquire, True, 10)
        assert await asyncio.to_thread(memory.ended.acquire, True, 10)

    run(talk)


def test_a_legacy_client_that_leaves_has_not_cancelled() -> None:
    memory = Memory()
    app = application(memory)

    async def talk() -> None:
        headers = await open_session(app)
        body = legacy("tools/call", {"name": "wait", "arguments": {}}, request_id=9)
        async with asking(app, "POST", "/mcp", headers, body):
            assert await asyncio.to_thread(memory.waiting.acquire, True, PATIENCE_S)
        assert (await ask(app, "POST", "/mcp", headers, legacy("ping"))).status == 200
        assert not memory.ended.acquire(blocking=False)
        note = legacy("notifications/cancelled", {"requestId": 9}, request_id=None)
        assert (await ask(app, "POST", "/mcp", headers, note)).status == 202
        assert await asyncio.to_thread(memory.ended.acquire, True, PATIENCE_S)
        app.end()

    run(talk)


def test_equal_ids_of_different_clients_never_cross() -> None:
    gated = Gated()
    app = application(gated)

    async def talk() -> None:
        async def one(number: int) -> str:
            uri = f"gated:///gate/{number}"
            headers = modern_headers("resources/read", uri)
            reply = await ask(app, "POST", "/mcp", headers, modern("resources/read", {"uri": uri}, request_id="same"))
            assert reply.json["id"] == "same"
            return str(reply.json["result"]["contents"][0]["text"])

        asked = [asyncio.ensure_future(one(number)) for number in range(8)]
        for _ in asked:
            assert await asyncio.to_thread(gated.arrived.acquire, True, 10)
        gated.open_gate()
        assert await asyncio.gather(*asked) == [f"through gate/{number}" for number in range(8)]

    run(talk)


def test_a_request_past_its_time_is_answered_so() -> None:
    gated = Gated()
    app = application(gated, deadline_s=0.05)
    uri = "gated:///gate/1"

    reply = post(app, modern("resources/read", {"uri": uri}), modern_headers("resources/read", uri))
    gated.open_gate()

    assert (reply.status, reply.json["error"]["data"]["dev.carrel/error"]) == (200, "timeout")


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_progress_comes_on_a_stream_before_the_answer(app: App, era: str) -> None:
    async def talk() -> None:
        params = {"name": "count", "arguments": {"to": 2}, "_meta": {"progressToken": "p"}}
        if era == "modern":
            params["_meta"] = {**META, "progressToken": "p"}
            body, headers = modern("tools/call", params), modern_headers("tools/call", "count")
        else:
            body, headers = legacy("tools/call", params), JSON
        async with asking(app, "POST", "/mcp", headers, body) as exchange:
            told = [await exchange.message() for _ in range(3)]
            assert await exchange.message() is None
        assert exchange.headers["content-type"] == "text/event-stream"
        assert exchange.headers["x-accel-buffering"] == "no"
        assert [one["params"]["progress"] for one in told[:2]] == [1, 2]
        assert told[2]["result"]["content"][0]["text"] == "Counted to 2"

    run(talk)


class Mixed(Shelf):
    """Returns reads of `slow` unread; remembers which reads were made on the event loop."""

    speed = "mixed"

    def __init__(self) -> None:
        super().__init__("mixed", {"quick": "quick text", "slow": "slow text"})
        self.is_on_loop: dict[str, bool] = {}

    def routes(self) -> tuple[Route, ...]:
        return tuple(replace(route, reader=self.begin_read) for route in super().routes())

    def begin_read(self, path: str) -> Reading | Text | Unread:
        return Unread(partial(self.read, path)) if path == "slow" else self.read(path)

    def read(self, path: str) -> Reading | Text:
        self.is_on_loop[path] = threading.current_thread() is threading.main_thread()
        return super().read(path)


async def read_mixed(app: App, way: str, path: str) -> Reply:
    uri = f"mixed:///{path}"
    old = legacy("resources/read", {"uri": uri, "_meta": {"progressToken": 1}})
    match way:
        case "plain":
            return await ask(app, "GET", f"/mixed/{path}")
        case "batch":
            return await ask(app, "POST", "/mcp", await open_batch_session(app), batch_of(old))
        case "progress":
            return await ask(app, "POST", "/mcp", JSON, old)
        case _:
            headers = modern_headers("resources/read", uri)
            return await ask(app, "POST", "/mcp", headers, modern("resources/read", {"uri": uri}))


@pytest.mark.parametrize("way", ["plain", "batch", "progress", "modern"])
def test_only_an_unread_resource_leaves_the_event_loop(way: str) -> None:
    mixed = Mixed()
    app = application(mixed)

    async def talk() -> None:
        for path in ("quick", "slow"):
            reply = await read_mixed(app, way, path)
            assert reply.status == 200
            assert f"{path} text".encode() in reply.body
        app.end()

    run(talk)
    # The reads of a batch share one answer, and one thread.
    assert mixed.is_on_loop == {"quick": way != "batch", "slow": False}


class Unmarked(Counted):
    """Does not say that it is quick; remembers which calls were made on the event loop."""

    def __init__(self) -> None:
        super().__init__("plain", {"a": "text"})
        self.is_on_loop: dict[str, bool] = {}

    def _note(self, what: str) -> None:
        is_on_loop = threading.current_thread() is threading.main_thread()
        self.is_on_loop[what] = self.is_on_loop.get(what, False) or is_on_loop

    def read(self, path: str) -> Reading | Text:
        self._note("read")
        return super().read(path)

    def entries(self, after: str = "") -> Iterator[Resource]:
        self._note("entries")
        return super().entries(after)

    def instructions(self) -> str:
        self._note("instructions")
        return "Read me."

    def complete(self, template: str, variable: str, value: str, context: Mapping[str, str]) -> Sequence[str]:
        self._note("complete")
        return ("a",)

    def fingerprint(self, uri: str) -> str | None:
        self._note("fingerprint")
        return super().fingerprint(uri)

    def tools(self) -> Sequence[Tool]:
        self._note("tools")
        return ()

    def call(self, name: str, arguments: Mapping[str, object], call: Call) -> ToolResult:
        raise NotImplementedError


def test_a_provider_that_does_not_say_that_it_is_quick_is_never_called_on_the_event_loop() -> None:
    plain = Unmarked()
    app = application(plain)

    async def talk() -> None:
        reply = await ask(app, "POST", "/mcp", JSON, legacy("initialize", INITIALIZE))
        assert reply.json["result"]["instructions"] == "Read me."
        session = {**JSON, "Mcp-Session-Id": reply.headers["mcp-session-id"]}
        completed = {
            "ref": {"type": "ref/resource", "uri": "plain:///{+path}"},
            "argument": {"name": "path", "value": ""},
        }
        for method, params in (
            ("resources/read", {"uri": "plain:///a"}),
            ("resources/list", {}),
            ("resources/templates/list", {}),
            ("resources/subscribe", {"uri": "plain:///a"}),
            ("resources/unsubscribe", {"uri": "plain:///a"}),
            ("completion/complete", completed),
            ("tools/list", {}),
        ):
            reply = await ask(app, "POST", "/mcp", session, legacy(method, params))
            assert "result" in reply.json, (method, reply.body)
        headers = modern_headers("server/discover")
        assert (await ask(app, "POST", "/mcp", headers, modern("server/discover"))).status == 200
        assert (await ask(app, "GET", "/plain/a")).body == b"text"
        app.end()

    run(talk)
    assert plain.is_on_loop == dict.fromkeys(
        ("read", "entries", "instructions", "complete", "fingerprint", "tools"), False
    )


# Listening


def test_a_subscription_is_acknowledged_tells_and_ends_with_its_result() -> None:
    shelf = Eventful("e", {"a": "1", "b": "1"})
    app = application(shelf)

    async def talk() -> None:
        wanted = {"resourceSubscriptions": ["e:///a", "nobody:///x"], "resourcesListChanged": True}
        body = modern("subscriptions/listen", {"notifications": wanted}, request_id="s1")
        async with asking(app, "POST", "/mcp", modern_headers("subscriptions/listen"), body) as exchange:
            key = {"io.modelcontextprotocol/subscriptionId": "s1"}
            first = await exchange.message()
            assert first["method"] == "notifications/subscriptions/acknowledged"
            honoured = {"resourceSubscriptions": ["e:///a"], "resourcesListChanged": True}
            assert first["params"] == {"notifications": honoured, "_meta": key}
            await asyncio.to_thread(shelf.watched.acquire, True, 10)
            shelf.put("b", "2")
            shelf.put("a", "2")
            second = await exchange.message()
            assert (second["method"], second["params"]) == (
                "notifications/resources/updated",
                {"uri": "e:///a", "_meta": key},
            )
            app.end()
            last = await exchange.message()
            assert (last["id"], last["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"]) == ("s1", "s1")
            assert await exchange.message() is None

    run(talk)


def test_a_client_that_leaves_is_no_longer_listened_for() -> None:
    shelf = Eventful("e", {"a": "1"})
    app = application(shelf)

    async def talk() -> None:
        body = modern("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["e:///a"]}})
        async with asking(app, "POST", "/mcp", modern_headers("subscriptions/listen"), body) as exchange:
            await exchange.message()
            assert app.threads.open_streams == 1
            assert await asyncio.to_thread(shelf.watched.acquire, True, PATIENCE_S)
        assert await asyncio.to_thread(shelf.left.acquire, True, PATIENCE_S)
        assert await asyncio.to_thread(until, lambda: app.threads.open_streams == 0)

    run(talk)


# Sessions


async def open_session(app: App) -> dict[str, str]:
    """Shake hands; return the headers of the session."""
    reply = await ask(app, "POST", "/mcp", JSON, legacy("initialize", INITIALIZE))
    assert reply.status == 200
    headers = {**JSON, "mcp-session-id": reply.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
    done = await ask(app, "POST", "/mcp", headers, legacy("notifications/initialized", request_id=None))
    assert done.status == 202
    return headers


async def open_batch_session(app: App) -> dict[str, str]:
    """Shake hands in the one version that has batches."""
    old = legacy("initialize", {**INITIALIZE, "protocolVersion": "2025-03-26"})
    reply = await ask(app, "POST", "/mcp", JSON, old)
    return {**JSON, "mcp-session-id": reply.headers["mcp-session-id"]}


def batch_of(*messages: bytes) -> bytes:
    return b"[" + b",".join(messages) + b"]"


def test_a_batch_of_notifications_is_taken() -> None:
    app = application(Gated())

    async def talk() -> None:
        headers = await open_batch_session(app)
        told = legacy("notifications/initialized", request_id=None)
        assert (await ask(app, "POST", "/mcp", headers, batch_of(told))).status == 202
        app.end()

    run(talk)


def test_a_request_that_is_cancelled_in_a_batch_ends_its_post() -> None:
    gated = Gated()
    app = application(gated)

    async def talk() -> None:
        headers = await open_batch_session(app)
        read = legacy("resources/read", {"uri": "gated:///gate/1"}, request_id=9)
        async with asking(app, "POST", "/mcp", headers, read) as exchange:
            assert await asyncio.to_thread(gated.arrived.acquire, timeout=PATIENCE_S)
            told = legacy("notifications/cancelled", {"requestId": 9}, request_id=None)
            assert (await ask(app, "POST", "/mcp", headers, batch_of(told))).status == 202
            assert await exchange.message() is None
        gated.open_gate()
        app.end()

    run(talk)


def test_a_session_is_notified_on_its_get_stream_until_it_is_deleted() -> None:
    shelf = Eventful("e", {"a": "1"})
    app = application(shelf)

    async def talk() -> None:
        headers = await open_session(app)
        assert len(bytes.fromhex(headers["mcp-session-id"])) == 16
        async with asking(app, "GET", "/mcp", headers) as stream:
            done = await ask(app, "POST", "/mcp", headers, legacy("resources/subscribe", {"uri": "e:///a"}))
            assert done.json["result"] == {}
            await asyncio.to_thread(shelf.watched.acquire, True, 10)
            shelf.put("a", "2")
            told = await stream.message()
            assert (told["method"], told["params"]) == ("notifications/resources/updated", {"uri": "e:///a"})
            assert (await ask(app, "DELETE", "/mcp", headers)).status == 204
            assert await stream.message() is None
        assert (await ask(app, "POST", "/mcp", headers, legacy("ping"))).status == 404
        assert (await ask(app, "GET", "/mcp", headers)).status == 404
        assert (await ask(app, "DELETE", "/mcp", headers)).status == 404
        app.end()

    run(talk)


def test_a_later_get_stream_takes_over(app: App) -> None:
    async def talk() -> None:
        headers = await open_session(app)
        async with asking(app, "GET", "/mcp", headers) as first:
            await first.parts.get()
            async with asking(app, "GET", "/mcp", headers) as second:
                await second.parts.get()
                assert await first.message() is None
                app.end()
                assert await second.message() is None

    run(talk)


def test_sessions_end_when_idle_and_the_longest_idle_goes_first() -> None:
    app = application(Memory())
    app.sessions._limit = 2

    async def talk() -> None:
        first, second, third = [await open_session(app) for _ in range(3)]
        assert (await ask(app, "POST", "/mcp", first, legacy("ping"))).status == 404
        assert (await ask(app, "POST", "/mcp", second, legacy("ping"))).status == 200
        app.sessions._idle_s = -1.0
        assert (await ask(app, "POST", "/mcp", third, legacy("ping"))).status == 404
        assert len(app.sessions) == 0

    run(talk)


def test_a_client_pushes_out_only_its_own_sessions() -> None:
    server = Server(Catalog([Memory()]))

    def session_of(owner: str) -> LegacySession:
        return LegacySession(Access(owner), server.connect(lambda _: None), Outbox(), "2025-11-25")

    async def talk() -> None:
        ended: list[LegacySession] = []
        sessions = Sessions(ended.append, limit=10, limit_each=2)
        quiet = session_of("quiet")
        greedy = [session_of("greedy") for _ in range(5)]
        for session in (quiet, *greedy):
            sessions.add(session)
        assert sessions.find(quiet.id, Access("quiet")) is quiet
        assert [sessions.find(one.id, Access("greedy")) is one for one in greedy] == [False, False, False, True, True]
        sessions.end(greedy[-1])
        sessions.add(session_of("greedy"))
        assert sessions.find(greedy[3].id, Access("greedy")) is greedy[3]
        sessions.close()
        assert len(sessions) == 0
        assert ended[:5] == [*greedy[:3], greedy[4], quiet]

    run(talk)


@pytest.mark.parametrize("version", ["1999-01-01", "2025-11-26", "x", ""])
def test_a_legacy_version_that_we_do_not_have_is_refused_with_and_without_a_session(app: App, version: str) -> None:
    async def talk() -> None:
        opened = await open_session(app)
        for headers in (JSON, opened):
            reply = await ask(app, "POST", "/mcp", {**headers, "mcp-protocol-version": version}, legacy("ping"))
            assert reply.status == 400
        assert (await ask(app, "POST", "/mcp", opened, legacy("ping"))).status == 200
        app.end()

    run(talk)


def test_a_batch_is_answered_only_where_it_was_agreed_on(app: App) -> None:
    async def talk() -> None:
        batch = batch_of(legacy("ping"), legacy("ping", request_id=2))
        headers = await open_batch_session(app)
        assert [one["id"] for one in (await ask(app, "POST", "/mcp", headers, batch)).json] == [1, 2]
        assert (await ask(app, "POST", "/mcp", await open_session(app), batch)).status == 400
        app.end()

    run(talk)


def test_a_legacy_client_cancels_with_a_message() -> None:
    memory = Memory()
    app = application(memory)

    async def talk() -> None:
        headers = await open_session(app)
        body = legacy("tools/call", {"name": "wait", "arguments": {}}, request_id=9)
        async with asking(app, "POST", "/mcp", headers, body) as exchange:
            assert await asyncio.to_thread(memory.waiting.acquire, True, 10)
            note = legacy("notifications/cancelled", {"requestId": 9}, request_id=None)
            assert (await ask(app, "POST", "/mcp", headers, note)).status == 202
            assert await exchange.message() is None
            assert (exchange.status, exchange.headers["content-type"]) == (200, "text/event-stream")
            assert await asyncio.to_thread(memory.ended.acquire, True, 10)
        app.end()

    run(talk)


def test_a_cancelled_request_ends_before_its_work_which_still_counts() -> None:
    gated = Gated()
    app = application(gated)

    async def talk() -> None:
        headers = await open_session(app)
        body = legacy("resources/read", {"uri": "gated:///gate/1"}, request_id=9)
        async with asking(app, "POST", "/mcp", headers, body) as exchange:
            assert await asyncio.to_thread(gated.arrived.acquire, True, 10)
            for other in (8, "9", None):
                note = legacy("notifications/cancelled", {"requestId": other}, request_id=None)
                assert (await ask(app, "POST", "/mcp", headers, note)).status == 202
            assert exchange.status == 0
            note = legacy("notifications/cancelled", {"requestId": 9}, request_id=None)
            assert (await ask(app, "POST", "/mcp", headers, note)).status == 202
            assert await exchange.message() is None
        assert app.threads._waiting.taken == 1
        gated.open_gate()
        await asyncio.to_thread(until, lambda: app.threads._waiting.taken == 0)
        app.end()

    run(talk)


class Talking(Memory):
    """Has a tool that tells how far it is and then, whatever happens, is waited for until `let_go`."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = threading.Event()

    def call(self, name: str, arguments: Mapping[str, object], call: Call) -> ToolResult:
        call.progress(1)
        self.let_go.wait(PATIENCE_S)
        return ToolResult(("too late",))


def test_a_cancelled_request_ends_the_stream_of_its_progress() -> None:
    talking = Talking()
    app = application(talking)

    async def talk() -> None:
        headers = await open_session(app)
        body = legacy("tools/call", {"name": "count", "_meta": {"progressToken": "p"}}, request_id=9)
        async with asking(app, "POST", "/mcp", headers, body) as exchange:
            assert (await exchange.message())["params"]["progress"] == 1
            note = legacy("notifications/cancelled", {"requestId": 9}, request_id=None)
            assert (await ask(app, "POST", "/mcp", headers, note)).status == 202
            assert await exchange.message() is None
        talking.let_go.set()
        app.end()

    run(talk)


def test_a_batch_ends_when_all_of_its_requests_are_cancelled() -> None:
    gated = Gated()
    app = application(gated)

    async def talk() -> None:
        headers = await open_batch_session(app)
        batch = batch_of(*(legacy("resources/read", {"uri": "gated:///gate/1"}, request_id=one) for one in ("a", 2)))
        async with asking(app, "POST", "/mcp", headers, batch) as exchange:
            assert await asyncio.to_thread(gated.arrived.acquire, True, 10)
            for cancelled in ("a", 2):
                assert exchange.status == 0
                note = legacy("notifications/cancelled", {"requestId": cancelled}, request_id=None)
                assert (await ask(app, "POST", "/mcp", headers, note)).status == 202
            assert await exchange.message() is None
        gated.open_gate()
        app.end()

    run(talk)


@pytest.mark.parametrize("ending", ["Server is stopping", "Session ended"])
def test_each_request_of_a_batch_that_waits_at_the_end_is_reported(ending: str) -> None:
    gated = Gated()
    app = application(gated)

    async def talk() -> None:
        headers = await open_batch_session(app)
        read = legacy("resources/read", {"uri": "gated:///gate/1"}, request_id="a")
        note = legacy("notifications/initialized", request_id=None)
        batch = batch_of(read, note, legacy("ping", request_id=2), b'{"jsonrpc":"2.0","id":1,"result":{}}', b"7")
        async with asking(app, "POST", "/mcp", headers, batch) as exchange:
            assert await asyncio.to_thread(gated.arrived.acquire, True, 10)
            app.end() if ending == "Server is stopping" else await ask(app, "DELETE", "/mcp", headers)
            told = json.loads(await exchange.body())
        assert exchange.status == 200
        assert [(one["id"], one["error"]["message"]) for one in told] == [("a", ending), (2, ending)]
        gated.open_gate()

    run(talk)


def test_session_ids_are_128_random_bits() -> None:
    async def ids() -> list[str]:
        connect = Server(Catalog([Memory()])).connect
        return [LegacySession(Access("x"), connect(lambda _: None), Outbox(), "2025-11-25").id for _ in range(200)]

    made = asyncio.run(ids())
    numbers = [int(one, 16) for one in made]

    assert {len(one) for one in made} == {32}
    assert len(set(made)) == len(made)
    # A bit that is the same in all of them is not random: with 200 ids that happens once in 2 ** 192 times.
    assert all({number >> bit & 1 for number in numbers} == {0, 1} for bit in range(128))
