"""Send HTTP requests with one deadline for the whole request and a limit for the body; follow no redirects.

A redirect is returned like any other answer, so that no credential is sent to another host than the configured one.
Connections are kept and used again. Proxies are taken from the environment.
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
    """An answer: its status, its headers with names in lower case, and its body, cut to the requested size."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_cut: bool = False


class _OpenConnection(Value, frozen=True):
    """A connection, its socket, whether it leads to a proxy that needs whole URLs, and when it was last used."""

    connection: HTTPConnection
    socket: socket.socket
    is_forwarded: bool
    used_at: float = 0.0

    def limit(self, until: float) -> None:
        """Set the timeout of the socket to the time that is left."""
        self.socket.settimeout(max(0.01, until - monotonic()))

    def cut(self) -> None:
        """Shut the socket down, so that a thread that waits for it continues."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)


class BoundedHttp:
    """Sends GET requests to one host."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._idle: deque[_OpenConnection] = deque()

    def get(self, url: str, headers: Mapping[str, str], most: int) -> HttpAnswer:
        """Return the answer with at most `most` bytes of its body; raise `HttpUnanswered`."""
        until = monotonic() + self._timeout_s
        parts = urlsplit(url)
        while True:
            opened = self._take_idle()
            is_kept = opened is not None
            try:
                opened = opened or _connect(parts, min(CONNECT_S, self._timeout_s))
                return self._ask(opened, parts, headers, most, until)
            except (OSError, HTTPException, ValueError) as error:
                if opened is not None:
                    opened.connection.close()
                is_late = isinstance(error, TimeoutError) or monotonic() >= until
                if not is_kept or is_late:  # a kept connection may have been closed by the other side meanwhile
                    raise HttpUnanswered(is_late=is_late) from None

    def close(self) -> None:
        """Close the connections that are not in use."""
        while (opened := self._take_idle()) is not None:
            opened.connection.close()

    def _take_idle(self) -> _OpenConnection | None:
        """Return an idle connection, and close those that are too old; None if there is none."""
        while self._idle:
            try:
                opened = self._idle.pop()
            except IndexError:  # another thread took the last one
                return None
            if monotonic() - opened.used_at < IDLE_S:
                return opened
            opened.connection.close()
        return None

    def _ask(
        self, opened: _OpenConnection, parts: SplitResult, headers: Mapping[str, str], most: int, until: float
    ) -> HttpAnswer:
        # A server that sends one byte now and then never reaches the timeout of the socket, so a timer cuts it.
        alarm = threading.Timer(max(0.0, until - monotonic()), opened.cut)
        alarm.daemon = True
        alarm.start()
        connection = opened.connection
        try:
            target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
            if opened.is_forwarded:
                target = f"{parts.scheme}://{parts.netloc}{target}"
            opened.limit(until)
            connection.request("GET", target, headers={"Accept-Encoding": "identity", **headers})
            response = connection.getresponse()
            is_error = response.status not in (200, 206)
            body, is_cut = _read(opened, response, MAX_ERROR_BYTES if is_error else most, until)
        finally:
            alarm.cancel()
        if monotonic() >= until:  # the alarm may have cut the body
            raise TimeoutError
        if not is_error and response.getheader("content-length") is None and not response.chunked:
            raise HTTPException  # its end cannot be distinguished from a broken connection
        if is_cut or response.will_close or not response.isclosed() or len(self._idle) >= MAX_IDLE:
            connection.close()
        else:
            self._idle.append(replace(opened, used_at=monotonic()))
        return HttpAnswer(response.status, {k.lower(): v for k, v in response.getheaders()}, body, is_cut)


def _connect(parts: SplitResult, timeout_s: float) -> _OpenConnection:
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
    return _OpenConnection(connection, connection.sock, bool(proxy) and parts.scheme == "http")


def _read(opened: _OpenConnection, response: HTTPResponse, most: int, until: float) -> tuple[bytes, bool]:
    """Return the body, at most `most` bytes of it, and whether there is more."""
    parts: list[bytes] = []
    size = 0
    while size <= most and not response.isclosed():  # Python 3.13 closes it with the last byte
        opened.limit(until)
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
