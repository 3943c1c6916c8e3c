"""A team desk under fire: three replicas behind a balancer that chooses at random, one of them killed again and again.

`python -m tests.support.team_killing 100000` does the same for longer. Here, every request of both eras must be
answered, and rightly.
"""

import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.balancer import Balancer
from deploy.team import Team, carrel
from tests.support.nats import NatsServer
from tests.support.team_client import TeamClient, follow
from tests.support.team_killing import FOLLOWERS, is_sound, killed
from tests.support.waiting import until

CLIENTS = 4
KILLS = 4
SCOPE = "scopes://scope/garden"


@contextmanager
def balancing(team: Team) -> Iterator[int]:
    """Run a balancer; yield its port."""
    with Balancer(Path(team.environment["HOME"]) / "balancer", team.ports()).running() as balancer:
        yield balancer.port


def talk(port: int, ended: threading.Event, failed: list[BaseException]) -> None:
    """Make requests of both eras until `ended` is set, and check each answer."""
    try:
        client = TeamClient(port)
        client.open()
        while not ended.is_set():
            assert "Garden" in client.read(SCOPE)
            contents = client.call("resources/read", {"uri": SCOPE})["contents"]
            assert "Garden" in contents[0]["text"]
    except BaseException as error:
        failed.append(error)
        raise


def test_every_request_is_answered_while_replicas_are_killed(team: Team) -> None:
    carrel(team, "scopes", "create", "Garden", "--alias", "garden")
    failed: list[BaseException] = []
    ended = threading.Event()
    with balancing(team) as port:
        clients = [threading.Thread(target=talk, args=(port, ended, failed), daemon=True) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        chance = random.Random(7)
        for _ in range(KILLS):
            victim = chance.choice(team.replicas)
            victim.stop(signal.SIGKILL)
            victim.start()
        ended.set()
        for client in clients:
            client.join(120)
    assert not failed, failed
    assert not any(client.is_alive() for client in clients)


def test_a_stream_that_is_cut_goes_on_elsewhere_and_misses_no_change(team: Team) -> None:
    carrel(team, "scopes", "create", "Garden", "--alias", "garden")
    with balancing(team) as port:
        client = TeamClient(port)
        client.open()
        client.call("resources/subscribe", {"uri": SCOPE})
        seen: list[str] = []
        cuts: list[str] = []
        ended = threading.Event()
        arguments = (port, client, SCOPE, seen, cuts, ended)
        follower = threading.Thread(target=follow, args=arguments, daemon=True)
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


@pytest.mark.slow
def test_changes_reach_all_replicas_over_a_bus_and_also_while_it_is_away(tmp_path: Path, store_url: str) -> None:
    with NatsServer(tmp_path).running() as bus:
        team = Team(tmp_path / "team", store_url, others={"CARREL_BUS_URL": bus.url})
        ended = threading.Event()
        try:
            team.start()
            carrel(team, "scopes", "create", "Garden", "--alias", "garden")
            seen: list[list[str]] = []
            for port in team.ports():
                client = TeamClient(port)
                client.open()
                client.call("resources/subscribe", {"uri": SCOPE})
                seen.append([])
                threading.Thread(target=follow, args=(port, client, SCOPE, seen[-1], [], ended), daemon=True).start()
            for number in range(4):
                if number == 1:
                    bus.stop()
                elif number == 2:
                    bus.start()
                title = f"Garden {number}"
                carrel(team, "scopes", "update", "garden", "--title", title)
                for texts in seen:
                    until(lambda texts=texts, title=title: any(title in text for text in texts), 60)  # type: ignore[misc]
        finally:
            ended.set()
            team.stop()


@pytest.mark.slow
def test_make_team_shows_a_task_and_a_document_and_ends_at_ctrl_c(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "deploy.team"], cwd=root, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        printed = []
        for line in process.stdout:
            printed.append(line)
            if "Ctrl-C" in line:
                break
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: all processes get it
        code = process.wait(60)
    assert code == 0, printed
    assert "workspace://@docs/tomatoes.md says: Water them in the morning.\n" in printed
    [port] = re.findall(r"http://127\.0\.0\.1:(\d+)/mcp: a Postgres", "".join(printed))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(port)), timeout=10)
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


@pytest.mark.slow
def test_0_of_some_thousand_requests_are_lost_or_answered_wrongly(tmp_path: Path, store_url: str) -> None:
    outcome = killed(Team(tmp_path / "team", store_url), 4_000, 5)

    assert is_sound(outcome), outcome
    assert outcome["requests"] == 4_000
    assert outcome["writes_seen_by"] == 2 * FOLLOWERS


def test_replicas_end_well(team: Team) -> None:
    assert team.stop() == [0, 0, 0]
