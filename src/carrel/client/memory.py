"""Two ends in one process: a client's transport whose other end is a real connection of a server.

Messages pass as bytes, bounded as on every transport. What may wait runs on worker
threads; everything else is answered by the thread that sends. The server's providers are
left open: one server may have many of these.
"""

import queue
import threading

from carrel.core.limits import ID_WINDOW_BYTES, REQUEST_DEADLINE_S, SHUTDOWN_GRACE_S
from carrel.protocol.framing import OverLong
from carrel.server.requests import Work
from carrel.server.server import Server
from carrel.server.workers import Workers


class Memory:
    """The client's end."""

    def __init__(self, server: Server, deadline_s: float = REQUEST_DEADLINE_S) -> None:
        self._inbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._max_bytes = server.catalog.max_bytes
        self._connection = server.connect(self._inbox.put)
        self._workers = Workers(self._inbox.put, deadline_s)
        self._closing = threading.Lock()
        self._is_open = True

    def send(self, message: bytes) -> None:
        """Give the server a message; its answer can be received then or later."""
        if not self._is_open:
            raise BrokenPipeError("the server's end is closed")
        fits = len(message) <= self._max_bytes
        given = self._connection.accept(message if fits else OverLong(message[:ID_WINDOW_BYTES]))
        if isinstance(given, Work):
            self._workers.submit(given)
        elif given is not None:
            self._inbox.put(given)

    def receive(self) -> bytes | None:
        """Wait for a message; None at the end."""
        return self._inbox.get()

    def close(self) -> None:
        """End as at the end of input: running work may finish, subscriptions end."""
        with self._closing:
            if not self._is_open:
                return
            self._is_open = False
        self._workers.drain(SHUTDOWN_GRACE_S)
        for ending in self._connection.close():
            self._inbox.put(ending)
        self._workers.close()
        self._inbox.put(None)
