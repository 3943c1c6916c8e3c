"""A peer: the limit in Python, msgspec in a loop that answers and does nothing else.

    python bench/peers/bare.py FOLDER ENTRIES PORT

No routes, no checks, no errors. What Carrel costs beyond this is what Carrel does. Every answer is encoded anew. Over
HTTP it is the smallest application that uvicorn can run.
"""

import os
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import UNSET, Struct, UnsetType, field
from msgspec.json import Decoder, Encoder

from bench.peers.served import (
    CONDITION,
    ETAG,
    PAGE,
    STATUS,
    TEMPLATES,
    TEXT_TYPE,
    Folder,
    Options,
    entries,
    options,
    type_of,
)

INFO = {"name": "bare", "version": "0"}
MODERN = {"_meta": {"io.modelcontextprotocol/serverInfo": INFO}, "resultType": "complete"}
HINTS = {"ttlMs": 0, "cacheScope": "private"}
CAPABILITIES: dict[str, object] = {"resources": {}}

Result = dict[str, object]


class Meta(Struct):
    """The parts of `_meta` that matter here."""

    version: str | UnsetType = field(default=UNSET, name="io.modelcontextprotocol/protocolVersion")
    condition: str | UnsetType = field(default=UNSET, name=CONDITION)


class Params(Struct):
    """The parameters that matter here."""

    uri: str = ""
    cursor: str = "0"
    meta: Meta = field(default_factory=Meta, name="_meta")


class Request(Struct):
    """A request, or a notification when it has no id."""

    method: str
    id: int | str | None = None
    params: Params = field(default_factory=Params)


class Entry(Struct, rename="camel", gc=False):
    """An entry of the list."""

    uri: str
    name: str
    description: str
    mime_type: str = TEXT_TYPE


class Loop:
    """Answers one message after the other."""

    def __init__(self, given: Options) -> None:
        self._folder = Folder(given.folder)
        self._entries = [Entry(*entry) for entry in entries(given.entries)]
        self._templates = [{"uriTemplate": template, "name": template.split("/")[2]} for template in TEMPLATES]
        self._decode = Decoder(Request).decode
        self._encode = Encoder().encode

    def answer(self, line: bytes) -> bytes | None:
        """Answer a request; a notification gets nothing."""
        request = self._decode(line)
        if request.id is None:
            return None
        return self._encode({"jsonrpc": "2.0", "id": request.id, "result": self._result(request)})

    def _result(self, request: Request) -> Result:
        match request.method:
            case "resources/read":
                result = self._read(request.params)
            case "resources/list":
                result = self._list(int(request.params.cursor))
            case "resources/templates/list":
                result = {"resourceTemplates": self._templates}
            case "initialize":
                result = {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": INFO}
            case _:
                result = {"supportedVersions": ["2026-07-28"], "capabilities": CAPABILITIES}
        return result if request.params.meta.version is UNSET else {**MODERN, **HINTS, **result}

    def _read(self, params: Params) -> Result:
        item: Result = {"uri": params.uri, "mimeType": type_of(params.uri)}
        if params.meta.condition is not UNSET:
            etag = self._folder.etag(params.uri)
            item["_meta"] = {ETAG: etag}
            if params.meta.condition == etag:
                return {"contents": [item | {"text": "", "_meta": {ETAG: etag, STATUS: 304}}]}
        data = self._folder.read(params.uri)
        item["text" if isinstance(data, str) else "blob"] = data
        return {"contents": [item]}

    def _list(self, start: int) -> Result:
        end = start + PAGE
        page: Result = {"resources": self._entries[start:end]}
        return page | {"nextCursor": str(end)} if end < len(self._entries) else page


def serve_stdio(loop: Loop) -> None:
    """Answer every line of standard input until it ends."""
    rest = b""
    while chunk := os.read(0, 65_536):
        *lines, rest = (rest + chunk).split(b"\n")
        write_all(b"".join([answer + b"\n" for line in lines if (answer := loop.answer(line)) is not None]))


def write_all(output: bytes) -> None:
    """Write everything; a pipe may take less than it is given."""
    written = os.write(1, output) if output else 0
    while written < len(output):
        written += os.write(1, memoryview(output)[written:])


def serve_http(loop: Loop, port: int) -> None:
    """Answer every POST, whatever its path."""
    import uvicorn

    async def app(_: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]) -> None:
        event = await receive()
        body = event["body"]
        while event["more_body"]:
            event = await receive()
            body += event["body"]
        answer = loop.answer(body) or b""
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": 200 if answer else 202, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    uvicorn.run(app, port=port, http="httptools", loop="uvloop", lifespan="off", log_config=None, access_log=False)


if __name__ == "__main__":
    given = options()
    if given.port:
        serve_http(Loop(given), given.port)
    else:
        serve_stdio(Loop(given))
