"""Sage over a repository that runs something wherever git would: nothing starts, on no path."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.git_traps import lay_bare_trap, lay_traps, marks_in
from tests.support.sage_folder import git

SOURCE = Path(__file__).parents[3] / "src" / "carrel"
BEGINS_WITH_GIT = re.compile(r"""["'](?:[^"'\s]*/)?git(?=[ "'])""")
STARTERS = ("Popen", "run", "call", "check_call", "check_output", "system", "popen", "create_subprocess_exec")

EVERYTHING = """
import json, sys

heard = []

def hear(event, values):
    if event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.fork", "os.system", "socket.connect"):
        heard.append([event, str(values)[:200]])

sys.addaudithook(hear)

from carrel.app import config
from carrel.app import app as desk
from carrel.client import Client

environment = json.loads(sys.argv[2])
opened = desk.open_desk(config.load(sys.argv[1], environment, [("sage", "tools", "write")]))
answers = []
with Client.to(opened.server) as client:
    answers.append(client.instructions)
    listed = client.request("resources/list", {})["resources"]
    for one in [entry["uri"] for entry in listed if entry["uri"].startswith("sage://")] + ["sage://knowledge/m"]:
        for uri in (one, one + "?format=toon"):
            answers.append(str(client.request("resources/read", {"uri": uri})["contents"]))
    for name, arguments in (
        ("sage_save_checkpoint", {"core_question": "q", "thesis": "t", "confidence": 1}),
        ("sage_save_knowledge", {"id": "k", "content": "c", "keywords": ["k"], "code_links": [{"chunk_id": "b.txt"}]}),
        ("sage_record_failure", {"id": "g", "approach": "a", "why_failed": "w", "learned": "l", "keywords": ["k"]}),
        ("sage_write_system", {"filename": "x.md", "content": "c"}),
        ("sage_recall_knowledge", {"query": "text"}),
        ("sage_search_checkpoints", {"query": "t"}),
        ("sage_list_checkpoints", {}),
        ("sage_load_checkpoint", {"id": "t"}),
        ("sage_list_failures", {}),
    ):
        answers.append(str(client.request("tools/call", {"name": name, "arguments": arguments})))
opened.close()
print(json.dumps([heard, answers]))
"""


def do_everything(project: Path, home: Path) -> tuple[list[list[str]], list[str]]:
    """Take every path of Sage; return the processes that were started, and all answers."""
    environment = {"HOME": str(home), "PATH": os.environ["PATH"]}
    words = (sys.executable, "-c", EVERYTHING, str(project), json.dumps(environment))
    done = subprocess.run(words, cwd=project, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    heard, answers = json.loads(done.stdout)
    return heard, answers


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "home/project"
    made.mkdir(parents=True)
    return made


@pytest.mark.slow
def test_no_path_of_sage_runs_what_a_repository_names(project: Path, tmp_path: Path) -> None:
    lay_traps(project, tmp_path / "marks")

    heard, answers = do_everything(project, tmp_path / "home")

    assert not heard
    assert marks_in(tmp_path / "marks") == []
    assert "a.py:1, ok" in "".join(answers)  # its commit is missing, and nobody fetched it
    assert "Checkpoint saved" in "".join(answers)


def test_the_traps_work_when_git_is_started(project: Path, tmp_path: Path) -> None:
    """Without this, the test above could not fail."""
    lay_traps(project, tmp_path / "marks")

    subprocess.run(("git", "rev-list", "-1", f"{'0' * 39}1..HEAD"), cwd=project, check=False, capture_output=True)
    subprocess.run(("git", "status", "--porcelain"), cwd=project, check=False, capture_output=True)

    assert {"uploadpack", "fsmonitor"} <= set(marks_in(tmp_path / "marks"))


@pytest.mark.slow
def test_a_bare_repository_that_came_with_a_clone_runs_nothing(project: Path, tmp_path: Path) -> None:
    git(project, "init", "-q")
    inner = lay_bare_trap(project, tmp_path / "marks")

    heard, answers = do_everything(inner, tmp_path / "home")

    assert not heard
    assert marks_in(tmp_path / "marks") == []
    assert "a.py:1, ok" in "".join(answers)


def test_the_source_starts_no_git() -> None:
    """No source file contains a command line that starts git, directly or through a shell."""
    found = []
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        # Parsing takes long, and in most modules no text begins with the name of the program.
        for node in ast.walk(ast.parse(text)) if BEGINS_WITH_GIT.search(text) else ():
            first = _first_word(node)
            if first.partition(" ")[0].rpartition("/")[2] == "git":
                found.append(f"{path.relative_to(SOURCE)}: {ast.unparse(node)}")
    assert found == []


def _first_word(node: ast.AST) -> str:
    """Return the first text of a tuple, of a list, or of the arguments with which something is started."""
    words: list[ast.expr] = []
    if isinstance(node, ast.Tuple | ast.List):
        words = node.elts
    elif isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        is_start = name in STARTERS or name.startswith(("exec", "spawn", "posix_spawn"))
        words = node.args if is_start else []
    first = words[0] if words else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""
