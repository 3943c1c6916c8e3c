"""Logs that other machines send: batches that may be sent again, by one sender, within bounds."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from carrel.catalog.access import Access, ActingAs
from carrel.catalog.catalog import Catalog
from carrel.core.errors import BadArgument, Conflict, NotFound, ProviderError, RequestError
from carrel.providers.logs import Logs, spool
from carrel.providers.logs.spooled_log import LOST_S
from tests.support.logging_project import logs, meta, spool_root, text, writer

pytestmark = pytest.mark.usefixtures("backend")
LOCAL = pytest.mark.parametrize("backend", ["local"], indirect=True)
"""Marks tests about the files themselves."""

KEY = "k" * 24
URI = "logs://build/ci_1"
CI = {"branch": "main", "commit": "0123456789abcdef", "job": "test"}


def header(key: str = KEY, **origin: str) -> dict[str, Any]:
    return {"program": "make", "ms": 1_000, "origin": {**CI, **origin, "key": key}}


def entry(seq: int, words: str | None = None, stream: str = "out") -> dict[str, Any]:
    return {"seq": seq, "ms": 1_000 + seq, "stream": stream, "text": f"line {seq}" if words is None else words}


def end(code: int | None = 0, state: str = "exited") -> dict[str, Any]:
    return {"end": state, "exit_code": code, "ms": 5_000}


def push(
    provider: Logs, *lines: dict[str, Any], uri: str = URI, first: dict[str, Any] | None = None, by: str = "local"
) -> Any:
    body = "".join(f"{json.dumps(line)}\n" for line in (first or header(), *lines)).encode()
    with ActingAs(Access(by)):
        return dict(Catalog([provider]).append(uri, body))


def file_of(root: Path, name: str = "ci_1", kind: str = "build") -> Path:
    return spool_root(root) / ".carrel/logs" / kind / f"{name}.jsonl"


@LOCAL
def test_the_example_for_other_senders_is_taken_as_it_stands(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/team.md").read_text(encoding="utf-8")
    example = page.partition("### For other senders")[2].partition("```\n")[2].partition("```")[0].encode()
    provider = logs(tmp_path)

    assert Catalog([provider]).append(URI, example) == {"uri": URI, "newest": 1, "max_bytes": 4_194_304}
    assert (text(provider, URI), meta(provider, URI)["state"]) == ("compiling\n", "exited")


@LOCAL
@pytest.mark.parametrize(("name", "is_taken"), [("x", True), ("x" * 96, True), ("x" * 97, False), ("-x", False)])
def test_the_id_of_a_log_needs_no_number(tmp_path: Path, name: str, is_taken: bool) -> None:
    provider = logs(tmp_path)
    if is_taken:
        assert push(provider, entry(1), uri=f"logs://build/{name}")["newest"] == 1
    else:
        with pytest.raises(NotFound):
            push(provider, entry(1), uri=f"logs://build/{name}")


def test_a_log_grows_batch_by_batch_and_ends(tmp_path: Path) -> None:
    provider = logs(tmp_path)

    assert push(provider, entry(1), entry(2, "oops", "err")) == {"uri": URI, "newest": 2, "max_bytes": 4_194_304}
    assert (text(provider, URI), meta(provider, URI)["state"]) == ("line 1\noops\n", "running")

    assert push(provider, entry(3), end(7)) == {"uri": URI, "newest": 3, "max_bytes": 4_194_304}
    found = meta(provider, URI)
    assert [found[key] for key in ("state", "exit-code", "entries", "duration-ms", "branch", "commit", "job")] == [
        "exited",
        7,
        3,
        4_000,
        "main",
        "0123456789abcdef",
        "test",
    ]
    [listed] = provider.entries()
    assert listed.description == "test on main 0123456789ab: exited 7 after 4.0 s, 3 entries, 0 dropped"
    assert text(logs(tmp_path), f"{URI}?stream=err") == "oops\n"


def test_a_batch_that_is_sent_again_changes_nothing(tmp_path: Path) -> None:
    provider = logs(tmp_path)
    for _ in range(3):
        push(provider, entry(1), entry(2))
    for _ in range(2):
        assert push(provider, entry(2), entry(3), end())["newest"] == 3

    assert push(provider, entry(4))["newest"] == 3, "nothing follows the end"
    assert text(provider, URI) == "line 1\nline 2\nline 3\n"


def test_entries_after_a_gap_wait_until_they_are_sent_again(tmp_path: Path) -> None:
    provider = logs(tmp_path)
    push(provider, entry(1))

    assert push(provider, entry(3), end())["newest"] == 1
    assert meta(provider, URI)["state"] == "running"
    assert push(provider, entry(2), entry(3), end())["newest"] == 3


def test_lines_that_the_sender_dropped_are_counted(tmp_path: Path) -> None:
    provider = logs(tmp_path)
    push(provider, entry(1))

    push(provider, {"dropped_entries": 10, "dropped_bytes": 99}, entry(11))

    found = meta(provider, URI)
    assert (text(provider, URI), found["dropped-entries"], found["dropped-bytes"]) == ("line 11\n", 10, 99)


def test_only_the_sender_adds_to_a_log(tmp_path: Path) -> None:
    provider = logs(tmp_path)
    push(provider, entry(1))

    with pytest.raises(Conflict, match="Another sender already has"):
        push(provider, entry(2), first=header("x" * 24))
    assert KEY not in file_of(tmp_path).read_text()


def test_a_log_of_this_machine_is_not_added_to(tmp_path: Path) -> None:
    own = writer(tmp_path, kind="build")
    with pytest.raises(Conflict, match="This machine already has"):
        push(logs(tmp_path), entry(1), uri=own.uri)
    own.close()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "Invalid line 1"),
        (b"x", "Invalid line 1"),
        (b'{"program":"make","ms":1}', "Invalid line 1"),
        (b'{"program":"make","ms":1,"origin":{"key":"short"}}', "Invalid line 1"),
        (json.dumps(header()).encode() + b"\nx", "Invalid line 2"),
        (json.dumps(header()).encode() + b'\n{"seq":1,"ms":1,"stream":"sys","text":""}', "Invalid line 2"),
        (json.dumps(header()).encode() + b"\n" + json.dumps(header()).encode(), "Invalid line 2"),
    ],
)
def test_a_wrong_line_is_named_and_nothing_is_kept(tmp_path: Path, body: bytes, message: str) -> None:
    with pytest.raises(BadArgument, match=message):
        Catalog([logs(tmp_path)]).append(URI, body)
    assert not (tmp_path / ".carrel").exists()


@pytest.mark.parametrize("uri", ["logs://build/..%2fx", "logs://build/%00", "logs://other/x", "logs://build/a%20b"])
def test_odd_names_are_refused(tmp_path: Path, uri: str) -> None:
    with pytest.raises(RequestError):
        push(logs(tmp_path), entry(1), uri=uri)
    assert not (tmp_path / ".carrel").exists()


def test_a_folder_takes_no_lines(tmp_path: Path) -> None:
    with pytest.raises(BadArgument, match="Nothing can be added"):
        push(logs(tmp_path), uri="logs://build")


def test_secrets_are_removed_here_too(tmp_path: Path) -> None:
    provider = logs(tmp_path)
    push(provider, entry(1, "token=abcdefghijkl"), end())

    assert text(provider, URI) == "token=[redacted]\n"
    assert "abcdefghijkl" not in file_of(tmp_path).read_text()


def test_a_sender_that_falls_silent_counts_as_lost_until_it_reports_again(tmp_path: Path) -> None:
    provider = logs(tmp_path)
    push(provider, entry(1))
    past = file_of(tmp_path).stat().st_mtime - LOST_S - 1
    os.utime(file_of(tmp_path), (past, past))
    assert meta(provider, URI)["state"] == "lost"

    push(provider)
    assert meta(provider, URI)["state"] == "running"


@LOCAL
def test_a_line_that_a_crash_left_torn_costs_only_itself(tmp_path: Path) -> None:
    provider = logs(tmp_path)
    push(provider, entry(1))
    with file_of(tmp_path).open("ab") as file:
        file.write(b'{"seq":2,"ms":1002,"str')

    assert push(logs(tmp_path), entry(2), end())["newest"] == 2
    assert text(logs(tmp_path), URI) == "line 1\nline 2\n"


def test_a_long_log_keeps_its_end_within_its_bounds(tmp_path: Path) -> None:
    provider = logs(tmp_path, pushed_max_bytes=2_000)
    for start in range(1, 2_001, 100):
        push(provider, *[entry(seq) for seq in range(start, start + 100)])
    push(provider, end())

    found = meta(provider, URI)
    assert text(provider, URI).endswith("line 2000\n")
    assert found["total"] <= 2_000
    assert found["entries"] + found["dropped-entries"] == 2_000
    assert file_of(tmp_path).stat().st_size < 40_000
    [fresh] = logs(tmp_path, pushed_max_bytes=2_000).entries()
    assert (fresh.size, (fresh.meta or {})["dev.carrel/entries"]) == (found["total"], found["entries"])


def test_the_documents_name_the_number_of_lines_that_a_log_keeps(tmp_path: Path) -> None:
    provider = logs(tmp_path, pushed_max_bytes=64 * 20)
    push(provider, *[entry(seq, "") for seq in range(1, 101)])
    assert meta(provider, URI)["entries"] == 20

    docs = Path(__file__).resolve().parents[3] / "docs"
    for page in ("team.md", "providers/logs.md"):
        words = " ".join((docs / page).read_text(encoding="utf-8").split())
        assert f"one line for each 64 bytes of it ({4_194_304 // 64:,} lines by default)" in words


def test_a_line_longer_than_the_log_is_cut(tmp_path: Path) -> None:
    provider = logs(tmp_path, pushed_max_bytes=100)

    assert push(provider, entry(1, "x" * 500), end())["newest"] == 1
    assert text(provider, URI).endswith("…[cut 433 bytes]\n")


def test_the_oldest_ended_logs_make_room(tmp_path: Path) -> None:
    provider = logs(tmp_path, pushed_logs=3, pushed_share=100)
    for number in range(5):
        push(provider, entry(1), end(), uri=f"logs://run/ci_{number}")

    assert [one.uri for one in provider.entries()] == [f"logs://run/ci_{number}" for number in (2, 3, 4)]


def test_logs_that_are_being_sent_are_never_removed(tmp_path: Path) -> None:
    provider = logs(tmp_path, pushed_logs=1, pushed_share=100)
    push(provider, entry(1), uri="logs://run/ci_1")

    with pytest.raises(ProviderError, match="pushed_logs"):
        push(provider, entry(1), uri="logs://run/ci_2")
    push(provider, entry(2), end(), uri="logs://run/ci_1")
    push(provider, entry(1), uri="logs://run/ci_2")


def test_logs_go_when_they_are_old_or_too_large_together(tmp_path: Path) -> None:
    provider = logs(tmp_path, pushed_days=2, pushed_total_bytes=1_500, pushed_share=100)
    push(provider, entry(1), end(), uri="logs://run/old_1")
    past = file_of(tmp_path, "old_1", "run").stat().st_mtime - 2 * 86_400 - 1
    os.utime(file_of(tmp_path, "old_1", "run"), (past, past))

    for number in range(2, 7):
        push(provider, entry(1), end(), uri=f"logs://run/new_{number}")

    kept = [one.uri for one in provider.entries()]
    assert "logs://run/old_1" not in kept
    assert kept[-1] == "logs://run/new_6"
    assert sum(path.stat().st_size for path in (spool_root(tmp_path) / ".carrel/logs/run").iterdir()) < 2_000


def names(provider: Logs) -> list[str]:
    return [one.uri.rpartition("/")[2] for one in provider.entries()]


def push_ended(provider: Logs, by: str, numbers: range, words: str = "x") -> None:
    for number in numbers:
        push(provider, entry(1, words), end(), uri=f"logs://run/{by}_{number}", by=by)


@pytest.mark.slow
def test_a_caller_that_has_its_share_pushes_out_only_its_own_logs(tmp_path: Path) -> None:
    provider = logs(tmp_path, pushed_logs=8)
    push_ended(provider, "ann", range(3))
    push_ended(provider, "mallory", range(200))

    assert names(provider) == ["ann_0", "ann_1", "ann_2", *(f"mallory_{number}" for number in range(196, 200))]


def test_a_caller_that_sends_many_logs_at_once_blocks_only_itself(tmp_path: Path) -> None:
    provider = logs(tmp_path, pushed_logs=4)
    for number in range(2):
        push(provider, entry(1), uri=f"logs://run/mallory_{number}", by="mallory")
    with pytest.raises(ProviderError, match=r"more logs of this caller until .* raise pushed_share") as refused:
        push(provider, entry(1), uri="logs://run/mallory_2", by="mallory")
    assert refused.value.word == "unavailable"
    push_ended(provider, "ann", range(5))

    assert names(provider) == ["ann_3", "ann_4", "mallory_0", "mallory_1"]


def test_when_all_is_full_the_caller_with_the_most_logs_makes_room_until_others_have_as_many(tmp_path: Path) -> None:
    provider = logs(tmp_path, pushed_logs=8)
    push_ended(provider, "ann", range(4))
    push_ended(provider, "ben", range(4))
    push_ended(provider, "eve", range(9))

    kept = names(provider)
    assert len(kept) == 8
    assert [sum(name.startswith(caller) for name in kept) for caller in ("ann", "ben", "eve")] == [3, 3, 2]
    assert kept[:3] == ["ann_1", "ann_2", "ann_3"]


def test_a_caller_has_only_its_share_of_the_bytes(tmp_path: Path) -> None:
    provider = logs(tmp_path, pushed_total_bytes=20_000)
    push_ended(provider, "ann", range(2), "a" * 1_000)
    push_ended(provider, "mallory", range(30), "m" * 1_000)

    kept = names(provider)
    assert [name for name in kept if name.startswith("ann")] == ["ann_0", "ann_1"]
    assert 4 <= len(kept) - 2 <= 8
    assert folder_size(tmp_path) <= 20_000


def folder_size(root: Path) -> int:
    return sum(path.stat().st_size for path in (spool_root(root) / ".carrel/logs").rglob("*.jsonl"))


def test_the_bytes_are_bounded_while_logs_grow(tmp_path: Path) -> None:
    provider = logs(tmp_path, pushed_total_bytes=20_000)
    push_ended(provider, "ann", range(1), "a" * 1_000)
    push_ended(provider, "ben", range(2), "b" * 1_000)

    def grow() -> None:
        for seq in range(1, 100):
            push(provider, entry(seq, "b" * 1_000), uri="logs://run/ben_9", by="ben")

    with pytest.raises(ProviderError, match="pushed_share"):
        grow()
    assert names(provider) == ["ann_0", "ben_9"], "its own ended logs made room first"
    assert folder_size(tmp_path) <= 20_000
    assert text(provider, "logs://run/ben_9").count("\n") >= 5
    push(provider, end(), uri="logs://run/ben_9", by="ben")
    push_ended(provider, "ben", range(10, 12), "b" * 4_000)
    assert "ben_9" not in names(provider)


def test_a_long_log_goes_on_with_the_lines_that_are_kept_when_there_is_no_room(tmp_path: Path) -> None:
    provider = logs(tmp_path, pushed_total_bytes=6_600, pushed_share=100, pushed_max_bytes=2_000)
    refusals = newest = 0
    for seq in range(1, 41):
        for _ in range(2):
            try:
                newest = push(provider, entry(seq, "x" * 200))["newest"]
            except ProviderError:
                refusals += 1
            else:
                break
        assert newest == seq

    assert refusals > 0
    assert folder_size(tmp_path) <= 6_600


def test_a_log_that_falls_silent_for_long_is_not_removed_by_its_own_next_lines(tmp_path: Path) -> None:
    provider = logs(tmp_path, pushed_total_bytes=6_000, pushed_share=100)
    push(provider, entry(1, "x" * 3_000))
    past = file_of(tmp_path).stat().st_mtime - LOST_S - 1
    os.utime(file_of(tmp_path), (past, past))

    with pytest.raises(ProviderError, match="pushed_total_bytes"):
        push(provider, entry(2, "x" * 3_000))
    assert push(provider, end())["newest"] == 1


def test_the_caller_is_kept_with_a_log_and_is_not_what_a_sender_claims(tmp_path: Path) -> None:
    long = "jwt " + "ü" * 500
    for by in ("token ci", long):
        provider = logs(tmp_path)
        uri = f"logs://run/{len(by)}_1"
        push(provider, entry(1), end(), uri=uri, first=header(caller="root"), by=by)
        kept = json.loads(file_of(tmp_path, f"{len(by)}_1", "run").read_text().partition("\n")[0])["origin"]["caller"]
        assert kept == by or (kept.startswith("jwt üü") and len(kept) < 70)
        assert "caller" not in " ".join(meta(provider, uri))


def test_logs_from_before_callers_were_kept_are_those_of_one_caller(tmp_path: Path) -> None:
    provider = logs(tmp_path, pushed_logs=4)
    push_ended(provider, "", range(2))
    push_ended(provider, "mallory", range(9))

    assert names(provider) == ["_0", "_1", "mallory_7", "mallory_8"]


def test_long_labels_leave_a_log_readable(tmp_path: Path) -> None:
    provider = logs(tmp_path)
    labels = dict.fromkeys(("branch", "commit", "job"), "\U0001f4da" * 300)
    push(provider, entry(1), first={**header(**labels), "program": "ü" * 300}, by="\U0001f4da" * 300)

    assert push(provider, entry(2), end(), first=header(**labels))["newest"] == 2


def test_runs_of_this_machine_do_not_push_out_logs_of_others(tmp_path: Path) -> None:
    push(logs(tmp_path), entry(1), end())
    for _ in range(3):
        writer(tmp_path).end(0)

    spool.prune(str(tmp_path), 1)

    assert [one.uri.rpartition("_")[0] for one in logs(tmp_path).entries()] == ["logs://build/ci", "logs://run/make"]


@LOCAL
def test_a_disk_that_cannot_be_written_is_said_without_its_path(tmp_path: Path) -> None:
    (tmp_path / ".carrel").write_text("in the way")

    with pytest.raises(ProviderError) as failed:
        push(logs(tmp_path), entry(1))
    assert str(failed.value) == "The desk cannot keep the log: its folder of logs cannot be written"


@pytest.mark.slow
def test_servers_that_write_one_log_at_once_lose_no_line(tmp_path: Path) -> None:
    """The sender may reach another server with each batch, and a batch that was cut off may arrive late."""
    servers = [logs(tmp_path, pushed_max_bytes=1_000_000) for _ in range(4)]
    failed: list[BaseException] = []

    def send(provider: Logs) -> None:
        try:
            newest = 0
            while newest < 500:
                newest = push(provider, *[entry(seq) for seq in range(newest + 1, min(newest + 8, 501))])["newest"]
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=send, args=(server,)) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert not failed
    assert text(logs(tmp_path, pushed_max_bytes=1_000_000), URI) == "".join(f"line {n}\n" for n in range(1, 501))
