"""Test kit for authors of providers: subclass `ProviderContract`, return a provider, run pytest."""

from carrel.testing.contract import ProviderContract

__all__ = ["ProviderContract"]
