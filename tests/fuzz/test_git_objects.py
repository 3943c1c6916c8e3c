"""Git's files with other bytes in them: every question gets an answer, or an error that a client may read."""

import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.core.errors import CarrelError
from carrel.git.blame import Blame
from carrel.git.comparison import compare_trees
from carrel.git.folder_history import FolderHistory, read_log
from carrel.git.repository import Repository
from carrel.git.revisions import list_refs, resolve
from tests.support.sage_folder import git

ENOUGH_S = 20.0


def _log(one: Repository) -> object:
    return read_log(one, "HEAD", (b"d", b"a"), 0)


def _compare(one: Repository) -> object:
    trees = [one.history.commit(resolve(one, name)).tree for name in ("HEAD~9", "HEAD")]
    return compare_trees(one, (trees[0], trees[1]), (), lambda path: True, 0).text()


def _blame(one: Repository) -> object:
    return Blame(one.history, one.objects, (b"d", b"a")).lines(one.head)


def _refs(one: Repository) -> object:
    return [resolve(one, ref.name) for ref in list_refs(one, "refs/tags/")]


QUESTIONS: tuple[Callable[[Repository], object], ...] = (_log, _compare, _blame, _refs)


@pytest.fixture(scope="module", params=["loose", "packed"])
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository with twelve commits of one file, as many files or as one pack."""
    project = tmp_path_factory.mktemp("original")
    git(project, "init", "-q", "-b", "main")
    out = []
    for number in range(12):
        text = "".join(f"line {line}\n" for line in range(number, number + 60))
        parent = f"from :{number}\n" if number else ""
        out.append(f"commit refs/heads/main\nmark :{number + 1}\ncommitter A <a@b> {1_700_000_000 + number} +0000\n")
        out.append(f"data 1\nx\n{parent}M 100644 inline d/a\ndata {len(text)}\n{text}\n")
    out.append("tag v1\nfrom :3\ntagger A <a@b> 1700000000 +0000\ndata 1\nx\n")
    subprocess.run(["git", "fast-import", "--quiet"], cwd=project, input="".join(out).encode(), check=True)
    if request.param == "packed":
        git(project, "gc", "-q", "--aggressive", "--prune=now")
    return project


def _places(project: Path) -> list[Path]:
    inside = project / ".git"
    files = [file for file in (inside / "objects").rglob("*") if file.is_file()]
    return sorted(
        [*files, *(file for file in (inside / "packed-refs", inside / "HEAD", inside / "config") if file.exists())]
    )


@given(data=st.data())
def test_damaged_files_of_a_repository_never_crash_a_question(original: Path, data: st.DataObject) -> None:
    chance = random.Random(data.draw(st.integers(0, 2**32)))
    spoiled = chance.sample(_places(original), k=min(3, len(_places(original))))
    before = {file: file.read_bytes() for file in spoiled}
    try:
        for file, content in before.items():
            file.chmod(0o600)
            file.write_bytes(_spoiled(content, chance))
        for question in QUESTIONS:
            _ask(original, question)
    finally:
        for file, content in before.items():
            file.write_bytes(content)


def _spoiled(content: bytes, chance: random.Random) -> bytes:
    """Return bytes that differ: bits, runs, an end that is missing, or something in between."""
    changed = bytearray(content)
    way = chance.randrange(4)
    if way == 0:
        for _ in range(chance.randrange(1, 9)):
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    elif way == 1:
        at = chance.randrange(len(changed))
        changed[at : at + chance.randrange(1, 64)] = chance.choice([b"\xff", b"\x00", b"\x80"]) * chance.randrange(
            1, 64
        )
    elif way == 2:
        del changed[chance.randrange(len(changed)) :]
    else:
        at = chance.randrange(len(changed))
        changed[at:at] = chance.randbytes(chance.randrange(1, 64))
    return bytes(changed)


def _ask(project: Path, question: Callable[[Repository], object]) -> None:
    begun = monotonic()
    said = ""
    try:
        FolderHistory(str(project), "", 2.0).ask("git://log", question)
    except CarrelError as error:
        said = error.message
    assert str(project) not in said
    assert monotonic() - begun < ENOUGH_S


def test_every_question_is_answered_while_nothing_is_damaged(original: Path) -> None:
    for question in QUESTIONS:
        assert FolderHistory(str(original), "", 20.0).ask("git://log", question)
