"""A file tree as resources."""

from carrel.providers.workspace.provider import Workspace

__all__ = ["Workspace"]
