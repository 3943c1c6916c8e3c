"""What a person reads about a store that cannot be used: one sentence for each cause, without a secret."""

import psycopg
import pytest
from psycopg import errors

from carrel.core.store_address import parse_address
from carrel.stores.causes import AWAY, CAUSES, describe, is_away, unavailable
from carrel.stores.store_errors import StoreBusy

ADDRESS = parse_address("postgresql://ann:s3cret@db/team?sslpassword=s3cret")
STARTING = "is starting up: try again in a moment"
ENDING = "is shutting down or restarting: try again in a moment"
LOGIN = "refused the login: the user or the password is wrong"
NO_DATABASE = "has no database of that name, or this user may not open it"
FULL_HOUSE = (
    "has no connection free: raise max_connections or the limit of this user or database, or run fewer replicas"
)
NOT_POSTGRES = "is not Postgres: another program answers at this port"
READ_ONLY = "is read-only: name the primary server, or see default_transaction_read_only"
TLS = "cannot agree on TLS: check sslmode and the certificates"
OPTION = "has a URL with an option that libpq or Postgres does not accept"
NOT_FROM_HERE = "does not accept this user from this machine: see its pg_hba.conf"
REFUSES = "refuses the connection: see its log"
DEMANDS = "is not as its URL demands: see channel_binding, require_auth, gssencmode and target_session_attrs"


@pytest.mark.parametrize(
    ("state", "text", "for_clients"),
    [
        ("57P03", STARTING, "The store is starting up; try again in a moment"),
        ("57P01", ENDING, "The store is restarting; try again in a moment"),
        ("57P02", ENDING, "The store is restarting; try again in a moment"),
        ("53300", FULL_HOUSE, "The store has no connection free now; try again later"),
        ("53100", "has no room left: its disk is full", "The store's disk is full; nothing was changed"),
        ("53200", "is out of memory", AWAY),
        ("53400", "has used up one of its limits: see its log", AWAY),
        ("25006", READ_ONLY, "The store is read-only; nothing was changed"),
        (
            "42501",
            (
                "does not give this user the rights: let it create tables in its schema, or SELECT, INSERT, UPDATE and "
                "DELETE in its tables"
            ),
            "The store does not give this desk the rights for that; nothing was changed",
        ),
        (
            "42P01",
            "lacks tables of its version: restore it from a backup",
            "The store lacks tables that it should have; nothing was changed",
        ),
        (
            "02000",
            "lacks rows of its table carrel_generations: restore it from a backup",
            "The store lacks rows that it should have; nothing was changed",
        ),
        ("42P07", "has tables, but not carrel_schema, which says their version: restore it from a backup", AWAY),
        ("3F000", "has no schema to create tables in: see its search_path", AWAY),
        ("3D000", NO_DATABASE, AWAY),
        ("28P01", LOGIN, AWAY),
        ("28000", LOGIN, AWAY),
        ("58030", "cannot read or write its files: see its log", AWAY),
        ("58P01", "cannot read or write its files: see its log", AWAY),
        ("XX001", "has damaged data: see its log, and restore it from a backup", AWAY),
        ("08006", "cannot be reached", AWAY),
        ("22012", "failed (SQLSTATE 22012)", AWAY),
    ],
)
def test_each_state_has_a_sentence_for_the_operator_and_one_for_clients(
    state: str, text: str, for_clients: str
) -> None:
    error = errors.lookup(state)('FATAL: password "s3cret" of "ann" at db: no space left, timeout, ssl, too many')

    assert describe(ADDRESS, error) == f"the store db/team {text}"
    assert unavailable(ADDRESS, error).message == for_clients
    assert unavailable(ADDRESS, error).word == "unavailable"
    assert is_away(error) == (state[:2] in ("08", "57"))


@pytest.mark.parametrize("state", ["55P03", "40P01", "57014"])
def test_a_store_that_keeps_a_call_waiting_is_busy(state: str) -> None:
    error = errors.lookup(state)("s3cret")

    assert describe(ADDRESS, error) == "the store db/team is busy: another program keeps it waiting; try again"
    assert isinstance(unavailable(ADDRESS, error), StoreBusy)


_FATAL = 'connection failed: connection to server at "10.0.0.1", port 5432 failed: FATAL:  '
_FAILED = 'connection failed: connection to server at "10.0.0.1", port 5432 failed: '


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (f"{_FATAL}the database system is starting up", STARTING),
        (f"{_FATAL}the database system is in recovery mode", STARTING),
        (f"{_FATAL}the database system is not yet accepting connections", STARTING),
        (f"{_FATAL}the database system is shutting down", ENDING),
        (f"{_FATAL}terminating connection due to administrator command", ENDING),
        (f"{_FATAL}sorry, too many clients already", FULL_HOUSE),
        (f'{_FATAL}too many connections for role "ann"', FULL_HOUSE),
        (f'{_FATAL}too many connections for database "team"', FULL_HOUSE),
        (
            f'{_FATAL}remaining connection slots are reserved for roles with the "pg_use_reserved_connections" role',
            FULL_HOUSE,
        ),
        (f'{_FATAL}could not write init file "x": No space left on device', "has no room left: its disk is full"),
        (f'{_FATAL}password authentication failed for user "timeout"', LOGIN),
        (f'{_FATAL}role "ann" does not exist', LOGIN),
        (
            f'{_FATAL}role "ann" is not permitted to log in',
            "does not let this user log in: give it the attribute LOGIN",
        ),
        (
            f'{_FATAL}Peer authentication failed for user "ann"',
            "expects a user of the operating system, and not this one: see its pg_hba.conf",
        ),
        (
            f"{_FAILED}fe_sendauth: no password supplied",
            "wants a password: put it into the URL, PGPASSWORD or ~/.pgpass",
        ),
        (f'{_FATAL}database "too many" does not exist', NO_DATABASE),
        (f'{_FATAL}permission denied for database "ssl"', NO_DATABASE),
        (
            f'{_FATAL}database "team" is not currently accepting connections',
            "has a database that takes no connections: see its datallowconn",
        ),
        (
            f'{_FATAL}no pg_hba.conf entry for host "10.0.0.2", user "ann", database "team", no encryption',
            "does not accept this user from this machine without TLS: set sslmode=require, or see its pg_hba.conf",
        ),
        (
            f'{_FATAL}no pg_hba.conf entry for host "10.0.0.2", user "ann", database "team", SSL encryption',
            NOT_FROM_HERE,
        ),
        (f"{_FAILED}received invalid response to SSL negotiation: H", NOT_POSTGRES),
        (f"{_FAILED}received unencrypted data after SSL response", NOT_POSTGRES),
        (f"{_FAILED}expected authentication request from server, but received H", NOT_POSTGRES),
        (f"{_FAILED}server does not support SSL, but SSL was required", TLS),
        (f"{_FAILED}SSL error: certificate verify failed", TLS),
        ('connection is bad: private key file "/k" has group or world access', TLS),
        (f"{_FAILED}session is read-only", READ_ONLY),
        (f"{_FAILED}server is in hot standby mode", READ_ONLY),
        (
            f"{_FATAL}the database system is not accepting connections\nDETAIL:  Hot standby mode is disabled.",
            READ_ONLY,
        ),
        (f'{_FATAL}unrecognized configuration parameter "s3cret"', OPTION),
        ('invalid integer value "s3cret" for connection option "keepalives_idle"', OPTION),
        ('connection is bad: invalid sslmode value: "s3cret"', OPTION),
        ('connection is bad: invalid "ssl_min_protocol_version" value: "s3cret"', OPTION),
        ('connection is bad: invalid port number: "99999999"', OPTION),
        ('connection is bad: definition of service "s3cret" not found', OPTION),
        (f"{_FAILED}channel binding required, but server authenticated client without channel binding", DEMANDS),
        (f'{_FAILED}authentication method requirement "scram-sha-256" failed: server did not complete it', DEMANDS),
        ("connection is bad: GSSAPI encryption required but no credential cache", DEMANDS),
        (f"{_FAILED}server is not in hot standby mode", DEMANDS),
        ("failed to resolve host 'refused': [Errno -2] x", "cannot be found: check the name of the host"),
        (
            'connection failed: connection to server at "ssl.example.com", port 5432 failed: Connection refused',
            "cannot be reached: is Postgres running there?",
        ),
        ("connection timeout expired", "does not answer: check the host, the port and the firewall"),
        (
            f"{_FAILED}server closed the connection unexpectedly",
            "closes the connection: is it Postgres, and what does its log say?",
        ),
        (
            "consuming input failed: SSL connection has been closed unexpectedly",
            "closes the connection: is it Postgres, and what does its log say?",
        ),
        (f"{_FATAL}Ausgeschlossen", REFUSES),
        (f"{_FATAL}Passwort-Authentifizierung für Benutzer »timeout« fehlgeschlagen", REFUSES),
        (f"{_FATAL}kein pg_hba.conf-Eintrag für Host »10.0.0.2«, Benutzer »ann«, SSL-Verschlüsselung", NOT_FROM_HERE),
        (f'{_FATAL}pg_hba.conf rejects connection for host "10.0.0.2", user "ann", SSL encryption', NOT_FROM_HERE),
        (f"{_FAILED}ВАЖНО:  пользователь не прошёл проверку подлинности", REFUSES),
        (f"{_FAILED}致命的エラー:  接続が多すぎます", REFUSES),
        ('connection to server at "böse.example", port 5432 failed: No route to host', "cannot be reached"),
        (f"{_FAILED}No route to host", "cannot be reached"),
    ],
)
def test_each_failure_to_connect_has_a_sentence_that_names_are_no_part_of(message: str, text: str) -> None:
    error = psycopg.OperationalError(message)

    assert describe(ADDRESS, error) == f"the store db/team {text}"
    assert is_away(error)


def test_several_addresses_of_one_host_give_the_cause_that_says_most() -> None:
    each = (
        f"- host: 'ssl', port: '5432', hostaddr: '::1': {_FAILED}Connection refused",
        f"- host: 'ssl', port: '5432', hostaddr: '10.0.0.1': {_FATAL}sorry, too many clients already",
    )

    assert describe(ADDRESS, psycopg.OperationalError("\n".join(each))) == f"the store db/team {FULL_HOUSE}"


def test_no_sentence_for_clients_says_where_the_store_is_or_how_it_is_set_up() -> None:
    for one in CAUSES:
        assert one.for_clients.startswith("The store")
        assert not any(word in one.for_clients for word in ("db", "pg_hba", "SQLSTATE", "role", "_"))
