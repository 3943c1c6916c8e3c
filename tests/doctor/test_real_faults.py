"""Faults that need a machine of their own: made in a user namespace, and found by the real command.

A namespace has its own file systems and its own limits, and needs no privileges.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CARREL = f"'{sys.executable}' -m carrel doctor --json"


def examined(script: str, home: Path, project: Path) -> dict[str, list[dict[str, Any]]]:
    """Run a script in a namespace; return the faults that `carrel doctor` finds at its end, by the id of the check."""
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-Urm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system gives no user namespaces")
    ran = subprocess.run(
        [unshare, "-Urm", "/bin/sh", "-ec", f"{script}\n{CARREL} || true"],
        cwd=project,
        env={"HOME": str(home), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin:/usr/sbin:/sbin"},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, list[dict[str, Any]]] = {}
    for one in json.loads(ran.stdout):
        if one["state"] != "ok":
            found.setdefault(one["id"], []).append(one)
    return found


@pytest.fixture(name="home")
def home_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture(name="project")
def project_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.md").write_text("# A\n", encoding="utf-8")
    return folder


@pytest.mark.slow
def test_a_home_on_a_full_disk_is_found(home: Path, project: Path) -> None:
    found = examined(
        f"mount -t tmpfs -o size=1m none '{home}'\nhead -c 900000 /dev/zero > '{home}/full'", home, project
    )

    [disk] = found["disk"]
    assert disk["state"] == "problem"
    assert disk["message"].endswith(" has 0 MB left")


@pytest.mark.slow
def test_a_home_that_is_mounted_read_only_is_found(home: Path, project: Path) -> None:
    found = examined(f"mount -t tmpfs -o ro none '{home}'", home, project)

    [fault] = found["home"]
    assert fault["message"].startswith("~ is on a read-only file system: ")


@pytest.mark.slow
def test_watches_that_are_really_used_up_are_found(home: Path, project: Path) -> None:
    found = examined("echo 0 > /proc/sys/user/max_inotify_watches", home, project)

    [fault] = found["watches"]
    assert fault["message"] == "no file events: all watches of this user are used (fs.inotify.max_user_watches)"


@pytest.mark.slow
def test_queues_of_watches_that_are_really_used_up_are_found(home: Path, project: Path) -> None:
    found = examined("echo 0 > /proc/sys/user/max_inotify_instances", home, project)

    [fault] = found["watches"]
    assert fault["message"] == "no file events: all queues of this user are used (fs.inotify.max_user_instances)"
