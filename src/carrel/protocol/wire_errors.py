"""Encode errors for the wire: the only place that maps our errors to codes and statuses."""

from typing import Final

from carrel.core.errors import BadArgument, Denied, NotFound, ProtocolError, ProviderError, RequestError, TooLarge, echo
from carrel.core.limits import MAX_URI_LENGTH
from carrel.protocol.eras import DENIED, LEGACY_NOT_FOUND, TOO_LARGE, Era
from carrel.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, failure

ERROR_KEY: Final = "dev.carrel/error"
_NAMES: Final = (
    (NotFound, "MCP_NOT_FOUND"),
    (Denied, "MCP_PERMISSION_DENIED"),
    (TooLarge, "MCP_TOO_LARGE"),
    (BadArgument, "MCP_INVALID_PARAMS"),
)
"""The names that the Fly documents give to errors."""

_STATUSES: Final = {
    "not_found": 404,
    "denied": 403,
    "invalid": 400,
    "conflict": 409,
    "too_large": 413,
    "failed": 500,
    "unreadable": 422,
    "bad_result": 502,
    "timeout": 504,
    "busy": 503,
    "unavailable": 503,
    "internal": 500,
}
"""The status of each error word on plain HTTP."""

Answerable = RequestError | ProviderError | ProtocolError


def encode(error: Answerable, era: Era, request_id: bytes | None, uri: str | None = None) -> bytes:
    """Encode an error for a client of this era; `uri` is the requested URI, if there is one."""
    if isinstance(error, ProtocolError):
        return failure(request_id, error.code, error.message, {**error.data, ERROR_KEY: "invalid"})
    name = next((name for kind, name in _NAMES if isinstance(error, kind)), None)
    data: dict[str, object] = {**({"name": name} if name else {}), **error.data, ERROR_KEY: error.word}
    named = uri or error.uri
    if named is not None:
        # A text that is too long for a URI is shortened, because the answer must fit in one message.
        data["uri"] = named if len(named) <= MAX_URI_LENGTH else echo(named)
    return failure(request_id, code(error, era), error.message, data)


def too_large(request_id: bytes | None, message: str, limit: int) -> bytes:
    """Encode the error for a message or an answer that is too long."""
    return failure(request_id, TOO_LARGE, message, {"name": "MCP_TOO_LARGE", "limit": limit, ERROR_KEY: "too_large"})


def plain(error: Answerable) -> tuple[int, dict[str, object]]:
    """Return the status and the body of an error on plain HTTP; an `error` in its data replaces the body."""
    if isinstance(error, ProtocolError):
        return 400, {"error": error.message}
    if "error" in error.data:
        status = error.data.get("status")
        return status if isinstance(status, int) else plain_status(error.word), {"error": error.data["error"]}
    name = error.data.get("name") or next((name for kind, name in _NAMES if isinstance(error, kind)), None)
    status = 429 if "retryAfterMs" in error.data else plain_status(error.word)
    return status, {"error": error.message, **({"name": name} if name else {})}


def plain_status(word: str) -> int:
    """Return the status of an error word on plain HTTP."""
    return _STATUSES.get(word, 500)


def code(error: RequestError | ProviderError, era: Era) -> int:
    """Return the JSON-RPC code of an error."""
    if isinstance(error, ProviderError):
        return INTERNAL_ERROR
    if error.code is not None:
        return error.code
    if isinstance(error, NotFound):
        return INVALID_PARAMS if era is Era.MODERN else LEGACY_NOT_FOUND
    if isinstance(error, Denied):
        return DENIED
    if isinstance(error, TooLarge):
        return TOO_LARGE
    return INVALID_PARAMS
