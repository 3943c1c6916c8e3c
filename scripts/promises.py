"""Reads tests/promises.toml and renders docs/promises.md from it; scripts/docs.py writes the page."""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "tests" / "promises.toml"
PAGES = {"security": "docs/security.md"}
"""The pages that mark each promise with its id, and have its words."""

NO_PROMISES = ("What is not promised", "Reporting")
"""Parts of such a page whose list items promise nothing."""

_ITEM = re.compile(r"^- (.*(?:\n  .*)*)", re.MULTILINE)
_ID = re.compile(r" *<!-- ([a-z0-9-]+) -->$")
INTRODUCTION = """\
# Promises

Five systems describe, each in its own document, how they serve their data as MCP resources. Carrel keeps what
those documents promise, what the protocol demands of a server, and what [its own page on security](security.md) says.
This page lists every promise in our words, and under each the tests that prove it. A test's name is a sentence about
behaviour; the link leads to its file.

Where a document contradicts itself or the protocol, or leaves something open, Carrel decides. *Differs* says how.

Generated from `tests/promises.toml` by `make docs`. A test fails when this page is out of date, when a promise has no
test, and when a test named here does not exist, is skipped or is expected to fail.
"""


class Promise(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One promise and the tests that prove it. The row of a promise on one of `PAGES` has no words of its own."""

    tests: list[str]
    promise: str = ""
    part: str = ""
    differs: str = ""


class Document(msgspec.Struct, frozen=True):
    """What one document promises, by the ids of the promises."""

    title: str
    about: str
    promises: Mapping[str, Promise]


def read_documents() -> dict[str, Document]:
    """Return every document of the table, by the name of its section."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return {name: _document(name, section) for name, section in table.items()}


def _document(name: str, section: Mapping[str, Any]) -> Document:
    page = (ROOT / PAGES[name]).read_text(encoding="utf-8") if name in PAGES else ""
    words = {key: {"promise": text} for key, text in promised(page)}
    rows = {
        key: msgspec.convert(row | words.get(key, {}), Promise) for key, row in section.items() if isinstance(row, dict)
    }
    return Document(section["title"], section["about"], rows)


def promised(page: str) -> Iterator[tuple[str, str]]:
    """Yield the id and the words of each promise on a page; the id is empty where there is none."""
    for part in re.split(r"^## ", page, flags=re.MULTILINE):
        if part.partition("\n")[0] not in NO_PROMISES:
            for item in _ITEM.findall(part):
                found = _ID.search(item)
                yield (found[1] if found else ""), " ".join(_ID.sub("", item).split())


def render() -> str:
    """Return the page."""
    documents = read_documents()
    contents = [
        f"| [{one.title}](#{_anchor(one.title)}) | {len(one.promises)} | {len(_tests(one))} |"
        for one in documents.values()
    ]
    head = [INTRODUCTION, "| document | promises | tests |", "| --- | --: | --: |", *contents]
    return "\n".join([*head, *(line for one in documents.values() for line in _section(one)), ""])


def _section(document: Document) -> Iterator[str]:
    yield from ("", f"## {document.title}", "", document.about)
    for part, rows in groupby(document.promises.values(), key=lambda row: row.part):
        if part:
            yield from ("", f"### {part}")
        yield ""
        for row in rows:
            yield f"- {row.promise}"
            if row.differs:
                yield f"  *Differs: {row.differs}*"
            yield f"  <br>Proved by: {_links(row.tests)}."


def _links(tests: Iterable[str]) -> str:
    """Return links to tests, each named once; the class or the hostile repositories stand behind it."""
    cases: dict[tuple[str, str], list[str]] = {}
    for test in tests:
        path, *classes, last = test.split("::")
        name, _, case = last.rstrip("]").partition("[")
        cases.setdefault((path, name), []).extend([*classes, *([case] if case else [])])
    return "; ".join(_link(*test, notes) for test, notes in cases.items())


def _link(path: str, name: str, notes: list[str]) -> str:
    words = name.removeprefix("test_").replace("_", " ")
    return f"[{words}](../{path})" + (f" ({', '.join(f'`{note}`' for note in notes)})" if notes else "")


def _tests(document: Document) -> set[str]:
    return {test for row in document.promises.values() for test in row.tests}


def _anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
