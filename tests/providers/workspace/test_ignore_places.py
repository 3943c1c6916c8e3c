"""The line of the ignore file that ignores a path."""

from pathlib import Path

import pytest

from tests.support.workspaces import Served, fill

IGNORING: dict[str, str | bytes] = {
    ".gitignore": "# Made\r\n/build/\n*.tmp\n!kept.tmp\n",
    ".git/info/exclude": "private.md\n",
    "lib/.gitignore": "\ngen*.dart\n",
    "lib/deep/x.dart": "x",
}


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("build/app/main.dart", ".gitignore, line 2"),
        ("build", ".gitignore, line 2"),
        ("lib/deep/a.tmp", ".gitignore, line 3"),
        ("lib/gen_1.dart", "lib/.gitignore, line 2"),
        ("lib/deep/gen_1.dart", "lib/.gitignore, line 2"),
        ("lib/private.md", ".git/info/exclude, line 1"),
    ],
)
def test_an_explanation_names_the_line_that_ignores_a_file(tmp_path: Path, path: str, place: str) -> None:
    with Served(fill(tmp_path, IGNORING), preset="code") as served:
        told = served.workspace.explain(f"workspace:///{path}")

    assert told[1:3] == ["Not served: ignored by git (ignored).", f"The pattern is in {place}."]


def test_a_link_is_no_ignore_file_as_in_git(tmp_path: Path) -> None:
    fill(tmp_path, {"rules": "*.md\n", "lib/x.md": "x", ".gitignore": "\n*.md\n"})
    (tmp_path / "lib/.gitignore").symlink_to("../rules")
    with Served(tmp_path, preset="code") as served:
        assert "The pattern is in .gitignore, line 2." in served.workspace.explain("workspace:///lib/x.md")


def test_a_file_that_cannot_be_used_is_named_instead_of_a_line(tmp_path: Path) -> None:
    fill(tmp_path, {".gitignore": "a\n" * 100_001, "a": "x"})
    with Served(tmp_path, preset="code") as served:
        told = served.workspace.explain("workspace:///a")

    assert not any("line" in sentence for sentence in told)
    assert any("more than 100000 patterns" in sentence for sentence in told)
