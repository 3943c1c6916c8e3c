"""Tools of objects: schemas from signatures, arguments checked, results made into blocks."""

import enum
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from carrel import ResourceLink
from carrel.catalog.catalog import Catalog
from carrel.client.client import Client, EraName
from carrel.core.arguments import convert, schema_of
from carrel.core.errors import RemoteError
from carrel.core.model import Tool as Offered
from carrel.core.model import ToolResult
from carrel.providers.objects import Failure, Structured, ToolMethod, serve_object
from carrel.server.server import Server
from tests.support.waiting import PATIENCE_S

ERAS: tuple[EraName, ...] = ("modern", "legacy")


class Season(enum.Enum):
    SPRING = "spring"
    AUTUMN = "autumn"


@dataclass
class Sample:
    bed: str
    depth: int
    at: datetime | None = None


@dataclass
class Noted:
    number: int
    message: str


NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)
SAMPLED = {"bed": "n", "depth": 3, "at": "2026-11-17T12:00:00+00:00"}


class Recorder:
    """A tool whose arguments are a dataclass and times."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def capabilities(self) -> list[str]:
        return ["tools"]

    def tools(self) -> list[Any]:
        return [ToolMethod("record", "record")]

    def record(self, sample: Sample, at: datetime, day: date | None = None, count: int = 0) -> None:
        self.calls.append((sample, at, day, count))


class Toolbox:
    """A tool for each kind of parameter."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.given: Any = "done"

    def capabilities(self) -> list[str]:
        return ["tools"]

    def tools(self) -> list[Any]:
        return [
            ToolMethod("soil.measure", "measure", title="Measure", read_only=True),
            SimpleNamespace(name="give", method="give"),
            ToolMethod("secret", "_secret"),
            ToolMethod("bad name", "give"),
            ToolMethod("absent", "nowhere"),
            ToolMethod("give", "give"),
        ]

    def measure(  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917  one of each kind
        self,
        bed: str,
        depth: int,
        wet: float = 0.5,
        deep: bool = False,
        days: list[int] | None = None,
        how: Literal["fast", "slow"] = "fast",
        when: Season = Season.SPRING,
        extra: dict[str, int] | None = None,
        odd: "Toolbox | int" = 0,
        untyped=None,
        *rest: str,
        **more: str,
    ) -> Any:
        """Measure one bed,
        carefully.

        More is said here.

        Args:
            bed: Which bed
                it is.
            depth (int): How deep.
        """
        self.calls.append((bed, depth, wet, deep, days, how, when, extra, odd, untyped, rest, more))
        return "measured"

    def give(self) -> Any:
        return self.given() if callable(self.given) else self.given

    def _secret(self) -> str:
        return "secret"


@contextmanager
def served(made: object, era: EraName = "modern", **settings: Any) -> Iterator[Client]:
    catalog = Catalog([serve_object(made, **settings)])
    with Client.to(Server(catalog), era) as client:
        yield client
    catalog.close()


SCHEMA = {
    "type": "object",
    "properties": {
        "bed": {"type": "string", "description": "Which bed it is."},
        "depth": {"type": "integer", "description": "How deep."},
        "wet": {"type": "number"},
        "deep": {"type": "boolean"},
        "days": {"type": ["array", "null"], "items": {"type": "integer"}},
        "how": {"type": "string", "enum": ["fast", "slow"]},
        "when": {"type": "string", "enum": ["spring", "autumn"]},
        "extra": {"type": ["object", "null"], "additionalProperties": {"type": "integer"}},
        "odd": {},
        "untyped": {},
    },
    "required": ["bed", "depth"],
}


def test_a_tool_has_the_schema_of_its_method_and_unsound_ones_are_left_out() -> None:
    provider = serve_object(Toolbox(), "box")
    offered = list(provider.tools())
    problems = provider.health()["problems"]
    provider.close()

    assert offered == [
        Offered("soil.measure", "Measure one bed, carefully.", SCHEMA, title="Measure", read_only=True),
        Offered("give", "", {"type": "object", "properties": {}}),
    ]
    assert problems == [
        "entry 2 of tools() is left out: secret names a private method",
        "entry 3 of tools() is left out: its name is not 1 to 128 of A-Z a-z 0-9 _ . -",
        "entry 4 of tools() is left out: absent names the method nowhere, which does not exist",
        "entry 5 of tools() is left out: give is listed twice",
    ]


def test_a_method_gets_its_declared_parameters_by_name_and_others_are_dropped() -> None:
    box = Toolbox()
    with served(box) as client:
        arguments = {"depth": 3.0, "bed": "north", "when": "autumn", "wet": 1, "days": [1], "unknown": 5, "odd": [{}]}
        assert client.call("soil.measure", arguments).blocks == ("measured",)

    assert box.calls == [("north", 3, 1.0, False, [1], "fast", Season.AUTUMN, None, [{}], None, (), {})]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"bed": "north"}, "Missing argument: depth"),
        ({"bed": 5, "depth": 1}, "Invalid argument: bed (expected a string)"),
        ({"bed": "n", "depth": True}, "Invalid argument: depth (expected an integer)"),
        ({"bed": "n", "depth": 1.5}, "Invalid argument: depth (expected an integer)"),
        ({"bed": "n", "depth": 1, "wet": "x"}, "Invalid argument: wet (expected a number)"),
        ({"bed": "n", "depth": 1, "deep": 1}, "Invalid argument: deep (expected true or false)"),
        (
            {"bed": "n", "depth": 1, "days": ["x"]},
            "Invalid argument: days (expected an array of integers or null)",
        ),
        ({"bed": "n", "depth": 1, "how": "soon"}, "Invalid argument: how (expected one of fast, slow)"),
        ({"bed": "n", "depth": 1, "when": "WINTER"}, "Invalid argument: when (expected one of spring, autumn)"),
        ({"bed": "n", "depth": 1, "extra": []}, "Invalid argument: extra (expected an object or null)"),
    ],
)
def test_a_wrong_argument_is_named_and_nothing_runs(arguments: dict[str, object], said: str) -> None:
    box = Toolbox()
    with served(box) as client:
        result = client.call("soil.measure", arguments)

    assert (result.is_error, result.blocks, box.calls) == (True, (said,), [])


RECORD = {
    "type": "object",
    "properties": {
        "sample": {
            "type": "object",
            "properties": {
                "bed": {"type": "string"},
                "depth": {"type": "integer"},
                "at": {"type": ["string", "null"]},
            },
            "required": ["bed", "depth"],
        },
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": ["string", "null"], "format": "date"},
        "count": {"type": "integer"},
    },
    "required": ["sample", "at"],
}


def test_arguments_may_be_dataclasses_times_and_large_numbers() -> None:
    recorder = Recorder()
    with served(recorder) as client:
        [tool] = client.tools()
        sample = {"bed": "n", "depth": 3, "at": "2026-11-17T12:00:00Z", "other": 1}
        arguments = {"sample": sample, "at": "2026-11-17T12:00:00+00:00", "day": "2026-11-17", "count": 2**80}
        assert client.call("record", arguments).blocks == ("Success",)

    assert tool.input_schema == RECORD
    assert recorder.calls == [(Sample("n", 3, NOON), NOON, date(2026, 11, 17), 2**80)]


@dataclass
class Node:
    name: str
    below: "list[Node] | None" = None


def test_a_dataclass_that_holds_itself_has_a_schema() -> None:
    assert schema_of(Node) == {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "below": {"type": ["array", "null"], "items": {}},
        },
        "required": ["name"],
    }
    assert convert(Node, {"name": "a", "below": [{"name": "b"}]}) == Node("a", [Node("b")])


@pytest.mark.parametrize(
    ("sample", "at", "said"),
    [
        ({"bed": "n"}, "2026-11-17", "sample (expected an object; depth is missing)"),
        ("n", "2026-11-17", "sample (expected an object)"),
        ({"bed": "n", "depth": "3"}, "2026-11-17", "sample (expected an object; at .depth: expected an integer)"),
        ({"bed": "n", "depth": 3}, "noon", "at (expected a string with a date-time of ISO 8601)"),
        ({"bed": "n", "depth": 3}, 12, "at (expected a string with a date-time of ISO 8601)"),
    ],
)
def test_a_wrong_record_or_time_is_named(sample: object, at: object, said: str) -> None:
    with served(Recorder()) as client:
        result = client.call("record", {"sample": sample, "at": at})

    assert (result.is_error, result.blocks) == (True, (f"Invalid argument: {said}",))


LINK = ResourceLink("x://a", "a", None, "text/plain")


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("given", "blocks", "structured"),
    [
        ("text", ("text",), None),
        (None, ("Success",), None),
        (["one", LINK], ("one", LINK), None),
        (Structured({"a": 1}), ('{"a": 1}',), {"a": 1}),
        (Structured({"a": 1}, ["told", LINK]), ("told", LINK), {"a": 1}),
        ({"é": [None]}, ('{"é": [null]}',), {"é": [None]}),
        (5, ("5",), {"result": 5}),
        ([1, "x"], ('[1, "x"]',), {"result": [1, "x"]}),
        (True, ("true",), {"result": True}),
        (2**80, ("1208925819614629174706176",), {"result": 2**80}),
        ({"n": -(2**64)}, ('{"n": -18446744073709551616}',), {"n": -(2**64)}),
        (Season.AUTUMN, ('"autumn"',), {"result": "autumn"}),
        (NOON, ('"2026-11-17T12:00:00+00:00"',), {"result": "2026-11-17T12:00:00+00:00"}),
        ([date(2026, 11, 17)], ('["2026-11-17"]',), {"result": ["2026-11-17"]}),
        (Sample("n", 3), ('{"bed": "n", "depth": 3, "at": null}',), {"bed": "n", "depth": 3, "at": None}),
        (Structured([Sample("n", 3, NOON)], ["one"]), ("one",), [SAMPLED]),
        (Noted(1, "wet"), ('{"number": 1, "message": "wet"}',), {"number": 1, "message": "wet"}),
    ],
)
def test_results_are_made_into_blocks(era: EraName, given: Any, blocks: Any, structured: Any) -> None:
    box = Toolbox()
    box.given = given
    with served(box, era) as client:
        told = structured if era == "modern" or isinstance(structured, dict) else None
        assert client.call("give") == ToolResult(blocks, told)


NUMBERS: Any = [5]


def broken() -> None:
    raise KeyError("/etc/passwd")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (Failure("The pump\nis off"), "The pump is off"),
        (broken, "Tool execution failed"),
        (object(), "Tool execution failed"),
        (float("nan"), "Tool execution failed"),
        ("\ud800", "Tool execution failed"),
        ({"a": {1}}, "Tool execution failed"),
        (lambda: 10**5_000, "Tool execution failed"),
        (Structured({}, NUMBERS), "Tool execution failed"),
    ],
)
def test_what_goes_wrong_is_a_result_that_says_so(given: Any, said: str) -> None:
    box = Toolbox()
    box.given = given
    with served(box) as client:
        result = client.call("give")

    assert (result.is_error, result.blocks) == (True, (said,))


def test_a_tool_that_hangs_is_given_up_with_a_result_that_says_so() -> None:
    box, released = Toolbox(), threading.Event()
    box.given = lambda: released.wait(PATIENCE_S)
    with served(box, timeout_s=0.2) as client:
        result = client.call("give")
        released.set()

    assert (result.is_error, result.blocks) == (True, ("Tool timed out",))


class Router(Toolbox):
    """Answers some of its calls itself."""

    def tool_call(self, name: str, arguments: list[tuple[str, object]]) -> object:
        self.calls.append((name, arguments))
        return f"called {name}" if ("bed", "self") in arguments else NotImplemented


def test_tool_call_comes_first_and_may_pass_the_call_on() -> None:
    router = Router()
    with served(router) as client:
        first = client.call("soil.measure", {"other": [1], "depth": 1, "bed": "self"})
        second = client.call("give", {})

    assert (first.blocks, second.blocks) == (("called soil.measure",), ("done",))
    assert router.calls == [("soil.measure", [("other", [1]), ("depth", 1), ("bed", "self")]), ("give", [])]


@pytest.mark.parametrize("name", ["nope", "secret", "_secret", "capabilities", "absent"])
def test_nothing_but_the_named_methods_can_be_called(name: str) -> None:
    with served(Toolbox()) as client, pytest.raises(RemoteError) as caught:
        client.call(name)

    assert (caught.value.code, caught.value.message) == (-32602, f"Unknown tool: {name}")
