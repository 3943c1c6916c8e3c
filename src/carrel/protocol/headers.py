"""HTTP headers that repeat parts of a modern request, and the HTTP status of an answer.

The headers let intermediaries route without reading the body, so they must agree with it. The transport matches their
names; their values are compared here.
"""

from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from typing import Final

import msgspec
from msgspec import Struct

from carrel.core.errors import ProtocolError
from carrel.protocol import eras
from carrel.protocol.eras import Era
from carrel.protocol.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR

VERSION: Final = "mcp-protocol-version"
METHOD: Final = "mcp-method"
NAME: Final = "mcp-name"
NAMES: Final = frozenset({VERSION, METHOD, NAME})

HEADER_MISMATCH: Final = -32020
MISSING_CAPABILITY: Final = -32021
_NAMED: Final = {"resources/read": "uri", "tools/call": "name", "prompts/get": "name"}
"""The parameter that `Mcp-Name` repeats, by method."""

_ENVELOPE_KEYS: Final = frozenset({eras.VERSION_KEY, eras.CAPABILITIES_KEY})
_BASE64_START, _BASE64_END = "=?base64?", "?="


class Headers(Struct, gc=False, frozen=True):
    """The three headers, None if missing; `repeated` names one that was sent twice."""

    version: str | None = None
    method: str | None = None
    name: str | None = None
    repeated: str = ""

    @property
    def is_modern(self) -> bool:
        """Whether the version header alone makes a request a modern one."""
        return self.version is not None and self.version not in eras.VERSIONS.legacy


class _CodeAndData(Struct, gc=False):
    code: int
    data: object = None


class _FailedAnswer(Struct, gc=False):
    error: _CodeAndData


_decode_failure: Final = msgspec.json.Decoder(_FailedAnswer).decode
_FAILURE_START: Final = b'{"error":'


def check(headers: Headers, method: str, version: str, params: object) -> None:
    """Raise if the headers do not agree with the body. `params` is a decoded struct or a dictionary."""
    if headers.repeated:
        raise _mismatch(f"{headers.repeated} is sent twice")
    _compare(VERSION, headers.version, version)
    _compare(METHOD, headers.method, method)
    if method in _NAMED:
        wanted = params.get(_NAMED[method]) if isinstance(params, dict) else getattr(params, _NAMED[method], None)
        given = None if headers.name is None else _decode_name(headers.name)
        _compare(NAME, given, wanted if isinstance(wanted, str) else None)


def status_of(answer: bytes, era: Era) -> int:
    """Return the HTTP status of an encoded answer: 200 for every error after a request was accepted."""
    if not answer.startswith(_FAILURE_START):
        return 200
    error = _decode_failure(answer).error
    data = error.data if isinstance(error.data, dict) else {}
    if error.code in (PARSE_ERROR, INVALID_REQUEST):
        return 400
    if error.code == eras.DENIED and data.get("reason") == "scope":
        return 403
    if era is Era.LEGACY:
        return 200
    if error.code == METHOD_NOT_FOUND:
        return 404
    is_envelope = error.code == INVALID_PARAMS and data.get("parameter") in _ENVELOPE_KEYS
    is_ours = error.code in (HEADER_MISMATCH, MISSING_CAPABILITY, eras.UNSUPPORTED_VERSION)
    return 400 if is_envelope or is_ours else 200


def needed_scope(answer: bytes) -> str:
    """Return the missing scope that an answer with status 403 names."""
    data = _decode_failure(answer).error.data
    return str(data.get("scope", "")) if isinstance(data, dict) else ""


def encode_name(name: str) -> str:
    """Return a name as a header value: unchanged if it is visible ASCII, else in base64."""
    if name.isascii() and name.isprintable() and name == name.strip() and not name.startswith(_BASE64_START):
        return name
    return f"{_BASE64_START}{b2a_base64(name.encode(), newline=False).decode()}{_BASE64_END}"


def name_of(method: str, params: object) -> str | None:
    """Return the value of `Mcp-Name` for a request, or None if it needs none."""
    name = params.get(_NAMED[method]) if method in _NAMED and isinstance(params, dict) else None
    return name if isinstance(name, str) else None


def _compare(header: str, given: str | None, wanted: str | None) -> None:
    if given != wanted:
        raise _mismatch(f"{header} is missing" if given is None else f"{header} differs from the body")


def _decode_name(name: str) -> str:
    """Decode the base64 form; return any other value unchanged."""
    if not (name.startswith(_BASE64_START) and name.endswith(_BASE64_END)):
        return name
    try:
        return a2b_base64(name[len(_BASE64_START) : -len(_BASE64_END)], strict_mode=True).decode()
    except (Base64Error, ValueError):
        raise _mismatch(f"{NAME} is malformed") from None


def _mismatch(problem: str) -> ProtocolError:
    return ProtocolError(HEADER_MISMATCH, f"Header mismatch: {problem}")
