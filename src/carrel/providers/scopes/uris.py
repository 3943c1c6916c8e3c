"""What a `scopes://` URI asks for. The first thing that is wrong with it decides the answer."""

import re
from typing import Final, Literal

from carrel.core.errors import BadArgument, echo
from carrel.core.limits import MAX_URI_LENGTH
from carrel.core.record import Value
from carrel.core.uri import decode
from carrel.providers.scopes.scope_errors import ScopeError, invalid
from carrel.providers.scopes.tree_parameters import PARAMETERS, Wanted, parse_wanted
from carrel.providers.scopes.values import is_alias, normalise_alias

QUICK_REFERENCE: Final = "scopes://cli-quick-ref"
SCOPE: Final = "scopes://scope/{alias}"
TREE: Final = "scopes://tree/{alias}{?depth,skip,limit,max_nodes}"

_SHAPE: Final = re.compile(r"scopes://(?:(cli-quick-ref)|(scope|tree)/([^/?#]+))(?:\?([^#]*))?")
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f]")


class BadUri(ScopeError):
    """The URI has not the form of any of ours."""

    def __init__(self, uri: str) -> None:
        super().__init__("INVALID_ARGUMENT", f"Invalid URI: {echo(uri)}")


class Asked(Value, frozen=True, gc=False):
    """One of the three resources. The parameters are known ones, their values unread."""

    kind: Literal["cli-quick-ref", "scope", "tree"]
    text: str = ""
    parameters: tuple[tuple[str, str], ...] = ()

    def alias(self) -> str:
        """Give the alias that the text means, or refuse it."""
        alias = normalise_alias(self.text)
        if not is_alias(alias):
            raise ScopeError("INVALID_ALIAS", f"Invalid alias: {echo(self.text)}")
        return alias

    def wanted(self, ceiling: int) -> Wanted:
        """Give what of a tree is asked for, or refuse a value."""
        return parse_wanted(dict(self.parameters), ceiling)


def parse(uri: str) -> Asked:
    """Read a URI as it was sent."""
    shape = _SHAPE.fullmatch(uri) if len(uri) <= MAX_URI_LENGTH and not _CONTROL.search(uri) else None
    if shape is None:
        raise BadUri(uri)
    quick, word, segment, query = shape.groups()
    if query and word != "tree":
        raise BadUri(uri)
    try:
        text = _decode(segment or "")
        pieces = (piece.partition("=") for piece in (query or "").split("&") if piece)
        pairs = tuple((_decode(name), _decode(value)) for name, _, value in pieces)
    except BadArgument:
        raise BadUri(uri) from None
    if quick:
        return Asked("cli-quick-ref")
    if word == "scope":
        return Asked("scope", text)
    _check_names([name for name, _ in pairs])
    return Asked("tree", text, pairs)


def _decode(text: str) -> str:
    """Decode escapes; one of NUL is well formed, if never part of an alias."""
    return "\0".join(decode(part) for part in text.split("%00")) if "%" in text or not text.isascii() else text


def _check_names(names: list[str]) -> None:
    for place, name in enumerate(names):
        if name not in PARAMETERS:
            raise invalid(f"Invalid parameter: {echo(name)} (unknown)")
        if name in names[:place]:
            raise invalid(f"Invalid parameter: {name} (given twice)")
