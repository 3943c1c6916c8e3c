"""What is never opened for anybody, whatever else is allowed: names of secrets, and patterns the operator denies.

One list for every provider that opens project files. Only names are looked at.
"""

import re
import unicodedata
from collections.abc import Sequence
from fnmatch import translate
from typing import Final, Self

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

_is_denied_file: Final = re.compile("|".join(translate(pattern) for pattern in _DENIED_FILES)).fullmatch


class Rules:
    """Patterns in git-ignore syntax, relative to one folder."""

    def __init__(self, patterns: Sequence[tuple[bool, str]]) -> None:
        self._is_plain = all(is_included for is_included, _ in patterns)
        self._any = re.compile("|".join(f"(?:{regex})" for _, regex in patterns)).match if patterns else None
        self._each = [(is_included, re.compile(regex).match) for is_included, regex in reversed(patterns)]

    @classmethod
    def of(cls, lines: Sequence[str]) -> Self:
        """Compile lines of an ignore file."""
        if not any(line.strip() and not line.startswith("#") for line in lines):
            return cls(())
        from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern  # costs as much as a whole start

        compiled = (GitIgnoreSpecPattern(line.rstrip("\r\n")) for line in lines)
        # Its groups have names, which cannot stand twice in one joined pattern.
        return cls(
            [(bool(one.include), re.sub(r"\(\?P<\w+>", "(?:", one.regex.pattern)) for one in compiled if one.regex]
        )

    def __bool__(self) -> bool:
        return self._any is not None

    def decide(self, path: str) -> bool | None:
        """Tell whether the last pattern that matches includes the path; folders end with `/`."""
        if self._any is None or not self._any(path):
            return None
        if self._is_plain:
            return True
        return next(is_included for is_included, match in self._each if match(path))

    def matches_path(self, segments: Sequence[str], *, is_folder: bool) -> bool:
        """Tell whether the path, or a folder above it, is included."""
        path = ""
        for number, name in enumerate(segments, 1):
            path += name if number == len(segments) and not is_folder else f"{name}/"
            if self.decide(path):
                return True
        return False


def is_denied(name: str, *, is_folder: bool) -> bool:
    """Tell whether a name is that of a secret, or of a folder that holds some."""
    folded = _folded(name)
    return folded in _DENIED_FOLDERS or (not is_folder and _is_secret(folded))


def denies_path(segments: Sequence[str], deny: Rules) -> bool:
    """Tell whether a file may not be opened, by any part of its path."""
    last = len(segments) - 1
    return any(is_denied(name, is_folder=at != last) for at, name in enumerate(segments)) or (
        bool(deny) and deny.matches_path(segments, is_folder=False)
    )


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
