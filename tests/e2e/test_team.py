"""A team desk under fire: three replicas behind a balancer that chooses at random, one of them killed again and again.

`python -m bench.team` measures the same for longer. Here, every request of both eras must be answered, and rightly.
"""

import asyncio
import queue
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.balancer import Balancer
from deploy.team import Team, carrel
from tests.support.team_client import TeamClient, follow
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
        ended = threading.Event()
        follower = threading.Thread(target=follow, args=(port, client, SCOPE, seen, ended), daemon=True)
        follower.start()
        for number in range(4):
            title = f"Garden {number}"
            carrel(team, "scopes", "update", "garden", "--title", title)
            until(lambda title=title: any(title in text for text in seen), 60)  # type: ignore[misc]
            team.replicas[number % 3].stop(signal.SIGKILL)
            team.replicas[number % 3].start()
        ended.set()
        follower.join(30)


def test_replicas_end_well_and_are_not_ready_meanwhile(team: Team) -> None:
    assert team.stop() == [0, 0, 0]
