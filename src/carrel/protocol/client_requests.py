"""Build the requests of a client, and decode the messages that it receives.

The counterpart of `methods` and of `jsonrpc.decode`. The result of an answer stays undecoded; `client_results` decodes
it.
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
    """The answer to a request: a result or an error."""

    key: Key | None
    result: Raw
    error: Raw | None


class Question(Struct, frozen=True):
    """A request from the server."""

    id: bytes
    method: str


class Notice(Struct, frozen=True):
    """A notification; `key` is the id of the request that it belongs to, if it names one."""

    method: str
    key: Key | None = None
    uri: str = ""
    honoured: tuple[str, ...] = ()
    progress: float = 0.0
    total: float | None = None
    message: str | None = None


class MessageFacts(Struct, frozen=True):
    """What the HTTP transport needs to know of a message; `version` and `name` are repeated in headers.

    Only a modern message has `version`. `cancels` is the id of the request that it cancels.
    """

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


class _NoticeParams(Struct, rename="camel"):
    uri: str = ""
    request_id: Key | None = None
    progress_token: Key | None = None
    progress: float = 0.0
    total: float | None = None
    message: str | None = None
    notifications: dict[str, object] = {}
    meta: dict[str, object] = msgspec.field(default_factory=dict, name="_meta")


_decode_envelope: Final = msgspec.json.Decoder(_ReceivedMessage).decode
_decode_notice: Final = msgspec.json.Decoder(_NoticeParams).decode


# Messages


def decode(message: bytes) -> Answer | Question | Notice | None:
    """Return a decoded message; None if the bytes are not a message."""
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
    """Return the body of an HTTP response as the answer to a request; an error without an id gets this one's."""
    message = decode(body)
    if not isinstance(message, Answer) or message.key == key:
        return None if message is None else body
    if message.error is None:
        return None
    return b'{"jsonrpc":"2.0","id":' + msgspec.json.encode(key) + b',"error":' + bytes(message.error) + b"}"


def facts_of(message: bytes) -> MessageFacts:
    """Return what the HTTP transport needs to know of a message."""
    envelope = _decode_envelope(message)
    params: dict[str, Any] = {} if envelope.params is ABSENT else msgspec.json.decode(envelope.params)
    method = envelope.method or ""
    version = eras.meta_of(params).get(eras.VERSION_KEY)
    return MessageFacts(
        method,
        envelope.id,
        version if isinstance(version, str) else None,
        headers.name_of(method, params),
        params.get("requestId") if method == CANCELLED else None,
    )


def agreed_version(answer: bytes) -> str | None:
    """Return the version in the answer to `initialize`, or None."""
    try:
        result = msgspec.json.decode(_decode_envelope(answer).result)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return None
    version = result.get("protocolVersion") if isinstance(result, dict) else None
    return version if isinstance(version, str) else None


def answered_key(head: bytes) -> Key | None:
    """Return the id in the first bytes of an answer that was too long to keep; ids in its result do not count."""
    spelled = find_id(head.partition(b'"result"')[0])
    return None if spelled is None else msgspec.json.decode(spelled, type=Key)


def _notice(method: str, params: Raw) -> Notice:
    try:
        given = _decode_notice(b"{}" if params is ABSENT else params)
    except msgspec.ValidationError:
        return Notice(method)
    key = given.progress_token if given.progress_token is not None else given.request_id
    subscription = given.meta.get(eras.SUBSCRIPTION_KEY)
    if isinstance(subscription, int | str):
        key = subscription
    uris = given.notifications.get("resourceSubscriptions")
    honoured = tuple(uri for uri in uris if isinstance(uri, str)) if isinstance(uris, list) else ()
    return Notice(method, key, given.uri, honoured, given.progress, given.total, given.message)


# Requests


def initialize() -> Params:
    """Return the parameters of the legacy handshake."""
    return {"protocolVersion": eras.LATEST_LEGACY, "capabilities": {}, "clientInfo": CLIENT_INFO}


def modern(params: Params) -> Params:
    """Return parameters with the `_meta` of every modern request; values that are already set stay."""
    return _with_meta(params, {**_MODERN_META, **eras.meta_of(params)})


def with_progress(params: Params, number: int) -> Params:
    """Return parameters that ask for progress under the number of the request."""
    return _with_meta(params, {**eras.meta_of(params), "progressToken": number})


def listing(cursor: str | None, prefix: str | None = None) -> Params:
    """Return the parameters for a page of a list; a Carrel then lists all URIs that begin with `prefix`."""
    params: dict[str, object] = {} if cursor is None else {"cursor": cursor}
    return params if prefix is None else _with_meta(params, {eras.PREFIX_KEY: prefix})


def read(uri: str, wanted: Range | None, condition: str | None) -> Params:
    """Return the parameters of a read, with a range and a condition if they are given."""
    params: dict[str, object] = {"uri": uri}
    if wanted is not None:
        params["start"] = wanted.start
        if wanted.length is not None:
            params["length"] = wanted.length
    return params if condition is None else _with_meta(params, {eras.CONDITION_KEY: condition})


def complete(reference: str, variable: str, value: str, context: Mapping[str, str]) -> Params:
    """Return the parameters of a completion."""
    params: dict[str, object] = {
        "ref": {"type": "ref/resource", "uri": reference},
        "argument": {"name": variable, "value": value},
    }
    return {**params, "context": {"arguments": dict(context)}} if context else params


def call(name: str, arguments: Mapping[str, object]) -> Params:
    """Return the parameters of a tool call."""
    return {"name": name, "arguments": dict(arguments)}


def listen(uris: Iterable[str], *, list_changes: bool) -> Params:
    """Return the parameters of a modern subscription."""
    wanted: dict[str, object] = {"resourceSubscriptions": list(uris)}
    return {"notifications": {**wanted, "resourcesListChanged": True} if list_changes else wanted}


def cancelled(number: int) -> Params:
    """Return the parameters that cancel a request."""
    return {"requestId": number}


def _with_meta(params: Params, meta: Mapping[str, object]) -> Params:
    return {**params, "_meta": meta}
