"""One read, whatever the transport: its route is found once, and each file or folder is opened once."""

import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from carrel.catalog.catalog import Catalog
from carrel.catalog.routes import Found, Routes
from carrel.core.content import LONG_READ_BYTES
from carrel.core.model import Reading, Stored
from carrel.core.provider import Project
from carrel.files.sandbox import Opened
from carrel.protocol import methods
from carrel.protocol.jsonrpc import Message, decode
from carrel.providers.workspace import Workspace
from carrel.server.connection import Connection, LineConnection
from carrel.server.requests import Work
from carrel.server.server import Server
from carrel.transports import stdio
from tests.support.http_asking import application, get, legacy, listening, modern, modern_headers, raw
from tests.support.memory_provider import Gated, Memory, Shelf
from tests.support.waiting import until
from tests.support.workspaces import fill

Segments = tuple[str, ...]
Ask = Callable[[str], Any]

LARGE = "x" * (LONG_READ_BYTES + 1)


class Counts:
    """How often each path below the root was opened, and each URI looked up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened: Counter[Segments] = Counter()
        self.found: Counter[str] = Counter()
        really_open, really_find = Opened.__init__, Routes.find

        def opening(opened: Opened, fd: int, real: Segments) -> None:
            self.opened[real] += 1
            really_open(opened, fd, real)

        def finding(routes: Routes, uri: str) -> Found:
            self.found[uri] += 1
            return really_find(routes, uri)

        monkeypatch.setattr(Opened, "__init__", opening)
        monkeypatch.setattr(Routes, "find", finding)

    def clear(self) -> None:
        """Forget what was counted."""
        self.opened.clear()
        self.found.clear()


@contextmanager
def over_stdio(workspace: Workspace) -> Iterator[Ask]:
    """Serve on pipes, on a thread."""
    source, to_server = os.pipe()
    from_server, target = os.pipe()
    serving = threading.Thread(target=stdio.run, args=(Server(Catalog([workspace])), source, target))
    serving.start()
    with os.fdopen(to_server, "wb", 0) as requests, os.fdopen(from_server, "rb") as answers:

        def ask(uri: str) -> Any:
            requests.write(legacy("resources/read", {"uri": uri}) + b"\n")
            return json.loads(answers.readline())

        yield ask
        requests.close()
        serving.join()
    os.close(source)
    os.close(target)


@contextmanager
def over_http(workspace: Workspace) -> Iterator[Ask]:
    """Serve on a real port."""
    with listening(application(workspace)) as port:

        def ask(uri: str) -> Any:
            body = modern("resources/read", {"uri": uri})
            headers = {"host": "localhost", **modern_headers("resources/read", uri), "content-length": str(len(body))}
            head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            # A second request ends the connection.
            end = b"GET /-/health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
            answer = raw(port, f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body + end)
            return json.loads(answer.split(b"\r\n\r\n", 1)[1].split(b"HTTP/1.1 ", 1)[0])

        yield ask


TRANSPORTS = {"stdio": over_stdio, "http": over_http}
READS = {
    "a small file": ("small.md", ("small.md",)),
    "a large file": ("large.md", ("large.md",)),
    "lines": ("small.md?lines=2-", ("small.md",)),
    "a range": ("large.md?start=5&length=5", ("large.md",)),
    "a folder": ("folder", ("folder",)),
}


@pytest.mark.slow
@pytest.mark.parametrize("path_and_segments", READS.values(), ids=READS)
@pytest.mark.parametrize("serve", TRANSPORTS.values(), ids=TRANSPORTS)
def test_a_read_opens_each_file_once_and_finds_its_route_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    serve: Callable[[Workspace], Any],
    path_and_segments: tuple[str, Segments],
) -> None:
    path, segments = path_and_segments
    children = {f"folder/{number:03}.md": "x" for number in range(100)}
    fill(tmp_path, {"small.md": "one\ntwo\n", "large.md": LARGE, **children})
    uri = f"workspace:///{path}"
    with serve(Workspace(Project(str(tmp_path), {}))) as ask:
        counts = Counts(monkeypatch)
        for _ in range(2):  # the second time, a whole file is known
            counts.clear()
            assert len(ask(uri)["result"]["contents"]) == (100 if path == "folder" else 1)
            assert counts.found == {uri: 1}
            assert counts.opened[segments] == 1
            assert max(counts.opened.values()) == 1


def test_plain_http_opens_a_file_once_and_finds_its_route_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = application(Workspace(Project(str(fill(tmp_path, {"large.md": LARGE})), {})))
    counts = Counts(monkeypatch)
    for _ in range(2):
        counts.clear()
        assert len(get(app, "/workspace/large.md").body) == len(LARGE)
        assert (counts.found, counts.opened) == ({"workspace:///large.md": 1}, {("large.md",): 1})


class Slow:
    """A source that remembers on which threads it was read, and whether it is closed."""

    size = LONG_READ_BYTES + 1

    def __init__(self) -> None:
        self.threads: set[int] = set()
        self.is_closed = False

    def read(self, start: int, length: int) -> bytes:
        assert not self.is_closed
        self.threads.add(threading.get_ident())
        return LARGE[start : start + length].encode()

    def has_moved(self) -> bool:
        return False

    def close(self) -> None:
        self.is_closed = True


class Sources(Shelf):
    """Gives a new source for every read."""

    speed = "mixed"

    def __init__(self) -> None:
        super().__init__("sources", {"a": "text"})
        self.given: list[Slow] = []

    def read(self, path: str) -> Reading:
        source = Slow()
        self.given.append(source)
        return Reading((Stored(source, "utf-8"),), etag="1")


def begin_on_loop(connection: Connection, server: Server, uri: str) -> bytes | Work | None:
    """Begin a read as HTTP does on its event loop."""
    message = decode(legacy("resources/read", {"uri": uri}))
    assert isinstance(message, Message)
    return connection.begin(methods.parse(message, server.dispatch.served), on_loop=True)


def test_a_large_source_is_opened_on_the_event_loop_and_read_on_another_thread() -> None:
    sources = Sources()
    server = Server(Catalog([sources]))
    work = begin_on_loop(server.connect(lambda _: None), server, "sources:///a")
    assert isinstance(work, Work)
    answers: list[bytes | None] = []
    thread = threading.Thread(target=lambda: answers.append(work.run()))
    thread.start()
    thread.join()

    [source] = sources.given
    assert source.threads == {thread.ident}
    assert source.is_closed
    [answer] = answers
    assert answer is not None
    assert json.loads(answer)["result"]["contents"][0]["text"] == LARGE


@pytest.mark.parametrize("way", ["refused", "expired", "cancelled", "closed"])
def test_what_was_opened_is_closed_when_its_work_is_given_up(way: str) -> None:
    sources = Sources()
    server = Server(Catalog([sources]))
    connection = server.connect(lambda _: None)
    work = begin_on_loop(connection, server, "sources:///a")
    assert isinstance(work, Work)
    match way:
        case "refused":
            assert work.refuse() is not None
        case "expired":
            assert work.expire() is not None
        case "cancelled":
            connection.accept(legacy("notifications/cancelled", {"requestId": 1}, request_id=None))
        case "closed":
            connection.close()
    assert work.run() is None
    until(lambda: sources.given[0].is_closed)
    assert sources.given[0].threads == set()


class Moving(Slow):
    """Moves whenever it is read."""

    size = 5

    def has_moved(self) -> bool:
        return True


class Restless(Sources):
    """Gives sources that move."""

    def read(self, path: str) -> Reading:
        source = Moving()
        self.given.append(source)
        return Reading((Stored(source, "utf-8"),), etag="1")


def test_a_source_that_moves_is_read_again_on_another_thread() -> None:
    restless = Restless()
    server = Server(Catalog([restless]))
    work = begin_on_loop(server.connect(lambda _: None), server, "sources:///a")
    assert isinstance(work, Work)
    assert len(restless.given) == 1
    answer = work.run()
    assert answer is not None
    [item] = json.loads(answer)["result"]["contents"]
    assert item["_meta"]["dev.carrel/changing"] is True
    assert all(source.is_closed for source in restless.given)


def test_memory_is_read_on_the_event_loop() -> None:
    server = Server(Catalog([Memory()]))
    assert isinstance(begin_on_loop(server.connect(lambda _: None), server, "test:///plain"), bytes)


class Unhurried(Gated):
    """One whose reads are answered by the thread that reads."""

    speed = "normal"  # type: ignore[assignment]


def test_an_id_that_is_used_again_after_it_was_cancelled_gets_the_answer_to_its_own_request() -> None:
    providers = Unhurried("first"), Unhurried("second")
    server = Server(Catalog(providers))
    connection = LineConnection(server.dispatch, lambda: server.watcher, lambda _: None)
    answers: dict[str, object] = {}

    def begin(provider: Unhurried) -> threading.Thread:
        """Begin a read on a thread that another one overtakes."""
        line = legacy("resources/read", {"uri": f"{provider.name}:///gate/{provider.name}"}, request_id=1)
        reading = threading.Thread(target=lambda: answers.update({provider.name: connection.accept(line)}))
        reading.start()
        provider.arrived.acquire()
        assert connection.inline is not None
        connection.overtake(connection.inline, lambda _: None)
        return reading

    cancelled = begin(providers[0])
    connection.accept(legacy("notifications/cancelled", {"requestId": 1}, request_id=None))
    again = begin(providers[1])
    for provider, reading in zip(providers, (cancelled, again), strict=True):
        provider.open_gate()
        reading.join()
    server.close()

    answer = answers["second"]
    assert answers["first"] is None
    assert isinstance(answer, bytes)
    assert json.loads(answer)["result"]["contents"][0]["text"] == "through gate/second"
