"""Repairs change what they say, and lose nothing."""

import stat
from pathlib import Path

import pytest

from carrel.doctor.repairs import moved_away, with_mode, without_mode


@pytest.fixture(name="file")
def file_of_mine(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_text("text", encoding="utf-8")
    path.chmod(0o644)
    return path


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_permissions_are_taken_and_the_others_stay(file: Path) -> None:
    repair = without_mode(str(file), stat.S_IRWXO, "chmod o-rwx file")

    repair.do()

    assert (mode_of(file), repair.what, repair.needs_consent) == (0o640, "chmod o-rwx file", False)


def test_permissions_are_given_and_the_others_stay(file: Path) -> None:
    with_mode(str(file), stat.S_IXUSR, "chmod u+x file").do()

    assert mode_of(file) == 0o744


def test_the_mode_is_that_of_the_moment_of_the_repair(file: Path) -> None:
    repair = without_mode(str(file), stat.S_IWUSR, "chmod u-w file")
    file.chmod(0o700)

    repair.do()

    assert mode_of(file) == 0o500


def test_a_file_that_is_moved_away_replaces_no_earlier_one(file: Path, tmp_path: Path) -> None:
    for text in ("first", "second", "third"):
        file.write_text(text, encoding="utf-8")
        moved_away(str(file), "~/file").do()

    assert {one.name: one.read_text() for one in tmp_path.iterdir()} == {
        "file.broken": "first",
        "file.broken-2": "second",
        "file.broken-3": "third",
    }


def test_a_file_that_is_gone_by_then_is_an_error_of_the_system(file: Path) -> None:
    repair = moved_away(str(file), "~/file")
    file.unlink()

    with pytest.raises(FileNotFoundError):
        repair.do()
    assert repair.what == "rename ~/file to file.broken"
