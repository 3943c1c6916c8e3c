"""Functions on a shelf: the contract, what they may take and return, and what happens when they are wrong."""

import asyncio
import contextlib
import enum
import gzip
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec
import pytest

from carrel import BadArgument, Blob, NotFound, ProviderError, Resource, Shelf, Text
from carrel.catalog.catalog import Catalog
from carrel.catalog.watcher import Watcher
from carrel.client.client import Client, EraName
from carrel.core.errors import ConfigError, RemoteError
from carrel.core.model import Range
from carrel.providers.objects import Contents, Failure, TextContent, serve_object
from carrel.providers.objects.results import declared_type
from carrel.server.server import Server
from carrel.testing.contract import ProviderContract
from tests.support import schemas
from tests.support.waiting import PATIENCE_S, until

ERAS: tuple[EraName, ...] = ("modern", "legacy")
PNG = b"\x89PNG\r\n\x1a\n\0\0"


class Season(enum.Enum):
    SPRING = "spring"
    AUTUMN = "autumn"


@contextlib.contextmanager
def served(shelf: Shelf, era: EraName = "modern", **settings: Any) -> Iterator[Client]:
    catalog = Catalog([serve_object(shelf, **settings)])
    with Client.to(Server(catalog, Watcher(catalog, 0.05)), era) as client:
        yield client
    catalog.close()


def returning(value: object, **options: Any) -> Shelf:
    """Make a shelf of one function, which returns a value, or what a function gives."""
    shelf = Shelf("one")

    @shelf.resource("one://value", **options)
    def value_of() -> Any:
        return value() if callable(value) else value

    return shelf


def read(client: Client, uri: str) -> tuple[str | bytes, str]:
    [item] = client.read(uri).items
    assert isinstance(item, Text | Blob)
    return (item.text if isinstance(item, Text) else item.data), item.mime_type


def refusal(client: Client, uri: str) -> tuple[int, str, object]:
    with pytest.raises(RemoteError) as caught:
        client.read(uri)
    return caught.value.code, caught.value.message, caught.value.data["dev.carrel/error"]


# The contract


class TestGarden(ProviderContract):
    """A shelf with everything: fixed and templated URIs, files, tools, completions, async functions, watched paths."""

    deadline_s = 10.0

    def provider(self) -> Any:
        self.folder = Path(tempfile.mkdtemp())
        for name, text in {"north": "wet\n", "south": "dry\n"}.items():
            (self.folder / name).write_text(text, encoding="utf-8")
        return garden(self.folder)

    def missing_uri(self) -> str:
        return "garden://beds/east"

    def variables(self) -> dict[str, str]:
        return {"bed": "north", "season": "spring", "row": "2", "path": "south", "below": "20"}

    def change(self, uri: str) -> None:
        if not uri.startswith("garden://beds/"):
            raise NotImplementedError
        # At one stroke: a reader sees the old text or the new one.
        fresh = self.folder.with_suffix(".new")
        fresh.write_text(f"changed {os.urandom(4).hex()}\n", encoding="utf-8")
        fresh.replace(self.folder / uri.rpartition("/")[2])

    def validate(self, message: bytes, version: str, method: str) -> None:
        schemas.check(message, version, method)


def garden(folder: Path) -> Shelf:
    shelf = Shelf("garden")

    def beds() -> Iterator[str]:
        yield from sorted(path.name for path in folder.iterdir())

    @shelf.resource("garden://beds/{bed}", entries=beds, watch=folder)
    def bed(bed: str) -> str:
        """One bed.

        More about it.
        """
        return (folder / bed).read_text(encoding="utf-8")

    @shelf.resource("garden://files/{+path}")
    def file(path: str) -> Path:
        return folder / path

    @shelf.resource("garden://plans/{season}/{row}")
    async def plan(season: Season, row: int) -> dict[str, object]:
        """The plan of one row."""
        await asyncio.sleep(0)
        return {"season": season, "row": row}

    @shelf.resource("garden://summary{?below}")
    def summary(below: float = 100.0) -> str:
        """All beds."""
        return f"below {below:g}"

    @shelf.resource("garden://badge", mime_type="image/png")
    def badge() -> bytes:
        return PNG

    @shelf.tool(read_only=True)
    def driest(rows: list[int], season: Literal["spring", "autumn"] = "spring") -> str:
        """Name the driest bed.

        Args:
            rows: The rows to look at.
        """
        return f"{season} {min(rows)}"

    return shelf


# What is listed


def test_a_function_is_listed_by_its_name_its_docstring_and_its_annotation(tmp_path: Path) -> None:
    (tmp_path / "north").touch()
    with served(garden(tmp_path)) as client:
        listed = [(one.uri, one.name, one.description, one.mime_type) for one in client.resources()]
        templates = [(one.uri_template, one.name, one.description, one.mime_type) for one in client.templates()]

    assert listed == [
        ("garden://badge", "badge", "", "image/png"),
        ("garden://beds/north", "north", "One bed.", "text/plain"),
        ("garden://summary", "summary", "All beds.", "text/plain"),
    ]
    assert templates == [
        ("garden://beds/{bed}", "bed", "One bed.", "text/plain"),
        ("garden://files/{+path}", "file", "", ""),
        ("garden://plans/{season}/{row}", "plan", "The plan of one row.", "application/json"),
        ("garden://summary{?below}", "summary", "All beds.", "text/plain"),
    ]


def test_what_the_decorator_says_comes_before_what_the_function_says() -> None:
    shelf = Shelf("one")
    say: Callable[[], str] = lambda: "text"  # noqa: E731 a function without a name or a docstring
    function = shelf.resource("one://a", name="n", title="T", description="D", mime_type="text/x-d")(say)
    with served(shelf) as client:
        [entry] = client.resources()
        assert read(client, "one://a") == ("text", "text/x-d")

    assert function() == "text"  # the decorator leaves the function as it is
    assert (entry.name, entry.title, entry.description, entry.mime_type) == ("n", "T", "D", "text/x-d")


def test_entries_are_values_tuples_mappings_or_resources() -> None:
    shelf = Shelf("one")

    async def seats() -> AsyncIterator[object]:
        yield "a", 1
        yield {"row": Season.SPRING, "seat": date(2026, 1, 2), "as_of": True}
        yield Resource("one://seats/x/9", "the ninth")

    @shelf.resource("one://seats/{row}/{seat}{?as_of}", entries=seats)
    def seat(row: str, seat: str, as_of: bool = False) -> list[object]:
        return [row, seat, as_of]

    with served(shelf) as client:
        listed = {one.uri: one.name for one in client.resources()}
        texts = [read(client, uri)[0] for uri in listed]

    assert listed == {
        "one://seats/a/1": "a/1",
        "one://seats/spring/2026-01-02?as_of=true": "spring/2026-01-02/true",
        "one://seats/x/9": "the ninth",
    }
    assert texts == ['["a","1",false]', '["spring","2026-01-02",true]', '["x","9",false]']


@pytest.mark.parametrize("is_async", [False, True])
def test_entries_that_fail_are_left_out_and_everything_else_is_listed(is_async: bool) -> None:
    shelf = Shelf("one")

    def broken() -> Iterator[str]:
        yield "a"
        raise KeyError("/etc/passwd")

    async def broken_later() -> AsyncIterator[str]:
        yield "a"
        raise KeyError("/etc/passwd")

    shelf.resource("one://x/{name}", entries=broken_later if is_async else broken)(lambda name: name)
    shelf.resource("one://y/{name}", entries=lambda: ["b", "", object(), ("c", "d")])(lambda name: name)
    shelf.resource("one://z", name="z")(lambda: "z")
    provider = serve_object(shelf)
    listed = [entry.uri for entry in provider.entries()]
    faults = provider.list_faults()
    provider.close()

    assert listed == ["one://y/b", "one://z"]
    assert [re.sub(r"entry \d", "entry", fault) for fault in faults] == [
        "entry of resources() is left out: entries= of <lambda> raised an exception",
        *["entry of resources() is left out: entries= of <lambda> gave a value that does not fit one://y/{name}"] * 3,
    ]


# What functions return


@dataclass
class Bed:
    name: str
    planted: date


class Plant(msgspec.Struct):
    name: str


@pytest.mark.parametrize(
    ("value", "content", "mime_type"),
    [
        ("text", "text", "text/plain"),
        ("", "", "text/plain"),
        (b"\0\1", b"\0\1", "application/octet-stream"),
        (bytearray(PNG), PNG, "image/png"),
        (memoryview(b"%PDF-1.7"), b"%PDF-1.7", "application/pdf"),
        (b"RIFF\0\0\0\0WEBP", b"RIFF\0\0\0\0WEBP", "image/webp"),
        ({"a": 1}, '{"a":1}', "application/json"),
        ([], "[]", "application/json"),
        (["a", "b"], '["a","b"]', "application/json"),
        ([{"a": None}], '[{"a":null}]', "application/json"),
        (5, "5", "application/json"),
        (True, "true", "application/json"),
        (Bed("north", date(2026, 1, 2)), '{"name":"north","planted":"2026-01-02"}', "application/json"),
        (Plant("rose"), '{"name":"rose"}', "application/json"),
        (Season.SPRING, '"spring"', "application/json"),
        (Text("a", "text/markdown"), "a", "text/markdown"),
        (Text("a"), "a", "text/plain"),
        (Blob(PNG), PNG, "image/png"),
        (Contents([TextContent("one://value", "text/x-y", "a")]), "a", "text/x-y"),
        (lambda: io.BytesIO(b"stream"), "stream", "text/plain"),
        (lambda: io.BytesIO(PNG), PNG, "application/octet-stream"),
    ],
)
def test_a_value_is_served_as_what_it_is(value: object, content: str | bytes, mime_type: str) -> None:
    with served(returning(value)) as client:
        assert read(client, "one://value") == (content, mime_type)


def test_bytes_of_a_textual_type_are_text() -> None:
    with served(returning(b"a,b\n", mime_type="text/csv")) as client:
        assert read(client, "one://value") == ("a,b\n", "text/csv")
    with served(returning(b"\xff", mime_type="application/json")) as client:
        assert read(client, "one://value") == (b"\xff", "application/json")


def test_a_list_with_bytes_files_or_items_is_several_items(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A", encoding="utf-8")
    given = ["text", b"\0", tmp_path / "a.md", {"a": 1}, Text("below", uri="one://value/below")]
    with served(returning(given)) as client:
        items = client.read("one://value").items

    assert [(item.uri, item.mime_type) for item in items] == [
        ("one://value", "text/plain"),
        ("one://value", "application/octet-stream"),
        ("one://value", "text/markdown"),
        ("one://value", "application/json"),
        ("one://value/below", "text/plain"),
    ]


@pytest.mark.slow
def test_a_path_is_read_in_parts_and_has_the_type_of_its_name(tmp_path: Path) -> None:
    file = tmp_path / "long.csv"
    file.write_text("".join(f"{number}\n" for number in range(1_000_000)), encoding="utf-8")
    with served(returning(file)) as client:
        code, message, word = refusal(client, "one://value")
        [item] = client.read("one://value", wanted=Range(6_888_886, 4)).items
        etag = client.read("one://value", wanted=Range(0, 1)).etag
        assert etag is not None
        unchanged = client.read("one://value", wanted=Range(0, 1), if_none_match=etag).unchanged
        file.write_text("short", encoding="utf-8")
        assert read(client, "one://value") == ("short", "text/csv")
        assert client.read("one://value").etag != etag

    assert (code, word, unchanged) == (-32802, "too_large", True)
    assert "6888890 bytes" in message
    assert isinstance(item, Text)
    assert (item.text, item.mime_type) == ("999\n", "text/csv")


def test_relative_paths_start_at_the_folder_of_the_file_that_defines_the_function() -> None:
    with served(returning(Path("test_tools.py"))) as client:
        text, mime_type = read(client, "one://value")

    assert (text, mime_type) == (Path(__file__).with_name("test_tools.py").read_text(encoding="utf-8"), "text/x-python")


def _opened(path: Path) -> BinaryIO:
    path.write_bytes(b"plain")
    return path.open("rb")


def _read_from(path: Path) -> BinaryIO:
    opened = _opened(path)
    opened.read(2)
    return opened


def _written(path: Path) -> Any:
    file = tempfile.NamedTemporaryFile(dir=path.parent)  # noqa: SIM115 what is returned is closed by the server
    file.write(b"temporary")
    file.seek(0)
    return file


def _packed(path: Path) -> Any:
    path.write_bytes(gzip.compress(b"packed"))
    return gzip.open(path)


@pytest.mark.parametrize(
    ("open_it", "text"),
    [(_opened, "plain"), (_read_from, "ain"), (_written, "temporary"), (_packed, "packed")],
    ids=["opened", "read from", "temporary", "packed"],
)
def test_an_open_binary_file_is_read_and_closed(tmp_path: Path, open_it: Callable[[Path], BinaryIO], text: str) -> None:
    opened: list[BinaryIO] = []

    def give() -> BinaryIO:
        opened.append(open_it(tmp_path / "file.txt"))
        return opened[-1]

    with served(returning(give)) as client:
        assert read(client, "one://value")[0] == text

    assert [file.closed for file in opened] == [True]


@pytest.mark.parametrize(
    ("annotation", "mime_type"),
    [
        (str, "text/plain"),
        (str | None, "text/plain"),
        (dict, "application/json"),
        (dict[str, int], "application/json"),
        (list[str], "application/json"),
        (list[dict[str, int]], "application/json"),
        (tuple[int, ...], "application/json"),
        (Bed, "application/json"),
        (Plant | None, "application/json"),
        (int, "application/json"),
        (bytes, ""),
        (Path, ""),
        (BinaryIO, ""),
        (io.BytesIO, ""),
        (Text, ""),
        (list[Text], ""),
        (list[bytes | str], ""),
        (list, ""),
        (str | dict, ""),
        (Any, ""),
        (object, ""),
    ],
)
def test_the_return_annotation_announces_the_type_where_it_is_sure(annotation: object, mime_type: str) -> None:
    def function() -> None: ...

    function.__annotations__["return"] = annotation

    assert declared_type(function) == mime_type


_ALLOWED = "text, bytes, JSON, a path, an open binary file, or a list of these"


@pytest.mark.parametrize(
    "value",
    [
        None,
        object(),
        {1j: 2},
        lambda: (number for number in range(3)),
        lambda: io.StringIO("text"),
        ["text", b"", object()],
        Contents,
        "\ud800",
        Text("\ud800"),
        [Text("a", uri="other://x")],
    ],
)
@pytest.mark.parametrize("era", ERAS)
def test_a_value_that_cannot_be_served_is_an_error(era: EraName, value: object) -> None:
    with served(returning(lambda: value() if callable(value) and value is not Contents else value), era) as client:
        code, message, word = refusal(client, "one://value")

    assert (code, word) == (-32603, "bad_result")
    assert message in (
        "Resource read failed",
        f"value_of returned a value that cannot be served; return {_ALLOWED}",
    )


def test_the_error_of_a_wrong_value_names_the_function_and_the_log_has_the_class(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with served(returning(threading.Lock())) as client:
        _, message, _ = refusal(client, "one://value")

    assert message.startswith("value_of returned a value that cannot be served; return text, bytes, JSON")
    assert "a value of the class lock is not JSON" in caplog.text


def test_a_path_that_is_no_regular_file_is_an_error_and_blocks_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "none"):
        with served(returning(path)) as client:
            assert refusal(client, "one://value") == (-32603, "Resource read failed", "failed")


# What functions take


@pytest.fixture(name="typed")
def typed_functions() -> Shelf:
    shelf = Shelf("typed")
    kinds = {
        "int": int,
        "float": float,
        "bool": bool,
        "literal": Literal["a", "b", 3],
        "enum": Season,
        "date": date,
        "maybe": int | None,
        "any": Any,
    }
    for word, kind in kinds.items():

        def function(x: object) -> str:
            return repr(x)

        function.__annotations__["x"] = kind
        shelf.resource(f"typed://{word}/{{x}}")(function)

    @shelf.resource("typed://query{?from_,to}")
    def query(from_: int = 1, to: Season | None = None) -> str:
        return repr((from_, to))

    return shelf


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("typed://int/-5", "-5"),
        ("typed://float/5", "5.0"),
        ("typed://float/-0.5e2", "-50.0"),
        ("typed://bool/true", "True"),
        ("typed://literal/a", "'a'"),
        ("typed://literal/3", "3"),
        ("typed://enum/autumn", "<Season.AUTUMN: 'autumn'>"),
        ("typed://date/2026-01-02", "datetime.date(2026, 1, 2)"),
        ("typed://maybe/7", "7"),
        ("typed://any/a%20b", "'a b'"),
        ("typed://query", "(1, None)"),
        ("typed://query?to=spring&from_=2", "(2, <Season.SPRING: 'spring'>)"),
    ],
)
def test_a_variable_becomes_what_its_annotation_says(typed: Shelf, uri: str, text: str) -> None:
    with served(typed) as client:
        assert read(client, uri)[0] == text


EVERYWHERE = "start, length, lines, outline, budget; for example ?lines=1-50"


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("typed://int/x", "Invalid parameter: x=x (expected an integer)"),
        ("typed://int/1.5", "Invalid parameter: x=1.5 (expected an integer)"),
        ("typed://int/" + "9" * 500, f"Invalid parameter: x={'9' * 60}… (expected an integer)"),
        ("typed://float/nan", "Invalid parameter: x=nan (expected a number)"),
        ("typed://float/Infinity", "Invalid parameter: x=Infinity (expected a number)"),
        ("typed://bool/yes", "Invalid parameter: x=yes (expected true or false)"),
        ("typed://literal/c", "Invalid parameter: x=c (expected one of a, b, 3)"),
        ("typed://enum/SPRING", "Invalid parameter: x=SPRING (expected one of spring, autumn)"),
        ("typed://date/monday", "Invalid parameter: x=monday (expected a string with a date of ISO 8601)"),
        ("typed://query?from_=x", "Invalid parameter: from_=x (expected an integer)"),
        ("typed://query?from_=1&from_=2", "Invalid parameter: from_ (given twice)"),
        ("typed://query?form=1", f"Invalid parameter: form (known: from_, to, {EVERYWHERE})"),
        ("typed://int/5?x=1", f"Invalid parameter: x (known: {EVERYWHERE})"),
    ],
)
def test_a_value_that_does_not_fit_is_invalid_and_says_what_is_allowed(typed: Shelf, uri: str, message: str) -> None:
    with served(typed) as client:
        assert refusal(client, uri) == (-32602, message, "invalid")


@pytest.mark.parametrize(
    "path",
    ["..", "%2e%2e", "../x", "a/../../x", "/etc/passwd", "%2Fetc/passwd", "a/..", ".", "a%5C..%5Cx", "%5C%5Chost%5Cx"],
)
def test_a_variable_cannot_lead_out_of_the_folder_it_is_joined_to(tmp_path: Path, path: str) -> None:
    (tmp_path / "x").write_text("secret", encoding="utf-8")
    folder = tmp_path / "folder"
    folder.mkdir()
    with served(garden(folder)) as client:
        assert refusal(client, f"garden://files/{path}")[2] == "not_found"


# What functions raise


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("is_async", [False, True])
def test_what_a_function_does_not_find_is_not_found(era: EraName, is_async: bool, tmp_path: Path) -> None:
    shelf = Shelf("one")
    beds = {"north": {"wet": 1}, 7: {"wet": 2}}
    actions: dict[str, Callable[[Any], object]] = {
        "key": lambda bed: beds[bed],
        "nothing": lambda bed: None,
        "raised": lambda bed: raised(NotFound(bed)),
        "file": lambda bed: (tmp_path / bed).read_text(encoding="utf-8"),
        "path": lambda bed: tmp_path / bed,
        "folder": lambda bed: tmp_path / bed / "x",
    }
    (tmp_path / "east").touch() if is_async else None

    def make(action: Callable[[Any], object]) -> Callable[..., object]:
        async def later(bed: str) -> object:
            return action(bed)

        return later if is_async else action

    for word, action in actions.items():
        shelf.resource(f"one://{word}/{{bed}}")(make(action))
    with served(shelf, era) as client:
        words = [word for word in actions if not (is_async and word in ("file", "path"))]
        refusals = {word: refusal(client, f"one://{word}/east") for word in words}

    code = -32602 if era == "modern" else -32002
    assert refusals == {word: (code, f"Resource not found: one://{word}/east", "not_found") for word in words}


def raised(error: BaseException) -> object:
    raise error


FAILED = (-32603, "Resource read failed", "failed")


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (KeyError("moisture"), FAILED),
        (KeyError(), FAILED),
        (FileNotFoundError(2, "none", "/etc/garden.toml"), FAILED),
        (ZeroDivisionError("/etc/passwd"), FAILED),
        (SystemExit(3), FAILED),
        (BadArgument("one\ntwo"), (-32602, "one two", "invalid")),
        (ProviderError("The sensor is off", word="unavailable"), (-32603, "The sensor is off", "unavailable")),
    ],
)
def test_any_other_exception_stays_in_the_log(
    error: BaseException, answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    shelf = Shelf("one")
    shelf.resource("one://beds/{bed}")(lambda bed: raised(error))
    with served(shelf) as client:
        assert refusal(client, "one://beds/north") == answer

    assert type(error).__name__ in caplog.text or answer == (-32602, "one two", "invalid")


def test_a_failure_is_a_message_for_the_caller() -> None:
    with served(returning(Failure("Sensor is off"))) as client:
        assert refusal(client, "one://value") == (-32603, "Sensor is off", "failed")


def test_a_function_that_hangs_is_given_up_and_the_others_answer() -> None:
    released = threading.Event()
    shelf = returning("text")
    shelf.resource("one://hang")(lambda: str(released.wait(PATIENCE_S)))
    with served(shelf, timeout_s=0.2) as client:
        assert refusal(client, "one://hang") == (-32603, "Resource read timed out", "timeout")
        assert until(lambda: _answered(client))
        released.set()


def _answered(client: Client) -> bool:
    with contextlib.suppress(RemoteError):
        return read(client, "one://value")[0] == "text"
    return False


def test_what_a_function_prints_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with served(returning(lambda: str(sys.stdout.write("printed\n")))) as client:
        assert read(client, "one://value")[0] == "8"

    assert capsys.readouterr() == ("", "printed\n")


# Completions


def test_completion_comes_from_complete_from_the_annotation_or_from_entries() -> None:
    shelf = Shelf("one")

    def seats(typed: str, row: str = "") -> Iterator[str]:
        yield from (f"{row}{number}" for number in (1, 2, 11))

    async def rows() -> list[str]:
        return ["A", "b", "a2"]

    @shelf.resource("one://seats/{row}/{seat}{?season,free}", complete={"seat": seats, "row": rows})
    def seat(row: str, seat: str, season: Season = Season.SPRING, free: bool = True) -> str:
        return ""

    @shelf.resource("one://beds/{bed}/{place}", entries=lambda: [("north", 1), ("north", 2), ("south", 1)])
    def bed(bed: str, place: int) -> str:
        return ""

    template = "one://seats/{row}/{seat}{?season,free}"
    with served(shelf) as client:
        offered = [
            client.complete(template, "row", "a").values,
            client.complete(template, "seat", "b1", {"row": "b"}).values,
            client.complete(template, "season", "").values,
            client.complete(template, "free", "t").values,
            client.complete("one://beds/{bed}/{place}", "bed", "").values,
            client.complete("one://beds/{bed}/{place}", "place", "").values,
        ]

    assert offered == [("A", "a2"), ("b1", "b11"), ("spring", "autumn"), ("true",), ("north", "south"), ("1", "2")]


def test_a_hundred_values_are_offered_of_a_generator_that_does_not_end() -> None:
    shelf = Shelf("one")

    def names() -> Iterator[int]:
        number = 0
        while True:
            number += 1
            yield number

    shelf.resource("one://x/{name}", complete=names)(lambda name: name)
    with served(shelf) as client:
        found = client.complete("one://x/{name}", "name", "1")

    assert (len(found.values), found.has_more) == (100, True)


def test_completion_that_fails_tells_nothing_of_its_cause() -> None:
    shelf = Shelf("one")
    shelf.resource("one://x/{name}", complete=lambda: 1 / 0)(lambda name: name)
    shelf.resource("one://y/{name}", complete=lambda: 5)(lambda name: name)
    with served(shelf) as client:
        for template in ("one://x/{name}", "one://y/{name}"):
            with pytest.raises(RemoteError) as caught:
                client.complete(template, "name", "")
            assert caught.value.message == "Completion failed"


# Tools


def test_a_tool_has_its_schema_from_the_annotations(tmp_path: Path) -> None:
    with served(garden(tmp_path)) as client:
        [tool] = client.tools()
        answered = client.call("driest", {"rows": [3, 2], "season": "autumn"})
        wrong = client.call("driest", {"rows": ["x"]})

    assert (tool.name, tool.description, tool.read_only) == ("driest", "Name the driest bed.", True)
    assert tool.input_schema["required"] == ["rows"]
    assert tool.input_schema["properties"] == {
        "rows": {"type": "array", "items": {"type": "integer"}, "description": "The rows to look at."},
        "season": {"type": "string", "enum": ["spring", "autumn"]},
    }
    assert answered.blocks == ("autumn 2",)
    assert wrong.is_error
    assert "rows" in str(wrong.blocks[0])


def test_a_shelf_may_have_tools_alone_and_they_may_be_async() -> None:
    shelf = Shelf("one")

    @shelf.tool
    async def water(bed: str) -> dict[str, str]:
        await asyncio.sleep(0)
        return {"watered": bed}

    with served(shelf) as client:
        assert client.call("water", {"bed": "north"}).structured == {"watered": "north"}
        assert list(client.resources()) == []


# Watching


def test_a_watched_folder_tells_of_the_resources_that_changed_and_of_no_others(tmp_path: Path) -> None:
    for name in ("north", "south"):
        (tmp_path / name).write_text("wet", encoding="utf-8")
    reads: list[str] = []
    shelf = Shelf("one")

    @shelf.resource("one://beds/{bed}", watch=[tmp_path, "missing"])
    def bed(bed: str) -> str:
        reads.append(bed)
        return (tmp_path / bed).read_text(encoding="utf-8")

    provider = serve_object(shelf, poll_s=0)
    before = {name: provider.fingerprint(f"one://beds/{name}") for name in ("north", "south")}
    again = {name: provider.fingerprint(f"one://beds/{name}") for name in ("north", "south")}
    reads_of_both = len(reads)
    (tmp_path / "north").write_text("dry now", encoding="utf-8")
    after = {name: provider.fingerprint(f"one://beds/{name}") for name in ("north", "south")}
    provider.close()

    assert before == again
    assert reads_of_both == 2  # as long as no path changes, nothing is read
    assert after["north"] != before["north"]
    assert after["south"] == before["south"]


def test_without_watch_and_poll_a_subscription_is_refused() -> None:
    provider = serve_object(returning("text"), poll_s=0)
    with pytest.raises(BadArgument):
        provider.fingerprint("one://value")
    provider.close()


# Mistakes of authors


@pytest.mark.parametrize(
    ("template", "function", "options", "message"),
    [
        ("beds/{bed}", lambda bed: "", {}, "<lambda>: beds/{bed}: The scheme must be literal, at column 6"),
        ("x://{a}{b}", lambda a, b: "", {}, '<lambda>: x://{a}{b}: No "/" between two variables, at column 8'),
        ("x://{a}", lambda: "", {}, "<lambda>: x://{a} has the variable a; give the function a parameter a"),
        ("x://{a}", lambda a, /: "", {}, "<lambda>: x://{a} has the variable a; give the function a parameter a"),
        ("x://a{?b}", lambda b: "", {}, "<lambda>: b is optional in x://a{?b}; give its parameter a default"),
        ("x://a", lambda b: "", {}, "<lambda>: the parameter b is no variable of x://a and has no default"),
        ("x://a", lambda: "", {"entries": list}, "<lambda>: entries= needs a template with a variable, x://a has none"),
        (
            "x://{a}",
            lambda a: "",
            {"complete": {"b": list}},
            "<lambda>: complete= names b, which is no variable of x://{a}",
        ),
        (
            "x://{a}/{b}",
            lambda a, b: "",
            {"complete": list},
            "<lambda>: complete= must say for which variable, as complete={'a': list}",
        ),
        ("x://{a}", lambda a: "", {"entries": "abc"}, "entries= of <lambda>: expected a function that yields values"),
        (lambda: "", None, {}, '@shelf.resource needs a URI or a template: @shelf.resource("garden://beds/{bed}")'),
    ],
)
def test_a_mistake_is_named_where_the_function_is_defined(
    template: Any, function: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        Shelf("one").resource(template, **options)(function)

    assert str(caught.value) == message


def test_a_variable_of_a_class_that_no_text_can_become_is_refused() -> None:
    def function(a: Bed) -> str:
        return a.name

    with pytest.raises(ConfigError, match=r"^function: the variable a must be annotated str, int, float"):
        Shelf("one").resource("x://{a}")(function)


def test_one_uri_and_one_tool_name_belong_to_one_function() -> None:
    shelf = returning("text")
    shelf.tool(print)
    with pytest.raises(ConfigError, match="another function has one://value already"):
        shelf.resource("one://value")(lambda: "")
    with pytest.raises(ConfigError, match="the shelf has a tool of this name already"):
        shelf.tool(name="print")(lambda: "")


def test_a_function_that_takes_anything_gets_every_variable() -> None:
    shelf = Shelf("one")
    shelf.resource("one://{a}/{b}{?c}")(lambda **named: named)
    with served(shelf) as client:
        assert json.loads(read(client, "one://1/2?c=3")[0]) == {"a": "1", "b": "2", "c": "3"}


def test_a_fixed_uri_comes_before_a_template_that_matches_it() -> None:
    shelf = Shelf("one")
    shelf.resource("one://{name}")(lambda name: f"template {name}")
    shelf.resource("one://all{?x}")(lambda x="": f"fixed {x}")
    with served(shelf) as client:
        texts = [read(client, uri)[0] for uri in ("one://all", "one://all?x=1", "one://other")]

    assert texts == ["fixed ", "fixed 1", "template other"]


def test_carrel_is_imported_without_its_shelf() -> None:
    script = (
        "import sys, carrel; before = 'carrel.providers.objects' in sys.modules; carrel.Shelf;"
        "print(before, 'carrel.providers.objects' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30)

    assert ran.stdout == "False True\n"
