"""What may be read: one answer for list, read, folder, completion, watch and search.

The deny-list always wins. Then hidden names, git's ignore rules, and the allowlist of file
types. `allow` lifts all of these but the deny-list. Only names are looked at here; what needs
the content (`code` serves any text) is decided on the open file.
"""

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final, Literal

from carrel.core.errors import ConfigError
from carrel.core.limits import MAX_REMEMBERED_LENGTH
from carrel.core.record import Value
from carrel.files.gitignore import Chain, Rules, TooManyPatterns, ignores, octets
from carrel.files.secrets import Denial, holds_secrets
from carrel.providers.workspace.ignore_rules import IgnoreFiles, Segments, enter
from carrel.providers.workspace.paths import REASONS
from carrel.providers.workspace.tracked_files import Hidden, Tracked

Preset = Literal["auto", "flutter", "code", "all", "none"]
Treatment = Literal["show", "unlisted", "refuse"]

SET_PRESET: Final = "carrel config set workspace.preset"
"""The command that changes which types are served."""
FRESH_S: Final = 1.0
"""How long ignore rules hold for reads: as long as an answer may be kept by a client (`ttlMs`)."""
MAX_GROUNDS: Final = 4_096
MAX_REMEMBERED_DEPTH: Final = 32
"""What is deeper is worked out anew: a URI may have thousands of names, and remembering would cost their square."""

_FLUTTER_SUFFIXES: Final = tuple(".dart .yaml .yml .gradle .kt .kts .swift .mm .m .xml .plist".split())
_FLUTTER_NAMES: Final = frozenset("pubspec.yaml analysis_options.yaml CMakeLists.txt Podfile Info.plist".split())


class Verdict(Value, frozen=True):
    """What may be done with a path: refused with a reason, readable, listed too; or decided by content.

    `is_own` where the operator's own patterns deny it.
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


class Ground(Value, frozen=True):
    """What holds in a folder for all that lies there: its verdict, `allow`, the ignore rules.

    `way` leads there from the root, as octets, with a closing `/`.
    """

    segments: Segments
    way: str
    verdict: Verdict
    is_allowed: bool
    chain: Chain
    is_hidden: bool = False
    """Whether it, or a folder above it, is hidden, and only what git tracks is served in it."""

    @property
    def own(self) -> "Ground":
        """Give the same as seen by who reads this folder by name: what is not listed is listed here.

        A folder that is refused, and only leads to what is allowed, shows no more than that.
        """
        is_same = self.verdict is OPEN or bool(self.verdict.reason)
        return self if is_same else Ground(self.segments, self.way, OPEN, self.is_allowed, self.chain, self.is_hidden)


Grounds = dict[Segments, Ground]


class Policy:
    """The rules of one root."""

    def __init__(
        self,
        preset: Preset,
        ignore: IgnoreFiles,
        *,
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        hidden: Treatment | None = None,
        ignored: Treatment | None = None,
        tracked: Tracked | None = None,
    ) -> None:
        self.preset = preset
        # What the user says of hidden files holds for those that git tracks, too.
        self._tracked = tracked if hidden is None and preset in ("code", "all") else None
        self._ignore = ignore
        ignore.on_full = self.forget
        self._allow = _rules_of(allow)
        self._deny = Denial(deny)
        self._hidden: Treatment = hidden or ("unlisted" if preset == "flutter" else "refuse")
        self._ignored: Treatment = ignored or ("unlisted" if preset == "flutter" else "refuse")
        self._judge_type: Callable[[str], Verdict] = {"code": _any_text, "all": _anything, "flutter": _flutter}.get(
            preset, _nothing
        )
        self._grounds: Grounds = {}
        self._forget_at = 0.0

    def judge(self, segments: Segments, *, is_folder: bool) -> Verdict:
        """Decide by the path alone, the same whether or not anything is there."""
        if not segments:
            return OPEN
        return self.judge_child(self.ground(segments[:-1]), segments[-1], is_folder=is_folder)

    def judge_child(self, ground: Ground, name: str, *, is_folder: bool) -> Verdict:
        """Decide by one name in a folder, and by what holds there."""
        above = ground.verdict
        if above.reason == "deny":
            return above
        if self._deny.covers(ground.segments, ground.way, name, is_folder=is_folder):
            return _DENIED if holds_secrets(ground.segments, name, is_folder=is_folder) else _DENIED_BY_OWN
        own = self._judge_name(ground, name, is_folder=is_folder)
        verdict = own if above is OPEN else _join(above, own)
        if verdict is OPEN or not self._allow:
            return verdict
        return OPEN if ground.is_allowed or self._allows(ground, name, is_folder=is_folder) else verdict

    def denies(self, segments: Segments, is_folder: bool) -> bool:
        """Return whether the deny-list, or a pattern of the operator's, covers a path."""
        return self._deny.covers_path(segments, is_folder)

    def ground(self, folder: Segments) -> Ground:
        """Give what holds in a folder, at most a second old."""
        self.fresh_until()
        grounds = self._grounds  # what is forgotten meanwhile is not remembered by who looked before
        known = grounds.get(folder)
        if known is not None:
            return known
        ground = self._remembered(grounds, (), None)
        for depth in range(1, min(len(folder), MAX_REMEMBERED_DEPTH) + 1):
            ground = self._remembered(grounds, folder[:depth], ground)
        return self._deeper(ground, folder[MAX_REMEMBERED_DEPTH:]) if len(folder) > MAX_REMEMBERED_DEPTH else ground

    def fresh_until(self) -> float:
        """Return until when a verdict that is asked for now may be used, as `monotonic` counts."""
        now = monotonic()
        if now >= self._forget_at:
            # All at once: folders that nobody asks about again do not stay.
            self.forget()
            self._forget_at = now + FRESH_S
        return self._forget_at

    def _deeper(self, ground: Ground, names: Segments) -> Ground:
        """Go on from a remembered folder; what does not exist has no rules of its own, however long its name."""
        exists = True
        for number, name in enumerate(names):
            if exists and number % MAX_REMEMBERED_DEPTH == 0:
                exists = self._ignore.exists(ground.segments)
            ground = self.enter(ground, name, exists=exists)
        return ground

    def _remembered(self, grounds: Grounds, folder: Segments, above: Ground | None) -> Ground:
        known = grounds.get(folder)
        if known is not None:
            return known
        ground = self.top() if above is None else self.enter(above, folder[-1])
        if len(ground.way) <= MAX_REMEMBERED_LENGTH:
            if len(grounds) >= MAX_GROUNDS:
                grounds.clear()
            grounds[folder] = ground
        return ground

    def tracked(self) -> Hidden | None:
        """Return which hidden files git tracks now; None where that makes no difference."""
        return None if self._tracked is None else self._tracked.look()

    def forget(self) -> None:
        """Look anew at what holds where, and at what git tracks: an ignore file changed, or it is a second old."""
        if self._tracked is not None:
            self._tracked.forget()
        self._grounds = {}

    def is_ordinary(self, ground: Ground, name: str) -> bool:
        """Return whether a file is neither hidden, ignored nor denied, so that only its type can leave it out."""
        if name[0] == "." or (ground.chain and ignores(ground.chain, name, is_folder=False)):
            return False
        return not self._deny.covers(ground.segments, ground.way, name, is_folder=False)

    @property
    def type_told(self) -> str:
        """Say that a file's type is not served, and the command that changes it."""
        wider = {"flutter": "code", "none": "code", "code": "all"}.get(self.preset)
        return REASONS["type"] + (f"; `{SET_PRESET} {wider}` serves it" if wider else "")

    def unusable_ignore_files(self) -> dict[Segments, str]:
        """Return the ignore files whose rules cannot be honoured, and why, as far as they were met."""
        return dict(self._ignore.unusable)

    def top(self) -> Ground:
        """Give what holds in the root, now."""
        return Ground((), "", OPEN, False, self._ignore.top() if self._ignored != "show" else ())

    def enter(self, above: Ground, name: str, *, exists: bool = True) -> Ground:
        """Give what holds in a folder, now, from what holds in the one above it."""
        segments = (*above.segments, name)
        verdict = self.judge_child(above, name, is_folder=True)
        is_allowed = above.is_allowed or self._allows(above, name, is_folder=True)
        # Below a refused folder nothing can be ignored any further: its own rules are not even read.
        is_moot = self._ignored == "show" or bool(verdict.reason)
        chain = () if is_moot else self._ignore.enter(above.chain, segments) if exists else enter(above.chain, name)
        is_hidden = self._tracked is not None and (above.is_hidden or name[0] == ".")
        return Ground(segments, f"{above.way}{octets(name)}/", verdict, is_allowed, chain, is_hidden)

    def may_list_below(self, ground: Ground, name: str, verdict: Verdict) -> bool:
        """Tell whether anything below a folder may be listed: where it is not, `allow` may still name something."""
        if verdict.is_listed and not verdict.reason:
            return True
        return verdict.reason != "deny" and self._allow.may_match_below(f"{ground.way}{octets(name)}/")

    def shows(self, ground: Ground, name: str, verdict: Verdict) -> bool:
        """Tell whether a folder is shown where it lies: because nothing speaks against it, or for what it leads to."""
        if verdict.is_listed and not verdict.reason:
            return True
        return verdict.reason != "deny" and self._allow.leads_through(f"{ground.way}{octets(name)}/")

    def leads_to_allowed(self, folder: Segments, verdict: Verdict) -> bool:
        """Tell whether a folder that is refused lies on the way to what `allow` names."""
        if verdict.reason not in ("hidden", "ignored"):
            return False
        return self._allow.leads_through("".join(f"{octets(name)}/" for name in folder))

    def _judge_name(self, ground: Ground, name: str, *, is_folder: bool) -> Verdict:
        is_listed = True
        if name[0] == "." or ground.is_hidden:
            if self._hidden == "refuse":
                if self._tracked is None or not self._tracked.holds(ground.way, name, is_folder=is_folder):
                    return _HIDDEN
            else:
                is_listed = self._hidden == "show"
        if ground.chain and ignores(ground.chain, name, is_folder=is_folder):
            if self._ignored == "refuse":
                return _IGNORED
            is_listed = False
        verdict = OPEN if is_folder else self._judge_type(name)
        return verdict if is_listed or verdict.reason else _join(_UNLISTED, verdict)

    def _allows(self, ground: Ground, name: str, *, is_folder: bool) -> bool:
        return bool(self._allow.decide(ground.way, octets(name), is_folder=is_folder))


def _rules_of(allow: Sequence[str]) -> Rules:
    try:
        return Rules.of(map(octets, allow))
    except TooManyPatterns as error:
        raise ConfigError(f"[workspace] allow: there are {error}") from None


def follow(verdict: Verdict, real: Verdict) -> Verdict:
    """Join what holds for a link's name with what holds where it leads: both must pass; its own name is listed."""
    if real.reason:
        return real
    return _join(verdict, _TEXT_ONLY) if real.needs_text else verdict


def _join(outer: Verdict, inner: Verdict) -> Verdict:
    """Join two verdicts: the first reason in order stays, and what one does not list is not listed."""
    if outer.reason or inner.reason:
        return outer if _ORDER[outer.reason] <= _ORDER[inner.reason] else inner
    if outer.is_listed and inner.is_listed:
        return _TEXT_ONLY if outer.needs_text or inner.needs_text else OPEN
    return _TEXT_UNLISTED if outer.needs_text or inner.needs_text else _UNLISTED


def _anything(_: str) -> Verdict:
    return OPEN


def _any_text(_: str) -> Verdict:
    return _TEXT_ONLY


def _flutter(name: str) -> Verdict:
    return OPEN if name.endswith(_FLUTTER_SUFFIXES) or name in _FLUTTER_NAMES else TYPE


def _nothing(_: str) -> Verdict:
    return TYPE
