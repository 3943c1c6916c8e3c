"""The state of an index is seen without opening it, and without changing it."""

from pathlib import Path

import pytest

from carrel.doctor.index_state import look_at
from carrel.search.index import Index


@pytest.fixture(name="folder")
def index_folder(tmp_path: Path) -> Path:
    Index(str(tmp_path / "private/index.db")).close()
    return tmp_path / "private"


def everything(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {one.name: (one.read_bytes(), one.stat().st_mtime_ns) for one in folder.iterdir()}


def test_there_may_be_no_index(tmp_path: Path) -> None:
    assert look_at(None) is None
    assert look_at(str(tmp_path)) is None


def test_a_sound_index_is_neither_broken_nor_changed(folder: Path) -> None:
    before = everything(folder)

    state = look_at(str(folder))

    assert state is not None
    assert (state.is_broken, state.is_in_use, state.path) == (False, False, str(folder / "index.db"))
    assert state.written_s == max(one.stat().st_mtime for one in folder.iterdir() if one.name.startswith("index.db"))
    assert everything(folder) == before


@pytest.mark.parametrize(
    ("content", "is_broken"),
    [(b"", False), (b"text", True), (b"SQLite format 3\0", True), (b"SQLite format 3\0" + bytes(4_080), True)],
)
def test_what_is_no_index_is_broken_and_an_empty_file_is_one_that_is_being_made(
    folder: Path, content: bytes, is_broken: bool
) -> None:
    (folder / "index.db").write_bytes(content)

    state = look_at(str(folder))

    assert state is not None
    assert state.is_broken == is_broken
    assert (folder / "index.db").read_bytes() == content
