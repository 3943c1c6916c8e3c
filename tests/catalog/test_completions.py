"""Completion in a scheme of which a caller may read only some places."""

from collections.abc import Mapping, Sequence

import pytest

from carrel.catalog.access import is_at
from carrel.catalog.completions import NONE_OFFERED, LimitedCompletion, as_completion
from carrel.core.limits import MAX_COMPLETIONS
from carrel.core.model import Completion

PACKAGES = ("lamp", "lamp2", "lantern")


def offered(
    template: str, variable: str, value: str, places: Sequence[str], context: Mapping[str, str] | None = None
) -> Completion:
    """Complete where every package has the versions 1 and 2, and every URI below a place may be read."""
    known = {"name": PACKAGES, "version": ("1", "2"), "path": ("lamp/1/a b.md", "lamp2/x"), "format": ("json", "text")}

    def ask(begin: str) -> Sequence[str]:
        return [one for one in known[variable] if one.startswith(begin)]

    def can_read(uri: str) -> bool:
        return any(is_at(uri, place) for place in places)

    return LimitedCompletion(template, variable, context or {}, places, ask, can_read).offered(value)


@pytest.mark.parametrize(
    ("places", "value", "values"),
    [
        (["pkg://lamp/1/"], "", ["lamp"]),
        (["pkg://lamp/"], "la", ["lamp"]),
        (["pkg://lamp"], "lamp2", []),
        (["pkg://lamp2/2", "pkg://lantern"], "", ["lamp2", "lantern"]),
        (["pkg://other/1"], "", []),
    ],
)
def test_a_variable_before_others_is_offered_if_one_of_its_uris_may_be_read(
    places: list[str], value: str, values: list[str]
) -> None:
    assert list(offered("pkg://{name}/{version}", "name", value, places).values) == values


@pytest.mark.parametrize(
    ("places", "context", "values"),
    [
        (["pkg://lamp/1"], {"name": "lamp"}, ["1"]),
        (["pkg://lamp/"], {"name": "lamp"}, ["1", "2"]),
        (["pkg://lamp/"], {"name": "lamp2"}, []),
        (["pkg://lamp/"], {}, []),
    ],
)
def test_a_later_variable_needs_those_before_it(places: list[str], context: dict[str, str], values: list[str]) -> None:
    assert list(offered("pkg://{name}/{version}", "version", "", places, context).values) == values


def test_escapes_in_a_place_are_those_of_the_uri() -> None:
    assert offered("pkg://{+path}", "path", "", ["pkg://lamp/1/a%20b.md"]).values == ("lamp/1/a b.md",)


@pytest.mark.parametrize(
    ("context", "values"), [({"name": "lamp"}, ("json", "text")), ({"name": "lamp2"}, ()), ({}, ())]
)
def test_a_parameter_is_offered_for_a_uri_that_may_be_read(context: dict[str, str], values: tuple[str, ...]) -> None:
    assert offered("pkg://{name}{?format}", "format", "", ["pkg://lamp"], context).values == values


def test_nothing_is_offered_for_what_is_no_template() -> None:
    assert offered("pkg://{", "name", "", ["pkg://lamp"]) == NONE_OFFERED


def test_more_values_of_the_part_are_reported_and_those_of_the_rest_are_not() -> None:
    names = [f"lamp{number}" for number in range(MAX_COMPLETIONS + 1)]

    def ask(begin: str) -> Completion:
        return as_completion([name for name in names if name.startswith(begin)])

    def completion(place: str) -> Completion:
        return LimitedCompletion("pkg://all/{name}", "name", {}, [place], ask, lambda uri: is_at(uri, place)).offered(
            ""
        )

    part, one = completion("pkg://all/"), completion("pkg://all/lamp1")
    assert (len(part.values), part.total, part.has_more) == (MAX_COMPLETIONS, None, True)
    assert one == Completion(("lamp1",), total=1, has_more=False)
