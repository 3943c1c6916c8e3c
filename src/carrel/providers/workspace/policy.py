"""Which files may be read: one policy for lists, reads, folders, completion, watching and search.

The deny-list comes first, then hidden names, git's ignore rules, and the allowed file types. `allow` lifts all of these
except the deny-list. Only names are judged here; a rule that needs the content (`code` serves any text) is applied to
the open file.
"""

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final, Literal

from carrel.core.limits import MAX_REMEMBERED_LENGTH
from carrel.core.record import Value, replace
from carrel.files.gitignore import Chain, ignores, octets
from carrel.files.secrets import DenyList, holds_secrets, rules_of
from carrel.providers.workspace.ignore_rules import IgnoreRules, Segments, enter
from carrel.providers.workspace.paths import REASONS
from carrel.providers.workspace.tracked_files import Hidden, Tracked

Preset = Literal["auto", "flutter", "code", "all", "none"]
Treatment = Literal["show", "unlisted", "refuse"]

SET_PRESET: Final = "carrel config set workspace.preset"
"""The command that changes which types are served."""
FRESH_S: Final = 1.0
"""How long ignore rules are cached for reads: as long as a client may keep an answer (`ttlMs`)."""
MAX_CACHED_FOLDERS: Final = 4_096
MAX_REMEMBERED_DEPTH: Final = 32
"""Deeper folders are not cached: a URI may have thousands of names, and the memory would grow with their square."""

_FLUTTER_SUFFIXES: Final = tuple(".dart .yaml .yml .gradle .kt .kts .swift .mm .m .xml .plist".split())
_FLUTTER_NAMES: Final = frozenset("pubspec.yaml analysis_options.yaml CMakeLists.txt Podfile Info.plist".split())


class Verdict(Value, frozen=True):
    """What may be done with a path: it is refused for a reason, readable, or readable and listed.

    With `needs_text`, the content decides. `is_own` if the operator's own patterns deny the path.
    """

    reason: str = ""
    is_listed: bool = True
    needs_text: bool = False
    is_own: bool = False


OPEN: Final = Verdict()
_ORDER: Final = {"deny": 0, "hidden": 1, "ignored": 2, "type": 3, "": 4}
_DENIED: Final = Verdict("deny")
_DENIED_BY_OWN: Final = Verdict("deny", is_own=True)
_HIDDEN: Final = Verdict("hidden")
_IGNORED: Final = Verdict("ignored")
TYPE: Final = Verdict("type")
_UNLISTED: Final = Verdict(is_listed=False)
_TEXT_ONLY: Final = Verdict(needs_text=True)
_TEXT_UNLISTED: Final = Verdict(is_listed=False, needs_text=True)


class FolderRules(Value, frozen=True):
    """The rules that apply to everything in a folder: its own verdict, whether `allow` covers it, the ignore rules.

    `path` is the path from the root, as octets, with a closing `/`.
    """

    segments: Segments
    path: str
    verdict: Verdict
    is_allowed: bool
    chain: Chain
    is_hidden: bool = False
    """Whether it, or a folder above it, is hidden, so that only tracked files are served in it."""

    @property
    def own(self) -> "FolderRules":
        """The rules for a client that reads this folder by name: an unlisted folder lists its files here.

        A refused folder that only leads to allowed files still shows only those.
        """
        return self if self.verdict is OPEN or self.verdict.reason else replace(self, verdict=OPEN)


RulesByFolder = dict[Segments, FolderRules]


class Policy:
    """The rules of one root."""

    def __init__(
        self,
        preset: Preset,
        ignore: IgnoreRules,
        *,
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        hidden: Treatment | None = None,
        ignored: Treatment | None = None,
        tracked: Tracked | None = None,
    ) -> None:
        self.preset = preset
        # A setting for hidden files applies to tracked ones too.
        self._tracked = tracked if hidden is None and preset in ("code", "all") else None
        self._ignore = ignore
        ignore.on_full = self.forget
        self._allow = rules_of("allow", allow)
        self._deny = DenyList(deny)
        self._hidden: Treatment = hidden or ("unlisted" if preset == "flutter" else "refuse")
        self._ignored: Treatment = ignored or ("unlisted" if preset == "flutter" else "refuse")
        self._by_type: Verdict | None = {"code": _TEXT_ONLY, "all": OPEN, "flutter": None}.get(preset, TYPE)
        self._cache: RulesByFolder = {}
        self._forget_at = 0.0

    def judge(self, segments: Segments, *, is_folder: bool) -> Verdict:
        """Return the verdict on a path, whether or not it exists."""
        if not segments:
            return OPEN
        return self.judge_child(self.rules_of(segments[:-1]), segments[-1], is_folder=is_folder)

    def judge_child(self, rules: FolderRules, name: str, *, is_folder: bool) -> Verdict:
        """Return the verdict on a name in a folder."""
        above = rules.verdict
        if above.reason == "deny":
            return above
        if self._deny.covers(rules.segments, rules.path, name, is_folder=is_folder):
            return _DENIED if holds_secrets(rules.segments, name, is_folder=is_folder) else _DENIED_BY_OWN
        own = self._judge_name(rules, name, is_folder=is_folder)
        verdict = own if above is OPEN else _join(above, own)
        if verdict is OPEN or not self._allow:
            return verdict
        return OPEN if rules.is_allowed or self._allows(rules, name, is_folder=is_folder) else verdict

    def denies(self, segments: Segments, is_folder: bool) -> bool:
        """Return whether the deny-list, or a pattern of the operator, covers a path."""
        return self._deny.covers_path(segments, is_folder)

    def rules_of(self, folder: Segments) -> FolderRules:
        """Return the rules of a folder, at most a second old."""
        self.fresh_until()
        cache = self._cache  # `forget` replaces the dictionary, so nothing older is put into the new one
        known = cache.get(folder)
        if known is not None:
            return known
        rules = self._cached(cache, (), None)
        for depth in range(1, min(len(folder), MAX_REMEMBERED_DEPTH) + 1):
            rules = self._cached(cache, folder[:depth], rules)
        return self._deeper(rules, folder[MAX_REMEMBERED_DEPTH:]) if len(folder) > MAX_REMEMBERED_DEPTH else rules

    def fresh_until(self) -> float:
        """Return the time, by `monotonic`, until which a verdict of now may be used."""
        now = monotonic()
        if now >= self._forget_at:
            # All at once, so that folders that are not read again are dropped.
            self.forget()
            self._forget_at = now + FRESH_S
        return self._forget_at

    def _deeper(self, rules: FolderRules, names: Segments) -> FolderRules:
        """Return the rules of a folder below a cached one; folders that do not exist are not searched for rules."""
        exists = True
        for number, name in enumerate(names):
            if exists and number % MAX_REMEMBERED_DEPTH == 0:
                exists = self._ignore.exists(rules.segments)
            rules = self.enter(rules, name, exists=exists)
        return rules

    def _cached(self, cache: RulesByFolder, folder: Segments, above: FolderRules | None) -> FolderRules:
        known = cache.get(folder)
        if known is not None:
            return known
        rules = self.top() if above is None else self.enter(above, folder[-1])
        if len(rules.path) <= MAX_REMEMBERED_LENGTH:
            if len(cache) >= MAX_CACHED_FOLDERS:
                cache.clear()
            cache[folder] = rules
        return rules

    def tracked(self) -> Hidden | None:
        """Return which hidden files git tracks now; None if that makes no difference."""
        return None if self._tracked is None else self._tracked.look()

    def forget(self) -> None:
        """Drop the cached rules, because an ignore file changed or they are a second old."""
        if self._tracked is not None:
            self._tracked.forget()
        self._cache = {}

    def is_ordinary(self, rules: FolderRules, name: str) -> bool:
        """Return whether a file is neither hidden, ignored nor denied, so that only its type can exclude it."""
        if name[0] == "." or (rules.chain and ignores(rules.chain, name, is_folder=False)):
            return False
        return not self._deny.covers(rules.segments, rules.path, name, is_folder=False)

    @property
    def type_message(self) -> str:
        """The message that a file type is not served, with the command that changes it."""
        wider = {"flutter": "code", "none": "code", "code": "all"}.get(self.preset)
        return REASONS["type"] + (f"; `{SET_PRESET} {wider}` serves it" if wider else "")

    def unusable_ignore_files(self) -> dict[Segments, str]:
        """Return the ignore files whose rules cannot be used, and why, as far as they were read."""
        return dict(self._ignore.unusable)

    def top(self) -> FolderRules:
        """Return the rules of the root, as they are now."""
        return FolderRules((), "", OPEN, False, self._ignore.top() if self._ignored != "show" else ())

    def enter(self, above: FolderRules, name: str, *, exists: bool = True) -> FolderRules:
        """Return the rules of a folder, as they are now, from those of the folder above it."""
        segments = (*above.segments, name)
        verdict = self.judge_child(above, name, is_folder=True)
        is_allowed = above.is_allowed or self._allows(above, name, is_folder=True)
        # In a refused folder the ignore rules make no difference, so its ignore file is not read.
        is_moot = self._ignored == "show" or bool(verdict.reason)
        chain = () if is_moot else self._ignore.enter(above.chain, segments) if exists else enter(above.chain, name)
        is_hidden = self._tracked is not None and (above.is_hidden or name[0] == ".")
        return FolderRules(segments, f"{above.path}{octets(name)}/", verdict, is_allowed, chain, is_hidden)

    def may_list_below(self, rules: FolderRules, name: str) -> bool:
        """Return whether anything below a folder may be listed: in a refused folder, `allow` may name something."""
        return self._lists_folder(rules, name, self._allow.may_match_below)

    def shows(self, rules: FolderRules, name: str) -> bool:
        """Return whether the folder above shows a folder: it is listed, or leads to allowed files."""
        return self._lists_folder(rules, name, self._allow.leads_through)

    def _lists_folder(self, rules: FolderRules, name: str, is_lifted: Callable[[str], bool]) -> bool:
        verdict = self.judge_child(rules, name, is_folder=True)
        if verdict.is_listed and not verdict.reason:
            return True
        return verdict.reason != "deny" and is_lifted(f"{rules.path}{octets(name)}/")

    def leads_to_allowed(self, folder: Segments, verdict: Verdict) -> bool:
        """Return whether a refused folder lies on the path to files that `allow` names."""
        if verdict.reason not in ("hidden", "ignored"):
            return False
        return self._allow.leads_through("".join(f"{octets(name)}/" for name in folder))

    def _judge_name(self, rules: FolderRules, name: str, *, is_folder: bool) -> Verdict:
        is_listed = True
        if name[0] == "." or rules.is_hidden:
            if self._hidden == "refuse":
                if self._tracked is None or not self._tracked.holds(rules.path, name, is_folder=is_folder):
                    return _HIDDEN
            else:
                is_listed = self._hidden == "show"
        if rules.chain and ignores(rules.chain, name, is_folder=is_folder):
            if self._ignored == "refuse":
                return _IGNORED
            is_listed = False
        verdict = OPEN if is_folder else self._by_type or _judge_flutter(name)
        return verdict if is_listed or verdict.reason else _join(_UNLISTED, verdict)

    def _allows(self, rules: FolderRules, name: str, *, is_folder: bool) -> bool:
        return bool(self._allow.decide(rules.path, octets(name), is_folder=is_folder))


def follow(verdict: Verdict, real: Verdict) -> Verdict:
    """Join the verdicts on a link and on its target: both must pass; the name of the link decides about listing."""
    if real.reason:
        return real
    return _join(verdict, _TEXT_ONLY) if real.needs_text else verdict


def _join(outer: Verdict, inner: Verdict) -> Verdict:
    """Join two verdicts: the first reason in `_ORDER` counts, and both must list the path."""
    if outer.reason or inner.reason:
        return outer if _ORDER[outer.reason] <= _ORDER[inner.reason] else inner
    if outer.is_listed and inner.is_listed:
        return _TEXT_ONLY if outer.needs_text or inner.needs_text else OPEN
    return _TEXT_UNLISTED if outer.needs_text or inner.needs_text else _UNLISTED


def _judge_flutter(name: str) -> Verdict:
    return OPEN if name.endswith(_FLUTTER_SUFFIXES) or name in _FLUTTER_NAMES else TYPE
