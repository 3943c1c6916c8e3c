"""Search as one types, over plain HTTP: how long each letter waits for its answer.

    python -m bench.search_typing [--tree FOLDER] [--files 20000] [--check]

`carrel serve --http` serves a made-up tree, or a folder of yours, whose index was completed before. Queries are typed
letter by letter into `GET /-/search?q=` over one connection, as the explorer's page does. Beside the clock stands the
processor time of the server, which others on the machine lengthen less. Then a quick search is asked while three
clients ask for an expression that few files match: searches at the same time share the processor, and nothing else.
"""

import argparse
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit

from bench.search import late, questions, questions_about, write_tree

LIMIT_MS: Final = 80.0
TYPED: Final = 12
"""Queries that are typed."""
SLOW: Final = r"/[a-z]+q[^u]\d[A-Z]/"
SLOW_CLIENTS: Final = 3
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Page:
    """One connection to a server, as a page in a browser has it."""

    def __init__(self, url: str, token: str, pid: int) -> None:
        self._where, self._token, self._pid = urlsplit(url), token, pid
        self._connection = http.client.HTTPConnection(self._where.hostname or "", self._where.port, timeout=60)

    def beside(self) -> "Page":
        """Return another connection to the same server."""
        return Page(self._where.geturl(), self._token, self._pid)

    def ask(self, query: str) -> tuple[float, int]:
        """Search; return the milliseconds until the whole answer was there, and how many hits it has."""
        started = time.perf_counter()
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        self._connection.request("GET", f"/-/search?q={quote(query)}", headers=headers)
        answer = self._connection.getresponse()
        content = answer.read()
        took_ms = (time.perf_counter() - started) * 1_000
        if answer.status != http.HTTPStatus.OK:
            raise SystemExit(f"{query}: {answer.status} {content.decode()}")
        return took_ms, len(json.loads(content)["hits"])

    def core_ms(self) -> float:
        """Return the processor time that the server has used."""
        fields = Path(f"/proc/{self._pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * 1_000 / _TICKS


@contextmanager
def serving(tree: Path, home: Path) -> Iterator[Page]:
    """Complete the index of a tree, and serve it."""
    environment = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "XDG_STATE_HOME": str(home)}
    carrel = [sys.executable, "-P", "-m", "carrel"]
    subprocess.run(
        [*carrel, "search", "--index", "--project", str(tree)], env=environment, check=True, capture_output=True
    )
    command = [*carrel, "serve", "--http", "0", "--project", str(tree)]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        url = token = ""
        for line in process.stderr:
            url = (re.findall(r"listening on (\S+)", line) or [url])[0]
            token = (re.findall(r"CARREL_TOKEN=(carrel_[\w-]+)", line) or [token])[0]
            if url and (token or "no token" in line):
                break
        threading.Thread(target=process.stderr.read, daemon=True).start()
        try:
            yield Page(url, token, process.pid)
        finally:
            process.terminate()


def typed(queries: list[str]) -> Iterator[str]:
    """Yield what stands in the box after each letter, from the second one on."""
    for query in queries:
        yield from (query[:end] for end in range(2, len(query) + 1) if query[end - 1] != " ")


def measure(page: Page, queries: list[str]) -> tuple[list[float], float]:
    """Type queries; return the milliseconds of each answer, and the server's processor time for one."""
    page.ask("warm")
    page.ask("warm")
    before = page.core_ms()
    taken = [page.ask(text)[0] for text in typed(queries)]
    return taken, (page.core_ms() - before) / len(taken)


def measure_beside(page: Page, query: str, times: int = 30) -> tuple[float, float, float]:
    """Return the milliseconds of a quick search alone, beside slow ones, and of those; medians."""
    alone = [page.ask(query)[0] for _ in range(times)]
    is_over = threading.Event()
    slow: list[float] = []

    def ask_slowly(own: Page) -> None:
        while not is_over.is_set():
            slow.append(own.ask(SLOW)[0])

    threads = [threading.Thread(target=ask_slowly, args=(page.beside(),)) for _ in range(SLOW_CLIENTS)]
    for thread in threads:
        thread.start()
    while len(slow) < SLOW_CLIENTS:  # all of them are at it
        page.ask(query)
    beside = [page.ask(query)[0] for _ in range(times)]
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
