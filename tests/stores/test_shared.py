"""One database for each address in a process; nothing is imported without one."""

import subprocess
import sys
from pathlib import Path

import pytest

from carrel.core.errors import ConfigError
from carrel.core.store_address import parse_address
from carrel.stores import shared


def test_users_of_one_address_share_a_database_until_the_last_gives_it_back(store_url: str) -> None:
    address = parse_address(store_url)
    first, second = shared.acquire(address), shared.acquire(address)
    assert first is second

    shared.release(first)
    assert shared.acquire(address) is first
    shared.release(first)
    shared.release(first)
    fresh = shared.acquire(address)

    assert fresh is not first
    shared.release(fresh)


def test_a_missing_package_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "carrel.stores.database", None)

    with pytest.raises(ConfigError) as refused:
        shared.acquire(parse_address("postgresql://ann:s3cret@db/team"))

    assert (
        str(refused.value)
        == "[store] url needs packages that are not installed: pipx install --force '.[team]' in a checkout of Carrel"
    )


def test_a_desk_without_a_store_imports_nothing_of_it(tmp_path: Path) -> None:
    script = """
import os, sys
from carrel.app.app import open_desk
from carrel.app.config import load
desk = open_desk(load(sys.argv[1], os.environ))
desk.catalog.read("carrel://guide")
desk.close()
print(sorted(name for name in sys.modules if name.startswith(("psycopg", "carrel.stores", "obstore"))))
"""
    (tmp_path / ".sage").mkdir()
    environment = {"HOME": str(tmp_path), "PATH": ""}
    words = [sys.executable, "-c", script, str(tmp_path)]
    ran = subprocess.run(words, capture_output=True, text=True, check=True, env=environment, timeout=60)

    assert ran.stdout == "[]\n"
