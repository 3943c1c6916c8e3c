"""Keep a list of a bucket's objects in memory, and renew it in the background.

A caller never waits long for a bucket that is slow or down: it gets the last list. A list is renewed when it is
requested and older than a second, or than ten times the time it took, so that large buckets are not listed all the
time.
"""

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Final

from carrel.buckets.address import BucketAddress, is_name
from carrel.buckets.bucket import Bucket, BucketFault, BucketObject
from carrel.core.record import Value
from carrel.core.refresh import Refresh

log = logging.getLogger(__name__)

MAX_OBJECTS: Final = 100_000
"""Maximum number of objects in a list, at some 400 bytes each. The others can be read by name."""
FRESH_S: Final = 1.0
SHARE: Final = 10
"""A list is used ten times as long as it took to make it."""
FIRST_S: Final = 2.0
"""How long callers wait for the first list."""
RETRY_S: Final = 5.0
AFTER_SLASH: Final = "0"
"""The character that follows `/`: everything below `a/` sorts before `a0`."""


class ObjectTable:
    """The objects of a bucket at one time, sorted by name: the key without the prefix.

    `unservable` is the number of objects whose names no URI can have. With `is_cut` there are more objects.
    """

    def __init__(self, found: dict[str, BucketObject], unservable: int = 0, *, is_cut: bool = False) -> None:
        self.names = sorted(found)
        self.objects = found
        self.unservable = unservable
        self.is_cut = is_cut

    def is_like(self, other: "ObjectTable") -> bool:
        """Return whether both hold the same objects in the same states."""
        return (self.objects, self.unservable, self.is_cut) == (other.objects, other.unservable, other.is_cut)

    def has_folder(self, path: str) -> bool:
        """Return whether anything is below a path, which is empty or ends with `/`."""
        at = bisect_left(self.names, path)
        return not path or (at < len(self.names) and self.names[at].startswith(path))

    def children(self, path: str) -> Iterator[tuple[str, BucketObject | None]]:
        """Yield the names directly below a path, each with its object; None for a folder."""
        at = bisect_left(self.names, path)
        while at < len(self.names) and self.names[at].startswith(path):
            name, slash, _ = self.names[at][len(path) :].partition("/")
            if slash:
                yield name, None
                at = bisect_left(self.names, f"{path}{name}{AFTER_SLASH}", at)
            else:
                if name:
                    yield name, self.objects[self.names[at]]
                at += 1


class TableState(Value, frozen=True):
    """The state of a list: its table, its age, and why it was not renewed."""

    table: ObjectTable | None
    age_s: float
    is_stale: bool
    problem: str


class BucketContents:
    """The list of one bucket. `prepare` is called with each new table, on the background thread."""

    def __init__(self, name: str, bucket: Bucket, address: BucketAddress) -> None:
        self._name = name
        self._bucket = bucket
        self._address = address
        self._refresh = Refresh(f"carrel-bucket-{name}", self._renew)
        self.table: ObjectTable | None = None
        self.version = 0
        self.prepare: Callable[[ObjectTable], None] = lambda _: None
        self._prepared: ObjectTable | None = None
        self._listed_at = 0.0
        self._took_s = 0.0
        self._ask_at = 0.0
        self._fault: BucketFault | None = None
        self._logged = ""

    def begin(self, age_s: float = FRESH_S) -> None:
        """Renew the list in the background if it is older than `age_s`."""
        now = monotonic()
        due = self._listed_at + max(age_s, self._took_s * SHARE) if self.table is not None else 0.0
        if now >= max(due, self._ask_at):
            self._refresh.begin()

    def look(self, patience_s: float | None = None, first_s: float | None = FIRST_S) -> ObjectTable:
        """Return the list, after waiting at most `patience_s` for it to be renewed, or `first_s` for the first list.

        None stands for the usual time. Raise `BucketFault` if there is no list.
        """
        self.begin()
        self._refresh.wait(patience_s if self.table is not None else first_s)
        if self.table is None:
            raise self._fault or BucketFault("it has not answered yet", "timeout")
        return self.table

    def recent(self, age_s: float) -> ObjectTable | None:
        """Return the list if it is complete and not older than `age_s`, else None; never wait."""
        self.begin(age_s / 2)
        table = self.table
        is_recent = table is not None and not table.is_cut and monotonic() - self._listed_at <= age_s
        return table if is_recent else None

    def wait(self, timeout_s: float) -> bool:
        """Wait until a list that is being made came or failed, at most `timeout_s`; return False after a timeout."""
        return self._refresh.wait(timeout_s)

    def log_fault(self) -> None:
        """Log why the list was not renewed, once: for callers that go on without it."""
        fault = "" if self._fault is None else str(self._fault)
        if fault and fault != self._logged:
            self._logged = fault
            log.warning("the bucket of @%s cannot be listed: %s", self._name, fault)

    def state(self) -> TableState:
        """Return the state of the list."""
        late_s = self._refresh.late_s
        problem = "" if self._fault is None else str(self._fault)
        if not problem and late_s > FIRST_S:
            problem = f"it has not answered a request for its list for {late_s:.0f} s"
        age_s = monotonic() - self._listed_at if self.table is not None else 0.0
        return TableState(self.table, age_s, bool(problem) and self.table is not None, problem)

    def _renew(self) -> None:
        began = monotonic()
        try:
            table = self._listed()
            self.table = table
            if self._prepared is None or not self._prepared.is_like(table):
                self.prepare(table)
                self._prepared = table
                self.version += 1
        except BucketFault as fault:
            self._fault, self._ask_at = fault, monotonic() + RETRY_S
            return
        self._took_s, self._listed_at = monotonic() - began, began
        self._fault, self._logged = None, ""

    def _listed(self) -> ObjectTable:
        start = self._address.start
        found: dict[str, BucketObject] = {}
        unservable = 0
        for page in self._bucket.pages(start):
            for one in page:
                name = one.key[len(start) :]
                if one.key.startswith(start) and all(map(is_name, name.removesuffix("/").split("/"))):
                    found[name] = one
                elif name:
                    unservable += 1
            if len(found) > MAX_OBJECTS:
                names = sorted(found)[:MAX_OBJECTS]
                return ObjectTable({name: found[name] for name in names}, unservable, is_cut=True)
        return ObjectTable(found, unservable)
