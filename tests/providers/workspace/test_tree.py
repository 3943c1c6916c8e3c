"""Reading files: text or binary, what is told of them, one state, and what does not fit."""

import mmap
import os
import re
import socket
import tracemalloc
from collections.abc import Iterator
from hashlib import sha256
from itertools import count
from pathlib import Path

import pytest

from carrel.core.errors import TooLarge
from carrel.core.model import Blob
from carrel.files import file_types
from carrel.providers.workspace.file_source import FileSource
from carrel.server import dispatch
from tests.support.schemas import LEGACY, MODERN
from tests.support.workspaces import NOON_NS, SECRET, Served, fill, handles, settle

SAMPLE = "aé€😀z\n"
WINDOW = 65_536


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path, preset="all") as served:
        yield served


def etag_of(file: Path) -> str:
    state = file.stat()
    parts = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
    return sha256(":".join(map(str, parts)).encode()).hexdigest()[:16]


# What is told


def test_a_file_says_everything_the_page_names(served: Served, tmp_path: Path) -> None:
    settle(fill(tmp_path, {"a b.md": SAMPLE}) / "a b.md")

    result = served.ask("resources/read", {"uri": "workspace://a b.md?start=0&length=3"})

    assert result["contents"] == [
        {
            "uri": "workspace://a b.md?start=0&length=3",
            "mimeType": "text/markdown",
            "text": "aé",
            "_meta": {
                "dev.carrel/uri": "workspace:///a%20b.md",
                "dev.carrel/encoding": "utf-8",
                "dev.carrel/total": 12,
                "dev.carrel/start": 0,
                "dev.carrel/length": 3,
                "dev.carrel/next": "workspace://a b.md?start=3&length=3",
                "dev.carrel/etag": etag_of(tmp_path / "a b.md"),
                "dev.carrel/last-modified": "2026-07-14T12:00:00Z",
            },
        }
    ]
    assert (result["ttlMs"], result["cacheScope"]) == (1_000, "private")


def test_a_whole_file_says_where_it_lies(served: Served, tmp_path: Path) -> None:
    settle(fill(tmp_path, {"x.bin": b"\x00\xff"}) / "x.bin")

    (item,) = served.ask("resources/read", {"uri": "workspace:///x.bin"})["contents"]

    assert item == {
        "uri": "workspace:///x.bin",
        "mimeType": "application/octet-stream",
        "blob": "AP8=",
        "_meta": {
            "dev.carrel/uri": "workspace:///x.bin",
            "dev.carrel/encoding": "base64",
            "dev.carrel/total": 2,
            "dev.carrel/start": 0,
            "dev.carrel/length": 2,
            "dev.carrel/etag": etag_of(tmp_path / "x.bin"),
            "dev.carrel/last-modified": "2026-07-14T12:00:00Z",
        },
    }


def test_the_etag_spares_a_second_answer(served: Served, tmp_path: Path) -> None:
    settle(fill(tmp_path, {"x.md": "one"}) / "x.md")
    reading = served.catalog.read("workspace:///x.md")

    again = served.catalog.read("workspace:///x.md", condition=reading.etag)
    fill(tmp_path, {"x.md": "two"})
    after = served.catalog.read("workspace:///x.md", condition=reading.etag)

    assert (again.unchanged, after.unchanged, served.text("workspace:///x.md")) == (True, False, "two")


@pytest.mark.parametrize("change", ["bytes", "time", "mode", "replaced"])
def test_every_change_makes_another_etag(served: Served, tmp_path: Path, change: str) -> None:
    file = fill(tmp_path, {"x.md": "one"}) / "x.md"
    settle(file)
    before = served.catalog.read("workspace:///x.md").etag

    if change == "bytes":
        fill(tmp_path, {"x.md": "two"})
    elif change == "time":
        os.utime(file, ns=(NOON_NS, NOON_NS + 1))
    elif change == "mode":
        file.chmod(0o600)
    else:
        fill(tmp_path, {"new.md": "one"})
        (tmp_path / "new.md").rename(file)

    assert served.catalog.read("workspace:///x.md").etag != before


def test_bytes_read_while_a_file_is_overwritten_never_have_the_etag_of_what_it_becomes(
    served: Served, tmp_path: Path
) -> None:
    file = fill(tmp_path, {"x.md": "old old"}) / "x.md"

    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), 0) as memory:
        memory[:3] = b"new"  # the times of the file change now, and not with the bytes that follow
        torn = served.catalog.read("workspace:///x.md")
        memory[4:] = b"new"
        settle(file)
        whole = served.catalog.read("workspace:///x.md", condition=torn.etag)

    assert [getattr(item, "text", None) for item in torn.items + whole.items] == ["new old", "new new"]
    assert (whole.unchanged, whole.etag) == (False, etag_of(file))


@pytest.mark.parametrize("query", ["", "?start=65530&length=20", "?lines=2-3"])
def test_no_two_states_of_a_large_file_that_is_being_overwritten_have_the_same_etag(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    monkeypatch.setattr("carrel.files.sandbox.SETTLED_NS", 1 << 60)  # however slow this machine is
    file = fill(tmp_path, {"x.md": f"{'x' * (file_types.WINDOW - 1)}\nold\nold\n"}) / "x.md"
    uri = f"workspace:///x.md{query}"

    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), 0) as memory:
        memory[-8:-5] = b"new"  # the times of the file change now, and not with the bytes that follow
        torn = served.catalog.read(uri)
        memory[-4:-1] = b"new"
        whole = served.catalog.read(uri, condition=torn.etag)

    texts = [str(getattr(item, "text", None))[-8:] for item in torn.items + whole.items]
    assert texts == ["new\nold\n", "new\nnew\n"]
    assert (whole.unchanged, whole.etag == torn.etag) == (False, False)


def test_a_file_that_rests_has_one_etag_however_large_it_is(served: Served, tmp_path: Path) -> None:
    settle(fill(tmp_path, {"x.md": "x" * (file_types.WINDOW + 1)}) / "x.md")

    etags = [served.catalog.read("workspace:///x.md").etag for _ in range(4)]
    assert etags == [etag_of(tmp_path / "x.md")] * 4


# Text or binary


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"", "utf-8"),
        (b"\xef\xbb\xbf", "utf-8"),
        (b"\xef\xbb\xbf\x00\xff", "utf-8"),
        (b"\xff\xfea\x00", "utf-16le"),
        (b"\xfe\xff\x00a", "utf-16be"),
        (b"\xff\xfe\x00\x00a\x00\x00\x00", "base64"),
        (b"a\x00b", "base64"),
        (b"\x01\x02\x7f", "utf-8"),
        ("aé".encode(), "utf-8"),
        (b"a\xe9b", "iso-8859-1"),
        (b"a\xe9\x1b[0m\t\n\r\x0b\x0c\x08\x07", "iso-8859-1"),
        (b"a\xe9\x06", "base64"),
        (b"a\xe9\x0e", "base64"),
        (b"a\xe9\x1a", "base64"),
        (b"a\xe9\x1c", "base64"),
        (b"a\xe9\x7f", "base64"),
        (b"a" * (WINDOW - 1) + "é".encode(), "utf-8"),
        (b"a" * (WINDOW - 1) + b"\xc3", "iso-8859-1"),
        (b"a" * (WINDOW - 2) + b"\xe9a" + b"a", "iso-8859-1"),
        (b"a" * (WINDOW - 3) + "😀".encode(), "utf-8"),
        (b"a" * WINDOW + b"\x00", "utf-8"),
        (b"a" * (WINDOW - 1) + b"\x00", "base64"),
    ],
)
def test_text_or_binary_is_decided_by_the_first_bytes(
    served: Served, tmp_path: Path, data: bytes, encoding: str
) -> None:
    fill(tmp_path, {"x.md": data})

    assert {served.meta(f"workspace:///x.md{query}")["encoding"] for query in ("", "?start=2&length=1")} == {encoding}
    assert isinstance(served.item("workspace:///x.md"), Blob) == (encoding == "base64")


@pytest.mark.parametrize(
    ("name", "data", "mime_type"),
    [
        ("a.dart", b"x", "text/x-dart"),
        ("a.DART", b"x", "text/x-dart"),
        ("a.md", b"x", "text/markdown"),
        ("a.json", b"{}", "application/json"),
        ("a.yaml", b"x", "text/yaml"),
        ("a.yml", b"x", "text/yaml"),
        ("a.kt", b"x", "text/x-kotlin"),
        ("a.swift", b"x", "text/x-swift"),
        ("Cargo.toml", b"x", "application/toml"),
        ("Makefile", b"x", "text/x-makefile"),
        ("a.unknown", b"x", "text/plain"),
        ("a.unknown", b"\0", "application/octet-stream"),
        ("noname", b"x", "text/plain"),
        ("a.md", b"\0", "application/octet-stream"),
        ("a.png", b"\0", "image/png"),
        ("a.pdf", b"%PDF-1.4", "application/pdf"),
        ("a.svg", b"<svg/>", "image/svg+xml"),
        ("a.svg", b"\0", "application/octet-stream"),
        ("a.", b"x", "text/plain"),
    ],
)
def test_the_mime_type_goes_by_the_name_unless_the_content_denies_it(
    served: Served, tmp_path: Path, name: str, data: bytes, mime_type: str
) -> None:
    fill(tmp_path, {name: data})

    assert served.item(f"workspace:///{name}").mime_type == mime_type


# One state


class Growing(FileSource):
    """A file that grows right after it was read, a number of times."""

    times = 0

    def read(self, start: int, length: int) -> bytes:
        data = super().read(start, length)
        if Growing.times > 0:
            Growing.times -= 1
            with Path(f"/proc/self/fd/{self._opened.fd}").resolve().open("ab") as file:
                file.write(b"x")
        return data


@pytest.mark.parametrize(("times", "text", "changing"), [(0, "x", None), (2, "xxx", None), (3, "xxx", True)])
def test_a_file_that_changes_while_it_is_read_is_read_again_at_most_3_times(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int, text: str, changing: bool | None
) -> None:
    fill(tmp_path, {"x.md": "x"})
    monkeypatch.setattr("carrel.providers.workspace.provider.FileSource", Growing)
    Growing.times = times

    item = served.item("workspace:///x.md")

    assert (getattr(item, "text", None), (item.meta or {}).get("dev.carrel/changing")) == (text, changing)


class Shrinking(FileSource):
    """A file that is emptied before it is read."""

    def read(self, start: int, length: int) -> bytes:
        os.truncate(f"/proc/self/fd/{self._opened.fd}", 0)
        return self._opened.read(start, length)


@pytest.mark.parametrize("query", ["", "?start=2", "?start=1&length=2", "?lines=2", "?lines=1-"])
def test_a_file_that_shrinks_while_it_is_read_is_tolerated(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    fill(tmp_path, {"x.md": "é\né\n" * 50_000})
    monkeypatch.setattr("carrel.providers.workspace.provider.FileSource", Shrinking)

    assert served.text(f"workspace:///x.md{query}") == ""


# What does not fit, and what is no file


def test_1_mb_is_given_whole_and_3_mb_are_refused_with_a_part_that_works(served: Served, tmp_path: Path) -> None:
    fill(tmp_path, {"one.md": "x" * 1_048_576, "three.md": "é" * 1_500_000})
    uri = "workspace:///three.md"
    error = served.ask("resources/read", {"uri": uri})

    assert len(served.text("workspace:///one.md")) == 1_048_576
    assert (error["code"], error["message"], error["data"]) == (
        -32802,
        (
            f"Too large: {uri} has 3000000 bytes, one message holds 2097152; read {uri}?start=0&length=131072, "
            f"or its outline: {uri}?outline"
        ),
        {
            "name": "MCP_TOO_LARGE",
            "size": 3_000_000,
            "limit": 2_097_152,
            "suggested": "workspace:///three.md?start=0&length=131072",
            "uri": "workspace:///three.md",
            "dev.carrel/error": "too_large",
        },
    )
    assert served.text(error["data"]["suggested"]) == "é" * 65_536


@pytest.mark.parametrize(
    ("query", "suggested"),
    [
        ("start=7", "start=7&length=131072"),
        ("start=100&length=2999000", "start=100&length=131072"),
        ("lines=2-", "start=4&length=131072"),
        ("lines=1-", "start=0&length=131072"),
    ],
)
def test_the_suggested_part_begins_where_the_asked_one_does(
    served: Served, tmp_path: Path, query: str, suggested: str
) -> None:
    fill(tmp_path, {"x.md": "abc\n" + "x" * 3_000_000})
    error = served.error(f"workspace:///x.md?{query}")

    assert isinstance(error, TooLarge)
    assert error.suggested == f"workspace:///x.md?{suggested}"
    assert len(served.text(error.suggested)) == 131_072


@pytest.mark.parametrize("byte", [b"\x01", b'"', "é".encode("latin-1"), b"\x00"])
def test_a_suggested_part_fits_whatever_the_escaping(served: Served, tmp_path: Path, byte: bytes) -> None:
    fill(tmp_path, {"x.md": byte * 2_000_000})
    refused = served.ask("resources/read", {"uri": "workspace:///x.md"})

    assert refused["code"] == -32802
    assert "contents" in served.ask("resources/read", {"uri": refused["data"]["suggested"]})


def test_what_is_too_large_is_not_read(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, {"x.md": "x" * 3_000_000})
    read = [0]
    really = os.pread

    def counting(fd: int, length: int, offset: int) -> bytes:
        data = really(fd, length, offset)
        read[0] += len(data)
        return data

    monkeypatch.setattr(os, "pread", counting)

    assert served.outcome("workspace:///x.md") == "TOOLARGE"
    assert read == [WINDOW]


def test_a_sparse_file_of_10_gb_is_read_by_range_in_constant_memory(served: Served, tmp_path: Path) -> None:
    size = 10 * 1024**3
    with (tmp_path / "huge.bin").open("wb") as file:
        file.truncate(size)
        file.seek(size - 3)
        file.write(b"end")
    tracemalloc.start()

    parts = [
        (getattr(served.item(uri), "data", None), served.meta(uri)["start"], served.meta(uri)["total"])
        for start in (0, size // 2, size - 3, size + 5)
        if (uri := f"workspace:///huge.bin?start={start}&length=4")
    ]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert parts == [(bytes(4), 0, size), (bytes(4), size // 2, size), (b"end", size - 3, size), (b"", size, size)]
    assert peak < 2_000_000
    assert served.uris() == []
    assert served.outcome("workspace:///huge.bin") == "TOOLARGE"


def test_special_files_are_refused_at_once_and_appear_nowhere(served: Served, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.md")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "socket.md"))
    (tmp_path / "to-fifo.md").symlink_to("fifo.md")
    with listener:
        outcomes = [served.outcome(f"workspace:///{name}.md") for name in ("fifo", "socket", "to-fifo")]

        assert outcomes == ["DENIED special"] * 3
        assert (served.uris(), served.completions(""), served.outcome("workspace:///")) == ([], [], "folder")


def test_a_file_removed_between_list_and_read_is_not_found(served: Served, tmp_path: Path) -> None:
    fill(tmp_path, {"x.md": SECRET})
    uris = served.uris()
    (tmp_path / "x.md").unlink()

    assert [served.outcome(f"workspace:///{uri}") for uri in uris] == ["NOTFOUND"]


def test_no_handle_is_left_open(served: Served, tmp_path: Path) -> None:
    fill(tmp_path, {"x.md": SAMPLE, "raw": b"\0", "big.md": "x" * 3_000_000, ".env": SECRET, "sub/y.md": "y"})
    (tmp_path / "link.md").symlink_to(".env")
    uris = ["x.md", "x.md?lines=2", "x.md?foo=1", "raw?lines=1", "big.md", ".env", "link.md", "sub", "sub?x=1", "x.md/"]
    before = handles(tmp_path)

    outcomes = [re.sub(" .*", "", served.outcome(f"workspace:///{uri}")) for uri in uris]
    served.uris()

    assert outcomes[1:] == [
        "",
        *["BADARGUMENT"] * 2,
        "TOOLARGE",
        "DENIED",
        "DENIED",
        "folder",
        "BADARGUMENT",
        "NOTFOUND",
    ]
    assert handles(tmp_path) == before


def test_nothing_in_the_folder_is_changed_by_asking(served: Served, tmp_path: Path) -> None:
    fill(tmp_path, {"a.md": SAMPLE, "sub/b.md": "b", "raw": b"\0"})

    def state() -> list[tuple[str, int, int, bytes]]:
        places = (tmp_path, *sorted(tmp_path.rglob("*")))
        stats = [(place, place.stat()) for place in places]
        return [
            (str(place), stat.st_mtime_ns, stat.st_ctime_ns, place.read_bytes() if place.is_file() else b"")
            for place, stat in stats
        ]

    before = state()
    for uri in ("workspace:///", "workspace:///sub", *(f"workspace:///{path}" for path in served.uris())):
        served.ask("resources/read", {"uri": uri})
    served.ask("resources/list", {"page": 0})
    served.completions("")
    served.catalog.fingerprint("workspace:///a.md")

    assert state() == before


class Rewritten(FileSource):
    """A file that is emptied while it is read, each time it is."""

    def read(self, start: int, length: int) -> bytes:
        place = Path(f"/proc/self/fd/{self._opened.fd}").resolve()
        kept = place.read_bytes()
        place.write_bytes(kept[:3])
        data = self._opened.read(start, length)
        place.write_bytes(kept)
        return data


@pytest.mark.parametrize(
    ("query", "given"), [("", ("abc", 0, 3, 3)), ("?start=2&length=4", ("c", 2, 1, 3)), ("?start=4", ("", 4, 0, 4))]
)
def test_a_file_that_is_rewritten_while_it_is_read_is_reported_as_long_as_its_text(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str, given: tuple[str, int, int, int]
) -> None:
    fill(tmp_path, {"x.md": "abcdefgh"})
    monkeypatch.setattr("carrel.providers.workspace.provider.FileSource", Rewritten)

    item = served.item(f"workspace:///x.md{query}")
    meta = {name.removeprefix("dev.carrel/"): value for name, value in (item.meta or {}).items()}

    assert (getattr(item, "text", None), meta["start"], meta["length"], meta["total"]) == given
    assert meta["changing"] is True
    assert "next" not in meta


# Read again and again

TEXTS: dict[str, bytes] = {
    "ascii": b"plain\n",
    "escaped": b'"quoted" \\ \x00\x1f\x7f \t</script>\r\n',
    "unicode": SAMPLE.encode(),
    "line separators": "\u2028\u2029\x85".encode(),
    "with a byte order mark": b"\xef\xbb\xbfmarked",
    "utf-16": "\ufeffwide é".encode("utf-16-le"),
    "latin-1": b"caf\xe9 \xa3\n",
    "malformed further on": b"x" * WINDOW + b"\xff\xfe",
    "binary": b"\0\1\2",
    "empty": b"",
    "long": b"0123456789abcdef" * 20_000,
}


@pytest.mark.parametrize("version", [LEGACY, MODERN])
@pytest.mark.parametrize("content", TEXTS.values(), ids=TEXTS)
def test_a_file_that_is_read_again_is_reported_as_the_first_time(
    served: Served, tmp_path: Path, content: bytes, version: str
) -> None:
    fill(tmp_path, {"x.md": content, "lib/y.md": content})
    settle(tmp_path / "x.md", tmp_path / "lib/y.md")

    for uri in ("workspace:///x.md", "workspace:///lib/y.md", "workspace:lib/y.md"):
        answers = [served.ask("resources/read", {"uri": uri}, version) for _ in range(5)]
        assert answers == [answers[0]] * 5


@pytest.mark.parametrize("content", [b"before", b"after!", b"\xff\0", "é".encode(), b"", b"\xef\xbb\xbfx"])
def test_a_file_that_changes_between_reads_is_given_as_it_is_now(
    served: Served, tmp_path: Path, content: bytes
) -> None:
    fill(tmp_path, {"x.md": b"before"})
    settle(tmp_path / "x.md")
    for _ in range(3):
        served.ask("resources/read", {"uri": "workspace:///x.md"})
    (tmp_path / "x.md").write_bytes(content)
    with Served(tmp_path, preset="all") as fresh:
        told = fresh.ask("resources/read", {"uri": "workspace:///x.md"})

    assert served.ask("resources/read", {"uri": "workspace:///x.md"}) == told


def test_bytes_that_change_and_leave_no_trace_in_the_state_of_a_file_are_read(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that is mapped into memory may change later than the times of its file."""
    fill(tmp_path, {"x.md": b"before"})
    settle(tmp_path / "x.md")
    for _ in range(3):
        served.ask("resources/read", {"uri": "workspace:///x.md"})
    really = os.pread
    monkeypatch.setattr(os, "pread", lambda *asked: really(*asked).replace(b"before", b"after!"))

    (item,) = served.ask("resources/read", {"uri": "workspace:///x.md"})["contents"]
    assert item["text"] == "after!"


def test_a_known_file_that_moves_while_it_is_read_is_read_again(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "x.md"
    fill(tmp_path, {"x.md": b"before"})
    settle(place)
    for _ in range(3):
        served.ask("resources/read", {"uri": "workspace:///x.md"})
    really = os.pread
    times = count()

    def torn(handle: int, length: int, start: int) -> bytes:
        data = really(handle, length, start)
        if next(times) == 0:
            place.write_bytes(b"after!")
        return data

    monkeypatch.setattr(os, "pread", torn)

    (item,) = served.ask("resources/read", {"uri": "workspace:///x.md"})["contents"]
    assert item["text"] == "after!"
    assert item["_meta"]["dev.carrel/etag"].partition("-")[0] == etag_of(place)


def test_a_known_file_that_becomes_something_else_is_refused(served: Served, tmp_path: Path) -> None:
    place = tmp_path / "root"
    fill(tmp_path, {"secret.txt": SECRET, "root/x.md": "x", "root/lib/x.md": "x", "root/.env": SECRET})
    settle(*place.rglob("*.md"))
    with Served(place) as inside:
        for uri in ("workspace:///x.md", "workspace:///lib/x.md"):
            for _ in range(3):
                inside.ask("resources/read", {"uri": uri})
        outcomes = []
        for target in ("../secret.txt", ".env", "nowhere"):
            (place / "x.md").unlink()
            (place / "x.md").symlink_to(target)
            outcomes.append(inside.outcome("workspace:///x.md"))
        (place / "x.md").unlink()
        os.mkfifo(place / "x.md")
        outcomes.append(inside.outcome("workspace:///x.md"))
        (place / "lib").rename(place / "kept")
        (place / "lib").symlink_to("../")
        outcomes.append(inside.outcome("workspace:///lib/x.md"))

    assert outcomes == ["DENIED outside", "DENIED deny", "NOTFOUND", "DENIED special", "DENIED outside"]
    assert handles(tmp_path) == [str(tmp_path)]  # that of the other fixture


def test_what_is_remembered_of_texts_is_bounded(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "MAX_FRAMES", 4)
    fill(tmp_path, {f"{number}.md": "x" for number in range(20)})
    settle(tmp_path / "19.md")
    for number in range(20):
        for _ in range(3):
            served.ask("resources/read", {"uri": f"workspace:///{number}.md"})

    assert max(map(len, served.server.dispatch._frames)) <= 4
