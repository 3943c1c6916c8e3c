"""The client's side of the wire: how each request is spelled, and the messages that come back.

The mirror of `methods` and of `jsonrpc.decode`. An answer's result stays undecoded until
somebody knows what it is; `answers` reads it then.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import DecodeError, Raw, Struct

from carrel.core.model import Range
from carrel.core.version import __version__
from carrel.protocol import eras, headers
from carrel.protocol.jsonrpc import ABSENT, Key, find_id

Params = Mapping[str, object]

CLIENT_INFO: Final = {"name": "carrel", "title": "Carrel", "version": __version__}
_MODERN_META: Final = {
    eras.VERSION_KEY: eras.MODERN_VERSION,
    eras.CAPABILITIES_KEY: {},
    eras.CLIENT_INFO_KEY: CLIENT_INFO,
}

CANCELLED: Final = "notifications/cancelled"
PROGRESS: Final = "notifications/progress"
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
UPDATED: Final = "notifications/resources/updated"
LIST_CHANGED: Final = "notifications/resources/list_changed"


class Answer(Struct, frozen=True):
    """The answer to a request of ours: a result, or an error."""

    key: Key | None
    result: Raw
    error: Raw | None


class Question(Struct, frozen=True):
    """A request to us."""

    id: bytes
    method: str


class Notice(Struct, frozen=True):
    """A notification; `key` is the request of ours that it belongs to, if it says so."""

    method: str
    key: Key | None = None
    uri: str = ""
    honoured: tuple[str, ...] = ()
    progress: float = 0.0
    total: float | None = None
    message: str | None = None


class Outline(Struct, frozen=True):
    """What HTTP repeats beside a message of ours: `version` only of a modern one."""

    method: str
    key: Key | None = None
    version: str | None = None
    name: str | None = None
    cancels: Key | None = None


class _ReceivedMessage(Struct):
    jsonrpc: Literal["2.0"]
    id: Key | None = None
    method: str | None = None
    params: Raw = ABSENT
    result: Raw = ABSENT
    error: Raw = ABSENT


class _Told(Struct, rename="camel"):
    uri: str = ""
    request_id: Key | None = None
    progress_token: Key | None = None
    progress: float = 0.0
    total: float | None = None
    message: str | None = None
    notifications: dict[str, Any] = {}
    meta: dict[str, Any] = msgspec.field(default_factory=dict, name="_meta")


_decode_envelope: Final = msgspec.json.Decoder(_ReceivedMessage).decode
_decode_told: Final = msgspec.json.Decoder(_Told).decode


# Messages


def decode(message: bytes) -> Answer | Question | Notice | None:
    """Read one message; None for what is no message at all."""
    try:
        envelope = _decode_envelope(message)
        if envelope.method is None:
            is_answer = envelope.result is not ABSENT or envelope.error is not ABSENT
            error = None if envelope.error is ABSENT else envelope.error
            return Answer(envelope.id, envelope.result, error) if is_answer else None
        if envelope.id is not None:
            return Question(msgspec.json.encode(envelope.id), envelope.method)
        return _notice(envelope.method, envelope.params)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return None


def answer_to(key: Key, body: bytes) -> bytes | None:
    """Return what came back for a request as its answer: an error that names no request is this one's."""
    message = decode(body)
    if not isinstance(message, Answer) or message.key == key:
        return None if message is None else body
    if message.error is None:
        return None
    return b'{"jsonrpc":"2.0","id":' + spell(key) + b',"error":' + bytes(message.error) + b"}"


def outline(message: bytes) -> Outline:
    """Read what a message of ours is, for its headers."""
    envelope = _decode_envelope(message)
    params: Any = {} if envelope.params is ABSENT else msgspec.json.decode(envelope.params)
    method = envelope.method or ""
    version = _meta_of(params).get(eras.VERSION_KEY)
    return Outline(
        method,
        envelope.id,
        version if isinstance(version, str) else None,
        headers.name_of(method, params),
        params.get("requestId") if method == CANCELLED else None,
    )


def agreed_version(answer: bytes) -> str | None:
    """Read the version out of the answer to `initialize`."""
    try:
        result = msgspec.json.decode(_decode_envelope(answer).result)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return None
    version = result.get("protocolVersion") if isinstance(result, dict) else None
    return version if isinstance(version, str) else None


def spell(key: Key) -> bytes:
    """Spell a request's id."""
    return msgspec.json.encode(key)


def answered_key(head: bytes) -> Key | None:
    """Find whose answer this is in the first bytes of one too long to keep; ids inside the result do not count."""
    spelled = find_id(head.partition(b'"result"')[0])
    return None if spelled is None else msgspec.json.decode(spelled, type=Key)


def _notice(method: str, params: Raw) -> Notice:
    try:
        told = _decode_told(b"{}" if params is ABSENT else params)
    except msgspec.ValidationError:
        return Notice(method)
    key = told.progress_token if told.progress_token is not None else told.request_id
    subscription = told.meta.get(eras.SUBSCRIPTION_KEY)
    if isinstance(subscription, int | str):
        key = subscription
    given = told.notifications.get("resourceSubscriptions")
    honoured = tuple(uri for uri in given if isinstance(uri, str)) if isinstance(given, list) else ()
    return Notice(method, key, told.uri, honoured, told.progress, told.total, told.message)


# Requests


def initialize() -> Params:
    """Spell the legacy handshake."""
    return {"protocolVersion": eras.LATEST_LEGACY, "capabilities": {}, "clientInfo": CLIENT_INFO}


def modern(params: Params) -> Params:
    """Add what every modern request says of itself; what the caller already says stays."""
    return _with_meta(params, {**_MODERN_META, **_meta_of(params)})


def with_progress(params: Params, number: int) -> Params:
    """Ask for progress, told under the request's own number."""
    return _with_meta(params, {**_meta_of(params), "progressToken": number})


def listing(cursor: str | None, prefix: str | None = None) -> Params:
    """Spell the request of a page; with a prefix, of all that begins with it, where the server is a Carrel."""
    params: dict[str, object] = {} if cursor is None else {"cursor": cursor}
    return params if prefix is None else _with_meta(params, {eras.PREFIX_KEY: prefix})


def read(uri: str, wanted: Range | None, condition: str | None) -> Params:
    """Spell a read: of a range, if one is wanted; on a condition, if there is one."""
    params: dict[str, object] = {"uri": uri}
    if wanted is not None:
        params["start"] = wanted.start
        if wanted.length is not None:
            params["length"] = wanted.length
    return params if condition is None else _with_meta(params, {eras.CONDITION_KEY: condition})


def complete(reference: str, variable: str, value: str, context: Mapping[str, str]) -> Params:
    """Spell a completion."""
    params: dict[str, object] = {
        "ref": {"type": "ref/resource", "uri": reference},
        "argument": {"name": variable, "value": value},
    }
    return {**params, "context": {"arguments": dict(context)}} if context else params


def call(name: str, arguments: Mapping[str, object]) -> Params:
    """Spell a tool call."""
    return {"name": name, "arguments": dict(arguments)}


def listen(uris: Iterable[str], *, list_changes: bool) -> Params:
    """Spell a modern subscription."""
    wanted: dict[str, object] = {"resourceSubscriptions": list(uris)}
    return {"notifications": {**wanted, "resourcesListChanged": True} if list_changes else wanted}


def cancelled(number: int) -> Params:
    """Spell that a request is no longer wanted."""
    return {"requestId": number}


def _meta_of(params: Params) -> Mapping[str, object]:
    meta = params.get("_meta")
    return meta if isinstance(meta, dict) else {}


def _with_meta(params: Params, meta: Mapping[str, object]) -> Params:
    return {**params, "_meta": meta}
