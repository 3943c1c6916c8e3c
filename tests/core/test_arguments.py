"""Arguments of tools and queries of URIs: one declaration, one checker."""

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from carrel.core.arguments import (
    UNSET,
    Argument,
    Arguments,
    InvalidArguments,
    UnsetType,
    convert,
    describe,
    parse_integer,
    schema_of,
)
from carrel.core.record import Value

Name = Annotated[str, Argument(min_length=1)]
Count = Annotated[int, Argument(ge=1, le=1_000, description="Maximum number of results.")]


class Wanted(Value, frozen=True, rename="camel"):
    """Some arguments of every kind."""

    parent_alias: Annotated[str, Argument(min_length=1, description="Alias of the parent.", examples=["web"])]
    limit: Count = 100
    order: Literal["newest", "oldest"] | None = None
    moved_to: Annotated[
        Annotated[str, Argument(min_length=1)] | UnsetType | None, Argument(description="Or a root.")
    ] = UNSET
    tags: Sequence[str] = ()
    is_deep: bool = False


ARGUMENTS = Arguments(Wanted)


def problems(arguments: Arguments[Value], given: dict[str, object]) -> list[str]:
    with pytest.raises(InvalidArguments) as caught:
        arguments.check(given)
    return [problem.text for problem in caught.value.problems]


def test_the_schema_is_closed_and_says_everything_that_was_declared() -> None:
    Draft202012Validator.check_schema(ARGUMENTS.schema)
    assert ARGUMENTS.schema == {
        "type": "object",
        "properties": {
            "parentAlias": {"type": "string", "minLength": 1, "description": "Alias of the parent."},
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": 1_000,
                "description": "Maximum number of results.",
                "default": 100,
            },
            "order": {"type": "string", "enum": ["newest", "oldest"]},
            "movedTo": {"type": ["string", "null"], "minLength": 1, "description": "Or a root."},
            "tags": {"type": "array", "items": {"type": "string"}},
            "isDeep": {"type": "boolean", "default": False},
        },
        "additionalProperties": False,
        "required": ["parentAlias"],
    }


def test_arguments_that_fit_become_a_typed_record() -> None:
    given = {"parentAlias": "a", "limit": 5, "order": "oldest", "movedTo": None, "tags": ["x"], "isDeep": True}

    assert ARGUMENTS.check(given) == Wanted("a", 5, "oldest", None, ["x"], is_deep=True)
    assert ARGUMENTS.check({"parentAlias": "a"}) == Wanted("a")
    assert ARGUMENTS.check({"parentAlias": "a", "limit": 5.0}).limit == 5


def test_every_problem_is_named() -> None:
    given = {"x": 1, "limit": 1_001, "order": "random", "movedTo": "", "tags": ["a", 5], "isDeep": "yes"}

    given_names = ("parentAlias", "limit", "order", "movedTo", "tags", "isDeep")
    assert problems(ARGUMENTS, given) == [
        f'Unknown argument: x (known: {", ".join(given_names)}; for example {{"parentAlias": "web"}})',
        "Invalid argument: limit=1001 (expected an integer from 1 to 1000)",
        "Invalid argument: order=random (expected one of newest, oldest)",
        'Invalid argument: movedTo="" (expected a string of at least 1 character or null)',
        "Invalid argument: tags (expected an array of strings)",
        'Invalid argument: isDeep="yes" (expected true or false)',
        "Missing argument: parentAlias",
    ]


@pytest.mark.parametrize("value", ["20", True, 1.5, None, [], {}, 0, -1, 2**70, float("inf"), float("nan")])
def test_nothing_is_converted_silently(value: object) -> None:
    (problem,) = problems(ARGUMENTS, {"parentAlias": "a", "limit": value})

    assert problem.startswith("Invalid argument: limit")
    assert problem.endswith("(expected an integer from 1 to 1000)")


def test_null_does_not_stand_for_an_argument_that_was_left_out() -> None:
    assert problems(ARGUMENTS, {"parentAlias": "a", "order": None}) == [
        "Invalid argument: order=null (expected one of newest, oldest)"
    ]


def test_a_string_is_not_taken_for_the_number_that_was_expected() -> None:
    assert problems(ARGUMENTS, {"parentAlias": "a", "limit": "1"}) == [
        'Invalid argument: limit="1" (expected an integer from 1 to 1000)'
    ]


def test_what_a_caller_wrote_is_repeated_in_a_safe_form() -> None:
    (problem,) = problems(ARGUMENTS, {"parentAlias": "a", "\x1b" + "x" * 300: 1})

    assert problem.startswith("Unknown argument: \\x1bxxx")
    assert "x" * 200 not in problem


def test_an_answer_about_very_many_problems_stays_short() -> None:
    texts = problems(ARGUMENTS, {"parentAlias": "a", **{f"x{number}": 1 for number in range(10_000)}})

    assert len(texts) == 21
    assert texts[-1] == "9980 more problems"


def test_a_tool_without_arguments_takes_none() -> None:
    class Nothing(Value, frozen=True):
        """No arguments."""

    assert Arguments(Nothing).schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert problems(Arguments(Nothing), {"x": 1}) == ["Unknown argument: x (it takes no arguments)"]


def test_an_example_that_was_declared_is_shown_before_one_that_is_made_up() -> None:
    class Optional(Value, frozen=True):
        """Arguments that may be left out."""

        cursor: str | None = None
        prefix: Annotated[str, Argument(examples=["src/"])] | None = None

    assert problems(Arguments(Optional), {"x": 1}) == [
        'Unknown argument: x (known: cursor, prefix; for example {"prefix": "src/"})'
    ]


def test_annotations_can_be_narrowed_at_run_time() -> None:
    narrowed = Arguments(Wanted, limit=Annotated[int, Argument(ge=1, le=3)])

    assert narrowed.check({"parentAlias": "a", "limit": 3}).limit == 3
    assert problems(narrowed, {"parentAlias": "a", "limit": 4}) == [
        "Invalid argument: limit=4 (expected an integer from 1 to 3)"
    ]


def test_the_result_of_a_tool_has_one_text_for_each_problem() -> None:
    with pytest.raises(InvalidArguments) as caught:
        ARGUMENTS.check({"limit": 0})

    assert caught.value.result().is_error
    assert caught.value.result().blocks == (
        "Invalid argument: limit=0 (expected an integer from 1 to 1000)",
        "Missing argument: parentAlias",
    )


# Queries


class Part(Value, frozen=True):
    """The parameters of a query."""

    tail: Annotated[int, Argument(ge=1, examples=[50])] | None = None
    format: Literal["text", "json"] = "text"


QUERY = Arguments(Part)


def test_the_values_of_a_query_are_read_from_text() -> None:
    assert QUERY.check_query([("tail", "+020"), ("format", "json")]) == Part(20, "json")
    assert QUERY.check_query([]) == Part()


def test_a_bad_query_is_refused_with_the_uri_and_the_parameter() -> None:
    pairs = [("tail", "x"), ("tail", "2"), ("format", "xml"), ("foo", "1")]
    with pytest.raises(InvalidArguments) as caught:
        QUERY.check_query(pairs, "logs://run/a")

    assert (caught.value.uri, caught.value.data) == ("logs://run/a", {"parameter": "tail"})
    assert [(problem.fault, problem.text) for problem in caught.value.problems] == [
        ("invalid", "Invalid parameter: tail=x (expected an integer, 1 or more)"),
        ("repeated", "Invalid parameter: tail=2 (given twice)"),
        ("invalid", "Invalid parameter: format=xml (expected one of text, json)"),
        ("unknown", "Invalid parameter: foo=1 (known: tail, format; for example ?tail=50)"),
    ]


@given(st.integers())
def test_integers_of_up_to_18_digits_are_read_exactly(number: int) -> None:
    read = parse_integer(str(number))

    assert read == number if abs(number) < 10**18 else read == (10**18 - 1) * (1 if number > 0 else -1)


@pytest.mark.parametrize("text", ["", " 3", "3 ", "1_0", "2.5", "\uff11", "+", "-", "0x1", "1e3", "3\n"])
def test_other_texts_are_no_integers(text: str) -> None:
    assert parse_integer(text) is None


# Annotations


class Season(enum.Enum):
    """Choices with names that callers do not see."""

    SPRING = "spring"
    AUTUMN = "autumn"


@dataclass
class Bed:
    """A record within an argument."""

    title: str
    sown: date | None = None


class Branch(Value, frozen=True):
    """A record that holds itself."""

    below: Sequence["Branch"] = ()


@pytest.mark.parametrize(
    ("kind", "schema", "words"),
    [
        (Season, {"type": "string", "enum": ["spring", "autumn"]}, "one of spring, autumn"),
        (
            list[int] | None,
            {"type": ["array", "null"], "items": {"type": "integer"}},
            "an array of integers or null",
        ),
        (date, {"type": "string", "format": "date"}, "a string with a date of ISO 8601"),
        (
            date | None,
            {"type": ["string", "null"], "format": "date"},
            "a string with a date of ISO 8601 or null",
        ),
        (
            list[Literal["a", "b"]],
            {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
            "an array, each item one of a, b",
        ),
        (
            Annotated[float, Argument(ge=0, le=1)],
            {"type": "number", "minimum": 0, "maximum": 1},
            "a number from 0 to 1",
        ),
        (dict[str, str], {"type": "object", "additionalProperties": {"type": "string"}}, "an object"),
        (
            Literal["a"] | bool,
            {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "boolean"}]},
            "one of a or true or false",
        ),
        (Any, {}, "another value"),
    ],
)
def test_an_annotation_has_a_schema_and_words(kind: object, schema: object, words: str) -> None:
    assert schema_of(kind) == schema
    assert describe(schema_of(kind)) == words


def test_records_stand_in_the_schema_themselves() -> None:
    assert schema_of(Bed)["properties"] == {
        "title": {"type": "string"},
        "sown": {"type": ["string", "null"], "format": "date"},
    }
    Draft202012Validator.check_schema(schema_of(Branch))


def test_values_become_what_the_annotation_says() -> None:
    assert convert(Season, "spring") is Season.SPRING
    assert convert(Bed, {"title": "North", "sown": "2026-11-17"}) == Bed("North", date(2026, 11, 17))
    with pytest.raises(ValueError, match=r"expected an object; at .sown: Invalid RFC3339 encoded date"):
        convert(Bed, {"title": "North", "sown": "soon"})


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (Bed, "North", "expected an object"),
        (Bed, {}, "expected an object; title is missing"),
        (Bed, {"title": 5}, "expected an object; at .title: expected a string"),
        (list[Bed], [{"title": "North"}, {}], "expected an array of objects; at [1]: title is missing"),
        (list[Bed], [{"title": "North", "sown": 5}], "expected an array of objects; at [0].sown: expected "),
    ],
)
def test_the_wrong_part_of_a_record_is_named(kind: object, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        convert(kind, value)
