"""Every promise is bound to tests by name, in `tests/promises.toml`, and the tests are there and run."""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pytest

from carrel.testing import ProviderContract
from scripts.promises import PAGES, Document, Promise, promised, read_documents
from tests.hostile.repositories import REPOSITORIES
from tests.hostile.test_hostile import KNOWN

ROOT = Path(__file__).parents[2]
DOCUMENTS = read_documents()
FEWEST = {
    "fly": 40,
    "sage": 25,
    "scopes": 28,
    "alc": 35,
    "objects": 22,
    "mcp": 90,
    "security": 35,
    "doctor": 6,
    "connect": 9,
    "team": 7,
}
"""The documents, and how many promises each has at least; so that none is lost unnoticed."""

_LEAVES = re.compile(r"\bpytest\.(skip|xfail|importorskip)\(")
_SKIPPED = re.compile(rf"\bmark\.(skip|xfail)|{_LEAVES.pattern}")


# Pages that mark their promises


def page_complaints(page: str, rows: Mapping[str, object]) -> list[str]:
    """Return what is wrong between a page and its rows."""
    found = list(promised(page))
    names = [name for name, _ in found if name]
    unnamed = [f"no name: {text}" for name, text in found if not name]
    twice = [f"twice: {name}" for name in set(names) if names.count(name) > 1]
    missing = [f"no row: {name}" for name in names if name not in rows]
    lonely = [f"not on the page: {name}" for name in rows if name not in names]
    return unnamed + twice + missing + lonely


@pytest.mark.parametrize("section", PAGES)
def test_every_promise_of_a_page_has_a_row_and_every_row_a_promise(section: str) -> None:
    page = (ROOT / PAGES[section]).read_text(encoding="utf-8")

    assert page_complaints(page, DOCUMENTS[section].promises) == []


def test_a_page_whose_promises_are_not_bound_is_noticed() -> None:
    page = "- On two\n  lines. <!-- a -->\n- Not named.\n- No row. <!-- b -->\n\n## Reporting\n\n- Uncounted.\n"

    assert page_complaints(page, {"a": "x", "c": "x"}) == ["no name: Not named.", "no row: b", "not on the page: c"]


# Rows


def row_complaints(document: Document) -> list[str]:
    """Return what is wrong with the rows of a document, whatever their tests do."""
    rows = document.promises
    empty = [f"no test: {name}" for name, row in rows.items() if not row.tests or not row.promise]
    twice = [f"a test twice: {name}" for name, row in rows.items() if len(set(row.tests)) < len(row.tests)]
    parts = [part for part, _ in groupby(row.part for row in rows.values())]
    scattered = [f"not in one piece: {part}" for part in sorted(set(parts)) if parts.count(part) > 1]
    return empty + twice + scattered


def test_every_document_has_its_promises() -> None:
    counts = {name: len(document.promises) for name, document in DOCUMENTS.items()}

    assert counts.keys() == FEWEST.keys()
    assert [name for name, count in counts.items() if count < FEWEST[name]] == []


@pytest.mark.parametrize("section", DOCUMENTS)
def test_every_promise_has_a_test(section: str) -> None:
    assert row_complaints(DOCUMENTS[section]) == []


def test_rows_that_prove_nothing_are_noticed() -> None:
    rows = {
        "a": Promise(["t"], "x", "one"),
        "b": Promise([], "x", "two"),
        "c": Promise(["t"], "", "two"),
        "d": Promise(["t", "t"], "x", "one"),
    }

    assert row_complaints(Document("", "", rows)) == [
        "no test: b",
        "no test: c",
        "a test twice: d",
        "not in one piece: one",
    ]


# Tests

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Found(NamedTuple):
    """What a file holds: the tests with the source of all that could skip them, and the classes that inherit laws."""

    tests: Mapping[str, str]
    laws: Mapping[str, str]


def proof_complaint(test: str) -> str:
    """Return why a test proves nothing; an empty text if it does."""
    path, *classes, last = test.split("::")
    name, _, case = last.rstrip("]").partition("[")
    source = _source(path, classes, name)
    if source is None:
        return f"there is no test {test}"
    if _SKIPPED.search(source):
        return f"{test} is skipped or expected to fail"
    if case and case not in REPOSITORIES:
        return f"there is no hostile repository {case}"
    if case and any(repository == case for repository, _ in KNOWN):
        return f"{test} is expected to fail"
    return ""


def _source(path: str, classes: list[str], name: str) -> str | None:
    """Return the source of a test with all that could skip it; None if there is no such test."""
    found = _found(path)
    own = found.tests.get("::".join([*classes, name]))
    if own is None and len(classes) == 1 and hasattr(ProviderContract, name):
        return found.laws.get(classes[0])
    return own


@cache
def _found(path: str) -> Found:
    file = ROOT / path
    if not file.is_file():
        return Found({}, {})
    text = file.read_text(encoding="utf-8")
    tree = ast.parse(text)
    if not _SKIPPED.search(text):
        return _without_sources(tree)
    helpers = {one.name: ast.unparse(one) for one in _functions(tree.body) if not one.name.startswith("test_")}
    marks = _marks(tree.body)
    tests = {one.name: marks + _with_helpers(one, helpers) for one in _functions(tree.body)}
    laws = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            around = "\n".join([marks, *map(ast.unparse, node.decorator_list), _marks(node.body)])
            tests |= {f"{node.name}::{one.name}": around + _with_helpers(one, helpers) for one in _functions(node.body)}
            if "ProviderContract" in map(ast.unparse, node.bases):
                laws[node.name] = around
    return Found(tests, laws)


def _without_sources(tree: ast.Module) -> Found:
    """Return the tests of a file that skips nothing: writing out their sources takes long."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    tests = {one.name: "" for one in _functions(tree.body)}
    tests |= {f"{node.name}::{one.name}": "" for node in classes for one in _functions(node.body)}
    laws = {node.name: "" for node in classes if "ProviderContract" in map(ast.unparse, node.bases)}
    return Found(tests, laws)


def _functions(body: list[ast.stmt]) -> Iterator[Function]:
    return (node for node in body if isinstance(node, Function))


def _marks(body: list[ast.stmt]) -> str:
    """Return the statements that mark a whole module or class."""
    return "\n".join(ast.unparse(node) for node in body if isinstance(node, ast.Assign | ast.Expr)) + "\n"


def _with_helpers(test: Function, helpers: Mapping[str, str]) -> str:
    """Return the source of a test, and of those fixtures and helpers of its file that may end it early."""
    source = ast.unparse(test)
    used = set(re.findall(r"\w+", source)) & helpers.keys()
    return "\n".join([source, *(helpers[name] for name in sorted(used) if _LEAVES.search(helpers[name]))])


@pytest.mark.parametrize("section", DOCUMENTS)
def test_every_test_that_proves_a_promise_exists_and_runs(section: str) -> None:
    tests = {test for row in DOCUMENTS[section].promises.values() for test in row.tests}

    assert [complaint for test in sorted(tests) if (complaint := proof_complaint(test))] == []


@pytest.mark.parametrize(
    "test",
    [
        "tests/docs/test_promises.py::test_that_is_not_there",
        "tests/docs/test_promises.py::TestNotThere::test_law_5_two_reads_are_equal_and_the_etag_says_so",
        "tests/core/test_not_there.py::test_x",
        "tests/hostile/test_hostile.py::test_a_hostile_repository_gets_nothing[not_there]",
        "tests/docs/test_promises.py::test_an_example_that_is_expected_to_fail",
        "tests/docs/test_promises.py::test_an_example_that_may_be_skipped",
        "tests/providers/alc/test_provider.py::TestAlc::test_law_99_there_is_no_such_law",
    ],
)
def test_a_test_that_proves_nothing_is_noticed(test: str) -> None:
    assert proof_complaint(test) != ""


@pytest.mark.xfail(reason="it is an example for the test above", strict=True)
def test_an_example_that_is_expected_to_fail() -> None:
    raise AssertionError


def leave_if(condition: bool) -> None:
    """Skip a test; no test of this file calls it with true."""
    if condition:
        pytest.skip("it is an example for the test above")


def test_an_example_that_may_be_skipped() -> None:
    leave_if(condition=False)
