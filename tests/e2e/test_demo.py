"""`make demo` is the first thing a newcomer runs: it must work and show what it says."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_demo_runs_from_anywhere_and_shows_each_step(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(ROOT / "examples/demo.py")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
    )

    assert ran.returncode == 0, ran.stderr
    for shown in (
        "2026-07-28 (modern",
        "2025-11-25 (legacy",
        "workspace:///lib/main.dart",
        "The desk of weather_desk",
        "status 304",
        "Access denied: workspace:///.env (may hold secrets)",
        "told after",
        "└── feature-y (Feature Y) [PLANNING]",
        '"_unresolved":["limits.timeout"]',
        '[{"case_idx":1,"input":"Bergen","score":0.0}]',
        "invalid eval_id: must be {strategy}_{timestamp}, got 'not-an-eval'",
        "Found 1 checkpoints",
        "JWT research: keep tokens in secure storage",
        "Any script on the page can read them",
        "[3/3] building",
        "WEATHER_API_KEY=[redacted] is set",
        "sys exited 0 after",
    ):
        assert shown in ran.stdout
