"""Ask every provider of a desk at once, each on its own thread: one that hangs does not delay the others."""

import threading
from collections.abc import Callable
from types import MappingProxyType
from typing import Generic, TypeVar

from carrel.app.app import Desk
from carrel.core.bounded_calls import BoundedCalls
from carrel.core.errors import CarrelError
from carrel.core.faults import attempt
from carrel.core.gateway import Gateway
from carrel.core.model import Meta
from carrel.core.provider import Provider
from carrel.core.record import Value

_Made = TypeVar("_Made")
_SPARE_S = 2.0
"""Time beyond that of a gateway's start in which it has to answer."""


class ProviderAnswer(Value, frozen=True):
    """What a provider answered. `first` is the URI of its first entry; `error` is why it has no list."""

    first: str = ""
    health: Meta = MappingProxyType({})
    error: str = ""
    is_late: bool = False

    def texts(self, key: str) -> list[str]:
        """Return a list of texts in the provider's health."""
        value = self.health.get(key)
        return [str(one) for one in value] if isinstance(value, list | tuple) else []


class Once(Generic[_Made]):
    """Calls a function when its result is first needed; other threads wait for the same result."""

    def __init__(self, make: Callable[[], _Made]) -> None:
        self._make = make
        self._made: list[_Made] = []
        self._lock = threading.Lock()

    def __call__(self) -> _Made:
        """Return the result."""
        with self._lock:
            if not self._made:
                self._made.append(self._make())
            return self._made[0]


def ask_all(desk: Desk, patience_s: float) -> dict[str, ProviderAnswer]:
    """Return the answer of each served provider, by name."""
    served = {one.name for one in desk.choices if one.state in ("served", "failed")}
    providers = {one.chosen: one.provider for one in desk.catalog.mounted if one.chosen in served}
    calls = {name: _asking(desk, name, provider, patience_s) for name, provider in providers.items()}
    answers = BoundedCalls("doctor", patience_s + _SPARE_S).ask(calls)
    return {name: answers.get(name, ProviderAnswer(is_late=True)) for name in providers}


def _asking(desk: Desk, name: str, first: Provider, patience_s: float) -> Callable[[], ProviderAnswer]:
    def ask() -> ProviderAnswer:
        if isinstance(first, Gateway) and not first.wait(patience_s):
            return ProviderAnswer(is_late=True)
        # An object that is a provider has taken the gateway's place by now.
        provider = next((one.provider for one in desk.catalog.mounted if one.chosen == name), first)
        try:
            health = attempt(f"health of {name}", lambda: dict(provider.health()))
            entry = attempt(f"entries of {name}", lambda: next(iter(provider.entries()), None))
        except CarrelError as error:
            return ProviderAnswer(error=str(error))
        return ProviderAnswer("" if entry is None else entry.uri, health)

    return ask
