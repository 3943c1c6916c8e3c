"""What a hostile file may cost: a bounded parse, once, and never the list."""

import json

import pytest

from carrel.core import toml
from carrel.providers.alc import listing
from carrel.providers.alc.lua_source import MAX_PARSED_BYTES
from tests.providers.alc.homes import Home, read, refusal

UNKNOWN = ["M.meta"]


def padded(size: int) -> str:
    head, tail = '--- big: much\nlocal M = {}\nM.meta = { name = "big" }\n', "\nreturn M\n"
    return head + "-" * (size - len(head) - len(tail)) + tail


def test_a_source_of_a_megabyte_is_parsed_and_a_larger_one_is_not(full: Home) -> None:
    full.write("packages/big/init.lua", padded(MAX_PARSED_BYTES))
    full.write("packages/bigger/init.lua", padded(MAX_PARSED_BYTES + 1))
    catalog = full.catalog()

    assert json.loads(read(catalog, "alc://packages/big/meta")) == {
        "has_meta": True,
        "linked": False,
        "name": "big",
        "scope": "global",
    }
    assert json.loads(read(catalog, "alc://packages/bigger/meta")) == {
        "_unresolved": UNKNOWN,
        "has_meta": False,
        "linked": False,
        "name": "bigger",
        "scope": "global",
    }
    assert read(catalog, "alc://packages/bigger/narrative").startswith("# bigger: big: much\n")
    assert len(read(catalog, "alc://packages/bigger/init.lua?start=0&length=20")) > 0


@pytest.mark.parametrize(
    "source",
    [b"{" * 5_000_000, bytes(range(256)) * 20_000, b"M.meta = {" + b"a = 1,\n" * 5_500_000 + b"}\nreturn M\n"],
    ids=["braces", "bytes", "a valid table of 38 MB"],
)
def test_a_huge_source_is_given_up_at_once_and_that_is_remembered(full: Home, source: bytes) -> None:
    full.write("packages/huge/init.lua", source)
    provider = full.provider()
    catalog = full.serve(provider)

    listed = {entry.uri: entry for entry in catalog.entries()}
    for _ in range(3):
        assert json.loads(read(catalog, "alc://packages/huge/meta"))["_unresolved"] == UNKNOWN

    assert listed["alc://packages/huge/init.lua"].size == len(source)
    assert listed["alc://packages/huge/meta"].size is not None
    assert provider._reader.sources.parsed == 2  # this one, and the one that every home here has


def test_bytes_that_are_no_text_count_as_what_they_become(full: Home) -> None:
    full.write("packages/bad/init.lua", b"\xff" * (MAX_PARSED_BYTES // 2))

    assert json.loads(read(full.catalog(), "alc://packages/bad/meta"))["_unresolved"] == UNKNOWN


LONG_KEY = ".".join(["a"] * 20_000) + " = 1"


def test_a_card_with_a_key_of_many_dots_is_refused_once(full: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    full.write("cards/sketch/long.toml", LONG_KEY)
    catalog = full.catalog()
    refused = ("Internal", "Failed to parse card 'long': a key has more than 64 dots (at line 1)")
    assert refusal(catalog, "alc://cards/long") == refused

    monkeypatch.setattr(toml, "loads", lambda text: pytest.fail(f"parsed again: {text[:20]}"))
    assert refusal(catalog, "alc://cards/long") == refused


def test_a_broken_card_that_is_mended_is_read(full: Home) -> None:
    full.write("cards/sketch/long.toml", LONG_KEY)
    catalog = full.catalog()
    refusal(catalog, "alc://cards/long")

    full.write("cards/sketch/long.toml", "a = 1")
    assert read(catalog, "alc://cards/long") == '{"a":1}'


def test_a_file_of_variants_that_cannot_be_parsed_is_parsed_once(full: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    (full.project / "alc.toml").write_text("")
    (full.project / "alc.local.toml").write_text(LONG_KEY)
    catalog = full.catalog()
    refused = ("Internal", "malformed alc.local.toml: a key has more than 64 dots (at line 1)")
    assert refusal(catalog, "alc://packages/sketch/init.lua") == refused

    monkeypatch.setattr(toml, "loads", lambda text: pytest.fail(f"parsed again: {text[:20]}"))
    assert refusal(catalog, "alc://packages/sketch/init.lua") == refused


DIGITS = "9" * 5_000


@pytest.mark.parametrize(
    ("path", "content", "uri"),
    [
        ("cards/sketch/n.toml", f"a = {DIGITS}", "alc://cards/n"),
        ("cards/sketch/n.toml", f"a = 0x{DIGITS}", "alc://cards/n"),
        ("cards/sketch/sketch_m_1.samples.jsonl", f'{{"a":{DIGITS}}}', "alc://cards/sketch_m_1/samples"),
        ("logs/n.json", f'{{"a":{DIGITS}}}', "alc://logs/n"),
    ],
)
def test_a_number_of_thousands_of_digits_is_refused_without_advice_for_programmers(
    full: Home, path: str, content: str, uri: str
) -> None:
    full.write(path, content)

    kind, message = refusal(full.catalog(), uri)

    assert kind == "Internal"
    assert "sys." not in message
    assert message.endswith(
        ("a number has too many digits", "a key or number is longer than 4000 characters (at line 1)")
    )


def test_a_list_that_has_parsed_for_long_goes_on_without_parsing(full: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = full.provider()
    catalog = full.serve(provider)
    monkeypatch.setattr(listing, "PARSING_S", 0.0)
    first = {entry.uri: entry for entry in catalog.entries()}

    assert provider._reader.sources.parsed == 0
    assert first["alc://packages/sketch/meta"].size is None
    assert first["alc://packages/sketch/meta"].description == "Package metadata (M.meta table)"
    assert (first["alc://cards/sketch_m_1"].size, first["alc://hub/index"].size) == (None, None)

    read(catalog, "alc://hub/index")
    second = {entry.uri: entry for entry in catalog.entries()}
    assert second["alc://packages/sketch/meta"].description == "Draws a sketch first"
    assert None not in {entry.size for entry in second.values()}
