"""What is known of a program before it is started."""

import os
import sys
from pathlib import Path

import pytest

from carrel.core.version import __version__
from carrel.doctor import programs
from carrel.doctor.programs import is_ours, missing_interpreter, version_of
from tests.support.doctor import Ward

OURS = str(Path(sys.executable).parent / "carrel")


def test_our_own_command_is_ours_and_tells_our_version() -> None:
    assert is_ours(OURS)
    assert missing_interpreter(OURS) == ""
    assert version_of([sys.executable, "-m", "carrel"]) == __version__


@pytest.mark.parametrize(
    ("text", "missing"),
    [("#!/bin/sh\n", ""), ("#!/opt/gone/python -s\n", "/opt/gone/python"), ("\x7fELF", ""), ("", ""), ("#!\n", "")],
)
def test_a_script_names_its_interpreter(ward: Ward, text: str, missing: str) -> None:
    program = str(ward.write(ward.bin / "carrel", text, 0o755))

    assert (missing_interpreter(program), is_ours(program)) == (missing, False)


def test_what_is_no_file_is_not_opened(ward: Ward) -> None:
    os.mkfifo(ward.bin / "carrel")

    assert (missing_interpreter(str(ward.bin / "carrel")), is_ours(str(ward.bin))) == ("", False)


def test_a_program_that_is_not_there_has_no_interpreter() -> None:
    assert (missing_interpreter("/opt/gone/carrel"), is_ours("/opt/gone/carrel")) == ("", False)


@pytest.mark.parametrize(
    ("body", "version"),
    [
        ("echo carrel, version 1.2.3", "1.2.3"),
        ("echo 1.2.3rc1", "1.2.3rc1"),
        ("echo none", ""),
        ("echo 1.2.3; exit 1", ""),
        ("read line; echo 1.2.3", "1.2.3"),
    ],
)
def test_a_version_is_what_a_command_prints(ward: Ward, body: str, version: str) -> None:
    program = ward.write(ward.bin / "carrel", f"#!/bin/sh\n{body}\n", 0o755)

    assert version_of([str(program)]) == version


def test_a_command_that_never_ends_tells_no_version(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "VERSION_S", 0.1)
    program = ward.write(ward.bin / "carrel", "#!/bin/sh\nexec sleep 600\n", 0o755)

    assert version_of([str(program)]) == ""


def test_a_command_that_cannot_be_started_tells_no_version() -> None:
    assert version_of(["/opt/gone/carrel"]) == ""
