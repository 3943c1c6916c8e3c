"""A door between a store and its users, which a test can shut, open again, and hold so that nothing comes through."""

import socket
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path


class Gate:
    """A loopback port in front of a socket, which can be shut: then all connections are cut and refused.

    While it is held, connections are accepted, and nothing is passed on: so does a server that is stopped.
    """

    def __init__(self, port: int, target: Path) -> None:
        self._port = port
        self._target = str(target)
        self._listener: socket.socket | None = None
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._flows = threading.Event()
        self._flows.set()

    def url(self, url: str) -> str:
        """Return the URL of a store behind the gate, by its URL at the socket."""
        options = url.partition("options=")[2]
        place = f"127.0.0.1:{self._port}"
        return f"postgresql://postgres@{place}/postgres?sslmode=disable&gssencmode=disable&options={options}"

    def __enter__(self) -> "Gate":
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.shut()

    def open(self) -> None:
        """Let connections through."""
        self._listener = socket.create_server(("127.0.0.1", self._port))
        self._start(self._serve, self._listener)

    def hold(self) -> None:
        """Pass nothing on from now on."""
        self._flows.clear()

    def release(self) -> None:
        """Pass on what was held, and what comes later."""
        self._flows.set()

    def shut(self) -> None:
        """Cut all connections, and refuse new ones; return when no thread and no socket is left."""
        if self._listener is None:
            return
        self.release()
        with closing(self._listener) as listener:
            listener.shutdown(socket.SHUT_RDWR)
        self._threads.pop(0).join()  # the accepting one: after it, no connection is added
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for one in self._sockets:
            one.close()
        self._listener, self._sockets, self._threads = None, [], []

    def _start(self, run: Callable[..., None], *sockets: socket.socket) -> None:
        thread = threading.Thread(target=run, args=sockets, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                near = listener.accept()[0]
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            self._sockets += [near, far]
            far.connect(self._target)
            self._start(self._pump, near, far)
            self._start(self._pump, far, near)

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65_536):
                self._flows.wait()
                target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)
        except OSError:
            return
