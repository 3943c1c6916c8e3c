"""Which addresses are this machine's own, where nobody on the way can read along."""

from typing import Final
from urllib.parse import SplitResult

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
"""How people write them; there are more."""


def is_loopback(host: str) -> bool:
    """Tell whether a name, or an address without brackets, is this machine's own."""
    if host in LOOPBACK:
        return True
    from ipaddress import ip_address  # takes milliseconds; only for what is written less often

    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_in_clear(url: SplitResult) -> bool:
    """Tell whether others on the way could read and change what is sent."""
    return url.scheme == "http" and not is_loopback(url.hostname or "")
