"""The tokens' file: written whole, by one at a time, for the user alone."""

import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from hmac import compare_digest
from pathlib import Path

import pytest

from carrel.catalog.access import Access
from carrel.files.atomic import locked, replace_private
from carrel.transports.http.tokens import Keyring, Token, TokenStore
from tests.support.waiting import PATIENCE_S

WRITERS = 6
ADDED = 5

ADD = f"""
import sys
from carrel.transports.http.tokens import TokenStore

store = TokenStore({{"XDG_STATE_HOME": sys.argv[1]}})
print("ready", flush=True)
sys.stdin.readline()
for number in range({ADDED}):
    store.add(f"{{sys.argv[2]}}-{{number}}", None)
print(store.local()[0])
"""


def store_in(folder: Path) -> TokenStore:
    return TokenStore({"XDG_STATE_HOME": str(folder)})


@pytest.mark.slow
def test_tokens_that_many_processes_add_at_once_are_all_kept(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", ADD, str(tmp_path), f"writer{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(WRITERS)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [process.communicate(timeout=PATIENCE_S)[0] for process in processes]

    wanted = {f"writer{writer}-{number}" for writer in range(WRITERS) for number in range(ADDED)}
    assert [process.returncode for process in processes] == [0] * WRITERS
    assert {token.name for token in store_in(tmp_path).all()} == wanted
    assert set(said) == {store_in(tmp_path).local()[0] + "\n"}


def test_everything_is_for_the_user_alone_and_nothing_is_left_over(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.local()
    store.add("one", frozenset({"shelf:read"}))
    store.add("two", None)
    store.revoke("one")

    folder = tmp_path / "carrel"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.iterdir()]}
    assert modes == {
        "carrel": 0o700,
        "local-token": 0o600,
        "local-token.lock": 0o600,
        "tokens.json": 0o600,
        "tokens.json.lock": 0o600,
    }


def test_a_text_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    replace_private(str(path), "old")

    with pytest.raises(UnicodeEncodeError):
        replace_private(str(path), "new \ud800")

    assert (path.read_text(encoding="utf-8"), list(tmp_path.iterdir())) == ("old", [path])


def test_a_file_with_a_wider_mode_becomes_private(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    path.write_text("old", encoding="utf-8")
    path.chmod(0o644)

    with locked(str(path)):
        replace_private(str(path), "new")

    assert (path.read_text(encoding="utf-8"), stat.S_IMODE(path.stat().st_mode)) == ("new", 0o600)


def test_a_folder_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o755)

    with locked(str(folder / "kept.json")):
        replace_private(str(folder / "kept.json"), "text")

    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


def test_who_comes_while_the_tokens_are_read_for_the_first_time_waits_for_them(tmp_path: Path) -> None:
    is_read, gate = threading.Event(), threading.Event()

    class Slow(TokenStore):
        def all(self) -> list[Token]:
            is_read.set()
            gate.wait(PATIENCE_S)
            return super().all()

    keyring = Keyring(Slow({"XDG_STATE_HOME": str(tmp_path)}), "the local one")
    with ThreadPoolExecutor() as pool:
        first = pool.submit(keyring.find, "the local one")
        assert is_read.wait(PATIENCE_S)
        second = pool.submit(keyring.find, "the local one")
        wait([second], 0.05)
        gate.set()
        assert [one.result(PATIENCE_S) for one in (first, second)] == [Access("local")] * 2


@pytest.mark.parametrize("which", ["first", "last", "unknown"])
def test_every_token_is_compared_in_constant_time_whichever_is_meant(
    which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_in(tmp_path)
    added = [store.add(f"t{number}", None) for number in range(4)]
    keyring = Keyring(store, store.local()[0])
    compared: list[str] = []

    def compare(known: str, given: str) -> bool:
        compared.append(known)
        return compare_digest(known, given)

    monkeypatch.setattr("carrel.transports.http.tokens.compare_digest", compare)
    found = keyring.find({"first": added[0], "last": added[-1], "unknown": "carrel_none"}[which])

    assert (found is None) == (which == "unknown")
    assert len(compared) == len(set(compared)) == 5
    assert not set(compared) & set(added), "tokens themselves are not kept"
