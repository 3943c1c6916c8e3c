"""A server that greets clients as an old Postgres does: none that old can be installed beside the tests."""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def _greet(connection: socket.socket, version: str) -> None:
    with connection:
        while True:
            size = struct.unpack("!i", connection.recv(4))[0]
            code = struct.unpack("!i", connection.recv(size - 4)[:4])[0]
            if code == 196_608:  # the protocol's version 3.0; anything else asks for encryption
                break
            connection.sendall(b"N")
        connection.sendall(_message(b"R", struct.pack("!i", 0)))
        for name, value in (("server_version", version), ("client_encoding", "UTF8")):
            connection.sendall(_message(b"S", name.encode() + b"\0" + value.encode() + b"\0"))
        connection.sendall(_message(b"K", struct.pack("!ii", 1, 1)) + _message(b"Z", b"I"))
        while connection.recv(4096):
            pass


@contextlib.contextmanager
def old_postgres(version: str) -> Iterator[str]:
    """Yield the URL of a server that says it has this version."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError, struct.error):
                while True:
                    _greet(listener.accept()[0], version)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"postgresql://ann:s3cret@127.0.0.1:{listener.getsockname()[1]}/team?sslmode=disable"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)
