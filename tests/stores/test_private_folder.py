"""Private folders: readable by the user alone, and removed whatever happens to their process."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from carrel.stores.private_folder import YOUNG_S, PrivateFolder

HOLD = """
import sys, time
from carrel.stores.private_folder import PrivateFolder
folder = PrivateFolder("x")
print(folder.path, flush=True)
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def age(path: Path) -> None:
    """Have a folder be old."""
    past = path.stat().st_mtime - YOUNG_S - 1
    os.utime(path, (past, past))


def test_a_folder_is_private_and_removed_when_it_is_closed() -> None:
    folder = PrivateFolder("x")
    path = Path(folder.path)
    (path / "a").write_text("1")

    assert path.stat().st_mode & 0o777 == 0o700
    folder.close()
    folder.close()
    assert not path.exists()


def test_what_a_killed_process_left_is_removed_and_what_a_live_one_uses_is_not(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    held = Path(process.stdout.readline().strip())
    own = PrivateFolder("x")
    for path in (held, Path(own.path)):
        age(path)

    PrivateFolder("x").close()
    assert held.exists()
    assert Path(own.path).exists()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert held.exists()
    PrivateFolder("x").close()

    assert not held.exists()
    assert list(tmp_path.iterdir()) == [Path(own.path)]
    own.close()


def test_a_young_folder_a_file_and_a_link_are_left_alone(tmp_path: Path) -> None:
    young, file, target, link = (tmp_path / name for name in ("carrel-x-1", "carrel-x-2", "other", "carrel-x-3"))
    young.mkdir()
    file.write_text("1")
    target.mkdir()
    link.symlink_to(target)
    age(target)
    age(file)

    PrivateFolder("x").close()

    assert sorted(tmp_path.iterdir()) == sorted([young, file, target, link])
