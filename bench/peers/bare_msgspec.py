"""A peer: the limit in Python, a loop around msgspec that answers and does nothing else.

    python bench/peers/bare_msgspec.py SIZE

No routes, no checks, no errors. What Carrel costs beyond this is what Carrel does. Every answer is encoded anew.
"""

import os
import sys

from msgspec import UNSET, Struct, UnsetType, field
from msgspec.json import Decoder, Encoder

INFO = {"name": "bare-msgspec", "version": "0"}
MODERN = {"_meta": {"io.modelcontextprotocol/serverInfo": INFO}, "resultType": "complete"}
HINTS = {"ttlMs": 0, "cacheScope": "private"}


class Meta(Struct):
    """The part of `_meta` that tells the eras apart."""

    version: str | UnsetType = field(default=UNSET, name="io.modelcontextprotocol/protocolVersion")


class Params(Struct):
    """The parameters that matter here."""

    uri: str = ""
    meta: Meta | UnsetType = field(default=UNSET, name="_meta")


class Request(Struct):
    """A request, or a notification when it has no id."""

    method: str
    id: int | str | None = None
    params: Params = field(default_factory=Params)


def result_of(request: Request, text: str) -> dict[str, object]:
    """Answer the three methods that the harness uses."""
    match request.method:
        case "resources/read":
            result: dict[str, object] = {
                "contents": [{"uri": request.params.uri, "mimeType": "text/plain", "text": text}]
            }
        case "initialize":
            result = {"protocolVersion": "2025-11-25", "capabilities": {"resources": {}}, "serverInfo": INFO}
        case _:
            result = {"supportedVersions": ["2026-07-28"], "capabilities": {"resources": {}}}
    return result if request.params.meta is UNSET else {**MODERN, **HINTS, **result}


def serve(text: str) -> None:
    """Answer every line of standard input until it ends."""
    decode = Decoder(Request).decode
    encode = Encoder().encode
    rest = b""
    while chunk := os.read(0, 65_536):
        *lines, rest = (rest + chunk).split(b"\n")
        requests = [decode(line) for line in lines]
        answers = [
            encode({"jsonrpc": "2.0", "id": request.id, "result": result_of(request, text)}) + b"\n"
            for request in requests
            if request.id is not None
        ]
        write_all(b"".join(answers))


def write_all(output: bytes) -> None:
    """Write everything; a pipe may take less than it is given."""
    view = memoryview(output)
    while view:
        view = view[os.write(1, view) :]


if __name__ == "__main__":
    serve("x" * int(sys.argv[1]))
