"""Agent Skills of a project and of installed packages, as the skills extension of MCP (SEP-2640) serves them."""

from carrel.providers.skills.provider import Skills

__all__ = ["Skills"]
