"""A transport over Streamable HTTP, for both eras: each message is a POST.

Each request waits for its answer on its own thread. A legacy session is kept, with its GET stream, and ended on close.
To cancel a modern request, its connection is closed. If the server no longer knows the session, the transport ends. An
error of HTTP itself is reported as the answer.
"""

import contextlib
import http.client
import queue
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urljoin, urlsplit

from carrel.client.rpc import Unanswered
from carrel.core.errors import ConfigError, Disconnected, RemoteError, Unreachable
from carrel.core.limits import ID_WINDOW_BYTES
from carrel.core.loopback import is_in_clear
from carrel.protocol import client_requests, eras, headers, jsonrpc
from carrel.protocol.client_requests import MessageFacts
from carrel.protocol.events import Events
from carrel.protocol.framing import OverLong
from carrel.protocol.jsonrpc import Key
from carrel.protocol.wire_errors import ERROR_KEY

CONNECT_S: Final = 10.0
NOTICE_S: Final = 10.0
RETRY_S: Final = (1.0, 2.0, 5.0, 15.0, 30.0)
_CHUNK: Final = 1 << 16
_MAX_IDLE: Final = 4
_SESSION: Final = "Mcp-Session-Id"
_WORDS: Final = {
    401: "denied",
    403: "denied",
    404: "unavailable",
    413: "too_large",
    429: "busy",
    502: "unavailable",
    503: "unavailable",
    504: "timeout",
}
"""The error word of each status that comes without an answer to the request."""

_EXPLANATIONS: Final = {401: "it needs a valid token", 403: "it refuses us"}
_REDIRECTS: Final = (307, 308)
_MAX_REDIRECTS: Final = 3

FAILURES = (OSError, http.client.HTTPException, ValueError)
_WHY: Final[dict[type[Exception], str]] = {
    ConnectionRefusedError: "connection refused",
    ConnectionError: "the connection broke off",
    TimeoutError: "no answer in time",
    socket.gaierror: "there is no such host",
    ssl.SSLCertVerificationError: "its certificate is not trusted here",
    ssl.SSLError: "no TLS connection is possible",
    http.client.HTTPException: "it does not speak HTTP",
}
_Asked = tuple[http.client.HTTPResponse, http.client.HTTPConnection]


class Http:
    """A connection to the server at a URL."""

    def __init__(
        self, url: str, given: Mapping[str, str] | None = None, *, max_message_bytes: int, insecure: bool = False
    ) -> None:
        """Check a URL; nothing is sent yet. `given` are extra headers, such as Authorization with a token."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"{url}: write the address as https://host/mcp")
        if is_in_clear(parts) and not insecure:
            raise ConfigError(f"{url}: the request would be sent unencrypted; use https")
        self._is_secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port
        self._path = (parts.path or "/mcp") + (f"?{parts.query}" if parts.query else "")
        self._given = dict(given or {})
        self._max_bytes = max_message_bytes
        self._inbox: queue.SimpleQueue[bytes | OverLong | Unanswered | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        self._open: dict[object, socket.socket] = {}
        self._session: str | None = None
        self._version: str | None = None
        self._has_stream = False
        self._closed = threading.Event()

    # What `Peer` uses

    def send(self, message: bytes) -> None:
        """Send one message to the server; a new thread waits for the answer to a request."""
        if self._closed.is_set():
            raise BrokenPipeError("the connection is closed")
        facts = client_requests.facts_of(message)
        if facts.method == client_requests.CANCELLED and self._abandon(facts.cancels):
            return
        if facts.key is None:
            self._notify(message, facts)
        else:
            thread = threading.Thread(
                target=self._exchange, args=(message, facts), name="carrel-http-request", daemon=True
            )
            thread.start()

    def receive(self) -> bytes | OverLong | Unanswered | None:
        """Wait for a message and return it; None at the end."""
        return self._inbox.get()

    def close(self) -> None:
        """End the session and every waiting request; a second call does nothing."""
        with self._lock:
            if self._closed.is_set():
                return
            self._closed.set()
            waiting = list(self._open.values())
        for held in waiting:
            _cut(held)
        if self._session is not None:
            with contextlib.suppress(*FAILURES):
                self._send_notice("DELETE", None, self._headers(None), NOTICE_S / 5)
        with self._lock:
            for connection in self._idle:
                connection.close()
            self._idle.clear()
        self._inbox.put(None)

    # One message

    def _exchange(self, message: bytes, facts: MessageFacts) -> None:
        """Post a request and pass on all messages that come back."""
        assert facts.key is not None
        try:
            response, connection = self._follow_redirects(lambda path: self._post(path, message, facts))
        except FAILURES as error:
            self._release(facts.key)
            self._fail(facts.key, f"Cannot reach {self._address}: {in_words(error)}", "unavailable")
            return
        try:
            self._take(response, facts)
            is_reusable = not response.will_close and response.isclosed()
        except FAILURES:
            is_reusable = False
            if not self._closed.is_set():
                self._break_off(facts.key, "The connection broke off before the answer")
        finally:
            self._release(facts.key)
        if not is_reusable:
            response.close()
        self._put_back(connection, is_reusable=is_reusable)

    def _post(self, path: str, message: bytes, facts: MessageFacts) -> _Asked:
        """Send on an idle connection, or on a new one if the idle one was closed meanwhile."""
        is_safe = facts.method not in ("tools/call", "initialize")
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle and is_safe else None
            is_old = connection is not None
            try:
                return self._ask(connection or self._connect(), "POST", path, message, self._headers(facts), facts.key)
            except (http.client.RemoteDisconnected, ConnectionError):
                if not is_old or self._closed.is_set():
                    raise

    def _ask(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        message: bytes | None,
        made: dict[str, str],
        key: object = None,
    ) -> _Asked:
        """Send a request and wait for its status. With a key, `close` cuts the connection. On failure, it is closed."""
        try:
            if key is not None:
                self._hold(key, connection.sock)
            connection.request(method, path, message, made)
            return connection.getresponse(), connection
        except FAILURES:
            connection.close()
            raise

    def _hold(self, key: object, connection: socket.socket) -> None:
        """Keep a connection for `close` to cut; raise if everything is closed already."""
        with self._lock:
            if self._closed.is_set():
                raise BrokenPipeError("the connection is closed")
            self._open[key] = connection

    def _release(self, key: object) -> None:
        with self._lock:
            self._open.pop(key, None)

    def _follow_redirects(self, ask: Callable[[str], _Asked]) -> _Asked:
        """Follow redirects; after permanent ones, later requests start at the new path."""
        path, is_lasting = self._path, True
        for _ in range(_MAX_REDIRECTS):
            response, connection = ask(path)
            target = self._redirected(response, path)
            if target is None or target == path:
                return response, connection
            response.close()
            connection.close()
            path, is_lasting = target, is_lasting and response.status == 308
            if is_lasting:
                self._path = path
        return ask(path)

    def _redirected(self, response: http.client.HTTPResponse, path: str) -> str | None:
        """Return the path of a redirect to the same server; None for another server, which must not see our headers."""
        place = response.getheader("Location") if response.status in _REDIRECTS else None
        if place is None:
            return None
        scheme = "https" if self._is_secure else "http"
        netloc = f"[{self._host}]" if ":" in self._host else self._host
        here = f"{scheme}://{netloc}" + (f":{self._port}" if self._port else "")
        parts = urlsplit(urljoin(here + path, place))
        usual = 443 if self._is_secure else 80
        if (parts.scheme, parts.hostname, parts.port or usual) != (scheme, self._host, self._port or usual):
            return None
        return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    def _take(self, response: http.client.HTTPResponse, facts: MessageFacts) -> None:
        assert facts.key is not None
        kind = response.headers.get_content_type()
        if facts.method == "initialize" and response.status == 200:
            self._session = response.getheader(_SESSION)
        if response.status == 200 and kind == "text/event-stream":
            self._follow(response, facts)
            # Has an effect only if the stream ended without the answer: a second answer is dropped.
            self._break_off(facts.key, "The stream ended before the answer")
            return
        body = response.read(self._max_bytes + 1)
        if response.status == 202:
            return
        answer = client_requests.answer_to(facts.key, body) if kind == "application/json" else None
        if len(body) > self._max_bytes:
            self._inbox.put(OverLong(body[:ID_WINDOW_BYTES]))
        elif self._is_forgotten(response.status, is_answer=answer == body) and facts.method != "initialize":
            self._lose_session()
        elif answer is not None and (answer == body or response.status not in _WORDS):
            self._pass_on(answer, facts)
        else:
            word = _WORDS.get(response.status, "unavailable")
            is_redirect = response.status in _REDIRECTS
            why = self._why_not_followed(response) if is_redirect else _EXPLANATIONS.get(response.status, "")
            problem = f"The server answered {response.status}"
            self._fail(facts.key, f"{problem}: {why}" if why else problem, word)

    def _why_not_followed(self, response: http.client.HTTPResponse) -> str:
        """Return why a redirect was not followed."""
        is_here = self._redirected(response, self._path) is not None
        return "it redirects again and again" if is_here else "it redirects to another server"

    def _follow(self, response: http.client.HTTPResponse, facts: MessageFacts | None = None) -> None:
        """Pass on the messages of an event stream until it ends."""
        events = Events(self._max_bytes)
        while chunk := response.read1(_CHUNK):
            for message in events.feed(chunk):
                self._pass_on(message, facts)

    def _pass_on(self, message: bytes | OverLong, facts: MessageFacts | None) -> None:
        if facts is not None and facts.method == "initialize" and isinstance(message, bytes):
            self._version = client_requests.agreed_version(message) or self._version
        self._inbox.put(message)

    def _is_forgotten(self, status: int, *, is_answer: bool) -> bool:
        """Return whether a status means that the server no longer knows our session.

        That is 404; many servers send 400 instead, without an answer to a request.
        """
        return self._session is not None and (status == 404 or (status == 400 and not is_answer))

    def _lose_session(self) -> None:
        """End the transport without ending the session, which is gone."""
        self._session = None
        self._inbox.put(None)

    def _notify(self, message: bytes, facts: MessageFacts) -> None:
        """Post a notification, before anything that is sent later."""
        with contextlib.suppress(*FAILURES):
            self._send_notice("POST", message, self._headers(facts), NOTICE_S)
        if facts.method == "notifications/initialized" and self._session is not None:
            threading.Thread(target=self._listen, name="carrel-http-listen", daemon=True).start()

    def _send_notice(self, method: str, message: bytes | None, made: dict[str, str], timeout_s: float) -> None:
        """Send a request without an answer in its body."""
        response, connection = self._follow_redirects(
            lambda path: self._ask(self._connect(timeout_s), method, path, message, made)
        )
        with contextlib.closing(connection), response:
            response.read(_CHUNK)

    def _abandon(self, key: Key | None) -> bool:
        """Cancel a modern request by closing its connection; return False for a legacy one, which needs a message."""
        with self._lock:
            held = None if key is None or self._session or self._version else self._open.get(key)
        if held is None:
            return self._session is None and self._version is None
        _cut(held)
        return True

    def _listen(self) -> None:
        """Read the notifications of a legacy server; open the stream again when it ends."""
        failures = 0
        while failures >= 0 and not self._closed.wait(RETRY_S[min(failures, len(RETRY_S)) - 1] if failures else 0.0):
            failures = self._follow_session(failures)

    def _follow_session(self, failures: int) -> int:
        """Read a session's stream until it ends; return the number of failures in a row, or -1 to stop."""
        made = {**self._headers(None), "Accept": "text/event-stream"}
        try:
            response, connection = self._follow_redirects(
                lambda path: self._ask(self._connect(), "GET", path, None, made, _SESSION)
            )
            with contextlib.closing(connection), response:
                # A server without such streams may answer with any status.
                if self._has_stream and self._is_forgotten(response.status, is_answer=False):
                    self._lose_session()
                if response.status != 200:
                    return -1
                self._has_stream, failures = True, 0
                self._follow(response)
        except FAILURES:
            pass
        finally:
            self._release(_SESSION)
        return failures + 1

    # Pieces

    @property
    def _address(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self._port or (443 if self._is_secure else 80)}"

    def _headers(self, facts: MessageFacts | None) -> dict[str, str]:
        accepted = "application/json, text/event-stream"
        made = {"Content-Type": "application/json", "Accept": accepted, **self._given}
        if facts is not None and facts.version is not None:
            made["MCP-Protocol-Version"] = facts.version
            made["Mcp-Method"] = facts.method
            if facts.name is not None:
                made["Mcp-Name"] = headers.encode_name(facts.name)
            return made
        if self._version is not None and (facts is None or facts.method != "initialize"):
            made["MCP-Protocol-Version"] = self._version
        if self._session is not None:
            made[_SESSION] = self._session
        return made

    def _connect(self, timeout_s: float | None = None) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._is_secure else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=CONNECT_S)
        connection.connect()
        connection.sock.settimeout(timeout_s)
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _put_back(self, connection: http.client.HTTPConnection, *, is_reusable: bool) -> None:
        with self._lock:
            if is_reusable and not self._closed.is_set() and len(self._idle) < _MAX_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _fail(self, key: Key, problem: str, word: str) -> None:
        code = eras.DENIED if word == "denied" else jsonrpc.INTERNAL_ERROR
        kind = Unreachable if word in ("denied", "unavailable") else RemoteError
        self._inbox.put(Unanswered(key, kind(code, problem, {ERROR_KEY: word})))

    def _break_off(self, key: Key, problem: str) -> None:
        self._inbox.put(Unanswered(key, Disconnected(problem)))


def in_words(error: Exception) -> str:
    """Return in plain words why a server was not reached."""
    return next((why for kind, why in _WHY.items() if isinstance(error, kind)), type(error).__name__)


def _cut(connection: socket.socket) -> None:
    """Shut down a connection that another thread reads from."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
