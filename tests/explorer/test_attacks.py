"""Script injection through names, contents, log lines, task titles, memory, and the answers of others."""

import json
from html import unescape
from pathlib import Path
from time import process_time
from urllib.parse import quote

import pytest

from carrel.explorer.rendering.markup import Content, Links
from carrel.explorer.rendering.rendering import render
from tests.support.explorer_desk import Browsed

EVIL = "<script>alert(1)</script>"
NAMES = ['"><script>alert(1)<', "'onmouseover='x", "<img src=x onerror=alert(1)>", "a&lt;b", "javascript:alert(1)"]


def is_safe(page: str) -> bool:
    """Return whether no script of a stranger is in a page."""
    return "<script>" not in page and "<img src=x" not in page and 'href="javascript:' not in page


@pytest.mark.parametrize("name", NAMES)
def test_a_file_name_is_never_html(browsed: Browsed, project: Path, name: str) -> None:
    (project / f"{name}.txt").write_text("x\n", "utf-8")
    page = browsed.page("/workspace/")
    row = next(row for row in browsed.get("/workspace/.json", {}).json["children"] if row["name"] == f"{name}.txt")

    assert is_safe(page)
    assert is_safe(browsed.page(str(row["address"])))
    assert is_safe(browsed.page("/-/search?q=txt"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["x.txt", "x.md", "x.json", "x.html", "x.svg", "x.log", "x.py", "x.diff", "x.jsonl", "x.xml", "x.csv"]
)
@pytest.mark.parametrize(
    "text",
    [
        EVIL,
        f'{{"a": "{EVIL}"}}',
        f"[x](javascript:alert(1)) {EVIL} ![y](javascript:z)",
        "2026-11-18T00:00:00Z ERROR " + EVIL + "\n2026-11-18T00:01:00Z ERROR x\n",
        "<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'><script>1</script></svg>",
        "diff --git a/<script> b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-<script>\n+<img src=x onerror=1>\n",
    ],
)
def test_content_is_never_html_of_ours(browsed: Browsed, project: Path, name: str, text: str) -> None:
    (project / name).write_text(text, "utf-8")

    assert is_safe(browsed.page(f"/workspace/{name}"))


@pytest.mark.parametrize(
    ("uri", "mime_type"),
    [
        ("scopes://tree/x", "text/plain"),
        ("scopes://scope/x", "application/json"),
        ("sage://failure/x", "text/markdown"),
        ("alc://packages/x/meta", "application/json"),
        ("git://log", "text/plain"),
        ("friend+mount://anything", "text/html"),
    ],
)
@pytest.mark.parametrize("text", [EVIL, f'{{"title": "{EVIL}", "name": "{EVIL}"}}', f"# {EVIL}\n- [x] {EVIL}\n"])
def test_what_others_say_is_never_html(uri: str, mime_type: str, text: str) -> None:
    made = render(Content(uri, mime_type, text), Links(lambda uri: "/x", lambda uri: "/x"))

    assert is_safe(made.html + made.plot)


def test_a_html_file_as_it_is_loads_nothing_and_runs_nothing(browsed: Browsed, project: Path) -> None:
    (project / "x.html").write_text(EVIL, "utf-8")
    reply = browsed.get("/-/raw?uri=workspace:///x.html")

    assert reply.body.decode() == EVIL
    assert "sandbox" in reply.headers["content-security-policy"]
    assert reply.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "target", ["/-/explain?uri=%22%3E%3Cscript%3E", "/-/model?uri=%3Cscript%3E", "/%3Cscript%3E/x"]
)
def test_a_uri_is_never_html(browsed: Browsed, target: str) -> None:
    assert is_safe(browsed.get(target).body.decode())


HIDDEN = "\u202e\u2066\u2069\u200f\u061c\x1b\x7f\x9b\u2028"
"""Characters that would lie about what stands beside them."""


def test_a_name_cannot_turn_the_writing_around(browsed: Browsed, project: Path) -> None:
    name = f"invoice{HIDDEN}fdp.exe"
    (project / name).write_text(f"turned {HIDDEN}\n", "utf-8")
    (project / f"{HIDDEN}folder").mkdir()
    address = f"/workspace/{quote(name)}"
    uri = quote(f"workspace:///{quote(name)}", safe="")
    pages = ["/workspace/", address, f"/-/explain?uri={uri}", f"/-/model?uri={uri}", "/-/search?q=turned"]
    pages += [f"/workspace/{quote(HIDDEN)}folder", f"{address}?outline"]

    for page in pages:
        assert not set(browsed.page(page)) & set(HIDDEN), page
    assert "invoice\\u202e" in browsed.page("/workspace/")
    assert not set(browsed.get(f"/workspace/{quote(HIDDEN)}").body.decode()) & set(HIDDEN)


def test_a_name_is_exact_in_the_data_of_a_page(browsed: Browsed, project: Path) -> None:
    name = f"invoice{HIDDEN}fdp.exe"
    (project / name).write_text("x\n", "utf-8")

    assert name in [row["name"] for row in browsed.get("/workspace/.json", {}).json["children"]]


def test_the_exact_answer_means_the_same_where_it_shows_escapes(browsed: Browsed, project: Path) -> None:
    (project / "x.txt").write_text(f"a{HIDDEN}\U000e0041b\n", "utf-8")
    page = browsed.page("/-/model?uri=workspace:///x.txt")
    shown = unescape(page.rpartition('aria-label="The answer of the protocol">')[2].partition("</pre>")[0])

    told = json.loads(shown)
    assert told["result"]["contents"][0]["text"] == f"a{HIDDEN}\U000e0041b\n"


def test_a_query_is_sent_back_as_it_came(browsed: Browsed) -> None:
    page = browsed.page(f"/-/search?q={quote('a' + HIDDEN)}&path={quote(HIDDEN)}")

    assert f'value="a{HIDDEN}"' in page
    assert f'value="{HIDDEN}"' in page


HEAVY = {
    "line.py": "x = '" + "a" * 3_000_000,
    "line.md": "a" * 3_000_000,
    "wide.json": "[" + "1," * 1_000_000 + "1]",
    "deep.json": "[" * 30_000 + "]" * 30_000,
    "quotes.md": ">" * 30_000 + " x",
    "emphasis.md": "*a **b " * 9_000,
    "headings.md": "# a\n" * 15_000,
    "pictures.md": "![" * 4_900,
    "table.md": "|" * 20_000 + "\n" + "|-" * 20_000,
    "colours.log": "\x1b[31m" * 12_000,
    "quotes.csv": '"' * 60_001,
    "hunk.diff": "@@ -1,999999999999 +1 @@\n" + "+x\n" * 20_000,
    "lists.yaml": "- " * 30_000,
    "tags.html": "<script>" * 8_000,
    "words.rb": "%w(" * 20_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HEAVY)
def test_no_file_makes_a_page_that_is_large_or_takes_long(browsed: Browsed, project: Path, name: str) -> None:
    (project / name).write_text(HEAVY[name], "utf-8")
    before = process_time()
    page = browsed.page(f"/workspace/{name}")

    assert process_time() - before < 10
    assert len(page) < 3_000_000
    assert is_safe(page.replace("&lt;", ""))
