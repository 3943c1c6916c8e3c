"""`git://`: the history of a project."""

from carrel.providers.git.provider import GitHistory

__all__ = ["GitHistory"]
