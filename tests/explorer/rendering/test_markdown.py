"""Markdown: laid out, cleaned, with links that stay on the desk."""

from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.explorer.rendering.markdown import (
    MAX_BRACKETS,
    MAX_TAGS,
    MAX_TEXT,
    front_matter,
    laid_out,
    render_markdown,
    split_front_matter,
)
from carrel.explorer.rendering.markup import visible
from tests.support.html_law import HOSTILE, LINKS, Parsed, content, read, tag_of, text_of

HERE = "workspace:///docs/guide/a.md"


def show(text: str, uri: str = HERE, *, strict: bool = True) -> Parsed:
    """Return a document as a browser reads it."""
    return read(render_markdown(content(text, uri, "text/markdown"), LINKS), strict=strict)


def test_commonmark_tables_and_strikethrough_are_laid_out() -> None:
    parsed = show("# A *b*\n\n1. x\n2. y\n\n> q\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n~~gone~~ `c`\n")

    tags = [tag_of(one) for one in parsed.elements]
    assert {"h2", "em", "ol", "li", "blockquote", "table", "th", "td", "s", "code"} <= set(tags)
    assert [one.get("class") for one in parsed.all("td")] == [None, "right"]


def test_headings_have_ids_with_a_prefix_and_no_two_are_the_same() -> None:
    parsed = show("# One two!\n\n## One two\n\n## `x` & y\n\n## 日本\n\n## !!\n")

    ids = [one.get("id") for one in parsed.elements if one.get("id")]
    assert ids == ["md-one-two", "md-one-two-1", "md-x--y", "md-日本", "md-part"]


def test_a_list_of_tasks_shows_which_are_done() -> None:
    parsed = show("- [ ] a\n- [x] b\n- [y] c\n")

    assert [text_of(one) for one in parsed.all("li")] == ["☐ a", "☑ b", "[y] c"]


LINKED = {
    "b.md": "/workspace/docs/guide/b.md",
    "../b.md#a-part": "/workspace/docs/b.md#md-a-part",
    "/README.md": "/workspace/README.md",
    "../../src/": "/workspace/src/",
    "x.py#L3-L5": "/workspace/docs/guide/x.py#L3-L5",
    "x.py#other": "/workspace/docs/guide/x.py",
    "a%20b.md": "/workspace/docs/guide/a%20b.md",
    "../../../../etc/passwd": "/workspace/etc/passwd",
    "x.md?raw=true": "/workspace/docs/guide/x.md",
    "#install": "#md-install",
    "sage://knowledge/auth": "/sage/knowledge/auth",
    "workspace:///x.md": "/workspace/x.md",
    "https://example.org/a?b=c#d": "https://example.org/a?b=c#d",
    "mailto:a@example.org": "mailto:a@example.org",
}


@pytest.mark.parametrize(("target", "address"), LINKED.items())
def test_a_link_leads_to_its_page_on_the_desk_or_to_the_web(target: str, address: str) -> None:
    parsed = show(f"[x]({target})")

    assert parsed.addresses() == [address]
    assert text_of(parsed.all("a")[0]) == "x"


@pytest.mark.parametrize(
    "target",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "vbscript:x",
        "file:///etc/passwd",
        "//evil.example/x",
        "other://x",
        "JaVaScRiPt:x",
    ],
)
def test_a_link_to_anything_else_leads_nowhere(target: str) -> None:
    assert show(f"[x](<{target}>)").addresses() == []
    assert show(f'<a href="{target}">x</a>').addresses() == []


def test_links_in_raw_html_resolve_too() -> None:
    parsed = show('<a href="../b.md">x</a> <a href="https://example.org">y</a>')

    assert parsed.addresses() == ["/workspace/docs/b.md", "https://example.org"]


def test_a_link_of_a_skill_stays_in_the_skill() -> None:
    assert show("[x](references/y.md)", "skill://pdf/SKILL.md").addresses() == ["/skill/pdf/references/y.md"]


def test_a_resource_that_is_named_in_the_text_is_linked_once() -> None:
    parsed = show(
        "See sage://knowledge/auth, `sage://x` and [scopes://scope/a](https://example.org). https://no.link.here"
    )

    assert parsed.addresses() == ["/sage/knowledge/auth", "https://example.org"]


def test_a_picture_of_the_desk_is_loaded_from_its_bytes() -> None:
    [picture] = show("![words](../img/a.png)").all("img")

    assert picture.attrib == {
        "src": "/-/raw?uri=workspace%3A%2F%2F%2Fdocs%2Fimg%2Fa.png",
        "alt": "words",
        "loading": "lazy",
    }


def test_a_picture_of_another_server_is_a_link_and_never_loaded() -> None:
    parsed = show(
        "![a](https://example.org/a.png) [![b](https://example.org/b.svg)](https://example.org/ci)\n\n"
        '<img src="https://example.org/c.png" alt="c &lt;b&gt;"> <img src="//example.org/d.png">'
        '<img src="data:image/png;base64,AAAA" alt="e">'
    )

    assert parsed.all("img") == []
    assert parsed.addresses() == ["https://example.org/a.png", "https://example.org/ci"]
    assert "a b\nc <b> e" in parsed.text.replace("\n\n", "\n")


def test_raw_html_keeps_what_is_harmless() -> None:
    parsed = show('<details open><summary>More</summary><b class="k" id="L1" style="x" onclick="y">x</b></details>')

    assert [(tag_of(one), one.attrib) for one in parsed.elements[1:]] == [
        ("details", {"open": ""}),
        ("summary", {}),
        ("b", {"id": "md-L1"}),
    ]


def test_an_id_that_stands_twice_is_kept_once() -> None:
    parsed = show('# x\n\n<p id="x">a</p><p id="y">b</p><p id="y">c</p><p id="a b">d</p>')

    assert [one.get("id") for one in parsed.elements if one.get("id")] == ["md-x", "md-y"]


def test_code_in_a_fence_has_colours_and_its_exact_text() -> None:
    parsed = show("```python\nreturn '<b>' & 1\n```\n\n    indented <i>\n")

    assert [text_of(one) for one in parsed.all("pre")] == ["return '<b>' & 1", "indented <i>"]
    assert [text_of(one) for one in parsed.all("span", "k")] == ["return"]


def test_a_document_cannot_name_the_place_of_another_part() -> None:
    parsed = show(
        "<div title='\n\n```\n'>\"onload=x\n```\n\n'>\n\n<pre>0000000000000000000000000000000000</pre>", strict=False
    )

    assert all("onload" not in one.attrib for one in parsed.elements)


def test_front_matter_is_shown_as_facts_or_as_yaml() -> None:
    assert split_front_matter("---\nname: a\n---\n# B\n") == ("name: a\n", "# B\n")
    assert split_front_matter("---\n---\nx") == ("", "x")
    assert split_front_matter("text\n---\n") == ("", "text\n---\n")
    assert front_matter('name: a\ndescription: "b: c"\n') == (
        '<dl class="facts"><dt>name</dt><dd>a</dd><dt>description</dt><dd>b: c</dd></dl>'
    )
    assert read(front_matter("a:\n  - <b>\n")).text == "a:\n  - <b>"


def test_front_matter_of_a_later_part_is_not_looked_for() -> None:
    made = render_markdown(content("---\na: b\n---\n", HERE, "text/markdown"), LINKS)

    assert "<dl" in made


@pytest.mark.parametrize(
    "form",
    ["{}", "# {}", "[x]({})", "![x]({})", "<{}>", "```{}\n{}\n```", "| {} |\n|-|\n| {} |", "[x]: {} '{}'\n\n[x]"],
)
def test_hostile_documents_keep_the_law(form: str) -> None:
    for text in HOSTILE:
        show(form.replace("{}", text), strict=False)


ALPHABET = st.sampled_from(
    [
        *"<>&\"'`*_~[]()!#|-+:/\\=\n\t x1",
        "\n\n",
        "```",
        "](",
        "<a href=",
        "<img src=",
        "javascript:",
        "</",
        "<!--",
        "&#",
        "https://",
        "---\n",
    ]
)


@given(pieces=st.lists(st.one_of(ALPHABET, st.text(max_size=3)), max_size=60))
def test_no_document_breaks_the_law(pieces: list[str]) -> None:
    show("".join(pieces), strict=False)


@given(text=st.text("abc éß日\n.", max_size=80))
def test_plain_words_are_shown_as_they_are(text: str) -> None:
    assert "".join(show(text).text.split()) == "".join(text.split())


def test_characters_that_lie_are_spelled_even_as_references() -> None:
    assert show("&#x202e;evil\u202e").text.strip() == "\\u202eevil\\u202e"


def test_a_document_that_is_too_large_is_shown_as_text() -> None:
    for text in ("x" * (MAX_TEXT + 1), "[" * (MAX_BRACKETS + 1)):
        parsed = show(text)

        assert "too large" in parsed.text
        assert text in parsed.text


def test_a_document_with_too_many_tags_shows_them_as_text() -> None:
    parsed = show("<b>x</b>\n" * MAX_TAGS)

    assert parsed.all("b") == []
    assert "<b>x</b>" in parsed.text


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece", ["> ", "- ", "*a_ ", "`a", "![", "|-|\n", "<div>", "&a;", " - a\n", "**a", "1. ", "<b><p>"]
)
def test_hostile_documents_take_a_bounded_time(piece: str) -> None:
    text = (piece * MAX_TEXT)[: MAX_TEXT // 10]
    began = thread_time()
    laid_out(text, HERE, LINKS)

    assert thread_time() - began < 1.5


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["![", "|-|\n", "**a", "<div>"])
def test_the_largest_hostile_documents_take_a_bounded_time(piece: str) -> None:
    began = thread_time()
    render_markdown(content((piece * MAX_TEXT)[:MAX_TEXT], HERE, "text/markdown"), LINKS)

    assert thread_time() - began < 8


@pytest.mark.slow
def test_many_headings_of_one_name_take_no_longer_than_others() -> None:
    def seconds(text: str) -> float:
        begun = thread_time()
        laid_out(text, HERE, LINKS)
        return thread_time() - begun

    different = seconds("".join(f"# a{number}\n" for number in range(4_000)))

    assert seconds("# a\n" * 4_000) < 3 * different + 0.1
    ids = [one.get("id") for one in read(laid_out("# a\n# a-1\n# a\n# a\n", HERE, LINKS)).all("h2")]
    assert ids == ["md-a", "md-a-1", "md-a-2", "md-a-3"]


def test_the_words_of_a_document_are_there() -> None:
    assert visible("Tromsø — 今日") in show("# Tromsø — 今日").text


def test_a_wide_table_scrolls_and_keys_reach_it() -> None:
    made = laid_out("| a | b |\n| --- | --- |\n| 1 | 2 |\n", "workspace:///a.md", LINKS)

    assert '<div class="grid scroll" role="group" tabindex="0" aria-label="Table"><table>' in made
    assert made.count("<div") == made.count("</div>") == 1
