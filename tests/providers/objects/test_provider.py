"""Objects as providers: the contract, and every row of what an object may do wrong."""

import asyncio
import contextlib
import logging
import re
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from time import monotonic
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

import carrel
from carrel import BadArgument, NotFound, Resource, Template
from carrel.catalog.catalog import Catalog
from carrel.catalog.watcher import Watcher
from carrel.client.client import Client, EraName
from carrel.core.errors import ConfigError, ProviderError, RemoteError
from carrel.core.limits import WORKER_THREADS
from carrel.core.model import Blob, Text, ToolResult
from carrel.providers import objects
from carrel.providers.mirror import Mirror
from carrel.providers.objects import (
    Contents,
    Failure,
    ObjectProvider,
    ObjectSettings,
    TextContent,
    ToolMethod,
    serve_object,
)
from carrel.providers.objects.calls import Busy, Calls, Late
from carrel.server.server import Server
from carrel.testing.contract import ProviderContract
from carrel.transports.http.app import App
from tests.support import http_asking
from tests.support.greenhouse import Greenhouse
from tests.support.greenhouse_contract import GreenhouseFacts
from tests.support.waiting import PATIENCE_S, until

ERAS: tuple[EraName, ...] = ("modern", "legacy")
NOT_FOUND = {"modern": -32602, "legacy": -32002}


class TestGreenhouse(GreenhouseFacts, ProviderContract):
    """The example of the page passes the contract, unchanged."""

    def provider(self) -> Any:
        self.beds = {"north": 41.5, "south": 12.0}
        return Greenhouse(self.beds)


class TestDatabase(ProviderContract):
    """An object that uses sqlite3 plainly: it is built on the thread that it is called on."""

    deadline_s = 10.0

    def provider(self) -> Any:
        return Database()


class Database:
    def __init__(self) -> None:
        self._rows = sqlite3.connect(":memory:")
        self._rows.execute("CREATE TABLE bed (name TEXT)")
        self._rows.execute("INSERT INTO bed VALUES ('north'), ('south')")

    def capabilities(self) -> list[str]:
        return ["resources"]

    def resources(self) -> list[Resource]:
        names = self._rows.execute("SELECT name FROM bed")
        return [Resource(f"database://beds/{name}", name, "", "text/plain") for [name] in names]

    def resource_read(self, uri: str, arguments: list[tuple[str, str]]) -> Any:
        found = self._rows.execute("SELECT name FROM bed WHERE name = ?", [uri.rpartition("/")[2]])
        return Contents([TextContent(uri, "text/plain", name) for [name] in found])

    def close(self) -> None:
        self._rows.close()


class Shelf:
    """One listed URI and one template; `given` is what a read gives, or does."""

    def __init__(self, given: Any = None, listed: list[Any] | None = None) -> None:
        self.given = given
        self.listed = [Resource("shelf://a", "a", "", "text/x-a")] if listed is None else listed
        self.handed: list[tuple[str, list[tuple[str, str]]]] = []
        self.lists = 0

    def capabilities(self) -> list[str]:
        return ["resources"]

    def resources(self) -> Any:
        self.lists += 1
        return self.listed

    def resource_templates(self) -> list[Any]:
        return [Template("shelf://t/{x}", "t", "", "text/x-t"), Template("shelf://r/{x}{?start}", "r", "", "")]

    def resource_read(self, uri: str, arguments: list[tuple[str, str]]) -> Any:
        self.handed.append((uri, arguments))
        if callable(self.given):
            return self.given(uri)
        return Contents([TextContent(uri, "", "text")]) if self.given is None else self.given


@contextlib.contextmanager
def served(made: object, era: EraName = "modern", **settings: Any) -> Iterator[Client]:
    catalog = Catalog([serve_object(made, **settings)])
    with Client.to(Server(catalog, Watcher(catalog, 0.05)), era) as client:
        yield client
    catalog.close()


def refusal(client: Client, uri: str) -> RemoteError:
    with pytest.raises(RemoteError) as caught:
        client.read(uri)
    return caught.value


def facts(error: RemoteError) -> tuple[int, str, object]:
    return error.code, error.message, error.data["dev.carrel/error"]


# Reading


@pytest.mark.parametrize("era", ERAS)
def test_the_page_s_example_reads_as_the_page_says(era: EraName) -> None:
    with served(Greenhouse({"north": 41.5, "south": 12.0}), era) as client:
        [item] = client.read("greenhouse://house/summary?below=20").items
        assert isinstance(item, Text)
        assert (item.uri, item.text, item.mime_type) == (
            "greenhouse://house/summary?below=20",
            "south 12.0",
            "text/plain",
        )
        wrong = refusal(client, "greenhouse://house/summary?below=wet")
        assert facts(wrong) == (-32602, "below must be a whole number", "invalid")
        east = refusal(client, "greenhouse://house/beds/east")
        assert (east.code, east.data["uri"]) == (NOT_FOUND[era], "greenhouse://house/beds/east")
        assert client.call("driest").blocks == ("south",)
        assert client.complete("greenhouse://house/beds/{bed}", "bed", "n").values == ("north",)


@pytest.mark.parametrize(
    ("asked", "handed"),
    [
        ("shelf://a", ("shelf://a", [])),
        ("SHELF://%61", ("shelf://a", [])),
        ("shelf://a?x=1&x=%2F+&y", ("shelf://a", [("x", "1"), ("x", "/+"), ("y", "")])),
        ("shelf://q?v=1", ("shelf://q?v=1", [])),
        ("shelf://q?v=1&w=2", ("shelf://q", [("v", "1"), ("w", "2")])),
        ("shelf://t/5?u=7", ("shelf://t/5", [("u", "7")])),
        ("shelf://t/%C3%A9", ("shelf://t/%C3%A9", [])),
        ("shelf://r/5?start=3&u=1", ("shelf://r/5", [("start", "3"), ("u", "1")])),
        ("shelf://a?start=0&u=1&length=2", ("shelf://a", [("u", "1")])),
        ("shelf://t/5?length=2", ("shelf://t/5", [])),
    ],
)
def test_the_object_is_handed_the_declared_uri_and_the_query_as_pairs(asked: str, handed: tuple[str, Any]) -> None:
    listed = [Resource("shelf://a", "a"), Resource("shelf://q?v=1", "q1"), Resource("shelf://q", "q")]
    shelf = Shelf(listed=listed)
    with served(shelf) as client:
        [item] = client.read(asked).items

    assert shelf.handed == [handed]
    assert item.uri == asked


def test_an_item_without_a_type_has_that_of_its_entry() -> None:
    with served(Shelf()) as client:
        types = [client.read(uri).items[0].mime_type for uri in ("shelf://a", "shelf://t/1")]

    assert types == ["text/x-a", "text/x-t"]


def test_a_range_is_cut_by_the_catalogue() -> None:
    with served(Shelf()) as client:
        [item] = client.read("shelf://a?start=1&length=2").items

    assert isinstance(item, Text)
    assert item.text == "ex"


def test_several_items_may_lie_beneath_or_be_served_by_the_same_object() -> None:
    uris = ["shelf://a", "shelf://a/1", "shelf://t/9"]
    with served(Shelf(Contents([TextContent(uri, "text/plain", uri) for uri in uris]))) as client:
        assert [item.uri for item in client.read("shelf://a").items] == uris


def test_an_object_that_knows_nothing_of_carrel_is_served_by_its_looks() -> None:
    item = SimpleNamespace(uri="shelf://a", mime_type="image/png", base64_data="AAE=")
    listed = [SimpleNamespace(uri="shelf://a", name="a", description="", mime_type="")]
    with served(Shelf(SimpleNamespace(items=[item]), listed)) as client:
        assert client.read("shelf://a").items[0] == Blob(
            b"\0\1", "image/png", uri="shelf://a", meta=client.read("shelf://a").items[0].meta
        )


def raising(error: BaseException) -> Callable[[str], Any]:
    def read(uri: str) -> Any:
        raise error

    return read


Wrong: Any = SimpleNamespace(Contents=Contents, Text=TextContent, Blob=objects.BlobContent)
"""The values again, for what no type checker would let pass."""

FAILED = (-32603, "Resource read failed", "failed")
RUBBISH = (-32603, "Resource read failed", "bad_result")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (raising(KeyError("/etc/passwd")), FAILED),
        (raising(SystemExit(3)), FAILED),
        (raising(KeyboardInterrupt()), FAILED),
        (raising(carrel.Denied("no", reason="because")), FAILED),
        (raising(BadArgument("one\ntwo")), (-32602, "one two", "invalid")),
        (lambda uri: None, FAILED),
        (Failure("Sensor is off"), (-32603, "Sensor is off", "failed")),
        (Failure("two\nlines " + "x" * 300), (-32603, "two lines " + "x" * 190, "failed")),
        (Failure(""), FAILED),
        ("text", RUBBISH),
        ({"items": []}, RUBBISH),
        (Wrong.Contents(["text"]), RUBBISH),
        (SimpleNamespace(items="text"), RUBBISH),
        (Contents([Wrong.Text("shelf://a", "", 5)]), RUBBISH),
        (Contents([TextContent("shelf://a", "", "\ud800")]), RUBBISH),
        (Contents([Wrong.Text("shelf://a", 5, "")]), RUBBISH),
        (Contents([TextContent("shelf://a", "", "", meta={"x": {1}})]), RUBBISH),
        (Contents([TextContent("other://a", "", "")]), RUBBISH),
        (Contents([TextContent("shelf://b", "", "")]), RUBBISH),
        (Contents([TextContent("shelf://a/../b", "", "")]), RUBBISH),
        (Contents([TextContent("a", "", "")]), RUBBISH),
        (Contents([objects.BlobContent("shelf://a", "", "AAE")]), RUBBISH),
        (Contents([objects.BlobContent("shelf://a", "", "AA E=")]), RUBBISH),
        (Contents([objects.BlobContent("shelf://a", "", "AB==")]), RUBBISH),
        (Contents([Wrong.Blob("shelf://a", "", b"AAE=")]), RUBBISH),
    ],
)
@pytest.mark.parametrize("era", ERAS)
def test_what_an_object_does_wrong_is_reported_without_its_internals(
    given: Any, told: tuple[int, str, str], era: EraName, caplog: pytest.LogCaptureFixture
) -> None:
    with served(Shelf(given), era) as client:
        error = refusal(client, "shelf://a")
        again = client.page().entries

    assert facts(error) == told
    assert [entry.uri for entry in again] == ["shelf://a"]
    if error.code == -32603:
        assert set(error.data) == {"uri", "dev.carrel/error", "incident"}
        assert error.data["uri"] == "shelf://a"
        assert re.fullmatch("[0-9a-f]{8}", str(error.data["incident"]))
        assert f"incident {error.data['incident']}" in caplog.text


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("uri", "given"),
    [
        ("shelf://b", None),
        ("shelf://t/a/b", None),
        ("shelf://t/1", lambda uri: None),
        ("shelf://t/1", raising(NotFound("shelf://else"))),
        ("shelf://a", raising(NotFound("shelf://else"))),
    ],
)
def test_what_is_not_there_is_not_found(era: EraName, uri: str, given: Any) -> None:
    with served(Shelf(given), era) as client:
        error = refusal(client, uri)

    assert (error.code, error.data["uri"], error.data["dev.carrel/error"]) == (NOT_FOUND[era], uri, "not_found")
    assert error.message == f"Resource not found: {uri}"


@pytest.mark.parametrize(
    "uri",
    [
        "a",
        "shelf://a%",
        "shelf://a%00",
        "shelf://a\0",
        "shelf://a#x",
        "shelf://" + "a" * 8_192,
        "shelf://a?" + "&".join(["x=1"] * 65),
        "shelf://t/1?" + "&".join(["x=1"] * 65),
        "shelf://t/%ff",
    ],
)
def test_an_unsound_uri_is_invalid_and_the_object_is_not_called(uri: str) -> None:
    shelf = Shelf()
    with served(shelf, "legacy") as client:
        error = refusal(client, uri)

    assert (error.code, error.data["dev.carrel/error"], shelf.handed) == (-32602, "invalid", [])


def test_empty_contents_exist() -> None:
    with served(Shelf(Contents([]))) as client:
        assert client.request("resources/read", {"uri": "shelf://a"})["contents"] == []


def test_what_does_not_fit_one_message_names_a_part_that_does() -> None:
    with served(Shelf(Contents([TextContent("shelf://a", "", "x" * 3_000_000)]))) as client:
        error = refusal(client, "shelf://a")
        part = client.read(str(error.data["suggested"])).items[0]

    assert (error.code, error.data["dev.carrel/error"]) == (-32802, "too_large")
    assert isinstance(part, Text)
    assert set(part.text) == {"x"}


# Time


def test_a_read_that_hangs_times_out_and_the_next_is_answered() -> None:
    released = threading.Event()
    shelf = Shelf(lambda uri: released.wait(PATIENCE_S) if uri.endswith("a") else Contents([]))
    with served(shelf, timeout_s=0.2) as client:
        assert facts(refusal(client, "shelf://a")) == (-32603, "Resource read timed out", "timeout")
        assert until(lambda: ask(client, "shelf://t/1"))  # the next may be late on a busy machine
        released.set()


def test_after_eight_threads_are_given_up_the_object_is_busy_until_one_comes_back() -> None:
    released = threading.Event()
    shelf = Shelf(lambda uri: released.wait(PATIENCE_S) if uri.endswith("a") else Contents([]))
    with served(shelf, timeout_s=0.2) as client:
        told = [facts(refusal(client, "shelf://a"))[1:] for _ in range(9)]
        assert told == [("Resource read timed out", "timeout")] * 8 + [("Provider is busy", "busy")]
        released.set()
        assert until(lambda: ask(client, "shelf://t/1"))


class Desk(Shelf):
    """Another object, which hangs nowhere."""

    def __init__(self) -> None:
        super().__init__(None, [Resource("desk://a", "a")])

    def resource_templates(self) -> list[Any]:
        return []


def ask(client: Client, uri: str) -> object:
    with contextlib.suppress(RemoteError):
        return client.read(uri)
    return None


def ask_mirror(client: Client, uri: str) -> ToolResult:
    return client.call("read_resource", {"uri": uri})


@contextlib.contextmanager
def over_memory(server: Server) -> Iterator[Callable[[], Client]]:
    yield lambda: Client.to(server)


@contextlib.contextmanager
def over_http(server: Server) -> Iterator[Callable[[], Client]]:
    with http_asking.listening(App(server, http_asking.OPEN)) as port:
        yield lambda: Client.at(f"http://127.0.0.1:{port}/mcp", timeout_s=PATIENCE_S)


@pytest.mark.slow
@pytest.mark.parametrize("door", [over_memory, over_http])
@pytest.mark.parametrize("way", [ask, ask_mirror])
@pytest.mark.parametrize("concurrency", [1, 64])
def test_an_object_whose_reads_all_hang_delays_no_other(door: Any, way: Any, concurrency: int) -> None:
    entered, released = threading.Semaphore(0), threading.Event()

    def hang(_uri: str) -> Contents:
        entered.release()
        released.wait(PATIENCE_S)
        return Contents([])

    catalog = Catalog([serve_object(Shelf(hang), "shelf", concurrency=concurrency), serve_object(Desk(), "desk")])
    catalog.mount(Mirror(catalog))
    with door(Server(catalog)) as connect, connect() as client:
        many = [threading.Thread(target=way, args=(client, "shelf://a")) for _ in range(3 * WORKER_THREADS)]
        for thread in many:
            thread.start()
        for _ in range(min(concurrency, WORKER_THREADS)):
            assert entered.acquire(timeout=PATIENCE_S)
        client.timeout_s = 5.0
        assert client.read("desk://a").items
        assert not ask_mirror(client, "desk://a").is_error
        assert not released.is_set()
        released.set()
        for thread in many:
            thread.join(PATIENCE_S)
    catalog.close()


def test_who_finds_no_free_slot_in_time_is_told_that_the_object_is_busy() -> None:
    entered, released = threading.Event(), threading.Event()
    calls = Calls("shelf", concurrency=1)

    def wait() -> None:
        entered.set()
        released.wait(PATIENCE_S)

    first = threading.Thread(target=calls.call, args=(wait, PATIENCE_S))
    first.start()
    assert entered.wait(PATIENCE_S)
    with pytest.raises(Busy):
        calls.call(lambda: None, 0.05)
    released.set()
    first.join(PATIENCE_S)
    assert calls.call(lambda: 5, PATIENCE_S) == 5
    calls.close()


def test_a_thread_that_waits_for_a_call_keeps_nothing_of_the_one_before() -> None:
    calls = Calls("shelf", concurrency=1)
    kept: weakref.ref[set[object]] = weakref.ref(calls.call(set, PATIENCE_S))

    until(lambda: kept() is None)
    calls.close()


class Ledger(Shelf):
    """Uses sqlite3 as its page shows it: the connection belongs to the thread that opened it."""

    made: ClassVar[list["Ledger"]]

    def __init__(self) -> None:
        super().__init__()
        self.made.append(self)
        self.released = threading.Event()
        self.database = sqlite3.connect(":memory:")
        self.closed_on = ""

    def resource_read(self, uri: str, arguments: list[tuple[str, str]]) -> Any:
        if arguments:
            self.released.wait(PATIENCE_S)
        [[one]] = self.database.execute("SELECT 'a row'")
        return Contents([TextContent(uri, "", one)])

    def close(self) -> None:
        self.database.close()
        self.closed_on = threading.current_thread().name


@pytest.fixture(name="ledger")
def served_ledger() -> Iterator[tuple[Catalog, ObjectProvider, type[Ledger]]]:
    class Kept(Ledger):
        made: ClassVar[list[Ledger]] = []

    options = ObjectSettings(import_="tests:Ledger", timeout_s=1.0, list_ttl_s=100.0)
    provider = ObjectProvider("ledger", options, Kept)
    provider.load()
    catalog = Catalog([provider])
    yield catalog, provider, Kept
    for one in Kept.made:
        one.released.set()
    catalog.close()


def text_of(catalog: Catalog, uri: str) -> str:
    [item] = catalog.read(uri).items
    assert isinstance(item, Text)
    return item.text


def test_an_object_with_a_sqlite_connection_is_built_anew_after_a_call_that_hangs(
    ledger: tuple[Catalog, ObjectProvider, type[Ledger]], caplog: pytest.LogCaptureFixture
) -> None:
    catalog, provider, kind = ledger
    assert text_of(catalog, "shelf://a") == "a row"
    with pytest.raises(ProviderError, match="timed out"):
        catalog.read("shelf://a?hang")

    assert [text_of(catalog, "shelf://a") for _ in range(3)] == ["a row"] * 3
    assert (provider.health()["rebuilt"], len(kind.made)) == (1, 2)
    assert "a call did not return; the object was built again" in caplog.text
    kind.made[0].released.set()
    assert until(lambda: kind.made[0].closed_on) == "carrel-object-ledger"


def test_an_object_whose_slow_call_came_back_is_called_on_its_own_thread_again(
    ledger: tuple[Catalog, ObjectProvider, type[Ledger]],
) -> None:
    catalog, provider, kind = ledger
    with pytest.raises(ProviderError, match="timed out"):
        catalog.read("shelf://a?hang")
    kind.made[0].released.set()
    until(lambda: not vars(provider)["_instance"].calls.has_lost_home())

    assert text_of(catalog, "shelf://a") == "a row"
    assert len(kind.made) == 1
    assert "rebuilt" not in provider.health()


def test_an_object_that_cannot_be_built_anew_is_called_on_another_thread(
    ledger: tuple[Catalog, ObjectProvider, type[Ledger]], monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog, provider, kind = ledger
    monkeypatch.setattr(vars(provider)["_instance"], "_make", partial(raising(OSError("the port is taken")), ""))
    monkeypatch.setattr(kind.made[0], "database", sqlite3.connect(":memory:", check_same_thread=False))
    with pytest.raises(ProviderError, match="timed out"):
        catalog.read("shelf://a?hang")

    assert text_of(catalog, "shelf://a") == "a row"


class Slow(Shelf):
    async def resource_read(self, uri: str, arguments: list[tuple[str, str]]) -> Any:
        if uri.endswith("a"):
            await asyncio.sleep(PATIENCE_S)
        if uri.endswith("exit"):
            raise SystemExit
        await asyncio.sleep(0)
        return Contents([TextContent(uri, "", f"{asyncio.get_running_loop() is not None}")])

    async def resources(self) -> list[Any]:
        return self.listed


def test_async_methods_run_on_a_loop_of_the_object_s_own() -> None:
    with served(Slow(), timeout_s=0.5) as client:
        assert [entry.uri for entry in client.page().entries] == ["shelf://a"]
        assert facts(refusal(client, "shelf://a"))[2] == "timeout"
        assert facts(refusal(client, "shelf://t/exit"))[2] == "failed"
        [item] = client.read("shelf://t/1").items
    assert isinstance(item, Text)
    assert item.text == "True"


def test_a_uri_with_a_raw_space_is_read_as_the_escaped_one() -> None:
    with served(Shelf()) as client:
        items = [client.read(f"shelf://t/{name}").items[0] for name in ("a b", "a%20b")]

    assert [item.uri for item in items] == ["shelf://t/a b", "shelf://t/a%20b"]


# Lists


def test_entries_are_ordered_and_unsound_ones_are_left_out_and_reported() -> None:
    listed = [
        Resource("shelf://c", "c"),
        Resource("shelf://a", "a", size=3),
        Resource("shelf://%61", "again"),
        Resource("relative", "r"),
        Resource("shelf://nameless", ""),
        Resource("shelf://f#x", "f"),
        Resource("shelf://big", "big", size=-1),
        "no entry",
        Resource("shelf://b", "b"),
    ]
    provider = serve_object(Shelf(listed=listed), "shelf")
    entries = [entry.uri for entry in provider.entries()]
    problems = provider.health()["problems"]
    provider.close()

    assert entries == ["shelf://a", "shelf://b", "shelf://c"]
    assert problems == [
        "entry 2 of resources() is left out: shelf://%61 is listed twice",
        "entry 3 of resources() is left out: The URI does not start with a scheme, such as workspace: or logs:",
        "entry 4 of resources() is left out: its name is empty",
        "entry 5 of resources() is left out: shelf://f#x has a fragment",
        "entry 6 of resources() is left out: its size is not a whole number",
        "entry 7 of resources() is left out: it does not have the attributes of an entry",
    ]


@pytest.mark.parametrize(
    ("resources", "told"),
    [
        (raising(OSError("/secret")), "resources() raised an exception"),
        (lambda _: iter(()), "resources() returned no list"),
        (lambda _: None, "resources() returned no list"),
    ],
)
def test_a_list_that_breaks_leaves_the_templates_and_the_others(
    resources: Any, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    shelf = Shelf()
    provider = serve_object(shelf, list_ttl_s=0.0)
    shelf.resources = lambda: resources("")  # type: ignore[method-assign]
    catalog = Catalog([provider, serve_object(Greenhouse({}), "house")])
    lists = [[entry.uri for entry in catalog.entries()] for _ in range(2)]
    templates = [template.name for template in catalog.templates()[0]]
    problems = provider.health()["problems"]
    catalog.close()

    assert lists == [["greenhouse://house/badge", "greenhouse://house/summary"]] * 2
    assert templates == ["r", "t", "bed"]
    assert problems == [told]
    assert caplog.text.count(told) == 1


@pytest.mark.usefixtures("impatient")
def test_a_list_that_hangs_holds_up_no_list_and_the_last_one_is_served() -> None:
    released = threading.Event()
    shelf = Shelf()
    with served(shelf, timeout_s=PATIENCE_S, list_ttl_s=0.0) as client:
        shelf.resources = lambda: released.wait(PATIENCE_S)  # type: ignore[method-assign]
        began = monotonic()
        lists = [[entry.uri for entry in client.page().entries] for _ in range(3)]
        took_s = monotonic() - began
        released.set()

    assert lists == [["shelf://a"]] * 3
    assert took_s < PATIENCE_S / 2


@pytest.mark.usefixtures("impatient")
def test_a_list_that_hangs_is_stale_in_health_until_it_comes() -> None:
    released = threading.Event()
    shelf = Shelf()
    provider = serve_object(shelf, timeout_s=0.4, list_ttl_s=0.0)
    shelf.resources = lambda: released.wait(PATIENCE_S) and [Resource("shelf://b", "b")]  # type: ignore[method-assign]

    assert [entry.uri for entry in provider.entries()] == ["shelf://a"]
    assert provider.health()["state"] == "stale"
    until(lambda: provider.health()["problems"] == ["resources() gave no answer in time; the last list is served"])
    released.set()
    assert until(lambda: [one for one in provider.entries() if one.uri == "shelf://b"])
    assert (provider.health()["state"], provider.health()["problems"]) == ("up", [])
    provider.close()


def test_while_a_list_fails_what_it_held_can_still_be_read() -> None:
    shelf = Shelf()
    shelf.resource_templates = list  # type: ignore[method-assign]
    with served(shelf, list_ttl_s=0.0) as client:
        shelf.resources = lambda: 1 / 0  # type: ignore[method-assign]
        assert client.page().entries == ()
        [item] = client.read("shelf://a").items
    assert isinstance(item, Text)
    assert item.text == "text"


def test_a_list_is_asked_for_at_most_once_in_its_time() -> None:
    shelf = Shelf()
    with served(shelf, list_ttl_s=100.0) as client:
        for _ in range(3):
            client.page()

    assert shelf.lists == 1


def test_a_miss_asks_for_the_list_afresh_at_most_once_in_two_seconds() -> None:
    shelf = Shelf()
    provider = serve_object(shelf, list_ttl_s=100.0)
    shelf.listed = [Resource("shelf://new", "new")]
    lists: Any = vars(provider)["_lists"]
    with pytest.raises(NotFound):
        provider.read("shelf://new")
    lists._asked_at -= 2.0

    assert provider.read("shelf://new").items == (Text("text"),)
    assert shelf.lists == 2
    provider.close()


def test_a_changed_list_is_reported() -> None:
    shelf = Shelf()
    with served(shelf, list_ttl_s=0.01) as client, client.listen(list_changes=True) as listening:
        asked = shelf.lists
        until(lambda: shelf.lists >= asked + 3)
        assert listening.wait(0) is None
        shelf.listed = [Resource("shelf://new", "new")]
        assert listening.wait(PATIENCE_S) == ""
        assert [entry.uri for entry in client.page().entries] == ["shelf://new"]


def test_a_subscribed_resource_is_read_every_poll_and_none_where_that_is_off() -> None:
    shelf = Shelf()
    with served(shelf, poll_s=0.05) as client, client.listen(["shelf://a"]) as listening:
        shelf.given = Contents([])
        assert listening.wait(PATIENCE_S) == "shelf://a"
    with served(Shelf(), poll_s=0.0) as client, client.listen(["shelf://a"]) as listening:
        assert listening.honoured == ()


# Capabilities


class Offering:
    """An object whose capabilities are given."""

    def __init__(self, words: Any) -> None:
        self.words = words

    def capabilities(self) -> Any:
        if isinstance(self.words, Exception):
            raise self.words
        return self.words

    def resources(self) -> list[Any]:
        return [Resource("offering://a", "a")]

    def resource_read(self, uri: str, arguments: list[tuple[str, str]]) -> Any:
        return Contents([])

    def tools(self) -> list[Any]:
        return [ToolMethod("say", "say")]

    def say(self) -> str:
        return "said"


@pytest.mark.parametrize("words", [[], OSError("x"), "resources", [5], None, ["prompts"]])
def test_capabilities_that_say_nothing_serve_nothing(words: Any) -> None:
    with served(Offering(words)) as client:
        assert client.page().entries == ()
        assert set(client.capabilities) == {"resources", "extensions"}
        with pytest.raises(RemoteError) as caught:
            client.tools()
    assert caught.value.code == -32601


def test_why_capabilities_say_nothing_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    reasons = {}
    for words in (OSError("no disk"), "resources"):
        provider = serve_object(Offering(words))
        reasons[type(words)] = provider.health()["problems"]
        provider.close()

    assert reasons == {
        OSError: ["capabilities() raised an exception; nothing is served"],
        str: ["capabilities() returned no list of texts; nothing is served"],
    }
    assert "nothing is served (OSError: no disk)" in caplog.text


def test_only_what_is_declared_is_served() -> None:
    with served(Offering(["tools", "prompts"])) as client:
        assert (client.page().entries, [tool.name for tool in client.tools()]) == ((), ["say"])
        assert refusal(client, "offering://a").code == -32602
    with served(Offering(["resources", "tools"]), facets=["resources"]) as client:
        assert "tools" not in client.capabilities
        assert [entry.uri for entry in client.page().entries] == ["offering://a"]


def test_a_declared_facet_without_its_method_is_an_error_that_names_it() -> None:
    with pytest.raises(ConfigError, match=r"offering is not served: it declares completions and has no method comple"):
        serve_object(Offering(["resources", "completions"]), "offering")


def test_an_object_without_capabilities_is_none() -> None:
    with pytest.raises(ConfigError, match="thing is not served: it is not a Provider and has no method"):
        serve_object(object(), "thing")


# Completions


class Completing(Greenhouse):
    def __init__(self, given: Any) -> None:
        super().__init__({})
        self.given = given
        self.asked: list[Any] = []

    def completion(self, reference: str, argument: tuple[str, str], context: list[tuple[str, str]]) -> Any:
        self.asked.append((reference, argument, context))
        return self.given() if callable(self.given) else self.given


BED = "greenhouse://house/beds/{bed}"


def test_completions_are_the_first_hundred_and_say_so() -> None:
    given = Completing([str(number) for number in range(150)])
    with served(given) as client:
        completed = client.complete(BED, "bed", "x", {"row": "1"})

    assert (completed.values, completed.total, completed.has_more) == (tuple(map(str, range(100))), 150, True)
    assert given.asked == [(BED, ("bed", "x"), [("row", "1")])]


@pytest.mark.parametrize("given", [5, [5], None, "text", lambda: 1 / 0, carrel.Completion((), total=-1)])
def test_a_completion_that_breaks_is_reported(given: Any) -> None:
    with served(Completing(given)) as client, pytest.raises(RemoteError) as caught:
        client.complete(BED, "bed", "x")

    assert facts(caught.value) == (-32603, "Completion failed", "failed")


@pytest.mark.parametrize(
    ("reference", "handed", "name"),
    [
        ("greenhouse://house/summary", "greenhouse://house/summary", "below"),
        ("GREENHOUSE://house/summary", "greenhouse://house/summary", "below"),
        ("greenhouse://house/beds/north", BED, "bed"),
    ],
)
def test_a_completion_may_name_a_uri(reference: str, handed: str, name: str) -> None:
    """A listed URI is handed over as declared, with whatever argument; another means the template it matches."""
    given = Completing(["20"])
    with served(given) as client:
        assert client.complete(reference, name, "2").values == ("20",)

    assert given.asked == [(handed, (name, "2"), [])]


@pytest.mark.parametrize(("reference", "variable"), [("x://{y}", "y"), (BED, "row")])
def test_an_unknown_reference_or_argument_is_invalid(reference: str, variable: str) -> None:
    with served(Completing([])) as client, pytest.raises(RemoteError) as caught:
        client.complete(reference, variable, "")

    assert (caught.value.code, caught.value.word) == (-32602, "invalid")


# Closing, and what is logged


def test_close_is_called_once() -> None:
    closed: list[str] = []
    shelf = Shelf()
    shelf.close = lambda: closed.append("closed")  # type: ignore[attr-defined]
    provider = serve_object(shelf)
    provider.close()
    provider.close()

    assert closed == ["closed"]


def test_the_traceback_stands_beside_the_incident(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    with served(Shelf(raising(KeyError("cause")))) as client:
        error = refusal(client, "shelf://a")

    [record] = [record for record in caplog.records if str(error.data["incident"]) in record.getMessage()]
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], KeyError)


class MyApp:
    """The protocol of Logtalk's document, predicate by predicate, in its own names."""

    def __init__(self) -> None:
        self.read: list[tuple[str, list[tuple[str, str]]]] = []

    def capabilities(self) -> list[str]:
        return ["resources"]

    def resources(self) -> list[carrel.Resource]:
        return [
            objects.resource("logtalk://my-app/data", "data", "What my application knows", "application/json"),
            objects.resource("logtalk://my-app/logo", "logo", "A picture", "image/png"),
        ]

    def resource_read(self, uri: str, arguments: list[tuple[str, str]]) -> objects.Contents:
        self.read.append((uri, arguments))
        if uri == "logtalk://my-app/logo":
            return objects.contents([objects.blob_content(uri, "image/png", "iVBORw0KGgo=")])
        return objects.contents([objects.text_content(uri, "application/json", '{"known": true}')])


@pytest.mark.parametrize("era", ERAS)
def test_the_protocol_of_the_document_is_served_predicate_by_predicate(era: EraName) -> None:
    app = MyApp()
    with served(app, era) as client:
        declared = client.capabilities
        listed = client.request("resources/list", {})["resources"]
        items = [client.request("resources/read", {"uri": entry["uri"]})["contents"][0] for entry in listed]

    assert set(declared) == {"resources", "extensions"}
    assert listed == [
        {
            "uri": "logtalk://my-app/data",
            "name": "data",
            "description": "What my application knows",
            "mimeType": "application/json",
        },
        {"uri": "logtalk://my-app/logo", "name": "logo", "description": "A picture", "mimeType": "image/png"},
    ]
    assert [{key: item[key] for key in item if key != "_meta"} for item in items] == [
        {"uri": "logtalk://my-app/data", "mimeType": "application/json", "text": '{"known": true}'},
        {"uri": "logtalk://my-app/logo", "mimeType": "image/png", "blob": "iVBORw0KGgo="},
    ]
    assert app.read == [("logtalk://my-app/data", []), ("logtalk://my-app/logo", [])]


def test_the_seed_s_names_are_there() -> None:
    assert (
        objects.resource,
        objects.contents,
        objects.text_content,
        objects.blob_content,
        objects.resource_template,
    ) == (
        carrel.Resource,
        objects.Contents,
        objects.TextContent,
        objects.BlobContent,
        carrel.Template,
    )
    assert objects.BlobContent.of("x:a", "image/png", b"\0\1") == objects.BlobContent("x:a", "image/png", "AAE=")
    assert sorted(set(objects.__all__)) == sorted(name for name in objects.__all__ if hasattr(objects, name))
    assert sorted(set(carrel.__all__)) == sorted(name for name in carrel.__all__ if hasattr(carrel, name))


@pytest.mark.parametrize(
    ("made", "given", "named"),
    [
        (carrel.Resource, ("x:a", "a", "", ""), {"title": "A", "size": 1}),
        (carrel.Template, ("x:{a}", "a", "", ""), {"title": "A"}),
        (ToolMethod, ("a", "b"), {"title": "A", "read_only": True}),
        (objects.TextContent, ("x:a", "", "text"), {"meta": {}}),
        (objects.BlobContent, ("x:a", "", "AAE="), {"meta": {}}),
    ],
)
def test_what_the_page_says_is_given_by_name_only_is(made: Any, given: tuple[str, ...], named: dict[str, Any]) -> None:
    value = made(*given, **named)
    assert [getattr(value, name) for name in named] == list(named.values())
    with pytest.raises(TypeError, match="positional"):
        made(*given, *named.values())


# Objects that went wrong, each caught by the law it breaks


class Restless(Greenhouse):
    def resource_read(self, uri: str, arguments: list[tuple[str, str]]) -> Contents:
        self._beds["north"] += 1
        return super().resource_read(uri, arguments)


class ListsWhatIsGone(Greenhouse):
    def resources(self) -> list[Resource]:
        return [Resource("greenhouse://house/gone", "gone")]


class WrongSize(Greenhouse):
    def resources(self) -> list[Resource]:
        return [Resource("greenhouse://house/badge", "badge", "", "image/png", size=3)]


class OtherType(Greenhouse):
    def resources(self) -> list[Resource]:
        return [Resource("greenhouse://house/badge", "badge", "", "image/jpeg")]


class MakesUp(Greenhouse):
    def resource_read(self, uri: str, arguments: list[tuple[str, str]]) -> Contents:
        return Contents([TextContent(uri, "", "made up")])


class Talkative(Greenhouse):
    def resource_read(self, uri: str, arguments: list[tuple[str, str]]) -> Any:
        return Failure(f"KeyError at /home/ann/garden/beds.py: {uri}")


class CompletesNothingReal(Greenhouse):
    def completion(self, reference: str, argument: tuple[str, str], context: list[tuple[str, str]]) -> list[str]:
        return ["nowhere"]


class Frozen(Greenhouse):
    def resource_read(self, uri: str, arguments: list[tuple[str, str]]) -> Contents:
        return Contents([TextContent(uri, "text/plain", "always the same")])


class ChangesItsMind(Greenhouse):
    asked = 0

    def capabilities(self) -> list[str]:
        self.asked += 1
        return ["resources", "tools", "completions"][: 4 - self.asked]


class CannotSay(Greenhouse):
    def capabilities(self) -> list[str]:
        raise OSError("/home/ann/garden is gone")


class SaysOneWord(Greenhouse):
    def capabilities(self) -> Any:
        return "resources"


class ListBreaks(Greenhouse):
    def resources(self) -> list[Resource]:
        raise OSError("/home/ann/garden is gone")


class TemplatesBreak(Greenhouse):
    def resource_templates(self) -> list[Template]:
        raise OSError("/home/ann/garden is gone")


class RelativeUri(Greenhouse):
    def resources(self) -> list[Resource]:
        return [Resource("house/badge", "badge")]


class ListedTwice(Greenhouse):
    def resources(self) -> list[Resource]:
        return [*super().resources(), Resource("greenhouse://house/%62adge", "badge")]


class NamelessEntry(Greenhouse):
    def resources(self) -> list[Resource]:
        return [Resource("greenhouse://house/badge", "")]


class KeepsThread(Greenhouse):
    released = threading.Event()

    def capabilities(self) -> list[str]:
        threading.Thread(target=self.released.wait, name="left-behind", daemon=True).start()
        return super().capabilities()


@pytest.mark.parametrize("kind", [CannotSay, ListBreaks])
def test_the_laws_an_object_with_no_scheme_does_not_break_end_without_an_index_error(kind: type[Greenhouse]) -> None:
    class Contract(ProviderContract):
        deadline_s = 10.0

        def provider(self) -> Any:
            made = kind({})
            made.resource_templates = list  # type: ignore[method-assign]
            return made

    Contract().test_law_8_no_error_shows_internals()
    Contract().test_law_7_a_missing_uri_is_not_found()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "law", "complaint"),
    [
        (Restless, "test_law_5_two_reads", "differs without a change"),
        (ListsWhatIsGone, "test_law_4_what_is_listed", "greenhouse://house/gone is listed and cannot be read"),
        (WrongSize, "test_law_4_a_declared_size", "has 8 bytes, listed with 3"),
        (OtherType, "test_law_4_what_is_listed", "is 'image/png', listed as 'image/jpeg'"),
        (MakesUp, "test_law_7_a_missing_uri", "is missing and can be read"),
        (Talkative, "test_law_8_", "an error shows"),
        (CompletesNothingReal, "test_law_10_completions", "nowhere.* cannot be read"),
        (Frozen, "test_law_5_after_a_change", "its old ETag still holds"),
        (Frozen, "test_law_11_", "changed, and no notification came"),
        (KeepsThread, "test_law_13_", "still run: .'left-behind'"),
        (ChangesItsMind, "test_law_1_", r"capabilities\(\) gave .*, then .*; they must not change"),
        (CannotSay, "test_law_1_", r"capabilities\(\) raised an exception"),
        (SaysOneWord, "test_law_1_", r"capabilities\(\) returned no list of texts"),
        (ListBreaks, "test_law_2_", r"resources\(\) raised an exception"),
        (TemplatesBreak, "test_law_2_", r"resource_templates\(\) raised an exception"),
        (RelativeUri, "test_law_2_", r"entry 0 of resources\(\) is left out: The URI does not start with a scheme"),
        (ListedTwice, "test_law_2_", r"greenhouse://house/%62adge is listed twice"),
        (NamelessEntry, "test_law_2_", r"entry 0 of resources\(\) is left out: its name is empty"),
    ],
)
def test_a_wrong_object_is_caught_by_the_law_it_breaks(kind: type[Greenhouse], law: str, complaint: str) -> None:
    class Contract(TestGreenhouse):
        noticed_s = 0.3

        def provider(self) -> Any:
            self.beds = {"north": 41.5, "south": 12.0}
            return kind(self.beds)

    contract = Contract()
    [name] = [name for name in dir(contract) if name.startswith(law)]
    KeepsThread.released.clear()
    try:
        with pytest.raises(AssertionError, match=complaint):
            getattr(contract, name)()
    finally:
        KeepsThread.released.set()


def test_calls_are_closed_while_a_thread_is_about_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls("x")
    start = threading.Thread.start

    def close_first(thread: threading.Thread) -> None:
        calls.close()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", close_first)

    with pytest.raises(Late):
        calls.call(lambda: 1, 0.1)
