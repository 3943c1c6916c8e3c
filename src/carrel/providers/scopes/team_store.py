"""The scopes in the team's database, with the interface and the errors of the SQLite file.

The store always exists. Its writers wait for each other, as those of the file do, in all processes on all machines.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from carrel.core.limits import STORE_READ_S, STORE_WRITE_S
from carrel.core.store_address import StoreAddress
from carrel.providers.scopes.connection import ScopesConnection
from carrel.providers.scopes.scope_errors import ScopeError, StoreAway, StoreFault
from carrel.providers.scopes.values import MAX_CHILDREN
from carrel.stores.constraints import ConstraintViolated
from carrel.stores.shared import acquire, release
from carrel.stores.store_errors import StoreBusy, StoreUnavailable

log = logging.getLogger(__name__)


class TeamStore:
    """One store. Safe to use from several threads."""

    is_frozen = False

    def __init__(
        self,
        address: StoreAddress,
        *,
        read_s: float = STORE_READ_S,
        write_s: float = STORE_WRITE_S,
        max_children: int = MAX_CHILDREN,
    ) -> None:
        """Take the address of a database, and how many children a scope lists. Nothing is connected yet."""
        self.path = address.shown
        self.database = acquire(address)
        self._read_s = read_s
        self._write_s = write_s
        self._max_children = max_children
        self._is_closed = False

    def prepare(self) -> None:
        """Connect and bring the schema to the present version; raise ConfigError."""
        self.database.prepare()

    def identity(self) -> str:
        """Return the address of the store, which always exists."""
        return self.path

    @contextmanager
    def reading(self) -> Iterator[ScopesConnection]:
        """Yield a connection with one snapshot from the first query to the last."""
        with _translated(), self.database.reading(self._read_s) as session:
            yield session

    @contextmanager
    def writing(self, *, is_rehearsal: bool = False, is_long: bool = False) -> Iterator[ScopesConnection]:
        """Yield the connection of the only writer, and commit its changes unless it is a rehearsal."""
        del is_long  # other writers wait until their own time limit in any case
        with _translated(), self.database.writing("scopes", self._write_s, is_rehearsal=is_rehearsal) as session:
            session.audited_children = self._max_children
            yield session

    def stamp(self) -> str:
        """Return a token that changes with every commit of any process."""
        with _translated():
            return str(self.database.generation("scopes"))

    def close(self) -> None:
        """Release the database; a second call does nothing."""
        if not self._is_closed:
            self._is_closed = True
            release(self.database)


@contextmanager
def _translated() -> Iterator[None]:
    """Turn errors of the database into errors of scopes."""
    try:
        yield
    except StoreBusy as error:
        raise ScopeError("BUSY", "Store is busy") from error
    except StoreUnavailable as error:
        raise StoreAway(error.message, error.detail) from error
    except ConstraintViolated as error:
        raise StoreFault(f"the store refused a change: {error.constraint or 'a rule of its schema'}") from error
