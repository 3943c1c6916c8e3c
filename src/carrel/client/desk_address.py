"""The plain HTTP of another desk: requests other than MCP, such as the lines of a log."""

import http.client
import json
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from carrel.client.http import FAILURES, in_words
from carrel.core.errors import ConfigError, Unreachable
from carrel.core.loopback import is_in_clear
from carrel.protocol.jsonrpc import INTERNAL_ERROR

TIMEOUT_S: Final = 10.0
_MAX_ANSWER: Final = 1 << 16
_RETRYABLE: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which the same request may succeed later."""


class RefusedByDesk(ConfigError):
    """The desk answered that it will not do this, now or later."""


class DeskAddress:
    """Where a desk is, and the token for it. One thread uses it at a time."""

    def __init__(self, url: str, token: str | None) -> None:
        """Check an address; nothing is sent yet."""
        parts = urlsplit(url)
        try:
            self._port = parts.port
        except ValueError:
            raise ConfigError(f"--to {url}: the port is not a number") from None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ConfigError(f"--to {url}: write the address of the desk as https://desk.example")
        if parts.username is not None or parts.password is not None:
            raise ConfigError("--to: a token does not belong in the address; put it in the variable CARREL_TOKEN")
        if is_in_clear(parts):
            raise ConfigError(f"--to {url}: the token and the log would be sent unencrypted; use https")
        self._is_secure = parts.scheme == "https"
        self._host = parts.hostname
        self._path = parts.path.rstrip("/").removesuffix("/mcp")
        self._token = (token or "").strip() or None
        self._connection: http.client.HTTPConnection | None = None

    @property
    def name(self) -> str:
        """The host and port, for messages."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return host if self._port is None else f"{host}:{self._port}"

    def post(self, path: str, body: bytes) -> Mapping[str, object]:
        """Send lines of JSON and return the answer.

        Raise `Unreachable` if another try may help, else `RefusedByDesk`.
        """
        headers = {"Content-Type": "application/x-ndjson"}
        if self._token is not None and re.fullmatch("[!-~]+", self._token) is None:
            raise RefusedByDesk("CARREL_TOKEN holds blanks or characters that no token has")
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            status, answer = self._exchange(path, body, headers)
        except FAILURES as error:
            self.close()
            raise Unreachable(INTERNAL_ERROR, f"cannot reach {self.name}: {in_words(error)}") from None
        found = _parsed(answer)
        if status == 200:
            return found
        reason = str(found.get("error") or f"it answered with the status {status}")
        if status in _RETRYABLE:
            raise Unreachable(INTERNAL_ERROR, f"{self.name} cannot take it now: {reason}")
        raise RefusedByDesk(f"{self.name} refused it: {reason}{self._advice(status)}")

    def _advice(self, status: int) -> str:
        if status == 401:
            return "; set CARREL_TOKEN to a token of that desk" if self._token is None else "; see CARREL_TOKEN"
        return ""

    def _exchange(self, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        """Send on the open connection, or on a new one if it was closed meanwhile."""
        is_old = self._connection is not None
        try:
            return self._send(path, body, headers)
        except (http.client.RemoteDisconnected, ConnectionError):
            self.close()
            if not is_old:
                raise
        return self._send(path, body, headers)

    def _send(self, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        if self._connection is None:
            kind = http.client.HTTPSConnection if self._is_secure else http.client.HTTPConnection
            self._connection = kind(self._host, self._port, timeout=TIMEOUT_S)
        self._connection.request("POST", self._path + path, body, headers)
        response = self._connection.getresponse()
        answer = response.read(_MAX_ANSWER)
        if response.will_close or not response.isclosed():
            self.close()
        return response.status, answer

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _parsed(answer: bytes) -> Mapping[str, object]:
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
