"""A door between a store and its users, which a test can shut and open again."""

import socket
import threading
from contextlib import closing
from pathlib import Path


class Gate:
    """A loopback port in front of a socket, which can be shut: then all connections are cut and refused."""

    def __init__(self, port: int, target: Path) -> None:
        self._port = port
        self._target = str(target)
        self._listener: socket.socket | None = None
        self._cut: list[socket.socket] = []

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
        threading.Thread(target=self._serve, args=(self._listener,), daemon=True).start()

    def shut(self) -> None:
        """Cut all connections, and refuse new ones."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for one in self._cut:
            with closing(one):
                try:
                    one.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue
        self._cut = []

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                near = listener.accept()[0]
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(self._target)
            self._cut += [near, far]
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=_pump, args=(source, target), daemon=True).start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
