"""The client, in both eras: over memory, over real child processes, and over peers that misbehave."""

import json
import os
import queue
import select
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from carrel.catalog.catalog import Catalog
from carrel.catalog.watcher import Watcher
from carrel.client import child as child_module
from carrel.client import client as client_module
from carrel.client import subscription as listening_module
from carrel.client.client import Client, EraName
from carrel.client.rpc import MAX_NOISE
from carrel.core.errors import Disconnected, NotFound, ProviderError, RemoteError
from carrel.core.model import (
    Annotations,
    Blob,
    Completion,
    Page,
    Range,
    Reading,
    Resource,
    ResourceLink,
    Template,
    Text,
    Tool,
    ToolResult,
)
from carrel.core.provider import Call, Changes, Provider, Route
from carrel.core.version import __version__
from carrel.server.server import Server
from carrel.testing.harness import join
from tests.support.waiting import PATIENCE_S

SOURCES = Path(client_module.__file__).parents[2]
ERAS: tuple[EraName, ...] = ("modern", "legacy")
VERSIONS = {"modern": "2026-07-28", "legacy": "2025-11-25"}
NOT_FOUND = {"modern": -32602, "legacy": -32002}
SERVER_INFO = {"name": "carrel", "title": "Carrel", "version": __version__}
STRING = {"type": "string"}


class Garden(Provider):
    """A few beds in memory.

    garden:///bed/{name}   one bed
    garden:///map          a picture
    """

    name = "garden"
    schemes: tuple[str, ...] = ("garden",)
    speed = "blocking"

    def __init__(self) -> None:
        self.beds = {"north": "dry", "south": "wet: äöü"}
        self.watchers: queue.SimpleQueue[Changes] = queue.SimpleQueue()
        self.cancelled = threading.Event()
        self.called = threading.Event()

    def routes(self) -> Sequence[Route]:
        return (
            Route("garden:///bed/{name}", self.read_bed, "bed", "text/plain", title="A bed", description="One bed"),
            Route("garden:///map", lambda: Blob(b"\x89PNG", "image/png"), "map", "image/png"),
        )

    def entries(self, after: str = "") -> Iterator[Resource]:
        hints = Annotations(("user",), 0.25, 1_784_030_400_001)
        listed = [
            *(Resource(f"garden:///bed/{name}", name, "A bed", "text/plain", title=name) for name in sorted(self.beds)),
            Resource("garden:///map", "map", size=4, annotations=hints, meta={"dev.carrel/etag": "m"}),
        ]
        return (entry for entry in listed if entry.uri > after)

    def read_bed(self, name: str) -> Reading:
        if name == "slow":
            self.called.set()
            self.cancelled.wait(PATIENCE_S)
        if name not in self.beds:
            raise NotFound(f"garden:///bed/{name}")
        return Reading((Text(self.beds[name]),), last_modified_ms=1_784_030_400_000, ttl_ms=250, cache_scope="public")

    def complete(self, template: str, variable: str, value: str, context: Mapping[str, str]) -> Completion:
        return Completion((*(bed for bed in self.beds if bed.startswith(value)), *context), total=9, has_more=True)

    def watch(self, changes: Changes) -> Callable[[], None]:
        self.watchers.put(changes)
        return lambda: None

    def watcher(self) -> Changes:
        """Return who watches; soon after somebody listens, there is one."""
        changes = self.watchers.get(timeout=PATIENCE_S)
        self.watchers.put(changes)
        return changes

    def change(self, name: str) -> None:
        self.beds[name] += "!"
        self.watcher().updated(f"garden:///bed/{name}")

    def tools(self) -> Sequence[Tool]:
        schema = {"type": "object", "properties": {"bed": STRING}, "required": ["bed"]}
        return (Tool("water", "Water a bed", schema, title="Water", idempotent=True, open_world=False),)

    def call(self, name: str, arguments: Mapping[str, object], call: Call) -> ToolResult:
        call.on_cancel(self.cancelled.set)
        if arguments == {"bed": "slow"}:
            self.called.set()
            self.cancelled.wait(PATIENCE_S)
        call.progress(1, 2, "half")
        call.progress(2)
        link = ResourceLink("garden:///bed/north", "north", "Beside it", "text/plain")
        return ToolResult(("done", link), {"bed": "wet"}, meta={"dev.carrel/took": 1})

    def instructions(self) -> str:
        return "Water is scarce."


@pytest.fixture
def garden() -> Garden:
    return Garden()


@pytest.fixture
def server(garden: Garden) -> Server:
    catalog = Catalog([garden], page_size=2)
    return Server(catalog, Watcher(catalog, poll_s=0.05))


@pytest.fixture(params=ERAS)
def client(request: pytest.FixtureRequest, server: Server) -> Iterator[Client]:
    with Client.to(server, request.param) as client:
        yield client


# In memory, both eras


def test_a_server_says_what_it_is(client: Client) -> None:
    assert client.version == VERSIONS[client.era]
    assert client.server_info == SERVER_INFO
    assert client.capabilities == {
        "resources": {"subscribe": True, "listChanged": True},
        "completions": {},
        "tools": {"listChanged": True},
        "extensions": {"io.modelcontextprotocol/skills": {"directoryRead": True}},
    }
    assert client.instructions == "Water is scarce."


def test_an_unknown_server_is_asked_in_the_modern_way_first(server: Server) -> None:
    with Client.to(server) as client:
        assert (client.era, client.version) == ("modern", "2026-07-28")


def test_a_page_has_its_entries_and_the_way_to_the_next(client: Client) -> None:
    first = client.page()
    assert first.next_cursor is not None
    second = client.page(first.next_cursor)

    ttl_ms = 1000 if client.era == "modern" else 0
    assert first == Page(
        (
            Resource("garden:///bed/north", "north", "A bed", "text/plain"),
            Resource("garden:///bed/south", "south", "A bed", "text/plain"),
        ),
        first.next_cursor,
        ttl_ms,
    )
    hints = Annotations(("user",), 0.25, 1_784_030_400_001)
    picture = Resource("garden:///map", "map", size=4, annotations=hints, meta={"dev.carrel/etag": "m"})
    assert second == Page((picture,), None, ttl_ms)


def test_the_list_is_all_pages(client: Client) -> None:
    assert [entry.name for entry in client.resources()] == ["north", "south", "map"]


def test_templates_come_as_values(client: Client) -> None:
    assert client.templates() == [Template("garden:///bed/{name}", "bed", "One bed", "text/plain", title="A bed")]


def test_a_read_gives_what_the_wire_says_of_it(client: Client) -> None:
    reading = client.read("garden:///bed/south")

    [item] = reading.items
    is_modern = client.era == "modern"
    meta = {"dev.carrel/etag": reading.etag, "dev.carrel/last-modified": "2026-07-14T12:00:00Z"}
    assert item == Text("wet: äöü", "text/plain", uri="garden:///bed/south", meta=meta)
    assert reading == Reading(
        (item,),
        etag=reading.etag,
        last_modified_ms=1_784_030_400_000,
        ttl_ms=250 if is_modern else 0,
        cache_scope="public" if is_modern else "private",
    )


def test_a_blob_is_decoded(client: Client) -> None:
    [item] = client.read("garden:///map").items

    assert (item.mime_type, item.uri) == ("image/png", "garden:///map")
    assert isinstance(item, Blob)
    assert item.data == b"\x89PNG"


def test_a_range_is_asked_for_beside_the_uri(client: Client) -> None:
    [rest] = client.read("garden:///bed/south", wanted=Range(5)).items
    [part] = client.read("garden:///bed/south", wanted=Range(5, 2)).items

    assert isinstance(rest, Text)
    assert isinstance(part, Text)
    assert (rest.text, part.text) == ("äöü", "ä")
    assert part.meta is not None
    assert part.meta["dev.carrel/total"] == 11


def test_a_read_on_condition_is_unchanged(client: Client) -> None:
    etag = client.read("garden:///bed/north").etag

    again = client.read("garden:///bed/north", if_none_match=etag)

    assert again.unchanged
    assert again.etag == etag
    assert not client.read("garden:///bed/north", if_none_match="another").unchanged


def test_an_error_is_raised_with_its_code_and_word(client: Client) -> None:
    with pytest.raises(RemoteError, match=r"^Resource not found: garden:///bed/west$") as caught:
        client.read("garden:///bed/west")

    assert (caught.value.code, caught.value.word) == (NOT_FOUND[client.era], "not_found")
    assert caught.value.data["uri"] == "garden:///bed/west"


def test_a_completion_knows_what_was_chosen(client: Client) -> None:
    assert client.complete("garden:///bed/{name}", "name", "n") == Completion(("north",), 9, True)
    given = client.complete("garden:///bed/{name}", "name", "n", {"year": "2026"})
    assert given == Completion(("north", "year"), 9, True)


def test_tools_come_as_values(client: Client) -> None:
    schema = {"type": "object", "properties": {"bed": STRING}, "required": ["bed"]}

    assert client.tools() == [
        Tool("water", "Water a bed", schema, title="Water", idempotent=True, open_world=False),
    ]


def test_a_call_tells_its_progress_on_the_callers_thread(client: Client) -> None:
    told: list[tuple[float, float | None, str | None, str]] = []

    def note(value: float, total: float | None, message: str | None) -> None:
        told.append((value, total, message, threading.current_thread().name))

    result = client.call("water", {"bed": "north"}, note)

    link = ResourceLink("garden:///bed/north", "north", "Beside it", "text/plain")
    assert result == ToolResult(("done", link), {"bed": "wet"}, meta={"dev.carrel/took": 1})
    here = threading.current_thread().name
    assert told == [(1.0, 2.0, "half", here), (2.0, None, None, here)]
    assert client.call("water", {"bed": "north"}) == result


def test_only_a_legacy_server_is_pinged(client: Client) -> None:
    if client.era == "legacy":
        client.ping()
    else:
        with pytest.raises(RemoteError, match="Method not found: ping"):
            client.ping()


def test_any_request_can_be_sent(client: Client) -> None:
    result = client.request("resources/read", {"uri": "garden:///map", "_meta": {"dev.carrel/if-none-match": "*"}})

    assert result["contents"][0]["_meta"]["dev.carrel/status"] == 304
    with pytest.raises(RemoteError) as caught:
        client.request("prompts/list")
    assert caught.value.code == -32601


def test_a_change_is_heard(client: Client, garden: Garden) -> None:
    with client.listen(["garden:///bed/north", "garden:///bed/west"]) as listening:
        assert listening.honoured == ("garden:///bed/north",)
        garden.change("south")
        garden.change("north")

        assert listening.wait(PATIENCE_S) == "garden:///bed/north"
        assert listening.wait(0) is None
        assert not listening.is_over
    assert listening.is_over
    assert list(listening) == []


def test_a_change_of_the_list_is_heard_by_those_who_asked(client: Client, garden: Garden) -> None:
    with client.listen(list_changes=True) as listening, client.listen(["garden:///map"]) as other:
        garden.beds["west"] = "new"
        garden.watcher().list_changed()

        assert listening.wait(PATIENCE_S) == ""
        assert other.wait(0) is None


def test_two_may_listen_to_one_uri_and_one_may_leave(client: Client, garden: Garden) -> None:
    with client.listen(["garden:///bed/north"]) as staying:
        with client.listen(["garden:///bed/north"]):
            pass
        client.read("garden:///map")
        garden.change("north")

        assert staying.wait(PATIENCE_S) == "garden:///bed/north"


def test_what_is_not_taken_folds(client: Client, garden: Garden, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening_module, "MAX_CHANGES", 1)
    with client.listen(["garden:///bed/north", "garden:///bed/south"]) as listening:
        garden.change("north")
        with client.listen(["garden:///bed/north"]) as other:
            garden.change("north")
            assert other.wait(PATIENCE_S) == "garden:///bed/north"
        garden.change("south")
        heard = {listening.wait(PATIENCE_S), listening.wait(PATIENCE_S)}

    assert heard == {"garden:///bed/north", "garden:///bed/south"}


def test_many_threads_share_one_client(client: Client, garden: Garden) -> None:
    garden.beds.update({f"bed-{number}": f"text {number}" for number in range(32)})
    given: dict[int, Reading] = {}

    def read(number: int) -> None:
        given[number] = client.read(f"garden:///bed/bed-{number}")

    threads = [threading.Thread(target=read, args=(number,)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)

    texts = {number: item.text for number, reading in given.items() if isinstance(item := reading.items[0], Text)}
    assert texts == {number: f"text {number}" for number in range(32)}


def test_a_request_past_its_time_is_cancelled(server: Server, garden: Garden) -> None:
    with Client.to(server, timeout_s=PATIENCE_S) as client:
        client.timeout_s = 0.05
        with pytest.raises(ProviderError, match=r"^Request timed out: tools/call$") as caught:
            client.call("water", {"bed": "slow"})

        assert caught.value.word == "timeout"
        assert garden.cancelled.wait(PATIENCE_S)
        client.timeout_s = PATIENCE_S
        assert client.read("garden:///bed/north").items


def test_a_caller_that_breaks_off_cancels_its_request(server: Server, garden: Garden) -> None:
    def refuse(*_: object) -> None:
        raise KeyboardInterrupt

    with Client.to(server) as client:
        with pytest.raises(KeyboardInterrupt):
            client.call("water", {"bed": "north"}, refuse)

        assert client.call("water", {"bed": "north"}).blocks[0] == "done"


def test_closing_tells_those_who_wait(client: Client, garden: Garden) -> None:
    failures: queue.SimpleQueue[Exception] = queue.SimpleQueue()

    def read() -> None:
        try:
            client.read("garden:///bed/slow")
        except Disconnected as error:
            failures.put(error)

    waiting = threading.Thread(target=read)
    waiting.start()
    assert garden.called.wait(PATIENCE_S)
    client.close()
    garden.cancelled.set()
    waiting.join(PATIENCE_S)

    assert str(failures.get_nowait()) == "The connection is closed"
    with pytest.raises(Disconnected):
        client.read("garden:///map")
    with pytest.raises(Disconnected):
        client.listen(["garden:///map"])
    client.close()


def test_nothing_is_left_when_a_client_is_closed(server: Server) -> None:
    before = set(threading.enumerate())
    with Client.to(server) as client, client.listen(["garden:///map"], list_changes=True):
        client.read("garden:///bed/north")

    # Threads that look for changes belong to a server, perhaps to that of another test.
    left = {thread for thread in threading.enumerate() if not thread.name.startswith("carrel-watch")} - before
    assert join(left, PATIENCE_S) == []
    # The server is still there for others.
    with Client.to(server) as client:
        assert client.read("garden:///map").items


# Peers that are made up message by message


class Script:
    """A transport whose other end is a function from a request to the lines that answer it."""

    def __init__(self, answer: Callable[[dict[str, Any]], Sequence[bytes]]) -> None:
        self._answer = answer
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.sent: list[dict[str, Any]] = []
        self.is_closed = threading.Event()

    def send(self, message: bytes) -> None:
        request = json.loads(message)
        self.sent.append(request)
        for line in self._answer(request):
            self._lines.put(line)

    def receive(self) -> bytes | None:
        return self._lines.get()

    def close(self) -> None:
        self._lines.put(None)
        self.is_closed.set()


def result(request: Mapping[str, Any], value: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": value}).encode()


def failure(request: Mapping[str, Any], code: int, data: object = None) -> bytes:
    error = {"code": code, "message": "No", "data": data}
    return json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}).encode()


def notice(method: str, params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode()


LEGACY_OPENING = {"protocolVersion": "2025-06-18", "capabilities": {"resources": {}}, "serverInfo": {"name": "old"}}
MODERN_OPENING = {"supportedVersions": ["2026-07-28"], "capabilities": {"resources": {}}, "resultType": "complete"}


def old(answer: Callable[[dict[str, Any]], Sequence[bytes]]) -> Script:
    """Make a peer that does the legacy handshake, and leaves the rest to a function."""

    def play(request: dict[str, Any]) -> Sequence[bytes]:
        match request.get("method"):
            case "server/discover":
                return [failure(request, -32601)]
            case "initialize":
                return [result(request, LEGACY_OPENING)]
            case _:
                return answer(request) if {"id", "method"} <= request.keys() else []

    return Script(play)


def new(answer: Callable[[dict[str, Any]], Sequence[bytes]]) -> Script:
    """Make a peer that is modern, and leaves the rest to a function."""

    def play(request: dict[str, Any]) -> Sequence[bytes]:
        if request["method"] == "server/discover":
            return [result(request, MODERN_OPENING)]
        return answer(request) if "id" in request else []

    return Script(play)


def test_a_legacy_server_is_opened_by_a_handshake() -> None:
    script = old(lambda request: [result(request, {})])
    with Client(script) as client:
        client.ping()

    assert (client.era, client.version) == ("legacy", "2025-06-18")
    assert (client.server_info, client.capabilities, client.instructions) == ({"name": "old"}, {"resources": {}}, "")
    assert script.is_closed.is_set()
    info = {"name": "carrel", "title": "Carrel", "version": __version__}
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": info,
    }
    opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
    assert script.sent == [
        {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}},
        {"jsonrpc": "2.0", "id": 2, "method": "initialize", "params": opening},
        {"jsonrpc": "2.0", "method": "notifications/initialized", "params": {}},
        {"jsonrpc": "2.0", "id": 3, "method": "ping", "params": {}},
    ]


@pytest.mark.parametrize(
    "discovered",
    [
        lambda request: result(request, {**MODERN_OPENING, "supportedVersions": ["2027-01-01"]}),
        lambda request: result(request, {"hello": "there"}),
        lambda request: failure(request, -32022, {"supported": ["2027-01-01"]}),
        lambda request: failure(request, -32700),
        lambda request: json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": "no"}).encode(),
    ],
    ids=["another version", "nonsense", "only another version", "a parse error", "an error that is none"],
)
def test_whatever_else_a_probe_gives_the_handshake_follows(discovered: Callable[[Any], bytes]) -> None:
    def play(request: dict[str, Any]) -> Sequence[bytes]:
        match request["method"]:
            case "server/discover":
                return [discovered(request)]
            case "initialize":
                return [result(request, LEGACY_OPENING)]
            case _:
                return []

    with Client(Script(play)) as client:
        assert client.era == "legacy"
    with pytest.raises((RemoteError, ProviderError)):
        Client(Script(play), era="modern")


def test_a_server_that_refuses_the_version_and_names_ours_is_modern() -> None:
    with Client(Script(lambda request: [failure(request, -32022, {"supported": ["2026-07-28"]})])) as client:
        assert (client.era, client.version, client.capabilities) == ("modern", "2026-07-28", {})


def test_a_silent_probe_is_given_up_and_its_late_answer_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "PROBE_S", 0.05)

    def play(request: dict[str, Any]) -> Sequence[bytes]:
        if request["method"] != "initialize":
            return []
        return [result({"id": 1}, MODERN_OPENING), result(request, LEGACY_OPENING)]

    script = Script(play)
    with Client(script) as client:
        assert client.era == "legacy"
    assert [message["method"] for message in script.sent] == [
        "server/discover",
        "initialize",
        "notifications/initialized",
    ]


def test_a_server_of_an_unknown_legacy_version_is_refused() -> None:
    opening = {**LEGACY_OPENING, "protocolVersion": "1999-01-01"}
    with pytest.raises(ProviderError, match="not supported: 1999-01-01") as caught:
        Client(Script(lambda request: [result(request, opening)]), era="legacy")

    assert caught.value.word == "unavailable"


def test_a_cursor_seen_twice_ends_the_list() -> None:
    entry = {"uri": "x:///a", "name": "a"}
    script = new(lambda request: [result(request, {"resources": [entry], "nextCursor": "again"})])
    with Client(script) as client:
        assert [entry.uri for entry in client.resources()] == ["x:///a", "x:///a"]


def test_cursors_without_end_are_not_followed_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "MAX_PAGES", 3)
    template = {"uriTemplate": "x:///{a}", "name": "a"}
    script = new(lambda request: [result(request, {"resourceTemplates": [template], "nextCursor": str(request["id"])})])
    with Client(script) as client:
        assert client.templates() == [Template("x:///{a}", "a")] * 3


def test_entries_that_cannot_be_used_are_left_out() -> None:
    entries = [{"uri": "x:///a"}, {"name": "b"}, {"uri": 3, "name": "c"}, "d", {"uri": "x:///e", "name": "e"}]
    odd = {"uri": "x:///f", "name": "f", "size": "big", "annotations": {"lastModified": "noon", "priority": True}}
    listed = {"resources": [*entries, odd], "ttlMs": -1, "cacheScope": "everybody"}
    with Client(new(lambda request: [result(request, listed)])) as client:
        hints = Annotations((), 1.0, None)
        assert client.page() == Page((Resource("x:///e", "e"), Resource("x:///f", "f", annotations=hints)))


@pytest.mark.parametrize(
    "contents",
    [
        {},
        {"contents": {}},
        {"contents": [{"text": "no uri"}]},
        {"contents": [{"uri": "x:///a"}]},
        {"contents": [{"uri": "x:///a", "text": "a", "blob": "YQ=="}]},
        {"contents": [{"uri": "x:///a", "blob": "not base64"}]},
    ],
)
def test_a_reading_that_cannot_be_used_is_a_bad_result(contents: object) -> None:
    with (
        Client(new(lambda request: [result(request, contents)])) as client,
        pytest.raises(ProviderError, match=r"^The server's answer is malformed$") as caught,
    ):
        client.read("x:///a")

    assert caught.value.word == "bad_result"


def test_a_server_that_wants_input_gets_an_error() -> None:
    wants = {"resultType": "input_required", "inputRequests": {}}
    with (
        Client(new(lambda request: [result(request, wants)])) as client,
        pytest.raises(ProviderError, match="there is no user to ask") as caught,
    ):
        client.read("x:///a")

    assert caught.value.word == "unavailable"


def test_several_items_have_their_etag_on_the_result() -> None:
    items = [{"uri": "x:///a/1", "text": ""}, {"uri": "x:///a/2", "text": "", "mimeType": None, "_meta": {"n": 2}}]
    meta = {"dev.carrel/etag": "e", "io.modelcontextprotocol/serverInfo": {}}
    with Client(new(lambda request: [result(request, {"contents": items, "_meta": meta})])) as client:
        assert client.read("x:///a") == Reading(
            (Text("", uri="x:///a/1"), Text("", uri="x:///a/2", meta={"n": 2})), etag="e", meta={"dev.carrel/etag": "e"}
        )


def test_blocks_of_other_kinds_are_named() -> None:
    blocks = [
        {"type": "image", "data": "", "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "x:///a", "mimeType": "text/plain", "text": "a"}},
    ]
    with Client(new(lambda request: [result(request, {"content": blocks, "isError": True})])) as client:
        link = ResourceLink("x:///a", "x:///a", None, "text/plain")
        assert client.call("draw") == ToolResult(("[image]", link), is_error=True)


def test_a_servers_own_questions_are_answered() -> None:
    asked = [
        b'{"jsonrpc":"2.0","id":"p","method":"ping"}',
        b'{"jsonrpc":"2.0","id":7,"method":"roots/list","params":{}}',
    ]
    script = old(lambda request: [*asked, result(request, {})] if request["method"] == "ping" else [])
    with Client(script) as client:
        client.ping()
        client.request("ping")

    said = [message for message in script.sent if "method" not in message]
    assert said[:2] == [
        {"jsonrpc": "2.0", "id": "p", "result": {}},
        {"jsonrpc": "2.0", "id": 7, "error": {"code": -32601, "message": "Method not found: roots/list"}},
    ]


def test_messages_of_kinds_we_do_not_know_are_no_noise() -> None:
    odd = [notice("notifications/odd", {"uri": None}), notice("notifications/resources/updated", {"uri": 7})] * 100
    assert len(odd) > MAX_NOISE
    with (
        Client(old(lambda request: [*odd, result(request, {})])) as client,
        client.listen(["x:///7"], list_changes=True) as told,
    ):
        client.ping()
        client.ping()
        told.close()

        assert told.wait(0) is None


def test_noise_is_tolerated_up_to_a_bound() -> None:
    noise = [b"Welcome!", b"{", b"[1]", b'{"jsonrpc":"2.0"}', b"\xff\xfe", b"[" * 100_000]
    some = (noise * MAX_NOISE)[:MAX_NOISE]
    with Client(old(lambda request: [*some, result(request, {})])) as client:
        client.ping()
        with pytest.raises(Disconnected, match="does not speak the protocol"):
            client.ping()
        with pytest.raises(Disconnected, match="does not speak the protocol"):
            client.ping()


def test_a_message_that_is_too_long_fails_the_request_it_answers() -> None:
    long = "x" * 2000
    script = old(lambda request: [result(request, {"contents": [{"uri": "x:///a", "text": long}]})])
    with Client(script, max_message_bytes=1000) as client:
        with pytest.raises(ProviderError, match=r"^The server's answer is too large$") as caught:
            client.read("x:///a")
        assert caught.value.word == "bad_result"

    def id_last(request: dict[str, Any]) -> Sequence[bytes]:
        value = {"contents": [{"uri": "x:///a", "text": long, "_meta": {"id": 1}}]}
        return [json.dumps({"result": value, "jsonrpc": "2.0", "id": request["id"]}).encode()]

    with (
        Client(old(id_last), max_message_bytes=1000) as client,
        pytest.raises(ProviderError, match="too large"),
    ):
        client.read("x:///a")


def test_a_listen_that_is_answered_at_once_is_over() -> None:
    with Client(new(lambda request: [result(request, {})])) as client:
        listening = client.listen(["x:///a"])

        assert (listening.is_over, listening.honoured, listening.wait(None)) == (True, (), None)


def test_a_listen_that_is_refused_raises() -> None:
    with Client(new(lambda request: [failure(request, -32601)])) as client, pytest.raises(RemoteError):
        client.listen(["x:///a"])


def test_a_listen_that_is_never_acknowledged_is_given_up() -> None:
    script = new(lambda _: [])
    with Client(script, timeout_s=PATIENCE_S) as client:
        client.timeout_s = 0.05
        with pytest.raises(ProviderError, match="timed out: subscriptions/listen"):
            client.listen(["x:///a"])

    assert script.sent[-1] == {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}


@pytest.mark.parametrize("ending", ["result", "cancelled"])
def test_a_server_may_end_a_subscription_in_either_way(ending: str) -> None:
    def listen(request: dict[str, Any]) -> Sequence[bytes]:
        meta = {"_meta": {"io.modelcontextprotocol/subscriptionId": request["id"]}}
        end = result(request, meta)
        if ending == "cancelled":
            end = notice("notifications/cancelled", {"requestId": request["id"]})
        return [
            notice(
                "notifications/subscriptions/acknowledged", {"notifications": {"resourceSubscriptions": ["x:"]}, **meta}
            ),
            notice("notifications/resources/updated", {"uri": "x:///a/b", **meta}),
            notice("notifications/tools/list_changed", meta),
            end,
        ]

    with Client(new(listen)) as client, client.listen(["x:"]) as listening:
        assert list(listening) == ["x:///a/b"]
        assert listening.honoured == ("x:",)


def test_legacy_news_reach_those_they_concern() -> None:
    def play(request: dict[str, Any]) -> Sequence[bytes]:
        if request["method"] == "resources/subscribe":
            return [failure(request, -32002) if request["params"]["uri"] == "x:///none" else result(request, {})]
        if request["method"] == "resources/unsubscribe":
            return [result(request, {})]
        uris = ["x:///c", "X:///a", "x:///a/b", "x:///ab"]
        return [*(notice("notifications/resources/updated", {"uri": uri}) for uri in uris), result(request, {})]

    script = old(play)
    with Client(script) as client:
        with client.listen(["x:///a", "x:///none"]) as listening, client.listen(["x:///a"]):
            client.ping()
            assert [listening.wait(0) for _ in range(3)] == ["X:///a", "x:///a/b", None]
            assert listening.honoured == ("x:///a",)
        client.ping()

    methods = [(message["method"], message["params"].get("uri")) for message in script.sent[3:]]
    assert methods == [
        ("resources/subscribe", "x:///a"),
        ("resources/subscribe", "x:///none"),
        ("resources/subscribe", "x:///a"),
        ("ping", None),
        ("resources/unsubscribe", "x:///a"),
        ("ping", None),
    ]


@pytest.mark.parametrize("era", ERAS)
def test_a_listener_learns_that_the_server_died(era: EraName) -> None:
    def play(request: dict[str, Any]) -> Sequence[bytes]:
        if request["method"] == "subscriptions/listen":
            meta = {"_meta": {"io.modelcontextprotocol/subscriptionId": request["id"]}}
            return [notice("notifications/subscriptions/acknowledged", {"notifications": {}, **meta})]
        return [result(request, {})]

    script = (new if era == "modern" else old)(play)
    with Client(script) as client, client.listen(["x:///a"]) as listening:
        script.close()
        with pytest.raises(Disconnected):
            listening.wait(PATIENCE_S)


# Real child processes

SERVING = """
import sys
from carrel.catalog.catalog import Catalog
from carrel.core.model import Resource, Text
from carrel.core.provider import Provider, Route
from carrel.server.server import Server
from carrel.transports import stdio

class One(Provider):
    name = "one"
    schemes = ("one",)
    def routes(self):
        return (Route("one:///text", lambda: Text("é" * 100_000), "text", "text/plain"),)
    def entries(self, after=""):
        if after < "one:///text":
            yield Resource("one:///text", "text")

print("stray", file=sys.stderr)
stdio.serve(Server(Catalog([One()])))
"""

FAKE = """
import json, os, subprocess, sys, time
def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def legacy(request):
    opening = {"protocolVersion": "2025-11-25", "capabilities": {"resources": {}}, "serverInfo": {"name": "fake"}}
    if request["method"] == "initialize":
        say(id=request["id"], result=opening)
    elif "id" in request:
        say(id=request["id"], error={"code": -32601, "message": "unknown"})
def requests():
    for line in sys.stdin:
        yield json.loads(line)
"""
LEGACY_ONLY = FAKE + "for request in requests(): legacy(request)"
MODERN_ONLY = (
    FAKE
    + """
for request in requests():
    meta = request["params"].get("_meta", {})
    if request["method"] == "server/discover" and "io.modelcontextprotocol/clientCapabilities" in meta:
        say(id=request["id"], result={"supportedVersions": ["2026-07-28"], "capabilities": {}})
    else:
        say(id=request["id"], error={"code": -32601, "message": "unknown"})
"""
)
SILENT_ON_PROBE = (
    FAKE
    + """
for request in requests():
    if request["method"] != "server/discover":
        legacy(request)
"""
)
BANNER = "print('Fake server 1.0'); print(); print('{ready}')\n" + LEGACY_ONLY
DIES_ON_PROBE = (
    FAKE
    + """
for request in requests():
    if request["method"] == "server/discover":
        sys.exit(1)
    legacy(request)
"""
)
DIES_MID_READ = (
    FAKE
    + """
for request in requests():
    if request["method"] == "resources/read":
        print('{"jsonrpc": "2.0", "id":', end="", flush=True)
        os._exit(3)
    legacy(request)
"""
)
NEVER_ANSWERS = "import sys\nfor line in sys.stdin: pass"
STOPS_READING = (
    FAKE
    + """
for request in requests():
    legacy(request)
    if request["method"] == "notifications/initialized":
        break
time.sleep(600)
"""
)
STUBBORN = (
    FAKE
    + """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
grandchild = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
print(os.getpid(), grandchild.pid, file=sys.stderr, flush=True)
for request in requests(): legacy(request)
time.sleep(600)
"""
)


def python(script: str) -> list[str]:
    return [sys.executable, "-u", "-c", script]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCES)}


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
def test_a_real_server_is_started_and_stopped(era: EraName) -> None:
    said: queue.SimpleQueue[str] = queue.SimpleQueue()
    with Client.start(python(SERVING), env=environment(), era=era, stderr=said.put) as client:
        assert client.version == VERSIONS[era]
        assert [entry.uri for entry in client.resources()] == ["one:///text"]
        [item] = client.read("one:///text").items
        assert isinstance(item, Text)
        assert item.text == "é" * 100_000
        assert said.get(timeout=PATIENCE_S) == "stray"
    with pytest.raises(Disconnected):
        client.page()


@pytest.mark.slow
def test_a_real_server_is_found_to_be_modern() -> None:
    with Client.start(python(SERVING), env=environment(), stderr=lambda _: None) as client:
        assert (client.era, client.server_info) == ("modern", SERVER_INFO)


@pytest.mark.parametrize(
    ("script", "era"),
    [(LEGACY_ONLY, "legacy"), (MODERN_ONLY, "modern"), (BANNER, "legacy"), (DIES_ON_PROBE, "legacy")],
    ids=["legacy only", "modern only", "a banner first", "dies on the probe"],
)
def test_a_foreign_server_is_opened_in_its_era(script: str, era: EraName) -> None:
    with Client.start(python(script)) as client:
        assert client.era == era
        with pytest.raises(RemoteError) as caught:
            client.read("x:///a")
        assert caught.value.code == -32601


def test_a_silent_server_is_opened_by_a_handshake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "PROBE_S", 0.1)
    with Client.start(python(SILENT_ON_PROBE)) as client:
        assert (client.era, client.server_info) == ("legacy", {"name": "fake"})


SLOW_MODERN = (
    FAKE
    + """
waiting = []
for request in requests():
    if request["method"] == "initialize":
        for late in waiting:
            say(id=late["id"], result={"supportedVersions": ["2026-07-28"], "capabilities": {}})
        say(id=request["id"], error={"code": -32600, "message": "no handshake any more"})
    elif request["method"] == "server/discover" and not waiting:
        waiting.append(request)
    elif request["method"] == "server/discover":
        say(id=request["id"], result={"supportedVersions": ["2026-07-28"], "capabilities": {}})
"""
)


def test_a_modern_server_that_starts_slowly_is_found_to_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "PROBE_S", 0.1)
    with Client.start(python(SLOW_MODERN)) as client:
        assert client.era == "modern"


def test_a_server_that_dies_on_the_probe_is_not_restarted_for_a_chosen_era() -> None:
    with pytest.raises(Disconnected):
        Client.start(python(DIES_ON_PROBE), era="modern")


def test_a_server_that_dies_mid_read_is_gone_for_all() -> None:
    with Client.start(python(DIES_MID_READ), era="legacy") as client:
        with pytest.raises(Disconnected, match="The other end is gone"):
            client.read("x:///a")
        with pytest.raises(Disconnected):
            client.page()


def test_a_server_that_never_answers_is_given_up() -> None:
    with pytest.raises(ProviderError, match="timed out: initialize") as caught:
        Client.start(python(NEVER_ANSWERS), timeout_s=0.2)

    assert caught.value.word == "timeout"


def test_a_server_that_stopped_reading_holds_no_caller_past_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_module, "GRACE_S", 0.1)
    with Client.start(python(STOPS_READING), era="legacy") as client:
        client.timeout_s = 0.2
        for _ in range(2):
            with pytest.raises(ProviderError, match="timed out"):
                client.read("x:///" + "a" * 1_000_000)


def test_a_stubborn_server_and_what_it_started_are_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_module, "GRACE_S", 0.1)
    said: queue.SimpleQueue[str] = queue.SimpleQueue()
    with Client.start(python(STUBBORN), era="legacy", stderr=said.put):
        child, grandchild = map(int, said.get(timeout=PATIENCE_S).split())
        assert os.getpgid(child) == os.getpgid(grandchild) == child
        watched = os.pidfd_open(grandchild)

    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    ended, _, _ = select.select([watched], [], [], PATIENCE_S)
    os.close(watched)
    assert ended == [watched]


def test_a_program_that_does_not_exist_cannot_be_started(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level("INFO", "carrel.client.child"),
        pytest.raises(Disconnected, match="Cannot start: no-such-program"),
    ):
        Client.start(["no-such-program"])
    assert len(caplog.records) == 1, "it was tried again"
    with pytest.raises(Disconnected):
        Client.start([])
    with pytest.raises(Disconnected):
        Client.start(python(LEGACY_ONLY), cwd=tmp_path / "missing")


def test_a_child_has_its_folder_its_environment_and_a_utf8_locale(tmp_path: Path) -> None:
    script = (
        FAKE
        + """
print(os.getcwd(), os.environ.get("BED"), os.environ.get("LC_ALL"), file=sys.stderr, flush=True)
for request in requests(): legacy(request)
"""
    )
    said: queue.SimpleQueue[str] = queue.SimpleQueue()
    env = {"BED": "north", "LANG": "C", "PATH": os.environ["PATH"]}
    with Client.start(python(script), cwd=tmp_path, env=env, era="legacy", stderr=said.put):
        assert said.get(timeout=PATIENCE_S) == f"{tmp_path} north C.UTF-8"
