"""One caller and three replicas: what it may ask holds for all of them together."""

import http.client
import json
import threading
from collections.abc import Iterator
from functools import partial
from time import monotonic

import psycopg
import pytest

from carrel.core.limits import COMPLETION_BURST, COMPLETIONS_PER_SECOND
from deploy.team import Team
from tests.support.http_asking import modern, modern_headers
from tests.support.waiting import until

SECONDS = 3.0
MANY = 100_000
ASKED = modern(
    "completion/complete",
    {"ref": {"type": "ref/resource", "uri": "scopes://scope/{alias}"}, "argument": {"name": "alias", "value": ""}},
)


class Asker:
    """A caller that asks one replica for completions."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.given = self.refused = 0

    def ask(self) -> bool:
        """Ask once; return whether it was given."""
        self._connection.request("POST", "/mcp", ASKED, modern_headers("completion/complete"))
        answer = json.loads(self._connection.getresponse().read())
        is_given = "result" in answer
        assert is_given or "retryAfterMs" in answer["error"]["data"], answer
        self.given += is_given
        self.refused += not is_given
        return is_given

    def drain(self) -> None:
        """Ask until it is refused."""
        for _ in range(MANY):
            if not self.ask():
                return

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def ask_for(self, seconds: float) -> None:
        """Ask as often as possible for some time."""
        until_ = monotonic() + seconds
        while monotonic() < until_:
            self.ask()


@pytest.fixture(name="askers")
def askers_of_the_replicas(team: Team) -> Iterator[list[Asker]]:
    askers = [Asker(port) for port in team.ports()]
    yield askers
    for asker in askers:
        asker.close()


def test_a_caller_that_used_up_its_allowance_at_one_replica_is_refused_by_the_next(
    askers: list[Asker], store_url: str
) -> None:
    def last_report() -> object:
        """Return the time of the last report of any replica."""
        with psycopg.connect(store_url) as connection:
            return connection.execute("SELECT max(at) FROM carrel_allowances").fetchone()

    def has_reported(before: object) -> bool:
        return last_report() != before

    def exchange(asker: Asker) -> None:
        """Have a replica report what it gave, and learn what is left.

        One report may be the last one of the replica before, or be on its way while more is given. The next holds all
        of that, and when one more is there, its answer was learned.
        """
        for _ in range(3):
            before = last_report()
            until(asker.ask)
            until(partial(has_reported, before))

    begun = monotonic()
    for asker in askers:
        exchange(asker)
        asker.drain()
        exchange(asker)

    assert askers[0].given >= COMPLETION_BURST
    most = COMPLETION_BURST + COMPLETIONS_PER_SECOND * (monotonic() - begun)
    assert sum(asker.given for asker in askers) <= most + COMPLETION_BURST // 2, "three bursts were given"


def test_three_replicas_under_one_caller_give_no_more_than_the_bound(askers: list[Asker]) -> None:
    begun = monotonic()
    threads = [threading.Thread(target=asker.ask_for, args=(SECONDS,), daemon=True) for asker in askers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    took = monotonic() - begun

    given, refused = sum(asker.given for asker in askers), sum(asker.refused for asker in askers)
    print(f"{given} given and {refused} refused in {took:.1f} s")  # noqa: T201 a figure of docs/decisions/0022
    assert given <= COMPLETION_BURST + COMPLETIONS_PER_SECOND * took + 2 * COMPLETION_BURST
