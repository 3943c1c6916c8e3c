"""Fetch an address within one time limit for the whole answer.

`urlopen` limits each single read, so a server that sends a byte now and then could make it wait for ever. Here each
attempt to connect and each read gets the time that is left. Imported only when something is fetched.
"""

from collections.abc import Callable
from functools import partial
from http.client import HTTPConnection, HTTPResponse
from io import BufferedReader, RawIOBase
from socket import socket
from time import monotonic
from typing import Any
from urllib.request import HTTPHandler, HTTPSHandler, Request, build_opener


def fetch(address: str, within_s: float) -> HTTPResponse:
    """Ask for JSON and return the response; its reads raise `TimeoutError` when the time is over."""
    request = Request(address, headers={"accept": "application/json"})
    response: HTTPResponse = build_opener(_Timely(monotonic() + within_s)).open(request)
    return response


class _Timely(HTTPSHandler, HTTPHandler):
    """Opens connections, also those that redirects lead to, and limits the time of each read."""

    def __init__(self, ends_at: float) -> None:
        super().__init__()
        self._ends_at = ends_at

    def do_open(self, http_class: Callable[..., HTTPConnection], req: Request, **given: object) -> HTTPResponse:
        req.timeout = _left(self._ends_at)
        return super().do_open(partial(self._connect, http_class), req, **given)

    def _connect(self, kind: Callable[..., Any], host: str, **given: object) -> Any:
        connection = kind(host, **given)
        connection.response_class = partial(_Response, self._ends_at)
        return connection


class _Response(HTTPResponse):
    def __init__(self, ends_at: float, connection: socket, debuglevel: int = 0, method: str | None = None) -> None:
        super().__init__(connection, debuglevel, method)
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
