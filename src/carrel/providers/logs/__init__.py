"""Captured output of processes, and the tools that start them."""

from carrel.providers.logs.provider import Logs

__all__ = ["Logs"]
