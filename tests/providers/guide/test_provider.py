"""The guide and the health of a desk on which a provider hangs: they say so, and wait for it only once."""

import json
import threading
from collections.abc import Iterator
from time import monotonic
from typing import Any

import pytest

from carrel.catalog.catalog import Catalog
from carrel.core.model import Resource, Text
from carrel.providers.guide import Guide, reports
from tests.support.memory_provider import Shelf
from tests.support.waiting import until

LONG_S = 60.0


class Hanging(Shelf):
    """A Shelf that hangs in the calls that are named, until it is let go."""

    def __init__(self, name: str, *hanging: str) -> None:
        super().__init__(name, {"1": "one"})
        self.calls = 0
        self._hanging = hanging
        self._is_free = threading.Event()

    def let_go(self) -> None:
        self._is_free.set()

    def _wait(self, call: str) -> None:
        if call in self._hanging:
            self.calls += 1
            self._is_free.wait(LONG_S)

    def health(self) -> dict[str, Any]:
        self._wait("health")
        return {"state": "up", "left_out": [f"nothing of {self.name}"]}

    def entries(self, after: str = "") -> Iterator[Resource]:
        self._wait("entries")
        return super().entries(after)


class Unlisted(Shelf):
    """A Shelf whose list fails."""

    def entries(self, after: str = "") -> Iterator[Resource]:
        raise ValueError("/srv/secret")


class Faulty(Shelf):
    """A Shelf that cannot tell how it is."""

    def health(self) -> dict[str, Any]:
        raise OSError("/srv/secret")


@pytest.fixture
def hung(request: pytest.FixtureRequest) -> Iterator[Hanging]:
    made = Hanging("hung", *request.param)
    yield made
    made.let_go()


def desk(monkeypatch: pytest.MonkeyPatch, *shelves: Shelf, max_listed: int = 1_000) -> Catalog:
    monkeypatch.setattr(reports, "ANSWER_S", 0.2)
    catalog = Catalog(shelves, max_listed=max_listed)
    catalog.mount(Guide(catalog))
    return catalog


def text_of(catalog: Catalog, uri: str) -> str:
    item = catalog.read(uri).items[0]
    assert isinstance(item, Text)
    return item.text


@pytest.mark.parametrize("hung", [("health",)], indirect=True)
def test_the_health_of_a_provider_that_hangs_is_that_it_does_not_answer(
    hung: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = desk(monkeypatch, hung, Hanging("fine"))
    health = json.loads(text_of(catalog, "carrel://health"))

    assert health["status"] == "problems"
    assert health["problems"] == ["hung: does not answer"]
    assert health["providers"][:2] == [
        {"name": "hung", "state": "late", "problems": ["does not answer"]},
        {"name": "fine", "state": "up"},
    ]


@pytest.mark.parametrize("hung", [("health",)], indirect=True)
def test_a_provider_that_hangs_is_waited_for_once_and_asked_again_when_it_is_back(
    hung: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = desk(monkeypatch, hung)
    for _ in range(20):
        assert json.loads(text_of(catalog, "carrel://health"))["status"] == "problems"

    assert hung.calls == 1
    hung.let_go()
    until(lambda: json.loads(text_of(catalog, "carrel://health"))["status"] == "ok")


@pytest.mark.parametrize("hung", [("health",), ("entries",), ("health", "entries")], indirect=True)
@pytest.mark.parametrize("max_listed", [0, 1])
def test_the_guide_of_a_provider_that_hangs_names_it_and_has_all_others(
    hung: Hanging, max_listed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = desk(monkeypatch, hung, Hanging("fine"), max_listed=max_listed)
    began = monotonic()
    told = text_of(catalog, "carrel://guide")

    assert monotonic() - began < LONG_S / 2
    assert "- hung: does not answer\n" in told
    assert "- `fine:///1`\n" in told
    assert "- fine: nothing of fine\n" in told
    assert "## How to read" in told


@pytest.mark.parametrize("hung", [("entries",)], indirect=True)
def test_the_catalogue_of_a_provider_that_hangs_says_that_there_may_be_more(
    hung: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = desk(monkeypatch, hung, Hanging("fine"))
    counted = json.loads(text_of(catalog, "carrel://catalog"))["providers"]

    assert [(one["name"], one["entries"], one["moreEntries"]) for one in counted] == [
        ("hung", 0, True),
        ("fine", 1, False),
    ]


def test_a_provider_whose_list_fails_is_named_and_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = desk(monkeypatch, Unlisted("broken"), Hanging("fine"), max_listed=1)
    guide, counted = text_of(catalog, "carrel://guide"), json.loads(text_of(catalog, "carrel://catalog"))["providers"]

    assert "- broken: its list failed; see the server's log\n" in guide
    assert "- `fine:///1`\n" in guide
    assert [(one["name"], one["entries"], one["moreEntries"]) for one in counted] == [
        ("broken", 0, False),
        ("fine", 1, False),
    ]


def test_a_provider_whose_health_breaks_leaves_the_others_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = desk(monkeypatch, Faulty("faulty", {"1": "one"}), Hanging("fine"))
    health = json.loads(text_of(catalog, "carrel://health"))

    assert health["problems"] == ["faulty: failed to report its health; see the server's log"]
    assert health["providers"][1] == {"name": "fine", "state": "up"}
