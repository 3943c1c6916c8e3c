"""Logs as resources: what is listed, read, followed and refused."""

import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from carrel.catalog.catalog import Catalog
from carrel.client.client import Client
from carrel.core.errors import BadArgument, Denied, NotFound, RemoteError
from carrel.core.model import Completion, Text
from carrel.core.provider import Provider
from carrel.providers.logs import Logs
from carrel.providers.logs.log import Bounds
from carrel.providers.logs.log_index import LogIndex
from carrel.providers.logs.spool import SpoolWriter
from carrel.providers.logs.spooled_log import SpoolBounds
from carrel.server.server import Server
from carrel.testing.contract import ProviderContract
from tests.support.http_asking import application, get
from tests.support.logging_project import answer, call, command, ended, logs, meta, read, text, writer
from tests.support.schemas import check
from tests.support.waiting import PATIENCE_S, until

RUN = "logs://run/{id}{?start,length,tail,since,stream,format}"
BUILD = "logs://build/{id}{?start,length,tail,since,stream,format}"
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


COMMANDS = {
    "two": command("echo one; sleep 0.05; echo two >&2; exit 3"),
    "many": command("seq 1 25"),
    "wide": command("printf 'aé€😀z\\n'"),
    "cat": command("echo start; exec sleep 60"),
    "made": command("echo built", kind="build"),
}


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Logs]:
    made = logs(tmp_path, COMMANDS, max_entries=10)
    yield made
    made.close()


class Shelved(NamedTuple):
    """Logs that have ended, by the names of their commands; they are only looked at, so one shelf does for all."""

    provider: Logs
    uris: dict[str, str]


@pytest.fixture(scope="module")
def shelved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelved]:
    made = logs(tmp_path_factory.mktemp("shelved"), COMMANDS, max_entries=10)
    yield Shelved(made, {name: finished(made, name) for name in ("two", "many", "wide", "made")})
    made.close()


def start(provider: Logs, name: str) -> str:
    return str(answer(call(provider, "process.start", name=name))["logResourceUri"])


def finished(provider: Logs, name: str) -> str:
    uri = start(provider, name)
    ended(provider, uri)
    return uri


# Reading


def test_a_log_is_its_lines_and_nothing_is_added(shelved: Shelved) -> None:
    provider, uri = shelved.provider, shelved.uris["two"]
    told = meta(provider, uri)

    assert text(provider, uri) == "one\ntwo\n"
    assert re.fullmatch(r"\d+", str(told.pop("duration-ms")))
    assert re.fullmatch(r"\d{4}-.*Z", told.pop("started-at"))
    assert told == {
        "uri": uri,
        "encoding": "utf-8",
        "total": 8,
        "start": 0,
        "length": 8,
        "entries": 2,
        "dropped-entries": 0,
        "dropped-bytes": 0,
        "state": "exited",
        "exit-code": 3,
        "cursor": 2,
    }
    assert (read(provider, uri).etag, read(provider, uri).ttl_ms) == ("2-exited", 60_000)


def test_a_running_log_is_stale_at_once(provider: Logs) -> None:
    uri = start(provider, "cat")

    assert (read(provider, uri).etag, read(provider, uri).ttl_ms) == ("1-running", 0)
    assert meta(provider, uri)["exit-code"] is None


def test_the_full_format_tells_times_streams_and_what_became_of_it(shelved: Shelved) -> None:
    provider, uri = shelved.provider, shelved.uris["two"]
    lines = text(provider, f"{uri}?format=full").splitlines()

    assert [re.sub(f"^{TIME} ", "", line) for line in lines[:-1]] == ["sys started sh", "out one", "err two"]
    assert re.fullmatch(rf"{TIME} sys exited 3 after \d+\.\d s", lines[-1])


def test_json_lines_have_the_same(shelved: Shelved) -> None:
    provider, uri = shelved.provider, shelved.uris["two"]
    reading = read(provider, f"{uri}?format=json")
    [item] = reading.items
    lines = [json.loads(line) for line in text(provider, f"{uri}?format=json").splitlines()]

    assert item.mime_type == "application/x-ndjson"
    assert [list(line) for line in lines[:2]] == [["time", "stream", "text"], ["seq", "time", "stream", "text"]]
    assert [(line.get("seq"), line["stream"], line["text"]) for line in lines[:-1]] == [
        (None, "sys", "started sh"),
        (1, "out", "one"),
        (2, "err", "two"),
    ]
    assert all(re.fullmatch(TIME, line["time"]) for line in lines)


def test_carrels_own_lines_say_what_was_dropped_and_are_no_entries(shelved: Shelved) -> None:
    provider, uri = shelved.provider, shelved.uris["many"]
    own = [line[25:] for line in text(provider, f"{uri}?format=full").splitlines() if " sys " in line]

    assert own[:2] == ["sys started sh", "sys dropped 15 entries, 36 bytes"]
    assert [line[25:30] for line in text(provider, f"{uri}?format=full&tail=1").splitlines()] == ["out 2", "sys e"]
    assert [line[25:30] for line in text(provider, f"{uri}?format=full&since=25").splitlines()] == ["sys e"]
    assert [line[25:] for line in text(provider, f"{uri}?format=full&tail=1&stream=out").splitlines()] == ["out 25"]
    assert meta(provider, f"{uri}?format=full")["entries"] == 10


@pytest.mark.parametrize(
    ("query", "expected", "cursor", "missed"),
    [
        ("", range(16, 26), 25, 15),
        ("?tail=3", range(23, 26), 25, None),
        ("?tail=99", range(16, 26), 25, None),
        ("?since=0", range(16, 26), 25, 15),
        ("?since=12", range(16, 26), 25, 3),
        ("?since=15", range(16, 26), 25, None),
        ("?since=20", range(21, 26), 25, None),
        ("?since=25", (), 25, None),
        ("?since=999", (), 25, None),
        ("?stream=err", (), 25, 15),
        ("?stream=out&tail=2", (24, 25), 25, None),
    ],
)
def test_parts_and_cursors_survive_dropping(
    shelved: Shelved, query: str, expected: Any, cursor: int, missed: int | None
) -> None:
    provider, uri = shelved.provider, shelved.uris["many"]
    told = meta(provider, uri + query)

    assert text(provider, uri + query) == "".join(f"{number}\n" for number in expected)
    assert (told["cursor"], told.get("missed")) == (cursor, missed)


def test_a_reader_that_polls_sees_every_line_once(tmp_path: Path) -> None:
    provider = logs(
        tmp_path, {"count": command("i=0; while [ $i -lt 3000 ]; do echo $i; i=$((i+1)); done")}, max_entries=50
    )
    uri = str(answer(call(provider, "process.start", name="count"))["logResourceUri"])
    cursor, seen, missed, state = 0, [], 0, "running"
    while state == "running":
        [item] = read(provider, f"{uri}?since={cursor}").items
        assert isinstance(item, Text)
        told = item.meta or {}
        seen += item.text.splitlines()
        cursor, state = int(str(told["dev.carrel/cursor"])), str(told["dev.carrel/state"])
        missed += int(str(told.get("dev.carrel/missed", 0)))
    seen += text(provider, f"{uri}?since={cursor}").splitlines()
    provider.close()

    assert len(seen) == len(set(seen))
    assert len(seen) + missed == 3_000
    assert seen == sorted(seen, key=int)


@pytest.mark.parametrize(
    ("start", "length", "expected", "place"),
    [(0, 2, "aé", (0, 3)), (2, 1, "", (3, 0)), (2, 2, "€", (3, 3)), (4, 3, "😀", (6, 4)), (99, 5, "", (12, 0))],
)
def test_ranges_hold_whole_characters(
    shelved: Shelved, start: int, length: int, expected: str, place: tuple[int, int]
) -> None:
    provider, uri = shelved.provider, shelved.uris["wide"]
    with Client.to(Server(Catalog([provider]))) as client:
        [item] = client.read(f"{uri}?start={start}&length={length}").items

    assert isinstance(item, Text)
    told = item.meta or {}
    assert (item.text, told["dev.carrel/total"]) == (expected, 12)
    assert (told["dev.carrel/start"], told["dev.carrel/length"]) == place


@pytest.mark.parametrize("way", ["tail", "since"])
def test_a_part_is_not_cut_again(shelved: Shelved, way: str) -> None:
    provider, uri = shelved.provider, shelved.uris["two"]
    with Client.to(Server(Catalog([provider]))) as client, pytest.raises(RemoteError) as caught:
        client.request("resources/read", {"uri": f"{uri}?{way}=1", "start": 0})

    assert caught.value.message == f"Invalid parameter: start, length ({way} gives a part, which is not cut again)"


def test_fly_fields_stand_beside_the_standard_ones(provider: Logs) -> None:
    uri = finished(provider, "two")
    with Client.to(Server(Catalog([provider]))) as client:
        read = client.request("resources/read", {"uri": uri, "start": 4, "length": 2})
        listed = client.request("resources/list", {"uri": "logs://run"})
        with pytest.raises(RemoteError) as caught:
            client.request("resources/read", {"uri": f"{uri}?tail=1", "start": 0})

    assert {key: read[key] for key in ("content", "encoding", "total", "start", "length")} == {
        "content": "tw",
        "encoding": "utf-8",
        "total": 8,
        "start": 4,
        "length": 2,
    }
    assert read["contents"][0]["_meta"]["dev.carrel/next"] == f"{uri}?start=6&length=2"
    assert (listed["items"], listed["total"]) == ([{"uri": uri, "size": 8, "entries": 2}], 1)
    assert caught.value.code == -32602


def test_an_unfinished_line_is_there_after_a_silence(tmp_path: Path) -> None:
    provider = logs(tmp_path, {"ask": command("printf 'Password: '; exec sleep 60")})
    uri = str(answer(call(provider, "process.start", name="ask"))["logResourceUri"])
    until(lambda: bool(text(provider, uri)))
    line = json.loads(text(provider, f"{uri}?format=json&tail=1"))
    provider.close()

    assert (line["text"], line["partial"]) == ("Password: ", True)


# What is refused

REFUSED = {
    "?tail=0": "tail",
    "?tail=-1": "tail",
    "?since=x": "since",
    "?since=": "since",
    "?stream=both": "stream",
    "?format=xml": "format",
    "?tail=5&since=3": "since",
    "?start=0&tail=3": "tail",
    "?start=-1": "start",
    "?start=1e3": "start",
    "?start=1&start=2": "start",
    "?length=1234567890123456": "length",
    "?foo=1": "foo",
}


@pytest.mark.parametrize(("query", "parameter"), REFUSED.items())
def test_a_bad_query_names_its_key(shelved: Shelved, query: str, parameter: str) -> None:
    provider, uri = shelved.provider, shelved.uris["two"]
    with pytest.raises(BadArgument) as caught:
        read(provider, uri + query)

    assert caught.value.data == {"parameter": parameter}
    assert caught.value.message.startswith(f"Invalid parameter: {parameter}=")


@pytest.mark.parametrize(
    "uri", ["logs://run/nope", "logs://other/x", "logs://run/a/b", "logs://run/x/", "logs://run/.x", "logs://run/%41b"]
)
def test_what_is_not_there_is_not_found(shelved: Shelved, uri: str) -> None:
    with pytest.raises(NotFound):
        read(shelved.provider, uri)


@pytest.mark.parametrize(
    "uri", ["logs://run/..", "logs://run/..%2fbuild", "logs://run/%2e%2e", "logs://../x", "logs://run/a%5cb"]
)
def test_nothing_leads_out_of_the_logs(shelved: Shelved, uri: str) -> None:
    with pytest.raises(Denied) as caught:
        read(shelved.provider, uri)

    assert caught.value.data == {"reason": "outside"}
    assert caught.value.message == f"Access denied: {uri} (outside the logs)"


@pytest.mark.parametrize("uri", ["logs://run/x#y", "logs://run/%zz", "logs://run/%00"])
def test_a_malformed_uri_is_a_bad_argument(shelved: Shelved, uri: str) -> None:
    with pytest.raises(BadArgument):
        read(shelved.provider, uri)


def test_other_spellings_of_a_log_are_read(shelved: Shelved) -> None:
    provider, uri = shelved.provider, shelved.uris["two"]
    name = uri.rpartition("/")[2]

    for spelled in (f"LOGS://run/{name}", f"logs://RUN/{name}", f"logs:///run/{name}", f"{uri}?"):
        assert text(provider, spelled) == "one\ntwo\n"


# Listing


def test_entries_are_in_the_order_of_their_uris_and_say_it_in_words(shelved: Shelved) -> None:
    provider, uris = shelved.provider, shelved.uris.values()
    entries = list(provider.entries())

    assert [entry.uri for entry in entries] == sorted(uris)
    assert [entry.uri for entry in provider.entries(after=entries[0].uri)] == sorted(uris)[1:]
    many = entries[1]
    assert (many.size, many.mime_type, many.name) == (30, "text/plain", many.uri.removeprefix("logs://"))
    assert re.fullmatch(r"exited 0 after \d+\.\d s, 10 entries, 15 dropped", many.description)
    assert (many.meta or {})["dev.carrel/etag"] == "25-exited"


@pytest.mark.parametrize(
    ("prefix", "kinds"),
    [
        ("logs://run", ["many", "two", "wide"]),
        ("logs://run/", ["many", "two", "wide"]),
        ("logs://run/t", ["two"]),
        ("logs://build", ["made"]),
        ("logs://", ["made", "many", "two", "wide"]),
        ("LOGS:///run", ["many", "two", "wide"]),
        ("", ["made", "many", "two", "wide"]),
        ("workspace://", []),
        ("nope:", []),
    ],
)
def test_a_prefix_chooses(shelved: Shelved, prefix: str, kinds: list[str]) -> None:
    found = [entry.uri.rpartition("/")[2].partition("_")[0] for entry in shelved.provider.browse(None, prefix)]

    assert found == kinds


def test_a_prefix_that_leads_out_is_denied_and_no_log_lies_in_a_folder_of_files(shelved: Shelved) -> None:
    with pytest.raises(Denied):
        list(shelved.provider.browse(None, "logs://run/../x"))
    assert list(shelved.provider.browse("lib", "")) == []


def test_a_folder_gives_each_logs_line(provider: Logs) -> None:
    uri = finished(provider, "two")

    for spelled in ("logs://run", "logs://run/"):
        [item] = read(provider, spelled).items
        assert isinstance(item, Text)
        assert (item.uri, item.mime_type) == (uri, "text/plain")
        assert re.fullmatch(r"exited 3 after \d+\.\d s, 2 entries, 0 dropped", item.text)
        told = item.meta or {}
        assert (told["dev.carrel/entry"], told["dev.carrel/total"], told["dev.carrel/length"]) == (True, 8, 0)
    assert read(provider, "logs://build").items == (Text("", "inode/directory"),)
    assert [item.uri for item in read(provider, "logs://").items] == ["logs://build", "logs://run"]
    with pytest.raises(BadArgument):
        Catalog([provider]).read("logs://run?start=0")


@pytest.mark.parametrize("count", [0, 1, 2])
def test_on_plain_http_a_folder_is_json_however_many_logs_it_has(provider: Logs, count: int) -> None:
    uris = [finished(provider, "two") for _ in range(count)]
    reply = get(application(provider), "/logs/run")

    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    assert [item["uri"] for item in reply.json["contents"]] == (uris or ["logs://run"])


def test_the_oldest_that_has_ended_makes_room_and_running_ones_stay(tmp_path: Path) -> None:
    provider = logs(tmp_path, {"stay": command("exec sleep 60"), "go": command("true", max_running=9)}, max_logs=3)
    stays = start(provider, "stay")
    gone = [finished(provider, "go") for _ in range(4)]
    listed = [entry.uri for entry in provider.entries()]
    kept = [one["logResourceUri"] for one in answer(call(provider, "process.list"))["processes"]]
    provider.close()

    assert listed == sorted([stays, *gone[-2:]])
    assert kept == [*reversed(gone[-2:]), stays]


def test_completion_offers_the_newest_first(provider: Logs) -> None:
    first, second = (finished(provider, "two").rpartition("/")[2] for _ in range(2))
    build = finished(provider, "made").rpartition("/")[2]

    assert provider.complete(RUN, "id", "two_", {}) == Completion((second, first), total=2, has_more=False)
    assert provider.complete(BUILD, "id", "", {}) == Completion((build,), total=1, has_more=False)
    assert provider.complete(RUN, "stream", "", {}).values == ("out", "err")
    assert provider.complete(RUN, "format", "j", {}).values == ("json",)
    assert provider.complete(RUN, "tail", "", {}).values == ()


# Watching


def test_lines_the_end_and_new_logs_are_reported(provider: Logs) -> None:
    uri = start(provider, "cat")
    with (
        Client.to(Server(Catalog([provider]))) as client,
        client.listen([uri, f"{uri}?tail=1"], list_changes=True) as told,
    ):
        start(provider, "two")
        heard = {told.wait(PATIENCE_S)}
        call(provider, "process.stop", id=uri.rpartition("/")[2])
        while not {uri, f"{uri}?tail=1"} <= heard:
            heard.add(told.wait(PATIENCE_S))

    assert heard == {"", uri, f"{uri}?tail=1"}


def test_a_log_of_another_process_is_reported_as_it_grows_and_when_its_writer_dies(tmp_path: Path) -> None:
    provider = logs(tmp_path)
    log = writer(tmp_path)
    with Client.to(Server(Catalog([provider]))) as client, client.listen([log.uri]) as told:
        log.feed("out", b"one\n")
        assert told.wait(PATIENCE_S) == log.uri
        assert (text(provider, log.uri), meta(provider, log.uri)["state"]) == ("one\n", "running")
        log.close()
        assert told.wait(PATIENCE_S) == log.uri
        assert meta(provider, log.uri)["state"] == "lost"
    provider.close()


def test_what_happens_as_soon_as_a_log_is_watched_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()

    class Late(threading.Thread):
        """A thread that a busy machine lets run late."""

        def run(self) -> None:
            go.wait(PATIENCE_S)
            super().run()

    changes = Heard()
    log = writer(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(threading, "Thread", Late)
        stop = LogIndex(str(tmp_path), SpoolBounds(Bounds(), Bounds()), 64).watch(changes)
    log.feed("out", b"one\n")
    new = writer(tmp_path, "new")
    go.set()
    until(changes.list.is_set)
    stop()
    log.close()
    new.close()

    assert changes.uris == {log.uri, new.uri, "logs://run"}


class Heard:
    """Takes what is reported."""

    def __init__(self) -> None:
        self.uris: set[str] = set()
        self.list = threading.Event()

    def updated(self, uri: str, fingerprint: str = "") -> None:
        assert not fingerprint
        self.uris.add(uri)

    def updated_below(self, uri: str) -> None:
        raise AssertionError(uri)

    reconsidered = updated_below

    def ask_aliases(self, aliases: Callable[[str], Sequence[str]]) -> None:
        raise AssertionError(aliases)

    def list_changed(self) -> None:
        self.list.set()


def test_the_survey_is_another_when_a_log_comes_or_goes_and_the_same_when_one_grows(tmp_path: Path) -> None:
    provider = logs(tmp_path, {"go": command("echo one")}, max_logs=1)
    surveys = [provider.list_fingerprint()]
    log = writer(tmp_path)
    surveys.append(provider.list_fingerprint())
    finished(provider, "go")
    surveys.append(provider.list_fingerprint())
    finished(provider, "go")
    surveys.append(provider.list_fingerprint())
    log.feed("out", b"one\n")
    log.close()
    grown = provider.list_fingerprint()
    provider.close()

    assert len(set(surveys)) == 4
    assert grown == surveys[-1]


# The laws of every provider


@pytest.mark.slow
class TestLogs(ProviderContract):
    """A log that has ended, in memory, and one that somebody else is writing."""

    @pytest.fixture(autouse=True)
    def _project(self, tmp_path: Path) -> Iterator[None]:
        self.root = tmp_path
        self.writer: SpoolWriter = writer(tmp_path)
        self.writer.feed("out", "one\nzwei €\n".encode())
        self.made: list[Logs] = []
        yield
        self.writer.close()
        for provider in self.made:
            provider.close()

    def provider(self) -> Provider:
        provider = logs(self.root, {"two": command("echo one; echo two >&2")})
        self.made.append(provider)
        finished(provider, "two")
        return provider

    def missing_uri(self) -> str:
        return "logs://run/nope_1"

    def change(self, uri: str) -> None:
        if uri != self.writer.uri:
            raise NotImplementedError
        self.writer.feed("out", b"more\n")

    def variables(self) -> dict[str, str | dict[str, str]]:
        name = self.writer.uri.rpartition("/")[2]
        return {RUN: {"id": name, "tail": "1", "stream": "out", "format": "full"}}

    def validate(self, message: bytes, version: str, method: str) -> None:
        check(message, version, method)


# Whatever a process prints


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "entries", "size", "last"),
    [
        ("head -c 10000000 /dev/zero | tr '\\0' x; echo", 1, 102_390, f"{'x' * 102_367}…[cut 9897633 bytes]\n"),
        ("head -c 3000000 /dev/zero | tr '\\0' x", 1, 102_390, f"{'x' * 102_367}…[cut 2897633 bytes]\n"),
        ("head -c 3000000 /dev/zero", 0, 0, ""),
        ("yes | head -n 300000", 1_000, 2_000, "y\n"),
        ("yes ' ' | head -c 2000000 | tr ' ' '\\r'", 1_000, 1_000, "\n"),
    ],
    ids=["a line of 10 MB", "no line end", "nothing but NUL", "many lines", "carriage returns"],
)
def test_a_log_is_bounded_exactly(tmp_path: Path, script: str, entries: int, size: int, last: str) -> None:
    provider = logs(tmp_path, {"print": command(script, kind="build")})
    uri = str(answer(call(provider, "process.start", name="print"))["logResourceUri"])
    told = meta(provider, uri)
    provider.close()

    assert (told["entries"], told["total"], told["state"]) == (entries, size, "exited")
    assert text(provider, f"{uri}?tail=1") == last


@pytest.mark.slow
def test_noise_without_end_is_bounded_while_it_runs(tmp_path: Path) -> None:
    provider = logs(tmp_path, {"noise": command("exec cat /dev/urandom")})
    uri = str(answer(call(provider, "process.start", name="noise"))["logResourceUri"])
    until(lambda: meta(provider, uri)["dropped-bytes"] > 1_000_000)
    told = meta(provider, uri)
    provider.close()

    assert told["total"] <= 102_400
    assert told["entries"] <= 1_000
    assert told["entries"] + told["dropped-entries"] == told["cursor"]
