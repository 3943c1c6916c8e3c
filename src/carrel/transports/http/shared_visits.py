"""Let a browser in where several processes serve: all of them accept the link and the cookie that one of them made.

This is created before the processes are forked, so that they inherit the key. The link waits in a pipe: the process
that reads it has used it up for all. A cookie is its own proof, signed with the key, and ends with the server like any
other.
"""

import hmac
import os
import secrets
from time import monotonic, time
from typing import Final

from carrel.catalog.access import EVERYTHING, Access
from carrel.core.record import replace
from carrel.transports.http.visits import COOKIE_S, LINK_S, OPEN_PATH, Clock, Visits

_TIME_BYTES: Final = 8


class SharedVisits(Visits):
    """One link, and the cookie that is given for it. The clock is that of the machine, which all processes share."""

    def __init__(self, port: int, clock: Clock = monotonic) -> None:
        super().__init__(port, clock)
        self._key = secrets.token_bytes(32)
        self._waiting, self._given = os.pipe()
        os.set_blocking(self._waiting, False)

    def link(self, access: Access) -> str:
        """Return the path and query of the link; called once, in one of the processes."""
        assert access is EVERYTHING, "a cookie of this server does not hold other rights"
        os.write(self._given, self._milliseconds(LINK_S).to_bytes(_TIME_BYTES))
        return f"{OPEN_PATH.decode()}?key={self._proof('link')}"

    def _exchange(self, key: str) -> str | None:
        if not _is_same(key, self._proof("link")):
            return None
        try:
            ends_at = int.from_bytes(os.read(self._waiting, _TIME_BYTES))
        except BlockingIOError:
            return None  # no link was made, or another process has used it up
        if self._milliseconds() >= ends_at:
            return None
        until = str(self._milliseconds(COOKIE_S))
        return f"{until}.{self._proof(until)}"

    def _access_of(self, value: str) -> Access | None:
        until, _, proof = value.partition(".")
        if not _is_same(proof, self._proof(until)):
            return None
        left_ms = int(until) - self._milliseconds()
        return replace(EVERYTHING, expires_at=time() + left_ms / 1_000) if left_ms > 0 else None

    def _milliseconds(self, later_s: float = 0.0) -> int:
        return int((self._clock() + later_s) * 1_000)

    def _proof(self, text: str) -> str:
        return hmac.new(self._key, f"carrel visit {text}".encode("utf-8", "surrogatepass"), "sha256").hexdigest()


def _is_same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), wanted.encode())
