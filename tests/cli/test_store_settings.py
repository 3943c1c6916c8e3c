"""`[store] url`: where it may be set, that it is never shown, and how a command ends that cannot use it."""

import json
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from carrel.app.app import open_desk
from carrel.app.config import load
from carrel.cli import main
from carrel.core.errors import ConfigError
from carrel.core.store_address import parse_address
from carrel.stores.database import Database
from tests.stores.test_database import ALL_RIGHTS, NO_RIGHTS, READ_ONLY, fill_disk, prepared_for, run
from tests.support.command_line import Run
from tests.support.postgres import PostgresServer
from tests.support.trusting import trust

URL = "postgresql://ann:s3cret@db.example.org/team"
SHOWN = "postgresql://…@db.example.org/team"


@pytest.fixture(name="project", autouse=True)
def project_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "library"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "CARREL_STORE_URL"):
        monkeypatch.delenv(name, raising=False)
    return folder


def test_a_project_file_names_a_store_only_with_trust(project: Path, tmp_path: Path) -> None:
    file = project / "carrel.toml"
    file.write_text(f'[store]\nurl = "{URL}"\n', encoding="utf-8")
    environment = {"HOME": str(tmp_path / "home")}

    before = load(str(project), environment)
    trust(file, environment)
    after = load(str(project), environment).store()

    note = "[store] url in carrel.toml is not in effect: it names a place outside the project"
    assert (before.store(), before.notes) == (None, (f"{note}; run `carrel trust` to allow it",))
    assert after is not None
    assert after.url == URL


def test_a_project_file_changes_how_long_the_audit_record_is_kept_only_with_trust(
    project: Path, tmp_path: Path
) -> None:
    file = project / "carrel.toml"
    file.write_text("[store]\naudit_days = 1\n", encoding="utf-8")
    environment = {"HOME": str(tmp_path / "home")}

    before = load(str(project), environment)
    trust(file, environment)
    after = load(str(project), environment)

    assert (before.audit_days(), after.audit_days()) == (90, 1)
    assert "audit_days in carrel.toml is not in effect" in before.notes[0]
    with pytest.raises(ConfigError, match=r"CARREL_STORE_AUDIT_DAYS: \[store\] audit_days: expected .* got 0"):
        load(str(project), {**environment, "CARREL_STORE_AUDIT_DAYS": "0"}).audit_days()


def test_the_environment_and_the_users_file_name_a_store(project: Path, tmp_path: Path) -> None:
    file = tmp_path / "home/.config/carrel/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text('[store]\nurl = "postgresql://db/users"\n', encoding="utf-8")
    environment = {"HOME": str(tmp_path / "home")}

    by_file = load(str(project), environment).store()
    by_environment = load(str(project), {**environment, "CARREL_STORE_URL": URL}).store()

    assert (repr(by_file), repr(by_environment)) == (
        "StoreAddress('db/users')",
        "StoreAddress('db.example.org/team')",
    )


def test_a_wrong_url_is_refused_with_its_origin_and_without_its_text(project: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        open_desk(load(str(project), {"CARREL_STORE_URL": "mysql://ann:s3cret@db/team"}))

    assert str(refused.value) == (
        "CARREL_STORE_URL: [store] url: expected a URL such as postgresql://user@host:5432/database"
    )


def test_a_value_of_another_type_is_not_repeated(project: Path) -> None:
    (project / "carrel.toml").write_text(f'[store]\nurl = ["{URL}"]\n', encoding="utf-8")

    with pytest.raises(ConfigError) as refused:
        load(str(project), {"HOME": "/nowhere"})

    assert "s3cret" not in str(refused.value)
    assert "[store] url: expected" in str(refused.value)


def test_no_command_shows_the_password(
    project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (project / "carrel.toml").write_text(f'[store]\nurl = "{URL}"\n', encoding="utf-8")

    assert main(["config", "show"]) == 0
    assert main(["trust"]) == 0
    assert main(["config", "get", "store.url"]) == 0
    assert main(["config", "show", "--origin"]) == 0
    assert main(["config", "show", "--json"]) == 0
    assert main(["config", "set", "store.url", URL.replace("team", "crew")]) == 0
    seen = capfd.readouterr()

    assert "s3cret" not in seen.out + seen.err
    assert seen.out.count(SHOWN) == 4
    assert SHOWN.replace("team", "crew") in seen.out
    assert "s3cret" in (project / "carrel.toml").read_text(encoding="utf-8")


def test_a_wrong_url_is_not_written(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "set", "store.url", "http://ann:s3cret@db"]) == 2

    assert "s3cret" not in capfd.readouterr().err
    assert not (project / "carrel.toml").exists()


@pytest.mark.parametrize("words", [["ls"], ["config", "validate"], ["serve", "--http", "0"], ["serve"]])
def test_a_store_that_cannot_be_reached_ends_a_command_with_code_2(
    words: list[str], unused_port: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CARREL_STORE_URL", f"postgresql://ann:s3cret@127.0.0.1:{unused_port}/team")

    assert main(words) == 2

    assert capfd.readouterr().err == (
        f"carrel: the store 127.0.0.1:{unused_port}/team cannot be reached: is Postgres running there?\n"
    )


def test_a_desk_says_which_store_it_uses_and_closes_it(
    store_url: str, project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CARREL_STORE_URL", store_url)

    assert main(["config", "validate", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["notes"] == []

    desk = open_desk(load(str(project), {"CARREL_STORE_URL": store_url}))
    assert desk.store is not None
    assert desk.store.generation("scopes") == 0
    desk.close()


# A store that answers, but refuses

SAVE = ["sage", "save-knowledge", "a", "--keyword", "k", "--content", "c"]
WRITES = [["scopes", "create", "T"], ["token", "add", "ci"], SAVE, ["store", "copy", "local", "URL"]]


def refused(words: list[str], url: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> str:
    """Run a command that the store refuses; return its only line, without the name of the program and of the store."""
    Path(".sage/system").mkdir(parents=True, exist_ok=True)
    Path(".sage/system/a.md").write_text("A", encoding="utf-8")

    code = main([url if word == "URL" else word for word in words])

    shown = capfd.readouterr()
    assert (code, shown.out, caplog.messages) == (2, "", [])
    before, _, sentence = shown.err.partition(f"the store {parse_address(url).shown} ")
    assert before in ("carrel: ", "Error: ")
    return sentence


@pytest.mark.parametrize("words", [*WRITES, ["serve"], ["serve", "--http", "0"], ["ls"]])
def test_a_user_who_may_only_read_the_tables_ends_a_command_with_code_2(
    words: list[str],
    postgres: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with prepared_for(postgres, "GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}") as url:
        monkeypatch.setenv("CARREL_STORE_URL", url)

        assert refused(words, url, caplog, capfd) == f"{NO_RIGHTS}\n"


@pytest.mark.parametrize("words", [*WRITES, ["serve", "--http", "0"]])
def test_a_write_without_the_rights_to_its_table_ends_a_command_with_code_2(
    words: list[str],
    postgres: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    grants = "SELECT ON ALL TABLES IN SCHEMA public", "UPDATE ON carrel_generations", "INSERT ON carrel_outbox"
    with prepared_for(postgres, *(f"GRANT {one} TO {{role}}" for one in grants)) as url:
        monkeypatch.setenv("CARREL_STORE_URL", url)

        assert refused(words, url, caplog, capfd) == f"{NO_RIGHTS}\n"


STARTS = [["serve"], ["serve", "--http", "0"], ["scopes", "list"], ["sage", "ls"], ["token", "list"], WRITES[-1]]


@pytest.mark.parametrize("words", STARTS)
@pytest.mark.parametrize(
    "fault",
    [
        ("DROP TABLE carrel_audit", "lacks the table carrel_audit: restore it from a backup\n"),
        ("ALTER DATABASE {database} SET default_transaction_read_only = on", f"{READ_ONLY}\n"),
    ],
)
def test_a_store_without_a_table_or_where_nothing_can_be_written_ends_every_start_with_code_2(
    words: list[str],
    fault: tuple[str, str],
    postgres: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with prepared_for(postgres, ALL_RIGHTS) as url:
        database = str(psycopg.conninfo.conninfo_to_dict(url)["dbname"])
        statement, sentence = fault
        run(postgres.url_of(database), statement.format(database=database))
        monkeypatch.setenv("CARREL_STORE_URL", url)

        assert refused(words, url, caplog, capfd) == sentence


@pytest.mark.parametrize("words", [*WRITES, ["serve", "--http", "0"]])
def test_a_full_disk_ends_a_command_with_code_2(
    words: list[str],
    store_url: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CARREL_STORE_URL", store_url)
    with closing(Database(parse_address(store_url))) as store:
        store.prepare()
    fill_disk(store_url, "carrel_outbox", "carrel_secrets")

    assert refused(words, store_url, caplog, capfd) == "has no room left: its disk is full\n"


NOTE = (
    "[store] url in carrel.toml is not in effect: it names a place outside the project; run `carrel trust` to allow it"
)


@pytest.mark.parametrize(
    "words",
    [
        ["scopes", "create", "Paint the fence"],
        ["scopes", "status", "a", "DONE"],
        ["sage", "init"],
        ["sage", "record-failure", "one"],
        ["token", "add", "ann"],
        ["token", "revoke", "ann"],
    ],
)
def test_a_command_writes_nothing_while_the_store_of_the_project_needs_trust(
    project: Path, words: list[str], run: Run
) -> None:
    (project / "carrel.toml").write_text(f'[store]\nurl = "{URL}"\n', encoding="utf-8")

    ran = run(*words)

    assert (ran.code, ran.out) == (2, "")
    assert f"nothing was written: {NOTE}, or name the store in CARREL_STORE_URL (an empty one" in ran.err
    assert [path.name for path in project.parent.rglob("*") if path.is_file()] == ["carrel.toml"]


@pytest.mark.parametrize("words", [["scopes", "list"], ["sage", "ls"], ["token", "list"], ["ls"], ["search", "fence"]])
def test_a_command_that_reads_says_once_that_the_store_of_the_project_needs_trust(
    project: Path, words: list[str], run: Run
) -> None:
    (project / "carrel.toml").write_text(f'[store]\nurl = "{URL}"\n', encoding="utf-8")

    ran = run(*words)

    assert ran.code in (0, 1)
    assert ran.err.count(f"carrel: {NOTE}\n") == 1


def test_a_store_in_the_environment_or_a_file_needs_no_word_about_the_one_of_the_project(
    project: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    (project / "carrel.toml").write_text(f'[store]\nurl = "{URL}"\n', encoding="utf-8")

    assert run("scopes", "--db", "other.db", "create", "Paint the fence")[::2] == (0, "")
    monkeypatch.setenv("CARREL_STORE_URL", "")
    assert run("scopes", "create", "Paint the fence")[::2] == (0, "")
    assert run("token", "add", "ann")[::2] == (0, "")


def test_a_command_says_which_roots_need_trust_and_nothing_about_settings_that_it_does_not_use(
    project: Path, run: Run
) -> None:
    settings = (
        '[workspace.roots]\ndocs = "s3://team/docs"\n[http]\nport = 8001\n[groups.a]\nmembers = ["a"]\nallow = []\n'
    )
    (project / "carrel.toml").write_text(settings, encoding="utf-8")

    listed, overview = run("ls"), run()

    note = "[workspace] roots in carrel.toml is not in effect: it names a place outside the project"
    assert (listed.code, listed.err) == (0, f"carrel: {note}; run `carrel trust` to allow it\n")
    assert (overview.code, overview.err) == (0, "")
    assert "[workspace] roots in carrel.toml is not in effect" in overview.out


# The bus

BUS = "nats://ann:s3cret@bus.example.org"


def test_a_project_file_names_a_bus_only_with_trust(project: Path, tmp_path: Path) -> None:
    file = project / "carrel.toml"
    file.write_text(f'[bus]\nurl = "{BUS}"\nsubject = "our.desk"\n', encoding="utf-8")
    environment = {"HOME": str(tmp_path / "home"), "CARREL_STORE_URL": URL}

    before = load(str(project), environment)
    trust(file, environment)
    after = load(str(project), environment).store()

    note = "[bus] url in carrel.toml is not in effect: it names a place outside the project"
    assert before.notes == (f"{note}; run `carrel trust` to allow it",)
    assert before.store() is not None
    assert before.store().bus is None  # type: ignore[union-attr]
    assert after is not None
    assert repr(after.bus) == "BusAddress('bus.example.org:4222')"
    assert after.bus is not None
    assert after.bus.subject == "our.desk"


def test_the_login_of_a_bus_is_never_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("CARREL_STORE_URL", URL)
    monkeypatch.setenv("CARREL_BUS_URL", BUS)

    assert main(["config", "show", "--origin"]) == 0

    shown = capsys.readouterr().out
    assert "nats://…@bus.example.org:4222" in shown
    assert "s3cret" not in shown
