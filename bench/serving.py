"""A real `carrel serve --http` over a tree, and a connection to it as a page in a browser has one."""

import http.client
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tests.support.processor_time import processor_s, wait_until_idle

CARREL: Final = (sys.executable, "-P", "-m", "carrel")


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: the body as it was on the wire, the time until it was there, and the server's processor time."""

    status: int
    body: bytes
    ms: float
    core_ms: float


class Page:
    """One connection to a server, as a page in a browser has it."""

    def __init__(self, url: str, token: str, pid: int) -> None:
        self._where, self._token, self._pid = urlsplit(url), token, pid
        self._connection = http.client.HTTPConnection(self._where.hostname or "", self._where.port, timeout=120)

    def beside(self) -> "Page":
        """Return another connection to the same server."""
        return Page(self._where.geturl(), self._token, self._pid)

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        """Ask for a path and take the whole answer."""
        given = {**({"Authorization": f"Bearer {self._token}"} if self._token else {}), **(headers or {})}
        core, started = self.core_ms(), time.perf_counter()
        self._connection.request("GET", path, headers=given)
        answer = self._connection.getresponse()
        body = answer.read()
        took_ms = (time.perf_counter() - started) * 1_000
        if answer.status != http.HTTPStatus.OK:
            raise SystemExit(f"{path}: {answer.status} {body[:200]!r}")
        return Answer(answer.status, body, took_ms, self.core_ms() - core)

    def settle(self) -> None:
        """Wait until the server does nothing by itself, such as looking through the tree; at most a minute."""
        wait_until_idle(self._pid)

    def core_ms(self) -> float:
        """Return the processor time that the server has used, by all its threads."""
        return processor_s(self._pid) * 1_000


def surroundings(home: Path) -> dict[str, str]:
    """Return an environment in which everything of the user's is in a folder of ours."""
    return {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "XDG_STATE_HOME": str(home)}


def complete_index(tree: Path, home: Path) -> None:
    """Complete the index of a tree, so that nothing is indexed while the server is measured."""
    command = [*CARREL, "search", "--index", "--project", str(tree)]
    subprocess.run(command, env=surroundings(home), check=True, capture_output=True)


@contextmanager
def serving(tree: Path, home: Path) -> Iterator[Page]:
    """Serve a tree."""
    command = [*CARREL, "serve", "--http", "0", "--project", str(tree)]
    with subprocess.Popen(command, env=surroundings(home), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = (re.search(r"listening on (\S+)", line) for line in process.stderr)
        url = next(one[1] for one in found if one)
        threading.Thread(target=process.stderr.read, daemon=True).start()
        try:
            yield Page(url, (home / "carrel/local-token").read_text(encoding="ascii").strip(), process.pid)
        finally:
            process.terminate()
