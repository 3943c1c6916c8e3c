"""A small ALC_HOME on disk, and a catalogue that serves it."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from carrel.catalog.catalog import Catalog
from carrel.core.errors import BadArgument, NotFound, ProviderError, RequestError, TooLarge
from carrel.core.model import Reading, Text
from carrel.core.provider import Project
from carrel.providers.alc import Alc

SKETCH = """\
--- sketch — draw first
---
--- ## Usage
---   alc run sketch
---@class Sketch
local M = {}

M.meta = {
  name = "sketch",
  version = "0.1.0",
  category = "reasoning",
  description = "Draws a sketch first",
  tags = { "draft", "cheap" },
  limits = { rounds = 3, timeout = compute() },
}

function M.run(ctx) end

return M
"""
CARD = """\
schema_version = "card/v0"
card_id = "sketch_m_1"
created_at = "2026-04-01T00:00:00Z"
[pkg]
name = "sketch"
[stats]
pass_rate = 1.0
"""


class Home:
    """A folder with `home`, `project` and whatever a test writes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.project = folder / "project"
        self.project.mkdir()
        self.trusted: set[tuple[str, str]] = set()
        self.environment = {"ALC_HOME": str(self.home), "HOME": str(folder / "user")}

    def write(self, path: str, data: str | bytes) -> Path:
        """Write a file below the home."""
        place = self.home / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.exists():  # at once, so that nobody sees half of it
            half = place.with_name(f"{place.name}.tmp")
            half.write_bytes(data.encode() if isinstance(data, str) else data)
            return half.replace(place)
        place.write_bytes(data.encode() if isinstance(data, str) else data)
        return place

    def fill(self) -> None:
        """Write one of everything."""
        self.write("types/alc.d.lua", "---@meta\n")
        self.write("types/alc_shapes.d.lua", "---@meta shapes\n")
        self.write("packages/sketch/init.lua", SKETCH)
        self.write("cards/sketch/sketch_m_1.toml", CARD)
        self.write("cards/sketch/sketch_m_1.samples.jsonl", '{"case_idx":0,"score":1.0}\n{"case_idx":1,"score":0.0}\n')
        self.write("cards/_aliases.toml", 'best = "sketch_m_1"\n')
        self.write("scenarios/my_scenario.lua", "return {}\n")
        self.write("evals/sketch_1745000000.json", '{"status": "completed"}\n')
        self.write("evals/sketch_1745000000.meta.json", "{}")
        self.write("evals/compare_sketch_1_vs_cot_2.json", "{}")
        self.write("logs/s-1.json", json.dumps({"session_id": "s-1", "transcript": [{"query_id": "q1"}]}))
        self.write("logs/s-1.meta.json", "{}")
        self.write("logs/tracing.log.2026-04-01", "noise")
        self.write("logs/s-2.json.tmp", "{")

    def provider(self, **settings: Any) -> Alc:
        """Return a provider of this home; the settings count as the user's own."""
        keys = frozenset(settings)
        project = Project(str(self.project), self.environment, keys, keys, trusts=self.trusts)
        return Alc(project, **settings)

    def trusts(self, path: str, digest: str) -> bool:
        """Return whether a test trusted this file as it is."""
        return (path, digest) in self.trusted

    def trust(self, path: Path) -> None:
        """Trust a file as it is now."""
        self.trusted.add((str(path), sha256(path.read_bytes()).hexdigest()))

    def catalog(self, **settings: Any) -> Catalog:
        """Serve this home."""
        return self.serve(self.provider(**settings))

    def serve(self, provider: Alc) -> Catalog:
        """Return a catalogue of one provider."""
        return Catalog([provider])


def compact(value: object) -> str:
    """Spell a value as alc does."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def read(catalog: Catalog, uri: str) -> str:
    """Return the text of a read."""
    return text_of(catalog.read(uri))


def text_of(reading: Reading) -> str:
    """Return the text of a reading's one item."""
    [item] = reading.items
    assert isinstance(item, Text)
    return item.text


def refusal(catalog: Catalog, uri: str) -> tuple[str, str]:
    """Return the kind and the message of the error that a read gives."""
    kinds = {NotFound: "NotFound", TooLarge: "TooLarge", BadArgument: "InvalidParams", ProviderError: "Internal"}
    with pytest.raises((RequestError, ProviderError)) as caught:
        catalog.read(uri)
    error = caught.value
    assert isinstance(error, RequestError | ProviderError)
    assert isinstance(error, ProviderError) or error.code == -32602
    return kinds[type(error)], error.message
