"""Large files and trees: what takes long is bounded, runs aside, and stops when nobody waits for it."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from carrel.core.cancellation import Cancellable, Cancelled
from carrel.core.errors import TooLarge
from carrel.core.model import Range, Reading
from carrel.files import file_types
from carrel.files.sandbox import Opened
from carrel.protocol import eras, jsonrpc, methods
from carrel.providers.workspace import file_source, front_documents, listing
from carrel.server.connection import Connection
from carrel.server.requests import Work
from tests.support.waiting import PATIENCE_S
from tests.support.workspaces import Served, fill

BIG = "workspace:///big.txt"
MEGABYTE = 1 << 20
LINE = b"0123456 89abcde\n"
LINES_IN_A_MEGABYTE = MEGABYTE // len(LINE)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path, preset="all") as served:
        yield served


def write_lines(place: Path, megabytes: int) -> None:
    place.write_bytes(LINE * (LINES_IN_A_MEGABYTE * megabytes))


def make_sparse(place: Path, head: bytes, size: int, tail: bytes = b"") -> None:
    with place.open("wb") as file:
        file.write(head)
        file.truncate(size)
        if tail:
            file.seek(0, os.SEEK_END)
            file.write(tail)


def counted_reads(monkeypatch: pytest.MonkeyPatch, before: Callable[[int], None] = lambda _: None) -> list[int]:
    """Return a list that gets the length of every read of a file's bytes; `before` is called with its number."""
    lengths: list[int] = []
    really = file_source.FileSource.read

    def read(source: file_source.FileSource, start: int, length: int) -> bytes:
        before(len(lengths))
        data = really(source, start, length)
        lengths.append(len(data))
        return data

    monkeypatch.setattr(file_source.FileSource, "read", read)
    return lengths


# Lines


def test_lines_are_searched_up_to_a_bound_and_the_refusal_says_how_to_go_on(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_source, "MAX_SEARCHED_BYTES", 2 * MEGABYTE)
    write_lines(tmp_path / "big.txt", 4)
    lengths = counted_reads(monkeypatch)

    suggested = f"{BIG}?start={2 * MEGABYTE}&length=65536"
    for lines in (f"{3 * LINES_IN_A_MEGABYTE}", f"1-{3 * LINES_IN_A_MEGABYTE}", "99999999-"):
        del lengths[:]
        with pytest.raises(TooLarge) as refused:
            served.catalog.read(f"{BIG}?lines={lines}")
        assert sum(lengths) == 2 * MEGABYTE
        assert refused.value.data["suggested"] == suggested
        assert "as far as lines are searched" in refused.value.message
    assert served.text(suggested).startswith(LINE.decode())
    assert served.text(f"{BIG}?lines={2 * LINES_IN_A_MEGABYTE}") == LINE.decode()


def test_all_that_follows_a_line_is_streamed_without_counting_it(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_source, "MAX_SEARCHED_BYTES", MEGABYTE)
    write_lines(tmp_path / "big.txt", 3)

    given = served.catalog.find(f"{BIG}?lines=3-").read()

    assert isinstance(given, Reading)
    assert given.range == Range(2 * len(LINE), None)
    assert "dev.carrel/lines" not in (given.items[0].meta or {})
    assert served.outcome(f"{BIG}?lines=3-") == "TOOLARGE"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16le"])
def test_holes_of_a_sparse_file_are_passed_unread(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    terabyte = 1 << 40
    mark = b"\xff\xfe" if encoding == "utf-16le" else b""
    head = mark + ("text\n" * 20_000).encode(encoding)
    make_sparse(tmp_path / "big.txt", head, terabyte, "\nlast\n".encode(encoding))
    lengths = counted_reads(monkeypatch)

    assert served.text(f"{BIG}?lines=20002") == "last\n"
    assert served.meta(f"{BIG}?lines=99999999")["start"] == terabyte + len("\nlast\n".encode(encoding))
    assert sum(lengths) < 8 * MEGABYTE


def test_a_search_for_lines_stops_when_it_is_cancelled(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_lines(tmp_path / "big.txt", 20)
    given_up = threading.Event()
    lengths = counted_reads(monkeypatch, lambda number: given_up.set() if number == 3 else None)

    with pytest.raises(Cancelled), Cancellable(given_up.is_set):
        served.text(f"{BIG}?lines=99999999")
    assert len(lengths) == 4


# Lists


def numbered_files(count: int) -> dict[str, str]:
    return {f"d{number % 10}/{number:05}.md": "x" for number in range(count)}


LISTS: dict[str, dict[str, Any]] = {
    "pages": {},
    "numbered pages": {"pageSize": 20},
    "a prefix": {"uri": "workspace://"},
}


def begin_on_loop(connection: Connection, message: bytes) -> bytes | Work | None:
    """Begin a call as HTTP does on its event loop."""
    decoded = jsonrpc.decode(message)
    assert isinstance(decoded, jsonrpc.Message)
    served = {era: eras.served(era, completes=True, calls=False) for era in eras.Era}
    return connection.begin(methods.parse(decoded, served), on_loop=True)


@pytest.mark.parametrize("params", LISTS.values(), ids=LISTS)
def test_a_list_is_never_made_on_the_event_loop(tmp_path: Path, params: dict[str, Any]) -> None:
    fill(tmp_path, numbered_files(60))
    with Served(tmp_path) as served:
        connection = served.server.connect(lambda _: None)
        work = begin_on_loop(connection, request(1, "resources/list", params))
        assert isinstance(work, Work)
        answer = work.run()
    assert answer is not None
    assert len(json.loads(answer)["result"]["resources"]) == params.get("pageSize", 60)


@pytest.mark.slow
def test_a_walk_stops_when_its_request_is_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, numbered_files(2_000))
    looked: list[str] = []
    with Served(tmp_path) as served:
        connection = served.server.connect(lambda _: None)
        work = begin_on_loop(connection, request(1, "resources/list", {"pageSize": 20}))
        assert isinstance(work, Work)
        really = file_types.known_type

        def known_type(name: str) -> tuple[str, bool] | None:
            looked.append(name)
            if len(looked) == 300:
                connection.accept(notification("notifications/cancelled", {"requestId": 1}))
            return really(name)

        monkeypatch.setattr(file_types, "known_type", known_type)
        assert work.run() is None
    assert 300 <= len(looked) < 600


def request(number: int, method: str, params: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()


def notification(method: str, params: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode()


@pytest.mark.slow
def test_a_long_read_holds_up_neither_the_next_one_nor_the_end(tmp_path: Path) -> None:
    """On real pipes: a search for lines that takes long, a small read behind it, and SIGTERM."""
    write_lines(tmp_path / "big.txt", 3)
    (tmp_path / "small.md").write_text("small")
    script = SLOW_LINES.format(root=str(tmp_path))
    child = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert child.stdin
    assert child.stdout
    try:
        child.stdin.write(request(1, "resources/read", {"uri": f"{BIG}?lines=999999999"}) + b"\n")
        child.stdin.write(request(2, "resources/read", {"uri": "workspace:///small.md"}) + b"\n")
        child.stdin.flush()
        assert json.loads(child.stdout.readline())["id"] == 2
        child.terminate()
        assert child.wait(timeout=PATIENCE_S) == 0
    finally:
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()


SLOW_LINES = """
import threading
from carrel.catalog.catalog import Catalog
from carrel.core.provider import Project
from carrel.providers.workspace import Workspace, file_source
from carrel.server.server import Server
from carrel.transports import stdio

really = file_source.FileSource.read

def read(source, start, length):
    if start > 1_000_000:
        threading.Event().wait()  # for ever
    return really(source, start, length)

file_source.FileSource.read = read
stdio.serve(Server(Catalog([Workspace(Project({root!r}, {{}}))])))
"""


# The bounded list: its documents, then the tree, shallow first


def count_opened(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the folders that a list opens."""
    opened = [0]
    really = listing.Listing._open

    def counting(self: listing.Listing, folder: tuple[str, ...]) -> Opened | None:
        opened[0] += 1
        return really(self, folder)

    monkeypatch.setattr(listing.Listing, "_open", counting)
    return opened


@pytest.mark.slow
@pytest.mark.parametrize("inside", ["", "x.bin"])
def test_a_tree_of_many_folders_without_listed_files_has_an_empty_list(tmp_path: Path, inside: str) -> None:
    fill(tmp_path, {f"{number:04}/{inside}": b"\0" for number in range(1_500)})
    with Served(tmp_path) as served:
        assert [entry.uri for entry in served.catalog.chosen().entries] == []


@pytest.mark.slow
@pytest.mark.parametrize("walk", ["shallow_first", "files", "count"])
def test_a_walk_through_many_empty_folders_stops_when_it_is_cancelled(
    tmp_path: Path, walk: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, {f"{number:04}/": "" for number in range(1_500)})
    opened = count_opened(monkeypatch)
    with Served(tmp_path) as served:
        walks = getattr(served.workspace._listings[""], walk)
        with pytest.raises(Cancelled), Cancellable(lambda: opened[0] > 20):
            list(walks() if walk != "count" else [walks()])

    assert opened[0] < 500


@pytest.mark.slow
def test_the_search_for_documents_among_many_names_stops_when_it_is_cancelled(tmp_path: Path) -> None:
    fill(tmp_path, {f"{number:04}.bin": b"\0" for number in range(2_500)} | {"README.md": "x"})
    with Served(tmp_path) as served:
        found = served.workspace._listings[""]
        given_up = Cancellable(lambda: True)
        with pytest.raises(Cancelled), given_up:
            front_documents.find(found)

        assert [entry.segments for _, entry in front_documents.find(found)] == [("README.md",)]
