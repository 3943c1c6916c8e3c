"""Messages and lines to fuzz with: valid ones, and what becomes of them when they are mutated.

Everything comes from one seeded `Source`, so a run can be repeated exactly.
"""

import copy
import json
import random
from collections.abc import Mapping
from typing import Any

from carrel.catalog.catalog import Catalog
from carrel.catalog.watcher import Watcher
from carrel.core.model import ToolResult
from carrel.core.provider import Call
from carrel.server.server import Server
from tests.support.memory_provider import Counted, Eventful, Gated, Memory, Shelf
from tests.support.schemas import LEGACY, MODERN, with_meta

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2026-07-28", "v9")
CHARACTERS = 'abz09/:?&=%#+{}[]"\\ \t\n\r\0\x7fé€😀\u2028\ufeff\uffff'

URIS = (
    *("test:///plain", "test:///pixel", "test:///a-guide", "test:///note/007", "test:///note/none"),
    *("test:///tree/", "test:///tree/a/b", "test:///tree/nothing/", "test:///query/a?tail=5", "test:///whole/x"),
    *("test:///part/1?start=2&length=3", "test:///stored/utf-16le", "test:///stored/png", "test:///big/9000"),
    *("test:///big/70000", "test:///error/denied", "test:///error/busy", "test:///error/content"),
    *("gated:///1", "gated:///gate/1", "counted:///1", "counted:///later", "eventful:///1", "shelf:///1"),
    *("test:///plain?start=1&length=1", "test:///plain?start=x", "TEST:///plain", "other:///x", "", "test:", ":"),
)
REFERENCES = ("test:///note/{id}", "test:///query/{id}{?tail,since}", "test:///error/{kind}", "gated:///{+path}", "x")


class Quick(Memory):
    """A Memory in which nothing waits."""

    def call(self, name: str, arguments: Mapping[str, object], call: Call) -> ToolResult:
        """Run a tool, but not the one that waits; count no further than a few."""
        if name == "count" and isinstance(to := arguments.get("to"), int) and to > 5:
            arguments = {"to": 5}
        return super().call("echo" if name == "wait" else name, arguments, call)


def make_server() -> Server:
    """Make a server with every kind of provider; small pages, small messages, no polling."""
    gated = Gated("gated", {"1": "one"})
    gated.open_gate()
    providers = (
        Quick(),
        gated,
        Counted("counted", {"1": "one"}),
        Eventful("eventful", {"1": "one"}),
        Shelf("shelf", {"1": "é" * 500}),
    )
    catalog = Catalog(providers, page_size=20, max_bytes=65_536)
    return Server(catalog, Watcher(catalog, poll_s=3_600.0))


class Source(random.Random):
    """A seeded source of messages and lines."""

    cursors: tuple[str, ...] = ("",)
    """Cursors the server gave out; tests add to them."""

    def one_in(self, chances: int) -> bool:
        """Return True once in a number of times, on average."""
        return self.randrange(chances) == 0

    def text(self, longest: int = 12) -> str:
        """Return some characters, of every difficult kind."""
        return "".join(self.choices(CHARACTERS, k=self.randrange(longest)))

    def scalar(self) -> Any:
        """Return a JSON scalar."""
        return self.choice(
            (
                *(None, True, False, 0, 1, -1, 7, 2**31, 2**63, -(2**64), 10**30, 0.5, -1e300, 1e-300),
                *("", "x", "1", MODERN, LEGACY, "ref/resource", "ref/prompt", "*", "count", "echo", "break"),
                *(self.text(), self.text(40), self.uri(), self.choice(self.cursors), "é" * self.randrange(300)),
            )
        )

    def value(self, depth: int = 3) -> Any:
        """Return any JSON value."""
        kind = self.randrange(8) if depth else 0
        if kind < 5:
            return self.scalar()
        if kind == 5:
            return [self.value(depth - 1) for _ in range(self.randrange(4))]
        if kind == 6:
            return {self.choice((self.text(), "uri", "id", "_meta")): self.value(depth - 1) for _ in range(3)}
        return self._nested()

    def _nested(self) -> Any:
        made: Any = 1
        for _ in range(self.choice((5, 50))):
            made = [made] if self.one_in(2) else {"a": made}
        return made

    def uri(self) -> str:
        """Return a URI: good, nearly good, or nothing of the kind."""
        uri = self.choice(URIS)
        while self.one_in(3):
            at = self.randrange(len(uri) + 1)
            piece = self.choice((self.text(4), "%", "%2F", "%00", "%FF", "%C3%A9", "?", "&start=1", "?length=2", "../"))
            uri = uri[:at] + piece + uri[at + self.randrange(3) :]
        return uri if not self.one_in(200) else uri + "x" * 10_000

    def request_id(self) -> int | str:
        """Return an id that is good."""
        return self.choice((self.randrange(10**6), -self.randrange(9), 10**20, self.text(), str(self.randrange(99))))

    def message(self) -> dict[str, Any]:
        """Return a valid message of either era: mostly requests, some notifications, a few answers."""
        if self.one_in(12):
            return self._notification()
        if self.one_in(60):
            answer: dict[str, Any] = self.choice(({"result": {}}, {"error": {"code": 1, "message": "x"}}))
            return {"jsonrpc": "2.0", "id": self.request_id(), **answer}
        version = self.choice((MODERN, LEGACY))
        method, params = self._call()
        meta = {"progressToken": self.choice((1, "p"))} if self.one_in(6) else {}
        if self.one_in(10):
            meta["dev.carrel/if-none-match"] = self.choice(("*", "g1", 'W/"x", "g1"', ""))
        return {
            "jsonrpc": "2.0",
            "id": self.request_id(),
            "method": method,
            "params": with_meta({**params, "_meta": meta}, version),
        }

    def _notification(self) -> dict[str, Any]:
        method = self.choice(("notifications/initialized", "notifications/cancelled", "notifications/x", "ping"))
        params = {"requestId": self.request_id()} if method == "notifications/cancelled" else {}
        return {"jsonrpc": "2.0", "method": method, "params": params}

    def _call(self) -> tuple[str, dict[str, Any]]:
        """Return a method and its parameters: every second time a read."""
        match self.randrange(12):
            case 0:
                return self._opening()
            case 1 | 2:
                return self._listing()
            case 3:
                return self.choice(("resources/subscribe", "resources/unsubscribe")), {"uri": self.uri()}
            case 4:
                wanted = {"resourcesListChanged": self.one_in(2), "resourceSubscriptions": [self.uri()]}
                return "subscriptions/listen", {"notifications": wanted}
            case 5:
                name = self.choice(("count", "echo", "fail", "break", "link", "wait", "none"))
                return "tools/call", {"name": name, "arguments": {"to": self.randrange(4)}}
            case 6:
                return "resources/read", {"uri": self.uri(), "start": self.randrange(20), "length": self.randrange(9)}
            case _:
                return "resources/read", {"uri": self.uri()}

    def _opening(self) -> tuple[str, dict[str, Any]]:
        match self.randrange(3):
            case 0:
                return "server/discover", {}
            case 1:
                return "initialize", {"protocolVersion": self.choice(VERSIONS), "capabilities": {}}
            case _:
                return self.choice(("ping", "logging/setLevel", "prompts/list", self.text())), {}

    def _listing(self) -> tuple[str, dict[str, Any]]:
        match self.randrange(3):
            case 0:
                reference = {"type": "ref/resource", "uri": self.choice(REFERENCES)}
                return "completion/complete", {"ref": reference, "argument": {"name": "id", "value": self.text(3)}}
            case 1:
                return "resources/list", {"page": self.randrange(3), "pageSize": self.randrange(9)}
            case _:
                method = self.choice(("resources/list", "resources/templates/list", "tools/list"))
                return method, {"cursor": self.choice(self.cursors)} if self.one_in(2) else {}

    def mutated(self, message: Any) -> Any:
        """Change a message somewhere, a few times."""
        made = copy.deepcopy(message)
        for _ in range(self.choice((1, 1, 1, 2, 3))):
            made = self._changed(made)
        return made

    def _changed(self, value: Any) -> Any:
        """Go down into a value and change something there."""
        if isinstance(value, dict) and value and not self.one_in(12):
            key = self.choice(tuple(value))
            match self.randrange(8):
                case 0:
                    del value[key]
                case 1:
                    value[self.choice((self.text(), "id", "uri", "_meta", "method", "result", "error"))] = self.value()
                case 2:
                    value[self.text()] = value.pop(key)
                case 3:
                    value[key] = self.value()
                case _:
                    value[key] = self._changed(value[key])
            return value
        if isinstance(value, list) and value and self.one_in(2):
            at = self.randrange(len(value))
            value[at] = self._changed(value[at])
            return value
        if isinstance(value, str) and self.one_in(2):
            at = self.randrange(len(value) + 1)
            return value[:at] + self.text(4) + value[at + self.randrange(3) :]
        return self.choice((self.value(), [value], {"a": value}, None))

    def garbled(self, line: bytes) -> bytes:
        """Change the bytes of a line, or give bytes that never were one; never with a line end inside."""
        match self.randrange(12):
            case 0:
                made = line[: self.randrange(len(line) + 1)]
            case 1:
                made = line[self.randrange(len(line) + 1) :]
            case 2:
                made = self.randbytes(self.randrange(80))
            case 3:
                made = self.choice(DEVICES)
            case 4:
                made = line + self.choice((line, b"}", b"\0", b",", b"//"))
            case 5:
                opening = self.choice((b"[", b'{"a":', b'[{"jsonrpc":"2.0","id":1,"params":'))
                made = opening * self.choice((10, 500, 5_000))
            case 6:
                made = line.replace(b'"2.0"', self.choice((b"2.0", b'"2.\\u0030"', b"null", b'"\\ud800"')))
            case _:
                made = self._flipped(line)
        return made.replace(b"\n", b"")

    def _flipped(self, line: bytes) -> bytes:
        made = bytearray(line)
        for _ in range(self.choice((1, 2, 5))):
            at = self.randrange(len(made) + 1)
            made[at : at + self.randrange(3)] = self.choice((b"", self.randbytes(1), self.choice(TOKENS)))
        return bytes(made)


TOKENS = (
    b'"',
    b"\\",
    b"\\u",
    b"\\ud800",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\0",
    b"\xff",
    b"\xc3",
    b"-",
    b"1e999",
    b" ",
)
DEVICES = (
    b'{"jsonrpc":"2.0","id":' + b"9" * 5_000 + b',"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1e400,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":-,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":' + b"9" * 50_000 + b"}}",
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":1e999999}}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\\u12',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\\ud83d\\u0041"}}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\xed\xa0\x80"}}',
    b'{"jsonrpc":"2.0","id":"\xff","method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping","method":"x"}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled"}',
    b"\xef\xbb\xbf{}",
    b"\xff\xfe{\0}\0",
    b"GET / HTTP/1.1",
    b"Content-Length: 5\r",
    b"[]",
    b"[[]]",
    b"null",
    b"\0",
    b"\x1b[31m",
)


def encode(source: Source, message: Any) -> bytes:
    """Spell a value as one line, in one of the ways JSON allows."""
    spaced = (", ", ": ") if source.one_in(3) else (",", ":")
    return json.dumps(message, ensure_ascii=source.one_in(2), separators=spaced).encode()
