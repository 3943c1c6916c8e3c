"""The project that hosts work in: more files than a host lists, and one text that needs many parts."""

import subprocess
from pathlib import Path

MANY = 2_100
"""Files beside the named ones. Codex drops a list of more than 2,048 entries."""
DOCUMENT = "docs/lighthouse.md"
DOCUMENT_URI = f"workspace:///{DOCUMENT}"
MISSPELT = "docs/lighthose.md"
SENTENCE = "The keeper of the lantern counts every ship that passes the reef."
LONG = "docs/nights.txt"
NIGHTS = 6_000
ADDED = "NEWS.md"


def night(number: int) -> str:
    """Return one line of the long text."""
    return f"Night {number:04}: the lamp was lit at dusk and burned until dawn, wind from the west.\n"


def lay_out(project: Path) -> None:
    """Make the project."""
    project.mkdir()
    subprocess.run(["git", "init", "-q", "."], cwd=project, check=True)
    (project / "docs").mkdir()
    (project / "carrel.toml").write_text("[workspace]\nlist_changed_s = 0\n", encoding="utf-8")  # tell at once
    (project / "README.md").write_text("# Lighthouse\n\nNotes of the keeper.\n", encoding="utf-8")
    (project / DOCUMENT).write_text(f"# The lighthouse\n\n{SENTENCE}\n", encoding="utf-8")
    (project / LONG).write_text("".join(map(night, range(1, NIGHTS + 1))), encoding="utf-8")
    for number in range(MANY):
        folder = project / f"ships/year_{number // 100:02}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"ship_{number:04}.txt").write_text(f"Ship {number}\n", encoding="utf-8")
