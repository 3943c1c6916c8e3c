"""A small project, and its desk with an explorer."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from carrel.catalog.access import Access
from tests.support.explorer_desk import Browsed

CALLERS = {
    "all": Access("token all"),
    "logs": Access("token logs", frozenset({"logs:read"})),
    "none": Access("token none", frozenset()),
}


@pytest.fixture(name="project")
def small_project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "lib").mkdir(parents=True)
    (root / "README.md").write_text("# Garden\n\nSee [the code](lib/main.py).\n", "utf-8")
    (root / "lib" / "main.py").write_text("def main() -> None:\n    print('<b>hello</b>')\n", "utf-8")
    (root / "data").write_text("bare\n", "utf-8")
    (root / "data.json").write_text('{"exact": true}\n', "utf-8")
    (root / ".env").write_text("SECRET=1\n", "utf-8")
    (root / "pixel.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(200)))
    for path in root.rglob("*"):
        os.utime(path, (1_790_000_000, 1_790_000_000))  # a file that was just written has another ETag soon
    return root


@pytest.fixture(name="browsed")
def browsed_project(project: Path) -> Iterator[Browsed]:
    made = Browsed(project, settings=(("workspace", "preset", "all"),))
    yield made
    made.close()


@pytest.fixture(name="guarded")
def guarded_project(project: Path) -> Iterator[Browsed]:
    made = Browsed(project, CALLERS)
    yield made
    made.close()
