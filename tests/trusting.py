"""Trusting a file as `carrel trust` does."""

from collections.abc import Mapping
from pathlib import Path

from carrel.digest import sha256
from carrel.trust import TrustStore


def trust(path: Path, environment: Mapping[str, str]) -> None:
    """Trust a file as it is now."""
    TrustStore(environment).add(str(path), sha256(path.read_bytes()).hexdigest())
