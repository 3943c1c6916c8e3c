"""The rate limit of completions: of one server, and of several that share a store."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from time import monotonic

import pytest

from carrel.core.errors import ProviderError
from carrel.core.limits import COMPLETION_BURST, COMPLETIONS_PER_SECOND
from carrel.core.store_address import parse_address
from carrel.server import ratelimit
from carrel.server.ratelimit import Allowance, Allowances
from carrel.server.shared_ratelimit import SharedAllowances
from carrel.stores.allowance_table import DEBT, AllowanceTable
from carrel.stores.database import Database
from tests.support.gate import Gate
from tests.support.postgres import PostgresServer
from tests.support.waiting import until

MANY = 100_000


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(name="clock")
def moved_clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(ratelimit, "monotonic", clock)
    return clock


def drain(allowance: Allowance) -> int:
    """Use what is left; return how much that was."""
    for used in range(MANY):
        try:
            allowance.spend()
        except ProviderError:
            return used
    raise AssertionError("there is no limit")


def test_a_burst_is_given_at_once_and_then_a_rate(clock: Clock) -> None:
    allowance = Allowances().of("ann")
    assert drain(allowance) == COMPLETION_BURST
    with pytest.raises(ProviderError) as refused:
        allowance.spend()
    assert (refused.value.word, refused.value.data) == ("busy", {"retryAfterMs": 20})
    clock.now += 1

    assert drain(allowance) == COMPLETIONS_PER_SECOND


def test_until_a_report_is_answered_nothing_is_earned_and_a_debt_is_paid_back(clock: Clock) -> None:
    allowance = Allowance(lambda: None)
    assert drain(allowance) == COMPLETION_BURST
    clock.now += 2
    assert drain(allowance) == 0
    assert allowance.unreported() == COMPLETION_BURST

    allowance.learn(COMPLETION_BURST, -50.0)
    assert drain(allowance) == 0
    with pytest.raises(ProviderError) as refused:
        allowance.spend()
    assert refused.value.data == {"retryAfterMs": 1_020}
    clock.now += 1.5
    assert drain(allowance) == 25


def test_what_was_used_while_a_report_was_under_way_counts(clock: Clock) -> None:
    allowance = Allowance(lambda: None)
    allowance.spend()
    reported = allowance.unreported()
    for _ in range(9):
        allowance.spend()
    allowance.learn(reported, 20.0)

    assert allowance.unreported() == 9
    assert drain(allowance) == 11


def test_without_the_store_the_limit_of_one_server_holds(clock: Clock) -> None:
    allowance = Allowance(lambda: None)
    drain(allowance)
    allowance.learn(allowance.unreported(), None)
    clock.now += 10

    assert drain(allowance) == COMPLETION_BURST
    assert allowance.unreported() == COMPLETION_BURST, "an outage is no debt without end"


@pytest.fixture(name="replica")
def replicas(store_url: str) -> Iterator[Callable[..., SharedAllowances]]:
    with ExitStack() as until_closed:

        def make(url: str = store_url) -> SharedAllowances:
            database = until_closed.enter_context(closing(Database(parse_address(url))))
            database.prepare()
            return until_closed.enter_context(closing(SharedAllowances(AllowanceTable(database).exchange)))

        yield make


def test_the_level_of_a_caller_is_one_for_all_replicas(store_url: str) -> None:
    with closing(Database(parse_address(store_url))) as one, closing(Database(parse_address(store_url))) as other:
        one.prepare()
        tables = AllowanceTable(one), AllowanceTable(other)
        begun = monotonic()
        assert tables[0].exchange({"ann": 60, "\ud800 ben": 1}) == {"ann": 40.0, "\ud800 ben": 99.0}
        level = tables[1].exchange({"ann": 60})["ann"]
        assert -20 <= level <= -20 + COMPLETIONS_PER_SECOND * (monotonic() - begun)
        assert tables[0].exchange({"ann": 100 * DEBT})["ann"] == -DEBT
        with one.connection() as connection:
            connection.execute("UPDATE carrel_allowances SET at = at - interval '1 day'")
        assert tables[0].exchange({"ann": 0})["ann"] == COMPLETION_BURST


def test_what_a_caller_used_at_one_replica_it_lacks_at_another(replica: Callable[..., SharedAllowances]) -> None:
    first, second = replica(), replica()
    begun = monotonic()
    used = drain(first.of("ann"))
    assert used == COMPLETION_BURST
    assert until(lambda: not first.of("ann").unreported())
    second.of("ann").spend()
    assert until(lambda: not second.of("ann").unreported())

    used += 1 + drain(second.of("ann"))
    assert used <= COMPLETION_BURST + 1 + COMPLETIONS_PER_SECOND * (monotonic() - begun)
    assert drain(second.of("ben")) == COMPLETION_BURST


def test_a_replica_without_its_store_limits_alone_and_shares_again_later(
    replica: Callable[..., SharedAllowances], postgres: PostgresServer, store_url: str, unused_port: int
) -> None:
    with Gate(unused_port, postgres.folder / ".s.PGSQL.5432") as gate:
        allowances = replica(gate.url(store_url))
        allowances.of("ann").spend()
        assert until(lambda: not allowances.of("ann").unreported())
        gate.shut()
        begun = monotonic()

        def used() -> bool:
            drain(allowances.of("ann"))
            return monotonic() - begun > 0.5

        assert until(used), "it goes on earning"
        assert allowances.of("ann").unreported() > 0
        gate.open()

        def is_shared() -> bool:
            drain(allowances.of("ann"))
            return not allowances.of("ann").unreported()

        assert until(is_shared)
