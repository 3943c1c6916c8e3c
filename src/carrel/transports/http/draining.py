"""End a replica without cutting off a request, and in time to close what is served.

Imported only when a replica ends. The application has told balancers before; uvicorn closes what is left afterwards.
"""

import asyncio
import socket
from contextlib import suppress
from time import monotonic
from typing import Final

import uvicorn

from carrel.core.limits import FORCED_END_S
from carrel.transports.http.wire import CLOSE, Wire

MAX_LAST: Final = 2_048
"""Maximum number of connections that are accepted last from one socket."""
_LAST_S: Final = 0.1
"""How long the connections that were accepted last may take to send their request."""
_CLOSE_S: Final = 0.7
"""What remains after the drain and the grace: 0.2 s that uvicorn sleeps, and 0.5 s for what is closed last."""


async def drain(server: uvicorn.Server, sockets: list[socket.socket], seconds: float) -> None:
    """Answer for some time what still comes, close each connection with its answer, then accept no more."""
    server.server_state.default_headers.append(CLOSE)
    began = monotonic()
    while monotonic() < began + seconds and not server.force_exit:  # noqa: ASYNC110 uvicorn has a flag, not an event
        await asyncio.sleep(0.05)
    copies = [listening.dup() for listening in sockets]
    for one in server.servers:
        one.close()  # before its socket: asyncio needs the descriptor for this
    for listening in sockets:
        listening.close()
    await _hand_over(server, [accepted for copy in copies for accepted in _accept_last(copy)])
    await asyncio.sleep(_LAST_S)
    left = FORCED_END_S - _CLOSE_S - (monotonic() - began)
    vars(server.config)["timeout_graceful_shutdown"] = max(left, 0.0)  # typed as a whole number


def _accept_last(listening: socket.socket) -> list[socket.socket]:
    """Accept the connections that wait, then close the socket, which resets all that it still has."""
    accepted = []
    with listening, suppress(OSError):  # none waits
        for _ in range(MAX_LAST):
            with suppress(ConnectionError):  # only this one is gone
                accepted.append(listening.accept()[0])
    return accepted


async def _hand_over(server: uvicorn.Server, accepted: list[socket.socket]) -> None:
    """Serve connections that were accepted here."""

    def connection() -> Wire:
        return Wire(server.config, server.server_state, server.lifespan.state)

    for one in accepted:
        try:
            one.setblocking(False)
            await asyncio.get_running_loop().connect_accepted_socket(connection, one)
        except OSError:  # only this one is gone
            one.close()
