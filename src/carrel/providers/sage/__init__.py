"""What an assistant learned about a project, kept in `.sage/` and served as `sage://`."""

from carrel.providers.sage.provider import Sage

__all__ = ["Sage"]
