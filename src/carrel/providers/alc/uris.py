"""The grammar of `alc://`: ten checks in a fixed order, of which the first that fails decides the error.

Nothing is percent-decoded and nothing goes through a URL class: an id is what it looks like. What
passes is a `Target`; only then is a file looked for.
"""

import re
from collections.abc import Mapping
from typing import Final, Literal, NoReturn

from carrel.core.errors import BadArgument, NotFound, TooLarge, echo
from carrel.core.limits import MAX_URI_LENGTH
from carrel.core.record import Value

SCHEME: Final = "alc"
PREFIX: Final = "alc://"
INVALID_PARAMS: Final = -32602
"""What alc answers in both eras where a client is to blame, also for what is not found."""

Kind = Literal["types", "init", "meta", "narrative", "card", "samples", "scenario", "eval", "log", "index"]
EvalIds = Literal["strict", "relaxed"]

RELAX: Final = 'strategies with _ in their names need eval_ids = "relaxed" in [alc]'
"""What to do about results that the page's strict pattern shuts out, which is about half of the real ones."""
SERVICES: Final = frozenset({"types", "packages", "cards", "scenarios", "eval", "logs", "hub"})
TYPE_STUBS: Final = ("alc.d.lua", "alc_shapes.d.lua")

_ID: Final = re.compile(r"[A-Za-z0-9_.-]+")
_DIGITS: Final = re.compile(r"\+?[0-9]+")
_STRICT: Final = re.compile(r"[A-Za-z0-9-]+_[0-9]+")
_RELAXED: Final = re.compile(r"[A-Za-z0-9-](?:[A-Za-z0-9_-]*[A-Za-z0-9-])?_[0-9]+")
_COMPARISON: Final = re.compile(r"compare_.+_[0-9]+_vs_.+")
_MAX_DIGITS: Final = 20
_MAX_NUMBER: Final = 2**64 - 1

_SHAPES: Final[Mapping[tuple[str, ...], Kind]] = {
    ("types", "{id}"): "types",
    ("packages", "{id}", "init.lua"): "init",
    ("packages", "{id}", "meta"): "meta",
    ("packages", "{id}", "narrative"): "narrative",
    ("cards", "{id}"): "card",
    ("cards", "{id}", "samples"): "samples",
    ("scenarios", "{id}"): "scenario",
    ("eval", "{id}"): "eval",
    ("logs", "{id}"): "log",
    ("hub", "index"): "index",
}
_ID_NAMES: Final[Mapping[Kind, str]] = {
    "init": "package name",
    "meta": "package name",
    "narrative": "package name",
    "card": "card_id",
    "samples": "card_id",
    "scenario": "scenario name",
    "eval": "eval result_id",
    "log": "session_id",
}


class Parameter(Value, frozen=True):
    """A number that a query may hold."""

    key: str
    default: int
    cap: int


PARAMETERS: Final[Mapping[Kind, tuple[Parameter, ...]]] = {
    "samples": (Parameter("offset", 0, 10_000_000), Parameter("limit", 100, 10_000)),
    "log": (Parameter("limit", 50, 10_000), Parameter("max_chars", 20_000, 1_000_000)),
}


class AlcTarget(Value, frozen=True):
    """What a URI means: a kind of resource, its id, and the numbers of its query with defaults filled in."""

    uri: str
    kind: Kind
    id: str
    values: tuple[int, ...] = ()


def refuse(message: str, uri: str) -> NoReturn:
    """Say what is wrong with a request."""
    raise BadArgument(message, uri=uri, code=INVALID_PARAMS)


def not_found(target: AlcTarget, message: str | None = None) -> NotFound:
    """Make the error for what is not there; -32602 in both eras."""
    return NotFound(target.uri, message or f"resource not found: {echo(target.uri)}", code=INVALID_PARAMS)


def too_large(message: str, uri: str, size: int, limit: int) -> TooLarge:
    """Make the error for what does not fit a bound of alc's own."""
    return TooLarge(message, size=size, limit=limit, uri=uri, code=INVALID_PARAMS)


def is_id(text: str) -> bool:
    """Tell whether a file's name can stand in a URI."""
    return _ID.fullmatch(text) is not None and text not in (".", "..")


def is_eval_id(text: str, mode: EvalIds) -> bool:
    """Tell whether an id is that of an eval result."""
    if _STRICT.fullmatch(text):
        return True
    return mode == "relaxed" and _RELAXED.fullmatch(text) is not None and not _COMPARISON.fullmatch(text)


def parse(uri: str, eval_ids: EvalIds = "strict") -> AlcTarget:
    """Make a target of a URI, or raise what the first failed check says."""
    if not uri.startswith(PREFIX):
        refuse(f"invalid scheme: expected alc://, got {echo(uri)}", uri)
    if len(uri) > MAX_URI_LENGTH:
        refuse(f"uri too long: {len(uri)} characters, limit is {MAX_URI_LENGTH}", uri)
    path, _, query_text = uri[len(PREFIX) :].partition("?")
    segments = _segments(path, uri)
    query = _query(query_text, uri)
    kind, identity = _match(segments, uri)
    _check_id(kind, identity, uri)
    values = _values(kind, query, uri)
    target = AlcTarget(uri, kind, identity, values)
    if kind == "types" and identity not in TYPE_STUBS:
        raise not_found(target)
    if kind == "eval" and not is_eval_id(identity, eval_ids):
        advice = f"; {RELAX}" if is_eval_id(identity, "relaxed") else ""
        refuse(f"invalid eval_id: must be {{strategy}}_{{timestamp}}, got '{echo(identity)}'{advice}", uri)
    return target


def canonical(target: AlcTarget) -> str:
    """Give the one spelling of a target's URI, without its query."""
    shape = next(shape for shape, kind in _SHAPES.items() if kind == target.kind)
    return PREFIX + "/".join(target.id if part == "{id}" else part for part in shape)


def _segments(path: str, uri: str) -> list[str]:
    segments = [segment for segment in path.split("/") if segment]
    for segment in segments:
        if segment in (".", ".."):
            refuse(f"path traversal segment rejected: {segment}", uri)
    if not segments:
        refuse(f"missing path segment in {echo(uri)}", uri)
    if segments[0] not in SERVICES:
        refuse(f"unknown service: {echo(segments[0])}", uri)
    if len(segments) < 2:
        refuse(f"missing path segment in {echo(uri)}", uri)
    return segments


def _query(text: str, uri: str) -> dict[str, str]:
    """Give the last value of each key, in the order in which the keys first stand."""
    query: dict[str, str] = {}
    for piece in text.split("&"):
        if not piece:
            continue
        key, _, value = piece.partition("=")
        if not key:
            refuse(f"invalid query: empty key in query of {echo(uri)}", uri)
        query[key] = value
    return query


def _match(segments: list[str], uri: str) -> tuple[Kind, str]:
    is_fixed = segments[0] == "hub"
    shape = tuple(segments) if is_fixed else (segments[0], "{id}", *segments[2:])
    kind = _SHAPES.get(shape)
    if kind is None:
        raise NotFound(uri, f"resource not found: {echo(uri)}", code=INVALID_PARAMS)
    return kind, segments[1]


def _check_id(kind: Kind, identity: str, uri: str) -> None:
    name = _ID_NAMES.get(kind)
    if name is None or _ID.fullmatch(identity):
        return
    odd = next(character for character in identity if not _ID.fullmatch(character))
    refuse(f"{name} '{echo(identity)}' on {echo(uri)} contains reserved character '{echo(odd)}'", uri)


def _values(kind: Kind, query: Mapping[str, str], uri: str) -> tuple[int, ...]:
    parameters = PARAMETERS.get(kind)
    if parameters is None:
        if query:
            refuse(f"query params not supported on {echo(uri)}", uri)
        return ()
    values = tuple(_number(parameter, query, uri) for parameter in parameters)
    known = {parameter.key for parameter in parameters}
    for key in query:
        if key not in known:
            refuse(f"unsupported query param '{echo(key)}' on {echo(uri)}", uri)
    return values


def _number(parameter: Parameter, query: Mapping[str, str], uri: str) -> int:
    key = parameter.key
    if key not in query:
        return parameter.default
    text = query[key]
    why = ""
    if not text:
        why = "cannot parse integer from empty string"
    elif not _DIGITS.fullmatch(text):
        why = "invalid digit found in string"
    else:
        digits = text.lstrip("+").lstrip("0") or "0"  # `int` itself refuses thousands of zeros
        if len(digits) > _MAX_DIGITS or int(digits) > _MAX_NUMBER:
            why = "number too large to fit in target type"
        elif int(digits) > parameter.cap:
            refuse(f"query param '{key}={int(digits)}' on {echo(uri)} exceeds cap of {parameter.cap}", uri)
        else:
            return int(digits)
    refuse(f"invalid query param '{key}={echo(text)}' on {echo(uri)}: {why}", uri)
