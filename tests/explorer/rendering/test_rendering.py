"""The choice of a form for what a read returned, and the law that holds for every form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.explorer.rendering.markup import Content, visible
from carrel.explorer.rendering.rendering import RENDERERS, kind_of, render
from tests.support.html_law import HOSTILE, LINKS, read

KINDS = {
    ("workspace:///a.py", "text/x-python"): "code",
    ("workspace:///a.html", "text/html"): "code",
    ("workspace:///a.md", "text/markdown; charset=utf-8"): "markdown",
    ("workspace:///a.json", "application/json"): "json",
    ("workspace:///a.ld", "application/ld+json"): "json",
    ("workspace:///a.jsonl", "application/x-ndjson"): "json-lines",
    ("workspace:///a.svg", "image/svg+xml"): "svg",
    ("workspace:///a.patch", "text/x-diff"): "diff",
    ("workspace:///a.csv", "text/csv"): "table",
    ("workspace:///a.log", "text/plain"): "log",
    ("workspace:///a.txt", "text/plain"): "code",
    ("workspace:///a.md?blame", "text/plain"): "blame",
    ("workspace:///a.md?log&skip=100", "text/plain"): "commits",
    ("workspace:///a.md?diff=HEAD~1", "text/x-diff"): "diff",
    ("workspace:///a.md?log&format=json", "application/json"): "json",
    ("workspace:///?outline", "text/plain"): "code",
    ("logs://run/a", "text/plain"): "log",
    ("logs://run/a?format=json", "application/x-ndjson"): "json-lines",
    ("git://log", "text/plain"): "commits",
    ("git://log?at=main", "text/plain"): "commits",
    ("git://commit/HEAD", "text/plain"): "commit",
    ("git://commit/HEAD?format=json", "application/json"): "json",
    ("git://diff/a..b", "text/x-diff"): "diff",
    ("git://branches", "text/plain"): "commits",
    ("git://status", "text/plain"): "status",
    ("scopes://scope/a", "application/json"): "scope",
    ("scopes://tree/a?depth=3", "text/plain"): "scope-tree",
    ("scopes://cli-quick-ref", "text/markdown"): "markdown",
    ("sage://checkpoint/a", "text/markdown"): "sage",
    ("sage://checkpoint/a?format=toon", "text/plain"): "code",
    ("sage://system/objective.md", "text/markdown"): "markdown",
    ("alc://packages/a/meta", "application/json"): "alc",
    ("alc://packages/a/init.lua", "text/x-lua"): "code",
    ("skill://pdf/SKILL.md", "text/markdown"): "markdown",
    ("carrel://guide", "text/markdown"): "markdown",
    ("mem://x", ""): "code",
    ("WORKSPACE:///a.md", "TEXT/MARKDOWN"): "markdown",
}


@pytest.mark.parametrize(("given_as", "kind"), KINDS.items())
def test_the_form_follows_the_scheme_the_type_and_the_question(given_as: tuple[str, str], kind: str) -> None:
    uri, mime_type = given_as

    assert kind_of(Content(uri, mime_type, "x")) == kind


@pytest.mark.parametrize(
    ("mime_type", "kind"),
    [
        ("image/png", "picture"),
        ("image/svg+xml", "picture"),
        ("image/tiff", "binary"),
        ("application/zip", "binary"),
        ("text/html", "binary"),
    ],
)
def test_bytes_are_a_picture_or_offered(mime_type: str, kind: str) -> None:
    assert kind_of(Content("workspace:///a", mime_type, None)) == kind


def test_the_source_is_shown_when_it_is_asked_for() -> None:
    given_markdown = Content("workspace:///a.md", "text/markdown", "# A\n")
    shown, source = render(given_markdown, LINKS), render(given_markdown, LINKS, as_text=True)

    assert (shown.kind, shown.has_lines) == ("markdown", False)
    assert (source.kind, source.has_lines) == ("code", True)
    assert read(source.html).text == "# A"


def test_bytes_have_no_source_to_show() -> None:
    assert render(Content("workspace:///a.png", "image/png", None), LINKS, as_text=True).kind == "picture"


def test_a_log_has_a_plot_of_its_errors_and_commits_one_of_their_times() -> None:
    log = "2026-11-18T12:00:00Z ERROR x\n2026-11-18T13:00:00Z ok\n"
    commits = "70707848cfd3 2026-11-18T01:37Z A: b\n70707848cfd3 2026-11-17T01:37Z A: b\n"

    assert "Errors over time" in render(Content("logs://run/a", "text/plain", log), LINKS).plot
    assert "Changes over time" in render(Content("git://log", "text/plain", commits), LINKS).plot
    assert render(Content("git://branches", "text/plain", commits), LINKS).plot == ""
    assert render(Content("workspace:///a.py", "text/x-python", log), LINKS).plot == ""


def test_the_outline_of_a_folder_shows_the_sizes_of_its_children() -> None:
    text = "workspace:/// (folder, 2 files, 3 bytes)\n1 byte a?outline\n2 bytes b?outline\n"
    shown = render(Content("workspace:///?outline", "text/plain", text), LINKS)

    assert shown.kind == "outline"
    assert "Size by child" in shown.plot


def test_a_mount_may_answer_with_any_type() -> None:
    for mime_type in ("text/markdown", "application/json", "image/svg+xml", "text/x-diff", "x<y>", "\ud800", "a;b"):
        read(render(Content("mem://<b>", mime_type, "<b>"), LINKS).html, strict=False)


@pytest.mark.slow
@pytest.mark.parametrize("kind", RENDERERS)
@given(text=st.text(st.one_of(st.sampled_from("<>&\"'[]{}()*_`#|:+-@ \n\x1b\0\ud800"), st.characters()), max_size=120))
def test_no_text_breaks_the_law_in_any_form(kind: str, text: str) -> None:
    read(
        RENDERERS[kind](Content(f"workspace:///{text}", text, text, 1), LINKS), strict=kind not in ("markdown", "sage")
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", RENDERERS)
def test_hostile_text_keeps_the_law_in_every_form(kind: str) -> None:
    for text in HOSTILE:
        for uri in (f"workspace:///{text}", f"sage://failure/{text}", text):
            read(RENDERERS[kind](Content(uri, text, text, 1), LINKS), strict=kind not in ("markdown", "sage"))


@pytest.mark.parametrize(
    "kind", [name for name in RENDERERS if name not in ("binary", "picture", "markdown", "sage", "table")]
)
def test_every_form_shows_all_of_a_text_that_it_does_not_understand(kind: str) -> None:
    text = "Neither JSON nor a patch: Tromsø, 今日, <b>&amp;</b>"

    assert visible(text) in read(RENDERERS[kind](Content("workspace:///x", "", text), LINKS)).text
