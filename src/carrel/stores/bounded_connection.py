"""A connection that stops waiting for a server which does not answer, also while the network stays silent."""

from time import monotonic
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen

from carrel.stores.session import Row

_Result = TypeVar("_Result")


class Hung(psycopg.OperationalError):
    """The server did not answer in time."""


class BoundedConnection(psycopg.Connection[Row]):
    """A connection that can limit how long a statement may take."""

    _until: float | None = None

    def execute_within(self, seconds: float, statement: str) -> psycopg.Cursor[Row]:
        """Run a statement; raise `Hung` after a time. Then the connection can only be closed."""
        self._until = monotonic() + seconds
        try:
            return self.execute(statement.encode())
        finally:
            self._until = None

    def wait(self, gen: PQGen[_Result], *given: Any, **named: Any) -> _Result:
        """Wait for the server."""
        return super().wait(gen if self._until is None else _bounded(gen, self._until), *given, **named)


def _bounded(gen: PQGen[_Result], until: float) -> PQGen[_Result]:
    """Pass on what the driver waits for, until a time. It looks ten times a second."""
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and monotonic() > until:
                raise Hung("timeout")
            wanted = gen.send(ready)
    except StopIteration as end:
        result: _Result = end.value
        return result
