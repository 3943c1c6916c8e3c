"""Measure what a fleet of replicas costs, from its parts: reads by one to three processes, connections, signals, S3.

    python -m bench.fleet [--seconds N] [--check]

Rates depend on what else the machine does; the time of the processors for one read does so less. Processes that share
nothing also take more of it for a read if three of them share two cores, so the same reads are made, in turn, by desks
without a store: they are the sum with which the replicas are compared. `--check` fails if a read by three replicas
costs more than a fifth more than with one, and more than a tenth more than by three such desks.
"""

import argparse
import asyncio
import http.client
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg

from carrel.client.client import Client
from carrel.core.limits import UPDATES_PER_SECOND
from carrel.stores.outbox import changes_since
from deploy.team import Team, TeamReplica, carrel
from tests.support.http_asking import modern, modern_headers
from tests.support.postgres import PostgresServer
from tests.support.s3_servers import ScriptedStore, seaweed_server
from tests.support.team_client import TeamClient

CONNECTIONS = 4
"""Of the clients, to each process."""
ROUNDS = 5
"""Of each measurement of reads; the median counts, since others use the machine too."""
SCOPES = 200
LISTENERS = (1, 10, 100)
SIGNALS = 50
CHANGES = 300
LISTENED = 20
"""URIs that are changed in turn: each is notified a few times a second at most."""
DOCUMENT_READS = 50
MOST_GROWTH = 1.2
MOST_OF_SUM = 1.1
_OF_CONNECTIONS = ("connection", "content-length", "date", "keep-alive", "server", "transfer-encoding")
STORED = "scopes://scope/s1"
FILE = "workspace:///notes.md"


def cpu_s(processes: Iterable[int]) -> float:
    """Return the time that processes, and their children that have ended, have spent on the processors."""
    ticks = 0
    for process in processes:
        with suppress(OSError):  # one that ended just now is counted by its parent
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def family_of(process: int) -> list[int]:
    """Return a process and its children."""
    return [process, *(int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text().split())]


async def read_all(ports: Sequence[int], uri: str, seconds: float) -> int:
    """Read a resource on kept connections, spread over the ports, for some time; return the number of reads."""
    until = time.monotonic() + seconds
    body = modern("resources/read", {"uri": uri})
    fields = {"host": "127.0.0.1", "content-length": str(len(body)), **modern_headers("resources/read", uri)}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    request = f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body

    async def read(port: int) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        count = 0
        while time.monotonic() < until:
            writer.write(request)
            answer = (await reader.readuntil(b"\r\n\r\n")).lower()
            assert b" 200 " in answer.partition(b"\r\n")[0], answer
            await reader.readexactly(int(answer.partition(b"content-length:")[2].partition(b"\r\n")[0]))
            count += 1
        writer.close()
        return count

    return sum(await asyncio.gather(*(read(port) for port in ports for _ in range(CONNECTIONS))))


def reads(
    fleets: Mapping[str, Team], postgres: PostgresServer, uri: str, seconds: float
) -> dict[str, list[dict[str, float]]]:
    """Return the rate and the cost of reads with one, two and three processes of each fleet: medians of rounds."""
    counts = range(1, 4)
    rounds = [
        {
            (name, count): reads_of(fleet.replicas[:count], postgres, uri, seconds)
            for count in counts
            for name, fleet in fleets.items()
        }
        for _ in range(ROUNDS)
    ]
    names = ("reads_a_second", "process_cpu_ms", "postgres_cpu_ms")
    return {
        fleet: [
            {"processes": count}
            | {name: statistics.median(one[fleet, count][place] for one in rounds) for place, name in enumerate(names)}
            for count in counts
        ]
        for fleet in fleets
    }


def reads_of(used: Sequence[TeamReplica], postgres: PostgresServer, uri: str, seconds: float) -> tuple[float, ...]:
    """Return reads a second, and milliseconds of the processors for one read in the processes and in Postgres."""
    ports, processes = [one.port for one in used], [one.pid for one in used]
    asyncio.run(read_all(ports, uri, 0.3))  # connections are made, and code is warm
    before, backends_before, begin = cpu_s(processes), cpu_s(family_of(postgres.pid)), time.monotonic()
    total = asyncio.run(read_all(ports, uri, seconds))
    rate = round(total / (time.monotonic() - begin))
    spent = (cpu_s(processes) - before, cpu_s(family_of(postgres.pid)) - backends_before)
    return rate, *(round(one / total * 1_000, 3) for one in spent)


def connections(url: str) -> int:
    """Return how many connections to the store are open."""
    with psycopg.connect(url) as admin:
        statement = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'carrel'"
        [(count,)] = admin.execute(statement).fetchall()
        return int(count)


def signals_ms(url: str, listeners: int) -> dict[str, float]:
    """Return how long a NOTIFY takes to reach the last of many listeners."""
    times = []
    with ExitStack() as until_ended, psycopg.connect(url, autocommit=True) as writer:
        listening = [until_ended.enter_context(psycopg.connect(url, autocommit=True)) for _ in range(listeners)]
        for one in listening:
            one.execute("LISTEN carrel_changes")
        for _ in range(SIGNALS):
            begin = time.perf_counter()
            writer.execute("NOTIFY carrel_changes")
            for one in listening:
                assert list(one.notifies(timeout=30, stop_after=1))
            times.append((time.perf_counter() - begin) * 1_000)
    times.sort()
    return {"listeners": listeners, "median_ms": round(statistics.median(times), 1), "most_ms": round(times[-1], 1)}


def changes_ms(writing: TeamReplica, listening: TeamReplica) -> dict[str, float]:
    """Return how long after a write on one replica is acknowledged a listener on another one is notified."""
    times = []
    uris = [f"scopes://scope/listened-{number}" for number in range(LISTENED)]
    with ExitStack() as until_ended:
        writer, listener = (
            until_ended.enter_context(Client.at(f"http://127.0.0.1:{one.port}/mcp")) for one in (writing, listening)
        )
        for uri in uris:
            alias = uri.rpartition("/")[2]
            assert not writer.call("scopes.create", {"title": alias, "customAlias": alias}).is_error
        changes = until_ended.enter_context(listener.listen(uris))
        while changes.wait(1.0) is not None:  # of what was created just now
            pass
        for number in range(CHANGES):
            time.sleep(max(0.0, 1.2 / UPDATES_PER_SECOND / LISTENED))  # one URI is not notified more often
            uri = uris[number % LISTENED]
            arguments = {"alias": uri.rpartition("/")[2], "title": f"{uri} {number}"}
            assert not writer.call("scopes.update", arguments).is_error
            begin = time.perf_counter()
            assert changes.wait(30) == uri
            times.append((time.perf_counter() - begin) * 1_000)
    times.sort()
    return {"median_ms": round(statistics.median(times), 1), "p99_ms": round(times[int(CHANGES * 0.99)], 1)}


def look_ms(url: str) -> float:
    """Return how long one look at the outbox takes, if one thing has changed."""
    times = []
    with psycopg.connect(url, autocommit=True) as connection:
        for number in range(200):
            token = changes_since(connection, "").token
            connection.execute("INSERT INTO carrel_outbox (scheme, uri) VALUES ('bench', %s)", (f"bench://{number}",))
            begin = time.perf_counter()
            assert len(changes_since(connection, token).uris) == 1
            times.append((time.perf_counter() - begin) * 1_000)
    return round(statistics.median(times), 2)


def index(team: Team) -> dict[str, float]:
    """Return how long the first search of a replica takes, which makes its index, and the size of the index."""
    times = []
    for _ in range(2):
        connection = http.client.HTTPConnection("127.0.0.1", team.replicas[0].port, timeout=120)
        begin = time.perf_counter()
        connection.request("GET", "/-/search?q=Number")
        answer = connection.getresponse()
        answer.read()
        connection.close()
        assert answer.status == 200
        times.append(round((time.perf_counter() - begin) * 1_000))
    folder = Path(team.environment["XDG_CACHE_HOME"])
    size = sum(one.stat().st_size for one in folder.rglob("*") if one.is_file())
    return {"first_ms": times[0], "next_ms": times[1], "index_kb": round(size / 1_024), "scopes": SCOPES}


def s3_requests(folder: Path, store_url: str) -> dict[str, float]:
    """Return how many requests to the S3 store a replica makes for reads of one document."""
    folder.mkdir()
    with seaweed_server(folder, "team") as s3:
        s3.put("docs/a.md", "# A\n")
        place = urlsplit(s3.url)

        def forward(path: str, headers: Mapping[str, str]) -> tuple[int, Mapping[str, str], bytes]:
            onward = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
            onward.request("GET", path, headers=dict(headers))
            answer = onward.getresponse()
            body = answer.read()
            kept = {name: value for name, value in answer.getheaders() if name.lower() not in _OF_CONNECTIONS}
            onward.close()
            return answer.status, {**kept, "Content-Length": str(len(body))}, body

        with ScriptedStore(forward) as counted:
            places = {**s3.environment, "AWS_ENDPOINT_URL": counted.url}
            team = Team(folder / "team", store_url, '[workspace.roots]\ndocs = "s3://team/docs"\n', places)
            try:
                team.replicas[0].start()
                client = TeamClient(team.replicas[0].port)
                begin, before = time.monotonic(), len(counted.asked)
                assert all(client.read("workspace://@docs/a.md") == "# A\n" for _ in range(DOCUMENT_READS))
                asked = [path for path, _ in counted.asked[before:]]
                lists = sum("list-type" in path for path in asked)
                seconds = round(time.monotonic() - begin, 1)
            finally:
                team.stop()
    return {"reads": DOCUMENT_READS, "object_requests": len(asked) - lists, "list_requests": lists, "seconds": seconds}


def main() -> int:
    """Measure, and print the numbers as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="carrel-", dir="/tmp", ignore_cleanup_errors=True) as named:
        folder = Path(named)
        folder.chmod(0o755)
        with PostgresServer(folder / "postgres").running() as postgres:
            found = measure_reads(folder, postgres, given.seconds)
            found["signals"] = [signals_ms(postgres.url, count) for count in LISTENERS]
            found["look_ms"] = look_ms(postgres.url)
            found["s3"] = s3_requests(folder / "s3", postgres.url)
    print(json.dumps(found))
    return int(given.check and not is_the_sum(found))


def measure_reads(folder: Path, postgres: PostgresServer, seconds: float) -> dict[str, Any]:
    """Return what reads cost, by replicas and by desks without a store, and what the replicas need beside them."""
    replicas, desks = Team(folder / "team", postgres.url), Team(folder / "desks", "")
    del desks.environment["CARREL_STORE_URL"]
    try:
        for fleet in ("team", "desks"):
            for number in range(1, 4):
                (folder / fleet / f"replica{number}" / "notes.md").write_text("# Notes\n" * 100, "utf-8")
        replicas.start()
        desks.start()
        idle = connections(postgres.url)
        carrel(replicas, "scopes", "create", "Number 1", "--alias", "s1")
        client = TeamClient(replicas.replicas[0].port)
        client.open()
        for number in range(2, SCOPES + 1):
            created: dict[str, object] = {"name": "scopes.create", "arguments": {"title": f"Number {number}"}}
            assert not client.call("tools/call", created).get("isError")
        return {
            "reads_of_the_store": reads({"replicas": replicas}, postgres, STORED, seconds),
            "reads_of_a_file": reads({"replicas": replicas, "desks": desks}, postgres, FILE, seconds),
            "changes": changes_ms(*replicas.replicas[:2]),
            "connections_of_three": {"idle": idle, "after_reads": connections(postgres.url)},
            "index": index(replicas),
        }
    finally:
        replicas.stop()
        desks.stop()


def is_the_sum(found: Mapping[str, Any]) -> bool:
    """Return whether three replicas read as cheaply as one, or as three desks that share nothing."""
    stored = [one["process_cpu_ms"] for one in found["reads_of_the_store"]["replicas"]]
    ours, sum_of_desks = (found["reads_of_a_file"][name][-1]["process_cpu_ms"] for name in ("replicas", "desks"))
    return bool(stored[-1] <= MOST_GROWTH * stored[0] and ours <= MOST_OF_SUM * sum_of_desks)


if __name__ == "__main__":
    sys.exit(main())
