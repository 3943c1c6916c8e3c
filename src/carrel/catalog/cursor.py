"""Cursors: a place in a list, sealed so that foreign ones are known.

A cursor holds where we are and nothing of who asks; the server remembers nothing. The
seal is a checksum, not a secret: permission is checked on every page.
"""

from binascii import Error, a2b_base64, b2a_base64
from typing import Final

from carrel.core.errors import BadCursor
from carrel.core.hashing import blake2b

_SEAL_BYTES: Final = 8
_SEPARATOR: Final = "\0"


def seal(*parts: str) -> str:
    """Make a cursor of the parts; none of them may hold NUL."""
    payload = _SEPARATOR.join(parts).encode("utf-8", "surrogatepass")
    encoded = b2a_base64(_checksum(payload) + payload, newline=False)
    return encoded.decode("ascii").replace("+", "-").replace("/", "_").rstrip("=")


def unseal(cursor: str) -> tuple[str, ...]:
    """Give the parts back, or raise BadCursor for what `seal` did not make."""
    try:
        padded = cursor.replace("-", "+").replace("_", "/") + "=" * (-len(cursor) % 4)
        sealed = a2b_base64(padded.encode("ascii"), strict_mode=True)
        checksum, payload = sealed[:_SEAL_BYTES], sealed[_SEAL_BYTES:]
        parts = tuple(payload.decode("utf-8", "surrogatepass").split(_SEPARATOR))
    except (Error, ValueError):
        raise BadCursor from None
    if checksum != _checksum(payload) or seal(*parts) != cursor:
        raise BadCursor
    return parts


def _checksum(payload: bytes) -> bytes:
    return blake2b(payload, digest_size=_SEAL_BYTES, person=b"carrel-cursor").digest()
