"""Copy a memory between a Sage folder and the team's store, or between two stores: every file, with its time.

Files are written in small groups; each group is written as a whole. A link inside the folder is copied as its target.
The index of knowledge has many items: those that only the target has stay in it.
"""

import os
from collections.abc import Mapping
from typing import Final

from carrel.providers.sage import folders
from carrel.providers.sage.fields import BadFile, Fields, decode
from carrel.providers.sage.knowledge import INDEX, INDEX_PATH
from carrel.providers.sage.memory import TUNING, SageMemory
from carrel.providers.sage.record_files import read_mapping
from carrel.stores.copying import CopyConflict, CopyReport, CopyUnverified

KIND: Final = "sage"
INDEX_NAME: Final = "/".join(INDEX_PATH)
MAX_BYTES: Final = 16 * 1_048_576
"""Maximum size of one file: above the limits of all kinds of records."""

MemoryFile = tuple[bytes, int]
"""The bytes of a file, and the time of its last change in nanoseconds."""


def copy_memory(source: SageMemory, target: SageMemory, *, replaces: bool) -> CopyReport:
    """Copy everything; raise `CopyConflict` if the target has other versions, unless `replaces`."""
    files, known = _files(source), _files(target)
    is_joined = _join_indexes(files, known)
    others = sorted(name for name in files if name in known and files[name][0] != known[name][0])
    if is_joined and INDEX_NAME in others:
        others.remove(INDEX_NAME)
    if others and not replaces:
        raise CopyConflict(KIND, others)
    new = [name for name in files if name not in known]
    stale = [name for name in files if name in known and name not in others and files[name] != known[name]]
    index, _ = files.get(INDEX_NAME, (b"", 0))
    for name in sorted((*new, *others, *stale), key=_order):
        data, modified_ns = files[name]
        target.files.restore(tuple(name.split("/")), data, modified_ns, index)
    _verify(files, _files(target))
    return CopyReport(KIND, len(new), len(files) - len(new) - len(others), len(others), len(files))


def _join_indexes(files: dict[str, MemoryFile], known: Mapping[str, MemoryFile]) -> bool:
    """Add the items that only the target's index has to the source's; return whether no item differs."""
    if INDEX_NAME not in files or INDEX_NAME not in known or files[INDEX_NAME][0] == known[INDEX_NAME][0]:
        return False
    from carrel.providers.sage.yaml_text import join_items  # PyYAML takes long to import

    (data, modified_ns), there = files[INDEX_NAME], known[INDEX_NAME]
    try:
        items, others = _items(data), _items(there[0])
        different = [name for name, item in items.items() if name in others and others[name] != item]
        joined = join_items(decode(data), decode(there[0])).encode()
    except (BadFile, RecursionError):  # an alias may refer to the mapping that it stands in
        return False
    is_whole = not different and items.keys() <= others.keys()
    files[INDEX_NAME] = there if is_whole else (joined, modified_ns)
    return not different


def _items(index: bytes) -> dict[str, Fields]:
    return {item.text("id"): item for item in read_mapping(decode(index)).mappings("items")}


def _order(name: str) -> tuple[int, str]:
    """Return a sort key: settings come first, and the index of a folder after all items that it names."""
    return (0 if name == TUNING else 2 if name.endswith(INDEX) else 1), name


def _files(memory: SageMemory) -> dict[str, MemoryFile]:
    """Return all files of a memory by name; raise `BadFile` for one that cannot be read."""
    memory.refresh()
    root = memory.home.root("")
    found: dict[str, MemoryFile] = {}
    for name, _ in folders.walk(root):
        read = folders.read(root, tuple(name.split("/")), MAX_BYTES)
        found[name] = read.data, read.signature[0]
    return found


def _verify(files: Mapping[str, MemoryFile], copied: Mapping[str, MemoryFile]) -> None:
    for name, file in files.items():
        if copied.get(name) != file:
            raise CopyUnverified(KIND, os.path.basename(name))
