"""A database of records: its schema, its transactions, and what happens when it cannot be used."""

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from carrel.core.errors import ConfigError
from carrel.core.store_address import StoreAddress, parse_address
from carrel.stores import database as databases
from carrel.stores import outage as outages
from carrel.stores.database import Database
from carrel.stores.migrations import MIGRATIONS, VERSION
from carrel.stores.store_errors import StoreBusy, StoreUnavailable
from tests.support.gate import Gate
from tests.support.old_postgres import old_postgres, other_program, refusing_postgres
from tests.support.postgres import PostgresServer, fresh_database, fresh_role
from tests.support.waiting import until

SECONDS = 20.0
NO_RIGHTS = (
    "does not give this user the rights: let it create tables in its schema, "
    "or SELECT, INSERT, UPDATE and DELETE in its tables"
)
READ_ONLY = "is read-only: name the primary server, or see default_transaction_read_only"
ALL_RIGHTS = "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}"
FULL_HOUSE = (
    "has no connection free: raise max_connections or the limit of this user or database, or run fewer replicas"
)


@pytest.fixture(name="store")
def prepared_store(store_url: str) -> Iterator[Database]:
    with closing(Database(parse_address(store_url))) as store:
        store.prepare()
        yield store


def rows(url: str, statement: str) -> list[tuple[object, ...]]:
    """Return what a query gives on a connection of its own."""
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(statement.encode()).fetchall()


def run(url: str, *statements: str) -> None:
    """Run statements on a connection of its own."""
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def refusal(url: str) -> str:
    """Return the sentence with which a store is refused at the start."""
    with closing(Database(parse_address(url))) as store, pytest.raises(ConfigError) as refused:
        store.prepare()
    return str(refused.value)


def fill_disk(url: str, *tables: str) -> None:
    """Make every new row of the tables fail as it does on a full disk."""
    run(
        url,
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$",
        *(
            f"CREATE TRIGGER full_disk BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION full_disk()"
            for table in tables
        ),
    )


@contextmanager
def prepared_for(server: PostgresServer, *grants: str) -> Iterator[str]:
    """Yield the URL of a store that exists, for a user with these rights only."""
    with fresh_database(server) as url:
        with closing(Database(parse_address(url))) as owner:
            owner.prepare()
        with fresh_role(server, url, *grants) as role:
            yield url.replace("postgres@", f"{role}@")


# The schema


@pytest.mark.parametrize("lost", ["", " WHERE kind = 'logs'"])
def test_a_store_without_its_generations_is_named_at_the_start_and_at_a_call(
    store_url: str, store: Database, lost: str
) -> None:
    run(store_url, f"DELETE FROM carrel_generations{lost}")

    assert refusal(store_url) == (
        f"the store {store.address.shown} lacks rows of its table carrel_generations: restore it from a backup"
    )
    with pytest.raises(StoreUnavailable, match="lacks rows") as refused, store.writing("logs", SECONDS):
        pytest.fail("a write without a generation")
    assert refused.value.detail == refusal(store_url)
    with pytest.raises(StoreUnavailable, match="lacks rows"):
        store.generation("logs")


def test_an_empty_database_gets_the_present_schema(store_url: str, store: Database) -> None:
    assert rows(store_url, "SELECT version FROM carrel_schema") == [(VERSION,)]
    store.prepare()

    assert rows(store_url, "SELECT version FROM carrel_schema") == [(VERSION,)]


@pytest.mark.slow
def test_many_processes_that_start_at_once_migrate_once(store_url: str) -> None:
    def start(_: int) -> None:
        with closing(Database(parse_address(store_url))) as one:
            one.prepare()

    with ThreadPoolExecutor(8) as starting:
        list(starting.map(start, range(8)))

    assert rows(store_url, "SELECT version FROM carrel_schema") == [(VERSION,)]
    assert rows(store_url, "SELECT count(*) FROM carrel_generations") == [(3,)]


def test_a_start_waits_a_limited_time_for_another_that_migrates(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "MIGRATE_S", 0.05)
    with psycopg.connect(store_url) as other:
        other.execute("SELECT pg_advisory_lock(%s)", (databases._LOCK_KEY,))
        shown = parse_address(store_url).shown

        assert refusal(store_url) == f"the store {shown} is busy: another program keeps it waiting; try again"


def test_an_older_schema_is_brought_up_to_date_and_keeps_its_records(store_url: str) -> None:
    first = MIGRATIONS[0]
    run(store_url, "CREATE TABLE carrel_schema (version integer NOT NULL)", "INSERT INTO carrel_schema VALUES (1)")
    run(store_url, *first, "UPDATE carrel_generations SET generation = 7 WHERE kind = 'scopes'")

    with closing(Database(parse_address(store_url))) as store:
        store.prepare()

        assert store.generation("scopes") == 7
    assert rows(store_url, "SELECT version FROM carrel_schema") == [(VERSION,)]


@pytest.mark.parametrize(
    "statement", ["UPDATE carrel_schema SET version = 999", "INSERT INTO carrel_schema VALUES (999)"]
)
def test_a_newer_schema_is_refused_and_left_alone(store_url: str, store: Database, statement: str) -> None:
    store.close()
    run(store_url, statement)

    assert refusal(store_url) == (
        f"the store {parse_address(store_url).shown} has schema version 999; "
        f"this Carrel knows versions up to {VERSION}: update Carrel"
    )
    assert (999,) in rows(store_url, "SELECT version FROM carrel_schema")


def test_an_empty_table_of_the_version_is_refused_and_the_records_stay(store_url: str, store: Database) -> None:
    store.close()
    run(store_url, "DELETE FROM carrel_schema")

    assert refusal(store_url) == (
        f"the store {parse_address(store_url).shown} has tables but no version: its table carrel_schema is empty; "
        "restore it from a backup"
    )
    assert rows(store_url, "SELECT count(*) FROM carrel_generations") == [(3,)]


def test_a_migration_that_fails_leaves_nothing_behind(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = (*MIGRATIONS, ("CREATE TABLE carrel_half (a int)", "SELECT 1 / 0"))
    monkeypatch.setattr(databases, "MIGRATIONS", broken)
    monkeypatch.setattr(databases, "VERSION", len(broken))

    assert refusal(store_url).endswith("failed (SQLSTATE 22012)")
    assert rows(store_url, "SELECT to_regclass('carrel_schema'), to_regclass('carrel_half')") == [(None, None)]


# Bad input: one sentence each, and no secret


def test_an_unreachable_host_is_one_sentence(unused_port: int) -> None:
    assert refusal(f"postgresql://ann:s3cret@127.0.0.1:{unused_port}/team") == (
        f"the store 127.0.0.1:{unused_port}/team cannot be reached: is Postgres running there?"
    )


def test_a_missing_socket_is_one_sentence(tmp_path: Path) -> None:
    assert refusal(f"postgresql://ann:s3cret@/team?host={tmp_path}") == (
        f"the store {tmp_path}/team cannot be reached: is Postgres running there?"
    )


def test_an_unknown_host_is_one_sentence() -> None:
    assert refusal("postgresql://ann:s3cret@no-such-host.invalid/team") == (
        "the store no-such-host.invalid/team cannot be found: check the name of the host"
    )


def test_an_unknown_option_of_the_url_is_one_sentence() -> None:
    assert refusal("postgresql://ann:s3cret@db/team?colour=s3cret") == (
        "the store db/team has a URL with an option that libpq or Postgres does not accept"
    )


def test_a_missing_database_is_one_sentence(postgres: PostgresServer) -> None:
    url = postgres.url_of("nowhere")

    shown = parse_address(url).shown
    assert refusal(url) == f"the store {shown} has no database of that name, or this user may not open it"


def test_an_unknown_user_is_one_sentence(postgres: PostgresServer) -> None:
    url = postgres.url_of("postgres", user="mallory")

    shown = parse_address(url).shown
    assert refusal(url) == f"the store {shown} refused the login: the user or the password is wrong"


@pytest.mark.slow
def test_a_wrong_password_is_one_sentence(short_folder: Path) -> None:
    with PostgresServer(short_folder).running() as server:
        run(server.url, "CREATE ROLE ann LOGIN PASSWORD 'right'")
        access = short_folder / "data/pg_hba.conf"
        access.write_text("local all postgres trust\nlocal all all scram-sha-256\n", encoding="utf-8")
        run(server.url, "SELECT pg_reload_conf()")
        place = f"@/postgres?host={short_folder}"

        until(lambda: _login(f"postgresql://ann{place}") is not None)
        shown = f"{short_folder}/postgres"
        wrong = refusal(f"postgresql://ann:s3cret{place}")
        missing = refusal(f"postgresql://ann{place}")

    assert wrong == f"the store {shown} refused the login: the user or the password is wrong"
    assert missing == f"the store {shown} wants a password: put it into the URL, PGPASSWORD or ~/.pgpass"


def _login(url: str) -> str | None:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError as error:
        return str(error)
    return None


def test_a_server_that_is_too_old_is_one_sentence() -> None:
    with old_postgres("13.9") as url:
        running = f"the store {parse_address(url).shown} runs Postgres 13"

        assert refusal(url) == f"{running}; Carrel needs Postgres 14 or newer"


def test_missing_rights_are_one_sentence(postgres: PostgresServer) -> None:
    with fresh_database(postgres) as url:
        run(url, "DROP ROLE IF EXISTS reader", "CREATE ROLE reader LOGIN", "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        try:
            sentence = refusal(url.replace("postgres@", "reader@"))
        finally:
            run(url, "DROP ROLE reader")

    shown = parse_address(url).shown
    assert sentence == f"the store {shown} {NO_RIGHTS}"


def test_a_user_who_may_only_read_the_tables_is_refused_at_the_start(postgres: PostgresServer) -> None:
    with prepared_for(postgres, "GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}") as url:
        assert refusal(url) == f"the store {parse_address(url).shown} {NO_RIGHTS}"


@pytest.mark.parametrize(
    "revoke", ["REVOKE SELECT ON carrel_scopes FROM {role}", "REVOKE DELETE ON carrel_audit FROM {role}"]
)
def test_a_right_that_one_table_lacks_is_noticed_at_the_start(postgres: PostgresServer, revoke: str) -> None:
    with prepared_for(postgres, ALL_RIGHTS, revoke) as url:
        assert refusal(url) == f"the store {parse_address(url).shown} {NO_RIGHTS}"


@pytest.mark.parametrize("table", ["carrel_scopes", "carrel_outbox", "carrel_allowances"])
def test_a_missing_table_is_noticed_at_the_start(store_url: str, store: Database, table: str) -> None:
    run(store_url, f"DROP TABLE {table} CASCADE")

    assert refusal(store_url) == (f"the store {store.address.shown} lacks the table {table}: restore it from a backup")


def test_tables_without_the_one_of_the_version_are_refused_and_stay(store_url: str, store: Database) -> None:
    run(store_url, "DROP TABLE carrel_schema")

    assert refusal(store_url) == (
        f"the store {store.address.shown} has tables, but not carrel_schema, which says their version: "
        "restore it from a backup"
    )
    assert rows(store_url, "SELECT count(*) FROM carrel_generations") == [(3,)]


def test_a_store_where_nothing_can_be_written_is_noticed_at_the_start_and_later(postgres: PostgresServer) -> None:
    switch = "ALTER ROLE {role} SET default_transaction_read_only = on"
    with prepared_for(postgres, ALL_RIGHTS, switch) as url, closing(Database(parse_address(url))) as clerk:
        sentence = f"the store {clerk.address.shown} {READ_ONLY}"
        assert refusal(url) == sentence

        with pytest.raises(StoreUnavailable) as refused, clerk.writing("scopes", SECONDS):
            pass
        assert (refused.value.message, refused.value.detail) == (
            "The store is read-only; nothing was changed",
            sentence,
        )


@pytest.mark.parametrize("limited", ["ROLE {role}", "DATABASE {database}"])
def test_a_limit_of_connections_is_one_sentence_at_the_start_and_later(postgres: PostgresServer, limited: str) -> None:
    with prepared_for(postgres, ALL_RIGHTS) as url, closing(Database(parse_address(url))) as clerk:
        sentence = f"the store {clerk.address.shown} {FULL_HOUSE}"
        names = psycopg.conninfo.conninfo_to_dict(url)
        one = limited.format(role=names["user"], database=names["dbname"])
        run(postgres.url, f"ALTER {one} CONNECTION LIMIT 0")
        assert refusal(url) == sentence

        for _ in range(2):
            with pytest.raises(StoreUnavailable) as refused:
                clerk.generation("scopes")
            assert (refused.value.message, refused.value.detail) == (
                "The store has no connection free now; try again later",
                sentence,
            )
        run(postgres.url, f"ALTER {one} CONNECTION LIMIT -1")


@pytest.mark.parametrize(
    ("code", "message", "text"),
    [
        ("57P03", "the database system is starting up", "is starting up: try again in a moment"),
        ("53300", "sorry, too many clients already", FULL_HOUSE),
        ("53100", 'could not write init file "x": No space left on device', "has no room left: its disk is full"),
    ],
)
def test_a_server_that_refuses_every_connection_says_why_at_the_start_and_later(
    code: str, message: str, text: str
) -> None:
    with refusing_postgres(code, message) as url, closing(Database(parse_address(url))) as store:
        sentence = f"the store {store.address.shown} {text}"
        assert refusal(url) == sentence

        with pytest.raises(StoreUnavailable) as refused:
            store.generation("scopes")
        assert refused.value.detail == sentence
        assert "cannot be reached" not in refused.value.message


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is not Postgres: another program answers at this port"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "is not Postgres: another program answers at this port"),
        (b"", "closes the connection: is it Postgres, and what does its log say?"),
    ],
)
@pytest.mark.parametrize("mode", ["prefer", "disable"])
def test_another_program_at_the_port_is_one_sentence(answer: bytes, text: str, mode: str) -> None:
    with other_program(answer) as place:
        url = f"postgresql://ann:s3cret@{place}/team?sslmode={mode}&gssencmode=disable"

        assert refusal(url) == f"the store {place}/team {text}"


@pytest.mark.slow
def test_a_port_where_nothing_answers_is_given_up() -> None:
    with other_program(None) as place:
        assert refusal(f"postgresql://ann:s3cret@{place}/team?connect_timeout=2") == (
            f"the store {place}/team does not answer: check the host, the port and the firewall"
        )


def test_a_server_that_takes_a_login_and_answers_no_more_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "HUNG_S", 0.1)
    with old_postgres("16.0") as url:
        assert refusal(url) == (
            f"the store {parse_address(url).shown} does not answer: check the host, the port and the firewall"
        )


@pytest.mark.parametrize(
    ("statement", "message", "cause"),
    [
        (
            "SET ROLE pg_monitor; DELETE FROM pg_authid",
            "The store does not give this desk the rights for that; nothing was changed",
            NO_RIGHTS,
        ),
        (
            "SET transaction_read_only = on; DELETE FROM carrel_tokens",
            "The store is read-only; nothing was changed",
            READ_ONLY,
        ),
        (
            "SELECT * FROM carrel_nothing",
            "The store lacks tables that it should have; nothing was changed",
            "lacks tables of its version: restore it from a backup",
        ),
    ],
)
def test_what_a_store_refuses_is_a_sentence_of_its_own(
    store: Database, statement: str, message: str, cause: str
) -> None:
    with pytest.raises(StoreUnavailable) as refused, store.writing("scopes", SECONDS) as session:
        session.execute(statement)

    assert (refused.value.message, refused.value.word) == (message, "unavailable")
    assert refused.value.detail == f"the store {store.address.shown} {cause}"


def test_a_server_logs_now_and_then_that_its_store_refuses_calls_and_a_command_does_not(
    store: Database, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        with pytest.raises(StoreUnavailable), store.connection() as connection:
            connection.execute("SELECT * FROM carrel_nothing")

    fail()
    assert caplog.messages == []
    store.logs_outages = True
    store._log_refusals_at = 0.0
    fail()
    assert store.generation("scopes") == 0
    fail()

    refused = f"the store {store.address.shown} lacks tables of its version: restore it from a backup"
    assert caplog.messages == [refused]


def test_a_user_without_the_right_to_create_tables_can_use_those_that_exist(postgres: PostgresServer) -> None:
    with prepared_for(postgres, ALL_RIGHTS) as url, closing(Database(parse_address(url))) as clerk:
        clerk.prepare()
        with clerk.writing("scopes", SECONDS) as session:
            session.record("scopes://scope/a")

        assert clerk.generation("scopes") == 1


def test_a_full_disk_is_one_sentence_and_changes_nothing(store_url: str, store: Database) -> None:
    fill_disk(store_url, "carrel_outbox")

    with pytest.raises(StoreUnavailable) as refused, store.writing("scopes", SECONDS) as session:
        session.record("scopes://scope/a")

    assert refused.value.message == "The store's disk is full; nothing was changed"
    assert refused.value.detail == f"the store {store.address.shown} has no room left: its disk is full"
    assert store.generation("scopes") == 0


# Transactions


def test_a_write_counts_the_generation_of_its_kind_only(store: Database) -> None:
    with store.writing("scopes", SECONDS) as session:
        assert session.generation == 1

    assert [store.generation(kind) for kind in ("scopes", "sage", "logs")] == [1, 0, 0]


def test_a_failed_write_changes_nothing(store: Database) -> None:
    def fail() -> None:
        with store.writing("scopes", SECONDS) as session:
            session.record("scopes://scope/a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert store.generation("scopes") == 0


def test_a_rehearsal_changes_nothing(store: Database) -> None:
    with store.writing("scopes", SECONDS, is_rehearsal=True) as session:
        session.record("scopes://scope/a")
        assert session.generation == 1

    assert store.generation("scopes") == 0


def test_a_failed_statement_that_was_ignored_is_never_acknowledged(store: Database) -> None:
    def ignore() -> None:
        with store.writing("scopes", SECONDS) as session, suppress(psycopg.Error):
            session.execute("SELECT 1 / 0")

    with pytest.raises(AssertionError, match="nothing was written"):
        ignore()

    assert store.generation("scopes") == 0


def test_a_snapshot_does_not_change_while_others_write(store: Database) -> None:
    statement = "SELECT generation FROM generations WHERE kind = 'scopes'"
    with store.reading(SECONDS) as session:
        before = session.execute(statement).fetchone()
        with store.writing("scopes", SECONDS):
            pass

        assert (before, session.execute(statement).fetchone()) == ((0,), (0,))


def test_a_snapshot_cannot_write(store: Database) -> None:
    with pytest.raises(StoreUnavailable), store.reading(SECONDS) as session:
        session.execute("UPDATE generations SET generation = 5")

    assert store.generation("scopes") == 0


def test_one_writer_of_a_kind_at_a_time_and_others_are_busy_after_their_time(store: Database) -> None:
    with store.writing("scopes", SECONDS):
        with store.writing("sage", SECONDS):
            pass
        with pytest.raises(StoreBusy) as refused, store.writing("scopes", 0.05):
            pass

    assert (refused.value.word, refused.value.message) == ("busy", "The store is busy; try again")


def test_writers_wait_for_each_other_and_lose_no_update(store: Database) -> None:
    def write(_: int) -> int:
        with store.writing("scopes", SECONDS) as session:
            return session.generation

    with ThreadPoolExecutor(16) as writers:
        generations = sorted(writers.map(write, range(100)))

    assert generations == list(range(1, 101))


def test_writers_that_wait_leave_connections_for_readers(store: Database) -> None:
    def write(_: int) -> None:
        with store.writing("scopes", SECONDS):
            pass

    with ThreadPoolExecutor(20) as writers:
        with store.writing("scopes", SECONDS):
            waiting = [writers.submit(write, number) for number in range(20)]
            assert store.generation("scopes") == 0
            with store.reading(SECONDS) as session:
                assert session.execute("SELECT 1").fetchone() == (1,)
        for one in waiting:
            one.result(SECONDS)

    assert store.generation("scopes") == 21


def test_more_readers_than_connections_are_busy_and_not_cut_off(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as held:
        for _ in range(databases.POOL_SIZE):
            held.enter_context(store.reading(SECONDS))
        monkeypatch.setattr(databases, "WAIT_S", 0.1)  # now: to connect may take longer than that
        with pytest.raises(StoreBusy):
            store.generation("scopes")
        monkeypatch.undo()

    assert store.generation("scopes") == 0


def test_a_statement_that_takes_too_long_is_busy(store: Database) -> None:
    with pytest.raises(StoreBusy), store.reading(0.05) as session:
        session.execute("SELECT pg_sleep(5)")


# Outages


def test_a_connection_that_was_lost_while_idle_is_replaced(store_url: str, store: Database) -> None:
    with store.connection() as connection:
        process = connection.info.backend_pid
    run(store_url, f"SELECT pg_terminate_backend({process})")
    until(lambda: not rows(store_url, f"SELECT 1 FROM pg_stat_activity WHERE pid = {process}"))

    assert store.generation("scopes") == 0


def test_a_write_whose_connection_is_lost_is_not_acknowledged(store: Database) -> None:
    def lose() -> None:
        with store.writing("scopes", SECONDS) as session:
            [(process,)] = session.execute("SELECT pg_backend_pid()").fetchall()
            run(store.address.url, f"SELECT pg_terminate_backend({process})")
            until(lambda: not rows(store.address.url, f"SELECT 1 FROM pg_stat_activity WHERE pid = {process}"))

    with pytest.raises(StoreUnavailable) as refused:
        lose()

    assert refused.value.word == "unavailable"
    assert store.generation("scopes") == 0


def test_a_server_that_is_away_is_unavailable_and_recovers_by_itself(
    unused_port: int, postgres: PostgresServer, store: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "carrel")
    gate = Gate(unused_port, postgres.folder / ".s.PGSQL.5432")
    with closing(Database(parse_address(gate.url(store.address.url)))) as away, gate:
        away.logs_outages = True
        assert away.generation("scopes") == 0
        gate.shut()
        with pytest.raises(StoreUnavailable) as refused:
            away.generation("scopes")
        gate.open()

        assert until(lambda: _generation(away) == 0)
    assert refused.value.message == "The store cannot be reached now; try again later"
    place = f"127.0.0.1:{unused_port}/postgres"
    assert [record.message for record in caplog.records if record.name.startswith("carrel")] == [
        f"the store {place} cannot be reached: is Postgres running there?",
        f"the store {place} answers again",
    ]


@contextmanager
def gated(port: int, postgres: PostgresServer, store: Database) -> Iterator[tuple[Database, Gate]]:
    """Yield a second user of a store, behind a gate, which has used all its connections."""
    gate = Gate(port, postgres.folder / ".s.PGSQL.5432")
    with closing(Database(parse_address(gate.url(store.address.url)))) as away, gate:
        with ExitStack() as held:
            for _ in range(databases.POOL_SIZE):
                held.enter_context(away.reading(SECONDS))
        yield away, gate


def test_a_store_that_hangs_is_unavailable_and_only_the_first_calls_wait_for_it(
    unused_port: int, postgres: PostgresServer, store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gated(unused_port, postgres, store) as (away, gate):
        gate.hold()
        monkeypatch.setattr(databases, "HUNG_S", 0.1)
        monkeypatch.setattr(outages, "REST_S", 1_000.0)
        assert _generation(away) is None
        monkeypatch.setattr(databases, "HUNG_S", 1_000.0)
        monkeypatch.setattr(databases, "WAIT_S", 1_000.0)

        assert [_generation(away) for _ in range(30)] == [None] * 30


def test_a_store_that_hung_is_tried_again_and_used_as_soon_as_it_answers(
    unused_port: int, postgres: PostgresServer, store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gated(unused_port, postgres, store) as (away, gate):
        gate.hold()
        monkeypatch.setattr(databases, "HUNG_S", 0.1)
        monkeypatch.setattr(databases, "WAIT_S", 0.1)
        monkeypatch.setattr(outages, "REST_S", 0.0)
        assert [_generation(away) for _ in range(2)] == [None] * 2
        monkeypatch.undo()
        gate.release()

        assert until(lambda: _generation(away) == 0)


def test_no_call_connects_to_a_store_that_refused_a_moment_ago_until_the_feed_has_found_it(
    unused_port: int, postgres: PostgresServer, store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gated(unused_port, postgres, store) as (away, gate):
        gate.shut()
        monkeypatch.setattr(outages, "REST_S", 1_000.0)
        assert _generation(away) is None
        gate.open()
        assert _generation(away) is None

        away.dedicated().close()
        assert _generation(away) == 0


def _generation(store: Database) -> int | None:
    try:
        return store.generation("scopes")
    except StoreUnavailable:
        return None


def test_an_address_is_not_in_the_repr_of_anything(store_url: str) -> None:
    address: StoreAddress = parse_address(store_url.replace("postgres@", "postgres:s3cret@"))

    assert "s3cret" not in repr(address)
    assert "s3cret" not in f"{address}"
