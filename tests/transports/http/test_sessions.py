"""What outlives a request: sessions, streams and work belong to the caller who opened them, while it may connect."""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager

import pytest

from carrel.catalog.access import Access
from carrel.core.limits import MAX_BATCH, WORKER_THREADS
from carrel.core.model import Tool, ToolResult
from carrel.core.provider import Call
from carrel.transports.http.app import App
from carrel.transports.http.guard import AcceptedNames, Guard
from carrel.transports.http.threads import Places, _ThreadCall
from tests.support.http_asking import (
    INITIALIZE,
    JSON,
    META,
    Exchange,
    application,
    ask,
    asking,
    legacy,
    modern,
    modern_headers,
    run,
)
from tests.support.memory_provider import Eventful, Gated, Memory
from tests.support.waiting import PATIENCE_S, has_thread, until


class Keys:
    """Tokens that may be changed."""

    def __init__(self, **known: Access) -> None:
        self.known = known

    def find(self, token: str) -> Access | None:
        return self.known.get(token)


def guarded(*providers: Memory | Eventful | Gated, keys: Keys) -> App:
    return application(*providers, guard=Guard(AcceptedNames(is_loopback=True), keys))


def bearing(token: str, headers: dict[str, str] = JSON) -> dict[str, str]:
    return {**headers, "authorization": f"Bearer {token}"}


async def open_session(app: App, headers: dict[str, str] = JSON, version: str = "2025-11-25") -> dict[str, str]:
    opening = legacy("initialize", {**INITIALIZE, "protocolVersion": version})
    reply = await ask(app, "POST", "/mcp", headers, opening)
    return {**headers, "mcp-session-id": reply.headers["mcp-session-id"]}


async def arrived(gated: Gated, count: int = 1) -> None:
    for _ in range(count):
        assert await asyncio.to_thread(gated.arrived.acquire, timeout=PATIENCE_S)


# Rights


def test_a_session_is_only_for_the_rights_it_was_opened_with() -> None:
    keys = Keys(one=Access("one"))
    app = guarded(Memory(), keys=keys)

    async def talk() -> None:
        session = await open_session(app, bearing("one"))
        keys.known["one"] = Access("one", expires_at=1e12)
        assert (await ask(app, "POST", "/mcp", session, legacy("ping"))).status == 200
        keys.known["one"] = Access("one", frozenset(["other:read"]))
        for method in ("POST", "GET", "DELETE"):
            assert (await ask(app, method, "/mcp", session, legacy("ping"))).status == 404
        app.end()

    run(talk)


def test_a_listener_whose_token_was_taken_back_is_told_nothing_more() -> None:
    keys, shelf = Keys(one=Access("one")), Eventful("e", {"a": "1"})
    app = guarded(shelf, keys=keys)

    async def talk() -> None:
        body = modern("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["e:///a"]}})
        headers = bearing("one", modern_headers("subscriptions/listen"))
        async with asking(app, "POST", "/mcp", headers, body) as stream:
            assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
            assert await asyncio.to_thread(shelf.watched.acquire, timeout=PATIENCE_S)
            del keys.known["one"]
            shelf.put("a", "2")
            assert await stream.message() is None

    run(talk)


def test_a_session_whose_token_was_taken_back_is_told_nothing_more() -> None:
    keys, shelf = Keys(one=Access("one")), Eventful("e", {"a": "1"})
    app = guarded(shelf, keys=keys)

    async def talk() -> None:
        session = await open_session(app, bearing("one"))
        async with asking(app, "GET", "/mcp", session) as stream:
            await ask(app, "POST", "/mcp", session, legacy("resources/subscribe", {"uri": "e:///a"}))
            assert await asyncio.to_thread(shelf.watched.acquire, timeout=PATIENCE_S)
            del keys.known["one"]
            shelf.put("a", "2")
            assert await stream.message() is None
        app.end()

    run(talk)


# Batches


class Telling(Gated):
    """Has a tool that tells something, then waits at the gate."""

    def tools(self) -> Sequence[Tool]:
        return (Tool("tell", "Tells.", {"type": "object", "properties": {}}),)

    def call(self, name: str, arguments: Mapping[str, object], call: Call) -> ToolResult:
        call.progress(1)
        self.read("gate/1")
        return ToolResult(("the result",))


@pytest.mark.parametrize("is_taken_back", [False, True])
def test_a_caller_whose_token_was_taken_back_is_not_told_the_result(is_taken_back: bool) -> None:
    telling, keys = Telling(), Keys(one=Access("one"))
    app = guarded(telling, keys=keys)

    async def talk() -> None:
        params = {"name": "tell", "arguments": {}, "_meta": {**META, "progressToken": "p"}}
        headers = bearing("one", modern_headers("tools/call", "tell"))
        async with asking(app, "POST", "/mcp", headers, modern("tools/call", params)) as exchange:
            assert (await exchange.message())["params"]["progress"] == 1
            if is_taken_back:
                keys.known.clear()
            telling.open_gate()
            last = await exchange.message()
        assert last is None if is_taken_back else last["result"]["content"][0]["text"] == "the result"

    run(talk)


def test_a_batch_holds_no_request_that_needs_headers_or_agrees_on_a_version() -> None:
    app = application(Memory())

    async def talk() -> None:
        session = await open_session(app, version="2025-03-26")
        listen = modern("subscriptions/listen", {"notifications": {"resourcesListChanged": True}}, request_id=1)
        again = legacy("initialize", INITIALIZE, request_id=2)
        fine = legacy("ping", request_id=3)
        reply = await ask(app, "POST", "/mcp", session, b"[" + b",".join((listen, again, fine)) + b"]")
        codes = {one["id"]: one.get("error", {}).get("code") for one in reply.json}
        assert (reply.status, codes) == (200, {1: -32600, 2: -32600, 3: None})
        for wrong in (b"[]", b"[" + b",".join([fine] * (MAX_BATCH + 1)) + b"]"):
            refused = await ask(app, "POST", "/mcp", session, wrong)
            assert (refused.status, refused.json["error"]["code"]) == (400, -32600)
        app.end()

    run(talk)


# Work


def test_work_of_a_client_that_left_still_counts_as_its_own() -> None:
    gated = Gated()
    app = guarded(gated, keys=Keys(one=Access("one"), other=Access("other")))
    app.threads._waiting = Places(2)

    async def talk() -> None:
        for number in range(2):
            body = legacy("resources/read", {"uri": f"gated:///gate/{number}"})
            async with asking(app, "POST", "/mcp", bearing("one"), body):
                await arrived(gated)
        third = legacy("resources/read", {"uri": "gated:///gate/3"})
        refused = await ask(app, "POST", "/mcp", bearing("one"), third)
        assert refused.json["error"]["data"]["dev.carrel/error"] == "busy"
        others = asyncio.ensure_future(ask(app, "POST", "/mcp", bearing("other"), third))
        await arrived(gated)
        gated.open_gate()
        assert (await others).json["result"]["contents"][0]["text"] == "through gate/3"

    run(talk)


def test_work_of_a_client_that_left_before_it_began_makes_room() -> None:
    gated, shelf = Gated(), Gated("other", {"a": "text"})
    app = guarded(gated, shelf, keys=Keys(one=Access("one")))
    app.threads._waiting = Places(WORKER_THREADS + 1)

    async def talk() -> None:
        def reading(number: int) -> AbstractAsyncContextManager[Exchange]:
            uri = f"gated:///gate/{number}"
            headers = bearing("one", modern_headers("resources/read", uri))
            return asking(app, "POST", "/mcp", headers, modern("resources/read", {"uri": uri}))

        for number in range(WORKER_THREADS):
            async with reading(number):
                await arrived(gated)
        async with reading(WORKER_THREADS):
            await asyncio.to_thread(until, lambda: app.threads._waiting.taken > WORKER_THREADS)
        await asyncio.to_thread(until, lambda: not has_thread("carrel-background"))
        text = legacy("resources/read", {"uri": "other:///a"})
        reply = await ask(app, "POST", "/mcp", bearing("one"), text)
        assert reply.json["result"]["contents"][0]["text"] == "text"
        gated.open_gate()

    run(talk)


def test_what_a_function_gave_as_its_time_ran_out_is_given_or_discarded_never_both() -> None:
    async def talk() -> None:
        discarded: list[str] = []
        errand = _ThreadCall(Access("one"), lambda: "reading", discarded.append, lambda: False)
        errand.run()
        errand.settle(None)
        errand.settle(None)
        assert await errand.future == "reading"
        await asyncio.sleep(0)
        assert discarded == []

    run(talk)


def test_who_waits_when_the_server_stops_is_told_at_once() -> None:
    gated = Gated()
    app = application(gated)

    async def talk() -> None:
        uri = "gated:///gate/1"
        read = {"uri": uri}
        asked = [
            ask(app, "POST", "/mcp", modern_headers("resources/read", uri), modern("resources/read", read)),
            ask(app, "POST", "/mcp", await open_session(app), legacy("resources/read", read)),
            ask(app, "GET", "/gated/gate/1"),
        ]
        waiting = [asyncio.ensure_future(one) for one in asked]
        await arrived(gated, 3)
        app.end()
        new, old, plain = await asyncio.gather(*waiting)
        for reply in (new, old):
            assert reply.json["error"]["message"] == "Server is stopping"
            assert (reply.json["id"], reply.json["error"]["data"]["dev.carrel/error"]) == (1, "unavailable")
        assert (plain.status, plain.json) == (503, {"error": "Server is stopping"})
        gated.open_gate()

    run(talk)


class Stubborn(Memory):
    """Has a tool that, once it is to stop, is waited for until `let_go`."""

    def __init__(self) -> None:
        super().__init__()
        self.is_stopped = threading.Event()
        self.let_go = threading.Event()

    def call(self, name: str, arguments: Mapping[str, object], call: Call) -> ToolResult:
        def stop() -> None:
            self.is_stopped.set()
            self.let_go.wait(PATIENCE_S)

        call.on_cancel(stop)
        self.waiting.release()
        self.is_stopped.wait(PATIENCE_S)
        return ToolResult(("too late",))


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_tool_that_is_slow_to_stop_delays_no_answer(era: str) -> None:
    stubborn = Stubborn()
    app = application(stubborn)

    async def talk() -> None:
        params = {"name": "wait", "arguments": {}}
        if era == "modern":
            headers, body = modern_headers("tools/call", "wait"), modern("tools/call", params)
        else:
            headers, body = await open_session(app), legacy("tools/call", params)
        asked = asyncio.ensure_future(ask(app, "POST", "/mcp", headers, body))
        assert await asyncio.to_thread(stubborn.waiting.acquire, True, PATIENCE_S)
        app.end()
        reply = await asked
        assert (reply.status, reply.json["error"]["message"]) == (200, "Server is stopping")
        assert not stubborn.let_go.is_set()
        assert await asyncio.to_thread(stubborn.is_stopped.wait, PATIENCE_S)
        stubborn.let_go.set()

    run(talk)


@pytest.mark.parametrize("way", ["tool", "resource"])
def test_who_waits_in_a_session_that_ends_is_told_at_once(way: str) -> None:
    gated, stubborn = Gated(), Stubborn()
    app = application(gated, stubborn)
    calls = {
        "tool": legacy("tools/call", {"name": "wait", "arguments": {}}),
        "resource": legacy("resources/read", {"uri": "gated:///gate/1"}),
    }

    async def talk() -> None:
        headers = await open_session(app)
        asked = asyncio.ensure_future(ask(app, "POST", "/mcp", headers, calls[way]))
        await (arrived(gated) if way == "resource" else asyncio.to_thread(stubborn.waiting.acquire, True, PATIENCE_S))
        assert (await ask(app, "DELETE", "/mcp", headers)).status == 204
        reply = await asked
        assert (reply.status, reply.json["id"], reply.json["error"]["message"]) == (200, 1, "Session ended")
        gated.open_gate()
        stubborn.let_go.set()
        app.end()

    run(talk)
