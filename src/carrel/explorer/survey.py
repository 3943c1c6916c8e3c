"""What the providers report: their number of entries, last change and health. A slow one does not delay a page."""

from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, Final

from carrel.catalog.access import may_list, may_see_all
from carrel.catalog.routes import Mounted
from carrel.core.bounded_calls import BoundedCalls
from carrel.core.errors import CarrelError
from carrel.core.faults import attempt
from carrel.core.record import Value
from carrel.core.server_paths import without_paths_within

COUNT_AT_MOST: Final = 10_000
_WITHIN_S: Final = 0.5
_COUNTING_S: Final = 0.08
"""How long the entries of one provider are counted; then the number is a lower bound."""


class Surveyed(Value, frozen=True):
    """What one provider reports. `is_more` if not all entries were counted; `health` has `problems` and `left_out`."""

    entries: int = 0
    is_more: bool = False
    last_change_ms: int | None = None
    health: Mapping[str, object] = {}

    def sentences(self, name: str) -> list[str]:
        """Return the sentences of its health under a name."""
        found = self.health.get(name)
        return [str(one) for one in found] if isinstance(found, Sequence) and not isinstance(found, str) else []


class Survey:
    """Asks all providers at once, for a bounded time."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._calls = BoundedCalls("the explorer", _WITHIN_S)

    def ask(self, providers: Sequence[Mounted]) -> dict[str, Surveyed]:
        """Return what each provider reports; for one that is late or fails, only that."""
        found = self._calls.ask({one.provider.name: partial(self._look, one) for one in providers})
        late = Surveyed(health={"problems": ["does not answer in time"]}, is_more=True)
        return {one.provider.name: found.get(one.provider.name, late) for one in providers}

    def _look(self, mounted: Mounted) -> Surveyed:
        count, last, is_more = 0, None, False
        ends_at = monotonic() + _COUNTING_S
        with suppress(CarrelError):
            for seen, entry in enumerate(mounted.provider.entries()):
                if count >= COUNT_AT_MOST or (seen % 256 == 255 and monotonic() > ends_at):
                    is_more = True
                    break
                if not may_list(entry.uri, entry.target):
                    continue
                count += 1
                changed = None if entry.annotations is None else entry.annotations.last_modified_ms
                last = changed if last is None or (changed or 0) > last else last
        return Surveyed(count, is_more, last, self._health(mounted))

    def _health(self, mounted: Mounted) -> dict[str, object]:
        if "health" not in mounted.overrides or not may_see_all(mounted.provider.schemes):
            return {}  # it may name resources that the caller may not read
        try:
            facts = attempt(f"asking {mounted.provider.name}", mounted.provider.health)
        except CarrelError:
            return {"problems": ["failed to report its health; see the server's log"]}
        return {name: without_paths_within(value, self._root) for name, value in _as_json(facts).items()}


def _as_json(facts: Mapping[Any, object]) -> dict[str, object]:
    """Return facts that JSON can hold: a plug-in may report keys that are not text, and values of any type."""
    return {str(name): _json_value(value) for name, value in facts.items()}


def _json_value(value: object) -> object:
    if isinstance(value, Mapping):
        return _as_json(value)
    if isinstance(value, list | tuple | Set):
        return [_json_value(one) for one in value]
    return value if value is None or isinstance(value, str | int | float) else str(value)
