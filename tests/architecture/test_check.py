"""The fast loop runs every test once, and fails when any part of it does."""

import sys
from pathlib import Path

import pytest

from scripts import in_memory
from scripts.check import BIN, PYTEST, ROOT, Step, check, folders_of_tests, parts

ELSEWHERE = ("browser", "conformance", "e2e", "fuzz", "hostile", "hosts")


def test_every_file_with_tests_is_in_exactly_one_part() -> None:
    tests = ROOT / "tests"
    dealt = [folder for part in parts(folders_of_tests(tests, ELSEWHERE), 8) for folder in part]
    held = [file for folder in dealt for file in (folder.rglob("test_*.py") if folder.is_dir() else [folder])]
    wanted = [file for file in tests.rglob("test_*.py") if file.relative_to(tests).parts[0] not in ELSEWHERE]

    assert sorted(held) == sorted(wanted)


def test_what_is_left_out_is_named_as_it_is_in_the_makefile() -> None:
    [line] = [line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith("ELSEWHERE := ")]

    assert tuple(line.split()[2:]) == ELSEWHERE
    assert all((ROOT / "tests" / name).is_dir() for name in ELSEWHERE)


def test_parts_are_of_about_one_size_and_the_largest_is_first() -> None:
    sizes = {Path(name): size for name, size in {"a": 9, "b": 5, "c": 4, "d": 3, "e": 1}.items()}

    assert parts(sizes, 2) == [[Path("a"), Path("d")], [Path("b"), Path("c"), Path("e")]]
    assert parts({Path("a"): 1}, 8) == [[Path("a")]]


def test_one_step_that_fails_fails_all_and_shows_what_it_said(capfd: pytest.CaptureFixture[str]) -> None:
    good = Step("good", (sys.executable, "-c", "print('1 passed')"))
    bad = Step("bad", (sys.executable, "-c", "print('why'); print('1 failed'); raise SystemExit(3)"))

    assert check([good], 2) == 0
    assert check([good, bad, good], 2) == 1
    shown = capfd.readouterr().out
    assert "why\n1 failed\n" in shown
    assert shown.endswith("FAILED  bad\n")


@pytest.mark.slow
def test_a_part_without_tests_fails(tmp_path: Path) -> None:
    (tmp_path / "test_empty.py").write_text("", encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\n", encoding="utf-8")

    words = ("-c", str(tmp_path / "pytest.ini"), str(tmp_path))
    assert check([Step("empty", (str(BIN / "pytest"), *PYTEST, *words))], 1) == 1


@pytest.mark.parametrize(("least_free", "is_there"), [(0, True), (1 << 60, False)])
def test_temporary_files_are_kept_in_memory_if_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least_free: int, is_there: bool
) -> None:
    monkeypatch.setattr(in_memory, "LEAST_FREE", least_free)
    shown = tmp_path / "shown"
    code = f"import pathlib, sys, tempfile; pathlib.Path({str(shown)!r}).write_text(tempfile.gettempdir()); sys.exit(3)"

    assert in_memory.run([sys.executable, "-c", code], tmp_path) == 3

    assert Path(shown.read_text()).is_relative_to(tmp_path) is is_there
    assert list(tmp_path.iterdir()) == [shown]
