"""The kinds of resources, and the grammar of `alc://`. Checks run in a fixed order; the first failure is reported.

Nothing is percent-decoded, and no URL class is used: an id is exactly what the URI spells. `canonical` checks the
path, the query is checked by its declaration, and `target_of` checks the id. Only then is a file looked for.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Final, Literal, NoReturn

from carrel.core.arguments import Argument, ArgumentProblem, Arguments, InvalidArguments
from carrel.core.errors import BadArgument, NotFound, RequestError, TooLarge, echo
from carrel.core.limits import MAX_QUERY_PAIRS, MAX_URI_LENGTH
from carrel.core.record import Value
from carrel.core.uri import quote

SCHEME: Final = "alc"
PREFIX: Final = "alc://"
INVALID_PARAMS: Final = -32602
"""The JSON-RPC code for every fault of a request, in both eras, also for a resource that is not found."""

Kind = Literal["types", "init", "meta", "card", "samples", "scenario", "eval", "log", "narrative", "index"]
EvalIds = Literal["strict", "relaxed"]

RELAX: Final = 'strategies with _ in their names need eval_ids = "relaxed" in [alc]'
"""Advice about eval results that the strict pattern refuses, which is about half of the real ones."""
LUA, JSON, MARKDOWN = "text/x-lua", "application/json", "text/markdown"


CAPS: Final = {"offset": 10_000_000, "limit": 10_000, "max_chars": 1_000_000}
"""The greatest value of each query parameter, in the order in which they are checked."""
Limit = Annotated[int, Argument(ge=0, le=CAPS["limit"])]


class AlcQuery(Value, frozen=True):
    """The numbers that a query may hold."""

    @property
    def values(self) -> tuple[int, ...]:
        """The numbers in the order of their declaration."""
        return tuple(getattr(self, name) for name in self.__struct_fields__)


class SamplesQuery(AlcQuery, frozen=True):
    """Which rows of samples are asked for."""

    offset: Annotated[int, Argument(ge=0, le=CAPS["offset"])] = 0
    limit: Limit = 100


class SessionLogQuery(AlcQuery, frozen=True):
    """How many rounds and characters of a session's log are asked for."""

    limit: Limit = 50
    max_chars: Annotated[int, Argument(ge=0, le=CAPS["max_chars"])] = 20_000


class AlcKind(Value, frozen=True):
    """One kind of resource: its path after `alc://`, in which a variable stands for the id, and what lists show."""

    path: str
    name: str
    title: str
    description: str
    mime_type: str = JSON
    query: Arguments[AlcQuery] | None = None

    @property
    def template(self) -> str:
        """Return the URI template."""
        return PREFIX + self.path


KINDS: Final[Mapping[Kind, AlcKind]] = {
    "types": AlcKind("types/{file}", "", "Lua Type Stub", "", LUA),
    "init": AlcKind(
        "packages/{name}/init.lua", "package-init-lua", "Package Lua Source", "Package init.lua source", LUA
    ),
    "meta": AlcKind("packages/{name}/meta", "package-meta", "Package Metadata", "Package metadata (M.meta table)"),
    "card": AlcKind("cards/{card_id}", "card", "Card Snapshot", "Full Card JSON"),
    "samples": AlcKind(
        "cards/{card_id}/samples",
        "card-samples",
        "Card Samples",
        "Card samples JSONL. Supports ?offset=N&limit=M",
        query=Arguments(SamplesQuery),
    ),
    "scenario": AlcKind("scenarios/{name}", "scenario", "Scenario Source", "Scenario source", LUA),
    "eval": AlcKind("eval/{result_id}", "eval-result", "Eval Result", "Eval result JSON"),
    "log": AlcKind(
        "logs/{session_id}",
        "session-log",
        "Session Log",
        "Session log JSON. Supports ?limit=M&max_chars=C",
        query=Arguments(SessionLogQuery),
    ),
    "narrative": AlcKind(
        "packages/{name}/narrative", "package-narrative", "Package Narrative", "Package narrative in Markdown", MARKDOWN
    ),
    "index": AlcKind("hub/{file}", "hub-index", "Hub Index", "Index of all packages on disk (hub_index/v0)"),
}
"""All kinds; those with a template in the order in which templates are listed."""
TYPE_STUBS: Final[Mapping[str, str]] = {
    "alc.d.lua": "Lua type stubs for alc.* StdLib",
    "alc_shapes.d.lua": "Lua type stubs for alc_shapes DSL",
}
"""The files of kind `types`, each with its description."""

_ID_NAMES: Final[Mapping[str, str]] = {
    "packages": "package name",
    "cards": "card_id",
    "scenarios": "scenario name",
    "eval": "eval result_id",
    "logs": "session_id",
}
"""What errors call the id, by the first segment of the URI; `types` and `hub` have none."""
_AROUND_ID: Final[Mapping[Kind, list[str]]] = {key: re.split(r"\{\w+\}", kind.path) for key, kind in KINDS.items()}
_BY_SHAPE: Final[Mapping[str, Kind]] = {"*".join(around): key for key, around in _AROUND_ID.items()}
_ID: Final = re.compile(r"[A-Za-z0-9_.-]+")
_BAD_SCHEME: Final = "invalid scheme: expected alc://, got {}"
_DIGITS: Final = re.compile(r"\+?[0-9]+")
_STRICT: Final = re.compile(r"[A-Za-z0-9-]+_[0-9]+")
_RELAXED: Final = re.compile(r"[A-Za-z0-9-](?:[A-Za-z0-9_-]*[A-Za-z0-9-])?_[0-9]+")
_COMPARISON: Final = re.compile(r"compare_.+_[0-9]+_vs_.+")
_MAX_DIGITS: Final = 20
_MAX_NUMBER: Final = 2**64 - 1


class AlcTarget(Value, frozen=True):
    """What a URI means: a kind of resource, its id, and the numbers of its query with defaults filled in."""

    uri: str
    kind: Kind
    id: str
    values: tuple[int, ...] = ()


def listed_target(kind: Kind, identity: str) -> AlcTarget:
    """Return the target of the URI under which a resource is listed."""
    before, after = _AROUND_ID[kind]
    query = KINDS[kind].query
    return AlcTarget(
        f"{PREFIX}{before}{identity}{after}", kind, identity, query.check_query(()).values if query else ()
    )


def target_of(
    kind: Kind, identity: str, uri: str, query: AlcQuery | None = None, eval_ids: EvalIds = "strict"
) -> AlcTarget:
    """Return the target of a URI; raise if its id is invalid."""
    if kind == "types" and identity not in TYPE_STUBS:
        raise not_found(uri)
    if kind == "eval" and not is_eval_id(identity, eval_ids):
        advice = f"; {RELAX}" if is_eval_id(identity, "relaxed") else ""
        refuse(f"invalid eval_id: must be {{strategy}}_{{timestamp}}, got '{echo(identity)}'{advice}", uri)
    return AlcTarget(uri, kind, identity, () if query is None else query.values)


def refuse(message: str, uri: str) -> NoReturn:
    """Raise the error for a faulty request."""
    raise faulty(message, uri)


def faulty(message: str, uri: str) -> BadArgument:
    """Return the error for a faulty request."""
    return BadArgument(message, uri=uri, code=INVALID_PARAMS)


def not_found(uri: str, message: str = "") -> NotFound:
    """Return the error for a resource that is not there."""
    return NotFound(uri, message or f"resource not found: {echo(uri)}", code=INVALID_PARAMS)


def too_large(message: str, uri: str, size: int, limit: int) -> TooLarge:
    """Return the error for content above a limit."""
    return TooLarge(message, size=size, limit=limit, uri=uri, code=INVALID_PARAMS)


def is_id(text: str) -> bool:
    """Return whether a name on disk can stand in a URI."""
    return _ID.fullmatch(text) is not None and text not in (".", "..")


def is_eval_id(text: str, mode: EvalIds) -> bool:
    """Return whether a name is the id of an eval result."""
    if _STRICT.fullmatch(text):
        return True
    return mode == "relaxed" and _RELAXED.fullmatch(text) is not None and not _COMPARISON.fullmatch(text)


def canonical(uri: str) -> str:
    """Return a URI in the spelling of its template, with everything escaped; raise if a check of its path fails."""
    if not uri.startswith(PREFIX):
        refuse(_BAD_SCHEME.format(echo(uri)), uri)
    if len(uri) > MAX_URI_LENGTH:
        refuse(f"uri too long: {len(uri)} characters, limit is {MAX_URI_LENGTH}", uri)
    path, _, query_text = uri[len(PREFIX) :].partition("?")
    service, identity, *rest = _segments(path, uri)
    query = _query(query_text, uri)
    kind = _BY_SHAPE.get("/".join((service, "*", *rest)))
    if kind is None or (kind == "index" and identity != "index"):
        raise not_found(uri)
    if service in _ID_NAMES:
        _check_id(_ID_NAMES[service], identity, uri)
    spelled = PREFIX + "/".join(map(_escape, (service, identity, *rest)))
    pieces = [f"{_escape(key)}={_escape(value)}" for key, value in query.items()]
    return f"{spelled}?{'&'.join(pieces[:MAX_QUERY_PAIRS])}" if pieces else spelled


def word(uri: str, error: RequestError) -> RequestError:
    """Return the error for a URI whose query does not fit, or that nothing serves, in the words of alc's documents."""
    if not uri.startswith(PREFIX):
        return faulty(_BAD_SCHEME.format(echo(uri)), uri)
    if isinstance(error, NotFound):
        return not_found(uri)
    if not isinstance(error, InvalidArguments):
        return faulty(f"query params not supported on {echo(uri)}", uri)
    known = [problem for problem in error.problems if problem.name in CAPS and problem.fault != "unknown"]
    if known:
        return faulty(_number_problem(min(known, key=lambda one: [*CAPS].index(one.name)), uri), uri)
    first = error.problems[0]
    has_query = any(f"{name}, " in first.expected for name in CAPS)
    what = f"unsupported query param '{echo(first.name)}'" if has_query else "query params not supported"
    return faulty(f"{what} on {echo(uri)}{f' ({first.expected})' if first.expected else ''}", uri)


def _escape(text: str) -> str:
    """Return a text with every reserved character escaped; a NUL is spelled as messages show it."""
    return quote(text.replace("\0", "\\x00").encode(errors="replace").decode(), "")


def _segments(path: str, uri: str) -> list[str]:
    """Return the segments of a path, at least two: a known first one and an id."""
    segments = [segment for segment in path.split("/") if segment]
    for segment in segments:
        if segment in (".", ".."):
            refuse(f"path traversal segment rejected: {segment}", uri)
    if segments and segments[0] not in (*_ID_NAMES, "types", "hub"):
        refuse(f"unknown service: {echo(segments[0])}", uri)
    if len(segments) < 2:
        refuse(f"missing path segment in {echo(uri)}", uri)
    return segments


def _query(text: str, uri: str) -> dict[str, str]:
    """Return the last value of each key, in the order of the keys' first appearance."""
    query: dict[str, str] = {}
    for piece in filter(None, text.split("&")):
        key, _, value = piece.partition("=")
        if not key:
            refuse(f"invalid query: empty key in query of {echo(uri)}", uri)
        query[key] = value
    return query


def _check_id(name: str, identity: str, uri: str) -> None:
    """Refuse an id with a character outside the set; `name` is what the error calls the id."""
    if not _ID.fullmatch(identity):
        odd = next(character for character in identity if not _ID.fullmatch(character))
        refuse(f"{name} '{echo(identity)}' on {echo(uri)} contains reserved character '{echo(odd)}'", uri)


def _number_problem(problem: ArgumentProblem, uri: str) -> str:
    """Return the message for a number that does not fit."""
    name, text = problem.name, problem.value
    digits = text.lstrip("+").lstrip("0") or "0"  # without leading zeros, of which `int` refuses thousands
    if not text:
        why = "cannot parse integer from empty string"
    elif not _DIGITS.fullmatch(text):
        why = "invalid digit found in string"
    elif len(digits) > _MAX_DIGITS or int(digits) > _MAX_NUMBER:
        why = "number too large to fit in target type"
    else:
        return f"query param '{name}={int(digits)}' on {echo(uri)} exceeds cap of {CAPS[name]}"
    return f"invalid query param '{name}={echo(text)}' on {echo(uri)}: {why}"
