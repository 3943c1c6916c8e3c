"""Everything known that makes a server read what lies outside its root, or hang; each tried both ways.

A case plants a tree, asks for a path and names the whole outcome: `real/path: text` for a file, `real/path/` for a
folder, or the error. `inside` stands in every file below the root, `SECRET` in every file outside.
"""

import contextlib
import ctypes
import errno
import os
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from carrel.files import syscalls
from carrel.files.sandbox import Missing, Root, SandboxError
from tests.support.workspaces import handles

WAYS = pytest.mark.parametrize("fast", [True, False], ids=["openat2", "walk"])


@pytest.fixture(autouse=True)
def _every_handle_is_given_back(tmp_path: Path) -> Iterator[None]:
    yield
    assert handles(tmp_path) == []


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A root, and around it what must never be seen; `rootling` begins as the root does."""
    for folder in ("root", "rootling", "outside/folder"):
        (tmp_path / folder).mkdir(parents=True)
    for secret in ("secret.txt", "rootling/secret.txt", "outside/secret.txt", "outside/folder/secret.txt"):
        (tmp_path / secret).write_text("SECRET")
    return tmp_path


def plant(place: Path, tree: Mapping[str, str]) -> None:
    """Make each path below the root: `-> target` is a link, `/` a folder, a word a special file, else a file's text."""
    for path, what in tree.items():
        where = place / "root" / path
        where.parent.mkdir(parents=True, exist_ok=True)
        match what.split(" ", 1):
            case ["->", target]:
                where.symlink_to(target.format(root=place / "root", place=place))
            case ["/"]:
                where.mkdir(exist_ok=True)
            case ["fifo"]:
                os.mkfifo(where)
            case ["socket"]:
                with contextlib.chdir(where.parent), socket.socket(socket.AF_UNIX) as listener:
                    listener.bind(where.name)
            case _:
                where.write_text(what)


def outcome(root: Root, segments: Sequence[str]) -> str:
    try:
        with root.open(segments) as opened:
            real = "/".join(opened.real)
            return f"{real}/" if opened.is_folder else f"{real}: {opened.read(0, 1000).decode()}"
    except SandboxError as failure:
        told = (failure.args, failure.__context__)
        name = "Missing" if isinstance(failure, Missing) else type(failure).__name__
        return name if told == ((), None) else f"{name} {told}"


class Case(NamedTuple):
    """What is planted, what is asked, what comes of it; and what if absolute links into the root are allowed."""

    tree: Mapping[str, str]
    ask: str
    outcome: str
    absolute: str = ""


CHAIN = {"a/f": "inside", **{f"l{n}": f"-> l{n + 1}" for n in range(1, 41)}}
F = {"a/b/f": "inside"}

CASES = {
    # Relative links that stay inside
    "link to a file": Case({**F, "l": "-> a/b/f"}, "l", "a/b/f: inside"),
    "link to a folder": Case({**F, "l": "-> a/b"}, "l", "a/b/"),
    "link to a folder, then a child": Case({**F, "l": "-> a/b"}, "l/f", "a/b/f: inside"),
    "link to a folder with a final slash": Case({**F, "l": "-> a/b/"}, "l", "a/b/"),
    "link to a folder with a final dot": Case({**F, "l": "-> a/b/."}, "l", "a/b/"),
    "link to a file with a final slash": Case({**F, "l": "-> a/b/f/"}, "l", "Missing"),
    "link to a file with a final dot": Case({**F, "l": "-> a/b/f/."}, "l", "Missing"),
    "link with doubled slashes and dots": Case({**F, "l": "-> .//a/.//b///f"}, "l", "a/b/f: inside"),
    "link to its own folder": Case({**F, "a/l": "-> ."}, "a/l/b/f", "a/b/f: inside"),
    "link to its own folder, many times over": Case({**F, "a/l": "-> ."}, "a" + "/l" * 40 + "/b/f", "a/b/f: inside"),
    "link up and down again": Case({**F, "a/l": "-> ../a/b/f"}, "a/l", "a/b/f: inside"),
    "link up to the root": Case({**F, "a/b/l": "-> ../.."}, "a/b/l", "/"),
    "link up to the root, then down": Case({**F, "a/b/l": "-> ../../"}, "a/b/l/a/b/f", "a/b/f: inside"),
    "link over a folder and back": Case({**F, "l": "-> a/b/../../a/b/f"}, "l", "a/b/f: inside"),
    "link through another and up from its target": Case(
        {**F, "a/x": "inside", "d": "-> a/b", "l": "-> d/../x"}, "l", "a/x: inside"
    ),
    "link up over a link, where its text goes above": Case(
        {**F, "top": "inside", "d": "-> a/b", "l": "-> d/../../top"}, "l", "top: inside"
    ),
    "link to a hidden name": Case({".env": "inside", "notes.md": "-> .env"}, "notes.md", ".env: inside"),
    "link to a name with a backslash": Case({"a\\b": "inside", "l": "-> a\\b"}, "l", "a\\b: inside"),
    "link with a line break": Case({"a\nb": "inside", "l": "-> a\nb"}, "l", "a\nb: inside"),
    "link called like a drive": Case({"C:": "-> ..\\outside"}, "C:", "Missing"),
    "chain of links": Case({**F, "1": "-> 2", "2": "-> a/3", "a/3": "-> b/4", "a/b/4": "-> f"}, "1", "a/b/f: inside"),
    "40 links": Case({**CHAIN, "l40": "-> a/f"}, "l1", "a/f: inside"),
    "41 links": Case({**CHAIN, "l41": "-> a/f"}, "l1", "Missing"),
    "40 links by folders": Case({"l": "-> .", "f": "inside"}, "l/" * 40 + "f", "f: inside"),
    "41 links by folders": Case({"l": "-> .", "f": "inside"}, "l/" * 41 + "f", "Missing"),
    # Nothing at the end
    "dangling link": Case({"l": "-> nope"}, "l", "Missing"),
    "dangling link, then a child": Case({"l": "-> nope"}, "l/x", "Missing"),
    "dangling link in a folder": Case({"a/l": "-> ../a/nope"}, "a/l", "Missing"),
    "link through a file": Case({**F, "l": "-> a/b/f/../f"}, "l", "Missing"),
    "link to a file, then a child": Case({**F, "l": "-> a/b/f"}, "l/x", "Missing"),
    "link to itself": Case({"l": "-> l"}, "l", "Missing"),
    "link to its own child": Case({"l": "-> l/x"}, "l", "Missing"),
    "two links to each other": Case({"a/l": "-> ../m", "m": "-> a/l"}, "m", "Missing"),
    "link that doubles at each turn": Case({"l": "-> l/l"}, "l", "Missing"),
    "link with a name too long": Case({"l": "-> " + "x" * 256}, "l", "Missing"),
    "link as long as can be": Case({**F, "l": "-> " + "./" * 2044 + "a/b/f"}, "l", "a/b/f: inside"),
    # Above the root
    "link to a file above": Case({"l": "-> ../secret.txt"}, "l", "Outside"),
    "link to the folder above": Case({"l": "-> .."}, "l", "Outside"),
    "link to the folder above, then a child": Case({"l": "-> .."}, "l/secret.txt", "Outside"),
    "link to the folder above, then back in": Case({**F, "l": "-> .."}, "l/root/a/b/f", "Outside"),
    "link up and back in": Case({**F, "l": "-> ../root/a/b/f"}, "l", "Outside"),
    "link far up": Case({"l": "-> " + "../" * 50 + "etc/passwd"}, "l", "Outside"),
    "link from below to above": Case({"a/b/l": "-> ../../../secret.txt"}, "a/b/l", "Outside"),
    "link over a folder to above": Case({**F, "l": "-> a/../../secret.txt"}, "l", "Outside"),
    "link over a link to above": Case({**F, "a/d": "-> ..", "l": "-> a/d/../secret.txt"}, "l", "Outside"),
    "link to a link to above": Case({"l": "-> m", "m": "-> n", "n": "-> ../secret.txt"}, "l", "Outside"),
    "link to a folder outside": Case({"l": "-> ../outside"}, "l", "Outside"),
    "link to a folder outside, then a child": Case({"l": "-> ../outside"}, "l/secret.txt", "Outside"),
    "link to a folder outside, then deeper": Case({"l": "-> ../outside"}, "l/folder/secret.txt", "Outside"),
    "link to a folder outside, then nothing": Case({"l": "-> ../outside"}, "l/nope", "Outside"),
    "link to a folder that begins like the root": Case({"l": "-> ../rootling/secret.txt"}, "l", "Outside"),
    "dangling link to above": Case({"l": "-> ../nope"}, "l", "Outside"),
    "dangling link that would go above": Case({"l": "-> nope/../../secret.txt"}, "l", "Outside"),
    "dangling link that would go above and back": Case({**F, "l": "-> nope/../../root/a/b/f"}, "l", "Outside"),
    "dangling link that would stay": Case(
        {**F, "l": "-> nope/./..//../a/b/f", "a/l": "-> nope/../b/f"}, "a/l", "Missing"
    ),
    "link through a file to above": Case({"f": "inside", "l": "-> f/../../secret.txt"}, "l", "Outside"),
    "link through a fifo to above": Case({"p": "fifo", "l": "-> p/../../secret.txt"}, "l", "Outside"),
    # Absolute links
    "absolute link to a file outside": Case({"l": "-> {place}/secret.txt"}, "l", "Outside"),
    "absolute link to /etc/passwd": Case({"l": "-> /etc/passwd"}, "l", "Outside"),
    "absolute link to a folder outside, then a child": Case({"l": "-> {place}/outside"}, "l/secret.txt", "Outside"),
    "absolute link to /": Case({"l": "-> /"}, "l/etc/passwd", "Outside"),
    "absolute link with two slashes": Case({**F, "l": "-> /{root}/a/b/f"}, "l", "Outside"),
    "absolute link to nowhere": Case({"l": "-> /nope"}, "l", "Outside"),
    "absolute link to a folder that begins like the root": Case({"l": "-> {root}ling/secret.txt"}, "l", "Outside"),
    "absolute link up into the root": Case({**F, "l": "-> {place}/outside/../root/a/b/f"}, "l", "Outside"),
    "absolute link into the root": Case({**F, "l": "-> {root}/a/b/f"}, "l", "Outside", "a/b/f: inside"),
    "absolute link to the root": Case({**F, "a/l": "-> {root}"}, "a/l", "Outside", "/"),
    "absolute link to the root, then a child": Case(
        {**F, "a/l": "-> {root}/"}, "a/l/a/b/f", "Outside", "a/b/f: inside"
    ),
    "absolute link into the root from a chain": Case(
        {**F, "l": "-> a/m", "a/m": "-> {root}/a/b/../b/f"}, "l", "Outside", "a/b/f: inside"
    ),
    "absolute link into the root to nothing": Case({"l": "-> {root}/nope"}, "l", "Outside", "Missing"),
    "absolute link to itself": Case({"l": "-> {root}/l"}, "l", "Outside", "Missing"),
    "absolute link into the root and above": Case({"l": "-> {root}/../secret.txt"}, "l", "Outside"),
    "absolute link into the root, over a folder, and above": Case(
        {**F, "l": "-> {root}/a/../../root/a"}, "l", "Outside"
    ),
    "absolute link into the root to a link that leaves": Case({"l": "-> {root}/m", "m": "-> .."}, "l", "Outside"),
    # Magic links and special files
    "link to /proc/self/root": Case({"l": "-> /proc/self/root"}, "l/etc/passwd", "Outside"),
    "link to /proc/self/cwd": Case({"l": "-> /proc/self/cwd"}, "l", "Outside"),
    "link to /proc/self/fd/0": Case({"l": "-> /proc/self/fd/0"}, "l", "Outside"),
    "link to /dev/stdin": Case({"l": "-> /dev/stdin"}, "l", "Outside"),
    "fifo": Case({"p": "fifo"}, "p", "Special"),
    "fifo in a folder": Case({"a/p": "fifo"}, "a/p", "Special"),
    "link to a fifo": Case({"p": "fifo", "l": "-> p"}, "l", "Special"),
    "fifo as a folder": Case({"p": "fifo"}, "p/x", "Missing"),
    "socket": Case({"s": "socket"}, "s", "Special"),
    "link to a socket": Case({"s": "socket", "l": "-> s"}, "l", "Special"),
    "socket as a folder": Case({"s": "socket"}, "s/x", "Missing"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_path_ends_inside_or_nowhere(place: Path, case: Case) -> None:
    plant(place, case.tree)
    found = {}
    for fast, absolute in product((True, False), repeat=2):
        with Root(place / "root", use_openat2=fast, absolute_links=absolute) as root:
            found[fast, absolute] = outcome(root, case.ask.split("/"))

    wanted = {False: case.outcome, True: case.absolute or case.outcome}
    assert found == {(fast, absolute): wanted[absolute] for fast, absolute in found}


@WAYS
@pytest.mark.parametrize(
    "segments",
    [
        ("..",),
        ("..", "secret.txt"),
        ("a", "..", "secret.txt"),
        ("a", "..", "a", "f"),
        ("a", "..", "..", "secret.txt"),
        ("nope", ".."),
        ("../secret.txt",),
        ("a/f",),
        ("a", "../../secret.txt"),
        ("/etc/passwd",),
        ("/",),
        ("", "etc/passwd"),
        ("a/", "f"),
        ("a", "/f"),
        ("..\\secret.txt",),
        ("a\\f",),
        ("\\",),
        ("a", "..", "\0"),
    ],
)
def test_a_segment_that_is_no_name_is_outside_whatever_exists(
    place: Path, fast: bool, segments: tuple[str, ...]
) -> None:
    with Root(place / "root", use_openat2=fast) as root:
        before = outcome(root, segments)
        plant(place, {"a/f": "inside", "a\\f": "inside", "\\": "inside", "..\\secret.txt": "inside"})

        assert (before, outcome(root, segments)) == ("Outside", "Outside")


@WAYS
@pytest.mark.parametrize("name", ["null", "zero", "full", "random", "urandom", "tty", "ptmx"])
def test_a_device_is_special_and_gives_no_byte(fast: bool, name: str) -> None:
    with Root("/dev", use_openat2=fast) as root:
        assert outcome(root, (name,)) == "Special"


@WAYS
@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("path", ["root", "root/etc/passwd", "cwd", "exe", "task/{pid}/root/etc/passwd", "fd/{fd}"])
def test_a_magic_link_below_the_root_is_not_followed(fast: bool, absolute: bool, path: str, place: Path) -> None:
    with (
        Root("/proc/self", use_openat2=fast, absolute_links=absolute) as root,
        (place / "secret.txt").open() as secret,
    ):
        segments = path.format(pid=os.getpid(), fd=secret.fileno()).split("/")

        assert outcome(root, segments) == "Outside"


@WAYS
def test_a_magic_link_that_names_no_path_is_missing(fast: bool) -> None:
    reader, writer = os.pipe()
    with Root("/proc/self", use_openat2=fast) as root:
        found = outcome(root, ("fd", str(reader)))
    os.close(reader)
    os.close(writer)

    assert found == "Missing"


@WAYS
def test_a_link_of_bytes_that_are_not_utf_8_is_followed(place: Path, fast: bool) -> None:
    top = os.fsencode(place / "root")
    Path(os.fsdecode(top + b"/\xff")).write_text("inside")
    Path(os.fsdecode(top + b"/l")).symlink_to(os.fsdecode(b"\xff"))
    with Root(place / "root", use_openat2=fast) as root, root.open(("l",)) as opened:
        assert (opened.real, opened.read(0, 99)) == (("\udcff",), b"inside")


@WAYS
def test_a_folder_that_becomes_a_link_to_outside_is_outside(place: Path, fast: bool) -> None:
    plant(place, {"folder/secret.txt": "inside"})
    with Root(place / "root", use_openat2=fast) as root:
        before = outcome(root, ("folder", "secret.txt"))
        (place / "root" / "folder").rename(place / "root" / "old")
        (place / "root" / "folder").symlink_to("../outside/folder")

        assert (before, outcome(root, ("folder", "secret.txt"))) == ("folder/secret.txt: inside", "Outside")


@WAYS
def test_a_folder_moved_out_of_the_root_takes_nobody_with_it(place: Path, fast: bool) -> None:
    plant(place, {"a/b/up": "-> ../../secret.txt", "secret.txt": "inside"})
    with Root(place / "root", use_openat2=fast) as root, root.open(("a",)) as folder:
        (place / "root" / "a").rename(place / "outside" / "a")

        assert folder.scan() == [("b", "folder")]
        assert outcome(root, ("a", "b", "up")) == "Missing"


@WAYS
def test_a_file_that_keeps_changing_its_kind_is_missing_in_the_end(
    place: Path, fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(place, {"f": "inside", "l": "-> f"})
    tries: list[str] = []

    def stat_before_it_changed(name: str, **_: object) -> os.stat_result:
        tries.append(name)
        return before

    before = (place / "root" / "f").stat()
    with Root(place / "root", use_openat2=fast) as root, monkeypatch.context() as patches:
        patches.setattr(os, "stat", stat_before_it_changed)
        found = outcome(root, ("l",))

    assert (found, tries) == ("Missing", ["l"] * syscalls.MAX_TRIES)


# The kernel as judge: openat2 that follows links beneath the root must find the same file, or leave as we do.


class Judge:
    """The kernel's own answer, from a call that shares nothing with ours but its number."""

    def __init__(self, folder: Path) -> None:
        self.root = os.open(folder, os.O_PATH)
        self.call = ctypes.CDLL(None, use_errno=True).syscall
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        self.how = (ctypes.c_uint64 * 3)(flags, 0, syscalls.RESOLVE_BENEATH | syscalls.RESOLVE_NO_MAGICLINKS)

    def outcome(self, segments: Sequence[str]) -> int | str:
        path = "/".join(segments).encode()
        handle: int = self.call(ctypes.c_long(437), self.root, path, self.how, ctypes.c_size_t(24))
        if handle < 0:
            return "Outside" if ctypes.get_errno() == errno.EXDEV else "Missing"
        inode = os.fstat(handle).st_ino
        os.close(handle)
        return inode


def inode(root: Root, segments: Sequence[str]) -> int | str:
    """Open and give the inode, and see that `real` is where it really lies."""
    try:
        with root.open(segments) as opened, root.open(opened.real) as again:
            assert (again.real, again.stat.st_ino) == (opened.real, opened.stat.st_ino)
            return opened.stat.st_ino
    except SandboxError as failure:
        return "Missing" if isinstance(failure, Missing) else type(failure).__name__


NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
TARGETS = st.lists(NAMES | st.sampled_from(["..", "..", ".", ""]), min_size=1, max_size=6).map("/".join)
THINGS = st.just("/") | st.just("inside") | TARGETS.filter(bool).map("-> {}".format)
ASKED = [path.split("/") for a in "abc" for path in (a, *(f"{a}/{b}" for b in "abc"), *(f"{a}/{b}/a" for b in "abc"))]


@given(st.dictionaries(PATHS, THINGS, max_size=12))
@example({"a/b/c": "/", "b": "-> a/b", "c": "-> b/../.."})
@example({"a": "-> b/../../a", "b": "/"})
def test_the_kernel_finds_the_same_file_or_leaves_the_same_way(tree: Mapping[str, str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "root").mkdir()
        for path, what in tree.items():
            with contextlib.suppress(OSError):
                plant(place, {path: what})
        judge = Judge(place / "root")
        with Root(place / "root", use_openat2=True) as fast, Root(place / "root", use_openat2=False) as walk:
            found = [inode(fast, segments) for segments in ASKED]
            walked = [inode(walk, segments) for segments in ASKED]
            judged = [judge.outcome(segments) for segments in ASKED] if fast.fast else walked
        os.close(judge.root)

    asked = zip(ASKED, found, judged, strict=True)
    assert walked == found
    # A dangling link is missing to the kernel; to us it is outside if the rest of it would leave.
    assert [case for case in asked if case[1] != case[2] and case[1:] != ("Outside", "Missing")] == []
