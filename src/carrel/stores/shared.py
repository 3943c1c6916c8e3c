"""Share one `Database` for each address in a process among the providers of a desk; close it with the last of them."""

import threading
from typing import TYPE_CHECKING

from carrel.core.errors import ConfigError
from carrel.core.store_address import StoreAddress
from carrel.core.version import how_to_install

if TYPE_CHECKING:
    from carrel.stores.database import Database

_lock = threading.Lock()
_open: dict[str, tuple["Database", int]] = {}


def acquire(address: StoreAddress) -> "Database":
    """Return the database of an address; each call needs a `release`."""
    try:
        from carrel.stores.database import Database  # imports psycopg
    except ImportError:
        raise ConfigError(f"[store] url needs packages that are not installed: {how_to_install('team')}") from None
    with _lock:
        database, users = _open.get(address.url) or (Database(address), 0)
        _open[address.url] = database, users + 1
        return database


def examine(address: StoreAddress) -> int:
    """Return the version of a store's schema, -1 if it has none; raise ConfigError if it cannot be used."""
    database = acquire(address)
    try:
        return database.examine()
    finally:
        release(database)


def release(database: "Database") -> None:
    """End one use of a database, and close it after the last use."""
    with _lock:
        _, users = _open.get(database.address.url, (database, 0))
        if users > 1:
            _open[database.address.url] = database, users - 1
            return
        _open.pop(database.address.url, None)
    database.close()
