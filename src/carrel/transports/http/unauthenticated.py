"""Connections of which it is not known yet who makes them: few, and not for long.

A connection is new until one of its requests was let in. New ones have places of their own and never take those
of the others. Where the places are all taken, the oldest new connection goes: one that asks at once is let in within
milliseconds, and one that only waits makes room for it. An address that is not this machine's has fewer places.
"""

from typing import Generic, TypeVar

from carrel.core.limits import MAX_NEW_CONNECTIONS, MAX_NEW_PER_ADDRESS
from carrel.core.loopback import is_loopback

Connection = TypeVar("Connection")


class Lobby(Generic[Connection]):
    """The new connections of a server, the oldest first. Used on the event loop only."""

    def __init__(self, limit: int = MAX_NEW_CONNECTIONS, limit_each: int = MAX_NEW_PER_ADDRESS) -> None:
        self._limit = limit
        self._limit_each = limit_each
        self._address_of: dict[Connection, str] = {}
        self._by_address: dict[str, dict[Connection, None]] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._address_of)

    def __contains__(self, connection: Connection) -> bool:
        """Return whether a connection is new."""
        return connection in self._address_of

    def enter(self, connection: Connection, address: str) -> Connection | None:
        """Take in a new connection; return the one that has to go for it."""
        same = self._by_address.setdefault(address, {})
        gone: Connection | None = None
        if len(same) >= self._limit_each and not is_loopback(address):
            gone = next(iter(same))
        elif len(self) >= self._limit:
            gone = next(iter(self._address_of))
        if gone is not None:
            self.leave(gone)
        self._address_of[connection] = address
        self._by_address.setdefault(address, same)[connection] = None
        return gone

    def leave(self, connection: Connection) -> None:
        """Forget a connection: it was let in, or is over."""
        address = self._address_of.pop(connection, None)
        if address is not None:
            same = self._by_address[address]
            del same[connection]
            if not same:
                del self._by_address[address]
