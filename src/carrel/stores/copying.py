"""The result of copying records from one store to another, and the errors.

A copy never loses a record: a record that only the target has stays. If both have different versions of a record, the
copy ends before anything is written. Equal records are skipped, so the same command finishes an interrupted copy.
"""

from collections.abc import Sequence

from carrel.core.errors import CarrelError
from carrel.core.record import Value


class CopyReport(Value, frozen=True):
    """The numbers of records: written, equal in both, replaced, and compared afterwards."""

    kind: str
    copied: int
    same: int
    replaced: int
    verified: int


class CopyConflict(CarrelError):
    """The target has other versions of some records."""

    def __init__(self, kind: str, names: Sequence[str]) -> None:
        shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        super().__init__(
            f"{kind}: {len(names)} of the records differ in the target, and nothing was copied: {shown}; "
            "to overwrite them with those of the source, add --replace"
        )


class CopyUnverified(CarrelError):
    """After the copy, a record of the target differs from that of the source."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"{kind}: {name} changed while it was copied; run the command again")
