"""Every message Carrel sends, held against the official JSON Schema of its version.

`check` validates one message; `Conversation` is a client in this process that checks all it is told. The schemas let
unknown keys through, so the rules of ours that they cannot see (what a legacy answer must not carry, one of `text` and
`blob`, no key twice) are checked here as well.
"""

import json
import queue
from base64 import b64decode
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from carrel.core.version import __version__
from carrel.protocol.framing import OverLong
from carrel.server.connection import Connection
from carrel.server.requests import Work
from carrel.server.server import Server
from tests.support.waiting import PATIENCE_S

FOLDER = Path(__file__).parents[1] / "schema"
MODERN = "2026-07-28"
LEGACY = "2025-11-25"
OLDER = ("2025-06-18", "2025-03-26", "2024-11-05")
"""Legacy versions without a schema here; for what Carrel sends they are subsets of the later one."""


SERVER_INFO = {"io.modelcontextprotocol/serverInfo": {"name": "carrel", "title": "Carrel", "version": __version__}}
HINTS = {"ttlMs", "cacheScope"}
CACHED = frozenset(
    {
        "server/discover",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "tools/list",
        "skills/list",
        "skills/get",
        "resources/directory/read",
    }
)
"""Methods whose modern results carry cache hints; the others must not."""

RESULTS = {
    "initialize": "InitializeResult",
    "ping": "EmptyResult",
    "server/discover": "DiscoverResult",
    "resources/list": "ListResourcesResult",
    "resources/templates/list": "ListResourceTemplatesResult",
    "resources/read": "ReadResourceResult",
    "resources/subscribe": "EmptyResult",
    "resources/unsubscribe": "EmptyResult",
    "subscriptions/listen": "SubscriptionsListenResult",
    "completion/complete": "CompleteResult",
    "tools/list": "ListToolsResult",
    "tools/call": "CallToolResult",
    "resources/directory/read": "ReadResourceDirectoryResult",
    "skills/list": "ListSkillsResult",
    "skills/get": "GetSkillResult",
}
NOTIFICATIONS = {
    "notifications/progress": "ProgressNotification",
    "notifications/resources/updated": "ResourceUpdatedNotification",
    "notifications/resources/list_changed": "ResourceListChangedNotification",
    "notifications/tools/list_changed": "ToolListChangedNotification",
    "notifications/subscriptions/acknowledged": "SubscriptionsAcknowledgedNotification",
}
MODERN_ERRORS = {
    -32700: "ParseError",
    -32600: "InvalidRequestError",
    -32601: "MethodNotFoundError",
    -32602: "InvalidParamsError",
    -32603: "InternalError",
}


@cache
def definitions(version: str) -> Mapping[str, Any]:
    """Return the types of a version, and those of the skills extension."""
    known = version if version in (MODERN, LEGACY) else LEGACY
    found = [json.loads((FOLDER / f"{name}.json").read_text("utf-8"))["$defs"] for name in (known, "skills")]
    return {**found[0], **found[1]}


@cache
def validator(version: str, name: str) -> Draft202012Validator:
    """Return the validator of one type, made once."""
    if version in OLDER:
        return validator(LEGACY, name)
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": definitions(version)})


def check(message: bytes, version: str, method: str | None) -> Any:
    """Return a message as a value, or fail: it is the result of `method`, an error or a notification."""
    value = parse(message)
    if isinstance(value, list):
        raise AssertionError(f"a batch is checked element by element: {message!r}")
    assert value.get("jsonrpc") == "2.0", message
    # The laws ask the same things over and over: what differs from a checked message in nothing but its id is sound.
    alike = json.dumps({**value, "id": type(value["id"]).__name__} if "id" in value else value)
    known = sha256(alike.encode(errors="surrogatepass")).digest(), version, repr(method)
    if known not in _SOUND:
        _check_value(value, version, method)
        _SOUND.add(known)
    return value


_SOUND: set[tuple[bytes, str, str | None]] = set()


def _check_value(value: dict[str, Any], version: str, method: str | None) -> None:
    if "method" in value:
        _check_notification(value, version)
    elif "error" in value:
        _check_error(value, version)
    else:
        assert method is not None, f"a result nobody asked for: {value}"
        _check_result(value, version, method)


def parse(message: bytes) -> Any:
    """Read one line of strict JSON: UTF-8, no NaN, no key twice, no line end inside."""
    assert b"\n" not in message, message
    return json.loads(message.decode(), object_pairs_hook=_object, parse_constant=_no_constant)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    assert len(made) == len(pairs), f"a key stands twice: {pairs}"
    return made


def _no_constant(text: str) -> Any:
    raise AssertionError(f"{text} is not JSON")


def _validate(value: object, version: str, name: str) -> None:
    error = next(validator(version, name).iter_errors(value), None)
    assert error is None, f"not a {name} of {version}: {error.message} at {error.json_path}"


def _check_notification(value: dict[str, Any], version: str) -> None:
    assert set(value) <= {"jsonrpc", "method", "params"}, value
    _validate(value, version, NOTIFICATIONS[value["method"]])
    subscription = value.get("params", {}).get("_meta", {}).get("io.modelcontextprotocol/subscriptionId")
    is_modern_only = value["method"] != "notifications/progress"
    assert (subscription is not None) == (version == MODERN and is_modern_only), value


def _check_error(value: dict[str, Any], version: str) -> None:
    assert set(value) <= {"jsonrpc", "id", "error"}, value
    _validate(value, version, "JSONRPCErrorResponse")
    error = value["error"]
    assert "\n" not in error["message"], value
    if version != MODERN:
        return
    assert error["code"] not in (-32002, -32042), value
    if error["code"] in MODERN_ERRORS:
        _validate(error, version, MODERN_ERRORS[error["code"]])
    elif error["code"] == -32022:
        _validate(value, version, "UnsupportedProtocolVersionError")


def _check_result(value: dict[str, Any], version: str, method: str) -> None:
    assert set(value) == {"jsonrpc", "id", "result"}, value
    _validate(value, version, "JSONRPCResultResponse")
    result = value["result"]
    _validate(result, version, RESULTS[method])
    if version == MODERN:
        assert result["resultType"] == "complete", value
        assert SERVER_INFO.items() <= result["_meta"].items(), value
        assert set(result) & HINTS == (HINTS if method in CACHED else set()), value
    else:
        assert not set(result) & {"resultType", *HINTS}, value
        assert not SERVER_INFO.keys() & result.get("_meta", {}).keys(), value
    if method == "resources/read":
        _check_contents(result["contents"])


def _check_contents(contents: list[dict[str, Any]]) -> None:
    for item in contents:
        assert ("text" in item) != ("blob" in item), item
        if "blob" in item:
            b64decode(item["blob"], validate=True)


def meta_of(version: str) -> dict[str, object]:
    """Return the `_meta` a client of this version sends with every request."""
    if version != MODERN:
        return {}
    return {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    }


def with_meta(params: Mapping[str, Any] | None, version: str) -> dict[str, Any]:
    """Return the parameters as a client of this version sends them."""
    given = dict(params or {})
    meta = {**meta_of(version), **given.get("_meta", {})}
    return {**given, "_meta": meta} if meta else given


class Conversation:
    """A client in this process. Every answer, and everything told unasked, is checked."""

    def __init__(self, server: Server) -> None:
        self._connection: Connection = server.connect(self._take)
        self._told: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._ids = count(1)

    def _take(self, message: bytes) -> None:
        self._told.put(message)

    def accept(self, line: bytes | OverLong) -> bytes | Work | None:
        """Return a line to the connection, and nothing more."""
        return self._connection.accept(line)

    def say(self, line: bytes | OverLong) -> bytes | None:
        """Return a line to the connection and do the work it may make; return what is answered, unchecked."""
        given = self._connection.accept(line)
        return given.run() if isinstance(given, Work) else given

    def begin(self, method: str, params: Mapping[str, Any] | None = None, **how: Any) -> bytes | Work | None:
        """Send a request and give what the connection gave; the work is not done yet."""
        return self._connection.accept(self.request(method, params, **how))

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        version: str = MODERN,
        request_id: int | str | None = None,
    ) -> bytes:
        """Spell a request."""
        number = next(self._ids) if request_id is None else request_id
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": with_meta(params, version)}
        return json.dumps(message).encode()

    def ask(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        version: str = MODERN,
        request_id: int | str | None = None,
    ) -> Any:
        """Send a request; return its answer: the `result`, or the `error`."""
        line = self.request(method, params, version=version, request_id=request_id)
        given = self.say(line)
        assert given is not None, f"not answered: {line!r}"
        answer = check(given, version, method)
        assert answer["id"] == json.loads(line)["id"]
        return answer["result"] if "result" in answer else answer["error"]

    def tell(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification, which is never answered."""
        message = {"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})}
        assert self._connection.accept(json.dumps(message).encode()) is None

    def open(self, version: str = LEGACY) -> None:
        """Do the legacy handshake."""
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}
        assert self.ask("initialize", params, version=LEGACY)["protocolVersion"] == version
        self.tell("notifications/initialized")

    def listen(self, wanted: Mapping[str, Any], request_id: int | str = "listen") -> Any:
        """Begin a modern subscription; return what was acknowledged."""
        assert self.say(self.request("subscriptions/listen", {"notifications": wanted}, request_id=request_id)) is None
        told = self.told()
        assert told["method"] == "notifications/subscriptions/acknowledged", told
        assert told["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": request_id}
        return told["params"]["notifications"]

    def told(self, version: str = MODERN, method: str | None = None) -> Any:
        """Wait for the next message nobody asked for, or that was answered out of turn; return it checked."""
        return check(self._told.get(timeout=PATIENCE_S), version, method)

    def is_silent(self) -> bool:
        """Return whether nothing is waiting to be heard; for what can only have been told before now."""
        return self._told.empty()

    def close(self) -> list[Any]:
        """End the conversation; return the results that end its subscriptions."""
        return [check(ending, MODERN, "subscriptions/listen") for ending in self._connection.close()]
