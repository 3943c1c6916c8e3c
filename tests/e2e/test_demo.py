"""`make demo` is the first thing a newcomer runs: it must work and show what it says."""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs/demo.svg"


def run_demo(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "examples/demo.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=folder)


def lines_of(picture: Path) -> list[str]:
    """Return the lines of a picture, without what differs from run to run: times, ids, and which stream came first."""
    lines: dict[str, str] = defaultdict(str)
    for part in ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}text"):
        lines[part.get("clip-path", "")] += (part.text or "").rstrip("\n")
    return sorted(re.sub(r"[0-9a-f]{16}|\d+", "#", line).strip() for line in lines.values())


def test_the_picture_in_the_readme_is_what_the_demo_shows_now(tmp_path: Path) -> None:
    ran = run_demo(tmp_path, "--svg", "now.svg")

    assert ran.returncode == 0, ran.stderr
    assert lines_of(PICTURE) == lines_of(tmp_path / "now.svg"), "run make picture"


def test_the_picture_fetches_nothing() -> None:
    assert re.findall(r"@import|@font-face|url\((?!#)|href", PICTURE.read_text(encoding="utf-8")) == []


def test_the_demo_runs_from_anywhere_and_shows_each_step(tmp_path: Path) -> None:
    ran = run_demo(tmp_path)

    assert ran.returncode == 0, ran.stderr
    for shown in (
        "2026-07-28 (modern",
        "2025-11-25 (legacy",
        "workspace:///lib/main.dart",
        "Resources of weather_desk",
        "One search over all of it",
        "status 304",
        "Access denied: workspace:///.env (may hold secrets)",
        "notified after",
        "└── feature-y (Feature Y) [PLANNING]",
        '"_unresolved": ["limits.timeout"]',
        '[{"case_idx": 1, "input": "Bergen", "score": 0.0}]',
        "invalid eval_id: must be {strategy}_{timestamp}, got 'not-an-eval'",
        "Found 1 checkpoints",
        "JWT research: keep tokens in secure storage",
        "Any script on the page can read them",
        "[3/3] building",
        "WEATHER_API_KEY=[redacted] is set",
        "sys exited 0 after",
    ):
        assert shown in ran.stdout
