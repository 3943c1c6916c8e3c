"""A load client over HTTP: starts a server on a port, keeps connections busy with requests encoded beforehand.

HTTP/1.1, one request at a time on each connection; what is under way at once is a matter of connections. Between two
requests it does one `send`, one `recv_into` a buffer that stays, and looks for one header; see `load` for how it is
known that this is not the bottleneck.
"""

import itertools
import json
import select
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.messages import (
    VERSIONS,
    Era,
    PeerError,
    check_answer,
    check_line,
    discover,
    identity_of,
    initialize,
    initialized,
)
from bench.server import PATIENCE_S, Process, Run

HOST: Final = "127.0.0.1"
PATH: Final = "/mcp"
HEAD_END: Final = b"\r\n\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"
"""How a body in chunks ends; servers write it at once."""
RETRY_S: Final = 0.001


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.create_server((HOST, 0)) as taken:
        return int(taken.getsockname()[1])


class WebPeer:
    """A server as a child process, spoken to on a port of this machine."""

    def __init__(self, command: Sequence[str], folder: Path, port: int) -> None:
        self.process = Process(command, folder, has_pipes=False)
        self._port = port
        self._session = ""
        self._buffer = bytearray(1 << 20)
        self._connection = self._reach()

    def _reach(self) -> socket.socket:
        """Wait until it listens."""
        ends = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self._connect()
            except ConnectionRefusedError:
                if self.process.child.poll() is not None or time.monotonic() > ends:
                    self.process.gone()
                time.sleep(RETRY_S)

    def _connect(self) -> socket.socket:
        made = socket.create_connection((HOST, self._port))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def ask(self, line: bytes) -> bytes:
        """Send one request on a new connection and wait for its answer; return the message in it."""
        self._connection.close()
        self._connection = self._connect()
        with self.process.watched():
            self._connection.sendall(self._spell(line))
            answer = b""
            while not is_whole(answer):
                answer += self._connection.recv(1 << 20) or self.process.gone()
        head, _, body = answer.partition(HEAD_END)
        status = head.split(b" ", 2)[1]
        if status not in (b"200", b"202"):
            raise PeerError(f"status {status.decode()}: {body[:400]!r}")
        self._session = header(head, "mcp-session-id") or self._session
        if header(head, "transfer-encoding") == "chunked":
            body = b"".join(chunks(body))
        if header(head, "content-type").startswith("text/event-stream"):
            body = next(part[5:].strip() for part in body.splitlines() if part.startswith(b"data:") and len(part) > 6)
        return body

    def ask_result(self, line: bytes) -> dict[str, Any]:
        """Send one request and check that its answer is a result; return that."""
        return check_answer(self.ask(line), identity_of(line))

    def open(self, era: Era) -> None:
        """Do what a client of that era does first."""
        self._session = ""
        if era == "modern":
            self.ask_result(discover())
        else:
            self.ask_result(initialize())
            self.ask(initialized())

    def spell(self, pool: Sequence[bytes]) -> Sequence[bytes]:
        """Return requests as they are sent: a POST each."""
        return tuple(map(self._spell, pool))

    def _spell(self, line: bytes) -> bytes:
        body = line.rstrip(b"\n")
        asked = json.loads(body)
        params = asked["params"]
        is_modern = "io.modelcontextprotocol/protocolVersion" in params.get("_meta", {})
        fields = {
            "host": f"{HOST}:{self._port}",
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "content-length": str(len(body)),
        }
        if asked["method"] != "initialize":
            fields["mcp-protocol-version"] = VERSIONS["modern" if is_modern else "legacy"]
        if is_modern:
            fields["mcp-method"] = asked["method"]
            name = params.get("uri") or params.get("name")
            fields |= {"mcp-name": name} if name else {}
        if self._session:
            fields["mcp-session-id"] = self._session
        lines = "".join(f"{key}: {value}\r\n" for key, value in fields.items())
        return f"POST {PATH} HTTP/1.1\r\n{lines}\r\n".encode() + body

    def load(self, pool: Sequence[bytes], seconds: float, depth: int, *, whole: bool = False) -> Run:
        """Keep `depth` connections busy for `seconds`, then let the last answers come in.

        With `whole`, which is for depth 1, it ends only where the pool does.
        """
        requests = itertools.cycle(pool)
        connections = [self._connect() for _ in range(depth)]
        with self.process.watched():
            server, client = self.process.cpu_s(), time.process_time()
            if depth == 1:
                answers, took = self._one_by_one(connections[0], requests, seconds, len(pool) if whole else 1)
            else:
                answers, took = self._many(connections, requests, seconds)
            run = Run(answers, took, self.process.cpu_s() - server, time.process_time() - client)
        for connection in connections:
            connection.close()
        self._check_next(next(requests))
        return run

    def _check_next(self, post: bytes) -> None:
        line = post.partition(HEAD_END)[2]
        check_line(self.ask(line), identity_of(line))

    def _one_by_one(
        self, connection: socket.socket, requests: "itertools.cycle[bytes]", seconds: float, step: int
    ) -> tuple[int, float]:
        send, receive, clock = connection.send, connection.recv_into, time.perf_counter
        buffer, missing_of = self._buffer, self._missing
        answers = 0
        started = now = clock()
        ends = started + seconds
        while now < ends or answers % step:
            send(next(requests))
            missing = missing_of(receive(buffer))
            while missing:
                size = receive(buffer) or self.process.gone()
                missing = missing - size if missing > 0 else self._is_unended(size)
            answers += 1
            now = clock()
        return answers, now - started

    def _many(
        self, connections: Sequence[socket.socket], requests: "itertools.cycle[bytes]", seconds: float
    ) -> tuple[int, float]:
        clock, buffer, missing_of = time.perf_counter, self._buffer, self._missing
        by_number = {connection.fileno(): connection for connection in connections}
        missing = dict.fromkeys(by_number, 0)
        busy, answers = len(connections), 0
        with select.epoll() as poll:
            for connection in connections:
                poll.register(connection, select.EPOLLIN)
            started = clock()
            ends = started + seconds
            for connection in connections:
                connection.send(next(requests))
            while busy:
                for number, _ in poll.poll():
                    connection = by_number[number]
                    size = connection.recv_into(buffer)
                    before = missing[number]
                    if not before:
                        left = missing_of(size)
                    elif before > 0:
                        left = before - (size or self.process.gone())
                    else:
                        left = self._is_unended(size or self.process.gone())
                    missing[number] = left
                    if left:
                        continue
                    answers += 1
                    if clock() < ends:
                        connection.send(next(requests))
                    else:
                        busy -= 1
            return answers, clock() - started

    def _missing(self, size: int) -> int:
        """Return what is still missing of the answer whose first `size` bytes are in the buffer; -1: ends by chunk."""
        buffer = self._buffer
        head = buffer.find(HEAD_END, 0, size)
        if head < 0 or buffer[9:12] != b"200":
            raise PeerError(f"not an answer: {bytes(buffer[:200])!r}")
        at = buffer.find(b"ontent-", 0, head)
        while at >= 0 and buffer[at + 7 : at + 15].lower() != b"length: ":
            at = buffer.find(b"ontent-", at + 7, head)
        if at < 0:
            return self._is_unended(size)
        return head + 4 + int(buffer[at + 15 : buffer.find(b"\r", at)]) - size

    def _is_unended(self, size: int) -> int:
        return 0 if self._buffer.endswith(LAST_CHUNK, 0, size) else -1

    def close(self) -> None:
        """Ask it to end, and kill what does not go."""
        self._connection.close()
        self.process.wait(politely=False)

    def __enter__(self) -> "WebPeer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def header(head: bytes, name: str) -> str:
    """Return the value of a header; empty if it is not there."""
    for line in head.decode("latin-1").split("\r\n")[1:]:
        key, _, value = line.partition(":")
        if key.lower() == name:
            return value.strip()
    return ""


def is_whole(answer: bytes) -> bool:
    """Return whether an answer came in whole."""
    head, found, body = answer.partition(HEAD_END)
    if not found:
        return False
    length = header(head, "content-length")
    return len(body) >= int(length) if length else body.endswith(LAST_CHUNK) or b" 202 " in head


def chunks(body: bytes) -> list[bytes]:
    """Take a chunked body apart."""
    parts = []
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size, 16)
        parts.append(rest[:length])
        body = rest[length + 2 :] if length else b""
    return parts
