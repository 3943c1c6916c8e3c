"""What may be read: one answer for list, read, folder, completion, watch and search.

The deny-list always wins. Then hidden names, git's ignore rules, and the allowlist of
file types. `allow` lifts all of these but the deny-list. Only names are looked at here;
what needs the content (`code` serves any text) is decided on the open file.
"""

from collections.abc import Sequence
from typing import Final, Literal

from carrel.denial import Rules, is_denied
from carrel.providers.workspace.ignore import Chain, IgnoreRules, Segments, ignores_child
from carrel.value import Value

Preset = Literal["auto", "flutter", "code", "all", "none"]
Treatment = Literal["show", "unlisted", "refuse"]

_FLUTTER_SUFFIXES: Final = tuple(".dart .yaml .yml .gradle .kt .kts .swift .mm .m .xml .plist".split())
_FLUTTER_NAMES: Final = frozenset("pubspec.yaml analysis_options.yaml CMakeLists.txt Podfile Info.plist".split())


class Verdict(Value, frozen=True):
    """What may be done with a path: refused with a reason, readable, listed too; or decided by content."""

    reason: str = ""
    is_listed: bool = True
    needs_text: bool = False


OPEN: Final = Verdict()
_ORDER: Final = {"deny": 0, "hidden": 1, "ignored": 2, "type": 3, "": 4}
_DENIED: Final = Verdict("deny")
_HIDDEN: Final = Verdict("hidden")
_IGNORED: Final = Verdict("ignored")
_TYPE: Final = Verdict("type")
_UNLISTED: Final = Verdict(is_listed=False)
_TEXT_ONLY: Final = Verdict(needs_text=True)
_TEXT_UNLISTED: Final = Verdict(is_listed=False, needs_text=True)


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
    ) -> None:
        self.preset = preset
        self.ignore = ignore
        self.allow = Rules.of(allow)
        self._deny = Rules.of(deny)
        self._hidden: Treatment = hidden or ("unlisted" if preset == "flutter" else "refuse")
        self._ignored: Treatment = ignored or ("unlisted" if preset == "flutter" else "refuse")

    def judge(self, segments: Segments, *, is_folder: bool) -> Verdict:
        """Decide by the path alone, the same whether or not anything is there."""
        verdict = OPEN
        for number, name in enumerate(segments, 1):
            is_last = number == len(segments)
            own = self.judge_child(segments[: number - 1], name, is_folder=is_folder or not is_last)
            verdict = _join(verdict, own)
            if verdict.reason == "deny":
                return verdict
        if verdict is not OPEN and self.is_allowed(segments, is_folder=is_folder):
            return OPEN
        return verdict

    def judge_child(self, folder: Segments, name: str, *, is_folder: bool, chain: Chain | None = None) -> Verdict:
        """Decide by one name in a folder; `chain` are the ignore rules there, if they are known."""
        if is_denied(name, is_folder=is_folder):
            return _DENIED
        if self._deny and self._deny.matches_path((*folder, name), is_folder=is_folder):
            return _DENIED
        is_listed = True
        if name[0] == ".":
            if self._hidden == "refuse":
                return _HIDDEN
            is_listed = self._hidden == "show"
        if self._ignored != "show":
            rules = self.ignore.chain(folder) if chain is None else chain
            if rules and ignores_child(rules, name, is_folder=is_folder):
                if self._ignored == "refuse":
                    return _IGNORED
                is_listed = False
        if is_folder:
            return OPEN if is_listed else _UNLISTED
        return self._judge_type(name, is_listed=is_listed)

    def is_allowed(self, segments: Segments, *, is_folder: bool) -> bool:
        """Tell whether the operator's `allow` names this path: it lifts all but the deny-list."""
        return bool(self.allow) and self.allow.matches_path(segments, is_folder=is_folder)

    def _judge_type(self, name: str, *, is_listed: bool) -> Verdict:
        if self.preset == "code":
            return _TEXT_ONLY if is_listed else _TEXT_UNLISTED
        if self.preset == "all" or (
            self.preset == "flutter" and (name.endswith(_FLUTTER_SUFFIXES) or name in _FLUTTER_NAMES)
        ):
            return OPEN if is_listed else _UNLISTED
        return _TYPE


def _join(outer: Verdict, inner: Verdict) -> Verdict:
    """Join what holds for a folder with what holds for a name in it: the first reason in order stays."""
    if outer is OPEN:
        return inner
    if outer.reason or inner.reason:
        return outer if _ORDER[outer.reason] <= _ORDER[inner.reason] else inner
    return _TEXT_UNLISTED if inner.needs_text else _UNLISTED
