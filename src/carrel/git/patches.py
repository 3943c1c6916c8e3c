"""Find the changes between two states of files, and write them as patches that `git apply` accepts.

A rename is shown as one deleted and one added file. Content is compared as git stores it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from carrel.core.record import Value
from carrel.files.file_types import WINDOW
from carrel.git.history import FOLDER, KIND, Entry, History
from carrel.git.line_diff import Run, equal_runs
from carrel.git.objects import BLOB, Id, Objects, Unknown

CONTEXT: Final = 3
MAX_TEXT_BYTES: Final = 2 * 1_048_576
"""Maximum size of a file whose lines are compared."""
MAX_CHANGES: Final = 20_000
"""Maximum number of files in one comparison."""
_MAX_DEPTH: Final = 128
SUBMODULE: Final = 0o160000
LINK: Final = 0o120000

Path = tuple[bytes, ...]


class FileChange(Value, frozen=True):
    """A file that differs: its old and its new entry; None if there is no file."""

    path: Path
    old: Entry | None
    new: Entry | None

    @property
    def letter(self) -> str:
        """The letter that git shows: added, deleted, changed, or of another type."""
        if self.old is None:
            return "A"
        if self.new is None:
            return "D"
        return "M" if self.old[0] & KIND == self.new[0] & KIND else "T"


class TooMany(Unknown):
    """More files differ than are compared."""


def changed_files(history: History, old: Id | None, new: Id | None) -> list[FileChange]:
    """Return the files that differ between two trees, in order of their paths; None is an empty tree."""
    found: list[FileChange] = []
    for change in _changes(history, (), old, new):
        found.append(change)
        if len(found) > MAX_CHANGES:
            raise TooMany(f"more than {MAX_CHANGES} files differ")
    found.sort(key=lambda change: b"/".join(change.path))
    return found


def _changes(history: History, path: Path, old: Id | None, new: Id | None) -> Iterator[FileChange]:
    if old == new:
        return
    history.check_time()
    if len(path) > _MAX_DEPTH:
        raise Unknown("too deep")
    before = history.tree(old) if old else {}
    after = history.tree(new) if new else {}
    for name in {name for name, _ in before.items() ^ after.items()}:
        yield from _change(history, (*path, name), before.get(name), after.get(name))


def _change(history: History, path: Path, was: Entry | None, now: Entry | None) -> Iterator[FileChange]:
    """Yield what differs at a name: a file, or everything below a folder."""
    folder_was, file_was = _apart(was)
    folder_now, file_now = _apart(now)
    if file_was != file_now:
        yield FileChange(path, file_was, file_now)
    if folder_was or folder_now:
        yield from _changes(history, path, folder_was, folder_now)


def _apart(entry: Entry | None) -> tuple[Id | None, Entry | None]:
    """Return an entry as a folder, or as anything else."""
    if entry is None:
        return None, None
    return (entry[1], None) if entry[0] & KIND == FOLDER else (None, entry)


class Patch(Value, frozen=True):
    """The text of a change, with how many lines were added and removed; without lines, `note` says why."""

    change: FileChange
    text: str
    added: int = 0
    removed: int = 0
    note: str = ""


def make_patch(change: FileChange, old: bytes | None, new: bytes | None, check: Callable[[], None]) -> Patch:
    """Return the patch from one content to another; None if there is no file."""
    name = "/".join(spelled(part) for part in change.path)
    head = _head(change, name)
    note = _note(old, new)
    if note:
        return Patch(change, f"{head}{note}: a/{name} and b/{name}\n", note=note)
    was, now = _lines(old or b""), _lines(new or b"")
    runs = equal_runs(was, now, check)
    kept = sum(count for _, _, count in runs)
    added, removed = len(now) - kept, len(was) - kept
    if not added and not removed:
        return Patch(change, head)
    source = "/dev/null" if old is None else f"a/{name}"
    target = "/dev/null" if new is None else f"b/{name}"
    text = f"{head}--- {source}\n+++ {target}\n{''.join(_hunks(was, now, runs))}"
    return Patch(change, text, added, removed)


def content_of(objects: Objects, entry: Entry | None) -> bytes | None:
    """Return the content of a file in a tree, as git shows it; None for no file."""
    if entry is None:
        return None
    mode, name = entry
    if mode & KIND == SUBMODULE:
        return b"Subproject commit %s\n" % name
    kind, data = objects.read(name)
    if kind != BLOB:
        raise Unknown("not a file")
    return data


def spelled(name: bytes) -> str:
    """Return a name as text on one line."""
    text = name.decode(errors="replace")
    return (
        text
        if text.isprintable()
        else "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)
    )


def _head(change: FileChange, name: str) -> str:
    lines = [f"diff --git a/{name} b/{name}"]
    if change.old is None and change.new is not None:
        lines.append(f"new file mode {change.new[0]:06o}")
    elif change.new is None and change.old is not None:
        lines.append(f"deleted file mode {change.old[0]:06o}")
    elif change.old and change.new and change.old[0] != change.new[0]:
        lines += [f"old mode {change.old[0]:06o}", f"new mode {change.new[0]:06o}"]
    return "\n".join(lines) + "\n"


def _note(old: bytes | None, new: bytes | None) -> str:
    both = (old or b"", new or b"")
    # Git looks at fewer bytes. Here, a file that a read refuses as binary must not be shown either.
    if any(b"\0" in one[:WINDOW] for one in both):
        return "Binary files differ"
    if any(len(one) > MAX_TEXT_BYTES for one in both):
        return "Files too large to compare differ"
    return ""


def _lines(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    last = lines.pop()
    lines = [line + b"\n" for line in lines]
    return [*lines, last] if last else lines


def split_lines(data: bytes) -> list[bytes]:
    """Return the lines of a content, each with its line end."""
    return _lines(data)


def _hunks(old: Sequence[bytes], new: Sequence[bytes], runs: Sequence[Run]) -> Iterator[str]:
    edits = _edits(len(old), len(new), runs)
    at = 0
    while at < len(edits):
        end = at + 1
        while end < len(edits) and edits[end][0] - edits[end - 1][1] <= 2 * CONTEXT:
            end += 1
        yield _hunk(old, new, edits[at:end])
        at = end


def _edits(old: int, new: int, runs: Sequence[Run]) -> list[tuple[int, int, int, int]]:
    """Return the places between the common lines: begin and end in the old text, begin and end in the new one."""
    edits = []
    i = j = 0
    for start_i, start_j, count in (*runs, (old, new, 0)):
        if (i, j) != (start_i, start_j):
            edits.append((i, start_i, j, start_j))
        i, j = start_i + count, start_j + count
    return edits


def _hunk(old: Sequence[bytes], new: Sequence[bytes], edits: Sequence[tuple[int, int, int, int]]) -> str:
    first, last = edits[0], edits[-1]
    before = min(CONTEXT, first[0])
    after = min(CONTEXT, len(old) - last[1])
    lines: list[str] = []
    at = first[0] - before
    for i, end_i, j, end_j in edits:
        lines += [_shown(" ", line) for line in old[at:i]]
        lines += [_shown("-", line) for line in old[i:end_i]]
        lines += [_shown("+", line) for line in new[j:end_j]]
        at = end_i
    lines += [_shown(" ", line) for line in old[at : at + after]]
    was = _span(first[0] - before, last[1] + after)
    now = _span(first[2] - before, last[3] + after)
    return f"@@ -{was} +{now} @@\n{''.join(lines)}"


def _span(start: int, end: int) -> str:
    count = end - start
    begin = start + 1 if count else start
    return f"{begin}" if count == 1 else f"{begin},{count}"


def _shown(mark: str, line: bytes) -> str:
    text = line.decode(errors="replace")
    return f"{mark}{text}" if text.endswith("\n") else f"{mark}{text}\n\\ No newline at end of file\n"
