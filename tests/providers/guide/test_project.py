"""What the guide says of a project: languages, folders, and the commands that its manifests name."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from carrel.catalog.access import Access, ActingAs
from carrel.catalog.catalog import Catalog
from carrel.core.model import Resource
from carrel.core.provider import Project
from carrel.providers.guide.project import ProjectFacts, ProjectSurvey
from carrel.providers.workspace import Workspace


def desk(root: Path) -> Catalog:
    return Catalog([Workspace(Project(str(root), {}), preset="code")])


def look_at(catalog: Catalog) -> ProjectFacts:
    survey = ProjectSurvey(catalog)
    survey.run()
    return survey.facts()


def test_languages_folders_and_an_example_are_named(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "README.md").write_text("# Garden\n")
    (tmp_path / "src" / "bed.py").write_text("x = 1\n")
    (tmp_path / "src" / "water.py").write_text("def water():\n    return 1\n")

    facts = look_at(desk(tmp_path))

    assert facts.lines == ("3 files, 1 KB: python 2, markdown 1", "Files by folder: `src/` 2")
    assert facts.example == "workspace:///src/water.py"


@pytest.mark.parametrize(
    ("name", "text", "commands"),
    [
        ("Makefile", "test: all\n\t@true\nrun:\n.PHONY: test\nCHECK := 1\n", "`make test`, `make run`"),
        ("package.json", '{"scripts": {"dev": "x", "test": "y", "odd": "z"}}', "`npm test`, `npm run dev`"),
        ("pyproject.toml", '[project.scripts]\nweed = "a:b"\n[tool.pytest.ini_options]\n', "`pytest`, `weed`"),
        ("Cargo.toml", "[package]\n", "`cargo test`, `cargo run`"),
        ("go.mod", "module x\n", "`go test ./...`"),
        ("pubspec.yaml", "dependencies:\n  flutter:\n    sdk: flutter\n", "`flutter test`, `flutter run`"),
        ("composer.json", '{"scripts": {"test": "phpunit"}}', "`composer test`"),
    ],
)
def test_a_manifest_says_how_to_run_and_test(tmp_path: Path, name: str, text: str, commands: str) -> None:
    (tmp_path / name).write_text(text)

    assert look_at(desk(tmp_path)).lines[-1] == f"Run and test: {commands}"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("package.json", "{"),
        ("package.json", '{"scripts": ["test"]}'),
        ("package.json", "[" * 100_000),
        ("pyproject.toml", "= broken"),
        ("pyproject.toml", '[project.scripts]\n"a b; rm -rf" = "x"\n"`x`" = "y"\n'),
        ("Makefile", "tests:\n"),
    ],
)
def test_a_manifest_that_names_no_command_is_passed_over(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)

    assert not any("Run and test" in line for line in look_at(desk(tmp_path)).lines)


def test_a_caller_who_may_not_read_files_learns_nothing_of_them(tmp_path: Path) -> None:
    (tmp_path / "secret.py").write_text("x = 1\n")

    with ActingAs(Access("guest", frozenset({"logs:read"}))):
        assert look_at(desk(tmp_path)).lines == ()


def test_a_project_without_files_has_no_facts() -> None:
    assert look_at(Catalog([])).lines == ()


def test_a_survey_that_is_not_finished_tells_what_it_has_seen(tmp_path: Path) -> None:
    class Interrupted(Catalog):
        def entries(self, scheme: str | None = None) -> Iterator[Resource]:
            yield from super().entries(scheme)
            seen.append(survey.facts())

    (tmp_path / "Makefile").write_text("test:\n")
    (tmp_path / "bed.py").write_text("x = 1\n")
    seen: list[ProjectFacts] = []
    survey = ProjectSurvey(Interrupted([Workspace(Project(str(tmp_path), {}), preset="code")]))
    before = survey.facts()
    survey.run()

    assert before == ProjectFacts(())
    assert seen[0].lines == ("2 or more files, 1 KB: make 1, python 1", "Run and test: `make test`")
    assert seen[0].example == "workspace:///bed.py"
    assert survey.facts().lines[0] == "2 files, 1 KB: make 1, python 1"
