"""Log URIs: their spellings, and the query for a part of a log. No log is read here."""

import re
from typing import Annotated, Final

from carrel.core.arguments import Argument, Arguments
from carrel.core.errors import BadArgument, Denied, echo
from carrel.core.model import Range
from carrel.core.record import Value
from carrel.core.uri import decode, quote, scheme_of, split_query
from carrel.providers.logs.rendering import Format
from carrel.providers.logs.ring import Stream

SCHEME: Final = "logs"
ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,95}")
QUERY: Final = "{?start,length,tail,since,stream,format}"

Count = Annotated[int, Argument(ge=0, le=10**15 - 1)]


class LogQuery(Value, frozen=True):
    """The requested part of a log: at most one of a byte range, `tail` and `since`."""

    start: Count | None = None
    length: Count | None = None
    tail: Annotated[int, Argument(ge=1, le=10**15 - 1, examples=[50])] | None = None
    since: Count | None = None
    stream: Stream | None = None
    format: Format = "text"

    @property
    def range(self) -> Range | None:
        """The requested byte range, if there is one."""
        return None if self.start is None and self.length is None else Range(self.start or 0, self.length)

    @property
    def is_part(self) -> bool:
        """Whether only the end or only the new lines are requested."""
        return self.tail is not None or self.since is not None


class FolderQuery(Value, frozen=True):
    """The name after which the listing of a folder continues."""

    after: str = ""


LOG_QUERY: Final = Arguments(LogQuery)
FOLDER_QUERY: Final = Arguments(FolderQuery)


def check_part(query: LogQuery, uri: str) -> None:
    """Raise for a query that asks for two parts."""
    given = [name for name in ("start", "length", "tail", "since") if getattr(query, name) is not None]
    if query.is_part and len(given) > 1:
        shown = f"{given[-1]}={getattr(query, given[-1])}"
        message = f"Invalid parameter: {shown} (expected only one of start/length, tail, since)"
        raise BadArgument(message, uri=uri, data={"parameter": given[-1]})


def canonical(uri: str) -> str:
    """Return `logs://<kind>/<id>` for any spelling, with the query as sent; raise for one that leads out."""
    scheme_of(uri)
    if "#" in uri:
        raise BadArgument(f"Invalid URI: {echo(uri)} (a log's URI has no #)", uri=uri, data={"parameter": "uri"})
    bare, query = split_query(uri)
    try:
        kind, *names = [decode(part) for part in _path(bare).split("/")]
    except BadArgument as error:
        raise BadArgument(error.message, uri=uri, data=error.data) from None
    _check_inside([kind, *names], uri)
    path = "/".join(quote(name) for name in (kind.lower(), *names))
    spelled = f"{SCHEME}://{path.removesuffix('/') if len(names) == 1 else path}"
    return spelled if query is None else f"{spelled}?{query}"


def canonical_prefix(prefix: str) -> str:
    """Return the canonical spelling of the beginning of a URI."""
    if not prefix.lower().startswith(f"{SCHEME}:"):
        return prefix
    path = _path(prefix)
    _check_inside(path.split("/"), prefix)
    return f"{SCHEME}://{path}"


def _check_inside(names: list[str], uri: str) -> None:
    """Refuse names that would leave the folder they stand in."""
    if any(name == ".." or "/" in name or "\\" in name for name in names):
        raise Denied(f"Access denied: {echo(uri)} (outside the logs)", reason="outside", uri=uri)


def _path(uri: str) -> str:
    """Return the text after the scheme and up to three slashes: some hosts and URL libraries drop slashes."""
    path = uri.partition(":")[2]
    for _ in range(3):
        path = path.removeprefix("/")
    return path
