"""Laws of the edit of settings files: nothing outside our entry changes, and removing gives back the same bytes."""

import json
import random
import tomllib

import pytest
import yaml

from carrel.connect import splice
from carrel.connect.errors import BrokenFile, NotSpliceable
from carrel.connect.splice import EntryPlace, Spliced
from tests.support import settings_texts

ENTRY = {"command": "/opt/carrel/bin/carrel", "args": ["serve", "--project", "/home/ada/größe x"], "enabled": True}
JSON = EntryPlace("json", ("mcpServers",), "carrel")
JSONC = EntryPlace("jsonc", ("mcpServers",), "carrel")
DEEP = EntryPlace("jsonc", ("mcp", "servers"), "carrel")
TOML = EntryPlace("toml", ("mcp_servers",), "carrel")
YAML = EntryPlace("yaml", ("extensions",), "carrel")
LISTED = EntryPlace("yaml", ("mcpServers",), "carrel", is_listed=True)

FAST, SLOW = 60, 2_000
COUNTS = [pytest.param(FAST, id="some"), pytest.param(SLOW, id="10,000 in all", marks=pytest.mark.slow)]


def check(text: str, target: EntryPlace) -> Spliced:
    """Assert that one piece was inserted, and that removing gives back the text, with the piece and without it."""
    spliced = splice.add(text, target, ENTRY)
    place = next(
        (at for at in range(len(text) + 1) if text[:at] + spliced.piece + text[at:] == spliced.text and spliced.piece),
        None,
    )
    assert place is not None
    assert splice.remove(spliced.text, target, spliced.piece, spliced.made) == text
    found = splice.find(spliced.text, target)
    assert found == ({"name": "carrel", **ENTRY} if target.is_listed else ENTRY)
    return spliced


def try_broken(text: str, target: EntryPlace) -> Spliced | None:
    """Return what is made of a text that may be broken; None if it is refused."""
    try:
        return splice.add(text, target, ENTRY)
    except (BrokenFile, NotSpliceable):
        return None


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("target", [JSON, JSONC, DEEP], ids=["json", "jsonc", "deep"])
def test_nothing_else_changes_in_json(target: EntryPlace, count: int) -> None:
    for chance in settings_texts.chances(count, 1):
        text, said = settings_texts.json_text(chance, target.key[0], has_comments=target.format == "jsonc")
        if target is DEEP and not isinstance(said.get("mcp", {}), dict):
            continue

        spliced = check(text, target)

        container = said
        for key in target.key:
            container = container.setdefault(key, {})  # type: ignore[assignment]
        container["carrel"] = ENTRY
        assert splice.read(spliced.text, target) == said
        if target.format == "json":
            assert json.loads(spliced.text.removeprefix("\ufeff")) == said


@pytest.mark.parametrize("count", COUNTS)
def test_nothing_else_changes_in_toml(count: int) -> None:
    for chance in settings_texts.chances(count, 2):
        text = settings_texts.toml_text(chance)
        said = tomllib.loads(text.replace("\r\n", "\n"))

        spliced = check(text, TOML)

        said.setdefault("mcp_servers", {})["carrel"] = ENTRY
        assert tomllib.loads(spliced.text.replace("\r\n", "\n")) == said


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("target", [YAML, LISTED], ids=["mapping", "list"])
def test_nothing_else_changes_in_yaml(target: EntryPlace, count: int) -> None:
    key = target.key[0]
    for chance in settings_texts.chances(count // 2, 3):
        text = settings_texts.yaml_text(chance, key, is_listed=target.is_listed)
        said = yaml.load(text, yaml.CSafeLoader) or {}

        spliced = check(text, target)

        if target.is_listed:
            said[key] = [{"name": "carrel", **ENTRY}, *(said.get(key) or [])]
        else:
            said[key] = {**(said.get(key) or {}), "carrel": ENTRY}
        assert yaml.load(spliced.text, yaml.CSafeLoader) == said


@pytest.mark.parametrize("count", COUNTS)
def test_a_broken_text_is_refused_or_is_none(count: int) -> None:
    for chance in settings_texts.chances(count // 2, 4):
        target, text = _broken(chance)

        spliced = try_broken(text, target)

        if spliced is not None and spliced.piece:
            assert splice.remove(spliced.text, target, spliced.piece, spliced.made) == text
        if target is JSON and not _is_json(text):
            assert spliced is None
        if target is TOML and not _is_toml(text):
            assert spliced is None


def _broken(chance: random.Random) -> tuple[EntryPlace, str]:
    target = chance.choice((JSON, JSONC, TOML, YAML))
    if target is TOML:
        text = settings_texts.toml_text(chance)
    elif target is YAML:
        text = settings_texts.yaml_text(chance, "extensions", is_listed=False)
    else:
        text, _ = settings_texts.json_text(chance, "mcpServers", has_comments=target is JSONC)
    return target, settings_texts.broken(chance, text)


def _is_json(text: str) -> bool:
    try:
        json.loads(text.removeprefix("\ufeff").strip(" \t\r\n") or "{}")
    except ValueError:
        return False
    return True


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(text.replace("\r\n", "\n"))
    except ValueError:
        return False
    return True
