"""Which logs of other machines are kept: for how long, how many, how large together, and how many of one caller.

A caller has at most its share, and makes room with its own oldest ended logs. Only when all callers together have
reached the limits does a caller make room with the logs of others: of those that have the most, and only while these
keep as much as the caller gets. A log that is being sent is never removed.
"""

import contextlib
import os
from collections import Counter
from collections.abc import Iterator
from time import monotonic, time_ns
from typing import Final

from carrel.core.errors import ProviderError
from carrel.core.hashing import sha256
from carrel.core.printable import printable_line
from carrel.core.record import Value
from carrel.providers.logs import spool
from carrel.providers.logs.log import KINDS, Kind, Retention
from carrel.providers.logs.spooled_log import is_reporting

FRESH_S: Final = 1.0
"""How long the sizes of all logs are known: what other servers add to one folder meanwhile may be too much."""
MAX_CALLER: Final = 64


def caller_label(name: str) -> str:
    """Return what is kept of a caller's name; of a long one its beginning, and a hash that tells it from others."""
    shown = printable_line(name)
    if len(shown) <= MAX_CALLER:
        return shown
    return f"{shown[:40]}…{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:20]}"


class KeptLog(Value, frozen=True):
    """A log on disk that another machine sent."""

    modified_ns: int
    size: int
    is_live: bool
    kind: Kind
    name: str
    caller: str


class Quota:
    """The limits of one folder. The caller of its methods lets no other thread in."""

    def __init__(self, root: str, retention: Retention) -> None:
        self._root = root
        self._retention = retention
        self._share = (
            max(1, retention.max_logs * retention.share // 100),
            retention.total_bytes * retention.share // 100,
        )
        self._left: dict[str | None, int] = {}
        """Bytes that each caller may still add, and under None all of them."""
        self._known_at = float("-inf")

    def make_room_for_one(self, caller: str) -> None:
        """Remove old logs, and more until one more fits; raise ProviderError if none can go."""
        self._make_room(caller, 1, 1, None)

    def make_room(self, caller: str, size: int, log: tuple[Kind, str]) -> None:
        """Remove other logs until `size` more bytes fit; raise ProviderError if that is not possible."""
        is_known = monotonic() - self._known_at < FRESH_S and caller in self._left
        if not is_known or min(self._left[caller], self._left[None]) < size:
            self._make_room(caller, 0, size, log)
        self._left[caller] -= size
        self._left[None] -= size

    def _make_room(self, caller: str, count: int, size: int, log: tuple[Kind, str] | None) -> None:
        kept = sorted(_kept_logs(self._root, self._retention), key=lambda one: one.modified_ns)
        counts = Counter(one.caller for one in kept)
        sizes = Counter[str]()
        for one in kept:
            sizes[one.caller] += one.size
        may_go = [one for one in kept if not one.is_live and (one.kind, one.name) != log]
        while fault := self._fault(caller, counts, sizes, count, size):
            by_size = fault.endswith("bytes")
            held, added = (sizes, size) if by_size else (counts, count)
            victim = _victim(may_go, caller, held, None if fault == _SHARE else added, by_size=by_size)
            if victim is None:
                raise _full(fault)
            may_go.remove(victim)
            _remove(self._root, victim)
            counts[victim.caller] -= 1
            sizes[victim.caller] -= victim.size
        self._left = {one: self._share[1] - sizes[one] for one in {*sizes, caller}}
        self._left[None] = self._retention.total_bytes - sizes.total()
        self._known_at = monotonic()

    def _fault(self, caller: str, counts: Counter[str], sizes: Counter[str], count: int, size: int) -> str:
        """Return the limit that would be broken; empty if all hold."""
        is_over = counts[caller] + count > self._share[0] or sizes[caller] + size > self._share[1]
        if is_over and self._retention.share < 100:
            return _SHARE
        if counts.total() + count > self._retention.max_logs:
            return "pushed_logs"
        return "pushed_total_bytes" if sizes.total() + size > self._retention.total_bytes else ""


_SHARE: Final = "pushed_share"


def _victim(
    may_go: list[KeptLog], caller: str, held: Counter[str], added: int | None, *, by_size: bool
) -> KeptLog | None:
    """Return the log that makes room: the oldest of the caller that holds the most, or else of this caller.

    Another caller must keep as much as this one has with what is `added`; None means that only its own log may go.
    """
    own = next((one for one in may_go if one.caller == caller), None)
    if added is None:
        return own
    least = held[caller] + added
    others = (one for one in may_go if held[one.caller] - (one.size if by_size else 1) >= least)
    return max(others, key=lambda one: held[one.caller], default=own)  # the first of several: the oldest


def _full(limit: str) -> ProviderError:
    whose = " of this caller" if limit == _SHARE else ""
    message = f"The desk has no room for more logs{whose} until a running one ends: raise {limit} in [logs]"
    return ProviderError(message, word="unavailable")


def _remove(root: str, one: KeptLog) -> None:
    with contextlib.suppress(OSError), spool.opened(root, one.kind) as folder:
        os.unlink(one.name + spool.SUFFIX, dir_fd=folder)


def _kept_logs(root: str, retention: Retention) -> Iterator[KeptLog]:
    """Yield the logs of other machines; remove those that are too old."""
    oldest_ns = time_ns() - retention.days * 86_400 * 10**9
    for kind in KINDS:
        with contextlib.suppress(OSError), spool.opened(root, kind) as folder:
            for name in os.listdir(folder):
                with contextlib.suppress(OSError), spool.file(folder, name) as descriptor:
                    status, header = os.fstat(descriptor), spool.header_of(descriptor)
                    if name.startswith(".") or header is None or header.origin is None:
                        continue
                    if status.st_mtime_ns < oldest_ns:
                        os.unlink(name, dir_fd=folder)
                        continue
                    is_live = is_reporting(status.st_mtime) and spool.end_of(descriptor) is None
                    bare = name.removesuffix(spool.SUFFIX)
                    caller = header.origin.caller
                    yield KeptLog(status.st_mtime_ns, status.st_size, is_live, kind, bare, caller)
