"""Requests to three replicas of a team desk, one of which is killed every five seconds: all are answered rightly.

    python -m tests.support.team_killing REQUESTS [SEED]

Each request goes to a replica at random. It is sent again only if the connection was refused, or if a kill cut it
before the whole answer had come; both are counted. Half of the requests are of the modern era, half belong to legacy
sessions, which last from the first request to the last. One request in fifty is a write, which is repeated with the
same `idempotencyKey`. Beside them, followers of both eras hold subscriptions, and must see every write.
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
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

from deploy.team import Team, carrel
from tests.support.http_asking import INITIALIZE, JSON, legacy, modern, modern_headers
from tests.support.postgres import PostgresServer

KILL_EVERY_S = 5.0
CALLERS = 12
FOLLOWERS = 3
"""Of each era."""
STEADY = 8
"""Scopes that nobody changes."""
WRITE_SHARE = 0.02
MOVING = "scopes://scope/moving"
PATIENCE_S = 180.0
"""How long one request may take, with all that is sent again, and a follower to see a write."""


class Killing:
    """A run: what it counts, and the bounds of what a right answer may say."""

    def __init__(self, team: Team, requests: int, seed: int) -> None:
        self.team = team
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
        """Send a request to a replica at random, and again if it was not taken; return the headers and the answer."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                port = self.chance.choice(self.team.ports())
                try:
                    status, given, text = await exchange(port, body, headers)
                except ConnectionRefusedError:
                    self.counts["refused"] += 1
                    await asyncio.sleep(0.05)
                except (OSError, asyncio.IncompleteReadError):
                    self.counts["cut"] += 1
                else:
                    if status != 200:
                        raise Wrong(f"status {status}: {text[:200]!r}")
                    return given, json.loads(text)

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
        text: str = (await self.call(session, "resources/read", {"uri": uri}))["contents"][0]["text"]
        return text

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
        """Change the moving scope; a call that was cut is repeated with its key."""
        async with self.writing:
            self.begun += 1
            number = self.begun
            arguments = {"alias": "moving", "title": f"Moving {number}", "idempotencyKey": f"write-{number:08}"}
            result = await self.call(session, "tools/call", {"name": "scopes.update", "arguments": arguments})
            if result.get("isError"):
                raise Wrong(f"write {number}: {result}")
            self.written = number
            self.counts["writes"] += 1
        async with self.progress:
            self.progress.notify_all()

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
        port = self.chance.choice(self.team.ports())
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
        killer = asyncio.ensure_future(self.kill())
        await asyncio.gather(*(self.talk() for _ in range(CALLERS)))
        seconds = time.monotonic() - begin
        async with self.progress:  # `_check` bounds the time
            await self.progress.wait_for(
                lambda: bool(self.wrong) or all(seen.checked == self.written for seen in self.followers)
            )
        self.ended.set()
        await killer
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
    """Return the number of the write that a text of the moving scope shows."""
    return int(json.loads(text)["title"].removeprefix("Moving "))


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
        carrel(team, "scopes", "create", "Moving 0", "--alias", "moving")
        for number in range(STEADY):
            carrel(team, "scopes", "create", f"Steady {number}", "--alias", f"steady-{number}")

        async def whole() -> dict[str, object]:
            return await Killing(team, requests, seed).run()

        return asyncio.run(whole())
    finally:
        team.stop()


if __name__ == "__main__":
    outcome = run(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    print(json.dumps(outcome))  # noqa: T201 the result of the command
    sys.exit(bool(outcome["wrong"]))
