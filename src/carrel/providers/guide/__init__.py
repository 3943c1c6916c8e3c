"""`carrel://`: what a model should know about this server and this project before it reads anything."""

from carrel.providers.guide.provider import INSTRUCTIONS, Guide

__all__ = ["INSTRUCTIONS", "Guide"]
