"""Trusting a file as `carrel trust` does."""

from collections.abc import Mapping
from pathlib import Path

from carrel.app.trust import TrustStore
from carrel.core.hashing import sha256


def trust(path: Path, environment: Mapping[str, str]) -> None:
    """Trust a file as it is now."""
    TrustStore(environment).add(str(path), sha256(path.read_bytes()).hexdigest())
