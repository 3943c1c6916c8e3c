"""A transport to a server in the same process, over a real connection of that server.

Messages are bytes with the usual size limit. Calls that may block run on worker threads; all others are answered on
the sender's thread. Closing leaves the server's providers open, because a server may have many connections.
"""

import queue
import threading

from carrel.core.limits import ID_WINDOW_BYTES, REQUEST_DEADLINE_S, SHUTDOWN_GRACE_S
from carrel.protocol.framing import OverLong
from carrel.server.requests import Work
from carrel.server.server import Server
from carrel.server.workers import Workers


class Memory:
    """The client's end of a connection in memory."""

    def __init__(self, server: Server, deadline_s: float = REQUEST_DEADLINE_S) -> None:
        self._inbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._max_bytes = server.catalog.max_bytes
        self._connection = server.connect(self._inbox.put)
        self._workers = Workers(self._inbox.put, deadline_s)
        self._closing = threading.Lock()
        self._is_open = True

    def send(self, message: bytes) -> None:
        """Pass a message to the server; its answer can be received later."""
        if not self._is_open:
            raise BrokenPipeError("the server's end is closed")
        fits = len(message) <= self._max_bytes
        given = self._connection.accept(message if fits else OverLong(message[:ID_WINDOW_BYTES]))
        if isinstance(given, Work):
            self._workers.submit(given)
        elif given is not None:
            self._inbox.put(given)

    def receive(self) -> bytes | None:
        """Wait for a message and return it; None at the end."""
        return self._inbox.get()

    def close(self) -> None:
        """Close as at the end of input: running work may finish, subscriptions end."""
        with self._closing:
            if not self._is_open:
                return
            self._is_open = False
        self._workers.drain(SHUTDOWN_GRACE_S)
        for ending in self._connection.close():
            self._inbox.put(ending)
        self._workers.close()
        self._inbox.put(None)
