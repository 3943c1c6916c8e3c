"""Git's ignore rules: every `.gitignore` from the root down, and `.git/info/exclude`.

Nothing above the root counts, and no global file. Ignore files are opened through the sandbox
like everything else; a `.gitignore` that is a link is not read, as in git itself. A file is
compiled again only when it changed.

A file whose rules cannot all be honoured, because it passes a bound or the system refuses it, must not
show what it hides: everything in its folder counts as ignored, and `unusable` says why.
"""

import errno
import stat
from collections.abc import Callable
from time import time_ns
from typing import Final

from carrel.files.gitignore import Chain, Rules, TooManyPatterns, octets
from carrel.files.sandbox import Missing, Opened, Root, SandboxError, Unreadable

IGNORE_FILE: Final = ".gitignore"
EXCLUDE_FILE: Final = (".git", "info", "exclude")
MAX_IGNORE_BYTES: Final = 4_194_304
"""Size of one ignore file; the largest known ones have a tenth of it."""
MAX_PATTERNS_IN_FORCE: Final = 100_000
MAX_WILD_IN_FORCE: Final = 2_000
MAX_FILES_IN_FORCE: Final = 64
"""What holds in one folder, of all files from the root down: each name there is compared with all of it."""
MAX_PATTERNS_HELD: Final = 200_000
"""Patterns of one root that are remembered, whichever folders they belong to."""
MAX_COMPILED: Final = 1_024
MAX_TOLD: Final = 100
SETTLED_NS: Final = 100_000_000
"""A file changed this long ago shows every further change in its times; a younger one may not."""

Segments = tuple[str, ...]


class _Everything(Rules):
    """Stands for the rules of a file that cannot be honoured: it ignores every name."""

    def __bool__(self) -> bool:
        return True

    def decide(self, way: str, name: str, *, is_folder: bool) -> bool:
        """Ignore it."""
        del way, name, is_folder
        return True


_EVERYTHING: Final = _Everything()


class IgnoreFiles:
    """The ignore files of one root."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._compiled: dict[tuple[int, ...], Rules | TooManyPatterns] = {}
        self._held = 0
        self.unusable: dict[Segments, str] = {}
        """The ignore files whose rules cannot be honoured, and why; at most `MAX_TOLD` of them."""
        self.on_full: Callable[[], object] = lambda: None
        """Called when so many patterns were read that all others are to let go of theirs."""

    def top(self) -> Chain:
        """Give the rules that hold in the root."""
        exclude = self._read(EXCLUDE_FILE)
        return self.extend(((exclude, ""),) if exclude else (), ())

    def enter(self, chain: Chain, folder: Segments) -> Chain:
        """Give the rules that hold in a folder, made from those of the folder above and its own."""
        return self.extend(enter(chain, folder[-1]), folder)

    def extend(self, chain: Chain, folder: Segments) -> Chain:
        """Add a folder's own ignore file to the rules that hold there."""
        place = (*folder, IGNORE_FILE)
        own = self._read(place, follow=False)
        if not own:
            return chain
        extended = (*chain, (own, ""))
        if own is not _EVERYTHING and (passed := _passed_bound(extended)):
            self._refuse(place, f"with those of the folders above it has {passed}")
            return ((_EVERYTHING, ""),)
        return extended

    def exists(self, folder: Segments) -> bool:
        """Tell whether there is such a folder, as far as can be known."""
        try:
            self._root.open(folder).close()
        except SandboxError as error:
            return not isinstance(error, Missing)
        return True

    def _read(self, segments: Segments, *, follow: bool = True) -> Rules | None:
        self.unusable.pop(segments, None)
        try:
            with self._root.open(segments) as opened:
                if opened.is_folder or (opened.real != segments and not follow):
                    return None
                return self._compile(opened)
        except Unreadable as error:
            if error.errno not in (errno.EACCES, errno.EPERM) or not self._is_there(segments):
                return None
            self._refuse(segments, "it cannot be read")
        except SandboxError:
            return None
        except TooManyPatterns as error:
            self._refuse(segments, f"it has {error}")
        return _EVERYTHING

    def _is_there(self, segments: Segments) -> bool:
        """Return whether there is a regular file; False where its folder cannot be looked into."""
        try:
            with self._root.open(segments[:-1]) as folder:
                return stat.S_ISREG(folder.stat_child(segments[-1]).st_mode)
        except SandboxError:
            return False

    def _compile(self, opened: Opened) -> Rules:
        """Return the rules of a file, or raise `TooManyPatterns`; either is found out once per state of the file."""
        state = opened.stat
        key = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
        compiled = self._compiled.get(key)
        if compiled is None:
            compiled = _compile(opened)
            if time_ns() - state.st_ctime_ns > SETTLED_NS:
                self._keep(key, compiled)
        if isinstance(compiled, TooManyPatterns):
            raise compiled.with_traceback(None)
        return compiled

    def _keep(self, key: tuple[int, ...], compiled: Rules | TooManyPatterns) -> None:
        count = len(compiled) if isinstance(compiled, Rules) else 0
        self._held += count
        if len(self._compiled) >= MAX_COMPILED or self._held > MAX_PATTERNS_HELD:
            self._compiled.clear()
            self._held = count
            self.on_full()
        self._compiled[key] = compiled

    def _refuse(self, place: Segments, why: str) -> None:
        if len(self.unusable) < MAX_TOLD:
            self.unusable[place] = why


def _compile(opened: Opened) -> Rules | TooManyPatterns:
    size = opened.stat.st_size
    if size > MAX_IGNORE_BYTES:
        return TooManyPatterns(f"more than {MAX_IGNORE_BYTES} bytes")
    text = opened.read(0, MAX_IGNORE_BYTES).decode("latin-1").removeprefix("\xef\xbb\xbf")
    try:
        return Rules.of(line.removesuffix("\r") for line in text.split("\n"))
    except TooManyPatterns as error:
        return error


def _passed_bound(chain: Chain) -> str:
    """Say which bound the rules of a folder pass; nothing if they pass none."""
    if len(chain) > MAX_FILES_IN_FORCE:
        return f"more than {MAX_FILES_IN_FORCE} files of patterns"
    if sum(len(rules) for rules, _ in chain) > MAX_PATTERNS_IN_FORCE:
        return f"more than {MAX_PATTERNS_IN_FORCE} patterns"
    if sum(rules.wild_count for rules, _ in chain) > MAX_WILD_IN_FORCE:
        return f"more than {MAX_WILD_IN_FORCE} patterns with wildcards"
    return ""


def enter(chain: Chain, name: str) -> Chain:
    """Give the rules of a folder as they hold in one below it, before that one's own."""
    step = f"{octets(name)}/"
    return tuple([(rules, way + step) for rules, way in chain])
