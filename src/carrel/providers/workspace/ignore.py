"""Git's ignore rules: every `.gitignore` from the root down, and `.git/info/exclude`.

Nothing above the root counts, and no global file. Ignore files are opened through the sandbox
like everything else; a `.gitignore` that is a link is not read, as in git itself. A file is
compiled again only when it changed.
"""

from time import time_ns
from typing import Final

from carrel.patterns import Rules, octets
from carrel.sandbox import Missing, Opened, Root, SandboxError

IGNORE_FILE: Final = ".gitignore"
EXCLUDE_FILE: Final = (".git", "info", "exclude")
MAX_IGNORE_BYTES: Final = 4_194_304
"""What is read of an ignore file; patterns after it do not count."""
MAX_COMPILED: Final = 1_024
SETTLED_NS: Final = 100_000_000
"""A file changed this long ago shows every further change in its times; a younger one may not."""

Segments = tuple[str, ...]


Chain = tuple[tuple[Rules, str], ...]
"""Rules that hold in a folder, outermost first, each with the way from its own folder to this one."""


class IgnoreFiles:
    """The ignore files of one root."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._compiled: dict[tuple[int, ...], Rules] = {}

    def top(self) -> Chain:
        """Give the rules that hold in the root."""
        exclude = self._read(EXCLUDE_FILE)
        return self.extend(((exclude, ""),) if exclude else (), ())

    def enter(self, chain: Chain, folder: Segments) -> Chain:
        """Give the rules that hold in a folder, made from those of the folder above and its own."""
        return self.extend(enter(chain, folder[-1]), folder)

    def extend(self, chain: Chain, folder: Segments) -> Chain:
        """Add a folder's own ignore file to the rules that hold there."""
        own = self._read((*folder, IGNORE_FILE), follow=False)
        return (*chain, (own, "")) if own else chain

    def exists(self, folder: Segments) -> bool:
        """Tell whether there is such a folder, as far as can be known."""
        try:
            self._root.open(folder).close()
        except SandboxError as error:
            return not isinstance(error, Missing)
        return True

    def _read(self, segments: Segments, *, follow: bool = True) -> Rules | None:
        try:
            with self._root.open(segments) as opened:
                if opened.is_folder or (opened.real != segments and not follow):
                    return None
                return self._compile(opened)
        except SandboxError:
            return None

    def _compile(self, opened: Opened) -> Rules:
        stat = opened.stat
        key = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
        rules = self._compiled.get(key)
        if rules is None:
            text = opened.read(0, MAX_IGNORE_BYTES).decode("latin-1").removeprefix("\xef\xbb\xbf")
            rules = Rules.of(line.removesuffix("\r") for line in text.split("\n"))
            if time_ns() - stat.st_ctime_ns > SETTLED_NS:
                if len(self._compiled) >= MAX_COMPILED:
                    self._compiled.clear()
                self._compiled[key] = rules
        return rules


def enter(chain: Chain, name: str) -> Chain:
    """Give the rules of a folder as they hold in one below it, before that one's own."""
    step = f"{octets(name)}/"
    return tuple([(rules, way + step) for rules, way in chain])


def ignores(chain: Chain, name: str, *, is_folder: bool) -> bool:
    """Tell whether the rules of a folder ignore a name in it; the innermost rules decide first."""
    spelled = octets(name)
    for rules, way in reversed(chain):
        decided = rules.decide(way, spelled, is_folder=is_folder)
        if decided is not None:
            return decided
    return False
