"""What `carrel.files.sandbox` opens and reads when nobody means harm; attacks and races have files of their own."""

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from carrel.files import sandbox, syscalls
from carrel.files.sandbox import (
    CheckedPath,
    Forbidden,
    Missing,
    Opened,
    Outside,
    Root,
    Special,
    Unreadable,
    Walk,
    is_inside,
)
from tests.support.workspaces import handles

SOURCES = Path(sandbox.__file__).parents[2]


@pytest.fixture(autouse=True)
def _every_handle_is_given_back(tmp_path: Path) -> Iterator[None]:
    yield
    assert handles(tmp_path) == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small tree: `lib/main.dart`, `lib/deep/er/x.txt`, `empty`."""
    root = tmp_path / "root"
    (root / "lib" / "deep" / "er").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "lib" / "main.dart").write_bytes(b"void main() {}\n")
    (root / "lib" / "deep" / "er" / "x.txt").write_bytes(b"deep")
    return root


@pytest.fixture(params=[True, False], ids=["openat2", "walk"])
def root(request: pytest.FixtureRequest, folder: Path) -> Iterator[Root]:
    with Root(folder, use_openat2=request.param) as opened:
        assert opened.fast is (syscalls.find() if request.param else None)
        yield opened


def content(opened: Opened) -> bytes:
    with opened:
        return opened.read(0, opened.stat.st_size)


def run(script: str, *arguments: str) -> str:
    """Run Python text in a process of its own and give what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCES), *sys.path])},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


# Opening


@pytest.mark.parametrize(
    ("segments", "text"), [(("lib", "main.dart"), b"void main() {}\n"), (("lib", "deep", "er", "x.txt"), b"deep")]
)
def test_a_file_is_opened_where_it_lies(root: Root, folder: Path, segments: tuple[str, ...], text: bytes) -> None:
    with root.open(segments) as opened:
        assert (opened.real, opened.is_folder, opened.read(0, 99)) == (segments, False, text)
        assert os.path.samestat(opened.stat, folder.joinpath(*segments).stat())


@pytest.mark.parametrize("segments", [(), ("lib",), ("lib", "deep", "er")])
def test_a_folder_is_opened_and_no_segments_are_the_root(root: Root, folder: Path, segments: tuple[str, ...]) -> None:
    with root.open(segments) as opened:
        assert (opened.real, opened.is_folder) == (segments, True)
        assert os.path.samestat(opened.stat, folder.joinpath(*segments).stat())


def test_segments_may_be_any_sequence(root: Root) -> None:
    with root.open(["lib", "main.dart"]) as opened:
        assert opened.real == ("lib", "main.dart")


def test_a_hard_link_is_an_ordinary_file(root: Root, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.txt").write_bytes(b"shared")
    (folder / "here.txt").hardlink_to(tmp_path / "elsewhere.txt")

    assert content(root.open(("here.txt",))) == b"shared"


@pytest.mark.parametrize(
    "name",
    [
        "new\nline",
        "tab\t",
        "\x7f",
        " ",
        "...",
        "..a",
        "a..b",
        "-rf",
        "~",
        "日本語.md",
        "e\u0301",
        "\u202e",
        "a:b",
        "*?[]",
    ],
)
def test_a_strange_name_is_a_name(root: Root, folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"strange")

    with root.open((name,)) as opened:
        assert (opened.real, opened.read(0, 99)) == ((name,), b"strange")


def test_a_name_that_is_not_utf_8_is_opened_as_python_spells_it(root: Root, folder: Path) -> None:
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff\xfe.txt")).write_bytes(b"bytes")

    with root.open(("\udcff\udcfe.txt",)) as opened:
        assert (opened.real, opened.read(0, 99)) == (("\udcff\udcfe.txt",), b"bytes")


def test_a_path_longer_than_the_system_takes_is_opened(root: Root, folder: Path) -> None:
    names = [f"{number:03}" + "x" * 200 for number in range(30)]
    handle = os.open(folder, os.O_RDONLY)
    for name in names:
        os.mkdir(name, dir_fd=handle)
        inner = os.open(name, os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(os.open("end.txt", os.O_CREAT | os.O_WRONLY, dir_fd=handle))
    os.close(handle)

    with root.open((*names, "end.txt")) as opened:
        assert opened.real == (*names, "end.txt")
    shutil.rmtree(folder / names[0])


def test_a_file_keeps_its_content_when_its_name_gets_another(root: Root, folder: Path) -> None:
    with root.open(("lib", "main.dart")) as opened:
        (folder / "other").write_bytes(b"another file")
        (folder / "other").replace(folder / "lib" / "main.dart")

        assert opened.read(0, 99) == b"void main() {}\n"


# Failing


@pytest.mark.parametrize(
    "segments",
    [
        ("nope",),
        ("nope", "main.dart"),
        ("lib", "nope"),
        ("lib", "main.dart", "x"),
        ("lib", "main.dart", "x", "y"),
        ("LIB", "main.dart"),
        ("lib", "MAIN.DART"),
        ("x" * 256,),
        ("x" * 100_000,),
        ("lib", "x" * 256, "y"),
        ("\ud800",),
        ("lib", "\udfff"),
        ("%2e%2e", "x"),
        ("etc", "passwd"),
    ],
    ids=lambda segments: "-".join(segments)[:20].encode("ascii", "backslashreplace").decode(),
)
def test_what_is_not_there_is_missing(root: Root, segments: tuple[str, ...]) -> None:
    with pytest.raises(Missing) as caught:
        root.open(segments)

    assert (caught.value.args, caught.value.__context__, caught.value.__cause__) == ((), None, None)


@pytest.mark.parametrize(
    "segments", [("",), (".",), ("lib", ""), ("lib", ".", "main.dart"), ("a\0b",), ("lib", "main.dart\0")]
)
def test_what_no_caller_should_ask_for_is_a_mistake_in_the_program(root: Root, segments: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"^A segment is not empty, not `\.` and without NUL$"):
        root.open(segments)


def test_a_root_that_was_closed_opens_nothing(folder: Path) -> None:
    root = Root(folder)
    root.close()
    root.close()

    with pytest.raises(Unreadable) as caught:
        root.open(("lib",))
    assert caught.value.errno == errno.EBADF


PERMISSIONS = """
import errno, json, os, sys
from carrel.files.sandbox import Root, SandboxError, Unreadable

def outcome(root, segments):
    try:
        with root.open(segments) as opened:
            return "folder" if opened.is_folder else opened.read(0, 99).decode()
    except Unreadable as failure:
        return errno.errorcode[failure.errno]
    except SandboxError as failure:
        return type(failure).__name__

roots = [Root(sys.argv[1], use_openat2=fast) for fast in (True, False)]
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
print(json.dumps([{path: outcome(root, path.split("/")) for path in sys.argv[2:]} for root in roots]))
"""


def test_what_the_system_refuses_is_unreadable_and_a_folder_that_may_only_be_entered_is_passed(folder: Path) -> None:
    outcomes = {
        "open.txt": "open.txt",
        "shut.txt": "EACCES",
        "shut": "EACCES",
        "shut/x.txt": "EACCES",
        "shut/nope": "EACCES",
        "pass": "EACCES",
        "pass/x.txt": "pass/x.txt",
        "pass/nope": "Missing",
        "link": "pass/x.txt",
        "fifo": "Special",
    }
    for path in ("open.txt", "shut.txt", "shut/x.txt", "pass/x.txt"):
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(path)
    (folder / "link").symlink_to("pass/x.txt")
    os.mkfifo(folder / "fifo", 0o000)
    for path, mode in (("shut.txt", 0o000), ("shut", 0o000), ("pass", 0o111)):
        (folder / path).chmod(mode)
    for parent in folder.parents[:3]:
        parent.chmod(0o755)

    printed = run(PERMISSIONS, str(folder), *outcomes)
    (folder / "shut").chmod(0o755)
    (folder / "pass").chmod(0o755)

    assert json.loads(printed) == [outcomes, outcomes]


EXHAUSTED = """
import json, os, resource, sys
from carrel.files.sandbox import Root, Unreadable

def outcome(root, spare):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    os.close(free := os.dup(0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + spare, hard))
    try:
        with root.open(("link",)) as opened:
            return opened.read(0, 99).decode()
    except Unreadable as failure:
        return failure.errno
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

found = []
for fast in (True, False):
    with Root(sys.argv[1], use_openat2=fast) as root:
        before = os.listdir("/proc/self/fd")
        found.append([outcome(root, spare) for spare in range(5)])
        found.append(os.listdir("/proc/self/fd") == before)
print(json.dumps(found))
"""


def test_running_out_of_handles_at_any_step_gives_them_all_back(folder: Path) -> None:
    """In a process in which nobody else opens anything meanwhile."""
    (folder / "link").symlink_to("lib/deep/er/x.txt")

    assert json.loads(run(EXHAUSTED, str(folder))) == [[*[errno.EMFILE] * 4, "deep"], True] * 2


# The root itself


def test_a_link_to_the_root_is_resolved_once(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("root")
    with Root(link) as root:
        link.unlink()
        link.symlink_to("/")

        assert root.path == str(folder.resolve())
        assert content(root.open(("lib", "main.dart"))) == b"void main() {}\n"


def test_a_root_stays_the_folder_it_was_when_another_takes_its_name(root: Root, folder: Path) -> None:
    folder.rename(folder.with_name("moved"))
    (folder / "lib").mkdir(parents=True)
    (folder / "lib" / "main.dart").write_bytes(b"impostor")

    assert content(root.open(("lib", "main.dart"))) == b"void main() {}\n"


def test_a_root_that_was_deleted_is_empty(root: Root, folder: Path) -> None:
    shutil.rmtree(folder)

    with pytest.raises(Missing):
        root.open(("lib",))


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("nope", FileNotFoundError),
        ("lib/main.dart", NotADirectoryError),
        ("lib/main.dart/x", NotADirectoryError),
        ("fifo", NotADirectoryError),
        ("dangling", FileNotFoundError),
    ],
)
def test_what_is_no_folder_cannot_be_a_root(folder: Path, name: str, error: type[OSError]) -> None:
    os.mkfifo(folder / "fifo")
    (folder / "dangling").symlink_to("nope")

    with pytest.raises(error):
        Root(folder / name)


def test_the_root_of_the_file_system_can_be_a_root(folder: Path) -> None:
    segments = (folder / "lib" / "main.dart").resolve().parts[1:]
    with Root("/", absolute_links=True) as root:
        assert root.path == "/"
        assert content(root.open(segments)) == b"void main() {}\n"


# Reading


@pytest.mark.parametrize(
    ("start", "length", "text"),
    [
        (0, 4, b"void"),
        (5, 4, b"main"),
        (5, 10**30, b"main() {}\n"),
        (0, sys.maxsize, b"void main() {}\n"),
        (1, sys.maxsize, b"oid main() {}\n"),
        (0, 0, b""),
        (0, -1, b""),
        (15, 1, b""),
        (10**15, 1, b""),
        (sys.maxsize, 1, b""),
        (10**30, 10**30, b""),
    ],
)
def test_a_read_gives_what_there_is_of_what_was_asked(root: Root, start: int, length: int, text: bytes) -> None:
    with root.open(("lib", "main.dart")) as opened:
        assert opened.read(start, length) == text


def test_a_read_moves_no_position(root: Root) -> None:
    with root.open(("lib", "main.dart")) as opened:
        assert [opened.read(0, 4), opened.read(0, 4)] == [b"void", b"void"]


def test_a_file_that_grew_is_read_to_its_end_in_several_parts(root: Root, folder: Path) -> None:
    text = bytes(range(256)) * 1024
    with root.open(("lib", "main.dart")) as opened:
        (folder / "lib" / "main.dart").write_bytes(text)

        assert opened.read(0, 10**9) == text


def test_a_file_without_a_size_is_read() -> None:
    with Root("/proc/self") as root, root.open(("cmdline",)) as opened:
        assert (opened.stat.st_size, opened.read(0, 10**6)) == (0, Path("/proc/self/cmdline").read_bytes())


@pytest.mark.parametrize(("start", "number"), [(0, errno.EISDIR), (-1, errno.EINVAL)])
def test_a_read_that_the_system_refuses_is_unreadable(root: Root, start: int, number: int) -> None:
    with root.open(("lib",)) as opened, pytest.raises(Unreadable) as caught:
        opened.read(start, 1)

    assert (caught.value.errno, caught.value.args, caught.value.__context__) == (number, (number,), None)


def test_a_file_that_was_closed_is_not_read(root: Root) -> None:
    opened = root.open(("lib", "main.dart"))
    opened.close()
    opened.close()

    with pytest.raises(Unreadable) as caught:
        opened.read(0, 1)
    assert caught.value.errno == errno.EBADF


# Folders


def test_a_scan_names_every_child_with_its_kind_and_follows_no_link(root: Root, folder: Path) -> None:
    os.mkfifo(folder / "fifo")
    (folder / "out").symlink_to("/etc")
    (folder / "loop").symlink_to("loop")
    (folder / "to-lib").symlink_to("lib")
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff")).touch()

    with root.open(()) as opened:
        listings = [sorted(opened.scan()) for _ in range(2)]

    assert listings == 2 * [
        [
            ("empty", "folder"),
            ("fifo", "special"),
            ("lib", "folder"),
            ("loop", "link"),
            ("out", "link"),
            ("to-lib", "link"),
            ("\udcff", "file"),
        ]
    ]


def test_a_scan_of_an_empty_folder_is_empty_and_of_a_file_there_is_none(root: Root) -> None:
    with root.open(("empty",)) as opened:
        assert opened.scan() == []
    with root.open(("lib", "main.dart")) as opened, pytest.raises(Missing):
        opened.scan()


def test_a_scan_shows_the_folder_that_was_opened_wherever_it_is_now(root: Root, folder: Path) -> None:
    with root.open(("lib",)) as opened:
        (folder / "lib").rename(folder / "moved")
        (folder / "lib").symlink_to("/etc")

        assert sorted(opened.scan()) == [("deep", "folder"), ("main.dart", "file")]


def test_a_child_is_described_without_following_it(root: Root, folder: Path) -> None:
    (folder / "out").symlink_to("/etc")
    with root.open(()) as opened:
        assert stat.S_ISLNK(opened.stat_child("out").st_mode)
        assert opened.stat_child("lib") == (folder / "lib").stat()


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("nope", Missing),
        ("x" * 256, Missing),
        ("\ud800", Missing),
        ("..", Outside),
        ("lib/main.dart", Outside),
        ("/etc", Outside),
        (".", ValueError),
        ("", ValueError),
    ],
)
def test_only_a_child_is_described(root: Root, name: str, error: type[Exception]) -> None:
    with root.open(()) as opened, pytest.raises(error):
        opened.stat_child(name)


# The two ways


def test_without_openat2_the_walk_serves(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syscalls, "find", lambda: None)
    with Root(folder, use_openat2=True) as root:
        assert root.fast is None
        assert content(root.open(("lib", "main.dart"))) == b"void main() {}\n"


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS, errno.EAGAIN, errno.EINTR, errno.EMFILE, errno.E2BIG])
def test_when_openat2_fails_for_its_own_reasons_the_walk_serves(folder: Path, number: int) -> None:
    with Root(folder) as root:
        root.fast = lambda _folder, _path: -number

        assert content(root.open(("lib", "main.dart"))) == b"void main() {}\n"


def test_a_call_that_leaves_the_folder_or_opens_nothing_fails_the_probe() -> None:
    def refused(_folder: int, _path: bytes) -> int:
        return -errno.EPERM

    def careless(folder: int, path: bytes) -> int:
        return os.open(path, os.O_RDONLY, dir_fd=folder)

    assert [syscalls._stays_inside(call) for call in (refused, careless)] == [False, False]


def test_the_probe_finds_openat2_unless_the_kernel_lacks_it() -> None:
    with Root("/") as top:
        answer = syscalls._load()(top.fd, b".")
    if answer >= 0:
        os.close(answer)

    assert (syscalls.find() is not None) == (answer >= 0)


SPARING = """
import sys
from carrel.files import syscalls as openat2
from carrel.files import sandbox
with sandbox.Root(sys.argv[1]) as root:
    seen = []
    for _ in range(sandbox.WALKS_FIRST):
        seen.append("ctypes" in sys.modules)
        root.open(("lib", "main.dart")).close()
    print(seen == [False] * sandbox.WALKS_FIRST, "ctypes" in sys.modules, root.fast is openat2.find())
"""


def test_ctypes_is_not_imported_before_it_pays(folder: Path) -> None:
    assert run(SPARING, str(folder)) == "True True True\n"


def test_many_threads_may_use_one_root_while_it_changes_its_way(folder: Path) -> None:
    path = ("lib", "deep", "er", "x.txt")
    with Root(folder) as shared, ThreadPoolExecutor(8) as threads:
        texts = threads.map(lambda segments: content(shared.open(segments)), [path] * 4 * sandbox.WALKS_FIRST)

        assert set(texts) == {b"deep"}
        assert shared.fast is syscalls.find()


# Spelling


def test_a_file_system_that_minds_case_is_noticed_by_the_first_name_with_a_case(root: Root, folder: Path) -> None:
    (folder / "123").write_bytes(b"uncased")

    content(root.open(("123",)))
    undecided = root._folds
    content(root.open(("lib", "main.dart")))

    assert (undecided, root._folds) == (None, False)


@pytest.fixture
def _folding(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that ignores case, as it looks: two spellings find one file, one of them is listed."""
    (folder / "Read.me").write_bytes(b"read me")
    (folder / "rEAD.ME").hardlink_to(folder / "Read.me")
    names = syscalls.names
    monkeypatch.setattr(syscalls, "names", lambda handle: [name for name in names(handle) if name != "rEAD.ME"])


@pytest.mark.usefixtures("_folding")
def test_where_case_is_ignored_only_the_spelling_on_disk_is_opened(root: Root, folder: Path) -> None:
    (folder / "right").symlink_to("Read.me")
    (folder / "wrong").symlink_to("lib/../rEAD.ME")

    for segments in (("rEAD.ME",), ("wrong",), ("nope",), ("Read.me", "x")):
        with pytest.raises(Missing):
            root.open(segments)
    assert [content(root.open((name,))) for name in ("Read.me", "right")] == [b"read me", b"read me"]
    assert content(root.open(("lib", "deep", "er", "x.txt"))) == b"deep"


@pytest.mark.usefixtures("_folding")
def test_a_walk_by_spelling_tells_what_leaves_and_what_is_special(root: Root, folder: Path) -> None:
    os.mkfifo(folder / "fifo")
    (folder / "out").symlink_to("../x")
    for name, error in (("rEAD.ME", Missing), ("fifo", Special), ("out", Outside)):
        with pytest.raises(error):
            root.open((name,))


def test_a_walk_by_spelling_opens_the_root_itself(root: Root) -> None:
    with Walk(root.fd, None, spelled=True).open(()) as opened:
        assert (opened.real, opened.is_folder) == ((), True)


@pytest.mark.parametrize(
    ("place", "root", "answer"),
    [
        ("b", "b", True),
        ("b/", "b", True),
        ("b", "b/", True),
        ("b/c", "b", True),
        ("b/new/file", "b", True),
        ("b/../b/c", "b", True),
        ("bc", "b", False),
        ("b/../bc", "b", False),
        (".", "b", False),
        ("B", "b", False),
        ("b/out", "b", False),
        ("b/out/c", "b", False),
        ("b/near", "b", True),
        ("in", "b", True),
        ("b/c", "in", True),
        ("b/loop", "b", True),
    ],
)
def test_a_place_is_inside_by_whole_names_and_where_links_lead(
    tmp_path: Path, place: str, root: str, *, answer: bool
) -> None:
    (tmp_path / "b" / "c").mkdir(parents=True)
    (tmp_path / "bc").mkdir()
    (tmp_path / "b" / "out").symlink_to("../bc")
    (tmp_path / "b" / "near").symlink_to(tmp_path / "b" / "c")
    (tmp_path / "b" / "loop").symlink_to("loop")
    (tmp_path / "in").symlink_to("b")

    assert is_inside(f"{tmp_path}/{place}", f"{tmp_path}/{root}") is answer


def test_everything_is_inside_the_topmost_folder(tmp_path: Path) -> None:
    assert is_inside(str(tmp_path), "/")
    assert is_inside("/", "/")
    assert not is_inside("/", str(tmp_path))


def test_the_working_folder_is_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert is_inside(".", str(tmp_path))
    assert is_inside("", str(tmp_path))


# A guard


def denied(segments: tuple[str, ...], is_folder: bool) -> bool:
    """Refuse `secret` and all below it, and files whose names end with `.key`."""
    return "secret" in segments or (not is_folder and segments[-1].endswith(".key"))


@pytest.fixture(params=[True, False], ids=["openat2", "walk"])
def guarded(request: pytest.FixtureRequest, folder: Path) -> Iterator[Root]:
    (folder / "secret").mkdir()
    (folder / "secret" / "plain.txt").write_bytes(b"hidden")
    (folder / "rsa.key").write_bytes(b"hidden")
    (folder / "folder.key").mkdir()
    (folder / "folder.key" / "a.txt").write_bytes(b"open")
    with Root(folder, use_openat2=request.param, guard=denied) as opened:
        yield opened


@pytest.mark.parametrize(
    "path", ["secret", "secret/plain.txt", "secret/none.txt", "rsa.key", "none.key", "lib/none.key", "none/secret/x"]
)
def test_a_name_the_guard_refuses_is_forbidden_whether_or_not_it_exists(guarded: Root, path: str) -> None:
    with pytest.raises(Forbidden):
        guarded.open(path.split("/"))


@pytest.mark.parametrize(
    "target",
    ["secret", "secret/plain.txt", "secret/none", "rsa.key", "none.key", "secret/../lib/main.dart", "lib/../secret"],
)
def test_a_link_to_what_the_guard_refuses_is_forbidden_whether_or_not_it_exists(
    guarded: Root, folder: Path, target: str
) -> None:
    (folder / "link").symlink_to(target)

    with pytest.raises(Forbidden):
        guarded.open(("link",))


def test_a_link_whose_own_name_is_refused_is_forbidden_on_the_way_of_another(guarded: Root, folder: Path) -> None:
    (folder / "link").symlink_to("next.key")
    (folder / "next.key").symlink_to("lib/main.dart")

    with pytest.raises(Forbidden):
        guarded.open(("link",))


def test_a_folder_may_have_a_name_that_is_refused_to_files(guarded: Root, folder: Path) -> None:
    (folder / "link").symlink_to("folder.key")

    for path in ("folder.key", "link"):
        with guarded.open((path,)) as opened:
            assert opened.is_folder
        assert content(guarded.open((path, "a.txt"))) == b"open"


def test_a_root_below_keeps_the_guard_and_stays_below(guarded: Root, folder: Path) -> None:
    (folder / "lib" / "up").symlink_to("../empty")
    with guarded.below(("lib",)) as inner:
        assert inner.path == str(folder / "lib")
        assert content(inner.open(("main.dart",))) == b"void main() {}\n"
        with pytest.raises(Forbidden):
            inner.open(("none.key",))
        with pytest.raises(Outside):
            inner.open(("up",))


def test_a_root_below_is_the_folder_that_was_checked(guarded: Root, folder: Path) -> None:
    with guarded.below(("lib",)) as inner:
        (folder / "lib").rename(folder / "moved")
        assert content(inner.open(("main.dart",))) == b"void main() {}\n"


def test_a_root_below_that_was_deleted_is_not_looked_for_by_its_path(guarded: Root, folder: Path) -> None:
    (folder / "a" / "data").mkdir(parents=True)
    outside = folder.parent / "elsewhere"
    (outside / "data").mkdir(parents=True)
    (outside / "data" / "notes.txt").write_bytes(b"not below")
    with guarded.below(("a", "data")) as inner:
        shutil.rmtree(folder / "a")
        (folder / "a").symlink_to(outside)
        with pytest.raises(Missing):
            inner.open(("notes.txt",))
        with inner.open(()) as opened:
            assert opened.scan() == []


def test_a_file_is_no_root(guarded: Root) -> None:
    with pytest.raises(Missing):
        guarded.below(("lib", "main.dart"))


# A root that goes away


def test_a_root_that_was_deleted_and_made_again_is_opened_anew(root: Root, folder: Path) -> None:
    shutil.rmtree(folder)
    with pytest.raises(Missing):
        root.open(("lib", "main.dart"))

    (folder / "lib").mkdir(parents=True)
    (folder / "lib" / "main.dart").write_bytes(b"back")

    assert content(root.open(("lib", "main.dart"))) == b"back"


def test_a_root_that_was_deleted_and_made_again_is_listed_anew(root: Root, folder: Path) -> None:
    shutil.rmtree(folder)
    with root.open(()) as opened:
        assert opened.scan() == []
    (folder / "lib").mkdir(parents=True)

    with root.open(()) as opened:
        assert opened.scan() == [("lib", "folder")]


def test_a_folder_of_another_user_does_not_take_the_place_of_a_deleted_root(
    root: Root, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(folder)
    (folder / "lib").mkdir(parents=True)
    monkeypatch.setattr(sandbox, "belongs_here", lambda *_: False)

    with pytest.raises(Missing):
        root.open(("lib",))


def test_a_root_that_was_moved_stays_the_same_folder(root: Root, folder: Path) -> None:
    folder.rename(folder.with_name("moved"))
    (folder / "other").mkdir(parents=True)

    assert content(root.open(("lib", "main.dart"))) == b"void main() {}\n"


# What was opened before


@pytest.mark.parametrize("path", ["lib/main.dart", "lib/deep/er/x.txt", "top.txt", "lib", ""])
def test_what_was_opened_is_opened_again_by_the_same_names(root: Root, folder: Path, path: str) -> None:
    (folder / "top.txt").write_bytes(b"top")
    segments = tuple(filter(None, path.split("/")))
    root.open(("lib", "main.dart")).close()  # whether names fold is known by now

    with root.open(segments) as first, root.reopen(CheckedPath(segments)) as again:
        assert (again.real, again.is_folder, again.stat.st_ino) == (first.real, first.is_folder, first.stat.st_ino)


@pytest.mark.parametrize("name", ["top.txt", "lib/x.txt"])
def test_what_is_something_else_by_now_is_refused_or_followed_as_a_first_open_does(
    root: Root, folder: Path, tmp_path: Path, name: str
) -> None:
    way, place = CheckedPath(tuple(name.split("/"))), folder / name
    (tmp_path / "outside.txt").write_bytes(b"outside")
    place.write_bytes(b"before")
    found = [content(root.reopen(way))]
    place.unlink()
    with pytest.raises(Missing):
        root.reopen(way)
    place.symlink_to(tmp_path / "outside.txt")
    with pytest.raises(Outside):
        root.reopen(way)
    place.unlink()
    place.symlink_to("../empty/../lib/main.dart" if "/" in name else "lib/main.dart")
    with root.reopen(way) as linked:
        found.append(linked.read(0, 99))
        assert linked.real == ("lib", "main.dart")
    place.unlink()
    os.mkfifo(place)
    with pytest.raises(Special):
        root.reopen(way)

    assert found == [b"before", b"void main() {}\n"]


@pytest.mark.parametrize("segments", [("..",), ("a", "..", "b"), ("a/b",), ("a\\b",)])
def test_names_that_lead_elsewhere_make_no_way(segments: tuple[str, ...]) -> None:
    with pytest.raises(Outside):
        CheckedPath(segments)


def test_a_root_that_refuses_names_judges_what_is_opened_again(folder: Path) -> None:
    with Root(folder, use_openat2=True, guard=lambda names, _: names[-1] == "main.dart") as root:
        root.open(("lib", "deep")).close()
        with pytest.raises(Forbidden):
            root.reopen(CheckedPath(("lib", "main.dart")))
