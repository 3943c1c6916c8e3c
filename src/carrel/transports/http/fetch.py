"""What an address gives, within one time for all of it.

`urlopen` bounds each read, so that who sends a byte now and then is read for ever. Here each
read has what is left of the whole, and each attempt to connect. Loaded only where something is fetched.
"""

from functools import partial
from http.client import HTTPResponse
from io import BufferedReader, RawIOBase
from socket import socket
from time import monotonic
from typing import Any
from urllib.request import HTTPHandler, HTTPSHandler, Request, build_opener


def fetch(address: str, within_s: float) -> Any:
    """Ask for JSON; give the response of `urlopen`, whose reads raise `TimeoutError` when the time is over."""
    return build_opener(_Timely(monotonic() + within_s)).open(Request(address, headers={"accept": "application/json"}))


class _Timely(HTTPSHandler, HTTPHandler):
    """Opens connections, also those that redirects lead to, and has what comes on them read in time."""

    def __init__(self, ends_at: float) -> None:
        super().__init__()
        self._ends_at = ends_at

    def do_open(self, http_class: Any, req: Request, **given: Any) -> HTTPResponse:
        req.timeout = _left(self._ends_at)
        return super().do_open(partial(self._connect, http_class), req, **given)

    def _connect(self, kind: Any, host: str, **given: Any) -> Any:
        connection = kind(host, **given)
        connection.response_class = partial(_Response, self._ends_at)
        return connection


class _Response(HTTPResponse):
    def __init__(self, ends_at: float, connection: socket, *given: Any, **named: Any) -> None:
        super().__init__(connection, *given, **named)
        self.fp = BufferedReader(_Reader(self.fp, connection, ends_at))


class _Reader(RawIOBase):
    def __init__(self, file: BufferedReader, connection: socket, ends_at: float) -> None:
        self._file = file
        self._connection = connection
        self._ends_at = ends_at

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._connection.settimeout(_left(self._ends_at))
        return self._file.readinto1(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()


def _left(ends_at: float) -> float:
    left_s = ends_at - monotonic()
    if left_s <= 0:
        raise TimeoutError("not all of it arrived in time")
    return left_s
