"""Threads that wait for changes: each hears of every change, whatever the others do."""

import threading

from carrel.stores.change_count import ChangeCount
from tests.support.waiting import PATIENCE_S


def test_a_change_that_one_thread_waited_for_is_news_to_the_others() -> None:
    changes, never = ChangeCount(), threading.Event()
    known = changes.number
    changes.add()

    for _ in range(3):
        changes.wait(known, 10 * PATIENCE_S, never)
        assert changes.number != known


def test_all_threads_that_wait_go_on_with_a_change() -> None:
    changes, never = ChangeCount(), threading.Event()
    waiting = [threading.Thread(target=changes.wait, args=(0, 10 * PATIENCE_S, never)) for _ in range(3)]
    for thread in waiting:
        thread.start()
    changes.add()
    for thread in waiting:
        thread.join(PATIENCE_S)

    assert [thread.is_alive() for thread in waiting] == [False] * 3


def test_a_thread_that_is_to_stop_waits_no_longer() -> None:
    changes, stop, stopped = ChangeCount(), threading.Event(), list[bool]()
    waiting = threading.Thread(target=lambda: stopped.append(changes.wait(0, 10 * PATIENCE_S, stop)))
    waiting.start()
    stop.set()
    changes.wake()
    waiting.join(PATIENCE_S)

    assert stopped == [True]
