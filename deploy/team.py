"""A team desk on this machine, without containers: Postgres, an S3 store, NATS, three replicas, and a balancer.

`make team` runs this until Ctrl-C. Everything it needs comes from packages; nothing is left behind.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from deploy.balancer import Balancer
from tests.support.nats import NatsServer
from tests.support.postgres import PostgresServer
from tests.support.s3_servers import seaweed_server

CARREL = str(Path(sys.executable).parent / "carrel")
REPLICAS = 3
BUCKET = "team"
DOCUMENT = "# Tomatoes\n\nWater them in the morning.\n"


class TeamReplica:
    """One `carrel serve --http` in its own folder. After a kill, it starts again on the same port."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._environment = environment
        self._process: subprocess.Popen[str] | None = None
        self._is_running = False
        self.port = 0

    @property
    def pid(self) -> int:
        """The process, once it was started."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it was started and listens."""
        return self._is_running

    def start(self) -> None:
        """Start, and return when it listens."""
        words = [CARREL, "serve", "--http", str(self.port), "--no-token", "--project", str(self._folder)]
        options = ["--set", "scopes.tools=write", "--set", "sage.tools=write"]
        self._process = subprocess.Popen(
            [*words, *options], stderr=subprocess.PIPE, text=True, env=self._environment, cwd=self._folder
        )
        assert self._process.stderr is not None
        seen = []
        for line in self._process.stderr:
            seen.append(line)
            if "listening on" in line:
                self.port = int(line.rsplit(":", 1)[1].split("/")[0])
            if self.port and "no token" in line:
                self._is_running = True
                return
        raise RuntimeError("".join(seen))

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Stop it; return its exit code."""
        if self._process is None:
            return 0
        self._is_running = False
        self._process.send_signal(how)
        code = self._process.wait(15)
        if self._process.stderr is not None:
            self._process.stderr.close()
        self._process = None
        return code


class Team:
    """A store and its replicas. `settings` are those of the user of every replica, `others` further variables."""

    def __init__(
        self, folder: Path, store_url: str, settings: str = "", others: Mapping[str, str] | None = None
    ) -> None:
        places = {"HOME": str(folder), "XDG_STATE_HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
        self.store_url = store_url
        self.environment = {**os.environ, **places, **(others or {}), "CARREL_STORE_URL": store_url}
        self.environment["XDG_CONFIG_HOME"] = str(folder / "config")
        (folder / "config" / "carrel").mkdir(parents=True)
        (folder / "config" / "carrel" / "config.toml").write_text(settings, "utf-8")
        folders = [folder / f"replica{number}" for number in range(1, REPLICAS + 1)]
        self.replicas = [TeamReplica(one, self.environment) for one in folders]

    def ports(self) -> Sequence[int]:
        """Return the ports of the replicas."""
        return [replica.port for replica in self.replicas]

    def start(self) -> None:
        """Start all replicas."""
        for replica in self.replicas:
            replica.start()

    def stop(self) -> list[int]:
        """Stop all replicas; return their exit codes."""
        return [replica.stop() for replica in self.replicas]


@contextlib.contextmanager
def running_team(folder: Path) -> Iterator[Team]:
    """Run a Postgres, an S3 store with a document, a NATS server, and the replicas that use them."""
    folder.chmod(0o755)  # Postgres runs as another user where this one is root
    for name in ("s3", "nats"):
        (folder / name).mkdir()
    with contextlib.ExitStack() as until_ended:
        postgres = until_ended.enter_context(PostgresServer(folder / "postgres").running())
        s3 = until_ended.enter_context(seaweed_server(folder / "s3", BUCKET))
        nats = until_ended.enter_context(NatsServer(folder / "nats").running())
        s3.put("handbook/tomatoes.md", DOCUMENT)
        roots = f'[workspace.roots]\ndocs = "s3://{BUCKET}/handbook"\n'
        team = Team(folder / "team", postgres.url, roots, {**s3.environment, "CARREL_BUS_URL": nats.url})
        until_ended.callback(team.stop)
        team.start()
        yield team


def carrel(team: Team, *words: str) -> str:
    """Run a command as a member of the team would, on another machine; return what it prints."""
    folder = Path(team.environment["HOME"])
    return subprocess.run(
        [CARREL, *words], env=team.environment, cwd=folder, capture_output=True, text=True, timeout=60, check=True
    ).stdout


def demonstrate(team: Team, url: str, balancer: Balancer) -> None:
    """Write once, read on every replica, read a shared document, and show which replica answered."""
    carrel(team, "scopes", "create", "Grow tomatoes", "--alias", "tomatoes")
    for _ in range(6):
        read = carrel(team, "cat", "scopes://scope/tomatoes", "--server", url)
        assert "Grow tomatoes" in read
    document = carrel(team, "cat", "workspace://@docs/tomatoes.md", "--server", url)
    assert document == DOCUMENT
    shares = ", ".join(f"{count} by the replica on port {port}" for port, count in sorted(balancer.served.items()))
    print(
        f"A task was written once and read six times through the balancer, then a document of the S3 store: {shares}."
    )
    print(f"workspace://@docs/tomatoes.md says: {document.splitlines()[-1]}")


def show(team: Team, balancer: Balancer, *, is_once: bool) -> None:
    """Show the team desk until it is interrupted."""
    url = f"http://127.0.0.1:{balancer.port}/mcp"
    parts = f"a Postgres, an S3 store, a NATS bus and {REPLICAS} replicas, on ports {list(team.ports())}"
    print(f"The team desk is at {url}: {parts}.")
    demonstrate(team, url, balancer)
    print(f"Connect a host to it: carrel connect HOST --http {url}")
    print(f"Use its store: CARREL_STORE_URL='{team.store_url}' carrel scopes list")
    if not is_once:
        print("Ctrl-C ends it.", flush=True)
        signal.pause()


def main() -> None:
    """Run the team desk until it is interrupted."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with (
        tempfile.TemporaryDirectory(prefix="carrel-", dir="/tmp", ignore_cleanup_errors=True) as named,
        contextlib.suppress(KeyboardInterrupt),
        running_team(Path(named)) as team,
        Balancer(Path(named) / "balancer", team.ports()).running() as balancer,
    ):
        try:
            show(team, balancer, is_once="--once" in sys.argv)
        finally:
            for how in (signal.SIGINT, signal.SIGTERM):
                signal.signal(how, signal.SIG_IGN)  # the end takes a moment, and leaves nothing behind


if __name__ == "__main__":
    main()
