"""Git's ignore rules: every `.gitignore` from the root down, and `.git/info/exclude`.

Nothing above the root counts, and no global file. Ignore files are opened through the
sandbox like everything else. A folder's rules are looked at again after a second; a
file is compiled again only when it changed.
"""

import os
from time import monotonic
from typing import Final

from carrel.denial import Rules
from carrel.sandbox import Opened, Root, SandboxError

FRESH_S: Final = 1.0
MAX_IGNORE_BYTES: Final = 1_048_576
MAX_CACHED: Final = 4_096

Segments = tuple[str, ...]
Chain = tuple[tuple["Rules", str], ...]
"""Rules that hold in a folder, outermost first, each with the way from its own folder to this one."""


class IgnoreRules:
    """The ignore rules of one root."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._compiled: dict[tuple[int, int, int, int], Rules] = {}
        self._chains: dict[Segments, tuple[float, Chain]] = {}

    def ignores(self, segments: Segments, *, is_folder: bool) -> bool:
        """Tell whether git would ignore the path; below an ignored folder everything is."""
        folder: Segments = ()
        chain = self.chain(folder)
        for number, name in enumerate(segments, 1):
            is_last = number == len(segments)
            if ignores_child(chain, name, is_folder=is_folder or not is_last):
                return True
            if not is_last:
                folder = (*folder, name)
                chain = self.chain(folder)
        return False

    def chain(self, folder: Segments) -> Chain:
        """Give the rules that hold in a folder, at most a second old."""
        now = monotonic()
        known = self._chains.get(folder)
        if known is not None and known[0] > now:
            return known[1]
        chain = self._outer(folder)
        own = self._read((*folder, ".gitignore"))
        if own:
            chain = (*chain, (own, ""))
        if len(self._chains) >= MAX_CACHED:
            self._chains.clear()
        self._chains[folder] = (now + FRESH_S, chain)
        return chain

    def _outer(self, folder: Segments) -> Chain:
        if folder:
            return tuple((rules, f"{way}{folder[-1]}/") for rules, way in self.chain(folder[:-1]))
        exclude = self._read((".git", "info", "exclude"))
        return ((exclude, ""),) if exclude else ()

    def _read(self, segments: Segments) -> Rules | None:
        try:
            with self._root.open(segments) as opened:
                if opened.is_folder or opened.stat.st_size > MAX_IGNORE_BYTES:
                    return None
                return self._compile(opened)
        except SandboxError:
            return None

    def _compile(self, opened: Opened) -> Rules:
        stat: os.stat_result = opened.stat
        key = (stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size)
        rules = self._compiled.get(key)
        if rules is None:
            text = opened.read(0, MAX_IGNORE_BYTES).decode("utf-8", "replace")
            rules = Rules.of(text.splitlines())
            if len(self._compiled) >= MAX_CACHED:
                self._compiled.clear()
            self._compiled[key] = rules
        return rules


def ignores_child(chain: Chain, name: str, *, is_folder: bool) -> bool:
    """Tell whether the rules of a folder ignore a name in it; the innermost rules decide first."""
    spelled = f"{name}/" if is_folder else name
    for rules, way in reversed(chain):
        decided = rules.decide(way + spelled)
        if decided is not None:
            return decided
    return False
