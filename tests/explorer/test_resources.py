"""The page of a resource: folders, texts in parts, images, and what is refused."""

import re
from html import unescape
from pathlib import Path

import pytest

from tests.support.explorer_desk import Browsed
from tests.support.logging_project import writer
from tests.support.sage_folder import put


def test_a_folder_shows_its_children_with_sizes_and_tokens(browsed: Browsed) -> None:
    page = browsed.page("/workspace/")
    rows = {row["name"]: row for row in browsed.get("/workspace/.json", {}).json["children"]}

    assert 'href="/workspace/lib"' in page
    assert rows["lib"]["isFolder"]
    assert rows["README.md"]["size"] == 39
    assert rows["README.md"]["tokens"] > 0
    assert rows["pixel.png"]["tokens"] is None
    assert ".env" not in page


def test_a_folder_with_many_children_is_shown_in_pages_that_join(project: Path, browsed: Browsed) -> None:
    names = [f"f{number:04}.txt" for number in range(450)]
    (project / "many").mkdir()
    for name in names:
        (project / "many" / name).write_text("x", "utf-8")
    seen, target = [], "/workspace/many.json"
    while target:
        data = browsed.get(target, {}).json
        seen += [row["name"] for row in data["children"]]
        target = "" if data["next"] is None else data["next"].replace("workspace:///many", "/workspace/many.json")

    assert seen == names
    assert 'rel="next"' in browsed.page("/workspace/many")


def test_a_long_text_is_shown_in_parts_whose_lines_join(project: Path, browsed: Browsed) -> None:
    lines = [f"line {number}" for number in range(1, 30_001)]
    (project / "long.txt").write_text("\n".join(lines) + "\n", "utf-8")
    first = browsed.get("/workspace/long.txt.json", {}).json
    page = browsed.page("/workspace/long.txt")

    assert first["lines"].startswith("1-")
    assert first["totalLines"] == 30_000
    last = int(first["lines"].partition("-")[2])
    assert f'id="L{last}"' in page
    assert f'id="L{last + 1}"' not in page
    assert f'href="/workspace/long.txt?lines={last + 1}-"' in page
    following = browsed.page(f"/workspace/long.txt?lines={last + 1}-")
    assert f'id="L{last + 1}"' in following
    assert f"line {last + 1}<" in following
    assert 'rel="prev"' in following
    assert len(page) < 2_000_000


def test_content_is_text_and_never_html_of_ours(browsed: Browsed) -> None:
    page = browsed.page("/workspace/lib/main.py")

    assert "<b>hello</b>" not in page
    assert "&lt;b&gt;hello&lt;/b&gt;" in page


def test_the_page_shows_the_answer_as_the_model_gets_it(browsed: Browsed) -> None:
    page = browsed.page("/workspace/README.md")
    result = browsed.get("/workspace/README.md.json", {}).json["result"]

    assert "As the model sees it" in page
    assert result["contents"][0]["uri"] == "workspace:///README.md"
    assert result["contents"][0]["_meta"]["dev.carrel/etag"] in page


def test_an_image_is_shown_as_one_and_other_bytes_are_offered(project: Path, browsed: Browsed) -> None:
    (project / "blob.bin").write_bytes(bytes(range(256)))

    assert '<img src="/-/raw?uri=workspace%3A%2F%2F%2Fpixel.png"' in browsed.page("/workspace/pixel.png")
    assert "Download blob.bin" in browsed.page("/workspace/blob.bin")
    assert browsed.get("/-/raw?uri=workspace%3A%2F%2F%2Fpixel.png").headers["content-type"] == "image/png"


def test_a_refused_resource_says_why_by_which_rule_and_where_to_ask(browsed: Browsed) -> None:
    reply = browsed.get("/workspace/.env")
    page = reply.body.decode()

    assert reply.status == 403
    assert "SECRET" not in page
    assert "The rule:" in page
    assert 'href="/-/explain?uri=workspace%3A%2F%2F%2F.env"' in page
    assert 'action="/-/explain"' in page


def test_a_missing_resource_has_the_status_of_plain_http(browsed: Browsed) -> None:
    assert browsed.get("/workspace/nothing").status == browsed.get("/workspace/nothing", {}).status == 404
    assert browsed.get("/nosuch/thing").status == browsed.get("/nosuch/thing", {}).status == 400


def test_a_folder_has_an_outline_with_the_size_of_each_child_folders_too(project: Path, browsed: Browsed) -> None:
    (project / "lib" / "inner").mkdir()
    (project / "lib" / "inner" / "deep.txt").write_text("x" * 500, "utf-8")
    (project / "lib" / "flat.txt").write_text("x" * 20, "utf-8")
    page = browsed.page("/workspace/lib")
    outline = browsed.page("/workspace/lib/?outline")

    assert 'href="/workspace/lib/?outline"' in page
    assert "?blame" not in page
    assert "?blame" not in outline
    assert 'data-kind="outline"' in outline
    assert "Size by child" in outline
    assert ">inner/</a>" in outline
    assert "500 bytes" in outline


def test_a_file_has_its_views(browsed: Browsed) -> None:
    page = browsed.page("/workspace/README.md")

    assert 'href="/workspace/README.md?outline"' in page
    assert 'data-kind="markdown"' in page


def test_an_empty_file_says_so(browsed: Browsed, project: Path) -> None:
    (project / "empty.txt").write_text("", "utf-8")
    page = browsed.page("/workspace/empty.txt")

    assert "It is empty." in page
    assert 'id="L1"' not in page


def test_the_sizes_of_a_folder_say_where_those_of_its_folders_are(browsed: Browsed) -> None:
    assert 'the <a href="/workspace/?outline">outline</a> shows them' in browsed.page("/workspace/")
    assert "shows them" not in browsed.page("/workspace/lib")


def test_bytes_have_no_lines_before_or_after_and_no_blame(project: Path, browsed: Browsed) -> None:
    (project / "large.bin").write_bytes(bytes(range(256)) * 1_000)
    page = browsed.page("/workspace/large.bin")

    assert "Next part" not in page
    assert "?blame" not in page
    assert "?outline" not in page


def test_a_whole_text_says_how_many_lines_it_has(browsed: Browsed) -> None:
    assert "<span>2 lines</span>" in browsed.page("/workspace/lib/main.py")
    assert "<span>1 line</span>" in browsed.page("/workspace/data")


def test_a_folder_has_only_the_columns_that_it_fills(browsed: Browsed) -> None:
    files, pages = browsed.page("/workspace/"), browsed.page("/carrel/")

    assert all(f">{name}</th>" in files for name in ("size", "tokens", "changed (UTC)"))
    assert not any(f">{name}</th>" in pages for name in ("size", "tokens", "changed (UTC)"))


def test_a_refusal_leads_to_the_folders_above(browsed: Browsed) -> None:
    page = browsed.get("/workspace/lib/nothing.txt").body.decode()

    assert '<a href="/workspace/lib">lib</a>' in page
    assert 'data-up="/workspace/lib"' in page
    assert 'data-up="/"' in browsed.get("/workspace/?lines=1").body.decode()
    assert "Explain this URI" in page
    assert "which rule" not in page


def test_the_title_of_a_child_is_left_out_where_it_only_repeats_the_name(browsed: Browsed) -> None:
    page = browsed.page("/carrel/")

    assert ">guide</a>" in page
    assert '<span class="dim">Guide</span>' not in page


def test_what_to_copy_and_the_way_to_the_models_view_stand_above_the_content(browsed: Browsed) -> None:
    for path in ("/workspace/README.md", "/workspace/"):
        page = browsed.page(path)
        assert page.index('href="#model"') < page.index("data-copy-uri") < page.index('id="live"')
        assert page.count("data-copy-uri") == page.count('id="model"') == 1


def test_a_log_whose_run_failed_says_so_with_its_exit_code_on_its_page_and_in_its_folder(
    browsed: Browsed, project: Path
) -> None:
    for name, code in (("good", 0), ("bad", 3)):
        log = writer(project, name)
        log.feed("out", b"made\n")
        log.end(code)
    rows = {row["name"]: row["state"] for row in browsed.get("/logs/run.json", {}).json["children"]}
    [bad] = [name for name in rows if "bad" in name]
    folder, page = browsed.page("/logs/run"), browsed.page(f"/logs/{bad}")

    assert sorted(rows.values()) == ["failed (exit code 3)", "succeeded (exit code 0)"]
    assert '<td class="state failed">failed (exit code 3)</td>' in folder
    assert '<td class="state">succeeded (exit code 0)</td>' in folder
    assert '<b class="failed">failed (exit code 3)</b>' in page
    assert "failed (exit code 3)" in browsed.get("/logs/run.md", {}).body.decode()
    assert "state: failed (exit code 3)" in browsed.get(f"/logs/{bad}.md", {}).body.decode()
    assert ">state</th>" not in browsed.page("/workspace/")


def test_one_of_anything_is_singular(browsed: Browsed, project: Path) -> None:
    put(project / "one/a.py", "x")

    assert "(Python, 1 line, " in browsed.page("/workspace/one/a.py?outline")
    assert "for its first line." in browsed.page("/workspace/one/a.py?outline")
    assert "1 file, 1 byte)" in browsed.page("/workspace/one/?outline")
    assert "`workspace:///one/a.py` 1 byte " in browsed.get("/workspace/one.md", {}).body.decode()


ODD = (
    "a b",
    " ",
    "a ",
    "100%",
    "%41",
    "a#b",
    "a?b",
    "größe ☀",
    "it's",
    'say "hi"',
    "a&b;c",
    "n" * 200,
    "a+b",
    "x.json",
)


@pytest.mark.parametrize("name", ODD)
def test_a_folder_with_an_odd_name_is_shown_and_linked_everywhere(browsed: Browsed, project: Path, name: str) -> None:
    put(project / f"odd/{name}/{name}/in.txt", "inside\n")
    address, shown = "/workspace/odd", name if name.strip() else "%20"
    for _ in range(2):
        page = browsed.page(address)
        [found] = re.findall(r'<a class="go folder" href="([^"]+)" data-uri="[^"]+">([^<]+)</a>', page)
        assert unescape(found[1]).removesuffix("/") == shown
        address = unescape(found[0])
        for spelled in (address, f"{address}/"):
            page = browsed.page(spelled)
            path = page.partition('aria-label="Path"')[2].partition("</nav>")[0]
            crumbs = re.findall(r'<li><a href="([^"]+)"(?: aria-current="page")?>([^<]*)</a></li>', path)
            assert unescape(crumbs[-1][1]) == shown
            assert unescape(crumbs[-1][0]) == address
            assert f"<h1>{crumbs[-1][1]}</h1>" in page
            assert f"<title>{crumbs[-1][1]} · Carrel</title>" in page
            twin = re.findall(r'type="application/json" href="([^"]+)"', page)[0]
            assert browsed.get(unescape(twin), {}).json["kind"] == "folder"
    assert f'href="{address}/in.txt"' in unescape(browsed.page(address))


@pytest.mark.parametrize(("path", "uri"), [("//", "///"), ("/lib/", "///lib"), ("/lib//", "///lib"), ("", "///")])
def test_a_folder_has_one_uri_however_many_slashes_end_its_address(browsed: Browsed, path: str, uri: str) -> None:
    page = browsed.page(f"/workspace{path}")

    assert f'data-subject="workspace:{uri}"' in page
    assert f"<h1>{'lib' if 'lib' in uri else 'workspace:///'}</h1>" in page


@pytest.mark.parametrize("part", ["lines=9-", "start=999"])
def test_a_part_past_the_end_says_so(browsed: Browsed, part: str) -> None:
    page = browsed.page(f"/workspace/lib/main.py?{part}")

    assert "This part is past the end." in page
    assert "bytes" not in page.partition('class="facts-line"')[2].partition("</p>")[0]
    assert 'class="l"' not in page
