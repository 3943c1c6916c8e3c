"""Copy the logs that other machines sent, between a project's folder and the team's store, or between two stores."""

import contextlib
import os
from typing import Final, Protocol

from carrel.providers.logs import spool
from carrel.providers.logs.log import KINDS, Kind
from carrel.providers.logs.spool import write_mirrored
from carrel.providers.logs.uris import ID
from carrel.stores.copying import CopyConflict, CopyReport, CopyUnverified

KIND: Final = "logs"
Key = tuple[Kind, str]


class PushedFolder(Protocol):
    """A folder with logs that other machines sent."""

    @property
    def root(self) -> str:
        """The folder above `.carrel`."""
        ...

    def refresh(self) -> None:
        """Bring the folder up to date."""
        ...

    def restore(self, kind: Kind, name: str, data: bytes, modified_ns: int) -> None:
        """Write a whole log, in place of the old one."""
        ...


class ProjectLogs:
    """The logs in a project's folder."""

    def __init__(self, root: str) -> None:
        self.root = root

    def refresh(self) -> None:
        """Do nothing: the folder is read as it is now."""

    def restore(self, kind: Kind, name: str, data: bytes, modified_ns: int) -> None:
        """Write a whole log, in place of the old one."""
        with spool.opened(self.root, kind, is_made=True) as folder:
            write_mirrored(folder, name, data, is_new=True, modified_ns=modified_ns)


def copy_logs(source: PushedFolder, target: PushedFolder, *, replaces: bool) -> CopyReport:
    """Copy everything; raise `CopyConflict` if the target has other versions, unless `replaces`."""
    source.refresh()
    target.refresh()
    names, known = _names(source), set(_names(target))
    others = [key for key in names if key in known and _load(source, key)[0] != _load(target, key)[0]]
    if others and not replaces:
        raise CopyConflict(KIND, [f"{kind}/{name}" for kind, name in others])
    new = [key for key in names if key not in known]
    copied = {key: _load(source, key) for key in (*new, *others)}
    for key, (data, modified_ns) in copied.items():
        target.restore(*key, data, modified_ns)
    target.refresh()
    for key in names:
        wanted = copied.get(key) or _load(source, key)
        if _load(target, key)[0] != wanted[0]:
            raise CopyUnverified(KIND, f"{key[0]}/{key[1]}")
    return CopyReport(KIND, len(new), len(names) - len(new) - len(others), len(others), len(names))


def _names(logs: PushedFolder) -> list[Key]:
    """Return the logs that other machines sent, by kind and name."""
    found: list[Key] = []
    for kind in KINDS:
        with contextlib.suppress(OSError), spool.opened(logs.root, kind) as folder:
            for name in sorted(os.listdir(folder)):
                bare = name.removesuffix(spool.SUFFIX)
                if name == bare or not ID.fullmatch(bare):
                    continue
                with contextlib.suppress(OSError), spool.file(folder, name) as descriptor:
                    if spool.is_pushed(descriptor):
                        found.append((kind, bare))
    return found


def _load(logs: PushedFolder, key: Key) -> tuple[bytes, int]:
    """Return the bytes of a log, and the time of its last change; empty if it was removed meanwhile."""
    with (
        contextlib.suppress(OSError),
        spool.opened(logs.root, key[0]) as folder,
        spool.file(folder, key[1] + spool.SUFFIX) as descriptor,
    ):
        status = os.fstat(descriptor)
        return os.pread(descriptor, status.st_size, 0), status.st_mtime_ns
    return b"", 0
