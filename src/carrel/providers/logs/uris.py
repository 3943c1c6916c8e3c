"""Log URIs: which log, or which folder of logs, and what of it is asked for. Nothing here touches a log."""

import re
from typing import Any, Final, Literal, get_args

from carrel.core.content import parse_number
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

_LOG_KEYS: Final = ("start", "length", "tail", "since", "stream", "format")
_FOLDER_KEYS: Final = ("after",)
_CHOICES: Final[dict[str, tuple[str, ...]]] = {"stream": get_args(Stream), "format": get_args(Format)}


class Asked(Value, frozen=True):
    """What of a log is asked for: at most one of `range`, `tail` and `since`."""

    range: Range | None = None
    tail: int | None = None
    since: int | None = None
    stream: Stream | None = None
    format: Format = "text"


class Target(Value, frozen=True):
    """What a URI means: a log, a folder of them, or, without a kind, the folder of the two folders."""

    uri: str
    kind: Kind | None = None
    id: str | None = None
    query: tuple[tuple[str, str], ...] = ()

    def asked(self) -> Asked:
        """Read what of a log is asked for."""
        query = _checked(self, _LOG_KEYS)
        ways = [way for way in (("start", "length"), ("tail",), ("since",)) if any(key in query for key in way)]
        if len(ways) > 1:
            raise _invalid(
                self,
                ways[1][0],
                query[next(key for key in ways[1] if key in query)],
                "expected only one of start/length, tail, since",
            )
        numbers = {key: _number(self, key, query[key]) for key in ("start", "length", "tail", "since") if key in query}
        if numbers.get("tail") == 0:
            raise _invalid(self, "tail", "0", "expected a whole number, 1 or more")
        is_range = "start" in numbers or "length" in numbers
        return Asked(
            range=Range(numbers.get("start", 0), numbers.get("length")) if is_range else None,
            tail=numbers.get("tail"),
            since=numbers.get("since"),
            stream=_choice(self, query, "stream"),
            format=_choice(self, query, "format") or "text",
        )

    def after(self) -> str:
        """Read where a folder's listing goes on."""
        return _checked(self, _FOLDER_KEYS).get("after", "")


def parse(uri: str) -> Target:
    """Read a URI as far as it can be read without knowing which logs there are."""
    scheme_of(uri)
    if "#" in uri:
        raise BadArgument(f"Invalid URI: {echo(uri)} (no # stands in a log's URI)", uri=uri, data={"parameter": "uri"})
    bare, query = split_query(uri)
    try:
        names = [decode(part) for part in _path(bare).split("/")]
        asked = tuple(pairs(query)) if query else ()
    except BadArgument as error:
        raise BadArgument(error.message, uri=uri, data=error.data) from None
    if is_outside(names):
        raise denied(uri)
    if names == [""]:
        return Target(uri, query=asked)
    kind = next((kind for kind in KINDS if kind == names[0].lower()), None)
    if kind is None or len(names) > 2:
        raise NotFound(uri)
    name = names[1] if len(names) == 2 else ""
    if name and not ID.fullmatch(name):
        raise NotFound(uri)
    return Target(uri, kind, name or None, asked)


def canonical_prefix(prefix: str) -> str:
    """Give the beginning of canonical URIs that a spelled beginning means."""
    if not prefix.lower().startswith(f"{SCHEME}:"):
        return prefix
    path = _path(prefix)
    if is_outside(path.split("/")):
        raise denied(prefix)
    return f"{SCHEME}://{path}"


def is_outside(names: list[str]) -> bool:
    """Tell whether names would leave the folder they stand in."""
    return any(name == ".." or "/" in name or "\\" in name for name in names)


def denied(uri: str) -> Denied:
    """Refuse a URI that would leave the logs."""
    return Denied(f"Access denied: {echo(uri)} (outside the logs)", reason="outside", uri=uri)


def _path(uri: str) -> str:
    """Give what follows the scheme and up to three slashes: hosts and URL libraries drop some."""
    path = uri.partition(":")[2]
    for _ in range(3):
        path = path.removeprefix("/")
    return path


def _checked(target: Target, known: tuple[str, ...]) -> dict[str, str]:
    query: dict[str, str] = {}
    for name, value in target.query:
        if name not in known:
            raise _invalid(target, name, value, f"known here: {', '.join(known)}")
        if name in query:
            raise _invalid(target, name, value, "given twice")
        query[name] = value
    return query


def _number(target: Target, name: str, value: str) -> int:
    try:
        return parse_number(name, value)
    except BadArgument as error:
        raise BadArgument(error.message, uri=target.uri, data=error.data) from None


def _choice(target: Target, query: dict[str, str], name: Literal["stream", "format"]) -> Any:
    value = query.get(name)
    if value is not None and value not in _CHOICES[name]:
        raise _invalid(target, name, value, f"expected {' or '.join(_CHOICES[name])}")
    return value


def _invalid(target: Target, name: str, value: str, why: str) -> BadArgument:
    message = f"Invalid parameter: {echo(name)}={echo(value)} ({why})"
    return BadArgument(message, uri=target.uri, data={"parameter": name})
