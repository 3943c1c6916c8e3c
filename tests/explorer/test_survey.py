"""What providers say of themselves, within a bounded time."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from carrel.catalog.access import Access, ActingAs
from carrel.catalog.routes import Mounted
from carrel.core.model import Annotations, Resource
from carrel.core.provider import Provider, Route
from carrel.explorer.survey import Survey


class Counted(Provider):
    """Some entries, and a sentence about them."""

    name = "counted"
    schemes = ("counted",)

    def routes(self) -> tuple[Route, ...]:
        return ()

    def entries(self, after: str = "") -> Iterator[Resource]:
        for number in range(12_000):
            yield Resource(f"counted://{number}", "x", annotations=Annotations(last_modified_ms=number))

    def health(self) -> dict[str, object]:
        return {"problems": ["/secret/place/of/x is full"], "left_out": "no list"}


class Hanging(Counted):
    """A provider that does not answer."""

    name = "hanging"

    def __init__(self) -> None:
        self.left = threading.Event()

    def health(self) -> dict[str, object]:
        self.left.wait()
        return {}


class Failing(Counted):
    """A provider whose health fails."""

    name = "failing"

    def health(self) -> dict[str, object]:
        raise ZeroDivisionError


def test_entries_are_counted_up_to_a_bound_with_the_last_change_and_no_server_paths() -> None:
    said = Survey("/root")
    found = said.ask([Mounted(Counted())])["counted"]

    assert 0 < found.entries <= 10_000
    assert found.is_more
    assert found.last_change_ms == found.entries - 1
    assert found.sentences("problems") == ["…/x is full"]
    assert found.sentences("left_out") == []


def test_a_provider_that_hangs_or_fails_delays_no_other() -> None:
    hanging = Hanging()
    try:
        said = Survey("/root").ask([Mounted(hanging), Mounted(Failing())])
    finally:
        hanging.left.set()

    assert said["hanging"].sentences("problems") == ["does not answer in time"]
    assert "failed" in said["failing"].sentences("problems")[0]


def test_entries_that_a_caller_may_not_read_are_not_counted() -> None:
    with ActingAs(Access("other", frozenset())):
        assert Survey("/root").ask([Mounted(Counted())])["counted"].entries == 0


def test_a_caller_with_a_part_gets_its_count_in_time_and_no_word_of_the_rest() -> None:
    class Endless(Counted):
        def entries(self, after: str = "") -> Iterator[Resource]:
            yield from super().entries()
            while not stopped.is_set():
                yield Resource("counted://rest", "x")

    stopped = threading.Event()
    try:
        with ActingAs(Access("part", frozenset({"counted://7:read"}))):
            found = Survey("/root").ask([Mounted(Endless())])["counted"]
    finally:
        stopped.set()

    assert (found.entries, found.is_more) == (1, True)
    assert found.sentences("problems") == []


def test_a_health_that_json_cannot_hold_is_reported_as_text() -> None:
    class Odd(Counted):
        def health(self) -> dict[Any, object]:
            return {"answers": {200: 5, None: 1, (1, 2): 3.5}, 7: {"b"}, "since": Path("x"), "is_full": False}

    assert Survey("/root").ask([Mounted(Odd())])["counted"].health == {
        "answers": {"200": 5, "None": 1, "(1, 2)": 3.5},
        "7": ["b"],
        "since": "x",
        "is_full": False,
    }
