"""MCP and plain HTTP as an attacker's client speaks them: by hand, every byte of every answer kept."""

import http.client
import json
import queue
import subprocess
import threading
from time import monotonic
from typing import IO, Any, Final
from urllib.parse import quote

from carrel.protocol.headers import encode_name
from tests.support.waiting import patience_s

MODERN: Final = "2026-07-28"
LEGACY: Final = "2025-11-25"
_META: Final = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "stranger", "version": "1"},
}


ANSWER_S: Final = 6.0
"""What is asked here takes milliseconds. The server's own deadline is 30 s; nothing may need it."""


class Late(Exception):
    """No answer came in time."""


class Conversation:
    """Requests to one server. `answers` is everything that it said."""

    def __init__(self, era: str) -> None:
        self.era = era
        self.answers: list[bytes] = []
        self._number = 0

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the answer, with its `result` or its `error`; raise `Late` where none comes."""
        self._number += 1
        told = {**params, "_meta": _META} if self.era == MODERN else params
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": told}
        answer = self._exchange(method, params, message)
        self.answers.append(answer)
        decoded: dict[str, Any] = json.loads(answer)
        return decoded

    def open(self) -> str:
        """Begin, and return the instructions."""
        if self.era == MODERN:
            answer = self.ask("server/discover", {})
        else:
            client = {"name": "stranger", "version": "1"}
            answer = self.ask("initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client})
        assert "result" in answer, answer
        return str(answer["result"].get("instructions", ""))

    def _exchange(self, method: str, params: dict[str, Any], message: dict[str, Any]) -> bytes:
        raise NotImplementedError


class Stdio(Conversation):
    """A conversation on a process's standard streams."""

    def __init__(self, era: str, process: "subprocess.Popen[bytes]") -> None:
        super().__init__(era)
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin: IO[bytes] = process.stdin
        self._lines: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._hear, args=(process.stdout,), daemon=True).start()

    def _hear(self, stdout: IO[bytes]) -> None:
        for line in stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def _exchange(self, method: str, params: dict[str, Any], message: dict[str, Any]) -> bytes:
        self._stdin.write(json.dumps(message).encode() + b"\n")
        self._stdin.flush()
        until = monotonic() + patience_s(ANSWER_S)
        while True:
            try:
                line = self._lines.get(timeout=max(0.01, until - monotonic()))
            except queue.Empty:
                raise Late(f"{method} {params.get('uri', '')}") from None
            if not line:
                raise Late(f"{method} {params.get('uri', '')}: the server ended")
            if json.loads(line).get("id") == message["id"]:
                return line
            self.answers.append(line)


class Http(Conversation):
    """A conversation over Streamable HTTP, and plain requests to the same server."""

    def __init__(self, port: int, token: str) -> None:
        super().__init__(MODERN)
        self._port = port
        self._headers = {"Authorization": f"Bearer {token}"}

    def get(self, path: str) -> None:
        """Make a plain request; keep the answer with its headers, after what was asked for."""
        status, headers, body = self._request("GET", path, {}, b"")
        self.answers.append(f"GET {path}\n{status} {headers}\n".encode() + body)

    def read_plainly(self, uri: str) -> None:
        """Ask for a resource in both ways that plain HTTP has."""
        self.get(f"/-/read?uri={quote(uri, safe='')}")
        scheme, separator, rest = uri.partition("://")
        if separator and uri.isascii() and uri.isprintable() and " " not in uri:
            self.get(f"/{scheme}/{rest.lstrip('/')}")

    def _exchange(self, method: str, params: dict[str, Any], message: dict[str, Any]) -> bytes:
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": MODERN,
            "Mcp-Method": method,
        }
        name = params.get("uri", params.get("name"))
        if method in ("resources/read", "tools/call") and isinstance(name, str):
            headers["Mcp-Name"] = encode_name(name)
        return self._request("POST", "/mcp", headers, json.dumps(message).encode())[2]

    def _request(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, str, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=patience_s(ANSWER_S))
        try:
            connection.request(method, path, body or None, {**self._headers, **headers})
            response = connection.getresponse()
            # A terabyte is refused by HTTP's own range rules, or sent as it is: a little of it is enough.
            return response.status, str(response.headers), response.read(4_000_000)
        except TimeoutError:
            raise Late(f"{method} {path}") from None
        finally:
            connection.close()
