"""What an object says that it offers."""

import logging
from typing import Final

from carrel.core.errors import echo
from carrel.core.record import Value
from carrel.providers.objects.calls import Broke, Busy, Late
from carrel.providers.objects.conversion import InvalidResult, facet_names
from carrel.providers.objects.instance import Instance

log = logging.getLogger(__name__)

FACETS: Final = {
    "resources": ("resources", "resource_read"),
    "tools": ("tools",),
    "completions": ("completion",),
}
"""What may be declared, and the methods it takes."""


class Declared(Value, frozen=True):
    """The words an object gave; `fault` says why there are none."""

    words: tuple[str, ...] = ()
    fault: str = ""

    @property
    def facets(self) -> frozenset[str]:
        """Return those words that mean something here."""
        return frozenset(self.words) & set(FACETS)


def ask(instance: Instance, name: str, timeout_s: float) -> Declared:
    """Ask for the capabilities. What cannot be understood is nothing, with a warning."""
    try:
        given = instance.call(lambda made: made.capabilities(), timeout_s, facet_names)
    except (Broke, Late, Busy) as error:
        cause = error.cause if isinstance(error, Broke) else error
        fault = f"{_reason(cause)}; nothing is served"
        log.warning("object %s: %s%s", name, fault, _own_words(cause))
        log.debug("object %s", name, exc_info=cause)
        return Declared(fault=fault)
    unknown = sorted(set(given) - set(FACETS))
    if unknown:
        log.warning("object %s: unknown capabilities are ignored: %s", name, echo(", ".join(unknown)))
    return Declared(given)


def _reason(cause: BaseException) -> str:
    if isinstance(cause, Late | Busy):
        return "capabilities() gave no answer in time"
    return str(cause) if isinstance(cause, InvalidResult) else "capabilities() raised an exception"


def _own_words(cause: BaseException) -> str:
    """Return an exception's own words, which are for the log only."""
    return "" if isinstance(cause, InvalidResult | Late | Busy) else f" ({echo(f'{type(cause).__name__}: {cause}')})"
