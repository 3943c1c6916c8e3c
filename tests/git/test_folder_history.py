"""History: the same commits, contents, differences and lines as git itself gives."""

import contextlib
import os
import random
import subprocess
from functools import partial
from itertools import pairwise
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carrel.core.errors import CarrelError, NotFound, ProviderError
from carrel.git.blame import Blame
from carrel.git.comparison import compare_trees
from carrel.git.folder_history import FolderHistory, in_repository, read_log
from carrel.git.line_diff import equal_runs
from carrel.git.objects import Deadline, Id, TimeUp
from carrel.git.patches import FileChange, make_patch, split_lines
from carrel.git.repository import Repository
from carrel.git.revisions import list_refs, resolve
from tests.support.sage_folder import git, put

URI = "workspace:///x"


def history_of(project: Path, timeout_s: float = 20.0) -> FolderHistory:
    return FolderHistory(str(project), str(project / "home"), timeout_s)


def resolved(project: Path, revision: str) -> str:
    return history_of(project).ask(URI, lambda one: resolve(one, revision)).decode()


def log_ids(project: Path, revision: str = "", path: str | None = None, skip: int = 0) -> list[str]:
    """Return the ids of every page, joined."""

    def ask(one: Repository) -> list[Id]:
        place = None if path is None else in_repository(one, path.split("/"))
        page = read_log(one, revision, place, skip)
        found = [commit.id for commit in page.commits]
        while page.following is not None:
            page = read_log(one, page.following[0].decode(), place, page.following[1])
            found += [commit.id for commit in page.commits]
        return found

    return [name.decode() for name in history_of(project).ask(URI, ask)]


def commit(project: Path, name: str, text: str, message: str = "m", date: int = 0) -> str:
    put(project / name, text)
    git(project, "add", "-A")
    at = f"{date} +0000" if date else ""
    environment = {**os.environ, **({"GIT_COMMITTER_DATE": at, "GIT_AUTHOR_DATE": at} if at else {})}
    command = ["git", "-c", "user.name=A", "-c", "user.email=a@b.c", "commit", "-qm", message]
    subprocess.run(command, cwd=project, check=True, env=environment)
    return git(project, "rev-parse", "HEAD")


@pytest.fixture(scope="module")
def tangled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with branches, merges and 300 commits, every line written once; by one process, so quickly."""
    project = tmp_path_factory.mktemp("tangled")
    git(project, "init", "-q", "-b", "main")
    chance = random.Random(7)
    trees: list[dict[str, list[str]]] = []
    out: list[str] = []
    for number in range(300):
        parents = [number - 1] if number else []
        if number > 5 and chance.random() < 0.2:
            parents = [chance.randrange(max(0, number - 12), number)]
        if number > 5 and chance.random() < 0.25:
            other = chance.randrange(max(0, number - 12), number)
            parents += [other] if other not in parents else []
        tree = {name: list(lines) for name, lines in (trees[parents[0]] if parents else {}).items()}
        name = f"d{chance.randrange(3)}/f{chance.randrange(3)}"
        lines = tree.setdefault(name, [])
        place = chance.randrange(len(lines) + 1)
        lines[place : place + chance.randrange(3)] = [f"{number}.{at}" for at in range(chance.randrange(1, 5))]
        trees.append(tree)
        out.append(
            f"commit refs/heads/main\nmark :{number + 1}\ncommitter A B <a@b.c> {1_600_000_000 + number * 60} +0000\n"
        )
        message = f"Change {number}\n\nBody é."
        out.append(f"data {len(message.encode())}\n{message}\n")
        out += [f"{'from' if at == 0 else 'merge'} :{parent + 1}\n" for at, parent in enumerate(parents)]
        out.append("deleteall\n")
        for path, content in tree.items():
            text = "".join(f"{line}\n" for line in content)
            out.append(f"M 100644 inline {path}\ndata {len(text)}\n{text}\n")
    subprocess.run(["git", "fast-import", "--quiet", "--force"], cwd=project, input="".join(out).encode(), check=True)
    return project


# Revisions


def test_a_revision_means_the_commit_that_git_means(tangled: Path) -> None:
    git(tangled, "tag", "-f", "light", "main~3")
    git(tangled, "-c", "user.name=A", "-c", "user.email=a@b.c", "tag", "-fam", "t", "heavy", "main~5")
    git(tangled, "branch", "-f", "side/way", "main~9")
    short = git(tangled, "rev-parse", "--short=9", "main~11")
    for revision in ("", "HEAD", "@", "main", "refs/heads/main", "heads/main", "light", "heavy", "side/way", short):
        assert resolved(tangled, revision) == git(tangled, "rev-parse", f"{revision or 'HEAD'}^{{commit}}"), revision
    for revision in ("HEAD~3", "HEAD^", "HEAD~~", "light~2^", "@~0", "main^0", "heavy~1"):
        assert resolved(tangled, revision) == git(tangled, "rev-parse", revision)
    git(tangled, "pack-refs", "--all")
    assert resolved(tangled, "heavy") == git(tangled, "rev-parse", "heavy^{commit}")
    assert resolved(tangled, "side/way") == git(tangled, "rev-parse", "side/way")


@pytest.mark.parametrize(
    "revision",
    [
        "nothing",
        "HEAD~999999",
        "HEAD^9",
        "HEAD@{1}",
        "../../etc/passwd",
        "refs/../config",
        "--output=x",
        "main:d0/f0",
        "HEAD^{tree}",
        "deadbeef",
        "0" * 40,
        "a" * 300,
        "2026-99-99",
        "1999-01-01",
        "\x00",
        "~",
    ],
)
def test_a_revision_that_means_nothing_is_refused_with_a_reason(tangled: Path, revision: str) -> None:
    if revision == "~":
        assert resolved(tangled, revision) == resolved(tangled, "HEAD~")
        return
    with pytest.raises(NotFound, match=r"^Unknown revision in workspace:///x: "):
        resolved(tangled, revision)


def test_a_date_means_the_last_commit_of_that_day_in_utc(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    noon = 1_700_049_600  # 2023-11-15 12:00 UTC
    first = commit(tmp_path, "a", "1", date=noon)
    second = commit(tmp_path, "a", "2", date=noon + 12 * 3600 - 1)
    third = commit(tmp_path, "a", "3", date=noon + 12 * 3600)

    assert resolved(tmp_path, "2023-11-15") == second
    assert resolved(tmp_path, "2023-11-16") == third == resolved(tmp_path, "2026-01-01")
    assert resolved(tmp_path, "2023-11-15~1") == first
    git(tmp_path, "branch", "2023-11-15", first)
    assert resolved(tmp_path, "2023-11-15") == first, "a branch of that name goes first, as in git"
    with pytest.raises(NotFound, match="no commit is as old as that"):
        resolved(tmp_path, "2023-11-14")


# Logs


def test_a_log_of_all_pages_is_that_of_git(tangled: Path) -> None:
    assert log_ids(tangled) == git(tangled, "log", "--format=%H").split()
    assert log_ids(tangled, "main~40") == git(tangled, "log", "--format=%H", "main~40").split()


def test_a_log_of_a_path_is_that_of_git(tangled: Path) -> None:
    for path in ("d0/f0", "d1/f2", "d2", "d0"):
        assert log_ids(tangled, "", path) == git(tangled, "log", "--format=%H", "--", path).split(), path


@pytest.mark.slow
def test_a_log_of_a_path_that_takes_too_long_goes_on_where_it_ended(
    tangled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = git(tangled, "log", "--format=%H", "--", "d0/f0").split()
    looks = 0

    def be_up_after(number: int) -> None:
        def check(deadline: Deadline) -> None:
            nonlocal looks
            looks += 1
            if looks == number:
                raise TimeUp("the time is up")

        nonlocal looks
        looks = 0
        monkeypatch.setattr(Deadline, "check", check)

    def ask(one: Repository) -> list[str]:
        place = in_repository(one, ["d0", "f0"])
        page = read_log(one, "", place, 0)
        found = [commit.id.decode() for commit in page.commits]
        if page.is_cut and page.following is not None:
            page = read_log(one, page.following[0].decode(), place, page.following[1])
            found += [commit.id.decode() for commit in page.commits]
        return found

    be_up_after(0)
    assert history_of(tangled).ask(URI, ask) == expected
    continued = 0
    for number in range(1, looks, 3):
        be_up_after(number)
        with contextlib.suppress(ProviderError):  # so early that the first page would be empty
            found = history_of(tangled).ask(URI, ask)
            assert found == expected[: len(found)], number
            continued += len(found) == len(expected)
    assert continued > 10


# Differences


@settings(deadline=None)
@given(*[st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"d\n", b"e"]), max_size=24)] * 2)
def test_common_lines_are_in_both_texts_in_order(old: list[bytes], new: list[bytes]) -> None:
    runs = equal_runs(old, new, lambda: None)

    for i, j, count in runs:
        assert count > 0
        assert old[i : i + count] == new[j : j + count]
    for (i, j, count), (next_i, next_j, _) in pairwise(runs):
        assert i + count <= next_i
        assert j + count <= next_j
        assert (i + count, j + count) != (next_i, next_j)
    assert sum(count for _, _, count in runs) == _longest_common(old, new)


def _longest_common(old: list[bytes], new: list[bytes]) -> int:
    row = [0] * (len(new) + 1)
    for a in old:
        before = row
        row = [0]
        for at, b in enumerate(new):
            row.append(before[at] + 1 if a == b else max(before[at + 1], row[at]))
    return row[-1]


def test_texts_that_differ_in_most_lines_are_compared_in_time() -> None:
    chance = random.Random(2)
    old = [b"%d\n" % chance.randrange(2_000) for _ in range(5_000)]
    new = [b"%d\n" % chance.randrange(2_000) for _ in range(5_000)]
    Deadline(30).check()
    for i, j, count in equal_runs(old, new, Deadline(30).check):
        assert old[i : i + count] == new[j : j + count]


@settings(deadline=None, max_examples=25)
@given(*[st.lists(st.sampled_from([b"a", b"b", b"\r", b"\n", b"\n", b"long line"]), max_size=30).map(b"".join)] * 2)
def test_git_applies_a_patch_to_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, old: bytes, new: bytes
) -> None:
    folder = tmp_path_factory.mktemp("patched")
    (folder / "f").write_bytes(old)
    change = FileChange((b"f",), (0o100644, b""), (0o100644, b""))
    patch = make_patch(change, old, new, lambda: None)
    if old == new:
        assert patch.text == "diff --git a/f b/f\n"
        return
    command = ["git", "apply", "--whitespace=nowarn", "-"]
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    subprocess.run(command, cwd=folder, input=patch.text.encode(), check=True, env=environment)
    assert (folder / "f").read_bytes() == new
    assert patch.added - patch.removed == len(split_lines(new)) - len(split_lines(old))


def test_a_comparison_is_that_of_git(tangled: Path) -> None:
    def ask(one: Repository) -> str:
        trees = [one.history.commit(resolve(one, name)).tree for name in ("main~60", "main")]
        return compare_trees(one, (trees[0], trees[1]), (), lambda path: True, 0).text()

    expected = git(tangled, "diff", "--no-renames", "--no-color", "main~60", "main").split("\n")
    expected = [f"{line.rpartition(' @@')[0]} @@" if line.startswith("@@") else line for line in expected]
    ours = history_of(tangled).ask(URI, ask).rstrip("\n").split("\n")
    assert ours == [line for line in expected if not line.startswith("index ")]


# Blame


def test_each_line_is_from_the_commit_that_git_names(tangled: Path) -> None:
    for name in ("d0/f0", "d1/f1", "d2/f2"):

        def ask(one: Repository, name: str = name) -> list[str]:
            blame = Blame(one.history, one.objects, in_repository(one, name.split("/")))
            return [origin.commit.decode() for origin in blame.lines(one.head)[1]]

        lines = git(tangled, "blame", "--porcelain", "--root", "HEAD", "--", name).split("\n")
        expected = [line.split(" ")[0] for line in lines if len(line.split(" ")[0]) == 40 and line[:1] != "\t"]
        assert history_of(tangled).ask(URI, ask) == expected


# Kinds of repositories


def test_refs_are_listed_loose_and_packed(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    commit(tmp_path, "a", "1")
    git(tmp_path, "branch", "old")
    git(tmp_path, "pack-refs", "--all")
    commit(tmp_path, "a", "2")
    git(tmp_path, "branch", "new/one")

    found = history_of(tmp_path).ask(URI, lambda one: list_refs(one, "refs/heads/"))

    assert [(ref.name, ref.id.decode()) for ref in found] == [
        (name, git(tmp_path, "rev-parse", name)) for name in ("main", "new/one", "old")
    ]


@pytest.mark.slow
def test_a_ref_among_two_hundred_thousand_packed_ones_is_found_at_once(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    name = commit(tmp_path, "a", "1")
    rows = "".join(f"{name} refs/tags/t{number:06}\n" for number in range(200_000))
    put(tmp_path / ".git/packed-refs", f"# pack-refs with: peeled fully-peeled sorted\n{rows}")

    begun = process_time()
    assert resolved(tmp_path, "t199999") == name
    assert len(history_of(tmp_path).ask(URI, lambda one: list_refs(one, "refs/tags/"))) == 10_000
    with pytest.raises(NotFound):
        resolved(tmp_path, "199999")
    assert process_time() - begun < 1.0


def test_packed_refs_on_one_endless_line_are_passed_over_at_once(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    name = commit(tmp_path, "a", "1")
    put(tmp_path / ".git/packed-refs", " refs/tags/t" * 1_000_000 + f"\n{name} refs/tags/real\n")

    begun = process_time()
    assert (
        history_of(tmp_path).ask(URI, lambda one: list_refs(one, "refs/tags/")) == []
    )  # the first of them are no refs
    assert process_time() - begun < 1.0


def test_loose_refs_are_listed_only_while_there_is_time(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    commit(tmp_path, "a", "1")

    with pytest.raises(ProviderError, match="takes too long"):
        history_of(tmp_path, -1.0).ask(URI, lambda one: list_refs(one, "refs/heads/"))


def test_a_repository_with_sha_256_is_read(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main", "--object-format=sha256")
    for number in range(5):
        commit(tmp_path, "deep/a", f"{number}\n")
    assert log_ids(tmp_path, "", "deep/a") == git(tmp_path, "log", "--format=%H").split()
    git(tmp_path, "gc", "-q", "--prune=now")
    assert log_ids(tmp_path, "", "deep/a") == git(tmp_path, "log", "--format=%H").split()
    assert resolved(tmp_path, git(tmp_path, "rev-parse", "--short", "HEAD~1")) == git(tmp_path, "rev-parse", "HEAD~1")


def test_a_shallow_clone_ends_with_a_reason(tangled: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", "--depth", "3", f"file://{tangled}", str(clone)], check=True)

    assert log_ids(clone) == git(clone, "log", "--format=%H").split()
    with pytest.raises(NotFound, match="shallow clone"):
        resolved(clone, "HEAD~50")
    with pytest.raises(NotFound, match="shallow clone does not have it"):
        resolved(clone, git(tangled, "rev-parse", "main~90"))


def test_a_partial_clone_says_that_an_object_is_not_here(tangled: Path, tmp_path: Path) -> None:
    git(tangled, "config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "clone"
    command = ["git", "clone", "-q", "--no-checkout", "--filter=blob:none", f"file://{tangled}", str(clone)]
    subprocess.run(command, check=True)

    def ask(one: Repository) -> str:
        trees = [one.history.commit(resolve(one, name)).tree for name in ("HEAD~60", "HEAD")]
        return compare_trees(one, (trees[0], trees[1]), (), lambda path: True, 0).text()

    assert log_ids(clone) == git(tangled, "log", "--format=%H").split()
    with pytest.raises(CarrelError, match="partial clone does not have it, and nothing is fetched"):
        history_of(clone).ask(URI, ask)


def test_a_folder_without_a_repository_has_no_history(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"^This folder has no git history: workspace:///x$"):
        history_of(tmp_path).ask(URI, lambda one: one.head)
    git(tmp_path, "init", "-q")
    with pytest.raises(NotFound, match="nothing is committed yet"):
        resolved(tmp_path, "HEAD")


@pytest.mark.parametrize(
    "content", ["gitdir: a\0b/worktrees/x\n", "gitdir: \n", "\udcff", "gitdir: /worktrees/" + "x" * 5_000]
)
def test_a_git_file_that_leads_nowhere_is_no_history(tmp_path: Path, content: str) -> None:
    (tmp_path / ".git").write_bytes(content.encode(errors="surrogateescape"))

    with pytest.raises(NotFound, match="has no git history"):
        history_of(tmp_path).ask(URI, lambda one: one.head)


def test_a_linked_work_tree_has_its_own_head_and_the_same_branches(tangled: Path, tmp_path: Path) -> None:
    tree = tmp_path / "linked"
    git(tangled, "worktree", "add", "-q", "--detach", str(tree), "main~7")
    try:
        assert resolved(tree, "HEAD") == git(tangled, "rev-parse", "main~7")
        assert resolved(tree, "main") == git(tangled, "rev-parse", "main")
    finally:
        git(tangled, "worktree", "remove", "--force", str(tree))


def test_a_repository_that_is_packed_anew_during_a_question_is_still_read(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    ids = [commit(tmp_path, "a", f"{number}\n") for number in range(6)]
    git(tmp_path, "repack", "-qd")

    def ask(one: Repository) -> list[bytes]:
        first = one.history.commit(ids[-1].encode())
        commit(tmp_path, "b", "new\n")
        git(tmp_path, "repack", "-qad")
        git(tmp_path, "prune-packed")
        head = resolve(one, "HEAD")  # is in a pack that did not exist when the question began
        return [first.id, *one.history.commit(head).parents]

    assert history_of(tmp_path).ask(URI, ask) == [ids[-1].encode()] * 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_damaged_bytes_give_an_answer_or_a_clear_error(tmp_path: Path, seed: int) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    for number in range(12):
        commit(tmp_path, "a", "".join(f"{line}\n" for line in range(number, number + 40)))
    if seed % 2:
        git(tmp_path, "gc", "-q", "--prune=now")
    chance = random.Random(seed)
    files = [file for file in (tmp_path / ".git/objects").rglob("*") if file.is_file()]
    for file in files:
        data = bytearray(file.read_bytes())
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        file.chmod(0o600)
        file.write_bytes(data[: chance.choice([len(data), len(data), len(data) // 2])])
    for revision in ("HEAD", "HEAD~5", "2030-01-01"):
        for answer in (partial(_read_log_of_a, revision), _blame_a):
            try:
                history_of(tmp_path, 5.0).ask(URI, answer)
            except CarrelError as error:
                said = error.message
            else:
                said = ""
            assert str(tmp_path) not in said


def _read_log_of_a(revision: str, one: Repository) -> None:
    read_log(one, revision, (b"a",), 0)


def _blame_a(one: Repository) -> None:
    Blame(one.history, one.objects, (b"a",)).lines(one.head)
