"""While another process swaps files and folders for links to outside, nothing outside is ever read.

The other process never rests and nobody waits for it: it says once that it has begun, and is killed at the end.
"""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from carrel.files.sandbox import CheckedPath, Root, SandboxError

READS = 10_000  # at least, for each way and each style of swapping: 20,000 a way
MANY_READS = 40 * READS  # before a swap that never shows fails the test

SWAPPER = """
import ctypes, os, sys

def exchange(one, other):  # both names always exist, and change hands at one instant
    if libc.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), 2):
        raise OSError(ctypes.get_errno())

def rename(one, other):  # for a moment there is no such name
    os.rename(one, one + ".aside")
    os.rename(other, one)
    os.rename(one + ".aside", other)

libc = ctypes.CDLL(None, use_errno=True)
swap = {"exchange": exchange, "rename": rename}[sys.argv[1]]
pairs = list(zip(sys.argv[2::2], sys.argv[3::2]))
for turn in range(sys.maxsize):
    for one, other in pairs:
        swap(one, other)
    if turn == 0:
        print("begun", flush=True)
"""

ASKED = {
    "a file that is at times a link to outside": ("file.txt",),
    "a file in a folder that is at times a link to outside": ("folder", "file.txt"),
    "a link that climbs out of a folder that is at times outside": ("a", "b", "up"),
    "a link to a file that is at times a link to outside": ("link",),
}

EXPECTED = {(what, found) for what in ASKED for found in ("inside", "Outside")} - {
    ("a link that climbs out of a folder that is at times outside", "Outside")
}
"""Beside these only `Missing` may come, where a name is gone for a moment or changes too often."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A root where `inside` is written, and around it the same names with `SECRET`."""
    for top, text in (("root", "inside"), ("outside", "SECRET")):
        for folder in ("folder", "a/b"):
            (tmp_path / top / folder).mkdir(parents=True)
        for file in ("file.txt", "folder/file.txt", "top.txt"):
            (tmp_path / top / file).write_text(text)
        (tmp_path / top / "a" / "b" / "up").symlink_to("../../top.txt")
    (tmp_path / "root" / "file-link").symlink_to("../outside/file.txt")
    (tmp_path / "root" / "folder-link").symlink_to(tmp_path / "outside" / "folder")
    (tmp_path / "root" / "link").symlink_to("folder/../file.txt")
    return tmp_path


@pytest.fixture(params=["exchange", "rename"])
def _swapping(place: Path, request: pytest.FixtureRequest) -> Iterator[None]:
    pairs = [
        ("root/file.txt", "root/file-link"),
        ("root/folder", "root/folder-link"),
        ("root/a/b", "outside/a/b"),
    ]
    paths = [str(place / path) for pair in pairs for path in pair]
    command = [sys.executable, "-c", SWAPPER, request.param, *paths]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        yield
        still_swapping = process.poll() is None
        process.kill()
    assert still_swapping


def outcome(root: Root, segments: tuple[str, ...]) -> str:
    try:
        with root.open(segments) as opened:
            return opened.read(0, 99).decode()
    except SandboxError as failure:
        return type(failure).__name__


def outcome_again(root: Root, way: CheckedPath) -> str:
    try:
        with root.reopen(way) as opened:
            return opened.read(0, 99).decode()
    except SandboxError as failure:
        return type(failure).__name__


def outcomes(root: Root) -> Counter[tuple[str, str]]:
    """Read everything in turn: often, and on until every swap was seen from both sides."""
    counts: Counter[tuple[str, str]] = Counter()
    while counts.total() < READS or (not counts.keys() >= EXPECTED and counts.total() < MANY_READS):
        counts.update((what, outcome(root, segments)) for what, segments in ASKED.items())
    return counts


@pytest.mark.slow
@pytest.mark.usefixtures("_swapping")
@pytest.mark.parametrize("fast", [True, False], ids=["openat2", "walk"])
def test_what_is_opened_again_while_it_is_swapped_for_a_link_is_never_read_from_there(place: Path, fast: bool) -> None:
    with Root(place / "root", use_openat2=fast) as root:
        counts: Counter[tuple[str, str]] = Counter()
        ways = {what: CheckedPath(segments) for what, segments in ASKED.items()}
        for _ in range(READS):
            counts.update((what, outcome_again(root, way)) for what, way in ways.items())

    assert {(what, found) for what, found in counts if found != "Missing"} <= EXPECTED


@pytest.mark.slow
@pytest.mark.usefixtures("_swapping")
@pytest.mark.parametrize("fast", [True, False], ids=["openat2", "walk"])
def test_what_is_swapped_for_a_link_to_outside_while_it_is_read_is_never_read_from_there(
    place: Path, fast: bool
) -> None:
    with Root(place / "root", use_openat2=fast) as root:
        counts = outcomes(root)

    assert {(what, found) for what, found in counts if found != "Missing"} == EXPECTED
