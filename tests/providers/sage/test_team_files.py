"""The memory in the team's store: what is particular to it. Tests of reading run with it too."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from carrel.app.app import open_desk
from carrel.app.config import load
from carrel.catalog.catalog import Catalog
from carrel.cli import main
from carrel.client.client import Client
from carrel.core.errors import RemoteError
from carrel.core.provider import Project
from carrel.core.store_address import parse_address
from carrel.providers.sage import Sage
from carrel.providers.sage.team_files import TeamFiles, uri_of
from carrel.stores.database import Database
from carrel.stores.documents import documents_since, writing_documents
from carrel.stores.outbox import changes_since
from carrel.stores.shared import acquire, release
from tests.providers.sage.test_saving import data_of, error_of
from tests.support.gate import Gate
from tests.support.postgres import PostgresServer
from tests.support.sage_folder import lay_out, push, read
from tests.support.waiting import until

CHECKPOINT = {"core_question": "Why?", "thesis": "Because", "confidence": 0.5}


@pytest.fixture(name="database")
def empty_database(store_url: str) -> Iterator[Database]:
    database = acquire(parse_address(store_url))
    database.prepare()
    yield database
    release(database)


@pytest.fixture(name="replica")
def replica_maker(database: Database, tmp_path: Path) -> Iterator[Callable[[], Sage]]:
    """Return a function that makes one more replica, in a folder of its own."""
    made: list[Sage] = []

    def make() -> Sage:
        folder = tmp_path / f"replica{len(made)}"
        folder.mkdir()
        environment = {"HOME": str(folder)}
        made.append(Sage(Project(str(folder), environment, store=database.address), tools="write", search="bm25"))
        return made[-1]

    yield make
    for sage in made:
        sage.close()


def names(database: Database) -> list[str]:
    """Return the names of the documents."""
    return sorted(one.name for one in documents_since(database, "sage", -1)[0] if one.data is not None)


def entries(sage: Sage) -> list[str]:
    """Return the URIs that are listed."""
    return [entry.uri for entry in sage.entries()]


# Replicas


def test_what_one_replica_saves_every_other_serves_at_once(replica: Callable[[], Sage]) -> None:
    first, second = replica(), replica()
    assert entries(second) == []

    saved = data_of(first, "sage_save_checkpoint", **CHECKPOINT)
    data_of(first, "sage_save_knowledge", id="cats", content="Cats purr.", keywords=["cats"])
    failure = {"approach": "Ask dogs", "why_failed": "They bark", "learned": "Ask cats", "keywords": ["dogs"]}
    data_of(first, "sage_record_failure", id="dogs", **failure)
    data_of(first, "sage_write_system", filename="objective.md", content="# Purr\n")

    assert (
        entries(second)
        == entries(first)
        == [
            "sage://system/objective.md",
            saved["uri"],
            "sage://knowledge/cats",
            "sage://failure/dogs",
        ]
    )
    for uri in entries(first):
        mine, yours = Catalog([first]).read(uri), Catalog([second]).read(uri)
        assert (mine.etag, mine.items, mine.last_modified_ms) == (yours.etag, yours.items, yours.last_modified_ms)
    assert "Purr" in second.instructions()
    found = data_of(second, "sage_recall_knowledge", query="cats")
    assert [one["id"] for one in found["results"]] == ["cats"]


def test_nothing_is_written_to_the_project(replica: Callable[[], Sage], tmp_path: Path, database: Database) -> None:
    sage = replica()
    saved = data_of(sage, "sage_save_checkpoint", **CHECKPOINT)

    assert list((tmp_path / "replica0").iterdir()) == []
    assert names(database) == [saved["path"]] == [f"checkpoints/{saved['id']}.md"]


def test_a_folder_of_the_project_is_not_served(database: Database, tmp_path: Path) -> None:
    lay_out(tmp_path)
    with closing(Sage(Project(str(tmp_path), {}, store=database.address))) as sage:
        assert entries(sage) == []


def test_names_that_are_taken_get_a_number_and_a_file_is_replaced_only_if_allowed(replica: Callable[[], Sage]) -> None:
    first, second = replica(), replica()
    data_of(first, "sage_write_system", filename="a.md", content="One.")

    message = error_of(second, "sage_write_system", filename="a.md", content="Two.", overwrite=False)
    assert message == ("File exists: a.md", "invalid")
    assert read(second, "sage://system/a.md") == "One."
    data_of(second, "sage_write_system", filename="a.md", content="Two.")
    assert read(first, "sage://system/a.md") == "Two."


@pytest.mark.slow
def test_many_replicas_that_save_at_once_lose_nothing(replica: Callable[[], Sage], database: Database) -> None:
    replicas = [replica() for _ in range(4)]

    def save(number: int) -> None:
        sage = replicas[number % 4]
        data_of(sage, "sage_save_knowledge", id=f"k{number}", content=f"Fact {number}.", keywords=["fact"])
        data_of(sage, "sage_save_checkpoint", **CHECKPOINT)

    with ThreadPoolExecutor(8) as savers:
        list(savers.map(save, range(24)))

    [index] = [one.data for one in documents_since(database, "sage", -1)[0] if one.name == "knowledge/index.yaml"]
    assert index is not None
    assert sorted(item["id"] for item in yaml.safe_load(index)["items"]) == sorted(f"k{n}" for n in range(24))
    assert len([name for name in names(database) if name.startswith("checkpoints/")]) == 24
    assert len(entries(replicas[0])) == 48


def test_what_is_removed_from_the_store_is_gone_from_every_replica(
    replica: Callable[[], Sage], database: Database
) -> None:
    sage = replica()
    data_of(sage, "sage_write_system", filename="a.md", content="One.")
    assert entries(sage) == ["sage://system/a.md"]
    with writing_documents(database, "sage") as writer:
        writer.put("system/a.md", None)

    assert entries(sage) == []


def test_the_fingerprint_of_the_list_changes_with_a_write_of_another_replica(replica: Callable[[], Sage]) -> None:
    first, second = replica(), replica()
    before = second.list_fingerprint()
    assert second.list_fingerprint() == before

    data_of(first, "sage_write_system", filename="a.md", content="One.")

    assert second.list_fingerprint() != before


def test_every_save_is_recorded_with_its_uri(replica: Callable[[], Sage], database: Database) -> None:
    sage = replica()
    with database.connection() as connection:
        token = changes_since(connection, "").token
    data_of(sage, "sage_save_knowledge", id="cats", content="Cats purr.", keywords=["cats"])
    data_of(sage, "sage_write_system", filename="pinned/a.md", content="One.")

    with database.connection() as connection:
        found = changes_since(connection, token).uris
    assert sorted(found) == [("sage", "sage://knowledge/cats"), ("sage", "sage://system/pinned/a.md")]


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        (("checkpoints", "2026_x.md"), "sage://checkpoint/2026_x"),
        (("knowledge", "skills", "s", "k.md"), "sage://knowledge/k"),
        (("failures", "f.md"), "sage://failure/f"),
        (("system", "pinned", "a b.md"), "sage://system/pinned/a%20b.md"),
    ],
)
def test_a_file_belongs_to_a_resource(path: tuple[str, ...], uri: str) -> None:
    assert uri_of(path) == uri


def test_an_index_that_does_not_parse_is_never_replaced(replica: Callable[[], Sage], database: Database) -> None:
    with writing_documents(database, "sage") as writer:
        writer.put("knowledge/index.yaml", b"items: [")

    message, kind = error_of(replica(), "sage_save_knowledge", id="cats", content="Cats purr.", keywords=["cats"])

    assert kind == "unreadable"
    assert str(message).startswith("Error writing cats: index.yaml is ")
    assert names(database) == ["knowledge/index.yaml"]


def test_the_mirror_is_private_and_removed_at_the_end(database: Database) -> None:
    with writing_documents(database, "sage") as writer:
        writer.put("system/a.md", b"One.")
    files = TeamFiles(database.address)
    files.refresh()
    folder = Path(files.folder)

    assert (folder / "system/a.md").read_bytes() == b"One."
    assert (folder.stat().st_mode & 0o777, (folder / "system/a.md").stat().st_mode & 0o777) == (0o700, 0o600)
    files.close()
    files.close()
    assert not folder.exists()


# Outages


def test_a_desk_without_its_database_says_so_and_recovers(
    unused_port: int, postgres: PostgresServer, database: Database, tmp_path: Path
) -> None:
    push(lay_out(tmp_path / "other") / ".sage", database)
    (tmp_path / "desk").mkdir()
    with Gate(unused_port, postgres.folder / ".s.PGSQL.5432") as gate:
        environment = {"HOME": str(tmp_path), "CARREL_STORE_URL": gate.url(database.address.url)}
        desk = open_desk(load(str(tmp_path / "desk"), {**environment, "CARREL_SAGE_TOOLS": "write"}))
        with Client.to(desk.server) as client:
            assert client.read("sage://system/objective.md").error is None
            gate.shut()

            assert _error(client) == "unavailable"
            failed = client.call("sage_write_system", {"filename": "a.md", "content": "A"})
            assert (failed.is_error, failed.blocks) == (True, ("The store cannot be reached now; try again later",))
            assert client.request("resources/list", {})["resources"]
            gate.open()

            assert until(lambda: _error(client) is None)
            assert not client.call("sage_write_system", {"filename": "a.md", "content": "A"}).is_error
        desk.close()


def _error(client: Client) -> str | None:
    try:
        client.read("sage://system/objective.md")
    except RemoteError as error:
        return error.word
    return None


# Commands


def test_commands_read_and_write_the_store(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CARREL_STORE_URL", store_url)

    def run(*words: str) -> Any:
        code = main(["sage", *words])
        return code, capfd.readouterr().out

    code, out = run("save-knowledge", "cats", "--keyword", "cats", "--content", "Cats purr.")
    assert (code, out) == (0, "sage://knowledge/cats\n")
    assert run("ls")[1].split()[0] == "sage://knowledge/cats"
    assert "Cats purr." in run("show", "knowledge/cats")[1]
    assert not (tmp_path / ".sage").exists()
    monkeypatch.setenv("CARREL_STORE_URL", "postgresql://ann:s3cret@no-such-host.invalid/team")
    assert main(["sage", "ls"]) == 2
    assert capfd.readouterr().err == (
        "carrel: the store no-such-host.invalid/team cannot be found: check the name of the host\n"
    )
