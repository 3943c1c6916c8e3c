"""What an assistant is told at the start: exact blocks, a budget, and only what matters here."""

from pathlib import Path

import pytest

from carrel.providers.guide import INSTRUCTIONS
from tests.sage_folder import FAILURE, FAILURE_TEXT, FAILURE_TOON, ask, git, open_sage, put

RULE = "═══════════════════════"


def system(project: Path, **files: str) -> Path:
    """Write system files; `__` in a name is a folder."""
    for name, text in files.items():
        put(project / f".sage/system/{name.replace('__', '/')}.md", text)
    return project


def test_both_blocks_have_the_page_s_form(tmp_path: Path) -> None:
    project = system(tmp_path / "shop", objective="Ship the jwt login.\n" + "x" * 60, pinned__queue="  Queue.  ")
    put(project / ".sage/failures/2026-02-14T16-40-00_jwt-localstorage.md", FAILURE)
    sage = open_sage(project)

    objective = "Ship the jwt login.\n" + "x" * 60
    assert sage.instructions() == (
        f"═══ SYSTEM CONTEXT ═══\n*2 file(s), ~21 tokens*\n\n## objective.md\n{objective}\n\n"
        f"## pinned/queue.md\nQueue.\n\n{RULE}\n\n"
        f"═══ FAILURE MEMORY ═══\n*Relevant past failures to avoid repeating:*\n\n{FAILURE_TEXT}\n{RULE}"
    )
    put(project / ".sage/tuning.yaml", "output_format: toon\n")
    assert sage.instructions() == (
        f"# System [2] ~21tok\n\n## objective\n{objective}\n\n## pinned/queue\nQueue.\n\n"
        f"# Failures [1]\n\n{FAILURE_TOON}"
    )
    told = ask(sage, "server/discover")["instructions"]
    assert told == sage.instructions()


def test_the_first_file_that_does_not_fit_is_cut_and_named(tmp_path: Path) -> None:
    words = "word " * 400
    project = system(tmp_path, objective="o" * 400, constraints=words, pinned__a="a", zz="z")
    sage = open_sage(project, inject_tokens=200)

    cut = words[:380].rstrip() + "\n\n... (truncated)"
    head = "Not shown: sage://system/constraints.md, sage://system/pinned/a.md, sage://system/zz.md\n"
    assert sage.instructions() == (
        f"{head}═══ SYSTEM CONTEXT ═══\n*2 file(s), ~200 tokens*\n\n## objective.md\n{'o' * 400}\n\n"
        f"## constraints.md\n{cut}\n\n{RULE}"
    )


def test_a_small_rest_is_not_filled(tmp_path: Path) -> None:
    project = system(tmp_path, objective="o" * 640, constraints="c" * 300)

    text = open_sage(project, inject_tokens=200).instructions()
    assert text.startswith("Not shown: sage://system/constraints.md\n═══ SYSTEM CONTEXT ═══\n*1 file(s), ~160 tokens*")


def test_only_top_level_and_pinned_files_are_told(tmp_path: Path) -> None:
    system(tmp_path, zz="z", aa="a", pinned__b="b", pinned__deep__c="c", other__d="d", objective=" \n ")
    put(tmp_path / ".sage/system/note.txt", "text")

    text = open_sage(tmp_path).instructions()
    assert [line for line in text.split("\n") if line.startswith("## ")] == ["## pinned/b.md", "## aa.md", "## zz.md"]


@pytest.mark.parametrize("form", ["markdown", "toon"])
def test_by_default_all_of_it_stays_below_what_a_host_keeps(tmp_path: Path, form: str) -> None:
    put(tmp_path / ".sage/tuning.yaml", f"output_format: {form}\n")
    system(tmp_path, objective="jwt " * 250, **{f"pinned__{'long-name-' * 8}{number}": "x" for number in range(50)})
    for number in range(9):
        text = FAILURE.replace("jwt-localstorage", f"f{number}").replace("Use httpOnly", "y" * 900)
        put(tmp_path / f".sage/failures/2026-01-0{number + 1}T00-00-00_f.md", text)

    text = open_sage(tmp_path).instructions()
    assert len(INSTRUCTIONS) <= 200
    assert 500 < len(f"{INSTRUCTIONS}\n\n{text}") < 2_048
    system(tmp_path, objective="jwt " * 2_500)
    assert len(f"{INSTRUCTIONS}\n\n{open_sage(tmp_path).instructions()}") < 2_048


def test_failures_are_weighed_against_what_the_project_is(tmp_path: Path) -> None:
    project = tmp_path / "webshop"
    git_origin = "https://example.org/team/payments.git"
    put(project / "package.json", '{"name": "checkout-ui"}')
    put(project / "pyproject.toml", '[project]\nname = "ledger"\n')
    git(project, "init", "-q")
    git(project, "remote", "add", "origin", git_origin)
    keywords = {
        "a-origin": "[payments]",
        "b-node": "[checkout]",
        "c-python": "[ledger, checkout]",
        "d-part": "[shop]",
        "e-none": "[nothing]",
        "f-parts": "[shop, pay]",
    }
    for number, (name, words) in enumerate(keywords.items()):
        text = FAILURE.replace("jwt-localstorage", name).replace("[jwt, storage]", words)
        put(project / f".sage/failures/2026-01-0{number + 1}T00-00-00_{name}.md", text)

    def told(**settings: int) -> list[str]:
        text = open_sage(project, **settings).instructions()
        return [line[3:] for line in text.split("\n") if line.startswith("## ")]

    assert told(inject_failures=9) == ["c-python", "f-parts", "b-node", "a-origin"]
    assert told() == ["c-python", "f-parts", "b-node"]
    assert told(inject_failures=0) == []
    put(project / ".sage/tuning.yaml", "failure_injection_limit: 1\n")
    assert told() == ["c-python"]
    assert told(inject_failures=2) == ["c-python", "f-parts"]


def test_what_the_user_set_beats_tuning_which_beats_the_default(tmp_path: Path) -> None:
    system(tmp_path, objective="o" * 400, constraints="c")
    tuning = put(tmp_path / ".sage/tuning.yaml", "system_folder_enabled: no\n")
    assert open_sage(tmp_path).instructions() == ""
    assert "## objective.md" in open_sage(tmp_path, inject=True).instructions()
    assert open_sage(tmp_path, inject=False).instructions() == ""

    tuning.write_text("system_folder_max_tokens: 90\n", encoding="utf-8")
    assert "*1 file(s), ~90 tokens*" in open_sage(tmp_path).instructions()
    assert "*2 file(s), ~100 tokens*" in open_sage(tmp_path, inject_tokens=400).instructions()
    tuning.write_text("system_folder_max_tokens: 9000\n", encoding="utf-8")
    assert "*2 file(s), ~100 tokens*" in open_sage(tmp_path).instructions()
