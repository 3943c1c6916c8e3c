"""Qwen Code. It hides the tools of servers behind a search for tools, unless the server's entry says otherwise."""

import json

from tests.hosts.laws import HostLaws
from tests.hosts.session import Host, Place


def prepare(place: Place, prompt: str) -> list[str]:
    """Set Qwen Code up with a model that speaks OpenAI's API."""
    settings = {
        "security": {"auth": {"selectedType": "openai"}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"enableAutoUpdate": False},
    }
    place.write(".qwen/settings.json", json.dumps(settings))
    place.environment |= {
        "OPENAI_API_KEY": "scripted",
        "OPENAI_BASE_URL": f"{place.model}/v1",
        "OPENAI_MODEL": "scripted",
    }
    return ["--approval-mode", "yolo", "-p", prompt]


class TestQwenCode(HostLaws):
    """Qwen Code."""

    host = Host("qwen-code", "Qwen Code", "@qwen-code/qwen-code", "qwen", prepare)
