"""HTTP requests that end in time: one deadline for all of a request, a limit for the body, and no redirect followed.

A redirect is an answer like any other, so that no credential ever goes to another host than the configured one.
Connections are kept and used again. Proxies are taken from the environment, as everywhere.
"""

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from time import monotonic
from typing import Final
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

from carrel.core.loopback import is_loopback
from carrel.core.record import Value, replace

CONNECT_S: Final = 3.0
MAX_ERROR_BYTES: Final = 65_536
MAX_IDLE: Final = 8
IDLE_S: Final = 15.0
"""How long a connection is kept: stores close idle ones after 20 s and more."""
_CHUNK: Final = 1 << 18


class HttpUnanswered(Exception):
    """The other side did not answer, or not in time."""

    def __init__(self, *, is_late: bool) -> None:
        super().__init__("no answer in time" if is_late else "no answer")
        self.is_late = is_late


class HttpAnswer(Value, frozen=True):
    """An answer: its status, its headers with names in lower case, and its body as far as it was wanted."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_cut: bool = False


class _HttpLine(Value, frozen=True):
    """A connection, its socket, whether a proxy is to be given whole URLs, and when it was last used."""

    connection: HTTPConnection
    socket: socket.socket
    is_forwarded: bool
    used_at: float = 0.0

    def limit(self, until: float) -> None:
        """Let the next wait end in time."""
        self.socket.settimeout(max(0.01, until - monotonic()))

    def cut(self) -> None:
        """End every wait of another thread for this connection."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)


class BoundedHttp:
    """Sends GET requests to one host."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._idle: deque[_HttpLine] = deque()

    def get(self, url: str, headers: Mapping[str, str], most: int) -> HttpAnswer:
        """Return the answer with at most `most` bytes of its body; raise `HttpUnanswered`."""
        until = monotonic() + self._timeout_s
        parts = urlsplit(url)
        while True:
            line = self._taken()
            is_kept = line is not None
            try:
                line = line or _connect(parts, min(CONNECT_S, self._timeout_s))
                return self._ask(line, parts, headers, most, until)
            except (OSError, HTTPException, ValueError) as error:
                if line is not None:
                    line.connection.close()
                is_late = isinstance(error, TimeoutError) or monotonic() >= until
                if not is_kept or is_late:  # a kept connection may have been closed by the other side meanwhile
                    raise HttpUnanswered(is_late=is_late) from None

    def close(self) -> None:
        """Close the connections that are not in use."""
        while (line := self._taken()) is not None:
            line.connection.close()

    def _taken(self) -> _HttpLine | None:
        """Return a connection that is kept, if there is one."""
        while self._idle:
            try:
                line = self._idle.pop()
            except IndexError:  # another thread took the last one
                return None
            if monotonic() - line.used_at < IDLE_S:
                return line
            line.connection.close()
        return None

    def _ask(
        self, line: _HttpLine, parts: SplitResult, headers: Mapping[str, str], most: int, until: float
    ) -> HttpAnswer:
        # A server that sends one byte now and then passes every timeout of a socket, so the connection is cut.
        alarm = threading.Timer(max(0.0, until - monotonic()), line.cut)
        alarm.daemon = True
        alarm.start()
        connection = line.connection
        try:
            target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
            if line.is_forwarded:
                target = f"{parts.scheme}://{parts.netloc}{target}"
            line.limit(until)
            connection.request("GET", target, headers={"Accept-Encoding": "identity", **headers})
            response = connection.getresponse()
            is_error = response.status not in (200, 206)
            body, is_cut = _read(line, response, MAX_ERROR_BYTES if is_error else most, until)
        finally:
            alarm.cancel()
        if monotonic() >= until:  # the alarm may have made the end of what was read
            raise TimeoutError
        if not is_error and response.getheader("content-length") is None and not response.chunked:
            raise HTTPException  # where it ends cannot be told from a connection that broke
        if is_cut or response.will_close or not response.isclosed() or len(self._idle) >= MAX_IDLE:
            connection.close()
        else:
            self._idle.append(replace(line, used_at=monotonic()))
        return HttpAnswer(response.status, {k.lower(): v for k, v in response.getheaders()}, body, is_cut)


def _connect(parts: SplitResult, timeout_s: float) -> _HttpLine:
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    host = parts.hostname or ""
    proxy = "" if is_loopback(host) or proxy_bypass(host) else getproxies().get(parts.scheme, "")
    if proxy:
        through = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        connection = kind(through.hostname or "", through.port, timeout=timeout_s)
        if parts.scheme == "https":
            connection.set_tunnel(host, parts.port)
    else:
        connection = kind(host, parts.port, timeout=timeout_s)
    connection.connect()
    return _HttpLine(connection, connection.sock, bool(proxy) and parts.scheme == "http")


def _read(line: _HttpLine, response: HTTPResponse, most: int, until: float) -> tuple[bytes, bool]:
    """Return the body, at most `most` bytes of it, and whether there is more."""
    parts: list[bytes] = []
    size = 0
    while size <= most:
        line.limit(until)
        part = response.read1(min(_CHUNK, most + 1 - size))
        if not part:
            break
        parts.append(part)
        size += len(part)
    expected = response.getheader("content-length")
    body = b"".join(parts)
    if size <= most and expected is not None and expected.isdecimal() and size < int(expected):
        raise HTTPException  # the connection ended too early
    return body[:most], size > most
