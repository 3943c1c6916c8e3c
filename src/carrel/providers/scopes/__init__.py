"""A hierarchy of tasks as resources."""

from carrel.providers.scopes.provider import Scopes

__all__ = ["Scopes"]
