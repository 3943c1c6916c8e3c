"""Log URIs: a log or a folder of logs, and the part of it that is asked for. Nothing here touches a log."""

import re
from typing import Annotated, Final

from carrel.core.arguments import Argument, Arguments
from carrel.core.errors import BadArgument, Denied, NotFound, echo
from carrel.core.model import Range
from carrel.core.record import Value
from carrel.core.uri import decode, pairs, scheme_of, split_query
from carrel.providers.logs.log import KINDS, Kind
from carrel.providers.logs.rendering import Format
from carrel.providers.logs.ring import Stream

SCHEME: Final = "logs"
ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,95}")
QUERY: Final = "{?start,length,tail,since,stream,format}"

Count = Annotated[int, Argument(ge=0, le=10**15 - 1)]


class LogQuery(Value, frozen=True):
    """The part of a log that is asked for: at most one of a byte range, `tail` and `since`."""

    start: Count | None = None
    length: Count | None = None
    tail: Annotated[int, Argument(ge=1, le=10**15 - 1, examples=[50])] | None = None
    since: Count | None = None
    stream: Stream | None = None
    format: Format = "text"

    @property
    def range(self) -> Range | None:
        """The byte range, if one is asked for."""
        return None if self.start is None and self.length is None else Range(self.start or 0, self.length)

    @property
    def is_part(self) -> bool:
        """Whether only the end is asked for, or only what is new."""
        return self.tail is not None or self.since is not None


class FolderQuery(Value, frozen=True):
    """Where the listing of a folder goes on: after this name."""

    after: str = ""


LOG_QUERY: Final = Arguments(LogQuery)
FOLDER_QUERY: Final = Arguments(FolderQuery)


class LogTarget(Value, frozen=True):
    """What a URI means: a log, a folder of logs, or, without a kind, the folder of the two folders."""

    uri: str
    kind: Kind | None = None
    id: str | None = None
    pairs: tuple[tuple[str, str], ...] = ()

    def log_query(self) -> LogQuery:
        """Return which part of a log is asked for."""
        query = LOG_QUERY.check_query(self.pairs, self.uri) if self.pairs else LogQuery()
        given = [name for name in ("start", "length", "tail", "since") if getattr(query, name) is not None]
        if query.is_part and len(given) > 1:
            shown = f"{given[-1]}={getattr(query, given[-1])}"
            message = f"Invalid parameter: {shown} (expected only one of start/length, tail, since)"
            raise BadArgument(message, uri=self.uri, data={"parameter": given[-1]})
        return query

    def after(self) -> str:
        """Return where the listing of a folder goes on."""
        return FOLDER_QUERY.check_query(self.pairs, self.uri).after


def parse(uri: str) -> LogTarget:
    """Return what a URI means; which logs exist is not known here."""
    scheme_of(uri)
    if "#" in uri:
        raise BadArgument(f"Invalid URI: {echo(uri)} (a log's URI has no #)", uri=uri, data={"parameter": "uri"})
    bare, query = split_query(uri)
    try:
        names = [decode(part) for part in _path(bare).split("/")]
        given = tuple(pairs(query)) if query else ()
    except BadArgument as error:
        raise BadArgument(error.message, uri=uri, data=error.data) from None
    _check_inside(names, uri)
    if names == [""]:
        return LogTarget(uri, pairs=given)
    kind = next((kind for kind in KINDS if kind == names[0].lower()), None)
    name = names[1] if len(names) == 2 else ""
    if kind is None or len(names) > 2 or (name and not ID.fullmatch(name)):
        raise NotFound(uri)
    return LogTarget(uri, kind, name or None, given)


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
    """Return what follows the scheme and up to three slashes: some hosts and URL libraries drop slashes."""
    path = uri.partition(":")[2]
    for _ in range(3):
        path = path.removeprefix("/")
    return path
