"""Programs at a port that are not the Postgres a store needs: an old one, one that refuses, and none at all."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator


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
def _served(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """Yield the address of a port, with each of its connections given to a function in turn."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with contextlib.suppress(OSError, struct.error):
                while True:
                    serve(listener.accept()[0])

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)


@contextlib.contextmanager
def old_postgres(version: str) -> Iterator[str]:
    """Yield the URL of a server that says it has this version, and answers no query."""
    with _served(lambda connection: _greet(connection, version)) as place:
        yield f"postgresql://ann:s3cret@{place}/team?sslmode=disable"


@contextlib.contextmanager
def refusing_postgres(code: str, message: str) -> Iterator[str]:
    """Yield the URL of a server that refuses every connection with an error."""
    fields = f"SFATAL\0VFATAL\0C{code}\0M{message}\0\0".encode()
    with other_program(_message(b"E", fields)) as place:
        yield f"postgresql://ann:s3cret@{place}/team?sslmode=disable"


@contextlib.contextmanager
def other_program(answer: bytes | None) -> Iterator[str]:
    """Yield the address of a program that answers the first bytes with these and ends; None keeps silent."""
    with contextlib.ExitStack() as held:

        def serve(connection: socket.socket) -> None:
            if answer is None:
                held.enter_context(connection)
                return
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        yield held.enter_context(_served(serve))
