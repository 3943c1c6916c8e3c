"""Eight processes create, move, rename and delete at once: nothing is lost, nothing breaks, nobody hears of a lock."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

from carrel.providers.scopes import queries
from tests.support.scopes_sample import check_invariants, file_in, plant

PROCESSES = 8
SECONDS = 10
COUNTER = "counter"

WORKER = """
import json, random, sys, time
from carrel.core.isotime import now_ms
from carrel.providers.scopes import changes, queries
from carrel.providers.scopes.scope_errors import ScopeError
from carrel.providers.scopes.store import Store
from carrel.providers.scopes.changes import Change, Move

path, number, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
store, chance = Store(path), random.Random(number)
done, refused, counted, kept = 0, {}, 0, []
end = time.monotonic() + seconds


def any_scope(connection):
    rows = connection.execute("SELECT count(*) FROM scopes").fetchone()[0]
    offset = chance.randrange(rows)
    alias = connection.execute("SELECT alias FROM scopes LIMIT 1 OFFSET ?", (offset,)).fetchone()[0]
    return queries.find(connection, alias)


def count(connection):
    scope = queries.find(connection, "counter")
    changes.update(connection, now_ms(), scope, Change(description=str(int(scope.description or 0) + 1)))


def create(connection):
    parent = any_scope(connection)
    goal = parent if chance.random() < 0.8 else None
    return changes.create(connection, now_ms(), title=f"{number} {chance.random()}", parent=goal).alias


def move(connection):
    goal = any_scope(connection) if chance.random() < 0.8 else None
    changes.move(connection, now_ms(), any_scope(connection), Move(parent=goal))


def reorder(connection):
    scope = any_scope(connection)
    siblings = queries.children(connection, scope.parent_id, 0, 5)
    changes.move(connection, now_ms(), scope, Move(leaves=False, before=chance.choice(siblings)))


def rename(connection):
    scope = any_scope(connection)
    if scope.alias != "counter":
        changes.add_alias(connection, now_ms(), scope, changes.free_alias(connection), is_canonical=True)


def delete(connection):
    scope = any_scope(connection)
    if not queries.is_beneath(connection, queries.find(connection, "counter").id, scope.id):
        changes.delete(connection, now_ms(), scope, cascade=chance.random() < 0.3)


while time.monotonic() < end:
    work = chance.choice([count, create, create, create, move, reorder, rename, delete])
    try:
        with store.writing() as connection:
            made = work(connection)
    except ScopeError as error:
        refused[error.code] = refused.get(error.code, 0) + 1
        continue
    done += 1
    counted += work is count
    if chance.random() < 0.1:
        with store.reading() as connection:
            any_scope(connection)
store.close()
print(json.dumps({"done": done, "refused": refused, "counted": counted}))
"""


def test_eight_processes_for_ten_seconds(tmp_path: Path) -> None:
    store = file_in(tmp_path)
    plant(store, ((COUNTER, "Counter", "TODO", None),))
    command = [sys.executable, "-c", WORKER, store.path]

    running = [
        subprocess.Popen(
            [*command, str(number), str(SECONDS)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for number in range(PROCESSES)
    ]
    ended = [process.communicate(timeout=120) for process in running]

    assert [(process.returncode, err) for process, (_, err) in zip(running, ended, strict=True)] == [
        (0, "")
    ] * PROCESSES
    told = [json.loads(out) for out, _ in ended]
    check_invariants(store)
    with store.reading() as connection:
        assert connection is not None
        counter = queries.find(connection, COUNTER)
    assert counter is not None
    assert int(counter.description or 0) == sum(one["counted"] for one in told)
    expected = {"CYCLE", "HAS_CHILDREN", "DUPLICATE_TITLE", "INVALID_ARGUMENT"}
    assert {code for one in told for code in one["refused"]} <= expected
    assert all(one["done"] > 10 for one in told), told
    store.close()


def test_command_lines_at_once_make_one_store_and_lose_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "carrel", "scopes", "--project", str(tmp_path), "create"]

    running = [
        subprocess.Popen([*command, f"Root {number}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for number in range(PROCESSES)
    ]
    ended = [(process.communicate(timeout=60)[1], process.returncode) for process in running]

    assert ended == [("", 0)] * PROCESSES
    store = file_in(tmp_path)
    check_invariants(store)
    with store.reading() as connection:
        assert connection is not None
        titles = sorted(scope.title for scope in queries.children(connection, None))
        positions = sorted(scope.position for scope in queries.children(connection, None))
    assert (titles, positions) == ([f"Root {number}" for number in range(PROCESSES)], list(range(PROCESSES)))
    store.close()


def test_processes_that_are_killed_at_any_point_leave_a_valid_store(tmp_path: Path) -> None:
    store = file_in(tmp_path)
    plant(store, ((COUNTER, "Counter", "TODO", None),))
    command = [sys.executable, "-c", WORKER, store.path]
    counted = 0
    for lives_s in (0.31, 0.37, 0.43, 0.59, 0.73):
        running = [
            subprocess.Popen([*command, str(number), "60"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            for number in range(3)
        ]
        for process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(lives_s)
            process.kill()
        assert [process.communicate()[1] for process in running] == [b""] * 3
        check_invariants(store)
        with store.reading() as connection:
            assert connection is not None
            counter = queries.find(connection, COUNTER)
        assert counter is not None
        assert int(counter.description or 0) >= counted
        counted = int(counter.description or 0)
    plant(store, (("after-all", "After all", "TODO", None),))
    store.close()
