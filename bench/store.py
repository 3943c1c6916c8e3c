"""Measure the team's store on a real Postgres: writes of many threads with and without notification, and reads.

    python -m bench.store [--seconds N] [--check]

`--check` fails if notification costs more than a tenth of the writers' rate, or if a signal takes longer than 50 ms.
"""

import argparse
import json
import secrets
import statistics
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg

from carrel.core.isotime import now_ms
from carrel.core.store_address import parse_address
from carrel.providers.scopes import changes, queries
from carrel.providers.scopes.team_store import TeamStore
from tests.support.postgres import PostgresServer

WRITERS = 64
LEAST_RATE = 0.9
MOST_DELAY_MS = 50.0


def writes_a_second(store: TeamStore, seconds: float, *, is_told: bool) -> float:
    """Return the rate at which many threads create scopes."""
    until = time.monotonic() + seconds

    def write(_: int) -> int:
        count = 0
        while time.monotonic() < until:
            with store.writing() as connection:
                name = f"t{secrets.token_hex(8)}"
                changes.create(connection, now_ms(), title=name, alias=name)
                if not is_told:
                    vars(connection)["changed"] = {}
            count += 1
        return count

    begin = time.monotonic()
    with ThreadPoolExecutor(WRITERS) as writers:
        total = sum(writers.map(write, range(WRITERS)))
    return total / (time.monotonic() - begin)


def delays_ms(store: TeamStore, url: str, count: int) -> list[float]:
    """Return how long after a commit a listener on another connection hears of it."""
    delays: list[float] = []
    heard = threading.Event()
    with psycopg.connect(url, autocommit=True) as listener:
        listener.execute("LISTEN carrel_changes")

        def listen() -> None:
            for _ in listener.notifies(timeout=60, stop_after=count):
                heard.set()

        thread = threading.Thread(target=listen)
        thread.start()
        for _ in range(count):
            heard.clear()
            with store.writing() as connection:
                name = f"t{secrets.token_hex(8)}"
                changes.create(connection, now_ms(), title=name, alias=name)
            begin = time.monotonic()
            heard.wait(10)
            delays.append((time.monotonic() - begin) * 1_000)
        thread.join(70)
    return sorted(delays)


def read_ms(store: TeamStore, count: int) -> float:
    """Return the median time of a read of one scope with all that its resource shows."""
    with store.writing() as connection:
        changes.create(connection, now_ms(), title="Read me", alias="read-me")
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        with store.reading() as connection:
            scope = queries.find(connection, "read-me")
            assert scope is not None
            queries.describe(connection, scope, 100)
        times.append((time.perf_counter() - begin) * 1_000)
    return statistics.median(times)


def main() -> int:
    """Measure, and print the numbers as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="carrel-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with PostgresServer(Path(folder)).running() as server, closing(TeamStore(parse_address(server.url))) as store:
            store.prepare()
            read = read_ms(store, 200)
            rounds = [
                tuple(writes_a_second(store, given.seconds / 4, is_told=is_told) for is_told in (False, True))
                for _ in range(4)
            ]
            delays = delays_ms(store, server.url, 200)
    silent, told = (statistics.median(one) for one in zip(*rounds, strict=True))
    found = {
        "writers": WRITERS,
        "writes_a_second_without": round(silent),
        "writes_a_second_with": round(told),
        "share": round(told / silent, 3),
        "signal_ms_median": round(statistics.median(delays), 1),
        "signal_ms_p99": round(delays[int(len(delays) * 0.99)], 1),
        "read_ms_median": round(read, 2),
    }
    print(json.dumps(found))
    is_slow = told / silent < LEAST_RATE or found["signal_ms_p99"] > MOST_DELAY_MS
    return int(given.check and is_slow)


if __name__ == "__main__":
    sys.exit(main())
