"""`carrel token`: what is printed, and which permissions a token has."""

import json
from pathlib import Path

import pytest

from carrel.catalog.access import Access
from carrel.catalog.groups import Groups, GroupSettings
from carrel.transports.http.tokens import Keyring, TokenStore
from tests.support.command_line import Run


@pytest.fixture(name="state", autouse=True)
def state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def test_a_token_without_permissions_may_do_what_its_groups_allow(state: Path, run: Run) -> None:
    added = run("token", "add", "ann", "--scope", "none")
    listed = run("token", "list").out
    groups = Groups([GroupSettings(["ann"], ["scopes:read"])])
    store = TokenStore({"XDG_STATE_HOME": str(state)})

    assert (added.code, added.err) == (0, "")
    assert "none (only those of its groups)" in listed
    assert json.loads(run("token", "list", "--json").out)[0]["scopes"] == []
    secret = added.out.strip()
    assert Keyring(store, None).find(secret) == Access("token ann", frozenset())
    assert Keyring(store, None, groups).find(secret) == Access("token ann", frozenset({"scopes:read"}))


def test_json_tells_a_token_without_permissions_from_one_with_all(run: Run) -> None:
    added = [
        json.loads(run("token", "add", name, *options, "--json").out)["scopes"]
        for name, options in (("a", ()), ("b", ("--scope", "none")), ("c", ("--scope", "logs:write")))
    ]

    assert added == [None, [], ["logs:write"]]


def test_none_stands_alone(run: Run) -> None:
    ran = run("token", "add", "ann", "--scope", "none", "--scope", "logs:write")

    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "carrel: --scope none stands alone: leave it out, or the other scopes\n"
    assert run("token", "list", "--json").out == "[]\n"
