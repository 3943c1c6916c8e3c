"""Git's ignore rules: every `.gitignore` from the root down, and `.git/info/exclude`.

Files above the root and the user's global file are not used. Ignore files are opened through the sandbox. A
`.gitignore` that is a link is not read, as in git itself. A file is compiled again only after it changed.

If the rules of a file cannot be used, because it exceeds a limit or cannot be read, the files that it hides must not
become visible: everything in its folder counts as ignored, and `unusable` says why.
"""

import errno
import stat
from collections.abc import Callable
from functools import partial
from typing import Final

from carrel.files.gitignore import Chain, Rules, TooManyPatterns, octets
from carrel.files.sandbox import Opened, Root, SandboxError, Unreadable, is_settled, state_of

IGNORE_FILE: Final = ".gitignore"
EXCLUDE_FILE: Final = (".git", "info", "exclude")
MAX_IGNORE_BYTES: Final = 4_194_304
"""Maximum size of one ignore file; the largest known ones have a tenth of it."""
MAX_PATTERNS_IN_FORCE: Final = 100_000
MAX_WILD_IN_FORCE: Final = 2_000
MAX_FILES_IN_FORCE: Final = 64
"""Limits for all rules that apply in one folder, since each name in it is compared with all of them."""
MAX_PATTERNS_HELD: Final = 200_000
"""Maximum number of patterns of one root that are cached."""
MAX_COMPILED: Final = 1_024
MAX_REPORTED: Final = 100

Segments = tuple[str, ...]


class _Everything(Rules):
    """The rules of a file that cannot be used: they ignore every name."""

    def __bool__(self) -> bool:
        return True

    def decide(self, prefix: str, name: str, *, is_folder: bool) -> bool:
        """Return True."""
        del prefix, name, is_folder
        return True


EVERYTHING: Final = _Everything()
TOO_LONG: Final = TooManyPatterns(f"more than {MAX_IGNORE_BYTES} bytes")


class IgnoreRules:
    """The rules of the ignore files of one root. A subclass reads the files."""

    def __init__(self) -> None:
        self._compiled: dict[object, Rules | TooManyPatterns] = {}
        self._held = 0
        self.unusable: dict[Segments, str] = {}
        """The ignore files whose rules cannot be used, and why; at most `MAX_REPORTED` of them."""
        self.on_full: Callable[[], object] = lambda: None
        """Called when the cache of patterns is full, so that other caches release theirs."""

    def top(self) -> Chain:
        """Return the rules that apply in the root."""
        exclude = self._read(EXCLUDE_FILE)
        return self.extend(((exclude, ""),) if exclude else (), ())

    def enter(self, chain: Chain, folder: Segments) -> Chain:
        """Return the rules that apply in a folder, from those of the folder above it and its own."""
        return self.extend(enter(chain, folder[-1]), folder)

    def extend(self, chain: Chain, folder: Segments) -> Chain:
        """Add a folder's own ignore file to the rules that apply there."""
        place = (*folder, IGNORE_FILE)
        own = self._read(place, follow=False)
        if not own:
            return chain
        extended = (*chain, (own, ""))
        if own is not EVERYTHING and (excess := _excess_of(extended)):
            self._refuse(place, f"with those of the folders above it has {excess}")
            return ((EVERYTHING, ""),)
        return extended

    def exists(self, folder: Segments) -> bool:
        """Return whether a folder exists; True if that cannot be known."""
        raise NotImplementedError

    def _read(self, segments: Segments, *, follow: bool = True) -> Rules | None:
        """Return the rules of a file; None if there is none. A link is read only with `follow`."""
        raise NotImplementedError

    def _compiled_for(self, state: object, compile_: Callable[[], Rules | TooManyPatterns], *, keeps: bool) -> Rules:
        """Return the rules of a file, or raise `TooManyPatterns`; both are kept for this state of the file."""
        compiled = self._compiled.get(state)
        if compiled is None:
            compiled = compile_()
            if keeps:
                self._keep(state, compiled)
        if isinstance(compiled, TooManyPatterns):
            raise compiled.with_traceback(None)
        return compiled

    def _keep(self, state: object, compiled: Rules | TooManyPatterns) -> None:
        count = len(compiled) if isinstance(compiled, Rules) else 0
        self._held += count
        if len(self._compiled) >= MAX_COMPILED or self._held > MAX_PATTERNS_HELD:
            self._compiled.clear()
            self._held = count
            self.on_full()
        self._compiled[state] = compiled

    def _refuse(self, place: Segments, why: str) -> None:
        if len(self.unusable) < MAX_REPORTED:
            self.unusable[place] = why


class IgnoreFiles(IgnoreRules):
    """The ignore files of a folder on this machine."""

    def __init__(self, root: Root) -> None:
        super().__init__()
        self.root = root

    def exists(self, folder: Segments) -> bool:
        """Return whether a folder exists; True if that cannot be known."""
        return self.root.exists(folder)

    def _read(self, segments: Segments, *, follow: bool = True) -> Rules | None:
        self.unusable.pop(segments, None)
        try:
            with self.root.open(segments) as opened:
                if opened.is_folder or (opened.real != segments and not follow):
                    return None
                return self._compiled_for(
                    state_of(opened.stat), partial(_compile, opened), keeps=is_settled(opened.stat)
                )
        except Unreadable as error:
            if error.errno not in (errno.EACCES, errno.EPERM) or not self._is_there(segments):
                return None
            self._refuse(segments, "it cannot be read")
        except SandboxError:
            return None
        except TooManyPatterns as error:
            self._refuse(segments, f"it has {error}")
        return EVERYTHING

    def _is_there(self, segments: Segments) -> bool:
        """Return whether there is a regular file; False if its folder cannot be opened."""
        try:
            with self.root.open(segments[:-1]) as folder:
                return stat.S_ISREG(folder.stat_child(segments[-1]).st_mode)
        except SandboxError:
            return False


def _compile(opened: Opened) -> Rules | TooManyPatterns:
    if opened.stat.st_size > MAX_IGNORE_BYTES:
        return TOO_LONG
    return compile_text(opened.read(0, MAX_IGNORE_BYTES))


def compile_text(data: bytes) -> Rules | TooManyPatterns:
    """Return the rules of an ignore file's bytes."""
    try:
        return Rules.of(lines_of(data))
    except TooManyPatterns as error:
        return error


def lines_of(data: bytes) -> list[str]:
    """Return the lines of an ignore file's bytes, as octets."""
    return [line.removesuffix("\r") for line in data.decode("latin-1").removeprefix("\xef\xbb\xbf").split("\n")]


def _excess_of(chain: Chain) -> str:
    """Return which limit the rules of a folder exceed, in words; empty if they exceed none."""
    if len(chain) > MAX_FILES_IN_FORCE:
        return f"more than {MAX_FILES_IN_FORCE} files of patterns"
    if sum(len(rules) for rules, _ in chain) > MAX_PATTERNS_IN_FORCE:
        return f"more than {MAX_PATTERNS_IN_FORCE} patterns"
    if sum(rules.wild_count for rules, _ in chain) > MAX_WILD_IN_FORCE:
        return f"more than {MAX_WILD_IN_FORCE} patterns with wildcards"
    return ""


def enter(chain: Chain, name: str) -> Chain:
    """Return the rules of a folder as they apply in a folder below it, without that folder's own rules."""
    step = f"{octets(name)}/"
    return tuple([(rules, prefix + step) for rules, prefix in chain])
