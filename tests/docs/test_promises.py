"""Every promise on a page is bound to tests by name, in `tests/promises.toml`, and the tests are there and run."""

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.hostile.repositories import REPOSITORIES
from tests.hostile.test_hostile import KNOWN

ROOT = Path(__file__).parents[2]
PAGES = {"security": "docs/security.md"}
"""The pages that make promises, by their section."""

NO_PROMISES = ("What is not promised", "Reporting")
"""Parts of a page whose list items promise nothing."""

_ITEM = re.compile(r"^- (.*(?:\n  .*)*)", re.MULTILINE)
_NAME = re.compile(r"<!-- ([a-z0-9-]+) -->$")


def promised(page: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each promise; the name is empty where there is none."""
    for part in re.split(r"^## ", page, flags=re.MULTILINE):
        if part.partition("\n")[0] not in NO_PROMISES:
            for item in _ITEM.findall(part):
                name = _NAME.search(item)
                yield (name[1] if name else ""), item


def complaints(page: str, rows: Mapping[str, Mapping[str, object]]) -> list[str]:
    """Return what is wrong between a page and its rows."""
    found = list(promised(page))
    names = [name for name, _ in found if name]
    unnamed = [f"no name: {text}" for name, text in found if not name]
    twice = [f"twice: {name}" for name in set(names) if names.count(name) > 1]
    missing = [f"no row: {name}" for name in names if name not in rows]
    lonely = [f"not on the page: {name}" for name in rows if name not in names]
    empty = [f"no test: {name}" for name, row in rows.items() if not row.get("tests") or not row.get("promise")]
    return unnamed + twice + missing + lonely + empty


def proof_complaint(test: str) -> str:
    """Return why a test proves nothing; an empty text if it does."""
    path, _, name = test.partition("::")
    name, _, case = name.rstrip("]").partition("[")
    marks = _tests(path).get(name)
    if marks is None:
        return f"there is no test {test}"
    if any(re.search(r"mark\.(skip|xfail)", mark) for mark in marks):
        return f"{test} is skipped or expected to fail"
    if case and case not in REPOSITORIES:
        return f"there is no hostile repository {case}"
    if case and any(repository == case for repository, _ in KNOWN):
        return f"{test} is expected to fail"
    return ""


@cache
def _tests(path: str) -> dict[str, list[str]]:
    """Return the tests of a file, each with the decorators that are on it and on its module."""
    file = ROOT / path
    if not file.is_file():
        return {}
    tree = ast.parse(file.read_text(encoding="utf-8"))
    module = [
        ast.unparse(node) for node in tree.body if isinstance(node, ast.Assign) and "pytestmark" in ast.unparse(node)
    ]
    return {
        node.name: [*module, *map(ast.unparse, node.decorator_list)]
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def _rows(section: str) -> dict[str, dict[str, object]]:
    table = tomllib.loads((ROOT / "tests/promises.toml").read_text(encoding="utf-8"))
    rows: dict[str, dict[str, object]] = table[section]
    return rows


@pytest.mark.parametrize("section", PAGES)
def test_every_promise_has_a_row_and_every_row_a_promise(section: str) -> None:
    page = (ROOT / PAGES[section]).read_text(encoding="utf-8")

    assert complaints(page, _rows(section)) == []
    assert len(_rows(section)) > 30


@pytest.mark.parametrize("section", PAGES)
def test_every_test_that_proves_a_promise_exists_and_runs(section: str) -> None:
    tests = [str(test) for row in _rows(section).values() for test in row["tests"]]  # type: ignore[attr-defined]

    assert [complaint for test in tests if (complaint := proof_complaint(test))] == []


def test_a_page_whose_promises_are_not_bound_is_noticed() -> None:
    page = "- On two\n  lines. <!-- a -->\n- Not named.\n- No row. <!-- b -->\n\n## Reporting\n\n- Uncounted.\n"
    rows = {"a": {"promise": "x", "tests": []}, "c": {"promise": "x", "tests": ["t"]}}

    assert complaints(page, rows) == ["no name: Not named.", "no row: b", "not on the page: c", "no test: a"]


@pytest.mark.parametrize(
    "test",
    [
        "tests/docs/test_promises.py::test_that_is_not_there",
        "tests/core/test_not_there.py::test_x",
        "tests/hostile/test_hostile.py::test_a_hostile_repository_gets_nothing[not_there]",
        "tests/docs/test_promises.py::test_an_example_that_is_expected_to_fail",
    ],
)
def test_a_test_that_proves_nothing_is_noticed(test: str) -> None:
    assert proof_complaint(test) != ""


@pytest.mark.xfail(reason="it is the example of the test above", strict=True)
def test_an_example_that_is_expected_to_fail() -> None:
    raise AssertionError
