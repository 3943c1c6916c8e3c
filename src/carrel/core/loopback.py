"""Addresses of this machine, where no network can read what is sent."""

from typing import Final
from urllib.parse import SplitResult

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
"""The usual spellings; there are more."""


def is_loopback(host: str) -> bool:
    """Return whether a host name, or an address without brackets, is this machine."""
    if host in LOOPBACK:
        return True
    from ipaddress import ip_address  # takes milliseconds to import; only for rare spellings

    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_in_clear(url: SplitResult) -> bool:
    """Return whether the network could read and change what is sent to a URL."""
    return url.scheme == "http" and not is_loopback(url.hostname or "")
