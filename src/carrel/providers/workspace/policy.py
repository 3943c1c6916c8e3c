"""What may be read: one answer for list, read, folder, completion, watch and search.

The deny-list always wins. Then hidden names, git's ignore rules, and the allowlist of
file types. `allow` lifts all of these but the deny-list. Only names are looked at here;
what needs the content (`code` serves any text) is decided on the open file.
"""

import re
import unicodedata
from collections.abc import Sequence
from fnmatch import translate
from typing import Final, Literal

from carrel.providers.workspace.ignore import Chain, IgnoreRules, Rules, Segments, ignores_child
from carrel.value import Value

Preset = Literal["auto", "flutter", "code", "all", "none"]
Treatment = Literal["show", "unlisted", "refuse"]

_DENIED_FILES: Final = (
    ".env .env.* *.pem *.key *.p12 *.pfx *.jks *.keystore *.kdbx *.ppk id_rsa* id_dsa* id_ecdsa* id_ed25519* "
    ".npmrc .yarnrc* .pypirc .netrc _netrc .pgpass .my.cnf .htpasswd .git-credentials key.properties "
    "*.tfstate* *.tfvars"
).split()
_CREDENTIALS: Final = "credentials"
_SOURCE_SUFFIXES: Final = tuple(
    ".dart .kt .kts .swift .m .mm .py .js .jsx .ts .tsx .go .rs .java .c .cc .cpp .h .cs .rb .php .lua".split()
)
_DENIED_FOLDERS: Final = frozenset(".git .hg .svn .ssh .gnupg .aws .azure .kube .carrel .sage".split())
_FLUTTER_SUFFIXES: Final = tuple(".dart .yaml .yml .gradle .kt .kts .swift .mm .m .xml .plist".split())
_FLUTTER_NAMES: Final = frozenset("pubspec.yaml analysis_options.yaml CMakeLists.txt Podfile Info.plist".split())

_is_denied_file: Final = re.compile("|".join(translate(pattern) for pattern in _DENIED_FILES)).fullmatch


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
        folded = _folded(name)
        if folded in _DENIED_FOLDERS or (not is_folder and _is_secret(folded)):
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


def _is_secret(folded: str) -> bool:
    if _is_denied_file(folded):
        return True
    return folded.startswith(_CREDENTIALS) and not folded.endswith(_SOURCE_SUFFIXES)


def _folded(name: str) -> str:
    """Give the name as the deny-list compares it: no look-alikes, no invisible characters, no case."""
    if name.isascii():
        return name.lower()
    plain = unicodedata.normalize("NFKC", name)
    visible = (one for one in plain if unicodedata.category(one) != "Cf" and not _is_variation_selector(one))
    return unicodedata.normalize("NFKC", "".join(visible).casefold())


def _is_variation_selector(character: str) -> bool:
    return "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"
