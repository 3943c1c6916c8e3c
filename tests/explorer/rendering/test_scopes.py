"""Scopes: a tree that folds, with status and links, whatever the titles hold."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.explorer.rendering.markup import visible
from carrel.explorer.rendering.scopes import MAX_CHILDREN, STATUSES, badge, render_scope, render_tree
from tests.support.html_law import HOSTILE, LINKS, Parsed, content, read, text_of

TREE = """\
project-alpha (Project Alpha) [IN_PROGRESS]
├── feature-x (Feature (X)) [DONE]
│   ├── task-1 (Implement API) [TODO]
│   │   └── deep (Deep) [BLOCKED]
│   └── task-2 (Write [tests]) [TODO]
└── feature-y (Feature Y) [PLANNING] (truncated)
... 12 more: scopes://tree/project-alpha?skip=2"""

SCOPE = {
    "id": "01", "alias": "feature-x", "title": "Feature X", "status": "IN_PROGRESS", "children": ["task-1", "task-2"],
    "description": "What it\nis", "parent": "project-alpha", "aliases": ["feature-x", "x"],
    "createdAt": "2026-11-18T02:24:35.231Z", "updatedAt": "2026-11-18T02:24:35.233Z", "links": [],
}  # fmt: skip


def tree(text: str) -> Parsed:
    """Return a tree as a browser reads it."""
    return read(render_tree(content(text, "scopes://tree/project-alpha"), LINKS))


def scope(value: object) -> Parsed:
    """Return a scope as a browser reads it."""
    return read(render_scope(content(json.dumps(value), "scopes://scope/x", "application/json"), LINKS))


def test_every_scope_is_linked_with_its_title_and_status() -> None:
    parsed = tree(TREE)

    assert [text_of(one) for one in parsed.all("a", "id")] == [
        "project-alpha", "feature-x", "task-1", "deep", "task-2", "feature-y",
    ]  # fmt: skip
    assert [text_of(one) for one in parsed.all("span", "title")] == [
        "Project Alpha", "Feature (X)", "Implement API", "Deep", "Write [tests]", "Feature Y",
    ]  # fmt: skip
    assert [text_of(one) for one in parsed.all("span", "status")] == [
        "in progress", "done", "todo", "blocked", "todo", "planning",
    ]  # fmt: skip
    assert "(truncated)" in parsed.text
    assert "/scopes/tree/project-alpha%3Fskip=2" in parsed.addresses()


def test_a_tree_leads_to_the_same_tree_with_more_levels() -> None:
    whole = read(render_tree(content(TREE, "scopes://tree/project-alpha?depth=5"), LINKS))

    assert tree(TREE).addresses()[-1] == "/scopes/tree/project-alpha%3Fdepth=5"
    assert not any("depth" in address for address in whole.addresses())


def test_what_has_children_folds_and_two_levels_are_open() -> None:
    parsed = tree(TREE)

    assert [one.get("open") for one in parsed.all("details")] == ["", "", None]
    outer = parsed.all("details")[0]
    assert "feature-y" in text_of(outer)
    assert "12 more" not in text_of(outer)


def test_a_scope_alone_is_a_list_of_one() -> None:
    parsed = tree("alone (Alone) [TODO]")

    assert [str(one.tag) for one in parsed.elements] == ["div", "ul", "li", "a", "span", "span"]


def test_a_scope_is_laid_out_with_links_to_its_relatives() -> None:
    parsed = scope(SCOPE)

    assert text_of(parsed.all("h2")[0]) == "Feature X"
    assert parsed.addresses() == [
        "/scopes/scope/project-alpha",
        "/scopes/tree/feature-x%3Fdepth=5",
        "/scopes/scope/task-1",
        "/scopes/scope/task-2",
    ]
    assert [text_of(one) for one in parsed.all("dd")][:4] == ["feature-x", "in progress", "project-alpha", "x"]
    assert "What it\nis" in parsed.text


def test_children_that_are_too_many_are_counted() -> None:
    parsed = scope({**SCOPE, "children": [f"t-{number}" for number in range(MAX_CHILDREN + 5)]})

    assert "… 5 more" in parsed.text


@pytest.mark.parametrize("value", [[], {}, "x", {"alias": "a"}, {"alias": 1, "title": []}, None])
def test_json_that_is_no_scope_is_shown_as_json(value: object) -> None:
    assert scope(value).all("div", "json")


def test_a_text_that_is_not_json_is_shown() -> None:
    assert "{broken" in read(render_scope(content("{broken"), LINKS)).text


def test_every_status_has_its_class_and_another_word_has_none_of_them() -> None:
    assert badge("IN_PROGRESS") == '<span class="status status-in-progress">in progress</span>'
    assert len({badge(status) for status in STATUSES}) == len(STATUSES)
    assert badge('X" y="') == '<span class="status status-other">x&quot; y=&quot;</span>'


LINES = st.sampled_from(
    [
        "a (b) [TODO]",
        "├── ",
        "└── ",
        "│   ",
        "    ",
        "\n",
        "a1 (",
        ") [",
        "DONE]",
        "<b>",
        "... 1 more: scopes://x",
        "│   " * 70,
    ]
)


@given(text=st.lists(LINES, max_size=40).map("".join))
def test_no_tree_breaks_the_law(text: str) -> None:
    tree(text)


@given(levels=st.lists(st.integers(0, 6), max_size=30))
def test_every_shape_of_a_tree_shows_every_scope_in_order(levels: list[int]) -> None:
    text = "\n".join(
        f"{'│   ' * max(0, level - 1)}{'├── ' * bool(level)}s{at} (t) [TODO]" for at, level in enumerate(levels)
    )

    assert [text_of(one) for one in tree(text).all("a", "id")] == [f"s{at}" for at in range(len(levels))]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_titles_descriptions_and_names_are_only_text(text: str) -> None:
    line = visible(text).replace("\n", " ")
    parsed = tree(f"a1 ({text}) [TODO]\n├── {text} ({text}) [{text}]\n└── b2 (x) [{text}]")
    laid = scope(
        {**SCOPE, "title": text, "description": text, "alias": text, "parent": text, "children": [text], "status": text}
    )

    assert line in parsed.text.replace("\n", " ")
    assert visible(text) in laid.text
    assert all(address.startswith("/scopes/") for address in (*parsed.addresses(), *laid.addresses()))
