"""The index where things go wrong: deleted, broken, not writable, a full disk, two processes, processes that die."""

import os
import random
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from carrel.catalog.catalog import Catalog
from carrel.core.provider import Ceiling, Document, FractionalCeiling, Project
from carrel.providers.workspace import Workspace
from carrel.search import builder, index, store
from carrel.search.answers import SearchRequest
from carrel.search.index import Index, IndexUnavailable
from carrel.search.keeper import Keeper
from carrel.search.lazy import LazySearch
from carrel.search.search import Search
from carrel.search.settings import SearchSettings
from tests.support.waiting import until

PATIENT = SearchSettings(answer_s=FractionalCeiling(60.0))


def word(kind: str, number: int) -> str:
    """Return a word for a number that is like no other: numbers would be searched as parts of a name."""
    return kind + "".join("bcdfghjklm"[int(digit)] for digit in f"{number:04d}") + "zq"


def bed(number: int) -> str:
    """Return the word that stands in a file."""
    return word("bed", number)


class Garden:
    """A project with files, and its index."""

    def __init__(self, folder: Path, count: int = 30) -> None:
        self.root, self.index = folder / "garden", folder / "cache" / "index"
        self.root.mkdir()
        for number in range(count):
            self.write(number, f"{bed(number)} tomatoes")

    def write(self, number: int, text: str) -> None:
        """Write one of the files."""
        (self.root / f"{number}.txt").write_text(f"{text}\n")

    def search(self, settings: SearchSettings = PATIENT) -> Search:
        """Return a search as a new process has it."""
        files = Workspace(Project(str(self.root), {"HOME": str(self.root)}))
        return Search(Catalog((files,)), str(self.index), settings)


def found(search: Search, query: str) -> set[str]:
    """Return the names of the files that a query finds."""
    answer = search.search(SearchRequest(query, limit=100))
    return {hit.base.removeprefix("workspace:///") for hit in answer.hits}


@pytest.fixture(name="garden")
def small_garden(tmp_path: Path) -> Garden:
    return Garden(tmp_path)


def test_nothing_is_opened_before_the_first_search(garden: Garden) -> None:
    search = garden.search()

    assert not garden.index.exists()
    assert search.facts()["bytes"] == 0
    search.close()
    assert not garden.index.exists()


def test_an_index_is_partial_only_after_it_was_asked_for(garden: Garden) -> None:
    first = garden.search()
    states = [first.facts()["state"], first.facts(looks=True)["state"]]
    first.build()
    states.append(first.facts()["state"])
    first.close()

    second = garden.search()
    states += [second.facts()["state"], second.facts(looks=True)["state"]]

    not_built = "not built yet: begins with the first search"
    assert states == [not_built, not_built, "complete", "not looked at yet: the first search does", "complete"]


def test_the_index_is_private_to_the_user(garden: Garden) -> None:
    search = garden.search()
    search.build()

    assert stat.S_IMODE(garden.index.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in garden.index.iterdir()} == {0o600}
    search.close()


def test_a_second_process_reads_nothing_again(garden: Garden) -> None:
    first = garden.search()
    first.build()
    time.sleep(0.15)  # until the files are old enough for their times to tell the next change
    first.build()
    first.close()
    before = (garden.index / store.FILE).stat().st_mtime_ns

    second = garden.search()

    assert found(second, bed(7)) == {"7.txt"}
    assert second.search(SearchRequest(bed(7))).coverage.is_partial is False
    second.close()
    assert (garden.index / store.FILE).stat().st_mtime_ns == before


def test_a_folder_that_is_deleted_while_a_server_runs_is_made_again(garden: Garden) -> None:
    search = garden.search()
    assert found(search, bed(3)) == {"3.txt"}

    shutil.rmtree(garden.index)

    assert found(search, bed(3)) == {"3.txt"}
    garden.write(3, "melons")
    assert found(search, bed(3)) == set()
    assert found(search, "melons") == {"3.txt"}
    assert (garden.index / store.FILE).exists()
    search.close()


@pytest.mark.parametrize("content", [b"", b"nonsense" * 1_000, b"SQLite format 3\0" + b"\xff" * 8_000])
def test_a_file_that_is_no_index_is_made_anew(garden: Garden, content: bytes) -> None:
    garden.index.mkdir(parents=True)
    (garden.index / store.FILE).write_bytes(content)
    search = garden.search()

    assert found(search, bed(3)) == {"3.txt"}
    search.close()


def test_an_index_that_breaks_while_it_is_open_is_made_anew(garden: Garden) -> None:
    search = garden.search()
    search.build()
    search.close()
    path = garden.index / store.FILE
    data = bytearray(path.read_bytes())
    data[4_096:] = os.urandom(len(data) - 4_096)
    path.write_bytes(data)

    again = garden.search()

    assert found(again, bed(3)) == {"3.txt"}
    assert found(again, bed(3)) == {"3.txt"}
    again.close()


def write_rows(garden: Garden) -> None:
    """Write what Carrel never writes, as a fault of the disk may do."""
    with closing(sqlite3.connect(garden.index / store.FILE)) as connection:
        connection.execute("UPDATE documents SET lines_each = 'x'")
        connection.commit()


def copy_an_old_index_over_it(garden: Garden) -> None:
    """Write an older state into the file, as a program for backups does, and delete the journal of the new one."""
    data = (garden.index.parent / "backup.db").read_bytes()
    with (garden.index / store.FILE).open("r+b") as file:
        file.write(data)
        file.truncate()
    for ending in ("-wal", "-shm"):
        (garden.index / f"{store.FILE}{ending}").unlink()


def put_an_old_index_in_its_place(garden: Garden) -> None:
    """Replace the file by an older state."""
    (garden.index.parent / "backup.db").replace(garden.index / store.FILE)


def write_nonsense(garden: Garden) -> None:
    """Write over the file."""
    (garden.index / store.FILE).write_bytes(os.urandom(20_000))


@pytest.mark.parametrize("harm", [write_rows, copy_an_old_index_over_it, put_an_old_index_in_its_place, write_nonsense])
def test_an_index_that_is_harmed_under_a_server_is_opened_anew_by_the_next_search(
    garden: Garden, harm: Callable[[Garden], None]
) -> None:
    search = garden.search()
    until(partial(lacks_all, search._keeper))
    search.build()
    with closing(sqlite3.connect(garden.index / store.FILE)) as connection:
        connection.execute("VACUUM INTO ?", (str(garden.index.parent / "backup.db"),))
    garden.write(3, "melons")
    assert found(search, "melons") == {"3.txt"}
    search._keeper.store._index._finder._living = None  # type: ignore[union-attr]

    harm(garden)

    assert found(search, "melons") == {"3.txt"}
    assert found(search, bed(3)) == set()
    assert len(found(search, "tomatoes")) == 29
    garden.write(4, "melons")
    assert found(search, "/elon/") == {"3.txt", "4.txt"}
    search.close()


def test_a_place_that_cannot_be_written_leaves_the_index_in_memory(garden: Garden) -> None:
    garden.index.parent.mkdir(parents=True)
    garden.index.write_text("a file stands where the folder should be")
    search = garden.search()

    assert found(search, bed(3)) == {"3.txt"}
    garden.write(3, "melons")
    assert found(search, "melons") == {"3.txt"}
    assert search.facts()["problems"]
    search.close()
    assert garden.index.read_text().startswith("a file")


def test_a_full_disk_leaves_changes_in_memory(garden: Garden, monkeypatch: pytest.MonkeyPatch) -> None:
    search = garden.search()
    assert found(search, bed(3)) == {"3.txt"}
    put = Index.put

    def full(self: Index, *given: object, **named: object) -> None:
        if self.path != ":memory:":
            raise IndexUnavailable("full")
        put(self, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Index, "put", full)
    garden.write(3, "melons")
    assert found(search, "melons") == {"3.txt"}
    assert found(search, bed(3)) == set()
    garden.write(3, "pumpkins")
    assert (found(search, "melons"), found(search, "pumpkins")) == (set(), {"3.txt"})
    assert "full" in str(search.facts()["problems"])

    monkeypatch.setattr(Index, "put", put)
    garden.write(4, "melons")
    assert found(search, "melons") == {"4.txt"}
    assert found(search, "pumpkins") == {"3.txt"}
    (garden.root / "3.txt").unlink()
    assert found(search, "pumpkins") == set()
    search.close()


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_a_disk_that_really_is_full_does_not_stop_a_search(garden: Garden) -> None:
    garden.index.mkdir(parents=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(garden.index)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.xfail("this machine does not let root mount")
    try:
        for number in range(60):
            garden.write(number, f"{bed(number)} " + " ".join(word("word", more) for more in range(3_000)))
        search = garden.search()
        assert found(search, bed(7)) == {"7.txt"}
        garden.write(7, "melons")
        assert found(search, "melons") == {"7.txt"}
        search.close()
    finally:
        subprocess.run(["umount", "-l", str(garden.index)], check=False)


@pytest.mark.slow
def test_an_index_that_another_process_locks_is_waited_for_only_a_moment(garden: Garden) -> None:
    search = garden.search()
    assert found(search, bed(3)) == {"3.txt"}
    other = sqlite3.connect(garden.index / store.FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    garden.write(3, "melons")

    started = time.monotonic()
    assert found(search, "melons") == {"3.txt"}
    assert time.monotonic() - started < 20

    other.execute("ROLLBACK")
    other.close()
    search.close()


def test_two_searches_share_one_index_and_see_each_others_edits(garden: Garden) -> None:
    one, other = garden.search(), garden.search()
    for number in range(10):
        garden.write(number, word("melon", number))
        assert found(one if number % 2 else other, word("melon", number)) == {f"{number}.txt"}
        assert found(other if number % 2 else one, word("melon", number)) == {f"{number}.txt"}
        assert found(one, bed(number)) == found(other, bed(number)) == set()
    one.close()
    other.close()


def lacking(keeper: Keeper) -> list[Document]:
    """Return the documents that the index lacks."""
    with keeper.lock:
        keeper.refresh(frozenset({"workspace"}), time.monotonic() + 60)
        return list(keeper.pending.values())


def lacks_all(keeper: Keeper) -> bool:
    """Return whether the index lacks every file, and all are old enough for their times to tell the next change."""
    return [document.settled for document in lacking(keeper)] == [True] * 30


def test_one_of_several_builders_completes_the_index_and_the_others_use_what_it_wrote(
    garden: Garden, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builder, "OTHERS_S", 0.01)
    searches = [garden.search() for _ in range(4)]
    for one in searches:  # each knows what the index lacks
        until(partial(lacks_all, one._keeper))

    with ThreadPoolExecutor(4) as threads:
        covered = list(threads.map(Search.build, searches))

    with closing(sqlite3.connect(garden.index / store.FILE)) as connection:
        (written,) = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'documents'").fetchone()
    assert ([str(one) for one in covered], written) == (["all of 30 documents"] * 4, 30)
    for one in searches:
        one.close()


def test_an_edit_that_another_process_overwrites_with_what_it_read_before_is_found(garden: Garden) -> None:
    one, slow = garden.search(), garden.search()
    keeper = slow._keeper
    early = [text for document in lacking(keeper) if (text := keeper.read(document)) is not None]
    garden.write(3, "melons")
    assert found(one, "melons") == {"3.txt"}

    keeper.put(early)

    assert found(one, "melons") == {"3.txt"}
    assert found(one, bed(3)) == set()
    one.close()
    slow.close()


@pytest.mark.slow
def test_a_large_project_is_answered_in_part_and_completed_in_the_background(tmp_path: Path) -> None:
    garden = Garden(tmp_path, 0)
    for number in range(150):
        garden.write(number, f"{bed(number)} " + "tomatoes and basil\n" * 3_000)
    garden.write(1_000, "melons")
    search = garden.search()
    told: list[tuple[float, float | None, str | None]] = []

    answer = search.search(SearchRequest("tomatoes"), lambda *one: told.append(one), within_s=0.01)

    assert answer.coverage.is_partial
    assert str(answer.coverage).startswith("partial: ")
    assert told
    until(lambda: not search.search(SearchRequest("melons"), within_s=5.0).coverage.is_partial, 60)
    assert search.search(SearchRequest("melons")).coverage.total == 151
    assert found(search, "melons") == {"1000.txt"}
    search.close()


def test_documents_past_a_limit_are_left_out_and_that_is_said(garden: Garden) -> None:
    search = garden.search(SearchSettings(max_documents=Ceiling(10)))
    search.build()

    answer = search.search(SearchRequest("tomatoes", limit=100))

    assert len(answer.hits) <= 12
    assert answer.coverage.is_partial
    assert answer.is_total_least
    assert any("max_documents" in note for note in answer.notes)
    search.close()


def test_what_is_indexed_later_counts_once_towards_a_limit(garden: Garden) -> None:
    search = garden.search(SearchSettings(max_documents=Ceiling(50)))
    search.build()
    for number in range(30, 50):
        garden.write(number, bed(number))

    answer = search.search(SearchRequest(bed(49)))

    assert ([hit.base for hit in answer.hits], answer.coverage.is_partial) == (["workspace:///49.txt"], False)
    search.close()


def test_a_command_that_completes_the_index_makes_one_anew_that_is_mostly_of_deleted_texts(
    garden: Garden, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = garden.search()
    first.build()
    for number in range(30):
        garden.write(number, "melons")
    assert len(found(first, "melons")) == 30
    until(lambda: all(document.settled for document in lacking(first._keeper)))
    first.close()
    monkeypatch.setattr(index, "_FEW_DEAD", 20)

    command = garden.search()
    command.build()

    assert len(found(command, "melons")) == 30
    command.close()
    with closing(sqlite3.connect(garden.index / store.FILE)) as connection:
        assert connection.execute("SELECT count(*) FROM dead").fetchone() == (0,)


def test_a_search_that_was_closed_can_be_closed_again(garden: Garden) -> None:
    search = garden.search()
    found(search, bed(1))
    search.close()
    search.close()


def test_a_search_that_comes_while_a_server_closes_leaves_nothing_open(garden: Garden) -> None:
    search, late = garden.search(), LazySearch(garden.search)
    assert found(search, bed(1)) == {"1.txt"}
    search.close()
    late.close()

    answers = [one.search(SearchRequest(bed(1))) for one in (search, late.opened())]

    assert [(answer.hits, answer.is_total_least) for answer in answers] == [((), True), ((), True)]
    # The journal is there as long as the index is open.
    assert {path.name for path in garden.index.iterdir()} == {"index.db", "index.db.lock", "users.lock"}
    assert found(garden.search(), bed(1)) == {"1.txt"}


BUILDING = """
import os, sys
from carrel.catalog.catalog import Catalog
from carrel.core.provider import Project
from carrel.providers.workspace import Workspace
from carrel.search.search import Search
import carrel.search.builder, carrel.search.index_file, carrel.search.keeper
root, index = sys.argv[1:]
while sys.stdin.readline():
    child = os.fork()
    if not child:
        search = Search(Catalog((Workspace(Project(root, {"HOME": root})),)), index)
        print(os.getpid(), flush=True)
        search.build()
        search.close()
        os._exit(0)
    sys.stdin.readline()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Forks a builder for each line, since importing everything anew takes longest; after the next line it waits for it."""


class Builders:
    """Processes that build an index, one after the other."""

    def __init__(self, garden: Garden) -> None:
        command = [sys.executable, "-c", BUILDING, str(garden.root), str(garden.index)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def kill_one(self, after_s: float) -> None:
        """Start a builder, and kill it some time after it began, unless it has ended by itself."""
        pid = int(self._say("build"))
        time.sleep(after_s)
        os.kill(pid, signal.SIGKILL)
        assert self._say("wait") in ("-9\n", "0\n")

    def _say(self, word: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()


def kill_while_building(garden: Garden, times: int, seed: int) -> None:
    """Have processes build an index, kill each at some moment, and look at what is there."""
    chance = random.Random(seed)
    builders = Builders(garden)
    with builders.process:
        for turn in range(times):
            kill_one_builder(garden, builders, turn, chance)


def kill_one_builder(garden: Garden, builders: Builders, turn: int, chance: random.Random) -> None:
    """Write files, kill a builder of their index at some moment, and look at what is there."""
    for number in range(0, 30, 3):
        garden.write(number, f"{bed(number)} {word('turn', turn)} " + "tomatoes " * chance.randrange(2_000))
    builders.kill_one(chance.random() * 0.12)
    search = garden.search()
    for number in (0, 3, 4, 27, 29):
        assert found(search, bed(number)) == {f"{number}.txt"}
    assert found(search, word("turn", turn)) == {f"{number}.txt" for number in range(0, 30, 3)}
    if turn:
        assert found(search, word("turn", turn - 1)) == set()
    search.close()


@pytest.mark.slow
def test_an_index_whose_builder_is_killed_is_whole_or_made_anew(garden: Garden) -> None:
    kill_while_building(garden, 4, 1)


@pytest.mark.slow
@pytest.mark.parametrize("quarter", range(4))
def test_two_hundred_killed_builders_leave_nothing_wrong(garden: Garden, quarter: int) -> None:
    kill_while_building(garden, 50, 2 + quarter)
