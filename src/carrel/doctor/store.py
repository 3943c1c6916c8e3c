"""The check of the team's store: whether it can be reached and used, and that its address holds no open secret."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from carrel.core.errors import ConfigError
from carrel.core.version import how_to_install
from carrel.doctor.checks import Check, Finding, check, note, ok, problem
from carrel.doctor.setup import Setup


@check(
    "project",
    "store",
    "the team's store cannot be used: its URL, the network, the login, the version or its rights",
    "what the message says; `[store] url` names the store",
)
def store(setup: Setup) -> Iterator[Finding]:
    """Yield whether the store answers, if one is configured; nothing in it is changed."""
    found = setup.store_version
    address = setup.config.store() if setup.config is not None and isinstance(found, int) else None
    if isinstance(found, ConfigError):
        yield problem(str(found), "carrel config show --origin shows where [store] url comes from")
    elif found is not None and address is not None:
        kept = f"records are kept in the store {address.shown}"
        if not setup.store_awaits_start:
            yield ok(f"{kept}, schema version {found}")
        elif found < 0:
            yield note(f"{kept}; its tables are made at the first start", "carrel serve")
        else:
            why = f"its schema is older, version {found}; a start of this Carrel brings it up to date"
            yield note(f"{kept}; {why}", "carrel serve; restart every other desk of the store with this version, too")


@check(
    "project",
    "bus",
    "the bus that carries changes between servers cannot be used: its URL, the network or the login",
    "what the message says; `[bus] url` names the bus",
)
def bus(setup: Setup) -> Iterator[Finding]:
    """Yield whether the bus answers, if one is configured."""
    address = None
    with suppress(ConfigError):  # the check of the store reports it
        address = setup.config.store() if setup.config is not None else None
    if address is None or address.bus is None:
        return
    try:
        from carrel.stores.bus import Bus  # only where there is one
    except ImportError:
        yield problem("[bus] url needs packages that are not installed", how_to_install("team"))
        return
    tried = Bus(address.bus)
    try:
        tried.start()
    except ConfigError as error:
        yield problem(str(error), "carrel config show --origin shows where [bus] url comes from")
    else:
        yield ok(f"changes are signalled through the bus {address.bus.shown}")
    finally:
        tried.close()


CHECKS: Final[tuple[Check, ...]] = (store, bus)
