"""A NATS bus that carries the signal "something changed" between servers, instead of NOTIFY.

What changed stays in the outbox: a signal that is lost costs time, not a change. One thread runs an event loop with the
client. It connects again by itself, and after each connection asks for a look, since signals were missed meanwhile.
"""

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from carrel.core.bus_address import BusAddress
from carrel.core.errors import ConfigError

log = logging.getLogger(__name__)

CONNECT_S: Final = 2
OPEN_S: Final = 5.0
"""How long the first connection may take, with all servers of the address."""
FLUSH_S: Final = 1
PING_S: Final = 5
RETRY_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0)
_FAILURES: Final = (nats.errors.Error, OSError, TimeoutError, asyncio.InvalidStateError, ValueError)

_MAX_NOTED: Final = 8

_Result = TypeVar("_Result")


class PlainText(nats.errors.Error):
    """A server offers no TLS, and the address demands it."""


class BusClient(Client):
    """A client that sends no login unencrypted, if the address demands TLS."""

    needs_tls = False

    def _connect_command(self) -> bytes:
        if self.needs_tls and not self._server_info.get("tls_required"):
            raise PlainText
        return super()._connect_command()


class Bus:
    """The connection of one process to a bus."""

    def __init__(self, address: BusAddress) -> None:
        """Take a checked address. Nothing is connected yet."""
        self.address = address
        logging.getLogger("nats").setLevel(logging.CRITICAL)  # its messages may repeat the URL
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._client: BusClient | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._lost = asyncio.Event()
        self._heard: Callable[[], object] | None = None
        self._is_well = True
        self._is_closed = False

    def start(self) -> None:
        """Connect, and stay connected from now on; raise ConfigError if it is not possible now."""
        with self._lock:
            if self._thread is not None or self._is_closed:
                return
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=_serve, args=(self._loop,), name="carrel-bus", daemon=True)
            self._thread.start()
            try:
                self._run(self._begin(), OPEN_S + CONNECT_S)
            except _FAILURES as error:
                self._stop()
                raise ConfigError(f"the bus {self.address.shown} {cause(error)}") from None

    def listen(self, heard: Callable[[], object]) -> None:
        """Have a function called at each signal and after each new connection, on the thread of the bus."""
        self._heard = heard
        if self._loop is not None:
            with suppress(*_FAILURES):  # if it is lost just now, the next connection listens
                self._run(self._subscribe(), OPEN_S)

    def signal(self) -> None:
        """Tell all servers to look; without a connection, they look by themselves a little later."""
        with suppress(ConfigError):
            self.start()  # a command that only writes connects with its first write
        loop = self._loop
        if loop is not None and self._client is not None:
            with suppress(RuntimeError):  # the loop may be closed
                loop.call_soon_threadsafe(self._publish_soon)

    def close(self) -> None:
        """Send what waits, and disconnect; a second call does nothing."""
        with self._lock:
            self._is_closed = True
            if self._thread is not None:
                with suppress(*_FAILURES):
                    self._run(self._finish(), 2 * FLUSH_S)
                self._stop()

    def _run(self, work: Coroutine[Any, Any, _Result], seconds: float) -> _Result:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds)

    def _stop(self) -> None:
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(3 * FLUSH_S)
        self._loop = self._thread = self._client = None

    # On the loop

    async def _begin(self) -> None:
        await self._connect()
        self._keeper = asyncio.ensure_future(self._keep())

    async def _keep(self) -> None:
        """Connect again whenever the connection is lost."""
        failures = 0
        while True:
            await self._lost.wait()
            try:
                await self._connect()
            except _FAILURES as error:
                if self._is_well:
                    log.warning("the bus %s %s; changes arrive later", self.address.shown, cause(error))
                self._is_well = False
                await asyncio.sleep(RETRY_S[min(failures, len(RETRY_S) - 1)])
                failures += 1
            else:
                if not self._is_well:
                    log.warning("the bus %s answers again", self.address.shown)
                self._is_well, failures = True, 0

    async def _connect(self) -> None:
        client = BusClient()
        errors: list[Exception] = []
        client.needs_tls = self.address.needs_tls

        async def note(error: Exception) -> None:
            if len(errors) < _MAX_NOTED:
                errors.append(error)

        async def lose() -> None:
            if client is self._client:
                self._lost.set()

        try:
            async with asyncio.timeout(OPEN_S):
                await client.connect(**self._options(), error_cb=note, disconnected_cb=lose, closed_cb=lose)
        except _FAILURES as error:
            await _close(client)
            raise (errors[0] if errors else error) from None
        self._lost.clear()
        self._client = client
        try:
            await self._subscribe()
            if errors:  # the server has answered everything: it may have refused the subscription
                raise errors[0]
        except _FAILURES:
            self._lost.set()
            await _close(client)
            raise

    def _options(self) -> dict[str, Any]:
        names = ("user", "password") if len(self.address.login) > 1 else ("token",)
        return {
            **dict(zip(names, self.address.login, strict=False)),
            "servers": list(self.address.urls),
            "name": "carrel",
            "tls": ssl.create_default_context() if self.address.needs_tls else None,
            "allow_reconnect": False,  # `_keep` does that: it knows when to look again
            "max_reconnect_attempts": 1,
            "reconnect_time_wait": 0,
            "connect_timeout": CONNECT_S,
            "ping_interval": PING_S,
        }

    async def _subscribe(self) -> None:
        client, heard = self._client, self._heard
        if client is None or heard is None:
            return

        async def hear(_: Msg) -> None:
            heard()

        await client.subscribe(self.address.subject, cb=hear)
        await _settle(client, CONNECT_S)
        heard()

    def _publish_soon(self) -> None:
        task = asyncio.ensure_future(self._publish())
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _publish(self) -> None:
        if self._client is not None:
            await self._client.publish(self.address.subject, b"")

    async def _finish(self) -> None:
        client, self._client = self._client, None
        if self._keeper is not None:
            self._keeper.cancel()
        if client is not None:
            with suppress(*_FAILURES):
                await _settle(client, FLUSH_S)
            await _close(client)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run an event loop until it is stopped; then end the tasks that the client left, and close it."""
    loop.run_forever()
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=FLUSH_S))
    loop.close()


async def _settle(client: Client, seconds: int) -> None:
    """Wait until the server has answered everything. A first ping overtakes what waits; the second does not."""
    for _ in range(2):
        await client.flush(seconds)


async def _close(client: Client) -> None:
    with suppress(*_FAILURES):
        async with asyncio.timeout(FLUSH_S):  # after a failed TLS handshake, the client would wait for ever
            await client.close()


def cause(error: BaseException) -> str:
    """Return what is wrong with a bus, as the end of a sentence that begins with the bus."""
    text = str(error).lower()
    if isinstance(error, PlainText):
        return "offers no TLS, so no login was sent: use nats://, or turn TLS on there"
    if isinstance(error, nats.errors.AuthorizationError) or "authorization" in text or "authentication" in text:
        return "refused the login: the user, the password or the token is wrong"
    if isinstance(error, ssl.SSLError) or "tls" in text:
        return "cannot agree on TLS: check the certificates"
    if isinstance(error, socket.gaierror):
        return "cannot be found: check the name of the host"
    if isinstance(error, TimeoutError):
        return "does not answer: check the host, the port and the firewall"
    if "permissions" in text:
        return "does not allow this user to publish and to subscribe there"
    return "cannot be reached: is NATS running there?"
