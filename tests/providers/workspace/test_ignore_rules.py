"""Git's ignore rules, with git itself as the judge; and patterns made to take forever."""

import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from carrel.core.errors import ConfigError
from carrel.files.gitignore import Rules, ignores
from carrel.files.sandbox import Root
from carrel.providers.workspace import ignore_rules
from carrel.providers.workspace.ignore_rules import IgnoreFiles
from carrel.providers.workspace.paths import canonical
from tests.support.workspaces import Served, fill, settle

SEEDS = [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 12))]
NAMES = [*"a b ab a.log b.md foo é #h !n a*b [x] build keep ab.log".split(), " ", "x y"]
TOKENS = "a b * ** ? / / foo é .log [ab] [!a] [^b] [a-c] \\ \\* # ! build keep [[:alpha:]] [ ] - x h n".split()
TOKENS += ["*.log", ".md", "\\ ", "[]a]", "[[:x:]]", "[a\\]b]", "***", " ", "\r", "\t", "[[:upper:][:digit:]]", "[b-]"]
WHOLES = ["**/", "a/**/", "foo/**", "**/a/**", "a/*/b", "*/a", "foo**/a", "**\\/a", "*b*a*", "a**b", "**\\/b\\/**"]


def random_pattern(dice: random.Random) -> str:
    pattern = "".join(dice.choices(TOKENS, k=dice.randint(1, 6)))
    if dice.random() < 0.3:
        pattern = dice.choice(WHOLES) + (pattern if dice.random() < 0.3 else "")
    if dice.random() < 0.3:
        pattern += "/"
    return ("!" if dice.random() < 0.25 else "") + ("/" if dice.random() < 0.2 else "") + pattern


def grow(dice: random.Random, folder: Path, depth: int = 0) -> Iterator[tuple[Path, bool]]:
    """Make a tree of random names with ignore files here and there; yield each path and whether it is a folder."""
    for name in dice.sample(NAMES, 6):
        place = folder / name
        is_folder = depth < 3 and dice.random() < 0.5
        if is_folder:
            place.mkdir()
            yield place, True
            yield from grow(dice, place, depth + 1)
        else:
            place.touch()
            yield place, False
    if depth == 0 or dice.random() < 0.3:
        lines = [random_pattern(dice) for _ in range(dice.randint(1, 6))]
        (folder / ".gitignore").write_bytes(dice.choice(["\n", "\r\n"]).join(lines).encode())


def run_git(folder: Path, *arguments: str, given: bytes = b"") -> bytes:
    nowhere = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "HOME": str(folder)}
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, input=given, capture_output=True, check=False, env={**os.environ, **nowhere}).stdout


def ask_git(root: Path, paths: list[str]) -> dict[str, bool]:
    given = b"".join(os.fsencode(path) + b"\0" for path in paths)
    told = run_git(root, "check-ignore", "--no-index", "-z", "-n", "-v", "--stdin", given=given).split(b"\0")
    return {
        os.fsdecode(path): bool(pattern) and not pattern.startswith(b"!")
        for pattern, path in zip(told[2::4], told[3::4], strict=True)
    }


def ask_us(files: IgnoreFiles, path: str, *, is_folder: bool) -> bool:
    chain = files.top()
    segments = tuple(path.split("/"))
    for number, name in enumerate(segments, 1):
        if ignores(chain, name, is_folder=is_folder or number < len(segments)):
            return True
        if number < len(segments):
            chain = files.enter(chain, segments[:number])
    return False


@pytest.mark.parametrize("seed", SEEDS)
def test_git_ignores_the_same_paths(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    run_git(tmp_path, "init", "-q")
    paths = {str(place.relative_to(tmp_path)): is_folder for place, is_folder in grow(dice, tmp_path)}
    exclude = "\n".join(random_pattern(dice) for _ in range(2))
    (tmp_path / ".git/info/exclude").write_text(exclude)

    with Root(tmp_path) as root:
        files = IgnoreFiles(root)
        ours = {path: ask_us(files, path, is_folder=is_folder) for path, is_folder in paths.items()}

    assert ours == ask_git(tmp_path, list(paths))


@pytest.mark.parametrize(
    ("rules", "path", "is_ignored"),
    [
        ("build/", "build/x.md", True),
        ("build/", "src/build/x.md", True),
        ("/build", "src/build/x.md", False),
        ("*.log", "a/b.log", True),
        ("*.log\n!keep.log", "keep.log", False),
        ("logs/\n!logs/keep.log", "logs/keep.log", True),
        ("logs/*\n!logs/keep.log", "logs/keep.log", False),
        ("*.log\n!important/", "important/a.log", True),
        ("a/**/b.md", "a/b.md", True),
        ("a/**/b.md", "a/x/y/b.md", True),
        ("a/*/b.md", "a/x/y/b.md", False),
        ("foo\u2028bar", "foo", False),
        ("x.md\x0cy.md", "x.md", False),
        ("trailing.md   ", "trailing.md", True),
        ("space\\ ", "space ", True),
        ("\\#x.md", "#x.md", True),
        ("#x.md", "#x.md", False),
        ("\ufeffbom.md", "bom.md", True),
        ("?.md", "é.md", False),
        ("??.md", "é.md", True),
        ("é.md", "é.md", True),
    ],
)
def test_an_ignore_file_means_what_it_means_to_git(tmp_path: Path, rules: str, path: str, is_ignored: bool) -> None:
    fill(tmp_path, {path: "text", ".gitignore": rules, "other/x.txt": "other"})
    with Served(tmp_path, preset="code") as served:
        uri = canonical("", path.split("/"))

        assert served.outcome(uri) == ("DENIED ignored" if is_ignored else "text")
        assert (uri.removeprefix("workspace:///") in served.uris()) == (not is_ignored)


def test_the_rules_of_a_folder_come_before_those_above_and_the_exclude_file_comes_last(tmp_path: Path) -> None:
    fill(tmp_path, {f"{folder}{name}.md": "x" for folder in ("", "sub/", "sub/deep/") for name in "abc"})
    fill(
        tmp_path,
        {".gitignore": "a.md\n!c.md\n", "sub/.gitignore": "!a.md\nb.md\n", ".git/info/exclude": "c.md\nb.md\n"},
    )
    with Served(tmp_path, preset="code") as served:
        assert served.uris() == ["c.md", "sub/a.md", "sub/c.md", "sub/deep/a.md", "sub/deep/c.md"]


def test_nothing_above_the_root_counts_nor_a_global_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, {".gitignore": "*.md\n", ".git/info/exclude": "*.md\n", "home/.config/git/ignore": "*.md\n"})
    fill(tmp_path, {"root/x.md": "x", "home/.gitconfig": f"[core]\nexcludesFile = {tmp_path}/.gitignore\n"})
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with Served(tmp_path / "root") as served:
        assert served.uris() == ["x.md"]


@pytest.mark.parametrize("kind", ["link", "outward", "fifo", "folder", "dangling"])
def test_an_ignore_file_that_is_none_has_no_rules(tmp_path: Path, kind: str) -> None:
    root = fill(tmp_path / "root", {"x.md": "x", "rules": "*.md\n"})
    fill(tmp_path, {"rules": "*.md\n"})
    place = root / ".gitignore"
    if kind == "fifo":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    elif kind == "dangling":
        place.symlink_to("missing")
    else:
        place.symlink_to("rules" if kind == "link" else "../rules")

    with Served(root) as served:
        assert "x.md" in served.uris()
        assert served.outcome("workspace:///x.md") == "x"


def test_a_changed_ignore_file_counts_in_the_next_list_and_within_a_second_for_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, {"x.md": "x", "y.md": "y"})
    now = [1_000.0]
    monkeypatch.setattr("carrel.providers.workspace.policy.monotonic", lambda: now[0])
    monkeypatch.setattr("carrel.providers.workspace.tree.monotonic", lambda: now[0])
    with Served(tmp_path) as served:
        before = (served.uris(), served.outcome("workspace:///x.md"))
        fill(tmp_path, {".gitignore": "x.md\n"})
        listed = served.uris()
        now[0] += 1.01

        assert before == (["x.md", "y.md"], "x")
        assert (listed, served.outcome("workspace:///x.md")) == (["y.md"], "DENIED ignored")


def test_a_file_that_is_first_read_by_old_rules_is_not_remembered_beyond_their_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, {"x.md": "x", "y.md": "y"})
    now = [1_000.0]
    monkeypatch.setattr("carrel.providers.workspace.policy.monotonic", lambda: now[0])
    monkeypatch.setattr("carrel.providers.workspace.tree.monotonic", lambda: now[0])
    with Served(tmp_path) as served:
        served.text("workspace:///y.md")
        fill(tmp_path, {".gitignore": "x.md\n"})
        now[0] += 0.9
        first = served.outcome("workspace:///x.md")
        now[0] += 0.11

        assert (first, served.outcome("workspace:///x.md")) == ("x", "DENIED ignored")


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("*a" * 30 + "b", "a" * 250),
        ("a*" * 40 + "b", "a" * 250),
        ("?*" * 60 + "b", "a" * 250),
        ("[a-z]*" * 30 + "!", "a" * 250),
        ("**/" * 20 + "b", "/".join("a" * 400)),
        ("**/a/" * 12 + "b", "/".join("a" * 400)),
        ("**\\/" * 20 + "b", "/".join("a" * 400)),
        ("*/" * 30 + "**/b", "/".join("a" * 400)),
        ("*a*/**/" * 10 + "x", "/".join(["aaaaaaaa"] * 100)),
    ],
)
def test_no_pattern_takes_long(pattern: str, name: str) -> None:
    way, _, last = name.rpartition("/")
    started = process_time()

    assert Rules.of([pattern]).decide(f"{way}/" if way else "", last, is_folder=False) is None
    assert process_time() - started < 1


@pytest.mark.slow
def test_an_ignore_file_of_many_plain_names_is_honoured(tmp_path: Path) -> None:
    lines = "".join(f"name-{number:06}.md\n/a/name-{number:06}.md\n" for number in range(45_000))
    fill(tmp_path, {"name-000001.md": "x", "name-044999.md": "x", "a/name-044999.md": "x", "other.md": "x"})
    fill(tmp_path, {".gitignore": lines + "*.tmp\n!name-000001.md\n"})
    started = process_time()
    with Served(tmp_path) as served:
        assert served.uris() == ["name-000001.md", "other.md"]
    assert process_time() - started < 10


HOSTILE = {
    "large": "# nothing\n" * 450_000,
    "many patterns": "".join(f"name-{number}\n" for number in range(100_001)),
    "many wildcards": "".join(f"a{number}*b\n" for number in range(1_001)),
    "long wildcards": "\n".join("[!a-z][[:alpha:]]?*" * 200 for _ in range(260)),
    "a megabyte of sets": "\n".join("[^b]*[!c]?" * 100 for _ in range(1_000)),
}
REASONS = {
    "large": "more than 4194304 bytes",
    "many patterns": "more than 100000 patterns",
    "many wildcards": "more than 1000 patterns with wildcards",
    "long wildcards": "more than 32768 characters of patterns with wildcards",
    "a megabyte of sets": "more than 32768 characters of patterns with wildcards",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("place", [".gitignore", ".git/info/exclude", "sub/.gitignore"])
def test_an_ignore_file_past_a_bound_hides_everything_it_is_about(tmp_path: Path, kind: str, place: str) -> None:
    fill(tmp_path, {"top.md": "x", "sub/x.md": "x", "sub/deep/y.md": "x", "sub/deep/.gitignore": "!*.md\n"})
    fill(tmp_path, {place: HOSTILE[kind]})
    started = process_time()
    with Served(tmp_path, preset="code") as served:
        shown = ["top.md"] if place.startswith("sub") else []
        assert served.uris() == shown
        assert served.outcome("workspace:///sub/x.md") == "DENIED ignored"
        assert served.outcome("workspace:///sub/deep/y.md") == "DENIED ignored"
        problems = served.workspace.health()["problems"]
        told = served.workspace.explain("workspace:///sub/deep/y.md")
    assert process_time() - started < 10
    assert isinstance(problems, list)
    assert [one.partition(";")[0] for one in problems] == [f"{place}: it has {REASONS[kind]}"]
    assert any(REASONS[kind] in one for one in told)


def test_where_ignored_files_are_shown_a_hostile_ignore_file_hides_nothing(tmp_path: Path) -> None:
    fill(tmp_path, {"x.md": "x", ".gitignore": HOSTILE["many wildcards"]})
    with Served(tmp_path, preset="code", ignored="show") as served:
        assert served.uris() == ["x.md"]


def test_the_rules_in_force_in_one_folder_are_bounded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ignore_rules, "MAX_FILES_IN_FORCE", 3)
    monkeypatch.setattr(ignore_rules, "MAX_PATTERNS_IN_FORCE", 6)
    monkeypatch.setattr(ignore_rules, "MAX_WILD_IN_FORCE", 4)
    fill(tmp_path, {"a/x.md": "x", ".gitignore": "*.no\n"})
    fill(tmp_path, {"a/b/x.md": "x", "a/.gitignore": "*.no\n", "a/b/.gitignore": "*.no\n"})
    fill(tmp_path, {"a/b/c/x.md": "x", "a/b/c/.gitignore": "*.no\n"})
    fill(tmp_path, {"many/x.md": "x", "many/.gitignore": "1\n2\n3\n4\n5\n6\n"})
    fill(tmp_path, {"wild/x.md": "x", "wild/.gitignore": "a*1\na*2\na*3\na*4\na*5\n"})
    with Served(tmp_path, preset="code") as served:
        assert served.uris() == ["a/b/x.md", "a/x.md"]
        problems = served.workspace.health()["problems"]
    bounds = {"a/b/c": "3 files of patterns", "many": "6 patterns", "wild": "4 patterns with wildcards"}
    above = "with those of the folders above it has more than"
    assert problems == [
        f"{folder}/.gitignore: {above} {bound}; everything in {folder} counts as ignored"
        for folder, bound in bounds.items()
    ]


def test_patterns_that_are_remembered_are_bounded_in_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ignore_rules, "MAX_PATTERNS_HELD", 50)
    fill(tmp_path, {f"{number}/.gitignore": "".join(f"{one}\n" for one in range(20)) for number in range(9)})
    settle(*(tmp_path / f"{number}/.gitignore" for number in range(9)))
    forgotten: list[int] = []
    with Root(tmp_path) as root:
        files = IgnoreFiles(root)
        files.on_full = lambda: forgotten.append(1)
        for number in range(9):
            files.enter((), (str(number),))
        assert len(files._compiled) <= 3
    assert len(forgotten) == 4


def test_a_corrected_ignore_file_is_honoured_again(tmp_path: Path) -> None:
    fill(tmp_path, {"x.md": "x", "y.md": "y", ".gitignore": HOSTILE["many wildcards"]})
    with Served(tmp_path, preset="code") as served:
        assert served.uris() == []
        fill(tmp_path, {".gitignore": "x.md\n"})
        assert served.uris() == ["y.md"]
        assert served.workspace.health()["problems"] == []


@pytest.mark.parametrize("key", ["allow", "deny"])
def test_too_many_patterns_in_the_settings_are_a_mistake_in_them(tmp_path: Path, key: str) -> None:
    settings: dict[str, Any] = {key: [f"a{number}*b" for number in range(1_001)]}
    with pytest.raises(ConfigError, match=rf"\[workspace\] {key}: there are more than 1000 patterns with wildcards"):
        Served(tmp_path, **settings)
