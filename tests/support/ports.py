"""Ports for servers that must be told one before they start."""

import random
import socket
from typing import Final

_RANGE: Final = range(20_000, 22_700)
"""Below those that systems give to outgoing connections, one of which could take the port before the server does. A
server that uses a second port, ten thousand above, finds that one free too."""


def free_ports(count: int) -> list[int]:
    """Return ports on which nothing listens, none of which the system gives to anybody by itself."""
    found: list[int] = []
    for port in random.sample(_RANGE, len(_RANGE)):
        if _is_free(port) and _is_free(port + 10_000):
            found.append(port)
        if len(found) == count:
            return found
    raise AssertionError("no port is free")


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
