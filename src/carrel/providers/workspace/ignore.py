"""Git's ignore rules: every `.gitignore` from the root down, and `.git/info/exclude`.

Nothing above the root counts, and no global file. Ignore files are opened through the sandbox
like everything else; a `.gitignore` that is a link is not read, as in git itself. A file is
compiled again only when it changed.
"""

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from time import time_ns
from typing import Final, Self

from carrel.providers.workspace import patterns
from carrel.providers.workspace.patterns import Pattern, octets
from carrel.sandbox import Missing, Opened, Root, SandboxError

IGNORE_FILE: Final = ".gitignore"
MAX_IGNORE_BYTES: Final = 4_194_304
"""What is read of an ignore file; patterns after it do not count."""
MAX_COMPILED: Final = 1_024
SETTLED_NS: Final = 100_000_000
"""A file changed this long ago shows every further change in its times; a younger one may not."""

Segments = tuple[str, ...]
_Match = Callable[[str], re.Match[str] | None]


class Rules:
    """Patterns in git-ignore syntax, relative to one folder."""

    def __init__(self, kept: Iterable[Pattern]) -> None:
        self._patterns = tuple(kept)
        simple = [one for one in self._patterns if one.plain_name is None and one.plain_suffix is None]
        self._names = frozenset(one.text for one in self._patterns if one.plain_name is not None)
        self._suffixes = tuple(one.text[1:] for one in self._patterns if one.plain_suffix is not None)
        self._match_name = _any_of([one for one in simple if not one.is_anchored])
        self._match_way = _any_of([one for one in simple if one.is_anchored])
        self._is_plain = not any(one.is_kept or one.only_folders for one in self._patterns)
        self._tops = tuple({one.top for one in self._patterns if not one.is_kept})

    @classmethod
    def of(cls, lines: Iterable[str]) -> Self:
        """Compile patterns, given as octets."""
        parsed = (patterns.parse(line) for line in lines)
        return cls(one for one in parsed if one is not None)

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def decide(self, way: str, name: str, *, is_folder: bool) -> bool | None:
        """Tell what the last pattern that matches says: True to ignore, False to keep, None if none does.

        `way` leads from the folder of these rules to that of the name, with a closing `/`; both are
        octets. What holds for a folder above is not asked again.
        """
        if not (
            name in self._names
            or name.endswith(self._suffixes)
            or (self._match_name is not None and self._match_name(name))
            or (self._match_way is not None and self._match_way(way + name))
        ):
            return None
        return True if self._is_plain else self._last(way + name, name, is_folder=is_folder)

    def may_match_below(self, way: str) -> bool:
        """Tell whether something below a folder may be matched; True where that is not known."""
        return any(way.startswith(top) or top.startswith(way) for top in self._tops)

    def _last(self, way: str, name: str, *, is_folder: bool) -> bool | None:
        for pattern, match in self._each:
            if (is_folder or not pattern.only_folders) and match(way if pattern.is_anchored else name):
                return not pattern.is_kept
        return None

    @cached_property
    def _each(self) -> list[tuple[Pattern, _Match]]:
        return [(one, re.compile(one.regex, re.DOTALL).fullmatch) for one in reversed(self._patterns)]


Chain = tuple[tuple[Rules, str], ...]
"""Rules that hold in a folder, outermost first, each with the way from its own folder to this one."""


def _any_of(several: list[Pattern]) -> _Match | None:
    if not several:
        return None
    return re.compile("|".join(f"(?:{one.regex})" for one in several), re.DOTALL).fullmatch


class IgnoreFiles:
    """The ignore files of one root."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._compiled: dict[tuple[int, ...], Rules] = {}

    def top(self) -> Chain:
        """Give the rules that hold in the root."""
        exclude = self._read((".git", "info", "exclude"))
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
