"""The parts of a long text: each has a URI, and links lead through all of them, forwards and back."""

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

from carrel.explorer.parts import PART_BYTES, part_of
from tests.support.explorer_desk import Browsed

BYTES = 3 * PART_BYTES + 1_000
TEXTS = {
    "one line": "x" * BYTES,
    "one line of wide letters": "ß☀" * (BYTES // 5),
    "a long line between short ones": "\n".join(["short"] * 40 + ["y" * BYTES] + ["short"] * 40) + "\n",
    "a short line before a long one": "a\n" + "z" * BYTES + "\nb\n",
    "long lines": "".join(f"{letter * BYTES}\n" for letter in "abc"),
    "short lines": "".join(f"line {number}\n" for number in range(40_000)),
}


def parts(browsed: Browsed, address: str, relation: str) -> Iterator[tuple[str, str]]:
    """Yield the address and the text of each part, as the links of the pages lead to them."""
    for _ in range(40):
        page = browsed.page(address)
        body = page.partition('<section id="live"')[2].partition("</section>")[0]
        assert len(body) < 2_000_000
        yield address, unescape(re.sub(r"<[^>]+>", "", body.partition("<pre>")[2].partition("</pre>")[0]))
        found = re.search(rf'rel="{relation}" href="([^"]+)"', page)
        if found is None:
            return
        assert unescape(found[1]) != address
        address = unescape(found[1])
    raise AssertionError("the parts have no end")


def joined(text: str) -> str:
    """Return a text without line ends: a page shows none at the end of a part."""
    return text.replace("\n", "")


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_read_in_parts_of_bounded_size_that_join(browsed: Browsed, project: Path, name: str) -> None:
    (project / "long.txt").write_text(TEXTS[name], "utf-8")
    shown = list(parts(browsed, "/workspace/long.txt", "next"))

    assert "".join(joined(text) for _, text in shown) == joined(TEXTS[name])
    assert all(len(text.encode()) <= PART_BYTES + 3 for _, text in shown)  # a character belongs to one part


def test_the_rest_of_a_cut_first_line_is_no_head_of_a_table(browsed: Browsed, project: Path) -> None:
    (project / "long.csv").write_text(f"{'a' * (PART_BYTES + 9)},b,c\n1,2,3\n", "utf-8")
    first = browsed.page("/workspace/long.csv")
    following = re.search(r'rel="next" href="([^"]+)"', first)
    assert following is not None

    second = browsed.page(unescape(following[1]))

    assert "<td>b</td>" in second
    assert '<th scope="col">' not in second.partition('<section id="live"')[2].partition("</section>")[0]


@pytest.mark.parametrize("name", TEXTS)
def test_the_way_back_from_the_last_part_leads_to_the_first(browsed: Browsed, project: Path, name: str) -> None:
    (project / "long.txt").write_text(TEXTS[name], "utf-8")
    page = browsed.page("/workspace/long.txt")
    last = re.search(r'<a href="([^"]+)">Last part</a>', page)
    assert last is not None
    shown = list(parts(browsed, unescape(last[1]), "prev"))

    assert joined(TEXTS[name]).endswith(joined(shown[0][1])[-3:])
    assert joined(TEXTS[name]).startswith(joined(shown[-1][1])[:3])
    assert 'rel="prev"' not in browsed.page(shown[-1][0])


def test_a_long_outline_is_read_in_parts(browsed: Browsed, project: Path) -> None:
    (project / "long.py").write_text(
        "".join(f"def f{number}():\n    return 1\n\n\n" for number in range(9_000)), "utf-8"
    )
    shown = list(parts(browsed, "/workspace/long.py?outline=all", "next"))

    assert len(shown) > 3
    assert re.findall(r"def f(\d+)\(", "".join(text for _, text in shown)) == [str(number) for number in range(9_000)]


def test_the_part_of_a_long_line_says_where_it_lies_and_what_the_model_reads(browsed: Browsed, project: Path) -> None:
    (project / "long.txt").write_text(TEXTS["one line"], "utf-8")
    page = browsed.page(f"/workspace/long.txt?start={PART_BYTES}")
    data = browsed.get(f"/workspace/long.txt.json?start={PART_BYTES}", {}).json

    assert "bytes 65 537–131 072, in line 1 of 1" in page.replace("\u202f", " ")
    assert data["part"] == f"workspace:///long.txt?start={PART_BYTES}&length={PART_BYTES}"
    assert len(data["result"]["contents"][0]["text"]) == PART_BYTES
    assert 'class="l long"' in page


def test_a_long_log_opens_at_its_end_and_is_read_in_parts(browsed: Browsed) -> None:
    head = {"program": "make", "ms": 1_000, "origin": {"key": "k" * 24}}
    lines = [{"seq": seq, "ms": 1_000, "stream": "out", "text": f"line {seq} {'x' * 80}"} for seq in range(1, 5_001)]
    body = "".join(f"{json.dumps(one)}\n" for one in (head, *lines, {"end": "exited", "exit_code": 0, "ms": 5_000}))
    browsed.desk.catalog.append("logs://build/ci_1", body.encode())
    page = browsed.page("/logs/build/ci_1")
    shown = list(parts(browsed, "/logs/build/ci_1?start=0", "next"))

    assert 'data-live="logs://build/ci_1"' in page
    assert 'data-subject="logs://build/ci_1"' in page
    assert browsed.get("/logs/build/ci_1.json", {}).json["lines"].endswith("-5000")
    assert "line 5000 x" in page
    assert '<a href="/logs/build/ci_1?start=0">First part</a>' in page
    assert "line 1 x" not in page
    assert len(shown) > 2
    assert "".join(joined(text) for _, text in shown) == "".join(str(one["text"]) for one in lines)


@pytest.mark.parametrize(
    ("uri", "text", "meta", "own", "following"),
    [
        (
            "w:///a?x=1",
            "",
            {"total": 99, "start": 5, "length": 9, "lines": "1-1"},
            "x=1&start=5&length=9",
            "x=1&start=14",
        ),
        ("w:///a", "b\n", {"total": 99, "start": 0, "length": 10, "lines": "1-2"}, "lines=1-2", "lines=3-"),
        ("w:///a", "b", {"total": 99, "start": 0, "length": 10, "lines": "1-2"}, "start=0&length=10", "start=10"),
        ("w:///a?lines=2-9", "b\n", {"total": 99, "start": 4, "length": 10, "lines": "2-3"}, "lines=2-3", "lines=4-"),
        ("w:///a?lines=2-9", "b", {"total": 14, "start": 4, "length": 10, "lines": "2-3"}, "lines=2-3", ""),
        (
            "w:///a?start=4",
            "b\n",
            {"total": 99, "start": 4, "length": 10, "lines": "2-3"},
            "start=4&length=10",
            "lines=4-",
        ),
    ],
)
def test_a_part_is_named_by_lines_only_if_they_are_whole(
    uri: str, text: str, meta: dict[str, object], own: str, following: str
) -> None:
    named = {f"dev.carrel/{name}": value for name, value in meta.items()}
    part = part_of(uri, text, named)

    assert part.own == f"w:///a?{own}"
    assert part.following == (f"w:///a?{following}" if following else "")


def test_a_text_without_metadata_is_whole() -> None:
    part = part_of("w:///a", "b", {})

    assert (part.is_whole, part.following, part.at_end, part.place) == (True, "", "", "")
    assert part.before(lambda _: "") == ""
