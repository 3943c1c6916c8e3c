"""Create a small project with data for every provider.

python -m examples.sample FOLDER
"""

import sys
from pathlib import Path

from carrel.core.isotime import now_ms
from carrel.providers.scopes import changes, queries
from carrel.providers.scopes.store import Store

FILES = {
    "pubspec.yaml": """\
name: weather_desk
description: A small Flutter app that shows today's weather.
version: 1.2.0
environment:
  sdk: ">=3.5.0 <4.0.0"
dependencies:
  flutter:
    sdk: flutter
  http: ^1.2.0
""",
    "analysis_options.yaml": "include: package:flutter_lints/flutter.yaml\n",
    "lib/main.dart": """\
import 'package:flutter/material.dart';

import 'forecast.dart';

void main() => runApp(const WeatherDesk());

/// Today's weather, and nothing else.
class WeatherDesk extends StatelessWidget {
  const WeatherDesk({super.key});

  @override
  Widget build(BuildContext context) {
    return MaterialApp(
      title: 'Weather desk',
      home: Scaffold(
        appBar: AppBar(title: const Text('Today — 今日 ☀')),
        body: ForecastView(city: 'Tromsø'),
      ),
    );
  }
}
""",
    "lib/forecast.dart": """\
import 'package:flutter/widgets.dart';

/// Shows the forecast for one city.
class ForecastView extends StatelessWidget {
  const ForecastView({super.key, required this.city});

  final String city;

  @override
  Widget build(BuildContext context) => Text('$city: −4 °C, clear');
}
""",
    "test/forecast_test.dart": """\
import 'package:flutter_test/flutter_test.dart';

void main() => test('cold is cold', () => expect(-4 < 0, isTrue));
""",
    "android/app/build.gradle.kts": 'plugins {\n    id("com.android.application")\n    kotlin("android")\n}\n',
    "ios/Runner/AppDelegate.swift": "import Flutter\nimport UIKit\n",
    ".sage/system/objective.md": "# Ship the login page\n\nOnly people with an account see tomorrow's weather.\n",
    ".sage/system/pinned/reference.md": "The weather service allows 60 calls a minute.\n",
    ".sage/checkpoints/2026-02-15T10-12-00_jwt-research-keep-tokens-in-secure-stora.md": """\
---
id: 2026-02-15T10-12-00_jwt-research-keep-tokens-in-secure-stora
type: checkpoint
ts: '2026-02-15T10:12:00.250000+00:00'
trigger: synthesis
confidence: 0.85
message_count: 0
token_estimate: 0
---

# Where should the app keep its JWT?

## Thesis
JWT research: keep tokens in secure storage

## Key Evidence
- Shared preferences are plain files that a backup copies

## Sources
- **owasp-mobile** (document): auth tokens belong in the platform's key store — _supports_

""",
    ".sage/knowledge/index.yaml": """\
version: 1
items:
- id: auth-patterns
  type: knowledge
  file: global/auth-patterns.md
  triggers:
    keywords: [auth, login]
    patterns: []
  scope:
    skills: []
    always: false
  metadata:
    added: '2026-02-16'
    source: team wiki
    tokens: 14
    status: ''
  code_links:
  - chunk_id: lib/main.dart::WeatherDesk
    relation: related
    note: where the login page will hang
""",
    ".sage/knowledge/global/auth-patterns.md": """\
---
id: auth-patterns
type: knowledge
keywords: [auth, login]
source: team wiki
added: '2026-02-16'
---

Refresh the token before it expires, not after a call failed.
""",
    ".sage/failures/2026-02-14T16-40-00_jwt-localstorage.md": """\
---
id: jwt-localstorage
type: failure
approach: Tokens in local storage
keywords: [jwt, login]
added: '2026-02-14T16:40:00'
project: weather_desk
---

## Why it failed
Any script on the page can read them

## Learned
Use secure storage
""",
    "README.md": "# Weather desk\n\nA sample project for Carrel.\n",
    ".gitignore": "build/\n*.log\n",
    ".env": "WEATHER_API_KEY=not-a-real-key\n",
    "build/app.log": "noise\n",
    "carrel.toml": '[alc]\nhome = ".algocline"\n',
    ".algocline/types/alc.d.lua": "---@meta\n\n---@class alc\nalc = {}\n",
    ".algocline/types/alc_shapes.d.lua": "---@meta\n\n---@class alc_shapes\nalc_shapes = {}\n",
    ".algocline/packages/sketch/init.lua": """\
--- sketch — draw first, answer then
---
--- ## Usage
---   alc run sketch "Will it rain in Tromsø?"
local M = {}

-- Not this one: M.meta = { name = "decoy" }
M.meta = {
  name = "sketch",
  version = "0.1.0",
  category = "reasoning",
  description = "Draws a sketch of the answer " .. [[before writing it]],
  tags = { "draft", 'cheap' },
  limits = { rounds = 3, timeout = os.getenv("SKETCH_TIMEOUT") },
}

function M.run(ctx)
  return ctx.llm("Sketch first: " .. ctx.task)
end

return M
""",
    ".algocline/cards/sketch/sketch_demo_1.toml": """\
schema_version = "card/v0"
card_id = "sketch_demo_1"
created_at = 2026-04-01T00:00:00Z
[pkg]
name = "sketch"
[model]
id = "demo-model"
[stats]
pass_rate = 0.5
""",
    ".algocline/cards/sketch/sketch_demo_1.samples.jsonl": """\
{"case_idx": 0, "input": "Tromsø", "score": 1.0}
{"case_idx": 1, "input": "Bergen", "score": 0.0}
""",
    ".algocline/scenarios/rain.lua": 'return { cases = { "Tromsø", "Bergen" } }\n',
    ".algocline/evals/sketch_1775000000.json": '{"status":"completed"}\n',
    ".algocline/logs/s-demo.json": """\
{"session_id": "s-demo", "strategy": "sketch", "transcript": [
  {"query_id": "q1", "prompt": "Sketch first: rain?", "system": null, "response": "A cloud."},
  {"query_id": "q2", "prompt": "Now answer.", "system": null, "response": "Yes."}]}
""",
}


SCOPES = (
    ("project-alpha", "Project Alpha", "IN_PROGRESS", ""),
    ("feature-x", "Feature X", "IN_PROGRESS", "project-alpha"),
    ("feature-y", "Feature Y", "PLANNING", "project-alpha"),
    ("task-1", "Implement API", "TODO", "feature-x"),
    ("task-2", "Write tests", "TODO", "feature-x"),
    ("task-3", "Design UI", "TODO", "feature-y"),
)
"""Alias, title, status, parent."""


def plant_scopes(folder: Path) -> None:
    """Create a small hierarchy of tasks in the project's store."""
    store = Store(str(folder / ".carrel/scopes.db"))
    with store.writing() as connection:
        for alias, title, status, parent in SCOPES:
            above = queries.find(connection, parent)
            changes.create(connection, now_ms(), title=title, alias=alias, status=status, parent=above)
    store.close()


BUILD = """\
echo "Compiling lib/main.dart for the Web..."
for step in 1 2 3; do echo "[$step/3] building"; sleep 0.4; done
echo "warning: WEATHER_API_KEY=0123456789abcdef is set" >&2
echo "Built build/web"
"""
"""A script that acts as a build in the demonstration."""


def lay_out(folder: Path) -> None:
    """Write the sample project into a folder."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    plant_scopes(folder)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m examples.sample FOLDER")
    lay_out(Path(sys.argv[1]))
    print(f"Created a sample project in {sys.argv[1]}. Try: carrel --project {sys.argv[1]}")
