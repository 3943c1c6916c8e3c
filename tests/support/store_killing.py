"""Kills writers of a team's store at random moments, and Postgres itself, and looks at what is left.

    python -m tests.support.store_killing WRITERS POSTGRES [SEED]

Writers in processes of their own create and change scopes, and save knowledge; each acknowledges a write on a pipe when
it has returned. WRITERS of them are killed with SIGKILL, one after the other, while POSTGRES times the server is shut
down at once and started again. It syncs to the disk as any server does. At the end, whatever was acknowledged must be
there, the audit record must have a row for each write that was committed and no other, and nothing may be half
written. Prints the numbers as JSON; exits 1 if anything was lost or torn.
"""

import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg
import yaml

from carrel.core.provider import Project
from carrel.core.store_address import StoreAddress, parse_address
from carrel.providers.sage import Sage
from carrel.providers.scopes import tool_calls
from carrel.providers.scopes.team_store import TeamStore
from tests.support.postgres import PostgresServer
from tests.support.sage_killing import Nobody
from tests.support.scopes_sample import check_invariants

WRITERS = 4
LONG = 200
"""How often a number is repeated in a text, so that a text written in part would show."""


def text_of(number: int) -> str:
    """Return a text made of one number."""
    return " ".join([f"n{number}"] * LONG)


def write(address: StoreAddress, writer: str, pipe: int) -> None:
    """Write until this process is killed, and acknowledge each write; an outage is waited for."""
    store = TeamStore(address)
    with tempfile.TemporaryDirectory() as folder:
        sage = Sage(Project(folder, {"HOME": folder}, store=address), tools="write", search="bm25")
        number = 0
        while True:
            number += 1
            alias = f"{writer}-{number}"
            for kind, name, arguments in _writes(writer, alias, number):
                if kind == "sage":
                    result = sage.call(name, arguments, Nobody())
                else:
                    result = tool_calls.call(store, name, arguments, 10)
                if not result.is_error:
                    os.write(pipe, f"{name} {alias} {number}\n".encode())


def _writes(writer: str, alias: str, number: int) -> Iterator[tuple[str, str, dict[str, object]]]:
    text = text_of(number)
    create: dict[str, object] = {"title": f"T {alias}", "customAlias": alias, "description": text[:900]}
    yield "scopes", "scopes.create", create
    top: dict[str, object] = {"alias": f"{writer}-1", "title": f"n{number}", "description": f"n{number}"}
    yield "scopes", "scopes.update", top
    yield "sage", "sage_save_knowledge", {"id": writer, "content": text, "keywords": [f"n{number}"]}


class Acknowledged:
    """What the writers were told is written."""

    def __init__(self) -> None:
        self.created: set[str] = set()
        self.updated: Counter[str] = Counter()
        self.saved: Counter[str] = Counter()
        self.count = 0

    def take(self, lines: bytes) -> None:
        """Take whole lines from a pipe."""
        for line in lines.decode().splitlines():
            name, alias, number = line.split()
            writer = alias.rpartition("-")[0]
            self.count += 1
            if name == "scopes.create":
                self.created.add(alias)
            elif name == "scopes.update":
                self.updated[writer] = int(number)
            else:
                self.saved[writer] = int(number)


class Writer:
    """A process that writes."""

    def __init__(self, address: StoreAddress, name: str) -> None:
        self._read, pipe = os.pipe()
        self._process = os.fork()
        if not self._process:
            try:
                os.close(self._read)
                write(address, name, pipe)
            finally:
                os._exit(1)
        os.close(pipe)
        os.set_blocking(self._read, False)
        self._kept = b""

    def acknowledged(self) -> bytes:
        """Return the whole lines that arrived."""
        with suppress(BlockingIOError):
            while part := os.read(self._read, 65_536):
                self._kept += part
        whole, _, self._kept = self._kept.rpartition(b"\n")
        return whole + b"\n" if whole else b""

    def kill(self) -> bytes:
        """Kill the process; return what it still acknowledged."""
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        try:
            return self.acknowledged()
        finally:
            os.close(self._read)


def run(kills: int, stops: int, seed: int) -> dict[str, object]:
    """Kill writers and the server; return the numbers and what is wrong."""
    chance = random.Random(seed)
    acknowledged = Acknowledged()
    with tempfile.TemporaryDirectory(prefix="carrel-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with PostgresServer(Path(folder)).running() as server:
            address = parse_address(server.url)
            with closing(TeamStore(address)) as store:
                store.prepare()
            _kill(server, address, acknowledged, kills, stops, chance)
            problems = list(_problems(address, acknowledged))
    counts = {"kills": kills, "stops": stops, "acknowledged": acknowledged.count, "scopes": len(acknowledged.created)}
    return {**counts, "problems": problems}


def _kill(
    server: PostgresServer,
    address: StoreAddress,
    acknowledged: Acknowledged,
    kills: int,
    stops: int,
    chance: random.Random,
) -> None:
    """Keep some writers at work, and kill one of them or the server, until each was killed often enough."""
    stopping = set(chance.sample(range(kills), stops))
    writers = [Writer(address, f"w{number}") for number in range(WRITERS)]
    for number in range(kills):
        time.sleep(chance.uniform(0.0, 0.15))
        if number in stopping:
            server.stop(signal.SIGQUIT)
            server.start()
        place = chance.randrange(WRITERS)
        acknowledged.take(writers[place].kill())
        writers[place] = Writer(address, f"w{number + WRITERS}")
        for one in writers:
            acknowledged.take(one.acknowledged())
    for one in writers:
        acknowledged.take(one.kill())


def _problems(address: StoreAddress, acknowledged: Acknowledged) -> Iterator[str]:
    with closing(TeamStore(address)) as store:
        check_invariants(store)
    with psycopg.connect(address.url) as connection:
        scopes = {
            alias: (title, description)
            for alias, title, description in connection.execute("SELECT alias, title, description FROM carrel_scopes")
        }
        documents: dict[str, bytes] = dict(connection.execute("SELECT name, data FROM carrel_documents").fetchall())
        yield from _audit_problems(connection)
    yield from (f"lost: the scope {alias}" for alias in sorted(acknowledged.created - set(scopes)))
    for writer, number in acknowledged.updated.items():
        title, description = scopes.get(f"{writer}-1", ("n0", "n0"))
        if int(title[1:]) < number:
            yield f"lost: update {number} of {writer}"
        if title != description:
            yield f"torn: {writer} has the title {title} and the description {description}"
    index = {item["id"]: item for item in yaml.safe_load(documents.get("knowledge/index.yaml", b"items: []"))["items"]}
    for writer, number in acknowledged.saved.items():
        words = documents.get(f"knowledge/global/{writer}.md", b"---\n---\n").decode().rpartition("---\n")[2].split()
        keyword = index.get(writer, {"triggers": {"keywords": ["n0"]}})["triggers"]["keywords"][0]
        if len(words) != LONG or len(set(words)) != 1 or words[0] != keyword:
            yield f"torn: the knowledge of {writer}"
        elif int(keyword[1:]) < number:
            yield f"lost: knowledge {number} of {writer}"


def _audit_problems(connection: psycopg.Connection[tuple[Any, ...]]) -> Iterator[str]:
    """Compare the audit record with the generations: each grows by one with every write that is committed."""
    for kind in ("scopes", "sage"):
        statement = """SELECT generation, (SELECT count(*) FROM carrel_audit WHERE starts_with(uri, %s))
                       FROM carrel_generations WHERE kind = %s"""
        [(writes, rows)] = connection.execute(statement, (f"{kind}:", kind)).fetchall()
        if writes != rows:
            yield f"torn: {writes} writes of {kind}, and {rows} rows of the audit record"


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    outcome = run(given[0], given[1], given[2] if len(given) > 2 else 1)
    print(json.dumps(outcome))  # noqa: T201 the result of the command
    sys.exit(bool(outcome["problems"]))
