"""Outlines of code: what is defined, on which lines, whatever the file holds."""

import ast
import json
import random
import subprocess
import sys
import sysconfig
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carrel.outline import code, languages
from carrel.outline.code import outline_code
from carrel.outline.languages import LANGUAGES, Language
from carrel.outline.outlines import outline_of

SAMPLES = Path(__file__).parent / "samples"
SUFFIXES = [path.suffix[1:] for path in sorted(SAMPLES.iterdir()) if path.suffix != ".golden"]
PYTHON = LANGUAGES[0]

type_of_definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def sample(suffix: str) -> Path:
    return next(path for path in SAMPLES.iterdir() if path.suffix == f".{suffix}")


def shown(path: Path) -> str:
    """Return every row of a sample, one per line, as the golden files have them."""
    outline = outline_of(path.read_text(encoding="utf-8"), path.name)
    rows = []
    for row in outline.rows:
        marks = " private" * row.is_private + " inner" * row.is_inner
        rows.append(f"{'  ' * row.depth}{row.first}-{row.last} {row.kind} {row.name}: {row.signature}{marks}\n")
    return "".join([f"{outline.title}\n", *rows])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_definitions_of_each_language_are_found_with_their_lines(suffix: str) -> None:
    path = sample(suffix)

    assert shown(path) == path.with_suffix(f"{path.suffix}.golden").read_text(encoding="utf-8")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_definition_begins_with_its_name_and_ends_where_it_is_closed(suffix: str) -> None:
    """Said of the text itself, not of the syntax tree that the rows were made from."""
    lines = sample(suffix).read_text(encoding="utf-8").splitlines()
    for row in outline_of("\n".join(lines), f"x.{suffix}").rows:
        inside = "\n".join(lines[row.first - 1 : row.last])
        assert row.name.split(" ")[-1].split("::")[-1].split(".")[-1] in inside
        assert inside.count("{") == inside.count("}")
        assert lines[row.last - 1].strip()


def test_every_named_language_has_a_sample() -> None:
    assert {languages.of_suffix(suffix) for suffix in SUFFIXES} == {one for one in LANGUAGES if one.name != "TSX"}


def definitions(text: str) -> list[tuple[int, int, str]]:
    """Return the definitions as Python's own parser has them, each from its first decorator on."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, type_of_definition):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            found.append((first, node.end_lineno or 0, node.name))
    return sorted(found)


@pytest.mark.slow
def test_the_lines_are_those_of_pythons_own_parser_over_the_standard_library() -> None:
    folder = Path(sysconfig.get_path("stdlib"))
    paths = [path for path in sorted(folder.rglob("*.py")) if not {"site-packages", "lib2to3"} & {*path.parts}]
    checked, unsound = 0, 0
    for path in paths[::12]:
        text = path.read_bytes().decode("utf-8", "replace")
        try:
            wanted = definitions(text)
        except (SyntaxError, ValueError):
            continue
        if len(text) < 500_000:
            outline = outline_of(text, path.name)
            if outline.note == code.UNSOUND:  # the grammar lacks what the file has, and the outline says so
                unsound += 1
                continue
            assert sorted((row.first, row.last, row.name) for row in outline.rows) == wanted, path
            checked += len(wanted)
    assert checked > 1_000
    assert unsound <= len(paths) // 200


def test_a_language_whose_grammar_is_not_installed_says_how_to_get_it() -> None:
    missing = Language("Klingon", "tree_sitter_klingon", ("kl",), "")

    outline = outline_code(b"x", missing)

    assert outline.note == (
        "the grammar of Klingon is not installed; "
        "install it with: pipx install --force '.[outline]' in a checkout of Carrel"
    )
    assert not outline.rows


HOSTILE = {
    "open braces": b"{" * 1_000_000,
    "open brackets with names": b"{a:\n" * 250_000,
    "calls without end": b"(a\n" * 330_000,
    "random bytes": random.Random(18).randbytes(1_000_000),
    "one name per line": b"a\n" * 500_000,
    "prefixes": b"!\n" * 500_000,
    "words": b"not \n" * 200_000,
    "conditions": b"if a:\n " * 140_000,
    "definitions": b"def f(): pass\n" * 70_000,
    "brackets that do not match": b"([{a}])(]{" * 100_000,
}


OUTLINE_ALONE = """
import json, resource, sys, time
from carrel.outline import languages
from carrel.outline.code import outline_code

language = languages.of_suffix(sys.argv[1])
text = sys.stdin.buffer.read()
began = time.monotonic()
outline = outline_code(text, language)
seconds = time.monotonic() - began
most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1_024)
print(json.dumps({"seconds": seconds, "memory": most, "answered": bool(outline.rows or outline.note)}))
"""
"""A process of its own: the most memory that the process of the tests ever had says nothing about one outline."""


@pytest.mark.slow
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("suffix", ["py", "js", "c", "rb", "lua", "scala"])
def test_a_hostile_file_takes_bounded_time_and_memory(suffix: str, text: bytes) -> None:
    alone = [sys.executable, "-c", OUTLINE_ALONE, suffix]
    used = json.loads(subprocess.run(alone, input=text, capture_output=True, check=True).stdout)

    assert used["answered"]
    assert used["seconds"] < 15  # a machine at rest needs three seconds
    assert used["memory"] < 1_000_000_000  # half of it is needed at most


@pytest.mark.slow
@pytest.mark.parametrize("text", [b"def f(a):\n    return a\n" * 10_000, b"a = 1\n" * 900], ids=["long", "short"])
def test_an_outline_keeps_nothing_of_the_text_in_memory(text: bytes) -> None:
    tracemalloc.start()
    try:
        held = []
        for _ in range(3):
            outline_code(text, PYTHON)
            held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()

    assert held[2] - held[1] < 2_000


def test_what_is_nested_too_deep_or_has_no_lines_is_not_parsed() -> None:
    assert "brackets" in outline_code(b"(" * 1_000, PYTHON).note
    assert "lines of more than" in outline_code(b"a" * 60_000, PYTHON).note


def test_a_file_that_takes_too_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "DEADLINE_S", 0.001)
    code._grammar.cache_clear()
    try:
        assert outline_code(b"def f(): pass\n" * 50_000, PYTHON).note == "it takes too long to parse"
    finally:
        code._grammar.cache_clear()


@pytest.mark.slow
@given(
    st.sampled_from(LANGUAGES), st.text(st.sampled_from("(){}[]<>;:,.=\"'\\ \n\tabdefcls#@*&!?/-+0é\x00"), max_size=400)
)
@settings(max_examples=300)
def test_any_text_has_an_outline_or_a_reason(language: Language, text: str) -> None:
    outline = outline_code(text.encode(), language)
    lines = text.count("\n") + 1

    assert outline.rows or outline.note
    assert all(1 <= row.first <= row.last <= lines for row in outline.rows)
    assert list(outline.rows) == sorted(outline.rows, key=lambda row: row.first)
