"""Limits for connections without an authenticated request.

A connection is new until one of its requests is accepted. New connections have their own limit and never take the
places of others. At the limit, the oldest new connection is closed: a client that sends a request at once is accepted
within milliseconds, and one that only waits makes room. A remote address has a lower limit.
"""

from typing import Generic, TypeVar

from carrel.core.limits import MAX_NEW_CONNECTIONS, MAX_NEW_PER_ADDRESS
from carrel.core.loopback import is_loopback

Connection = TypeVar("Connection")


class NewConnections(Generic[Connection]):
    """The new connections of a server, the oldest first. Used on the event loop only."""

    def __init__(self, limit: int = MAX_NEW_CONNECTIONS, limit_each: int = MAX_NEW_PER_ADDRESS) -> None:
        self._limit = limit
        self._limit_each = limit_each
        self._address_of: dict[Connection, str] = {}
        self._by_address: dict[str, dict[Connection, None]] = {}

    def __len__(self) -> int:
        """Return the number of new connections."""
        return len(self._address_of)

    def __contains__(self, connection: Connection) -> bool:
        """Return whether a connection is new."""
        return connection in self._address_of

    def enter(self, connection: Connection, address: str) -> Connection | None:
        """Add a new connection; return the one to close for it, or None."""
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
        """Remove a connection that was accepted or closed."""
        address = self._address_of.pop(connection, None)
        if address is not None:
            same = self._by_address[address]
            del same[connection]
            if not same:
                del self._by_address[address]
