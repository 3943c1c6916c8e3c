"""A team desk on this machine, without containers: a real Postgres, three replicas, and a balancer in front of them.

`make team` runs this until Ctrl-C. Everything it needs comes from packages; nothing is left behind.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from deploy.balancer import Balancer
from tests.support.postgres import PostgresServer

CARREL = str(Path(sys.executable).parent / "carrel")
REPLICAS = 3


class TeamReplica:
    """One `carrel serve --http` in a folder of its own. After a kill, it starts again on the same port."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._environment = environment
        self._process: subprocess.Popen[str] | None = None
        self._is_running = False
        self.port = 0

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
    """A store and its replicas."""

    def __init__(self, folder: Path, store_url: str, replicas: int = REPLICAS) -> None:
        places = {"HOME": str(folder), "XDG_STATE_HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
        self.store_url = store_url
        self.environment = {**os.environ, **places, "CARREL_STORE_URL": store_url}
        folders = [folder / f"replica{number}" for number in range(1, replicas + 1)]
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
def running_store(folder: str) -> Iterator[str]:
    """Run a Postgres of our own below a folder, and yield the URL of its database."""
    Path(folder).chmod(0o755)  # Postgres runs as another user where this one is root
    with PostgresServer(Path(folder) / "postgres").running() as server:
        yield server.url


def carrel(team: Team, *words: str) -> str:
    """Run a command as a member of the team would, on another machine; return what it prints."""
    folder = Path(team.environment["HOME"])
    return subprocess.run(
        [CARREL, *words], env=team.environment, cwd=folder, capture_output=True, text=True, timeout=60, check=True
    ).stdout


async def demonstrate(team: Team, url: str, balancer: Balancer) -> None:
    """Write once, read on every replica, and show which replica answered."""
    await asyncio.to_thread(carrel, team, "scopes", "create", "Grow tomatoes", "--alias", "tomatoes")
    for _ in range(6):
        read = await asyncio.to_thread(carrel, team, "cat", "scopes://scope/tomatoes", "--server", url)
        assert "Grow tomatoes" in read
    shares = ", ".join(f"{count} by the replica on port {port}" for port, count in sorted(balancer.served.items()))
    print(f"A task was written once and read six times through the balancer: {shares}.")


async def main() -> None:
    """Run the team desk until it is interrupted."""
    ended = asyncio.Event()
    for how in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(how, ended.set)
    with tempfile.TemporaryDirectory(prefix="carrel-team-") as named, contextlib.ExitStack() as until_ended:
        team = Team(Path(named), until_ended.enter_context(running_store(named)))
        team.start()
        until_ended.callback(team.stop)
        balancer = Balancer(team.ports)
        url = f"http://127.0.0.1:{await balancer.start()}/mcp"
        print(f"The team desk is at {url}: a Postgres and {REPLICAS} replicas, on ports {list(team.ports())}.")
        await demonstrate(team, url, balancer)
        print(f"Connect a host to it: carrel connect HOST --http {url}")
        print(f"Use its store: CARREL_STORE_URL='{team.store_url}' carrel scopes list")
        if "--once" not in sys.argv:
            print("Ctrl-C ends it.", flush=True)
            await ended.wait()
        await balancer.stop()


if __name__ == "__main__":
    asyncio.run(main())
