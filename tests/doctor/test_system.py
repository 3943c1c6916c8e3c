"""Faults of the system: made with permissions, times and limits; a full disk at the call that asks for its size."""

import errno
import os
import resource
import stat
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from carrel.doctor import system
from carrel.doctor.checks import Check
from tests.support.doctor import Ward


@pytest.mark.parametrize("check", system.CHECKS, ids=lambda one: one.id)
def test_a_sound_machine_has_no_faults(ward: Ward, check: Check) -> None:
    assert ward.find(check) == []


@pytest.fixture(name="read_only")
def read_only_home(ward: Ward) -> Iterator[Ward]:
    ward.home.chmod(0o500)
    yield ward
    ward.home.chmod(0o700)


def test_a_home_that_cannot_be_written_is_a_problem_and_is_fixed(read_only: Ward) -> None:
    found = read_only.one(system.home)

    assert (found.state, found.message) == ("problem", "~ cannot be written: settings cannot be kept")
    assert read_only.fix(system.home) == []
    assert stat.S_IMODE(read_only.home.stat().st_mode) == 0o700


def test_a_file_where_a_folder_should_be_is_a_problem(ward: Ward) -> None:
    ward.write(ward.home / ".config", "")

    assert ward.one(system.home).message == "~/.config is not a folder: settings cannot be kept"


def disk(**facts: int) -> Any:
    """Return a function that says how much room a disk has."""
    sound = {"f_bavail": 1 << 20, "f_frsize": 4_096, "f_files": 1_000_000, "f_favail": 900_000, "f_flag": 0}
    return lambda _path: cast("os.statvfs_result", SimpleNamespace(**{**sound, **facts}))


def test_a_disk_that_is_full_is_a_problem(ward: Ward) -> None:
    setup = ward.setup()
    setup.free_of = disk(f_bavail=2_560)

    [found] = system.disk.find(setup)
    assert (found.state, found.message) == ("problem", f"the disk of {ward.project} (the project) has 10 MB left")


def test_a_disk_without_room_for_files_is_a_problem(ward: Ward) -> None:
    setup = ward.setup()
    setup.free_of = disk(f_favail=3)

    [found] = system.disk.find(setup)
    assert found.message.endswith("has room for 3 more files")


def test_a_read_only_file_system_is_a_problem(ward: Ward) -> None:
    setup = ward.setup()
    setup.free_of = disk(f_flag=os.ST_RDONLY)

    [found] = system.home.find(setup)
    assert found.message == "~ is on a read-only file system: settings cannot be kept"


@pytest.mark.parametrize(
    ("method", "number", "told"),
    [("add", errno.ENOSPC, "fs.inotify.max_user_watches"), ("__init__", errno.EMFILE, "fs.inotify.max_user_instances")],
)
def test_watches_that_are_used_up_are_noted(
    ward: Ward, monkeypatch: pytest.MonkeyPatch, method: str, number: int, told: str
) -> None:
    def fails(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(f"carrel.providers.workspace.inotify.Inotify.{method}", fails)

    found = ward.one(system.watches)
    assert (found.state, told in found.message) == ("note", True)


def test_a_clock_that_is_behind_is_a_problem(ward: Ward) -> None:
    setup = ward.setup()
    setup.now_s = lambda: 1_000_000_000.0

    [found] = system.clock.find(setup)
    assert found.state == "problem"
    assert found.message.startswith("it is 2001-09-09 01:46 UTC, and ")


def test_a_file_from_the_future_is_named(ward: Ward) -> None:
    file = ward.write(ward.project / "a.md", "")
    os.utime(file, (4_000_000_000, 4_000_000_000))

    assert f"{file} was changed on 2096-10-02" in ward.one(system.clock).message


def test_a_low_limit_of_open_files_is_noted(ward: Ward) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    try:
        found = ward.one(system.open_files)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert found.message.startswith("a process may open 200 files")
