"""The check of the team's store: whether it can be reached and used, and that its address holds no open secret."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from carrel.app.app import open_store
from carrel.core.errors import ConfigError
from carrel.core.version import how_to_install
from carrel.doctor.checks import Check, Finding, check, ok, problem
from carrel.doctor.setup import Setup


@check(
    "project",
    "store",
    "the team's store cannot be used: its URL, the network, the login, the version or its rights",
    "what the message says; `[store] url` names the store",
)
def store(setup: Setup) -> Iterator[Finding]:
    """Yield whether the store answers, if one is configured."""
    if setup.config is None:
        return
    try:
        opened = open_store(setup.config)
    except ConfigError as error:
        yield problem(str(error), "carrel config show --origin shows where [store] url comes from")
        return
    if opened is None:
        return
    from carrel.stores.migrations import VERSION  # only where there is a store
    from carrel.stores.shared import release

    shown = opened.address.shown
    release(opened)
    yield ok(f"records are kept in the store {shown}, schema version {VERSION}")


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
