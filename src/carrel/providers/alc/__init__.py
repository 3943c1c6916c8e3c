"""The data of algocline as read-only resources: packages, cards, scenarios, eval results and logs."""

from carrel.providers.alc.provider import Alc

__all__ = ["Alc"]
