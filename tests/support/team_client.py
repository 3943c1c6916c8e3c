"""A caller of a team desk, over real sockets: each request has a connection of its own, as a balancer gives it."""

import http.client
import json
import threading
from itertools import count
from typing import Any

from tests.support.http_asking import INITIALIZE, JSON, legacy, modern, modern_headers


class TeamClient:
    """One caller."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._numbers = count(1)
        self.session = ""

    def post(self, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, str], Any]:
        """Post one message; return the status, the headers and the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            connection.request("POST", "/mcp", body, headers)
            response = connection.getresponse()
            text = response.read()
            return response.status, dict(response.getheaders()), json.loads(text) if text else None
        finally:
            connection.close()

    def open(self) -> None:
        """Open a legacy session."""
        status, headers, _ = self.post(legacy("initialize", INITIALIZE), JSON)
        assert status == 200
        self.session = headers["mcp-session-id"]

    def call(self, method: str, params: dict[str, object]) -> Any:
        """Send one request of the session; return its result."""
        number = next(self._numbers)
        message = legacy(method, params, request_id=number)
        status, _, answer = self.post(message, {**JSON, "mcp-session-id": self.session})
        assert (status, answer["id"]) == (200, number), answer
        return answer["result"]

    def read(self, uri: str) -> str:
        """Read a resource in the modern era; return its text."""
        number = next(self._numbers)
        message = modern("resources/read", {"uri": uri}, request_id=number)
        status, _, answer = self.post(message, modern_headers("resources/read", uri))
        assert (status, answer["id"]) == (200, number), answer
        text: str = answer["result"]["contents"][0]["text"]
        return text


def follow(port: int, client: TeamClient, uri: str, seen: list[str], cuts: list[str], ended: threading.Event) -> None:
    """Follow the stream of a session as a client does: at each notification it reads, and after a cut it resumes."""
    last_event = ""
    while not ended.is_set():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        resumed = {"last-event-id": last_event} if last_event else {}
        try:
            headers = {"accept": "text/event-stream", "mcp-session-id": client.session, **resumed}
            connection.request("GET", "/mcp", headers=headers)
            response = connection.getresponse()
            while not ended.is_set() and (line := response.readline()):
                if line.startswith(b"id: "):
                    last_event = line[4:].strip().decode()
                elif line.startswith(b"data: ") and b"resources/updated" in line:
                    seen.append(TeamClient(port).read(uri))
            if not ended.is_set():
                cuts.append(last_event)
        except TimeoutError:
            continue
        except (OSError, http.client.HTTPException):
            cuts.append(last_event)
        finally:
            connection.close()
