"""The rate limit of several replicas together: each reports what it allowed, and learns what is left.

No request waits for the store: a thread reports soon after the first use, then at most every `PAUSE_S`, for all callers
at once. Between two reports a replica allows a caller what was left at the last one. So R replicas together may allow
R - 1 bursts more than one server would, until they have reported; later the caller gets that much less. While the store
is away, each replica has the limit of a server alone.
"""

from collections.abc import Callable, Mapping
from typing import Final

from carrel.core.errors import ProviderError
from carrel.server.ratelimit import Allowance, Allowances
from carrel.stores.outbox import ChangeBell

PAUSE_S: Final = 0.1
"""The least time between two reports."""

Exchange = Callable[[Mapping[str, int]], Mapping[str, float]]
"""Reports what was used by each caller, and returns what each has left; may wait, and raise `ProviderError`."""


class SharedAllowances(Allowances):
    """The allowances of callers on all replicas, as one replica knows them."""

    def __init__(self, exchange: Exchange) -> None:
        super().__init__()
        self._exchange = exchange
        self._bell = ChangeBell(self._report, PAUSE_S)

    def new(self) -> Allowance:
        """Return a whole allowance whose use is reported."""
        return Allowance(self._bell.ring)

    def close(self) -> None:
        """Report for the last time."""
        self._bell.close()

    def _report(self) -> None:
        known = {name: (one, one.unreported()) for name, one in tuple(self._known.items())}
        used = {name: (one, count) for name, (one, count) in known.items() if count}
        if not used:
            return
        try:
            levels: Mapping[str, float] = self._exchange({name: count for name, (_, count) in used.items()})
        except ProviderError:
            levels = {}
        for name, (one, count) in used.items():
            one.learn(count, levels.get(name))
