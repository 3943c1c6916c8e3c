"""A team desk under fire: three replicas behind a balancer that chooses at random, one of them killed again and again.

`python -m bench.team` measures the same for longer. Here, every request of both eras must be answered, and rightly.
"""

import asyncio
import http.client
import json
import queue
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from deploy.balancer import Balancer
from deploy.team import Team, carrel
from tests.support.http_asking import INITIALIZE, JSON, legacy, modern, modern_headers
from tests.support.waiting import until

CLIENTS = 4
REQUESTS = 120
"""Of each client."""
SCOPE = "scopes://scope/garden"


@contextmanager
def balancing(team: Team) -> Iterator[int]:
    """Run a balancer on a thread; yield its port."""
    started: queue.SimpleQueue[tuple[int, asyncio.AbstractEventLoop, asyncio.Event]] = queue.SimpleQueue()

    async def balance() -> None:
        balancer, ended = Balancer(team.ports), asyncio.Event()
        started.put((await balancer.start(), asyncio.get_running_loop(), ended))
        await ended.wait()
        await balancer.stop()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.wait(others or {asyncio.ensure_future(asyncio.sleep(0))})
        await asyncio.sleep(0)  # closed connections are taken apart in the next round

    thread = threading.Thread(target=asyncio.run, args=(balance(),), daemon=True)
    thread.start()
    port, loop, ended = started.get(timeout=30)
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(30)
        assert not thread.is_alive()


@pytest.fixture(name="team")
def team_of_three(tmp_path: Path, store_url: str) -> Iterator[Team]:
    team = Team(tmp_path / "team", store_url)
    team.start()
    try:
        yield team
    finally:
        team.stop()


class TeamClient:
    """One caller: each request is a connection of its own, as a balancer gives it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._numbers = count(1)
        self.session = ""

    def post(self, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, str], Any]:
        """Post one message; return the status, the headers and the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            connection.request("POST", "/mcp", body, headers)
            response = connection.getresponse()
            text = response.read()
            return response.status, dict(response.getheaders()), json.loads(text) if text else None
        finally:
            connection.close()

    def open(self) -> None:
        """Open a legacy session."""
        status, headers, _ = self.post(legacy("initialize", INITIALIZE), JSON)
        assert status == 200
        self.session = headers["mcp-session-id"]

    def call(self, method: str, params: dict[str, object]) -> Any:
        """Send one request of the session; return its result."""
        number = next(self._numbers)
        message = legacy(method, params, request_id=number)
        status, _, answer = self.post(message, {**JSON, "mcp-session-id": self.session})
        assert (status, answer["id"]) == (200, number), answer
        return answer["result"]

    def read(self, uri: str) -> str:
        """Read a resource in the modern era; return its text."""
        number = next(self._numbers)
        message = modern("resources/read", {"uri": uri}, request_id=number)
        status, _, answer = self.post(message, modern_headers("resources/read", uri))
        assert (status, answer["id"]) == (200, number), answer
        text: str = answer["result"]["contents"][0]["text"]
        return text


def talk(port: int, failed: list[BaseException]) -> None:
    """Make requests of both eras, and check each answer."""
    try:
        client = TeamClient(port)
        client.open()
        for number in range(REQUESTS):
            if number % 2:
                assert "Garden" in client.read(SCOPE)
            else:
                contents = client.call("resources/read", {"uri": SCOPE})["contents"]
                assert "Garden" in contents[0]["text"]
    except BaseException as error:
        failed.append(error)
        raise


def test_every_request_is_answered_while_replicas_are_killed(team: Team) -> None:
    carrel(team, "scopes", "create", "Garden", "--alias", "garden")
    failed: list[BaseException] = []
    with balancing(team) as port:
        clients = [threading.Thread(target=talk, args=(port, failed), daemon=True) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        chance, kills = random.Random(7), 0
        while any(client.is_alive() for client in clients):
            victim = chance.choice(team.replicas)
            victim.stop(signal.SIGKILL)
            victim.start()
            kills += 1
        for client in clients:
            client.join(120)
    assert not failed, failed
    assert kills >= 2


def test_a_stream_that_is_cut_goes_on_elsewhere_and_misses_no_change(team: Team) -> None:
    carrel(team, "scopes", "create", "Garden", "--alias", "garden")
    with balancing(team) as port:
        client = TeamClient(port)
        client.open()
        client.call("resources/subscribe", {"uri": SCOPE})
        seen: list[str] = []
        cuts: list[str] = []
        ended = threading.Event()
        follower = threading.Thread(target=follow, args=(port, client, seen, cuts, ended), daemon=True)
        follower.start()
        for number in range(4):
            title = f"Garden {number}"
            carrel(team, "scopes", "update", "garden", "--title", title)
            until(lambda title=title: any(title in text for text in seen), 60)  # type: ignore[misc]
            team.replicas[number % 3].stop(signal.SIGKILL)
            team.replicas[number % 3].start()
        ended.set()
        follower.join(30)
    assert not follower.is_alive()
    assert "Garden 3" in seen[-1]
    assert cuts, "each replica was killed once, and the stream was at one of them"


def follow(port: int, client: TeamClient, seen: list[str], cuts: list[str], ended: threading.Event) -> None:
    """Follow the stream of a session as a client does: at each notification it reads, and after a cut it resumes."""
    last_event = ""
    while not ended.is_set():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        resumed = {"last-event-id": last_event} if last_event else {}
        try:
            headers = {"accept": "text/event-stream", "mcp-session-id": client.session, **resumed}
            connection.request("GET", "/mcp", headers=headers)
            response = connection.getresponse()
            while not ended.is_set() and (line := response.readline()):
                if line.startswith(b"id: "):
                    last_event = line[4:].strip().decode()
                elif line.startswith(b"data: ") and b"resources/updated" in line:
                    seen.append(TeamClient(port).read(SCOPE))
            if not ended.is_set():
                cuts.append(last_event)
        except TimeoutError:
            continue
        except (OSError, http.client.HTTPException):
            cuts.append(last_event)
        finally:
            connection.close()


def test_replicas_end_well_and_are_not_ready_meanwhile(team: Team) -> None:
    assert team.stop() == [0, 0, 0]
