"""A desk with an explorer, asked in this process as a browser would ask."""

import asyncio
import gzip
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from time import monotonic

from carrel.app.app import Desk, open_desk
from carrel.app.config import load
from carrel.catalog.access import EVERYTHING, Access
from carrel.explorer.explorer import Explorer
from carrel.transports.http.app import App
from carrel.transports.http.guard import AcceptedNames, Guard
from carrel.transports.http.visits import Visits
from tests.support.http_asking import Reply, ask

BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8"}
"""What a browser says it takes when a person follows a link."""


class Clock:
    """A clock that a test moves."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


class NamedCallers:
    """Tokens that are the names of callers, each with scopes."""

    def __init__(self, callers: Mapping[str, Access]) -> None:
        self._callers = callers

    def find(self, token: str) -> Access | None:
        """Return the access of a caller."""
        return self._callers.get(token)


class Browsed:
    """An application with an explorer over a folder. Without callers, everybody may read everything."""

    def __init__(
        self,
        root: Path,
        callers: Mapping[str, Access] | None = None,
        settings: tuple[tuple[str, str, str], ...] = (),
        clock: Callable[[], float] = monotonic,
    ) -> None:
        environment = {"HOME": str(root.parent), "PATH": "/usr/bin:/bin"}
        self.desk: Desk = open_desk(load(str(root), environment, list(settings), {}))
        self.visits = Visits(8000, clock)
        keys = None if callers is None else NamedCallers(callers)
        guard = Guard(AcceptedNames(is_loopback=True), keys)
        self.app = App(self.desk.server, guard, pages=partial(Explorer, self.desk), visits=self.visits)

    def let_in(self, access: Access = EVERYTHING) -> str:
        """Use a new link up; return the cookie that it sets."""
        reply = self.get(self.visits.link(access))
        assert reply.status == 303
        return reply.headers["set-cookie"].partition(";")[0]

    def get(
        self, target: str, headers: Mapping[str, str] | None = None, method: str = "GET", caller: str = ""
    ) -> Reply:
        """Ask as a browser does, or with these headers instead."""
        given = dict(BROWSER if headers is None else headers)
        if caller:
            given["authorization"] = f"Bearer {caller}"
        reply = asyncio.run(ask(self.app, method, target, given))
        if reply.headers.get("content-encoding") == "gzip" and reply.body:
            return reply._replace(body=gzip.decompress(reply.body))
        return reply

    def page(self, target: str, caller: str = "") -> str:
        """Return the HTML of a page that is shown."""
        reply = self.get(target, caller=caller)
        assert reply.status == 200, reply
        assert reply.headers["content-type"] == "text/html; charset=utf-8"
        return reply.body.decode()

    def close(self) -> None:
        """Close everything."""
        self.app.end()
        self.desk.close()
