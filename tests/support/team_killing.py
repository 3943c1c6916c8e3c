"""Requests to three replicas of a team desk, one of which is killed every five seconds: all are answered rightly.

    python -m tests.support.team_killing REQUESTS [SEED]

The balancer of `make team` sends each request to a replica at random. A client sends one again only if no replica
could be reached (`refused`, status 503). Half of the requests are of the modern era, half belong to legacy
sessions, which last from the first request to the last. One request in fifty is a write with an `idempotencyKey`.
Beside them, followers of both eras hold subscriptions, and must see every write. Writers without a key also write,
with `ifMatch`: if the balancer cannot know whether their call was carried out (`unknown`, status 502), they read,
and decide. At the end, the audit record must have exactly one row for each write.
"""

import asyncio
import contextlib
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from deploy.balancer import Balancer
from deploy.team import Team, carrel
from tests.support.http_asking import INITIALIZE, JSON, legacy, modern, modern_headers
from tests.support.postgres import PostgresServer

KILL_EVERY_S = 5.0
CALLERS = 12
FOLLOWERS = 3
"""Of each era."""
CAREFUL = 4
"""Writers that use `ifMatch` instead of a key, each on a scope of its own."""
STEADY = 8
"""Scopes that nobody changes."""
WRITE_SHARE = 0.02
MOVING = "scopes://scope/moving"
PATIENCE_S = 180.0
"""How long one request may take, with all that is sent again, and a follower to see a write."""


class Killing:
    """A run: what it counts, and the bounds of what a right answer may say."""

    def __init__(self, team: Team, port: int, requests: int, seed: int) -> None:
        self.team = team
        self.port = port
        """Of the balancer."""
        self.requests = requests
        self.chance = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.delays_ms: list[float] = []
        self.ended = asyncio.Event()
        self.followers: list[Seen] = []
        self.writing = asyncio.Lock()
        self.progress = asyncio.Condition()
        """Notified when something was written, and when a follower was checked."""
        self.begun = 0
        """The number of the newest write that was sent."""
        self.written = 0
        """The number of the newest write that was acknowledged."""
        self._ids = count(1)
        self._starting: set[asyncio.Task[None]] = set()

    # One request

    async def ask(self, body: bytes, headers: dict[str, str]) -> tuple[dict[str, str], Any]:
        """Send a request, and again while no replica can be reached; return the headers and the answer."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                status, given, text = await exchange(self.port, body, headers)
                if status == 200:
                    return given, json.loads(text)
                if status == 502:
                    raise Unknown(text.decode())
                if status != 503:
                    raise Wrong(f"status {status}: {text[:200]!r}")
                self.counts["refused"] += 1
                await asyncio.sleep(0.05)

    async def call(self, session: str, method: str, params: dict[str, object]) -> Any:
        """Make a request, of a legacy session or of the modern era; return its result."""
        number = next(self._ids)
        if session:
            body, headers = legacy(method, params, request_id=number), {**JSON, "mcp-session-id": session}
        else:
            name = str(params.get("uri") or params.get("name") or "") or None
            body, headers = modern(method, params, request_id=number), modern_headers(method, name)
        _, answer = await self.ask(body, headers)
        if answer.get("id") != number or "result" not in answer:
            raise Wrong(f"{method}: {answer}")
        return answer["result"]

    async def read(self, session: str, uri: str) -> str:
        """Read a resource; return its text."""
        return (await self._read(session, uri))[0]

    async def _read(self, session: str, uri: str) -> tuple[str, str]:
        """Return the text of a resource, and its ETag."""
        [item] = (await self.call(session, "resources/read", {"uri": uri}))["contents"]
        return item["text"], item["_meta"]["dev.carrel/etag"]

    async def open(self) -> str:
        """Open a legacy session; return its id."""
        headers, _ = await self.ask(legacy("initialize", INITIALIZE), JSON)
        return headers["mcp-session-id"]

    # Callers

    async def talk(self) -> None:
        """Make requests until enough were made, and check each answer."""
        session = await self.open()
        while self.counts["requests"] < self.requests:
            self.counts["requests"] += 1
            used = session if self.chance.random() < 0.5 else ""
            try:
                await self._one(used)
            except Exception as error:
                self.wrong.append(f"{type(error).__name__}: {error}")
            else:
                self.counts["legacy" if used else "modern"] += 1

    async def _one(self, session: str) -> None:
        kind = self.chance.random()
        if kind < WRITE_SHARE:
            await self.write(session)
        elif kind < 0.2:
            least = self.written
            seen = number_in(await self.read(session, MOVING))
            if not least <= seen <= self.begun:
                raise Wrong(f"read write {seen}; {least} was acknowledged before, {self.begun} is the newest")
        else:
            number = self.chance.randrange(STEADY)
            text = await self.read(session, f"scopes://scope/steady-{number}")
            if f"Steady {number}" not in text:
                raise Wrong(f"steady-{number}: {text[:200]}")

    async def write(self, session: str) -> None:
        """Change the moving scope, with a key: the balancer may repeat the call."""
        async with self.writing:
            self.begun += 1
            number = self.begun
            arguments = {"alias": "moving", "title": f"moving {number}", "idempotencyKey": f"write-{number:08}"}
            result = await self.call(session, "tools/call", {"name": "scopes.update", "arguments": arguments})
            if result.get("isError"):
                raise Wrong(f"write {number}: {result}")
            self.written = number
            self.counts["writes"] += 1
        async with self.progress:
            self.progress.notify_all()

    async def write_carefully(self, alias: str) -> None:
        """Change a scope with `ifMatch` until the end; after an unknown outcome, read and decide."""
        uri = f"scopes://scope/{alias}"
        try:
            for number in count(1):
                arguments = {"alias": alias, "title": f"{alias} {number}", "ifMatch": (await self._read("", uri))[1]}
                is_repeated = False
                while not await self._is_written(uri, number, arguments, is_repeated=is_repeated):
                    self.counts["careful_repeated"] += 1
                    is_repeated = True
                self.counts["careful_writes"] += 1
                if self.ended.is_set():
                    return
        except Exception as error:
            self.wrong.append(f"a careful writer: {type(error).__name__}: {error}")

    async def _is_written(self, uri: str, number: int, arguments: Mapping[str, object], *, is_repeated: bool) -> bool:
        """Send a write; return whether it was carried out.

        Postgres may commit what a replica had sent a moment after the replica was killed. Then a repeated write is a
        conflict, and the title shows that the first one was carried out.
        """
        try:
            result = await self.call("", "tools/call", {"name": "scopes.update", "arguments": arguments})
        except Unknown:
            self.counts["unknown"] += 1
            seen = number_in((await self._read("", uri))[0])
            if seen not in (number - 1, number):
                raise Wrong(f"{uri}: read write {seen} after {number}") from None
            return seen == number
        if result.get("isError"):
            if is_repeated and number_in((await self._read("", uri))[0]) == number:
                self.counts["careful_late"] += 1
                return True
            raise Wrong(f"write {number}: {result}")
        return True

    # Followers

    async def follow(self, *, is_legacy: bool) -> None:
        """Hold a subscription, read at each notification, and follow again on another replica after a cut."""
        session = await self.open() if is_legacy else ""
        if is_legacy:
            await self.call(session, "resources/subscribe", {"uri": MOVING})
        seen, last_event = Seen(), ""
        self.followers.append(seen)
        checking = asyncio.ensure_future(self._check(seen))
        try:
            while not self.ended.is_set():
                self.counts["streams"] += 1
                with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                    async for field, text in self._events(session, last_event):
                        if field == "id":
                            last_event = text
                        elif "resources/updated" in text or (field == "begin" and not last_event):
                            # A client reads when a stream begins; one that resumes is told what it missed.
                            self.counts["notifications"] += field == "data"
                            seen.reach(number_in(await self.read(session, MOVING)))
        except Exception as error:
            self.wrong.append(f"a follower: {type(error).__name__}: {error}")
        finally:
            checking.cancel()

    async def _events(self, session: str, last_event: str) -> AsyncIterator[tuple[str, str]]:
        """Yield the fields of a stream's events: of a session's stream, or of a new modern subscription."""
        port = self.port
        if session:
            headers = {"accept": "text/event-stream", "mcp-session-id": session}
            resumed = {"last-event-id": last_event} if last_event else {}
            request = spelled("GET", port, b"", {**headers, **resumed})
        else:
            wanted = {"notifications": {"resourceSubscriptions": [MOVING]}}
            body = modern("subscriptions/listen", wanted)
            request = spelled("POST", port, body, modern_headers("subscriptions/listen"))
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
            raise
        try:
            writer.write(request)
            is_streaming = False
            while (line := await reader.readline()) and not self.ended.is_set():
                field, _, text = line.decode().partition(": ")
                if field in ("id", "data"):
                    is_begun = not session and "subscriptions/acknowledged" in text
                    yield "begin" if is_begun else field, text.strip()
                elif session and line == b"\r\n" and not is_streaming:
                    is_streaming = True
                    yield "begin", ""
        finally:
            writer.close()

    async def _check(self, seen: "Seen") -> None:
        """Check that a follower sees what was written, each time in bounded time."""
        while True:
            expected = self.written
            begin = time.monotonic()
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await seen.until(expected)
            except TimeoutError:
                self.wrong.append(f"a follower missed write {expected}")
            self.delays_ms.append((time.monotonic() - begin) * 1_000)
            seen.checked = expected
            async with self.progress:
                self.progress.notify_all()
                await self.progress.wait_for(lambda expected=expected: self.written > expected)  # type: ignore[misc]

    # The killer

    async def kill(self) -> None:
        """Kill a running replica every few seconds, and start it again."""
        while not self.ended.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.ended.wait(), KILL_EVERY_S)
            running = [one for one in self.team.replicas if one.is_running]
            if not self.ended.is_set() and running:
                victim = self.chance.choice(running)
                await asyncio.to_thread(victim.stop, signal.SIGKILL)
                self.counts["kills"] += 1
                started = asyncio.ensure_future(asyncio.to_thread(victim.start))
                self._starting.add(started)
                started.add_done_callback(self._starting.discard)
        await asyncio.gather(*self._starting)

    async def run(self) -> dict[str, object]:
        """Make all requests; return what was counted."""
        begin = time.monotonic()
        beside = [asyncio.ensure_future(self.follow(is_legacy=bool(number % 2))) for number in range(2 * FOLLOWERS)]
        careful = [asyncio.ensure_future(self.write_carefully(f"careful-{number}")) for number in range(CAREFUL)]
        killer = asyncio.ensure_future(self.kill())
        await asyncio.gather(*(self.talk() for _ in range(CALLERS)))
        seconds = time.monotonic() - begin
        async with self.progress:  # `_check` bounds the time
            await self.progress.wait_for(
                lambda: bool(self.wrong) or all(seen.checked == self.written for seen in self.followers)
            )
        self.ended.set()
        await asyncio.gather(*careful, killer)
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        delays = sorted(self.delays_ms) or [0.0]
        return {
            **self.counts,
            "seconds": round(seconds),
            "writes_seen_by": len(self.followers),
            "seen_ms_median": round(delays[len(delays) // 2]),
            "seen_ms_most": round(delays[-1]),
            "wrong": len(self.wrong),
            "problems": self.wrong[:5],
        }


class Wrong(Exception):
    """An answer that is not the right one."""


class Unknown(Exception):
    """The balancer does not know whether a call was carried out."""


class Seen:
    """The newest write that a follower has seen."""

    def __init__(self) -> None:
        self._newest = 0
        self.checked = 0
        """Up to which write it was checked that this follower has seen it."""
        self._changed = asyncio.Condition()
        self._waking: set[asyncio.Task[None]] = set()

    def reach(self, number: int) -> None:
        """Note that a write was seen, and with it all before it."""
        self._newest = max(self._newest, number)
        task = asyncio.ensure_future(self._wake())
        self._waking.add(task)
        task.add_done_callback(self._waking.discard)

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def until(self, number: int) -> None:
        """Wait until a write was seen."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._newest >= number)


def number_in(text: str) -> int:
    """Return the number of the write that the title of a scope shows."""
    return int(json.loads(text)["title"].rpartition(" ")[2])


def spelled(method: str, port: int, body: bytes, headers: dict[str, str]) -> bytes:
    """Return a request as it is sent."""
    fields = {"host": f"127.0.0.1:{port}", "connection": "close", "content-length": str(len(body)), **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"{method} /mcp HTTP/1.1\r\n{head}\r\n".encode() + body


async def exchange(port: int, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
    """Post one message on a connection of its own; return status, headers and body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(spelled("POST", port, body, headers))
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        text = await reader.readexactly(int(fields["content-length"]))
        return int(first.split()[1]), fields, text
    finally:
        writer.close()


def run(requests: int, seed: int) -> dict[str, object]:
    """Run a team of three on a Postgres of its own, and kill."""
    with tempfile.TemporaryDirectory(prefix="carrel-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with PostgresServer(Path(folder) / "postgres").running() as server:
            return killed(Team(Path(folder) / "team", server.url), requests, seed)


def killed(team: Team, requests: int, seed: int) -> dict[str, object]:
    """Start a team, make the requests under fire, and stop it; return what was counted."""
    try:
        team.start()
        for alias in ("moving", *(f"careful-{number}" for number in range(CAREFUL))):
            carrel(team, "scopes", "create", f"{alias} 0", "--alias", alias)
        for number in range(STEADY):
            carrel(team, "scopes", "create", f"Steady {number}", "--alias", f"steady-{number}")

        async def whole(port: int) -> dict[str, object]:
            return await Killing(team, port, requests, seed).run()

        with Balancer(Path(team.environment["HOME"]) / "balancer", team.ports()).running() as balancer:
            outcome = asyncio.run(whole(balancer.port))
    finally:
        team.stop()
    return outcome | {"audited": audited(team.store_url)}


def audited(store_url: str) -> int:
    """Return how many changes of scopes the audit record has."""
    with psycopg.connect(store_url) as connection:
        [(rows,)] = connection.execute("SELECT count(*) FROM carrel_audit WHERE tool = 'scopes.update'").fetchall()
    return int(rows)


def is_sound(outcome: dict[str, Any]) -> bool:
    """Return whether nothing was lost, answered wrongly or written twice."""
    written = outcome["writes"] + outcome["careful_writes"]
    return bool(outcome["wrong"] == 0 and outcome["audited"] == written)


if __name__ == "__main__":
    outcome = run(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    print(json.dumps(outcome))  # noqa: T201 the result of the command
    sys.exit(not is_sound(outcome))
