"""The messages the load clients send, encoded beforehand, and the checks that what came back is an answer to them."""

import json
from typing import Any, Final, Literal

Era = Literal["modern", "legacy"]

VERSIONS: Final[dict[Era, str]] = {"modern": "2026-07-28", "legacy": "2025-11-25"}
POOL: Final = 1_000
"""Requests encoded beforehand and sent round and round; their ids are 0 … POOL - 1."""

ENVELOPE: Final = {
    "io.modelcontextprotocol/protocolVersion": VERSIONS["modern"],
    "io.modelcontextprotocol/clientCapabilities": {},
}


class PeerError(Exception):
    """A server gave an answer that no working server gives, or none."""


def message(method: str, params: dict[str, Any], identity: int | None = None) -> bytes:
    """Encode one line: a request, or without identity a notification."""
    head: dict[str, Any] = {"jsonrpc": "2.0"} if identity is None else {"jsonrpc": "2.0", "id": identity}
    return json.dumps(head | {"method": method, "params": params}, separators=(",", ":")).encode() + b"\n"


def request(method: str, params: dict[str, Any], era: Era, identity: int = 0) -> bytes:
    """Encode a request as a client of that era sends it."""
    if era == "modern":
        params = {**params, "_meta": {**ENVELOPE, **params.get("_meta", {})}}
    return message(method, params, identity)


def discover() -> bytes:
    """Encode the question that opens a modern connection."""
    return request("server/discover", {}, "modern")


def initialize() -> bytes:
    """Encode the question that opens a legacy connection."""
    client = {"name": "bench", "version": "0"}
    return message("initialize", {"protocolVersion": VERSIONS["legacy"], "capabilities": {}, "clientInfo": client}, 0)


def initialized() -> bytes:
    """Encode what a legacy client says next."""
    return message("notifications/initialized", {})


def reads(uri: str, era: Era) -> tuple[bytes, ...]:
    """Encode a pool of reads of one URI."""
    return tuple(request("resources/read", {"uri": uri}, era, identity) for identity in range(POOL))


def identity_of(line: bytes) -> int:
    """Return the id of a request."""
    return int(json.loads(line)["id"])


def is_notification(line: bytes) -> bool:
    """Tell whether a server says this unasked: as that a list changed, to a client that listed before it was opened."""
    return line.startswith(b'{"method":"notifications/')


def check_line(line: bytes, identity: int) -> dict[str, Any]:
    """Check that a line is one message with this id; return it."""
    try:
        answer = json.loads(line)
    except ValueError as error:
        raise PeerError(f"not one message: {line[:200]!r}") from error
    if answer.get("id") != identity:
        raise PeerError(f"an answer to another request: {line[:200]!r}")
    return dict(answer)


def check_answer(line: bytes, identity: int) -> dict[str, Any]:
    """Check that a line is the result of that request; return the result."""
    answer = check_line(line, identity)
    if not isinstance(answer.get("result"), dict):
        raise PeerError(f"no result: {line[:400]!r}")
    return dict(answer["result"])
