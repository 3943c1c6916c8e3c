"""Cursors: sealed places, and what is not one."""

import base64
import re

import pytest

from carrel.catalog.pages import seal, unseal
from carrel.core.errors import BadCursor

PLACE = ("m", "workspace", "workspace:///größe/a b.md")


@pytest.mark.parametrize(
    "parts",
    [PLACE, ("",), ("", ""), ("a",), ("t", "1000"), ("x" * 10_000, "y"), ("\ud800", "😀"), ("a\nb", "\t")],
)
def test_a_cursor_gives_its_parts_back(parts: tuple[str, ...]) -> None:
    assert unseal(seal(*parts)) == parts


def test_a_cursor_is_safe_in_a_url_and_says_nothing_of_itself() -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]+", seal(*PLACE))


def test_a_cursor_is_the_same_every_time() -> None:
    assert seal(*PLACE) == seal(*PLACE) == "ht-tw7tya2NtAHdvcmtzcGFjZQB3b3Jrc3BhY2U6Ly8vZ3LDtsOfZS9hIGIubWQ"


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "0",
        "foreign",
        "eyJvZmZzZXQiOiAxMH0",
        "AAAA",
        "é",
        "\ud800",
        "a b",
        "=",
        "====",
        "\0",
        "x" * 1_000_001,
        base64.urlsafe_b64encode(b"\0" * 8).decode(),
        base64.urlsafe_b64encode(b"\0" * 8 + b"m\0a\0b").decode(),
        base64.urlsafe_b64encode(b"\0" * 8 + b"\xff").decode(),
    ],
)
def test_a_foreign_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(BadCursor) as caught:
        unseal(cursor)

    assert (caught.value.message, caught.value.data) == (
        "invalid cursor",
        {"parameter": "cursor"},
    )


def test_a_cursor_with_any_character_changed_is_refused() -> None:
    cursor = seal(*PLACE)

    for at in range(len(cursor)):
        for other in "A-_z9":
            if other != cursor[at]:
                with pytest.raises(BadCursor):
                    unseal(cursor[:at] + other + cursor[at + 1 :])


@pytest.mark.parametrize("change", [lambda c: c + "=", lambda c: c + "A", lambda c: c[:-1], lambda c: c[1:], str.lower])
def test_a_cursor_in_another_spelling_is_refused(change: "type[str]") -> None:
    with pytest.raises(BadCursor):
        unseal(change(seal(*PLACE)))


def test_a_cursor_with_plain_base64_letters_is_refused() -> None:
    cursor = next(c for c in (seal("m", "p", str(n)) for n in range(100)) if "-" in c or "_" in c)

    with pytest.raises(BadCursor):
        unseal(cursor.replace("-", "+").replace("_", "/"))
