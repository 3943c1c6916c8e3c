"""Faults of the installation: each is made with real files, as far as a machine allows."""

import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from carrel.core.version import __version__
from carrel.doctor import installation
from carrel.doctor.checks import Check
from tests.support.doctor import Ward


def test_a_python_that_is_too_old_is_a_problem(ward: Ward) -> None:
    setup = ward.setup()
    setup.python_version = (3, 9, 2)

    [found] = installation.python.find(setup)
    assert (found.state, found.message) == ("problem", "Python 3.9.2 is too old: Carrel needs 3.11 or newer")


def test_a_python_that_was_removed_is_a_problem(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(ward.home / "venv/bin/python"))

    assert ward.one(installation.python).message.endswith("was removed: ~/venv/bin/python")


def test_a_command_that_is_not_on_path_is_linked_where_it_is_found(ward: Ward) -> None:
    ward.environment["PATH"] = "/usr/bin:/bin"
    assert ward.one(installation.command).repair is None

    ward.environment["PATH"] = f"{ward.home}/.local/bin:/usr/bin:/bin"
    assert ward.one(installation.command).state == "note"
    assert ward.fix(installation.command) == []
    assert (ward.home / ".local/bin/carrel").resolve() == Path(sys.executable).parent.resolve() / "carrel"


def script(ward: Ward, *, interpreter: str = "/bin/sh", body: str = "") -> Path:
    return ward.write(ward.bin / "carrel", f"#!{interpreter}\n{body}\n", 0o755)


def test_a_command_whose_python_is_gone_is_a_problem(ward: Ward) -> None:
    script(ward, interpreter=f"{ward.home}/gone/python")

    found = ward.one(installation.command_broken)
    assert found.message == f"{ward.bin}/carrel needs ~/gone/python, which is not there"
    assert ward.find(installation.command_version) == []


def test_a_command_that_fails_is_a_problem(ward: Ward) -> None:
    script(ward, body="exit 3")

    assert ward.one(installation.command_broken).message == f"{ward.bin}/carrel, the first on PATH, does not start"


def test_a_command_of_another_version_is_noted(ward: Ward) -> None:
    script(ward, body="echo carrel, version 0.0.1")

    found = ward.one(installation.command_version)
    assert found.message == f"{ward.bin}/carrel on PATH is Carrel 0.0.1, this one is {__version__}"
    assert ward.find(installation.command_broken) == []


def test_a_command_that_hides_another_is_noted(ward: Ward) -> None:
    script(ward, body=f"echo carrel, version {__version__}")

    found = ward.one(installation.command_shadowed)
    assert found.message.startswith(f"several carrel are on PATH; {ward.bin}/carrel is used, not ")
    assert ward.find(installation.command_version) == []


@pytest.mark.parametrize(
    "check", [installation.command, installation.command_broken, installation.command_version], ids=lambda one: one.id
)
def test_our_own_command_has_no_fault(ward: Ward, check: Check) -> None:
    assert ward.find(check) == []


def test_a_package_of_the_wrong_version_is_a_problem(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ward.home / "site"
    ward.write(folder / "click-7.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: click\nVersion: 7.0\n")
    assert ward.find(installation.dependencies) == []
    monkeypatch.syspath_prepend(str(folder))

    found = ward.one(installation.dependencies)
    assert found.message == "click 7.0 is installed; Carrel needs click >=8.1"


def test_a_package_that_is_missing_is_a_problem(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ward.home / "site"
    ward.write(
        folder / "carrel-9.dist-info/METADATA",
        "Metadata-Version: 2.1\nName: carrel\nVersion: 9\n"
        "Requires-Dist: no-such-package[part]>=1\n"
        "Requires-Dist: x; extra == 'y'\nRequires-Dist: z[part]>=1; extra == 'y'\n",
    )
    monkeypatch.syspath_prepend(str(folder))

    found = ward.one(installation.dependencies)
    assert found.message == "no-such-package is not installed; Carrel needs no-such-package >=1"


def test_an_installation_in_a_cache_is_noted(ward: Ward) -> None:
    setup = ward.setup()
    setup.prefix = str(ward.home / ".cache/uv/archive-v0/abc")

    [found] = installation.temporary.find(setup)
    assert "~/.cache/uv/archive-v0/abc, which is temporary" in found.message


def test_a_python_without_full_text_search_is_a_problem(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    class Poor(sqlite3.Connection):
        """A connection to an SQLite that was built without FTS5."""

        def execute(self, sql: str, *given: Any) -> sqlite3.Cursor:
            return super().execute(sql.replace("fts5", "no_such_module"), *given)

    assert ward.find(installation.sqlite) == []
    whole = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda path: whole(path, factory=Poor))

    assert "has no FTS5" in ward.one(installation.sqlite).message
