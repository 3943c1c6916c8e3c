"""What is never opened for anybody, whatever else is allowed: names of secrets, and what the operator denies.

One list for every provider that opens project files. Only names are looked at.
"""

import unicodedata
from collections.abc import Sequence
from typing import Final

from carrel.patterns import Rules, octets

_SECRET_NAMES: Final = frozenset(
    ".env .npmrc .pypirc .netrc _netrc .pgpass .my.cnf .htpasswd .git-credentials key.properties".split()
)
_SECRET_STARTS: Final = tuple(".env. id_rsa id_dsa id_ecdsa id_ed25519 .yarnrc".split())
_SECRET_ENDS: Final = tuple(".pem .key .p12 .pfx .jks .keystore .kdbx .ppk .tfvars".split())
_SECRET_PART: Final = ".tfstate"
_CREDENTIALS: Final = "credentials"
_SOURCE_SUFFIXES: Final = tuple(
    ".dart .kt .kts .swift .m .mm .py .js .jsx .ts .tsx .go .rs .java .c .cc .cpp .h .cs .rb .php .lua".split()
)
_DENIED_FOLDERS: Final = frozenset(".git .hg .svn .ssh .gnupg .aws .azure .kube .carrel .sage".split())


class Denial:
    """The deny-list, with the patterns the operator added."""

    def __init__(self, deny: Sequence[str] = ()) -> None:
        # The deny-list knows look-alikes, so what the operator adds is compared both ways.
        self._rules = (Rules.of(map(octets, deny)), Rules.of(octets(_folded(line)) for line in deny)) if deny else None

    def covers(self, above: Sequence[str], way: str, name: str, *, is_folder: bool) -> bool:
        """Tell whether a name is denied; `above` are the folders it lies in, `way` the same as octets with a `/`."""
        if holds_secrets(name, is_folder=is_folder):
            return True
        if self._rules is None:
            return False
        exactly, loosely = self._rules
        folded = _folded(name)
        alike = "".join(f"{octets(_folded(folder))}/" for folder in above)
        return bool(
            exactly.decide(way, octets(name), is_folder=is_folder)
            or loosely.decide(alike, octets(folded), is_folder=is_folder)
        )

    def covers_path(self, segments: Sequence[str], is_folder: bool) -> bool:
        """Return whether a file or folder is denied, by its name or by that of a folder above it."""
        way, last = "", len(segments) - 1
        for at, name in enumerate(segments):
            if self.covers(segments[:at], way, name, is_folder=is_folder or at != last):
                return True
            way += f"{octets(name)}/"
        return False


def holds_secrets(name: str, *, is_folder: bool) -> bool:
    """Tell whether a name is on the list that holds for everybody."""
    folded = _folded(name)
    return folded in _DENIED_FOLDERS or (not is_folder and _is_secret(folded))


def _is_secret(folded: str) -> bool:
    if folded in _SECRET_NAMES or folded.endswith(_SECRET_ENDS) or folded.startswith(_SECRET_STARTS):
        return True
    is_credentials = folded.startswith(_CREDENTIALS) and not folded.endswith(_SOURCE_SUFFIXES)
    return is_credentials or _SECRET_PART in folded


def _folded(name: str) -> str:
    """Give the name as the deny-list compares it: no look-alikes, no invisible characters, no case."""
    if name.isascii():
        return name.lower()
    plain = unicodedata.normalize("NFKC", name)
    visible = (one for one in plain if unicodedata.category(one) != "Cf" and not _is_variation_selector(one))
    return unicodedata.normalize("NFKC", "".join(visible).casefold())


def _is_variation_selector(character: str) -> bool:
    return (
        "\ufe00" <= character <= "\ufe0f"
        or "\U000e0100" <= character <= "\U000e01ef"
        or character in "\u180b\u180c\u180d\u180f"
    )
