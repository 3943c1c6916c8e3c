"""What a `scopes://` URI asks for. The first rule that it breaks decides the error."""

import re
from collections.abc import Iterable
from functools import cache
from typing import Annotated, Final, Literal

from carrel.core.arguments import Argument, Arguments, InvalidArguments, parse_integer
from carrel.core.errors import BadArgument, echo
from carrel.core.limits import MAX_URI_LENGTH
from carrel.core.record import Value
from carrel.core.uri import decode
from carrel.providers.scopes.scope_errors import ScopeError, invalid
from carrel.providers.scopes.values import check_alias

QUICK_REFERENCE: Final = "scopes://cli-quick-ref"
SCOPE: Final = "scopes://scope/{alias}"
TREE: Final = "scopes://tree/{alias}{?depth,skip,limit,max_nodes}"

MAX_DEPTH: Final = 5
MAX_SKIP: Final = 2_147_483_647
DEFAULT_NODES: Final = 1_000

_SHAPE: Final = re.compile(r"scopes://(?:(cli-quick-ref)|(scope|tree)/([^/?#]+))(?:\?([^#]*))?")
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f]")


class BadUri(ScopeError):
    """The URI does not have the form of any resource here."""

    def __init__(self, uri: str) -> None:
        super().__init__("INVALID_ARGUMENT", f"Invalid URI: {echo(uri)}")


class TreeQuery(Value, frozen=True, gc=False):
    """Which part of a tree is asked for. None stands for a parameter that was not given."""

    depth: int | None = None
    skip: Annotated[int, Argument(ge=0, le=MAX_SKIP)] | None = None
    limit: int | None = None
    max_nodes: int | None = None

    def text(self) -> str:
        """Return the query of a URI, in the order of the parameters."""
        given = [(name, getattr(self, name)) for name in self.__struct_fields__]
        query = "&".join(f"{name}={value}" for name, value in given if value is not None)
        return f"?{query}" if query else ""


class ScopesTarget(Value, frozen=True, gc=False):
    """One of the three kinds of resources."""

    kind: Literal["cli-quick-ref", "scope", "tree"]
    alias: str = ""
    query: TreeQuery = TreeQuery()


def parse(uri: str, ceiling: int) -> ScopesTarget:
    """Return what a URI asks for, where a tree has at most `ceiling` nodes."""
    shape = _SHAPE.fullmatch(uri) if len(uri) <= MAX_URI_LENGTH and not _CONTROL.search(uri) else None
    if shape is None or (shape[4] and shape[2] != "tree"):
        raise BadUri(uri)
    quick, kind, segment, query = shape.groups()
    try:
        text = _decode(segment or "")
        pieces = (piece.partition("=") for piece in (query or "").split("&") if piece)
        pairs = [(_decode(name), _decode(value)) for name, _, value in pieces]
    except BadArgument:
        raise BadUri(uri) from None
    if quick:
        return ScopesTarget("cli-quick-ref")
    if kind == "scope":
        return ScopesTarget("scope", check_alias(text))
    tree = parse_query(pairs, ceiling)  # first: a bad parameter counts before a bad alias
    return ScopesTarget("tree", check_alias(text), tree)


def parse_query(pairs: Iterable[tuple[str, str]], ceiling: int) -> TreeQuery:
    """Return the parameters of a tree: a depth is moved into its range, every other value must be in it."""
    given = [(name, str(_depth(value)) if name == "depth" else value) for name, value in pairs]
    try:
        return _parameters(ceiling).check_query(given) if given else TreeQuery()
    except InvalidArguments as error:
        first = error.problems[0]
        words = {"unknown": "unknown", "repeated": "given twice"}.get(first.fault)
        raise invalid(first.text if words is None else f"Invalid parameter: {echo(first.name)} ({words})") from None


@cache
def _parameters(ceiling: int) -> Arguments[TreeQuery]:
    count = Annotated[int, Argument(ge=1, le=ceiling)] | None
    return Arguments(TreeQuery, limit=count, max_nodes=count)


def _depth(text: str) -> int:
    number = parse_integer(text)
    return 1 if number is None else min(max(number, 1), MAX_DEPTH)


def _decode(text: str) -> str:
    """Decode escapes. An escaped NUL is well formed, although no alias has one."""
    return "\0".join(decode(part) for part in text.split("%00")) if "%" in text or not text.isascii() else text
