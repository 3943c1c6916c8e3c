"""Pictures and other bytes: loaded only from their own address on this server."""

import pytest

from carrel.explorer.rendering.markup import Content, visible
from carrel.explorer.rendering.media import render_binary, render_picture, render_svg
from tests.support.html_law import HOSTILE, LINKS, read, text_of

RAW = "/-/raw?uri=workspace%3A%2F%2F%2Fimg%2Fa.png"


def test_a_picture_is_loaded_from_its_bytes_and_has_a_name() -> None:
    parsed = read(render_picture(Content("workspace:///img/a.png", "image/png", None, 1234), LINKS))

    assert parsed.all("img")[0].attrib == {"src": RAW, "alt": "The picture a.png", "loading": "lazy"}
    assert [text_of(one) for one in parsed.all("dd")] == ["image/png", "1\u202f234 bytes", "Download a.png"]


def test_bytes_are_offered_with_what_is_known() -> None:
    parsed = read(render_binary(Content("workspace:///a%20b.zip", "application/zip", None, 7), LINKS))

    [download] = parsed.all("a")
    assert download.attrib == {"href": "/-/raw?uri=workspace%3A%2F%2F%2Fa%2520b.zip", "download": "a b.zip"}


def test_bytes_without_a_type_or_a_size_say_so() -> None:
    assert read(render_binary(Content("mem://x"), LINKS)).text == "Typenot knownFileDownload x"


def test_a_resource_without_an_address_is_only_described() -> None:
    given = Content("other://x.png", "image/png", None, 5)

    assert read(render_picture(given, LINKS)).text == "Typeimage/pngSize5 bytes"
    assert read(render_svg(Content("other://x.svg", "image/svg+xml", "<svg/>"), LINKS)).all("img") == []


def test_an_svg_is_a_picture_and_its_text_but_never_part_of_the_page() -> None:
    text = '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(2)</script></svg>'
    parsed = read(render_svg(Content("workspace:///a.svg", "image/svg+xml", text), LINKS))

    assert parsed.text == text
    assert len(parsed.all("img")) == 1
    assert parsed.all("svg") == []


def test_a_part_of_an_svg_is_only_text() -> None:
    given = Content("workspace:///a.svg", "image/svg+xml", "<path/>", is_whole=False)

    assert read(render_svg(given, LINKS)).all("img") == []


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_and_types_are_only_text(text: str) -> None:
    given = Content(f"workspace:///x/{text}", text, None, 1)
    parsed = read(render_picture(given, LINKS))

    assert visible(text) in parsed.text
    assert all(address.startswith("/-/raw?uri=workspace%3A") for address in parsed.addresses())
    assert all("/" not in one.get("download", "") for one in parsed.all("a"))
