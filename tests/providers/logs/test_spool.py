"""Logs on disk: bounded, readable while they are written, after a crash, and when a stranger made them."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from carrel.core.errors import NotFound
from carrel.providers.logs import log_index, spool
from tests.support.logging_project import logs, meta, read, text, writer
from tests.support.owners import give_away


def path_of(root: Path, uri: str) -> Path:
    return root / ".carrel/logs" / f"{uri.removeprefix('logs://')}.jsonl"


def test_a_log_is_read_as_it_grows_and_after_its_end(tmp_path: Path) -> None:
    provider = logs(tmp_path)
    log = writer(tmp_path)
    log.feed("out", b"one\ntw")
    assert (text(provider, log.uri), meta(provider, log.uri)["state"]) == ("one\n", "running")

    log.feed("out", b"o\n")
    log.feed("err", b"three")
    log.flush()
    assert text(provider, f"{log.uri}?since=1") == "two\nthree\n"

    log.end(7)
    told = meta(provider, log.uri)
    assert (told["state"], told["exit-code"], told["entries"], told["cursor"]) == ("exited", 7, 3, 3)
    assert text(provider, log.uri) == text(logs(tmp_path), log.uri) == "one\ntwo\nthree\n"
    assert json.loads(text(provider, f"{log.uri}?format=json&tail=1").splitlines()[0])["partial"] is True


def test_folders_and_files_are_the_users_own_and_not_gits(tmp_path: Path) -> None:
    log = writer(tmp_path, kind="build")
    log.close()

    for folder in (".carrel", ".carrel/logs", ".carrel/logs/build"):
        assert stat.S_IMODE((tmp_path / folder).stat().st_mode) == 0o700
    assert stat.S_IMODE(path_of(tmp_path, log.uri).stat().st_mode) == 0o600
    assert (tmp_path / ".carrel/.gitignore").read_text() == "*\n"


def test_the_header_says_what_the_log_is_of(tmp_path: Path) -> None:
    log = writer(tmp_path, "make")
    log.end(0)
    header, end = (json.loads(line) for line in path_of(tmp_path, log.uri).read_text().splitlines())

    assert header == {
        "id": log.uri.rpartition("/")[2],
        "program": "make",
        "ms": header["ms"],
        "dropped_entries": 0,
        "dropped_bytes": 0,
    }
    assert (end["end"], end["exit_code"]) == ("exited", 0)


def test_the_file_is_bounded_and_the_numbers_go_on(tmp_path: Path) -> None:
    log = writer(tmp_path, max_bytes=1_000, max_entries=50)
    provider = logs(tmp_path, max_bytes=1_000, max_entries=50)
    largest, inodes = 0, set()
    for number in range(2_000):
        log.feed("out", b"line %d\n" % number)
        status = path_of(tmp_path, log.uri).stat()
        largest = max(largest, status.st_size)
        inodes.add(status.st_ino)
    told = meta(provider, log.uri)

    assert largest < 3 * 4_000
    assert text(provider, log.uri) == "".join(f"line {number}\n" for number in range(1_950, 2_000))
    assert (told["entries"], told["cursor"], told["dropped-entries"]) == (50, 2_000, 1_950)
    assert told["dropped-bytes"] == sum(len(f"line {number}\n") for number in range(1_950))
    log.end(0)
    assert meta(logs(tmp_path, max_bytes=1_000, max_entries=50), log.uri) == {
        **told,
        "state": "exited",
        "exit-code": 0,
        "duration-ms": meta(provider, log.uri)["duration-ms"],
    }


def test_a_reader_that_polls_misses_nothing_while_the_file_is_written_anew(tmp_path: Path) -> None:
    log = writer(tmp_path, max_bytes=1_000, max_entries=50)
    provider = logs(tmp_path, max_bytes=1_000, max_entries=50)
    cursor, seen = 0, ""
    for number in range(500):
        log.feed("out", b"%d\n" % number)
        if number % 7 == 0:
            seen += text(provider, f"{log.uri}?since={cursor}")
            cursor = meta(provider, log.uri)["cursor"]
    seen += text(provider, f"{log.uri}?since={cursor}")
    log.close()

    assert seen == "".join(f"{number}\n" for number in range(500))


def test_a_chunk_larger_than_the_log_is_counted(tmp_path: Path) -> None:
    log = writer(tmp_path, max_entries=10)
    provider = logs(tmp_path, max_entries=10)
    log.feed("out", b"first\n")
    log.feed("out", b"".join(b"%d\n" % number for number in range(100)))
    told = meta(provider, log.uri)
    log.close()

    assert text(provider, log.uri) == "".join(f"{number}\n" for number in range(90, 100))
    assert (told["cursor"], told["dropped-entries"], told["dropped-bytes"]) == (101, 91, 6 + 10 * 2 + 80 * 3)


@pytest.mark.slow
def test_a_killed_writer_leaves_a_log_that_is_lost_and_loses_one_line_at_most(tmp_path: Path) -> None:
    script = (
        "import sys, threading\n"
        "from carrel.providers.logs.log import Bounds\n"
        "from carrel.providers.logs.spool import SpoolWriter\n"
        f"log = SpoolWriter({str(tmp_path)!r}, 'run', 'make', 'make', Bounds())\n"
        "for number in range(5_000):\n"
        "    log.feed('out', b'line %d\\n' % number)\n"
        "log.feed('out', b'unfinished')\n"
        "print(log.uri, flush=True)\n"
        "threading.Event().wait()\n"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    uri = child.stdout.readline().strip()
    provider = logs(tmp_path)
    assert meta(provider, uri)["state"] == "running"

    child.kill()
    child.wait()
    child.stdout.close()

    told = meta(provider, uri)
    assert (told["state"], told["exit-code"], told["cursor"]) == ("lost", None, 5_000)
    assert text(provider, uri) == "".join(f"line {number}\n" for number in range(4_000, 5_000))
    assert text(provider, f"{uri}?format=full&tail=1").splitlines()[-1].endswith(" sys lost")


def test_torn_and_foreign_lines_are_passed_over(tmp_path: Path) -> None:
    log = writer(tmp_path)
    log.feed("out", b"one\n")
    log.close()
    with path_of(tmp_path, log.uri).open("ab") as file:
        file.write(
            b'{"seq":2,"ms":1,"str\n[1]\n"x"\n\xff\n{"seq":"3"}\n{"seq":true,"ms":1,"stream":"out","text":"x"}\n'
        )
        file.write(b"[" * 100_000 + b"\n")
        file.write(b'{"seq":4,"ms":1,"stream":"sys","text":"x"}\n{"end":"nonsense","ms":1}\n{"end":[],"ms":1}\n')
        file.write(b'{"seq":1,"ms":1,"stream":"out","text":"again"}\n')
        file.write(b'{"seq":5,"ms":1,"stream":"err","text":"t\\u0000w\\no\\ud800"}\n{"seq":6,"ms":1,"stream":"out"')
    provider = logs(tmp_path)

    assert text(provider, log.uri) == "one\ntwo?\n"
    assert meta(provider, log.uri)["state"] == "lost"


def test_what_is_no_log_is_not_there(tmp_path: Path) -> None:
    writer(tmp_path).close()
    folder = tmp_path / ".carrel/logs/run"
    (folder / "stranger_1.jsonl").write_text("hello\n")
    (folder / "link_1.jsonl").symlink_to("/etc/passwd")
    (folder / "..jsonl").write_text("{}\n")
    os.mkfifo(folder / "fifo_1.jsonl")
    (folder / "folder_1.jsonl").mkdir()
    provider = logs(tmp_path)

    assert [entry.name.partition("_")[0] for entry in provider.entries()] == ["run/make"]


def test_a_link_in_place_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    writer(elsewhere_made(elsewhere)).close()
    project = tmp_path / "project"
    project.mkdir()
    (project / ".carrel").symlink_to(elsewhere / ".carrel")

    assert list(logs(project).entries()) == []
    with pytest.raises(OSError, match=r"\.carrel"):
        writer(project)


def elsewhere_made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_a_file_that_is_far_too_large_is_read_from_its_end(tmp_path: Path) -> None:
    log = writer(tmp_path, max_bytes=1_000)
    log.close()
    with path_of(tmp_path, log.uri).open("ab") as file:
        for number in range(1, 60_000):
            file.write(b'{"seq":%d,"ms":1,"stream":"out","text":"%d"}\n' % (number, number))
    provider = logs(tmp_path, max_bytes=1_000)

    assert text(provider, f"{log.uri}?tail=2") == "59998\n59999\n"
    assert meta(provider, log.uri)["cursor"] == 59_999


def test_the_oldest_that_are_not_written_any_more_go(tmp_path: Path) -> None:
    running = writer(tmp_path, "running")
    ended = []
    for number in range(4):
        log = writer(tmp_path, f"log{number}", "build" if number % 2 else "run")
        log.end(0)
        os.utime(path_of(tmp_path, log.uri), (number, number))
        ended.append(log.uri)
    half, young = (tmp_path / f".carrel/logs/run/.{name}.new" for name in ("half", "young"))
    half.write_text("{")
    os.utime(half, (1, 1))
    young.write_text("{")

    spool.prune(str(tmp_path), 2)
    running.close()

    assert [entry.uri for entry in logs(tmp_path).entries()] == sorted([running.uri, *ended[2:]])
    assert (half.exists(), young.exists()) == (False, True)


def test_secrets_are_not_written(tmp_path: Path) -> None:
    log = writer(tmp_path)
    log.feed("out", b"token=abcdefgh12345678\n")
    log.close()

    assert "abcdefgh" not in path_of(tmp_path, log.uri).read_text()
    assert text(logs(tmp_path), log.uri) == "token=[redacted]\n"


# Folders of others


@pytest.mark.parametrize("place", [".carrel", ".carrel/logs", ".carrel/logs/run"])
def test_a_folder_of_another_user_is_neither_read_nor_written(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = writer(tmp_path)
    log.feed("out", b"theirs\n")
    log.end(0)
    give_away(tmp_path / place, monkeypatch)
    provider = logs(tmp_path)

    assert list(provider.entries()) == []
    with pytest.raises(NotFound):
        read(provider, log.uri)
    assert provider.health()["problems"] == ["the logs on disk are not served: .carrel/logs belongs to another user"]
    with pytest.raises(PermissionError, match="belongs to another user"):
        writer(tmp_path)


@pytest.mark.parametrize("place", [".carrel", ".carrel/logs"])
def test_a_folder_that_may_not_be_read_is_named(tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".carrel/logs").mkdir(parents=True)
    (tmp_path / place).chmod(0)
    # Root may read it all the same.
    monkeypatch.setattr("os.access", lambda path, _: bool(Path(path).stat().st_mode & 0o777))
    try:
        told = logs(tmp_path).health()["problems"]
    finally:
        (tmp_path / place).chmod(0o755)

    assert told == [f"{place} cannot be read: permission denied"]


def test_a_link_in_the_way_is_reported_in_health(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "project").mkdir()
    (tmp_path / "project/.carrel").symlink_to(tmp_path / "elsewhere")

    told = logs(tmp_path / "project").health()["problems"]
    assert told == ["the logs on disk are not served: a part of .carrel/logs is a link, or not a folder"]
    assert logs(tmp_path).health()["problems"] == []


# Floods

PLAIN = b"".join(b"line %d\n" % number for number in range(5_000))
FLOODS = {
    "plain": PLAIN,
    "an unfinished line": PLAIN + b"unfinished",
    "more than one alphabet": "zwölf Boxkämpfer ✓\n".encode() * 3_000,
    "colours": b"\x1b[32mgreen\x1b[0m\n" * 3_000,
    "an open sequence": PLAIN + b"\x1b]0;title" + PLAIN,
    "carriage returns": b"10 %\r50 %\r100 %\n" * 3_000 + b"a\r\n" * 3_000,
    "broken text": b"\xff\xfe\n" * 3_000,
    "late controls": "a\x9b1mb\n".encode() * 3_000,
    "long lines": (b"x" * 5_000 + b"\n") * 40 + PLAIN,
    "a key that goes on": b"-----BEGIN PRIVATE KEY-----\n" + b"abc\n" * 60,
    "empty lines": b"\n" * 5_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("begun", [b"", b"begun ", b"\x1b[3"])
@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS.keys())
def test_a_flood_that_is_only_counted_leaves_the_same_log(tmp_path: Path, flood: bytes, begun: bytes) -> None:
    bounds: dict[str, Any] = {"max_bytes": 2_000, "max_entries": 50}
    provider = logs(tmp_path, **bounds)
    told = []
    for width in (len(flood), 1_000):
        log = writer(tmp_path, **bounds)
        log.feed("err", b"before\n")
        log.feed("out", begun)
        for at in range(0, len(flood), width):
            log.feed("out", flood[at : at + width])
        log.end(0)
        facts = meta(provider, log.uri)
        numbers = [facts[name] for name in ("entries", "cursor", "dropped-entries", "dropped-bytes")]
        told.append((text(provider, log.uri), numbers))

    assert told[0] == told[1]


def test_a_line_that_was_shown_unfinished_before_a_flood_is_one_line(tmp_path: Path) -> None:
    log = writer(tmp_path, max_entries=50)
    log.feed("out", b"prompt> ")
    log.flush()
    log.feed("out", b"\n" + PLAIN)
    log.end(0)

    assert meta(logs(tmp_path, max_entries=50), log.uri)["cursor"] == 5_001


def test_only_the_newest_of_very_many_logs_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_index, "MAX_SPOOLED", 3)
    for number in range(10):
        writer(tmp_path).end(0)
        made, numbered = _names(tmp_path, number)
        made.rename(numbered)
    provider = logs(tmp_path)

    assert [entry.name for entry in provider.entries()] == ["run/web_7", "run/web_8", "run/web_9"]
    assert text(provider, "logs://run/web_0") == ""  # one that is asked for is read all the same


def _names(root: Path, number: int) -> tuple[Path, Path]:
    """Return the path of the log that was just made, and one with a number of its own."""
    folder = root / ".carrel/logs/run"
    made = next(path for path in folder.iterdir() if len(path.name) > 20)
    return made, folder / f"web_{number}.jsonl"
