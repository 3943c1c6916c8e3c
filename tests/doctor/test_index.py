"""Faults of the search index: damaged, stale, too small, open to others."""

import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from carrel.doctor import index
from carrel.doctor.checks import Check
from carrel.doctor.processes import servers_of
from tests.support.doctor import Ward

WEEK_S = 7 * 86_400


@pytest.fixture(name="built")
def built_index(ward: Ward) -> Path:
    """Return the folder of an index of one document."""
    ward.write(ward.project / "a.md", "# Apples\n")
    setup = ward.setup()
    try:
        assert setup.desk is not None
        assert setup.desk.server.search is not None
        setup.desk.server.search.opened().build()
        assert setup.index_folder is not None
        return Path(setup.index_folder)
    finally:
        setup.close()


@pytest.mark.parametrize("check", index.CHECKS, ids=lambda one: one.id)
def test_a_fresh_index_has_no_faults(ward: Ward, built: Path, check: Check) -> None:
    assert (built / "index.db").exists()
    assert ward.find(check) == []


def test_a_damaged_index_is_moved_away_and_not_touched_before(ward: Ward, built: Path) -> None:
    file = built / "index.db"
    file.write_bytes(b"no database")

    assert ward.one(index.index_broken).state == "problem"
    assert ward.find(index.index_coverage) == []
    assert file.read_bytes() == b"no database"
    assert ward.fix(index.index_broken) == []
    assert (built / "index.db.broken").exists()


def test_an_index_whose_pages_are_damaged_is_found(ward: Ward, built: Path) -> None:
    file = built / "index.db"
    content = file.read_bytes()
    file.write_bytes(content[:100] + bytes(len(content) - 100))

    assert ward.one(index.index_broken).state == "problem"


def make_old(built: Path) -> None:
    for file in built.iterdir():
        os.utime(file, (file.stat().st_mtime - WEEK_S,) * 2)


def test_an_index_that_is_a_week_older_than_a_file_is_noted_and_brought_up_to_date(ward: Ward, built: Path) -> None:
    make_old(built)
    ward.write(ward.project / "b.md", "# Pears\n")

    found = ward.one(index.index_stale)

    assert found.state == "note"
    assert found.message == (
        "the search index is 7 days older than workspace:///b.md, and no server keeps it up to date"
    )
    assert ward.fix(index.index_stale) == []
    with closing(sqlite3.connect(built / "index.db")) as connection:
        assert connection.execute("SELECT count(*) FROM documents WHERE uri LIKE '%b.md'").fetchone() == (1,)


def test_an_index_that_another_process_has_open_is_not_stale(ward: Ward, built: Path) -> None:
    make_old(built)
    ward.write(ward.project / "b.md", "# Pears\n")
    script = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); print(c.execute('SELECT count(*) FROM documents')"
    script += ".fetchone(), flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", script, str(built / "index.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        reader.stdout.readline()
        make_old(built)
        found = ward.find(index.index_stale)
        reader.communicate()

    assert found == []
    make_old(built)
    assert len(ward.find(index.index_stale)) == 1


def test_an_index_that_may_hold_fewer_documents_than_there_are_is_noted(ward: Ward) -> None:
    ward.write(ward.user_file, "[search]\nmax_documents = 1\n")
    for name in ("a", "b", "c"):
        ward.write(ward.project / f"{name}.md", f"# {name}\n")
    setup = ward.setup()
    assert setup.desk is not None
    assert setup.desk.server.search is not None
    setup.desk.server.search.opened().build()
    setup.close()

    found = ward.one(index.index_coverage)
    assert found.state == "note"
    assert " documents indexed, " in found.message


def test_a_folder_of_the_index_that_others_can_change_is_closed(ward: Ward, built: Path) -> None:
    built.chmod(0o777)

    assert ward.one(index.index_folder).state == "note"
    assert ward.fix(index.index_folder) == []
    assert stat.S_IMODE(built.stat().st_mode) == 0o755


def test_an_index_is_not_stale_while_a_server_runs(ward: Ward, built: Path) -> None:
    make_old(built)
    ward.write(ward.project / "b.md", "# Pears\n")
    # A server that the doctor itself started does not count, so a shell is between.
    command = ["/bin/sh", "-c", '"$0" -m carrel serve; true', sys.executable]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stderr=pipe, cwd=ward.project, env=ward.environment) as shell:
        assert shell.stderr is not None
        shell.stderr.readline()
        running, elsewhere = servers_of(str(ward.project)), servers_of(str(ward.home))
        found = ward.find(index.index_stale)
        shell.communicate()

    assert (len(running), elsewhere, found) == (1, [], [])
