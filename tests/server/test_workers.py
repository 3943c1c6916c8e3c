"""Threads for work that may wait: whose turn it is, what is late, and what a stuck provider costs the others."""

import threading
from asyncio import CancelledError
from collections.abc import Callable, Iterator

import pytest

from carrel.core.limits import MAX_PATIENT, MAX_PENDING, WORKER_THREADS
from carrel.server.requests import Running, Work
from carrel.server.workers import Workers
from tests.support.waiting import PATIENCE_S


class Answers:
    """Takes what becomes of work, and waits until so much of it is there."""

    def __init__(self) -> None:
        self.given: list[bytes | None] = []
        self._changed = threading.Condition()

    def take(self, answer: bytes | None) -> None:
        with self._changed:
            self.given.append(answer)
            self._changed.notify_all()

    def wait_for(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.given) >= count, PATIENCE_S), self.given[-3:]


def work(owner: str, run: Callable[[], bytes] = lambda: b"done", deadline_s: float = 0.0) -> Work:
    return Work(Running(lambda: None), run, lambda: b"late", lambda: b"busy", owner=owner, deadline_s=deadline_s)


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    opened = threading.Event()
    yield opened
    opened.set()


def stuck(gate: threading.Event) -> Callable[[], bytes]:
    def wait() -> bytes:
        gate.wait(PATIENCE_S)
        return b"through"

    return wait


def test_calls_that_are_late_leave_their_queue_so_that_others_are_answered(gate: threading.Event) -> None:
    workers, late, others = Workers(lambda _: None, deadline_s=0.01), Answers(), Answers()
    count = 0
    while count < 3 * MAX_PENDING:
        for _ in range(MAX_PENDING // 2):
            workers.submit(work("stuck", stuck(gate)), late.take)
            count += 1
        late.wait_for(count)
    assert set(late.given) == {b"late"}

    workers.submit(work("other", deadline_s=PATIENCE_S), others.take)
    others.wait_for(1)

    assert others.given == [b"done"]
    workers.close()


def test_a_flood_for_one_provider_leaves_room_for_the_others(gate: threading.Event) -> None:
    workers, flood, others = Workers(lambda _: None), Answers(), Answers()
    for _ in range(2 * MAX_PENDING):
        workers.submit(work("stuck", stuck(gate)), flood.take)
    flood.wait_for(1)
    assert set(flood.given) == {b"busy"}

    workers.submit(work("other"), others.take)
    others.wait_for(1)

    assert others.given == [b"done"]
    gate.set()
    workers.close()


def test_cancelled_calls_make_room_for_those_that_are_wanted(gate: threading.Event) -> None:
    workers, unwanted, others = Workers(lambda _: None), Answers(), Answers()
    begun = threading.Semaphore(0)

    def hang() -> bytes:
        begun.release()
        return stuck(gate)()

    for _ in range(WORKER_THREADS):
        workers.submit(work("stuck", hang), unwanted.take)
        assert begun.acquire(timeout=PATIENCE_S)
    calls = [Running(lambda: None) for _ in range(MAX_PENDING)]
    for call in calls:
        workers.submit(Work(call, hang, lambda: b"late", lambda: b"busy", owner="stuck"), unwanted.take)
        call.cancel()

    for _ in range(MAX_PENDING):
        workers.submit(work("stuck"), others.take)
    assert (others.given, unwanted.given) == ([], [None] * MAX_PENDING)
    workers.submit(work("stuck"), others.take)
    assert others.given == [b"busy"]

    gate.set()
    others.wait_for(MAX_PENDING + 1)
    assert set(others.given[1:]) == {b"done"}
    workers.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_work_that_ends_its_thread_costs_its_provider_no_place() -> None:
    workers, ended, others = Workers(lambda _: None, deadline_s=0.05), Answers(), Answers()

    def leave() -> bytes:
        raise SystemExit

    for _ in range(3 * WORKER_THREADS):
        workers.submit(work("leaving", leave), ended.take)
    ended.wait_for(3 * WORKER_THREADS)
    assert set(ended.given) == {b"late"}

    for _ in range(3 * WORKER_THREADS):
        workers.submit(work("leaving", deadline_s=PATIENCE_S), others.take)
    others.wait_for(3 * WORKER_THREADS)

    assert set(others.given) == {b"done"}
    workers.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_patient_work_that_ends_its_thread_is_answered_and_leaves_its_place() -> None:
    workers, ended = Workers(lambda _: None), Answers()

    def leave() -> bytes:
        raise SystemExit

    for count in range(1, 2 * MAX_PATIENT):
        patient = Work(Running(lambda: None), leave, lambda: b"late", lambda: b"busy", is_patient=True)
        workers.submit(patient, ended.take)
        ended.wait_for(count)
        for thread in threading.enumerate():
            if thread.name == "carrel-patient":
                thread.join(PATIENCE_S)

    assert set(ended.given) == {b"late"}
    workers.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("way", [RuntimeError, CancelledError, KeyboardInterrupt, None])
def test_a_stop_that_fails_or_hangs_does_not_delay_the_timeout_error(
    gate: threading.Event, way: type[BaseException] | None
) -> None:
    workers, late = Workers(lambda _: None, deadline_s=0.01), Answers()

    def refuse() -> None:
        if way is not None:
            raise way
        gate.wait(PATIENCE_S)

    stubborn = Running(lambda: None)
    stubborn.on_cancel(refuse)
    workers.submit(Work(stubborn, stuck(gate), lambda: b"late", lambda: b"busy", owner="stuck"), late.take)
    late.wait_for(1)
    workers.submit(work("stuck", stuck(gate)), late.take)
    late.wait_for(2)

    assert late.given == [b"late", b"late"]
    workers.close()
