"""Outlines of Markdown, data, logs and folders, and what an outline may cost."""

import json
import random
import re
import sysconfig
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.core.tokens import estimate_tokens
from carrel.outline import trees
from carrel.outline.outlines import FREE_LINES, MAX_SOURCE, lines_of, outline_of, refuse_size, render
from carrel.outline.rows import MAX_ROWS

REPOSITORY = Path(__file__).parents[2]
URI = "x:///it"
ANYTHING = st.text(st.sampled_from("ab#-=`~:[]{}\"',.\\ \n\t|>/*1é&!"), max_size=300)


def rows(text: str, name: str) -> list[tuple[str, int, int, int]]:
    return [(row.name, row.depth, row.first, row.last) for row in outline_of(text, name).rows]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.md", "".join(f"{'#' * (1 + at % 6)} h\n" for at in range(60_000))),
        ("a.md", "# a" + " " * 60_000 + "b\n"),
        ("a.md", "# a" + " #" * 60_000 + "b\n"),
        ("a.json", "[" + "{}," * 60_000 + "{}]"),
        ("a.json", '"' + '\\"' * 60_000),
        ("a.yaml", "a" + " " * 60_000 + "b\n"),
        ("a.yaml", "".join(f"a{at}:\n  b: 1\n" for at in range(30_000))),
        ("a.toml", "".join(f"a{at} = 1\n" for at in range(60_000))),
    ],
    ids=["headings", "spaces", "closing", "elements", "quotes", "yaml-spaces", "yaml-keys", "toml-keys"],
)
def test_an_outline_takes_time_in_proportion_to_its_text(name: str, text: str) -> None:
    begun = process_time()
    outline = outline_of(text, name)
    assert process_time() - begun < 2.0
    assert len(outline.rows) <= MAX_ROWS
    assert ("only the first" in outline.note) == (len(outline.rows) == MAX_ROWS)


def test_headings_of_markdown_reach_to_the_next_of_their_level() -> None:
    text = """\
---
title: x
---
# One

```sh
# no heading
```

## Two

text

Three
-----

- item
---

# Four #
"""

    assert rows(text, "a.md") == [
        ("# One", 0, 4, 19),
        ("## Two", 1, 10, 13),
        ("## Three", 1, 14, 19),
        ("# Four", 0, 20, 20),
    ]


def test_keys_of_json_have_the_lines_of_their_values() -> None:
    text = """{
  "name": "a \\" {",
  "list": [
    1,
    {"x": 1}
  ],
  "deep": {
    "a": {"b": 1},
    "c": 2
  }
}
"""

    assert json.loads(text)["list"] == [1, {"x": 1}]
    assert rows(text, "a.json") == [
        ('"name"', 0, 2, 2),
        ('"list"', 0, 3, 6),
        ('"deep"', 0, 7, 10),
        ('"a"', 1, 8, 8),
        ('"c"', 1, 9, 9),
    ]


def test_an_array_of_objects_has_its_elements() -> None:
    assert rows('[\n  {"a": 1},\n  {"a": 2}\n]\n', "a.json") == [
        ("[0]", 0, 2, 2),
        ('"a"', 1, 2, 2),
        ("[1]", 0, 3, 3),
        ('"a"', 1, 3, 3),
    ]


def test_keys_of_yaml_have_the_lines_of_their_values() -> None:
    text = "# head\nname: x\njobs:\n  test:\n    run: |\n      a: b\n  build: 1\n\nlast:\n- a\n- b: 2\n"

    assert rows(text, "a.yaml") == [
        ("name", 0, 2, 2),
        ("jobs", 0, 3, 7),
        ("test", 1, 4, 6),
        ("build", 1, 7, 7),
        ("last", 0, 9, 11),
        ("b", 1, 11, 11),
    ]


def test_tables_and_keys_of_toml_have_their_lines() -> None:
    text = 'top = 1\n\n[a.b]\nx = """\n[no]\n"""\nlist = [\n  1,\n]\n\n[[c]]\ny = 2\n'

    assert rows(text, "a.toml") == [
        ("top", 0, 1, 1),
        ("[a.b]", 0, 3, 9),
        ("x", 1, 4, 6),
        ("list", 1, 7, 9),
        ("[[c]]", 0, 11, 12),
        ("y", 1, 12, 12),
    ]


def test_a_log_shows_its_errors_and_warnings_with_the_lines_around_them() -> None:
    lines = [f"2026-11-17T20:00:{at % 60:02} INFO all is well" for at in range(100)]
    lines[49] = "2026-11-17T20:00:49 ERROR cannot open /tmp/1"
    lines[59] = "2026-11-17T20:00:59 WARN low on memory"
    lines[69] = "2026-11-17T20:01:09 ERROR cannot open /tmp/2"

    shown = render(outline_of("\n".join(lines), "web_1", "text/plain"), URI, "\n".join(lines))

    assert "50: 2026-11-17T20:00:49 ERROR cannot open /tmp/1 (2 times) ?lines=48-56\n" in shown
    assert "60: 2026-11-17T20:00:59 WARN low on memory ?lines=58-66\n" in shown


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("a.xyz", "x\n", "no outline is known for .xyz files (known: Python, JavaScript"),
        ("a.txt", "A story.\n", "plain text has no outline"),
        ("a.md", "A story.\n", "it has no headings"),
        ("a.py", "X = 1\n", "nothing is defined in it"),
        ("a.log", "all is well\n", "no errors and no warnings are in it"),
        ("a.py", "#" * MAX_SOURCE + "\n\n", "more than the 1,048,576 that are outlined"),
    ],
)
def test_a_text_without_an_outline_says_why_and_what_to_read(name: str, text: str, why: str) -> None:
    shown = render(outline_of(text, name), URI, text)

    assert why in shown
    assert re.search(r"Read \?lines=1(-\d+)? for its first lines?\.", shown)


def test_numbers_in_an_outline_have_the_right_nouns_and_an_empty_text_names_no_lines() -> None:
    one, none = (render(outline_of(text, "a.py"), URI, text) for text in ("X = 1\n", ""))

    assert "(Python, 1 line, " in one
    assert "Read ?lines=1 for its first line." in one
    assert "(Python, 0 lines, 0 tokens)" in none
    assert "lines=" not in none


def test_a_text_that_is_too_large_to_be_read_names_its_first_part() -> None:
    assert "Read ?start=0&length=65536 for its beginning" in refuse_size(URI, 1 << 30)


def long_texts() -> list[Path]:
    library = Path(sysconfig.get_path("stdlib"))
    found = [*sorted(library.glob("*.py"))[::4], *(REPOSITORY / "src").rglob("*.py"), *REPOSITORY.rglob("docs/**/*.md")]
    found += [*(REPOSITORY / "tests" / "schema").glob("*.json")]
    return [path for path in found if len(lines_of(path.read_text(encoding="utf-8"))) > FREE_LINES]


@pytest.mark.slow
def test_an_outline_costs_at_most_a_tenth_of_a_long_text_and_says_what_is_missing() -> None:
    paths = long_texts()
    assert len(paths) > 50
    for path in paths:
        text = path.read_text(encoding="utf-8")
        outline = outline_of(text, path.name)
        shown = render(outline, URI, text)
        assert estimate_tokens(shown) <= estimate_tokens(text) / 10, path
        lines = [line for line in shown.splitlines()[1:] if not line.startswith("[")]
        missing = re.search(r"\[(\d+) more: \?outline=all\]", shown)
        assert len(lines) + (int(missing[1]) if missing else 0) == len(outline.rows) or not outline.rows, path


def test_all_of_an_outline_can_be_had() -> None:
    text = (REPOSITORY / "src/carrel/catalog/catalog.py").read_text(encoding="utf-8")
    outline = outline_of(text, "catalog.py")

    assert render(outline, URI, text, is_all=True).count("?lines=") == len(outline.rows)
    assert "def read(self, uri: str" in render(outline, URI, text, is_all=True)


def test_inner_functions_go_before_signatures_and_those_before_private_names() -> None:
    body = "    x = 1\n" * 30
    inner = "    def inner(a: int) -> int:\n        return a\n\n"
    text = "".join(
        f"def {'_' * (at % 2)}name_{at}(first: int, second: str) -> bool:\n{inner}{body}\n" for at in range(20)
    )
    outline = outline_of(text, "a.py")

    def with_budget(budget: int) -> str:
        return render(outline, URI, text, budget)

    assert "inner" in with_budget(2_000)
    assert "inner" not in with_budget(650)
    assert "first: int" in with_budget(650)
    assert "first: int" not in with_budget(450)
    assert "_name_1()" in with_budget(450)
    assert "_name_1()" not in with_budget(250)
    assert "name_0()" in with_budget(250)
    assert all(estimate_tokens(with_budget(budget)) <= budget for budget in (2_000, 650, 450, 250, 150, 100))


def test_lines_follow_a_query_that_the_uri_has_already() -> None:
    text = "def f(): pass\n"

    assert "&lines=1" in render(outline_of(text, "a.py"), "x:///a.py?tail=3", text)


@given(st.sampled_from(["a.md", "a.json", "a.yaml", "a.toml", "a.log", "a.txt", "a"]), ANYTHING)
def test_any_text_has_lines_that_exist_or_a_reason(name: str, text: str) -> None:
    outline = outline_of(text, name)
    count = len(lines_of(text))

    assert outline.rows or outline.note
    assert all(1 <= row.first <= row.last <= count for row in outline.rows)


def test_a_tree_is_as_deep_as_there_is_room_for() -> None:
    chance = random.Random(18)
    few = [(f"{URI}/a/b/c.py", 10), (f"{URI}/a/d.py", 20), (f"{URI}/e.py", None)]
    many = [(f"{URI}/{chance.randrange(9)}/{chance.randrange(9)}/{at}.py", 1) for at in range(2_000)]

    assert trees.render(URI, few) == (
        f"{URI} (folder, 3 files, 30 bytes)\n"
        "2 files, 30 bytes /a?outline\n"
        " 1 file, 10 bytes /a/b?outline\n"
        "  10 bytes /a/b/c.py?outline\n"
        " 20 bytes /a/d.py?outline\n"
        "/e.py?outline\n"
    )
    for root in ("x:///", "x://"):
        lines = trees.render(root, [(f"{root}a/b.py", 1), (f"{root}c.py", 2)]).splitlines()
        assert lines == [
            f"{root} (folder, 2 files, 3 bytes)",
            "1 file, 1 byte a?outline",
            " 1 byte a/b.py?outline",
            "2 bytes c.py?outline",
        ]
    assert estimate_tokens(trees.render(URI, many)) < trees.MAX_TOKENS + 60
    assert trees.render(URI, many, is_all=True).count("\n") > 2_000
    flat = trees.render(URI, [(f"{URI}/{at}.py", 1) for at in range(2_000)])
    assert re.search(r"\[\d+ more: \?outline=all\]", flat)
