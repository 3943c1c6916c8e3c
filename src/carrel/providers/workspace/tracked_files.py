"""The hidden files that git tracks. They are served: a project that commits files below `.github/` publishes them.

Only names with a part that begins with a dot are taken from git's index. It is read by handle, within limits, and again
only after it changed. If it cannot be read, no file counts as tracked, so hidden files stay hidden.
"""

from time import monotonic
from typing import Final

from carrel.core.record import Value
from carrel.files.gitignore import octets
from carrel.files.sandbox import FileState, Opened, Root, SandboxError, state_of
from carrel.git.index import IndexFile, UnreadableIndex, read_id_bytes, read_index
from carrel.providers.workspace.ignore_rules import Segments

FRESH_S: Final = 1.0
"""How long an answer is used before the index is compared again: as long as a client may keep it (`ttlMs`)."""
MAX_NAMES: Final = 50_000
"""Maximum number of hidden files; ordinary repositories have far fewer."""
MAX_CHARACTERS: Final = 8 << 20
"""Maximum length of all names, folders included: one deep file lies in many folders."""

INDEX_FILE: Final = (".git", "index")
_CONFIG_FILE: Final = (".git", "config")
_DOT: Final = ord(".")
_FOLDER_END: Final = ord("/")


class Hidden(Value, frozen=True):
    """The hidden files that are tracked, and the folders they lie in, as octets from the root."""

    files: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()


_NOTHING: Final = Hidden()


class Tracked:
    """The hidden names of one root that git tracks."""

    def __init__(self, root: Root, home: str) -> None:
        self._root = root
        self._home = home
        self._until = 0.0
        self._known: tuple[FileState, Hidden] = ((), _NOTHING)

    def holds(self, prefix: str, name: str, *, is_folder: bool) -> bool:
        """Return whether a file, or anything in a folder, is tracked; `prefix` is its folder as octets with a `/`."""
        hidden = self._known[1] if monotonic() <= self._until else self.look()
        return prefix + octets(name) in (hidden.folders if is_folder else hidden.files)

    def look(self) -> Hidden:
        """Compare the index with the known one; return what is tracked now."""
        until = monotonic() + FRESH_S
        try:
            self._look_at_index()
        except (SandboxError, OSError, UnreadableIndex):
            self._known = ((), _NOTHING)
        self._until = until
        return self._known[1]

    def forget(self) -> None:
        """Compare the index again when it is needed next."""
        self._until = 0.0

    def _look_at_index(self) -> None:
        try:
            opened = self._root.open(INDEX_FILE)
        except SandboxError:  # it may be in a linked work tree, or in a repository around the root
            from carrel.git.discovery import find  # not needed by most projects

            found = find(self._root.path, self._home)
            if found is None:
                self._known = ((), _NOTHING)
                return
            try:
                with found.own.open(INDEX_FILE[1:]) as index:
                    self._take(index, found.shared, _CONFIG_FILE[1:], found.prefix)
            finally:
                found.close()
        else:
            with opened:
                self._take(opened, self._root, _CONFIG_FILE, ())

    def _take(self, opened: Opened, shared: Root, config: Segments, prefix: Segments) -> None:
        state = state_of(opened.stat)
        if state != self._known[0]:
            index = read_index(opened, read_id_bytes(shared, config))
            self._known = state, read_hidden(index, "".join(f"{octets(name)}/" for name in prefix))


def read_hidden(index: IndexFile, above: str = "") -> Hidden:
    """Return the hidden names below a folder in an index; raise `UnreadableIndex` if it is not a whole index."""
    files: set[str] = set()
    folders: set[str] = set()
    start = above.encode("latin-1")
    characters = 0
    for name, _ in index.names():
        if not name.startswith(start) or name[-1] == _FOLDER_END:
            continue
        inside = name[len(start) :]
        if inside[0] == _DOT or b"/." in inside:
            path = inside.decode("latin-1")
            files.add(path)
            characters += len(path)
            folder = path.rpartition("/")[0]
            while folder and folder not in folders:
                folders.add(folder)
                characters += len(folder)
                folder = folder.rpartition("/")[0]
            if len(files) > MAX_NAMES or characters > MAX_CHARACTERS:
                raise UnreadableIndex
    return Hidden(frozenset(files), frozenset(folders))
