"""Search as one types, over plain HTTP: how long each letter waits for its answer.

    python -m bench.search_typing [--tree FOLDER] [--files 20000] [--check]

`carrel serve --http` serves a made-up tree, or a folder of yours, whose index was completed before. Queries are typed
letter by letter into `GET /-/search?q=` over one connection, as the explorer's page does. Beside the clock stands the
processor time of the server, which others on the machine lengthen less. Then a quick search is asked while three
clients ask for an expression that few files match: searches at the same time share the processor, and nothing else.
"""

import argparse
import json
import statistics
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote

from bench.search import late, questions, questions_about, write_tree
from bench.serving import Page, complete_index, serving

LIMIT_MS: Final = 80.0
TYPED: Final = 12
"""Queries that are typed."""
SLOW: Final = r"/[a-z]+q[^u]\d[A-Z]/"
SLOW_CLIENTS: Final = 3


def ask(page: Page, query: str) -> tuple[float, int]:
    """Search; return the milliseconds until the whole answer was there, and how many hits it has."""
    answer = page.get(f"/-/search?q={quote(query)}")
    return answer.ms, len(json.loads(answer.body)["hits"])


def typed(queries: list[str]) -> Iterator[str]:
    """Yield what stands in the box after each letter, from the second one on."""
    for query in queries:
        yield from (query[:end] for end in range(2, len(query) + 1) if query[end - 1] != " ")


def measure(page: Page, queries: list[str]) -> tuple[list[float], float]:
    """Type queries; return the milliseconds of each answer, and the server's processor time for one."""
    ask(page, "warm")
    ask(page, "warm")
    before = page.core_ms()
    taken = [ask(page, text)[0] for text in typed(queries)]
    return taken, (page.core_ms() - before) / len(taken)


def measure_beside(page: Page, query: str, times: int = 30) -> tuple[float, float, float]:
    """Return the milliseconds of a quick search alone, beside slow ones, and of those; medians."""
    alone = [ask(page, query)[0] for _ in range(times)]
    is_over = threading.Event()
    slow: list[float] = []

    def ask_slowly(own: Page) -> None:
        while not is_over.is_set():
            slow.append(ask(own, SLOW)[0])

    threads = [threading.Thread(target=ask_slowly, args=(page.beside(),)) for _ in range(SLOW_CLIENTS)]
    for thread in threads:
        thread.start()
    while len(slow) < SLOW_CLIENTS:  # all of them are at it
        ask(page, query)
    beside = [ask(page, query)[0] for _ in range(times)]
    is_over.set()
    for thread in threads:
        thread.join()
    return statistics.median(alone), statistics.median(beside), statistics.median(slow)


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(prog="python -m bench.search_typing", description="Search as one types.")
    parser.add_argument("--tree", type=Path, metavar="FOLDER", help="search this folder instead of a made-up one")
    parser.add_argument("--files", type=int, default=20_000, help="files of the made-up tree")
    parser.add_argument("--check", action="store_true", help=f"exit 1 if the 95th percentile is over {LIMIT_MS:g} ms")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="carrel-bench-") as name:
        tree = given.tree.resolve() if given.tree else Path(name) / "tree"
        if given.tree is None:
            (tree / ".git").mkdir(parents=True)
            write_tree(tree, given.files)
        every = questions_about(tree, TYPED * 5) if given.tree else questions(TYPED * 5)
        queries = [query for query in every if not query.startswith("/")][:TYPED]
        complete_index(tree, Path(name))
        with serving(tree, Path(name)) as page:
            taken, core_ms = measure(page, queries)
            alone, beside, slow = measure_beside(page, queries[0])
    print(f"{len(taken)} letters: median {statistics.median(taken):.1f} ms, 95th percentile {late(taken):.1f} ms")
    print(f"processor time of the server for an answer: {core_ms:.1f} ms")
    print(f"a quick search alone {alone:.1f} ms; beside {SLOW_CLIENTS} that take {slow:.0f} ms: {beside:.1f} ms")
    if given.check and late(taken) > LIMIT_MS:
        print("FAILED: an answer comes too late", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
