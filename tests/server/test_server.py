"""One conversation with a server: eras, batches, ids, cancelling, progress, subscriptions, faults."""

import json
import logging
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from carrel.catalog.catalog import Catalog
from carrel.catalog.watcher import Watcher
from carrel.core.limits import MAX_BATCH, MAX_SUBSCRIBED_URIS
from carrel.core.model import Reading, Resource, Text, Tool, ToolResult
from carrel.core.provider import Provider, Route
from carrel.protocol.framing import OverLong
from carrel.server.requests import Work
from carrel.server.server import Server
from tests.support.memory_provider import SAMPLE, Counted, Eventful, Gated, Memory, Shelf
from tests.support.schemas import LEGACY, MODERN, SERVER_INFO, Conversation, check, parse
from tests.support.waiting import PATIENCE_S, until

POLL_S = 0.005
ETAG = "d8e767a386712d6b"
"""Of the sample; it must not change between releases, since clients keep it."""


def serve(*providers: Provider, max_bytes: int = 2_097_152, page_size: int = 1_000) -> Server:
    catalog = Catalog(providers, page_size=page_size, max_bytes=max_bytes)
    return Server(catalog, Watcher(catalog, POLL_S))


@pytest.fixture
def client() -> Iterator[Conversation]:
    conversation = Conversation(serve(Memory()))
    yield conversation
    conversation.close()


def talk(*providers: Provider, **how: int) -> Conversation:
    return Conversation(serve(*providers, **how))


# Whole answers


def test_a_read_is_spelled_as_its_era_wants(client: Conversation) -> None:
    contents = [{"uri": "TEST:///plain", "mimeType": "text/plain", "text": SAMPLE, "_meta": {"dev.carrel/etag": ETAG}}]

    assert client.ask("resources/read", {"uri": "TEST:///plain"}, version=LEGACY) == {"contents": contents}
    assert client.ask("resources/read", {"uri": "TEST:///plain"}) == {
        "contents": contents,
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": SERVER_INFO,
    }


def test_a_read_says_what_its_provider_knows(client: Conversation) -> None:
    assert client.ask("resources/read", {"uri": "test:///a-guide"}) == {
        "contents": [
            {
                "uri": "test:///a-guide",
                "mimeType": "text/markdown",
                "text": "# Guide\n",
                "_meta": {"dev.carrel/etag": "g1", "dev.carrel/last-modified": "2026-07-14T12:00:00Z"},
            }
        ],
        "resultType": "complete",
        "ttlMs": 5_000,
        "cacheScope": "private",
        "_meta": SERVER_INFO,
    }


def test_an_unchanged_read_is_empty_and_must_not_be_kept(client: Conversation) -> None:
    params = {"uri": "test:///a-guide", "_meta": {"dev.carrel/if-none-match": 'W/"x", "g1"'}}
    item = {
        "uri": "test:///a-guide",
        "mimeType": "text/markdown",
        "text": "",
        "_meta": {
            "dev.carrel/etag": "g1",
            "dev.carrel/last-modified": "2026-07-14T12:00:00Z",
            "dev.carrel/status": 304,
        },
    }

    assert client.ask("resources/read", params, version=LEGACY) == {"contents": [item]}
    assert client.ask("resources/read", params) == {
        "contents": [item],
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": SERVER_INFO,
    }


def test_a_blob_is_base64(client: Conversation) -> None:
    [item] = client.ask("resources/read", {"uri": "test:///pixel"})["contents"]

    assert (item["mimeType"], item["blob"]) == ("image/png", "iVBORw0KGgoAAAANSUhEUg==")


def test_several_contents_have_their_etag_on_the_result(client: Conversation) -> None:
    given = client.ask("resources/read", {"uri": "test:///tree/"}, version=LEGACY)

    assert given["contents"] == [
        {"uri": "test:///tree/one", "mimeType": "text/plain", "text": "", "_meta": {"n": "one"}},
        {"uri": "test:///tree/two", "mimeType": "text/plain", "text": "", "_meta": {"n": "two"}},
    ]
    assert (len(given["_meta"]["dev.carrel/etag"]), given["_meta"]["more"]) == (16, 0)


def test_an_error_that_is_content_says_so_on_result_and_item(client: Conversation) -> None:
    given = client.ask("resources/read", {"uri": "test:///error/content"}, version=LEGACY)

    assert given == {
        "contents": [
            {
                "uri": "test:///error/content",
                "mimeType": "text/plain",
                "text": "No such note; try 000",
                "_meta": {"dev.carrel/error": "not_found"},
            }
        ],
        "_meta": {"dev.carrel/error": "not_found"},
    }


@pytest.mark.parametrize(
    "params",
    [
        {"uri": "test:///plain?start=2&length=2"},
        {"uri": "test:///plain", "start": 2, "length": 2},
        {"uri": "test:///part/1?start=2&length=2"},
        {"uri": "test:///part/1", "start": 2, "length": 2},
    ],
)
def test_a_part_is_asked_for_in_the_query_or_beside_the_uri(client: Conversation, params: dict[str, Any]) -> None:
    [item] = client.ask("resources/read", params)["contents"]
    bare = params["uri"].partition("?")[0]
    meta = {name.removeprefix("dev.carrel/"): value for name, value in item["_meta"].items()}

    assert (item["uri"], item["text"]) == (params["uri"], "€")
    assert (meta["total"], meta["start"], meta["length"]) == (12, 3, 3)
    assert meta["next"] == f"{bare}?start=6&length=2"


def test_a_range_both_ways_is_invalid(client: Conversation) -> None:
    error = client.ask("resources/read", {"uri": "test:///plain?start=2", "start": 2})

    assert (error["code"], error["data"]["parameter"]) == (-32602, "start")


def test_a_list_is_spelled_as_its_era_wants(client: Conversation) -> None:
    shelf = talk(Shelf("a", {"1": ""}))

    assert shelf.ask("resources/list", version=LEGACY) == {"resources": [{"uri": "a:///1", "name": "a:///1"}]}
    assert shelf.ask("resources/list", {"cursor": ""}) == {
        "resources": [{"uri": "a:///1", "name": "a:///1"}],
        "resultType": "complete",
        "ttlMs": 1_000,
        "cacheScope": "private",
        "_meta": SERVER_INFO,
    }
    entries = {entry["uri"]: entry for entry in client.ask("resources/list")["resources"]}
    assert entries["test:///note/007"] == {
        "uri": "test:///note/007",
        "name": "007",
        "title": "Note 007",
        "description": "A note",
        "mimeType": "text/plain",
        "annotations": {
            "audience": ["assistant", "user"],
            "priority": 0.5,
            "lastModified": "2026-07-14T12:00:00.001Z",
        },
    }
    assert entries["test:///plain"]["size"] == 12
    assert entries["test:///plain"]["_meta"] == {"dev.carrel/etag": "p"}


def test_a_list_that_changed_is_spelled_anew() -> None:
    shelf = Shelf(texts={"a": "", "b": ""})
    client = talk(shelf)

    def uris(version: str) -> list[str]:
        return [entry["uri"] for entry in client.ask("resources/list", version=version)["resources"]]

    for version in (LEGACY, MODERN, LEGACY, MODERN):
        assert uris(version) == [shelf.uri("a"), shelf.uri("b")]
    shelf.remove("b")
    shelf.put("c")
    for version in (LEGACY, MODERN):
        assert uris(version) == [shelf.uri("a"), shelf.uri("c")]
    client.close()


def test_a_list_is_spelled_anew_when_what_is_reported_of_an_entry_changes_in_place() -> None:
    told = {"count": 1}

    class Counting(Memory):
        def entries(self, after: str = "") -> Iterator[Resource]:
            return iter([Resource("test:///plain", "plain", meta=told)])

        def front(self) -> list[Resource]:
            return []

    client = talk(Counting())

    def counts() -> list[int]:
        return [entry["_meta"]["count"] for entry in client.ask("resources/list")["resources"]]

    assert [counts(), counts()] == [[1], [1]]
    told["count"] = 2
    assert counts() == [2]
    client.close()


def test_a_template_is_spelled_out(client: Conversation) -> None:
    listed = client.ask("resources/templates/list", version=LEGACY)["resourceTemplates"]

    assert listed[:2] == [
        {"uriTemplate": "test:///note/{id}", "name": "note", "title": "A note", "mimeType": "text/plain"},
        {"uriTemplate": "test:///query/{id}{?tail,since}", "name": "query", "description": "Gives itself back"},
    ]


def test_discover_and_initialize_declare_the_same(client: Conversation) -> None:
    capabilities = {
        "resources": {"subscribe": True, "listChanged": True},
        "completions": {},
        "tools": {"listChanged": True},
        "extensions": {"io.modelcontextprotocol/skills": {"directoryRead": True}},
    }
    instructions = "Read test:///a-guide first."

    assert client.ask("server/discover") == {
        "supportedVersions": [MODERN],
        "capabilities": capabilities,
        "instructions": instructions,
        "resultType": "complete",
        "ttlMs": 60_000,
        "cacheScope": "private",
        "_meta": SERVER_INFO,
    }
    assert client.ask("initialize", {"protocolVersion": "2025-06-18"}, version=LEGACY) == {
        "protocolVersion": "2025-06-18",
        "capabilities": capabilities,
        "serverInfo": SERVER_INFO["io.modelcontextprotocol/serverInfo"],
        "instructions": instructions,
    }


def test_a_completion_is_spelled(client: Conversation) -> None:
    params = {
        "ref": {"type": "ref/resource", "uri": "test:///query/{id}{?tail,since}"},
        "argument": {"name": "tail", "value": "5"},
        "context": {"arguments": {"id": "a"}},
    }
    completion = {"values": ["tail=5", "id"], "total": 7, "hasMore": True}

    assert client.ask("completion/complete", params, version=LEGACY) == {"completion": completion}
    assert client.ask("completion/complete", params)["completion"] == completion


def test_a_caller_who_completes_too_fast_is_told_to_slow_down(client: Conversation) -> None:
    params = {
        "ref": {"type": "ref/resource", "uri": "test:///note/{id}"},
        "argument": {"name": "id", "value": "x"},
    }
    answers: list[Any] = []
    while not answers or ("completion" in answers[-1] and len(answers) < 20_000):
        answers.append(client.ask("completion/complete", params, version=LEGACY))

    assert len(answers) > 100
    assert answers[-1] == {
        "code": -32603,
        "message": "Too many completions: slow down",
        "data": {"dev.carrel/error": "busy", "retryAfterMs": 20},
    }


# Tools


def test_a_tool_gives_blocks_structure_and_errors(client: Conversation) -> None:
    given = client.ask("tools/call", {"name": "echo", "arguments": {"a": [1]}}, version=LEGACY)
    failed = client.ask("tools/call", {"name": "fail"}, version=LEGACY)
    link = client.ask("tools/call", {"name": "link"})

    assert given == {"content": [{"type": "text", "text": "Given"}], "structuredContent": {"a": [1]}}
    assert failed == {
        "content": [{"type": "text", "text": "It failed"}],
        "isError": True,
        "_meta": {"dev.carrel/error": "failed"},
    }
    assert link["content"][1:] == [
        {
            "type": "resource_link",
            "uri": "test:///note/007",
            "name": "seven",
            "description": "The seventh",
            "mimeType": "text/plain",
        },
        {"type": "resource_link", "uri": "test:///plain", "name": "plain"},
    ]


def test_structure_that_is_no_object_is_for_the_modern_era_only(client: Conversation) -> None:
    params = {"name": "count", "arguments": {"to": 2}}
    tools = {
        version: {tool["name"]: tool for tool in client.ask("tools/list", version=version)["tools"]}
        for version in (MODERN, LEGACY)
    }

    assert client.ask("tools/call", params)["structuredContent"] == 2
    assert "structuredContent" not in client.ask("tools/call", params, version=LEGACY)
    assert tools[MODERN]["count"]["outputSchema"] == {"type": "integer"}
    assert "outputSchema" not in tools[LEGACY]["count"]


def test_progress_rises_and_stops_with_the_answer(client: Conversation) -> None:
    params = {"name": "count", "arguments": {"to": 3}, "_meta": {"progressToken": "t"}}
    client.ask("tools/call", params)

    assert [client.told()["params"] for _ in range(3)] == [
        {"progressToken": "t", "progress": number, "total": 3, "message": f"at {number}"} for number in (1, 2, 3)
    ]
    assert client.is_silent()


@pytest.mark.parametrize("token", [0, "", 7, "x"])
def test_every_progress_token_is_a_token(client: Conversation, token: int | str) -> None:
    client.ask("tools/call", {"name": "count", "arguments": {"to": 1}, "_meta": {"progressToken": token}})

    assert client.told()["params"]["progressToken"] == token


def test_progress_is_sent_only_on_request(client: Conversation) -> None:
    client.ask("tools/call", {"name": "count", "arguments": {"to": 3}})

    assert client.is_silent()


# Eras on one connection


def test_both_eras_are_spoken_on_one_connection_in_any_order() -> None:
    for order in (("d", "i", "d", "r", "m"), ("i", "d", "r", "m", "i"), ("m", "r", "i", "d"), ("r", "d", "m")):
        client = talk(Memory())
        for step in order:
            match step:
                case "d":
                    assert client.ask("server/discover")["supportedVersions"] == [MODERN]
                case "i":
                    client.open()
                case "r":
                    assert set(client.ask("resources/read", {"uri": "test:///plain"}, version=LEGACY)) == {"contents"}
                case "m":
                    assert client.ask("resources/read", {"uri": "test:///plain"})["resultType"] == "complete"
        client.close()


def test_a_legacy_request_before_initialize_is_answered(client: Conversation) -> None:
    assert client.ask("ping", version=LEGACY) == {}
    assert len(client.ask("resources/list", version=LEGACY)["resources"]) > 300


def test_a_modern_answer_does_not_depend_on_earlier_calls(client: Conversation) -> None:
    before = client.ask("resources/list")
    client.open("2024-11-05")
    client.ask("resources/subscribe", {"uri": "test:///plain"}, version=LEGACY)

    assert client.ask("resources/list") == before


@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_every_connection_is_given_the_same_lists(version: str) -> None:
    server = serve(Memory())
    first, second = Conversation(server), Conversation(server)
    first.open("2024-11-05")
    first.ask("resources/subscribe", {"uri": "test:///plain"}, version=LEGACY)
    first.ask("resources/read", {"uri": "test:///plain"}, version=version)

    for method in ("resources/list", "resources/templates/list", "tools/list"):
        assert first.ask(method, version=version) == second.ask(method, version=version)
    first.close()


# Batches


def batch(client: Conversation, *elements: object) -> Any:
    answer = client.say(json.dumps(elements).encode())
    return None if answer is None else parse(answer)


PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
DONE = {"jsonrpc": "2.0", "method": "notifications/initialized"}


@pytest.mark.parametrize("version", [None, "2025-11-25", "2025-06-18", "2024-11-05"])
def test_a_batch_is_refused_where_it_was_not_negotiated(version: str | None) -> None:
    client = talk(Memory())
    if version is not None:
        client.open(version)

    assert batch(client, PING) == {
        "jsonrpc": "2.0",
        "error": {
            "code": -32600,
            "message": "Invalid request: a batch is not supported here",
            "data": {"dev.carrel/error": "invalid"},
        },
    }
    client.close()


@pytest.fixture
def batching() -> Iterator[Conversation]:
    client = talk(Memory())
    client.open("2025-03-26")
    yield client
    client.close()


def test_each_message_of_a_batch_is_answered_in_one_array(batching: Conversation) -> None:
    call = {"jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": {"name": "count", "arguments": {"to": 1}}}
    subscribe = {"jsonrpc": "2.0", "id": 3, "method": "resources/subscribe", "params": {"uri": "test:///plain"}}

    assert batch(batching, PING, DONE, 5, {**PING, "id": True}, call, subscribe) == [
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {
            "jsonrpc": "2.0",
            "error": {
                "code": -32600,
                "message": "Invalid request: not an object",
                "data": {"dev.carrel/error": "invalid"},
            },
        },
        {
            "jsonrpc": "2.0",
            "error": {
                "code": -32600,
                "message": "Invalid request: id must be a string or an integer",
                "data": {"dev.carrel/error": "invalid"},
            },
        },
        {"jsonrpc": "2.0", "id": "c", "result": {"content": [{"type": "text", "text": "Counted to 1"}]}},
        {"jsonrpc": "2.0", "id": 3, "result": {}},
    ]
    assert batching.is_silent()


def test_answers_of_a_batch_that_do_not_fit_one_message_are_refused_each() -> None:
    client = talk(Memory(), max_bytes=10_000)
    client.open("2025-03-26")
    big = [
        {"jsonrpc": "2.0", "id": number, "method": "resources/read", "params": {"uri": "test:///big/4000"}}
        for number in range(2, 6)
    ]

    answers = batch(client, *big, PING)

    assert [(answer["id"], answer.get("error", {}).get("code")) for answer in answers] == [
        (2, None),
        (3, None),
        (4, -32802),
        (5, -32802),
        (1, None),
    ]
    client.close()


def test_a_batch_of_answers_is_no_longer_than_a_message_and_has_every_id() -> None:
    client = talk(Memory(), max_bytes=20_000)
    client.open("2025-03-26")
    uris = ["test:///big/19000"] * 48 + ["test:///" + "x" * 7_000, "test:///plain"]
    reads = [
        {"jsonrpc": "2.0", "id": f"call-{number}", "method": "resources/read", "params": {"uri": uri}}
        for number, uri in enumerate(uris)
    ]

    answer = client.say(json.dumps(reads).encode())

    assert answer is not None
    assert len(answer) <= 20_000
    answers = parse(answer)
    assert [one["id"] for one in answers] == [f"call-{number}" for number in range(50)]
    assert answers[-1]["result"]["contents"][0]["text"] == SAMPLE
    client.close()


def test_a_batch_of_notifications_is_not_answered(batching: Conversation) -> None:
    assert batch(batching, DONE, DONE) is None


@pytest.mark.parametrize("count", [0, MAX_BATCH + 1])
def test_a_batch_holds_a_few_messages(batching: Conversation, count: int) -> None:
    assert batch(batching, *[PING] * count)["error"]["message"] == "Invalid request: a batch holds 1 to 50 messages"
    assert len(batch(batching, *[PING] * MAX_BATCH)) == MAX_BATCH


@pytest.mark.parametrize("depth", [2, 3, 200, 100_000])
def test_a_batch_in_a_batch_is_refused_not_followed(batching: Conversation, depth: int) -> None:
    answer = batching.say(b"[" * depth + b"]" * depth)

    assert answer is not None
    given = parse(answer)
    errors = given if isinstance(given, list) else [given]
    assert [error["error"]["code"] for error in errors] in ([-32600], [-32700])


def test_every_request_of_a_late_batch_is_answered_once() -> None:
    gated = Gated("gated", {"1": "one"})
    client = talk(gated)
    client.open("2025-03-26")
    reads = [
        {"jsonrpc": "2.0", "id": number, "method": "resources/read", "params": {"uri": f"gated:///{path}"}}
        for number, path in ((2, "1"), (3, "gate/3"), (4, "gate/4"))
    ]
    work = client.accept(json.dumps([PING, *reads]).encode())
    assert isinstance(work, Work)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(work.run)
        assert gated.arrived.acquire(timeout=PATIENCE_S)
        late = work.expire()
        gated.open_gate()
        assert running.result(PATIENCE_S) is None

    assert late is not None
    assert [(answer["id"], "error" in answer) for answer in parse(late)] == [
        (1, False),
        (2, False),
        (3, True),
        (4, True),
    ]
    client.close()


def test_every_request_of_a_refused_batch_is_answered_once() -> None:
    client = talk(Gated("gated", {"1": "one"}))
    client.open("2025-03-26")
    read = {"jsonrpc": "2.0", "id": 2, "method": "resources/read", "params": {"uri": "gated:///1"}}
    work = client.accept(json.dumps([read, PING]).encode())
    assert isinstance(work, Work)

    refused = work.refuse()

    assert refused is not None
    assert [answer.get("error", {}).get("data") for answer in parse(refused)] == [
        {"dev.carrel/error": "busy", "uri": "gated:///1"},
        None,
    ]
    assert work.run() is None
    client.close()


# Ids, cancelling, deadlines


def begin_waiting(client: Conversation, request_id: int | str) -> Work:
    given = client.begin("tools/call", {"name": "wait"}, request_id=request_id)
    assert isinstance(given, Work)
    return given


def test_an_id_still_in_use_is_refused(client: Conversation) -> None:
    begin_waiting(client, 5)
    client.listen({}, request_id="a")

    for request_id in (5, "a"):
        error = client.ask("resources/list", request_id=request_id)
        assert (error["code"], error["message"]) == (
            -32600,
            "Invalid request: id is in use by a request that still runs",
        )
    assert "resources" in client.ask("resources/list", request_id="5")


def test_an_id_may_be_used_again_when_it_is_free(client: Conversation) -> None:
    for _ in range(3):
        assert "content" in client.ask("tools/call", {"name": "echo"}, request_id=5)


@pytest.mark.parametrize("request_id", [5, "5", ""])
def test_a_cancelled_call_stops_and_is_not_answered(request_id: int | str) -> None:
    memory = Memory()
    client = talk(memory)
    work = begin_waiting(client, request_id)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(work.run)
        assert memory.waiting.acquire(timeout=PATIENCE_S)
        client.tell("notifications/cancelled", {"requestId": request_id, "reason": "enough"})

        assert running.result(PATIENCE_S) is None
    assert (work.expire(), work.refuse(), client.is_silent()) == (None, None, True)
    assert "resources" in client.ask("resources/list", request_id=request_id)


def test_a_call_cancelled_before_it_runs_is_never_run() -> None:
    memory = Memory()
    client = talk(memory)
    work = begin_waiting(client, 5)
    client.tell("notifications/cancelled", {"requestId": 5})

    assert work.run() is None
    assert not memory.waiting.acquire(blocking=False)


@pytest.mark.parametrize(
    "params", [None, {}, {"requestId": 99}, {"requestId": "5"}, {"requestId": True}, {"requestId": None}]
)
def test_cancelling_what_does_not_run_is_ignored(client: Conversation, params: dict[str, Any] | None) -> None:
    work = begin_waiting(client, 5)
    client.tell("notifications/cancelled", params)

    late = work.expire()

    assert late is not None
    assert check(late, MODERN, None)["error"]["message"] == "Request timed out"


def test_a_late_call_is_answered_once_and_its_tool_is_notified() -> None:
    memory = Memory()
    client = talk(memory)
    work = begin_waiting(client, 5)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(work.run)
        assert memory.waiting.acquire(timeout=PATIENCE_S)
        late = work.expire()

        assert running.result(PATIENCE_S) is None
    assert late is not None
    assert check(late, MODERN, None) == {
        "jsonrpc": "2.0",
        "id": 5,
        "error": {"code": -32603, "message": "Request timed out", "data": {"dev.carrel/error": "timeout"}},
    }


def test_what_was_answered_cannot_be_late(client: Conversation) -> None:
    work = client.begin("tools/call", {"name": "echo"})
    assert isinstance(work, Work)

    assert work.run() is not None
    assert (work.expire(), work.refuse()) == (None, None)


def test_a_blocking_read_is_work_and_others_are_answered_at_once() -> None:
    gated = Gated("gated", {"1": "one"})
    client = talk(gated, Shelf("shelf", {"1": "one"}))
    waiting = client.begin("resources/read", {"uri": "gated:///gate/1"})
    assert isinstance(waiting, Work)

    assert isinstance(client.begin("resources/read", {"uri": "shelf:///1"}), bytes)
    assert isinstance(client.begin("resources/read", {"uri": "none:///1"}), bytes)
    assert isinstance(client.begin("server/discover"), bytes)
    assert isinstance(client.begin("resources/list"), Work)
    gated.open_gate()
    assert b"through gate/1" in (waiting.run() or b"")


def test_the_end_of_a_conversation_cancels_what_runs() -> None:
    memory = Memory()
    client = talk(memory)
    works = [begin_waiting(client, number) for number in range(5)]
    with ThreadPoolExecutor(5) as pool:
        running = [pool.submit(work.run) for work in works]
        for _ in works:
            assert memory.waiting.acquire(timeout=PATIENCE_S)
        assert client.close() == []

        assert [future.result(PATIENCE_S) for future in running] == [None] * 5


# Sizes


def test_an_over_long_message_is_refused_with_its_id(client: Conversation) -> None:
    answer = client.say(OverLong(b'{"jsonrpc":"2.0","params":{"id":1},"id":"a","method":"x'))

    assert answer is not None
    assert check(answer, LEGACY, None) == {
        "jsonrpc": "2.0",
        "id": "a",
        "error": {
            "code": -32802,
            "message": "Message too large: one message holds 2097152 bytes",
            "data": {"name": "MCP_TOO_LARGE", "limit": 2_097_152, "dev.carrel/error": "too_large"},
        },
    }


def test_a_read_that_does_not_fit_suggests_one_that_does() -> None:
    client = talk(Memory(), Shelf("shelf", {"nul": "\x01" * 3_000}), max_bytes=4_000)
    for uri, start in (
        ("test:///big/5000", 0),
        ("test:///big/5000?start=9", 9),
        ("shelf:///nul", 0),
        ("shelf:///nul?start=9", 9),
        ("shelf:///nul?start=9&length=2000", 9),
    ):
        error = client.ask("resources/read", {"uri": uri})
        data = error["data"]
        bare = uri.partition("?")[0]
        assert (error["code"], data["uri"], data["limit"], data["dev.carrel/error"]) == (
            -32802,
            uri,
            4_000,
            "too_large",
        )
        assert data["suggested"] == f"{bare}?start={start}&length=250"
        assert error["message"].startswith(
            "Too large: the answer for shelf:" if "nul" in uri else f"Too large: {uri} has"
        )
        [item] = client.ask("resources/read", {"uri": data["suggested"]})["contents"]
        assert len(item["text"]) == 250


def test_a_range_beside_the_uri_that_does_not_fit_suggests_the_same_start() -> None:
    client = talk(Shelf("shelf", {"nul": "\x01" * 3_000}), max_bytes=4_000)

    error = client.ask("resources/read", {"uri": "shelf:///nul", "start": 7})

    assert error["data"]["suggested"] == "shelf:///nul?start=7&length=250"


def test_a_folder_that_does_not_fit_suggests_no_part_since_it_has_none() -> None:
    class Folder(Shelf):
        def routes(self) -> Sequence[Route]:
            return (Route("folder:///{x}", self._read_all, "all"),)

        def _read_all(self, x: str) -> Reading:
            return Reading(tuple(Text("y" * 100, uri=f"folder:///{x}/{number}") for number in range(50)))

    error = talk(Folder("folder"), max_bytes=4_000).ask("resources/read", {"uri": "folder:///a"})

    assert (error["code"], "suggested" in error["data"]) == (-32802, False)


def test_no_message_is_longer_than_the_limit() -> None:
    client = talk(Memory(), max_bytes=20_000)
    lines = [
        client.request("resources/list"),
        client.request("resources/read", {"uri": "test:///big/19999"}),
        client.request("resources/read", {"uri": "test:///" + "é" * 9_000}),
        client.request("resources/read", {"uri": "x" * 19_000}),
        client.request("tools/call", {"name": "x" * 19_000}),
        client.request("x" * 19_000),
        client.request("resources/list", {"cursor": "x" * 19_000}),
    ]

    assert [len(client.say(line) or b"") <= 20_000 for line in lines] == [True] * len(lines)


def test_a_page_ends_early_where_it_would_not_fit_and_the_pages_join() -> None:
    client = talk(Memory(), max_bytes=5_000)
    uris: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = client.ask("resources/list", {"cursor": cursor})
        uris += [entry["uri"] for entry in page["resources"]]
        cursor = page.get("nextCursor")
        assert len(uris) < 1_000, "the pages never end"

    assert uris == [entry["uri"] for entry in talk(Memory()).ask("resources/list")["resources"]]


def test_an_entry_that_alone_does_not_fit_is_too_large() -> None:
    error = talk(Shelf("a", {"x" * 5_000: ""}), max_bytes=5_000).ask("resources/list")

    assert (error["code"], error["data"]["dev.carrel/error"]) == (-32802, "too_large")


# Subscriptions, modern


def test_a_subscription_is_acknowledged_with_what_is_honoured() -> None:
    client = talk(Memory())
    wanted = {
        "resourcesListChanged": True,
        "promptsListChanged": True,
        "resourceSubscriptions": ["test:///plain", "test:///none", "other:///x", "test:///note/later"],
    }

    assert client.listen(wanted, request_id=7) == {
        "resourcesListChanged": True,
        "resourceSubscriptions": ["test:///plain", "test:///note/later"],
    }
    assert client.close() == [
        {
            "jsonrpc": "2.0",
            "id": 7,
            "result": {
                "resultType": "complete",
                "_meta": {**SERVER_INFO, "io.modelcontextprotocol/subscriptionId": 7},
            },
        }
    ]


@pytest.mark.parametrize("request_id", [0, 7, "", "a"])
def test_every_notification_of_a_subscription_carries_its_id(request_id: int | str) -> None:
    shelf = Counted("a", {"1": "one"})
    client = talk(shelf)
    client.listen({"resourceSubscriptions": ["a:///1"], "resourcesListChanged": True}, request_id)
    meta = {"io.modelcontextprotocol/subscriptionId": request_id}
    shelf.put("1", "changed")

    assert client.told() == {
        "jsonrpc": "2.0",
        "method": "notifications/resources/updated",
        "params": {"uri": "a:///1", "_meta": meta},
    }
    shelf.put("2")
    assert client.told() == {
        "jsonrpc": "2.0",
        "method": "notifications/resources/list_changed",
        "params": {"_meta": meta},
    }
    client.close()


def test_a_kind_that_was_not_asked_for_is_not_sent() -> None:
    shelf = Counted("a", {"1": "one", "2": "two"})
    client = talk(shelf)
    assert client.listen({"resourceSubscriptions": ["a:///1"]}, "u") == {"resourceSubscriptions": ["a:///1"]}
    assert client.listen({"resourcesListChanged": True}, "l") == {"resourcesListChanged": True}
    assert client.listen({}, "none") == {}
    shelf.put("1", "changed")
    updated = client.told()
    shelf.put("3")
    listed = client.told()

    assert [told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] for told in (updated, listed)] == [
        "u",
        "l",
    ]
    assert len(client.close()) == 3


def test_a_cancelled_subscription_ends_without_a_word() -> None:
    shelf = Eventful("a", {"1": "one"})
    client = talk(shelf)
    client.listen({"resourceSubscriptions": ["a:///1"]}, "first")
    client.listen({"resourceSubscriptions": ["a:///1"]}, "second")
    assert shelf.watched.acquire(timeout=PATIENCE_S)
    client.tell("notifications/cancelled", {"requestId": "first"})
    shelf.put("1", "changed")

    assert client.told()["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": "second"}
    assert client.is_silent()
    assert [ending["id"] for ending in client.close()] == ["second"]


def test_a_subscription_cancelled_before_it_was_made_is_not_made() -> None:
    gated = Gated()
    client = talk(gated)
    work = client.begin(
        "subscriptions/listen", {"notifications": {"resourceSubscriptions": ["gated:///gate/1"]}}, request_id=5
    )
    assert isinstance(work, Work)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(work.run)
        assert gated.arrived.acquire(timeout=PATIENCE_S)
        client.tell("notifications/cancelled", {"requestId": 5})
        gated.open_gate()
        assert running.result(PATIENCE_S) is None

    assert (client.is_silent(), client.close()) == (True, [])


@pytest.mark.parametrize(
    ("method", "params", "version"),
    [
        ("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["gated:///gate/1"]}}, MODERN),
        ("resources/subscribe", {"uri": "gated:///gate/1"}, LEGACY),
    ],
)
def test_a_late_subscription_is_answered_once(method: str, params: dict[str, Any], version: str) -> None:
    gated = Gated()
    client = talk(gated)
    client.open()
    work = client.begin(method, params, request_id=5, version=version)
    assert isinstance(work, Work)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(work.run)
        assert gated.arrived.acquire(timeout=PATIENCE_S)
        assert b"timed out" in (work.expire() or b"")
        gated.open_gate()
        assert running.result(PATIENCE_S) is None

    assert (client.is_silent(), client.close()) == (True, [])


# Subscriptions, legacy


def test_a_legacy_subscription_needs_the_handshake() -> None:
    client = talk(Memory())

    error = client.ask("resources/subscribe", {"uri": "test:///plain"}, version=LEGACY)

    assert (error["code"], error["message"]) == (-32600, "Invalid request: subscriptions need initialize first")


def test_a_legacy_subscriber_is_notified_without_an_id() -> None:
    shelf = Counted("a", {"1": "one"})
    client = talk(shelf)
    client.open()
    assert client.ask("resources/subscribe", {"uri": "a:///1"}, version=LEGACY) == {}
    shelf.put("1", "changed")

    assert client.told(LEGACY) == {
        "jsonrpc": "2.0",
        "method": "notifications/resources/updated",
        "params": {"uri": "a:///1"},
    }
    assert client.ask("resources/unsubscribe", {"uri": "a:///1"}, version=LEGACY) == {}
    assert client.ask("resources/unsubscribe", {"uri": "a:///never"}, version=LEGACY) == {}
    shelf.put("2")
    assert client.told(LEGACY)["method"] == "notifications/resources/list_changed"
    shelf.put("1", "changed again")
    shelf.put("3")
    assert client.told(LEGACY)["method"] == "notifications/resources/list_changed"
    client.close()


def test_every_initialised_client_hears_of_the_list_and_no_other() -> None:
    shelf = Counted("a", {"1": "one"})
    server = serve(shelf)
    opened, half, silent = Conversation(server), Conversation(server), Conversation(server)
    opened.open()
    opened.ask("resources/list", {}, version=LEGACY)  # so what it saw is known, whenever its subscription begins
    half.ask("initialize", {"protocolVersion": LEGACY}, version=LEGACY)
    silent.tell("notifications/initialized")
    shelf.put("2")

    assert opened.told(LEGACY)["method"] == "notifications/resources/list_changed"
    assert (half.is_silent(), silent.is_silent()) == (True, True)
    opened.close()


@pytest.mark.parametrize(
    ("uri", "code"), [("test:///none", -32002), ("other:///x", -32602), ("", -32602), ("test:///%zz", -32602)]
)
def test_a_legacy_subscription_to_what_cannot_be_read_gets_the_reads_error(
    client: Conversation, uri: str, code: int
) -> None:
    client.open()

    subscribed = client.ask("resources/subscribe", {"uri": uri}, version=LEGACY)

    assert (subscribed["code"], subscribed["data"]["uri"]) == (code, uri)


def test_a_legacy_client_may_subscribe_to_many_uris_but_not_to_any_number() -> None:
    shelf = Shelf("a", {str(number): "" for number in range(MAX_SUBSCRIBED_URIS + 1)})
    catalog = Catalog([shelf])
    client = Conversation(Server(catalog, Watcher(catalog, poll_s=60.0)))
    client.open()
    for number in range(MAX_SUBSCRIBED_URIS):
        client.say(client.request("resources/subscribe", {"uri": f"a:///{number}"}, version=LEGACY))

    error = client.ask("resources/subscribe", {"uri": f"a:///{MAX_SUBSCRIBED_URIS}"}, version=LEGACY)

    assert (error["code"], error["data"]["dev.carrel/error"]) == (-32603, "busy")
    client.close()


def test_two_clients_with_equal_ids_do_not_meet() -> None:
    shelf = Counted("a", {"1": "one", "2": "two"})
    server = serve(shelf)
    one, two = Conversation(server), Conversation(server)
    one.listen({"resourceSubscriptions": ["a:///1"]}, 1)
    two.listen({"resourceSubscriptions": ["a:///2"]}, 1)
    two.tell("notifications/cancelled", {"requestId": 1})
    shelf.put("1", "changed")

    assert one.told()["params"]["uri"] == "a:///1"
    assert (len(one.close()), len(two.close())) == (1, 0)


# What no fault gets past


def test_a_tool_that_breaks_says_nothing_of_its_cause(client: Conversation, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        error = client.ask("tools/call", {"name": "break"})

    assert error == {"code": -32603, "message": "Internal error", "data": {"dev.carrel/error": "internal"}}
    assert caplog.messages == ["unexpected fault in tools/call"]


class Broken(Memory):
    """Breaks wherever it is asked."""

    def entries(self, after: str = "") -> Iterator[Resource]:
        raise RuntimeError(after)

    def list_fingerprint(self) -> str:
        raise RuntimeError

    def complete(self, *_: object) -> Any:
        raise RuntimeError

    def fingerprint(self, uri: str) -> str | None:
        raise RuntimeError(uri)


def test_no_fault_of_a_provider_gets_past_the_server(caplog: pytest.LogCaptureFixture) -> None:
    client = talk(Broken())
    completion = {
        "ref": {"type": "ref/resource", "uri": "test:///note/{id}"},
        "argument": {"name": "id", "value": ""},
    }
    client.open()

    for method, params in (
        ("resources/read", {"uri": "test:///error/whatever"}),
        ("completion/complete", completion),
        ("subscriptions/listen", {"notifications": {"resourcesListChanged": True}}),
        ("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["test:///plain"]}}),
    ):
        assert client.ask(method, params)["code"] == -32603
    assert client.ask("resources/subscribe", {"uri": "test:///plain"}, version=LEGACY)["code"] == -32603
    assert "unexpected fault in watching the list of memory" in caplog.messages
    client.close()


def test_a_fault_in_one_list_costs_nobody_else_their_entries(caplog: pytest.LogCaptureFixture) -> None:
    broken = Broken()
    broken.name = "broken"
    broken.schemes = ("broken",)
    client = talk(broken, Memory())

    listed = client.ask("resources/list")["resources"]

    assert "test:///note/004" in {entry["uri"] for entry in listed}
    assert "unexpected fault in the list of broken" in caplog.messages
    client.close()


@contextmanager
def calling(memory: Memory) -> Iterator[Conversation]:
    """Run a tool as request 5, which the `with` block cancels."""
    client = talk(memory)
    work = begin_waiting(client, 5)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(work.run)
        assert memory.waiting.acquire(timeout=PATIENCE_S)
        yield client
        assert running.result(PATIENCE_S) is None


class Faithless(Shelf):
    """Breaks where it is asked how to ask it."""

    limits_tool_time = True

    def __init__(self) -> None:
        super().__init__("faithless")
        self._has_told = False

    def canonical(self, uri: str) -> str:
        raise RuntimeError(uri)

    def tools(self) -> Sequence[Tool]:
        if self._has_told:
            raise RuntimeError
        self._has_told = True
        return [Tool("t", "", {"type": "object"})]

    def call(self, *_: object) -> ToolResult:
        raise RuntimeError


def test_no_fault_gets_past_the_server_where_it_is_not_yet_known_who_is_asked() -> None:
    client = talk(Faithless())
    client.ask("tools/list")

    assert client.ask("resources/read", {"uri": "faithless://\x01"})["code"] == -32603
    assert client.ask("tools/call", {"name": "t"})["code"] == -32603
    assert client.ask("ping", version=LEGACY) == {}


def test_lists_that_may_wait_are_not_surveyed_by_the_thread_that_reads() -> None:
    asked, go_on = threading.Event(), threading.Event()

    class Slow(Counted):
        speed = "blocking"

        def list_fingerprint(self) -> str:
            asked.set()
            assert go_on.wait(PATIENCE_S)
            return super().list_fingerprint()

    quick = Counted("quick", {"a": ""})
    client = talk(Slow("slow", {"a": ""}), quick)
    client.open()
    assert asked.wait(PATIENCE_S)
    client.ask("resources/list", version=LEGACY)
    quick.put("b")
    go_on.set()

    assert client.told(LEGACY)["method"] == "notifications/resources/list_changed"  # it may have changed since
    client.close()


def test_a_client_that_listed_early_is_told_nothing_where_nothing_changed() -> None:
    asked, go_on = threading.Event(), threading.Event()

    class Slow(Counted):
        def list_fingerprint(self) -> str:
            asked.set()
            assert go_on.wait(PATIENCE_S)
            return super().list_fingerprint()

    slow = Slow("slow", {"a": ""})
    client = talk(slow)
    client.open()
    assert asked.wait(PATIENCE_S)
    client.ask("resources/list", version=LEGACY)
    go_on.set()
    until(lambda: client._connection._subscription is not None)
    slow.put("b")

    assert client.told(LEGACY)["method"] == "notifications/resources/list_changed"
    client.close()
    assert client._told.empty()


def test_what_runs_at_the_end_is_stopped_before_it_is_over() -> None:
    stopped: list[bool] = []

    class Slow(Memory):
        def call(self, name: str, arguments: Any, call: Any) -> Any:
            call.on_cancel(lambda: stopped.append(not threading.Event().wait(0.05)))
            return super().call(name, arguments, call)

    with calling(Slow()) as client:
        client.close()
        assert stopped == [True]


def test_a_subscription_that_comes_too_late_is_not_made() -> None:
    asked, go_on = threading.Event(), threading.Event()

    class Slow(Counted):
        def fingerprint(self, uri: str) -> str | None:
            asked.set()
            assert go_on.wait(PATIENCE_S)
            return super().fingerprint(uri)

    server = serve(Slow("slow", {"a": ""}))
    client = Conversation(server)
    client.open()
    with ThreadPoolExecutor(1) as pool:
        subscribing = pool.submit(client.ask, "resources/subscribe", {"uri": "slow:///a"}, version=LEGACY)
        assert asked.wait(PATIENCE_S)
        client.close()
        go_on.set()
        subscribing.result(PATIENCE_S)

    assert len(server.watcher._uris) == 0
    client.tell("notifications/initialized")
    for thread in [one for one in threading.enumerate() if one.name == "carrel-background"]:
        thread.join(PATIENCE_S)
    assert not server.watcher._subscriptions


def test_a_read_that_wants_to_end_the_process_ends_only_itself() -> None:
    class Leaving(Shelf):
        def read(self, path: str) -> Reading | Text:
            raise SystemExit(path)

    client = talk(Leaving("leaving", {"a": ""}))

    assert client.ask("resources/read", {"uri": "leaving:///a"})["code"] == -32603


def test_a_fault_while_cancelling_is_caught(caplog: pytest.LogCaptureFixture) -> None:
    class Stubborn(Memory):
        def call(self, name: str, arguments: Any, call: Any) -> Any:
            def refuse() -> None:
                raise RuntimeError("will not stop")

            call.on_cancel(refuse)
            return super().call(name, arguments, call)

    with calling(Stubborn()) as client:
        client.tell("notifications/cancelled", {"requestId": 5})
    until(lambda: bool(caplog.messages))

    assert caplog.messages == ["unexpected fault in stopping"]


def test_who_is_slow_to_stop_blocks_nothing() -> None:
    go_on = threading.Event()
    in_time: list[bool] = []

    class Slow(Memory):
        def call(self, name: str, arguments: Any, call: Any) -> Any:
            call.on_cancel(lambda: in_time.append(go_on.wait(PATIENCE_S)))
            return super().call(name, arguments, call)

    with calling(Slow()) as client:
        client.tell("notifications/cancelled", {"requestId": 5})
        go_on.set()
    until(lambda: bool(in_time))

    assert in_time == [True]


@pytest.mark.slow
def test_many_threads_may_ask_one_connection_at_once() -> None:
    client = talk(Memory(), Gated("gated", {"1": "one"}))
    uris = ["test:///plain", "test:///note/007", "gated:///1", "test:///none", "test:///big/5000"]
    expected = {uri: client.ask("resources/read", {"uri": uri}) for uri in uris}
    barrier = threading.Barrier(16)

    def read(number: int) -> bool:
        barrier.wait(PATIENCE_S)
        asked = [uris[(number + turn) % len(uris)] for turn in range(50)]
        return all(client.ask("resources/read", {"uri": uri}) == expected[uri] for uri in asked)

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(read, range(16))) == [True] * 16


def test_cancelling_races_with_the_answer_and_neither_is_lost() -> None:
    client = talk(Memory())
    answered = 0
    with ThreadPoolExecutor(1) as pool:
        for number in range(300):
            work = client.begin("tools/call", {"name": "echo"}, request_id=number)
            assert isinstance(work, Work)
            running = pool.submit(work.run)
            client.tell("notifications/cancelled", {"requestId": number})
            answered += running.result(PATIENCE_S) is not None

    assert 0 <= answered <= 300


# One message by itself


def test_a_server_answers_one_message_by_itself() -> None:
    server = serve(Memory())

    assert server.answer(b'{"jsonrpc":"2.0","id":1,"method":"ping"}') == b'{"id":1,"result":{},"jsonrpc":"2.0"}'
    assert server.answer(b'{"jsonrpc":"2.0","method":"notifications/initialized"}') is None
    assert server.answer(b'{"jsonrpc":"2.0","id":1,"result":{}}') is None


def test_a_subscription_by_itself_ends_at_once_and_leaves_nothing() -> None:
    server = serve(Memory())
    line = Conversation(server).request("subscriptions/listen", {"notifications": {}}, request_id=3)

    answer = server.answer(line)

    assert answer is not None
    assert check(answer, MODERN, "subscriptions/listen")["id"] == 3
    assert server.watcher._subscriptions == set()
