"""A caller who may read a part of the files: every face of the search finds in that part and shows nothing else."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from carrel.catalog.access import Access
from tests.support.explorer_desk import Browsed
from tests.support.workspaces import fill

JSON = {"accept": "application/json"}
FACES = (
    "/-/search?q=greenhouse",
    "/-/search.json?q=greenhouse",
    "/-/search.md?q=greenhouse",
    "/carrel/search?q=greenhouse",
)


@pytest.fixture(name="shared")
def desk_with_a_part(tmp_path: Path) -> Iterator[Browsed]:
    root = fill(tmp_path / "desk", {"docs/open.md": "greenhouse", "src/closed_source.md": "greenhouse greenhouse"})
    browsed = Browsed(root, {"writer": Access("writer", frozenset({"workspace:///docs/:read"}))})
    yield browsed
    browsed.close()


@pytest.mark.parametrize("address", FACES)
def test_every_face_of_the_search_finds_in_the_part(shared: Browsed, address: str) -> None:
    reply = shared.get(address, {"accept": "*/*"}, caller="writer")

    assert reply.status == 200
    assert b"docs/open.md" in reply.body
    assert b"closed_source" not in reply.body


def test_the_page_of_the_search_and_the_first_page_lead_to_the_part(shared: Browsed) -> None:
    page = shared.page("/-/search?q=greenhouse", caller="writer")
    home = shared.page("/", caller="writer")

    assert "docs/open.md" in page
    assert "workspace:///docs/" in home
    assert "closed_source" not in page + home


def test_counts_are_those_of_the_part(shared: Browsed) -> None:
    found = shared.get("/-/search?q=greenhouse", JSON, caller="writer").json
    index = shared.get("/-/index.json", {}, caller="writer").json

    assert (found["total"], index["documents"], index["indexed"]) == (1, 1, 1)
    assert "bytes" not in index
