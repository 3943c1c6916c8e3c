"""One JSON text to one message, and back.

Parameters stay undecoded until the method is known. A request id is kept as it was
spelled and repeated so; a notification has none.
"""

from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, DecodeError, Raw, Struct, UnsetType, ValidationError

from carrel.core.errors import ProtocolError

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

ABSENT: Final = Raw()

Key = int | str
"""A request id as a value: what cancelling and answers are matched by."""


Spelled = Raw
"""A part of an answer that is encoded already."""

GAP: Final = Raw(b"\0")
"""Stands for what is filled in later."""


class Message(Struct, gc=False, frozen=True):
    """A request, or a notification when `id` is None."""

    id: bytes | None
    key: Key | None
    method: str
    params: Raw


class Response(Struct, gc=False, frozen=True):
    """An answer to a request of ours."""

    key: Key | None
    result: Raw | None
    error: Any


class _Envelope(Struct, gc=False):
    jsonrpc: Literal["2.0"]
    method: str
    id: Raw = ABSENT
    params: Raw = ABSENT


class _ResponseEnvelope(Struct, gc=False):
    jsonrpc: Literal["2.0"]
    id: Key | UnsetType | None = UNSET
    result: Raw = ABSENT
    error: Any = UNSET


class _Answer(Struct, gc=False):
    id: Raw
    result: Any
    jsonrpc: str = "2.0"


class _Failure(Struct, gc=False):
    error: dict[str, Any]
    id: Raw | UnsetType = UNSET
    jsonrpc: str = "2.0"


class _Notification(Struct, gc=False):
    method: str
    params: Any
    jsonrpc: str = "2.0"


class _Request(Struct, gc=False):
    id: int
    method: str
    params: Any
    jsonrpc: str = "2.0"


_encode: Final = msgspec.json.Encoder().encode
_decode_envelope: Final = msgspec.json.Decoder(_Envelope).decode
_decode_response: Final = msgspec.json.Decoder(_ResponseEnvelope).decode
_decode_any: Final = msgspec.json.Decoder().decode
_decode_batch: Final = msgspec.json.Decoder(list[Raw]).decode


def decode(text: bytes) -> Message | Response:
    """Read one message, or raise ProtocolError with the id to repeat, if it could be read."""
    _check_encoding(text)
    try:
        envelope = _decode_envelope(text)
    except ValidationError:
        return _decode_odd(text)
    except (DecodeError, RecursionError):
        raise ProtocolError(PARSE_ERROR, "Parse error: not valid JSON") from None
    if envelope.id is ABSENT:
        return Message(None, None, envelope.method, envelope.params)
    spelled = bytes(envelope.id)
    return Message(spelled, _key(spelled), envelope.method, envelope.params)


def decode_batch(text: bytes) -> list[bytes]:
    """Split a JSON array into its messages, each still undecoded."""
    _check_encoding(text)
    try:
        return [bytes(element) for element in _decode_batch(text)]
    except (DecodeError, RecursionError):
        raise ProtocolError(PARSE_ERROR, "Parse error: not valid JSON") from None


def id_of(text: bytes) -> bytes | None:
    """Return the id to repeat for a message, however wrong the rest of it is."""
    try:
        message = decode(text)
    except ProtocolError as error:
        return error.request_id
    return message.id if isinstance(message, Message) else None


def find_id(head: bytes) -> bytes | None:
    """Find the id in the first bytes of a message that was too long to keep: its own, not one further inside."""
    import re  # only for messages that are refused

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
    """Encode any value as JSON, for answers that are no messages."""
    return _encode(value)


def spelled(value: object) -> Spelled:
    """Encode a part of an answer beforehand."""
    return Raw(_encode(value))


def answer(request_id: bytes, result: object) -> bytes:
    """Encode the answer to a request."""
    if type(result) is Raw:  # is not copied more than once
        return b"".join((b'{"id":', request_id, b',"result":', result, b',"jsonrpc":"2.0"}'))
    return _encode(_Answer(Raw(request_id), result))


class Frame:
    """An answer with a text in it, encoded but for its id and that text."""

    __slots__ = ("_after", "_before", "_between")

    def __init__(self, result: object) -> None:
        """Encode it around `GAP`, which stands in the result in place of the text."""
        # What is escaped has no NUL, so these two are the gaps.
        self._before, self._between, self._after = _encode(_Answer(GAP, result)).split(b"\0")

    def fill(self, request_id: bytes, text: str) -> bytes:
        """Return the answer to a request, with this text."""
        return b"".join((self._before, request_id, self._between, _encode(text), self._after))


def failure(request_id: bytes | None, code: int, message: str, data: object = None) -> bytes:
    """Encode an error; without an id the key is left out."""
    error: dict[str, Any] = {"code": code, "message": message}
    if data:
        error["data"] = data
    return _encode(_Failure(error, UNSET if request_id is None else Raw(request_id)))


def notification(method: str, params: object) -> bytes:
    """Encode a notification."""
    return _encode(_Notification(method, params))


def request(number: int, method: str, params: object) -> bytes:
    """Encode a request of ours."""
    return _encode(_Request(number, method, params))


def _check_encoding(text: bytes) -> None:
    """Refuse what is not UTF-8: parts that are never decoded must not slip through."""
    if text.isascii():
        return
    try:
        text.decode()
    except UnicodeDecodeError:
        raise ProtocolError(PARSE_ERROR, "Parse error: not UTF-8") from None


def _key(spelled: bytes) -> Key:
    """Return the value of an id: a string or an integer, and nothing else."""
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


def _decode_odd(text: bytes) -> Response:
    """Say what is wrong with JSON that is no request, or read it as a response."""
    try:
        value = _decode_any(text)
    except (DecodeError, RecursionError):
        raise ProtocolError(PARSE_ERROR, "Parse error: not valid JSON") from None
    if not isinstance(value, dict):
        kind = "a batch is not supported here" if isinstance(value, list) else "not an object"
        raise ProtocolError(INVALID_REQUEST, f"Invalid request: {kind}")
    is_response = "method" not in value and ("result" in value or "error" in value)
    if is_response and value.get("jsonrpc") == "2.0":
        try:
            response = _decode_response(text)
        except ValidationError:
            raise ProtocolError(INVALID_REQUEST, "Invalid response: id must be a string or an integer") from None
        key = None if response.id is UNSET else response.id
        return Response(
            key,
            None if response.result is ABSENT else response.result,
            None if response.error is UNSET else response.error,
        )
    spelled = _spelled_id(value)
    wrong = "jsonrpc must be 2.0" if value.get("jsonrpc") != "2.0" else "method must be a string"
    raise ProtocolError(INVALID_REQUEST, f"Invalid request: {wrong}", request_id=spelled)


def _spelled_id(value: dict[str, object]) -> bytes | None:
    request_id = value.get("id")
    if isinstance(request_id, bool) or not isinstance(request_id, str | int):
        return None
    return _encode(request_id)
