"""Git's data, read in process: the same answers as git gives, and none where a stranger wants one."""

import os
import random
import struct
import subprocess
import tracemalloc
import zlib
from collections.abc import Callable
from hashlib import sha1
from pathlib import Path
from time import monotonic

import pytest

from carrel.files.sandbox import Root
from carrel.git import objects as git_objects
from carrel.git.repository import Git
from tests.support.owners import give_away
from tests.support.sage_folder import git, put


def ask(project: Path, home: Path | None = None, timeout_s: float = 20.0) -> Git:
    return Git(str(project), {"HOME": str(home or project / "home")}, timeout_s)


def commit(project: Path, name: str, text: str, message: str = "m") -> str:
    put(project / name, text)
    git(project, "add", "-A")
    git(project, "commit", "-qm", message)
    return git(project, "rev-parse", "HEAD")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    git(made, "init", "-q", "-b", "main")
    return made


def is_dirty(project: Path) -> bool | None:
    state = ask(project).state()
    assert state is not None
    return state.is_dirty


# The same answers as git


def test_a_state_is_what_git_says(project: Path) -> None:
    for number in range(5):
        commit(project, "a.txt", f"{number}\n", f"Change {number}\ncontinued\n\nbody")

    state = ask(project).state()

    assert state is not None
    assert (state.branch, state.is_dirty) == ("main", False)
    assert state.commit == git(project, "rev-parse", "--short", "HEAD")
    assert "\n".join(state.recent) == git(project, "log", "-3", "--format=%h %s")
    assert ask(project).head() == git(project, "rev-parse", "HEAD")


@pytest.mark.slow
def test_packed_objects_and_refs_are_read_like_loose_ones(project: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(2_000))
    first = commit(project, "deep/folder/a.txt", text)
    for number in range(30):
        commit(project, "deep/folder/a.txt", text.replace("line 7\n", f"line {number}!\n"), f"Change {number}")
        commit(project, f"deep/{number}.txt", "x\n")
    git(project, "gc", "-q", "--aggressive", "--prune=now")

    state = ask(project).state()

    assert state is not None
    assert "\n".join(state.recent) == git(project, "log", "-3", "--format=%h %s")
    assert state.is_dirty is False
    assert ask(project).changed_since(first[:9], ["deep/folder/a.txt", "deep/29.txt", "deep"]) == {
        "deep/folder/a.txt",
        "deep/29.txt",
        "deep",
    }


def test_a_commit_named_by_few_digits_is_found_loose_and_packed(project: Path) -> None:
    first = commit(project, "a", "1\n")
    commit(project, "a", "2\n")
    assert ask(project).changed_since(first[:5], ["a", "b"]) == {"a"}
    git(project, "gc", "-q", "--prune=now")
    assert ask(project).changed_since(first[:5], ["a", "b"]) == {"a"}
    assert ask(project).changed_since("HEAD", ["a"]) == frozenset()
    assert ask(project).changed_since("0" * 40, ["a"]) == frozenset()


def test_a_merge_is_followed_to_the_side_that_did_not_change_the_file(project: Path) -> None:
    base = commit(project, "a", "1\n")
    git(project, "checkout", "-qb", "side")
    commit(project, "b", "1\n")
    git(project, "checkout", "-q", "main")
    commit(project, "c", "1\n")
    git(project, "merge", "-q", "--no-edit", "side")
    assert ask(project).changed_since(base, ["a", "b", "c"]) == {"b", "c"}


def test_a_change_that_was_taken_back_is_still_a_change(project: Path) -> None:
    base = commit(project, "a", "1\n")
    commit(project, "a", "2\n")
    commit(project, "a", "1\n")
    assert ask(project).changed_since(base, ["a"]) == {"a"}


def test_a_commit_of_another_branch_counts_only_for_what_came_after_both_parted(project: Path) -> None:
    commit(project, "a", "1\n")
    git(project, "checkout", "-qb", "side")
    side = commit(project, "a", "2\n")
    git(project, "checkout", "-q", "main")
    commit(project, "b", "1\n")
    assert ask(project).changed_since(side, ["a", "b"]) == {"b"}


@pytest.mark.slow
def test_history_agrees_with_git_in_a_tangled_repository(project: Path) -> None:
    names = random.Random(4)
    made = [commit(project, "f0", "start\n")]
    for number in range(40):
        if number % 7 == 3:
            git(project, "checkout", "-qb", f"b{number}", names.choice(made))
        made.append(commit(project, f"f{names.randrange(4)}", f"{number}\n"))
        if number % 11 == 8:
            git(project, "merge", "-q", "-s", "ours", "--no-edit", names.choice(made))
            made.append(git(project, "rev-parse", "HEAD"))
    files = [f"f{number}" for number in range(4)]
    for base in made:
        expected = {file for file in files if git(project, "rev-list", "-1", f"{base}..HEAD", "--", file)}
        assert ask(project).changed_since(base, files) == expected, base


def test_a_subfolder_of_a_repository_of_the_user_s_has_its_history(project: Path) -> None:
    first = commit(project, "inner/a", "1\n")
    commit(project, "inner/a", "2\n")
    assert ask(project / "inner").changed_since(first, ["a"]) == {"a"}


def test_a_home_under_git_is_not_the_repository_of_every_project_in_it(project: Path) -> None:
    commit(project, "work/a", "1\n")
    assert ask(project / "work", home=project).head() == ""
    assert ask(project / "work", home=project.parent).head() != ""


def test_a_detached_head_and_an_unborn_one_are_told_apart(project: Path) -> None:
    assert ask(project).state() is None
    name = commit(project, "a", "1\n")
    git(project, "checkout", "-q", name)
    state = ask(project).state()
    assert state is not None
    assert state.branch == "HEAD"


def test_a_shallow_clone_ends_where_it_was_cut(project: Path, tmp_path: Path) -> None:
    for number in range(4):
        commit(project, "a", f"{number}\n", f"Change {number}")
    git(tmp_path, "clone", "-q", "--depth", "2", f"file://{project}", "shallow")
    state = ask(tmp_path / "shallow").state()
    assert state is not None
    assert [line.partition(" ")[2] for line in state.recent] == ["Change 3", "Change 2"]


def test_a_repository_with_long_names_is_read_too(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main", "--object-format=sha256")
    first = commit(tmp_path, "a", "1\n")
    commit(tmp_path, "a", "2\n")
    git(tmp_path, "gc", "-q")
    assert len(ask(tmp_path).head()) == 64
    assert ask(tmp_path).changed_since(first, ["a"]) == {"a"}
    assert is_dirty(tmp_path) is False


def test_the_origin_is_the_last_part_of_its_address(project: Path) -> None:
    assert ask(project).origin() == ""
    git(project, "remote", "add", "origin", "git@example.org:team/payments.git")
    assert ask(project).origin() == "payments"


# Whether the work tree is dirty


def edit(project: Path) -> None:
    put(project / "a", "other\n")


def edit_to_the_same_size(project: Path) -> None:
    put(project / "a", "2\n")


def touch(project: Path) -> None:
    os.utime(project / "a", (1_000_000_000, 1_000_000_000))


def stage(project: Path) -> None:
    put(project / "a", "other\n")
    git(project, "add", "a")


def stage_and_take_back(project: Path) -> None:
    stage(project)
    put(project / "a", "1\n")


def add(project: Path) -> None:
    put(project / "new", "x\n")
    git(project, "add", "new")


def remove(project: Path) -> None:
    (project / "a").unlink()


def remove_from_index(project: Path) -> None:
    git(project, "rm", "-q", "--cached", "kept/b")


def make_new(project: Path) -> None:
    put(project / "deep/new/file", "x\n")


def make_ignored(project: Path) -> None:
    put(project / "kept/out.log", "x\n")
    put(project / "build/out", "x\n")


def make_empty_folder(project: Path) -> None:
    (project / "empty/inner").mkdir(parents=True)


def make_executable(project: Path) -> None:
    (project / "a").chmod(0o755)


def make_executable_unminded(project: Path) -> None:
    git(project, "config", "core.fileMode", "false")
    (project / "a").chmod(0o755)


def become_link(project: Path) -> None:
    (project / "a").unlink()
    (project / "a").symlink_to("kept/b")


def move_link(project: Path) -> None:
    (project / "link").unlink()
    (project / "link").symlink_to("kept")


def make_fifo(project: Path) -> None:
    os.mkfifo(project / "pipe")


def hold_repository(project: Path) -> None:
    (project / "nested").mkdir()
    git(project / "nested", "init", "-q")
    commit(project / "nested", "x", "x\n")


def exclude(project: Path) -> None:
    put(project / ".git/info/exclude", "new\n")
    put(project / "new", "x\n")


def use_old_index(project: Path) -> None:
    git(project, "update-index", "--index-version", "4")


def assume(project: Path) -> None:
    git(project, "update-index", "--assume-unchanged", "a")
    put(project / "a", "other\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        edit,
        edit_to_the_same_size,
        touch,
        stage,
        stage_and_take_back,
        add,
        remove,
        remove_from_index,
        make_new,
        make_ignored,
        make_empty_folder,
        make_executable,
        make_executable_unminded,
        become_link,
        move_link,
        make_fifo,
        hold_repository,
        exclude,
        use_old_index,
        assume,
    ],
)
def test_a_work_tree_is_dirty_when_git_says_so(project: Path, change: Callable[[Path], None]) -> None:
    put(project / "a", "1\n")
    put(project / "kept/b", "1\n")
    put(project / "kept/.gitignore", "*.log\n!keep.log\n")
    put(project / ".gitignore", "/build/\n")
    (project / "link").symlink_to("a")
    commit(project, "kept/c", "1\n")

    change(project)

    assert is_dirty(project) is bool(git(project, "status", "--porcelain"))


def test_line_ends_that_git_turns_are_no_change(project: Path) -> None:
    git(project, "config", "core.autocrlf", "true")
    commit(project, "a", "1\n2\n")
    put(project / "a", "1\r\n2\r\n")
    assert is_dirty(project) is False


def test_a_file_that_may_have_a_filter_is_not_judged(project: Path) -> None:
    put(project / ".gitattributes", "*.bin filter=lfs\n")
    commit(project, "a.bin", "1\n")
    put(project / "a.bin", "2\n")
    assert is_dirty(project) is None
    put(project / "b", "new\n")
    assert is_dirty(project) is True  # whatever the filter would say


def test_the_user_s_own_ignore_file_counts(project: Path, tmp_path: Path) -> None:
    commit(project, "a", "1\n")
    put(project / ".idea/x", "x\n")
    put(tmp_path / "home/.config/git/ignore", ".idea/\n")
    state = ask(project, home=tmp_path / "home").state()
    assert state is not None
    assert state.is_dirty is False
    assert is_dirty(project) is True


# Work trees, submodules, and what is not followed


def test_a_linked_work_tree_is_read_where_it_names_and_is_named(project: Path, tmp_path: Path) -> None:
    first = commit(project, "a", "1\n")
    git(project, "worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    commit(tmp_path / "linked", "a", "2\n", "Aside")
    state = ask(tmp_path / "linked").state()
    assert state is not None
    assert (state.branch, state.is_dirty) == ("side", False)
    assert ask(tmp_path / "linked").changed_since(first, ["a"]) == {"a"}


def test_a_submodule_is_read_where_it_names_and_is_named(project: Path, tmp_path: Path) -> None:
    part = tmp_path / "part"
    part.mkdir()
    git(part, "init", "-q")
    name = commit(part, "a", "1\n")
    git(project, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(part), "sub")
    assert ask(project / "sub").head() == name


def test_a_git_file_that_is_not_named_back_is_not_followed(project: Path, tmp_path: Path) -> None:
    commit(project, "a", "1\n")
    thief = tmp_path / "thief"
    put(thief / ".git", f"gitdir: {project}/.git\n")
    assert ask(thief).head() == ""
    inner = project / ".git/worktrees/x"
    put(inner / "HEAD", "ref: refs/heads/main\n")
    put(inner / "commondir", "../..\n")
    put(inner / "gitdir", f"{project}/.git\n")
    put(thief / ".git", f"gitdir: {inner}\n")
    assert ask(thief).head() == ""
    put(thief / ".git", "gitdir: worktrees/x\n")
    inner = thief / "worktrees/x"
    put(inner / "HEAD", "ref: refs/heads/main\n")
    put(inner / "gitdir", f"{thief}/.git\n")
    put(inner / "commondir", f"{project}/.git\n")
    assert ask(thief).head() == ""


def test_a_folder_called_worktrees_lends_nothing_of_its_parent(project: Path) -> None:
    head = commit(project, "a", "1\n")
    thief = project / ".git/worktrees"
    put(thief / ".git", "gitdir: x\n")
    put(thief / "x/HEAD", f"{head}\n")
    put(thief / "x/gitdir", f"{thief}/.git\n")
    put(thief / "x/commondir", "../..\n")
    assert ask(thief).state() is None


def test_a_git_folder_with_a_commondir_is_not_read(project: Path, tmp_path: Path) -> None:
    commit(project, "a", "1\n")
    other = tmp_path / "other"
    put(other / ".git/HEAD", "ref: refs/heads/main\n")
    put(other / ".git/commondir", f"{project}/.git\n")
    assert ask(other).head() == ""


@pytest.mark.parametrize("name", [".git", ".git/objects", ".git/refs", ".git/HEAD", ".git/packed-refs"])
def test_links_out_of_a_repository_are_not_followed(project: Path, tmp_path: Path, name: str) -> None:
    commit(project, "a", "1\n", "secret subject")
    git(project, "pack-refs", "--all")
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q", "-b", "main")
    if name != ".git":
        put(other / ".git/packed-refs", (project / ".git/packed-refs").read_bytes())
    place = other / name
    if place.is_dir():
        subprocess.run(("rm", "-r", place), check=True)
    else:
        place.unlink(missing_ok=True)
    place.symlink_to(project / name)
    assert "secret" not in str(ask(other).state())


def test_objects_of_an_alternate_are_unknown(project: Path, tmp_path: Path) -> None:
    commit(project, "a", "1\n", "secret subject")
    git(tmp_path, "clone", "-q", "--shared", str(project), "other")
    assert ask(tmp_path / "other").state() is None


def test_a_repository_of_another_user_is_not_read(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(project, "a", "1\n")
    give_away(project / ".git", monkeypatch)
    assert ask(project).head() == ""


def test_includes_of_the_configuration_are_not_followed(project: Path, tmp_path: Path) -> None:
    put(tmp_path / "private", '[remote "origin"]\n\turl = secret\n')
    with (project / ".git/config").open("a") as config:
        config.write(f"[include]\n\tpath = {tmp_path}/private\n")
    assert ask(project).origin() == ""


# Hostile bytes


def put_object(project: Path, kind: bytes, content: bytes, *, said: int | None = None) -> str:
    """Write a loose object, which may lie about its length."""
    data = b"%s %d\0" % (kind, len(content) if said is None else said) + content
    name = sha1(data).hexdigest()
    put(project / ".git/objects" / name[:2] / name[2:], zlib.compress(data, 9))
    put(project / ".git/refs/heads/main", f"{name}\n")
    return name


@pytest.mark.slow
@pytest.mark.parametrize("said", [None, 10, 1 << 60])
def test_an_object_that_inflates_without_end_is_given_up(project: Path, said: int | None) -> None:
    put_object(project, b"commit", b"\0" * (git_objects.MAX_OBJECT_BYTES + 1), said=said)
    import tracemalloc

    tracemalloc.start()
    assert ask(project).state() is None
    assert tracemalloc.get_traced_memory()[1] < 3 * git_objects.MAX_OBJECT_BYTES
    tracemalloc.stop()


def put_loose(project: Path, name: str, kind: bytes, content: bytes) -> None:
    """Write a loose object under a name that is not its own."""
    put(project / ".git/objects" / name[:2] / name[2:], zlib.compress(b"%s %d\0" % (kind, len(content)) + content))


@pytest.mark.slow
def test_commits_and_trees_that_go_in_circles_end(project: Path) -> None:
    one, two, tree, old = "a" * 40, "b" * 40, "c" * 40, "d" * 40
    text = b"tree %s\nparent %s\nauthor a <a> 1 +0000\ncommitter a <a> 1 +0000\n\nm\n"
    put_loose(project, one, b"commit", text % (tree.encode(), two.encode()))
    put_loose(project, two, b"commit", text % (tree.encode(), one.encode()))
    put_loose(project, old, b"commit", text % (tree.encode(), old.encode()))
    put_loose(project, tree, b"tree", b"40000 a\0" + bytes.fromhex(tree) + b"40000 b\0" + bytes.fromhex(tree))
    put(project / ".git/refs/heads/main", f"{one}\n")
    put(project / "file", "x\n")
    git(project, "update-index", "--add", "--cacheinfo", f"100644,{'e' * 40},file")
    reader = ask(project, timeout_s=0.5)
    assert reader.changed_since(old, ["a/b/a", "file"]) == frozenset()
    state = reader.state()
    assert state is not None
    assert state.is_dirty is None


def put_pack(project: Path, entries: list[tuple[str, bytes]]) -> None:
    """Write a pack and its index by hand: for each object, the name it is found by and its bytes."""
    data = b"PACK" + struct.pack(">LL", 2, len(entries))
    placed = []
    for name, raw in entries:
        placed.append((bytes.fromhex(name), len(data)))
        data += raw
    placed.sort()
    fan = [sum(name[0] <= first for name, _ in placed) for first in range(256)]
    index = b"\xfftOc" + struct.pack(">L256L", 2, *fan) + b"".join(name for name, _ in placed)
    index += b"\0\0\0\0" * len(placed) + b"".join(struct.pack(">L", at) for _, at in placed) + b"\0" * 40
    put(project / ".git/objects/pack/pack-x.pack", data + b"\0" * 20)
    put(project / ".git/objects/pack/pack-x.idx", index)
    put(project / ".git/refs/heads/main", f"{entries[0][0]}\n")


def entry(kind: int, size: int, rest: bytes) -> bytes:
    """Return an object of a pack: its head, then the rest."""
    head = bytearray([kind << 4 | size & 15])
    size >>= 4
    while size:
        head[-1] |= 0x80
        head.append(size & 0x7F)
        size >>= 7
    return bytes(head) + rest


def test_deltas_that_lead_round_and_round_end(project: Path) -> None:
    first, second = "a" * 40, "b" * 40
    delta = zlib.compress(b"\x01\x01\x01a")
    put_pack(
        project,
        [(first, entry(7, 4, bytes.fromhex(second) + delta)), (second, entry(7, 4, bytes.fromhex(first) + delta))],
    )
    assert ask(project).state() is None


@pytest.mark.parametrize(
    "delta",
    [
        b"\x10\xff\xff\xff\xff\x7f" + b"\x90\x10" * 1000,
        b"\x10" + b"\xff" * 200 + b"\x01",
        b"\x10\x05" + b"\x90\x10" * 100_000,
        b"\x10",
        b"",
        b"\x10\x20\x90",
    ],
)
def test_a_delta_that_makes_more_than_it_says_is_given_up(project: Path, delta: bytes) -> None:
    base, made = "a" * 40, "b" * 40
    put_pack(
        project,
        [
            (made, entry(7, len(delta), bytes.fromhex(base) + zlib.compress(delta))),
            (base, entry(1, 16, zlib.compress(b"x" * 16))),
        ],
    )
    assert ask(project).state() is None


@pytest.mark.slow
def test_random_bytes_in_any_file_are_never_raised(project: Path) -> None:
    first = commit(project, "a", "1\n")
    commit(project, "a", "2\n")
    git(project, "gc", "-q")
    git(project, "remote", "add", "origin", "x")
    files = [one for one in (project / ".git").rglob("*") if one.is_file() and "hooks" not in one.parts]
    chance = random.Random(14)
    for file in files:
        whole = file.read_bytes()
        file.chmod(0o600)
        for _ in range(12):
            broken = bytearray(whole)
            for _ in range(chance.randrange(1, 20)):
                if broken:
                    broken[chance.randrange(len(broken))] = chance.randrange(256)
            file.write_bytes(bytes(broken[: chance.randrange(len(broken) + 1)] if chance.random() < 0.3 else broken))
            reader = ask(project)
            reader.state()
            reader.changed_since(first, ["a"])
            reader.origin()
        file.write_bytes(whole)
    assert ask(project).changed_since(first, ["a"]) == {"a"}


@pytest.mark.parametrize(
    "name", ["HEAD", "index", "config", "packed-refs", "shallow", "refs/heads/main", "info/exclude"]
)
def test_a_fifo_in_the_place_of_a_file_holds_nobody_up(project: Path, name: str) -> None:
    commit(project, "a", "1\n")
    place = project / ".git" / name
    place.unlink(missing_ok=True)
    os.mkfifo(place)
    reader = ask(project)
    reader.state()
    reader.origin()
    reader.changed_since("a" * 40, ["a"])


def test_refs_that_point_at_each_other_end(project: Path) -> None:
    put(project / ".git/refs/heads/main", "ref: refs/heads/other\n")
    put(project / ".git/refs/heads/other", "ref: refs/heads/main\n")
    assert ask(project).head() == ""


@pytest.mark.parametrize(
    "name", ["../../secret", "refs/../../../secret", "refs/heads/../../../../secret", "/etc/hostname"]
)
def test_a_ref_names_nothing_outside(project: Path, tmp_path: Path, name: str) -> None:
    put(tmp_path / "secret", "a" * 40 + "\n")
    put(project / ".git/HEAD", f"ref: {name}\n")
    assert ask(project).head() == ""


def test_a_question_ends_when_its_time_is_up(project: Path) -> None:
    first = commit(project, "a", "1\n")
    for number in range(3):
        commit(project, "b", f"{number}\n")
    started = monotonic()
    assert ask(project, timeout_s=0.0).changed_since(first, ["a", "b"]) == frozenset()
    assert ask(project, timeout_s=0.0).state() is None
    assert monotonic() - started < 10


def test_no_handle_is_left_open_whatever_is_found(project: Path, tmp_path: Path) -> None:
    first = commit(project, "a", "1\n")
    commit(project, "a", "2\n")
    git(project, "gc", "-q")
    git(project, "worktree", "add", "-q", str(tmp_path / "linked"))
    put(tmp_path / "broken/.git/HEAD", "ref: refs/heads/main\n")
    put(tmp_path / "common/.git/commondir", "../..\n")
    put(tmp_path / "pointer/.git", f"gitdir: {project}/.git/worktrees/linked\n")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for place in (project, *(tmp_path / name for name in ("linked", "broken", "common", "pointer"))):
        reader = ask(place)
        reader.head()
        reader.origin()
        reader.state()
        reader.changed_since(first, ["a"])
        reader.changed_since("b" * 40, ["a"])
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.slow
def test_refs_without_end_are_not_held_in_memory_several_times(project: Path) -> None:
    commit(project, "a", "1\n")
    wanted = git(project, "rev-parse", "HEAD")
    git(project, "pack-refs", "--all")
    packed = project / ".git/packed-refs"
    packed.write_bytes("# 🪤".encode() + b"x" * 30_000_000 + b"\n" + packed.read_bytes())

    tracemalloc.start()
    try:
        assert ask(project).head() == wanted
        assert tracemalloc.get_traced_memory()[1] < 80_000_000
    finally:
        tracemalloc.stop()


def test_large_deltas_are_applied_only_as_long_as_there_is_time(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base, made, size = "a" * 40, "b" * 40, 300_000
    spelled = bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14])
    delta = spelled + spelled + b"\xf0" + size.to_bytes(3, "little")
    put_pack(
        project,
        [
            (made, entry(7, len(delta), bytes.fromhex(base) + zlib.compress(delta))),
            (base, entry(1, size, zlib.compress(random.Random(1).randbytes(size)))),
        ],
    )
    checks: list[str] = []
    monkeypatch.setattr(git_objects.Deadline, "check", lambda _: checks.append("check"))

    def apply(base: bytes, _: bytes) -> list[bytes]:
        checks.append("apply")
        return [base]

    monkeypatch.setattr("dulwich.pack.apply_delta", apply)
    with Root(project / ".git") as shared:
        objects = git_objects.Objects(shared, git_objects.Deadline(1))
        objects.read(made.encode())
        objects.close()
    assert checks[-2:] == ["check", "apply"]


def test_an_object_that_says_less_than_it_inflates_to_is_given_up(project: Path) -> None:
    name = "a" * 40
    put_pack(project, [(name, entry(1, 20, zlib.compress(b"x" * 21))), ("b" * 40, entry(3, 600, bytes(600)))])

    with Root(project / ".git") as shared:
        objects = git_objects.Objects(shared, git_objects.Deadline(9))
        with pytest.raises(git_objects.Unknown):
            objects.read(name.encode())
        objects.close()


@pytest.mark.slow
def test_every_name_in_an_index_is_found_and_no_other(project: Path) -> None:
    chance = random.Random(1)
    names = {chance.randbytes(20).hex() for _ in range(3_000)}
    # Names that are not spread evenly: they are not where they are expected.
    names |= {f"07{number:06x}{'0' * 32}" for number in range(3_000)}
    put_pack(project, [(name, entry(3, 20, zlib.compress(bytes.fromhex(name)))) for name in sorted(names)])

    with Root(project / ".git") as shared:
        for name in [*chance.sample(sorted(names), 40), *(f"07{number:06x}{'0' * 32}" for number in (0, 1, 2_999))]:
            objects = git_objects.Objects(shared, git_objects.Deadline(9))  # a few names are looked for in the file
            assert objects.read(name.encode()) == (git_objects.BLOB, bytes.fromhex(name))
            with pytest.raises(git_objects.MissingObject):
                objects.read(f"{name[:-1]}{int(name[-1], 16) ^ 1:x}".encode())
            objects.close()
        objects = git_objects.Objects(shared, git_objects.Deadline(60))  # many of them, in memory
        assert all(objects.read(name.encode())[1].hex() == name for name in sorted(names))
        objects.close()


def test_an_index_with_names_that_grow_tells_nothing(project: Path) -> None:
    commit(project, "a", "1\n")
    entries = [b"\0" + b"a/" * 3_000, *(b"\0a" for _ in range(2_000))]
    data = b"DIRC" + (4).to_bytes(4, "big") + len(entries).to_bytes(4, "big")
    data += b"".join(bytes(40) + bytes(20) + b"\x0f\xff" + name + b"\0" for name in entries)
    (project / ".git/index").write_bytes(data + sha1(data).digest())

    tracemalloc.start()
    try:
        assert is_dirty(project) is None
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()
