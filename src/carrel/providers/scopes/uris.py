"""The form of a `scopes://` URI, and the query of a tree. The first rule that is broken decides the error."""

import re
from typing import Annotated, Final

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

_SHAPE: Final = re.compile(r"scopes://(?:cli-quick-ref|(?:scope|tree)/([^/?#]+))(?:\?[^#]*)?")
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f]")
_NUL: Final = "%00"


class BadUri(ScopeError):
    """The URI does not have the form of any resource here."""

    def __init__(self, uri: str, allowed: str = "") -> None:
        super().__init__("INVALID_ARGUMENT", f"Invalid URI: {echo(uri)}{f' ({allowed})' if allowed else ''}")


class TreeQuery(Value, frozen=True, gc=False):
    """The requested part of a tree. None stands for a parameter that was not given."""

    depth: int | str | None = None
    skip: Annotated[int, Argument(ge=0, le=MAX_SKIP)] | None = None
    limit: int | None = None
    max_nodes: int | None = None

    @property
    def levels(self) -> int | None:
        """The depth, moved into its range; every other value must be in it."""
        if self.depth is None:
            return None
        number = parse_integer(str(self.depth))
        return 1 if number is None else min(max(number, 1), MAX_DEPTH)

    def text(self) -> str:
        """Return the query of a URI, in the order of the parameters."""
        given = {"depth": self.levels, "skip": self.skip, "limit": self.limit, "max_nodes": self.max_nodes}
        query = "&".join(f"{name}={value}" for name, value in given.items() if value is not None)
        return f"?{query}" if query else ""


def check(uri: str) -> None:
    """Raise `BadUri` for a URI that does not have the form of a resource, in the words of the documents."""
    shape = _SHAPE.fullmatch(uri) if len(uri) <= MAX_URI_LENGTH and not _CONTROL.search(uri) else None
    if shape is None:
        raise BadUri(uri)
    if shape[1] and _NUL in shape[1]:  # well formed, although no alias has one
        try:
            check_alias("\0".join(decode(part) for part in shape[1].split(_NUL)))
        except BadArgument:
            raise BadUri(uri) from None


def parameters(ceiling: int) -> Arguments[TreeQuery]:
    """Return the parameters of a tree that has at most `ceiling` nodes."""
    count = Annotated[int, Argument(ge=1, le=ceiling)] | None
    return Arguments(TreeQuery, limit=count, max_nodes=count)


def bad_query(error: InvalidArguments) -> ScopeError:
    """Return the error for a query, which names only its first problem."""
    first = error.problems[0]
    words = {"unknown": f"unknown; {first.expected}", "repeated": "given twice"}.get(first.fault)
    return invalid(first.text if words is None else f"Invalid parameter: {echo(first.name)} ({words})")
