"""Decode and encode JSON-RPC messages.

Parameters stay undecoded until the method is known. A request id is kept and repeated exactly as sent; a notification
has none.
"""

from typing import Final, Literal

import msgspec
from msgspec import DecodeError, Raw, Struct, ValidationError

from carrel.core.errors import ProtocolError

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

ABSENT: Final = Raw()

Key = int | str
"""The value of a request id, by which cancellations and answers are matched."""


Encoded = Raw
"""An encoded part of an answer."""

GAP: Final = Raw(b"\0")
"""A placeholder in a `Frame`."""


class Message(Struct, gc=False, frozen=True):
    """A request, or a notification if `id` is None."""

    id: bytes | None
    key: Key | None
    method: str
    params: Raw


class _Envelope(Struct, gc=False):
    jsonrpc: Literal["2.0"]
    method: str
    id: Raw = ABSENT
    params: Raw = ABSENT


class _Answer(Struct, gc=False):
    id: Raw
    result: object
    jsonrpc: str = "2.0"


_encode: Final = msgspec.json.Encoder().encode
_decode_envelope: Final = msgspec.json.Decoder(_Envelope).decode
_decode_any: Final = msgspec.json.Decoder().decode
_decode_batch: Final = msgspec.json.Decoder(list[Raw]).decode


def decode(text: bytes) -> Message | None:
    """Return one message, or None for a response; raise ProtocolError, with the id to repeat if it could be read."""
    _check_encoding(text)
    try:
        envelope = _decode_envelope(text)
    except ValidationError:
        _check_response(text)
        return None
    except (DecodeError, RecursionError):
        raise ProtocolError(PARSE_ERROR, "Parse error: not valid JSON") from None
    if envelope.id is ABSENT:
        return Message(None, None, envelope.method, envelope.params)
    spelled = bytes(envelope.id)
    return Message(spelled, _key(spelled), envelope.method, envelope.params)


def decode_batch(text: bytes) -> list[bytes]:
    """Return the messages of a JSON array, still encoded."""
    _check_encoding(text)
    try:
        return [bytes(element) for element in _decode_batch(text)]
    except (DecodeError, RecursionError):
        raise ProtocolError(PARSE_ERROR, "Parse error: not valid JSON") from None


def id_of(text: bytes) -> bytes | None:
    """Return the id to repeat for a message, even if the message is invalid."""
    try:
        message = decode(text)
    except ProtocolError as error:
        return error.request_id
    return None if message is None else message.id


def find_id(head: bytes) -> bytes | None:
    """Return the id in the first bytes of a message that was too long to keep; ids of inner objects do not count."""
    import re  # needed only for refused messages

    value = re.compile(rb'\s*:\s*(-?(?:0|[1-9]\d*+)|"(?:[^"\\]|\\.)*+")\s*[,}]')
    depth = 0
    for token in re.finditer(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}]', head):
        if token[0] in (b"{", b"["):
            depth += 1
        elif token[0] in (b"}", b"]"):
            depth -= 1
        elif depth == 1 and token[0] == b'"id"':
            found = value.match(head, token.end())
            if found is not None and _is_id(found[1]):
                return found[1]
    return None


def plain(value: object) -> bytes:
    """Encode any value as JSON, for answers that are not messages."""
    return _encode(value)


def encode_part(value: object) -> Encoded:
    """Encode a part of an answer in advance."""
    return Raw(_encode(value))


def answer(request_id: bytes, result: object) -> bytes:
    """Encode the answer to a request."""
    if type(result) is Raw:  # so that it is copied only once
        return b"".join((b'{"id":', request_id, b',"result":', result, b',"jsonrpc":"2.0"}'))
    return _encode(_Answer(Raw(request_id), result))


class Frame:
    """An encoded answer whose id and one text are filled in later."""

    __slots__ = ("_after", "_before", "_between")

    def __init__(self, result: object) -> None:
        """Encode a result that has `GAP` in place of the text."""
        # JSON escapes NUL in texts, so the only two are those of the gaps.
        self._before, self._between, self._after = _encode(_Answer(GAP, result)).split(b"\0")

    def fill(self, request_id: bytes, text: str) -> bytes:
        """Return the answer with an id and a text."""
        return b"".join((self._before, request_id, self._between, _encode(text), self._after))


def failure(request_id: bytes | None, code: int, message: str, data: object = None) -> bytes:
    """Encode an error; without a request id, it has no `id`."""
    error: dict[str, object] = {"code": code, "message": message}
    if data:
        error["data"] = data
    request = {} if request_id is None else {"id": Raw(request_id)}
    return _encode({"error": error, **request, "jsonrpc": "2.0"})


def notification(method: str, params: object) -> bytes:
    """Encode a notification."""
    return _encode({"method": method, "params": params, "jsonrpc": "2.0"})


def request(number: int, method: str, params: object) -> bytes:
    """Encode a request."""
    return _encode({"id": number, "method": method, "params": params, "jsonrpc": "2.0"})


def _check_encoding(text: bytes) -> None:
    """Raise for text that is not UTF-8; parts of it may never be decoded otherwise."""
    if text.isascii():
        return
    try:
        text.decode()
    except UnicodeDecodeError:
        raise ProtocolError(PARSE_ERROR, "Parse error: not UTF-8") from None


def _key(spelled: bytes) -> Key:
    """Return the value of an id; raise if it is not a string or an integer."""
    try:
        if spelled[:1] == b'"':
            return str(_decode_any(spelled))
        return int(spelled)
    except (DecodeError, ValueError):
        raise ProtocolError(INVALID_REQUEST, "Invalid request: id must be a string or an integer") from None


def _is_id(spelled: bytes) -> bool:
    try:
        _key(spelled)
    except ProtocolError:
        return False
    return True


def _check_response(text: bytes) -> None:
    """Raise ProtocolError for JSON that is neither a request nor a response."""
    try:
        value = _decode_any(text)
    except (DecodeError, RecursionError):
        raise ProtocolError(PARSE_ERROR, "Parse error: not valid JSON") from None
    if not isinstance(value, dict):
        kind = "a batch is not supported here" if isinstance(value, list) else "not an object"
        raise ProtocolError(INVALID_REQUEST, f"Invalid request: {kind}")
    request_id = value.get("id")
    has_id = isinstance(request_id, str | int) and not isinstance(request_id, bool)
    if "method" not in value and ("result" in value or "error" in value) and value.get("jsonrpc") == "2.0":
        if has_id or request_id is None:
            return
        raise ProtocolError(INVALID_REQUEST, "Invalid response: id must be a string or an integer")
    wrong = "jsonrpc must be 2.0" if value.get("jsonrpc") != "2.0" else "method must be a string"
    spelled = _encode(request_id) if has_id else None
    raise ProtocolError(INVALID_REQUEST, f"Invalid request: {wrong}", request_id=spelled)
