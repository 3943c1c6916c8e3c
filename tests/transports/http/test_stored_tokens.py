"""Tokens in the team's store: one `carrel token add` for every replica, and one `revoke`."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from carrel.catalog.access import Access
from carrel.catalog.groups import Groups, GroupSettings
from carrel.core.errors import ConfigError
from carrel.core.store_address import parse_address
from carrel.stores.database import Database
from carrel.stores.feed import ChangeFeed
from carrel.stores.token_table import TokenTable
from carrel.transports.http import tokens as token_files
from carrel.transports.http.stored_tokens import StoredTokens
from carrel.transports.http.tokens import Keyring
from tests.support.waiting import until


@pytest.fixture(name="database")
def prepared_database(store_url: str) -> Iterator[Database]:
    with closing(Database(parse_address(store_url))) as database:
        database.prepare()
        yield database


def stored(database: Database, folder: Path) -> StoredTokens:
    return StoredTokens({"XDG_STATE_HOME": str(folder)}, TokenTable(database))


def test_a_token_is_kept_as_a_hash_and_named_once(database: Database, tmp_path: Path) -> None:
    tokens = stored(database, tmp_path)
    secret = tokens.add("ci", frozenset({"logs:write"}))

    with pytest.raises(ConfigError, match="there is a token 'ci' already"):
        tokens.add("ci", None)
    [kept] = stored(database, tmp_path / "other").all()
    assert (kept.name, kept.scopes) == ("ci", ("logs:write",))
    with database.connection() as connection:
        [row] = connection.execute("SELECT * FROM carrel_tokens").fetchall()
    assert secret not in repr(row)
    assert (tokens.revoke("ci"), tokens.revoke("ci"), tokens.all()) == (True, False, [])


def test_a_token_without_permissions_differs_from_one_with_all(database: Database, tmp_path: Path) -> None:
    tokens = stored(database, tmp_path)
    tokens.add("all", None)
    tokens.add("none", frozenset())

    assert {one.name: one.scopes for one in tokens.all()} == {"all": None, "none": ()}


def test_every_replica_learns_of_tokens_that_are_added_and_revoked(
    database: Database, store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_files, "_LOOK_S", 0.0)
    groups = Groups([GroupSettings(["ci"], ["workspace:///docs/:read"])])
    with closing(Database(parse_address(store_url))) as elsewhere, closing(ChangeFeed(elsewhere)) as feed:
        tokens = stored(elsewhere, tmp_path)
        feed.add(tokens.hear)
        feed.start()
        tokens.begin()
        keyring = Keyring(tokens, None, groups)

        secret = stored(database, tmp_path).add("ci", frozenset({"logs:write"}))
        found = until(lambda: keyring.find(secret), 30)
        assert found == Access("token ci", frozenset({"logs:write", "workspace:///docs/:read"}))

        stored(database, tmp_path).revoke("ci")
        until(lambda: keyring.find(secret) is None, 30)


def test_known_tokens_stay_valid_while_the_store_is_away(
    database: Database, store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_files, "_LOOK_S", 0.0)
    tokens = stored(database, tmp_path)
    secret = tokens.add("ci", None)
    tokens.begin()
    keyring = Keyring(tokens, None)
    with psycopg.connect(store_url, autocommit=True) as admin:
        admin.execute("ALTER TABLE carrel_tokens RENAME TO hidden")

    assert keyring.find(secret) == Access("token ci")


@pytest.mark.slow
def test_the_command_works_on_the_store_of_the_configuration(
    database: Database, store_url: str, tmp_path: Path
) -> None:
    home = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path), "CARREL_STORE_URL": store_url}

    def carrel(*words: str, **more: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "carrel", "token", *words]
        environment = {**os.environ, **home, **more}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    secret = carrel("add", "ci", "--scope", "logs:write").stdout.strip()
    [kept] = stored(database, tmp_path).all()
    assert secret.startswith("carrel_")
    assert kept.name == "ci"
    assert "ci" in carrel("list").stdout
    assert carrel("revoke", "ci").returncode == 0
    assert stored(database, tmp_path).all() == []
    away = carrel("list", CARREL_STORE_URL="postgresql://u:secret@127.0.0.1:9/x")
    assert away.returncode == 2
    assert "secret" not in away.stderr
