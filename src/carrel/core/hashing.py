"""Checksums without `hashlib`, which loads OpenSSL and so costs start-up time and memory."""

try:
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

try:
    from _sha2 import sha256
except ImportError:
    try:
        from _sha256 import sha256
    except ImportError:
        from hashlib import sha256

__all__ = ["blake2b", "hex_sha256", "sha256"]


def hex_sha256(text: str) -> str:
    """Return the SHA-256 of a text, which may have lone surrogates."""
    return str(sha256(text.encode("utf-8", "surrogatepass")).hexdigest())
