"""Checksums, in one place.

They are taken from their own modules where Python has them: `hashlib` would load
OpenSSL, which costs start-up time and memory and is not needed.
"""

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

__all__ = ["blake2b", "sha256"]
