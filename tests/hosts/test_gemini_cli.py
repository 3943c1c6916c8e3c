"""Gemini CLI. It reads resources that are listed, by a mention or by a tool of its own."""

import json

from tests.hosts.laws import ResourceLaws, own_steps
from tests.hosts.session import Host, Place


def prepare(place: Place, prompt: str) -> list[str]:
    """Set Gemini CLI up in a trusted folder."""
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    }
    place.write(".gemini/settings.json", json.dumps(settings))
    place.environment |= {"GEMINI_API_KEY": "scripted", "GOOGLE_GEMINI_BASE_URL": place.model}
    return ["-m", "gemini-2.5-flash", "--approval-mode", "yolo", "-p", prompt]


class TestGeminiCli(ResourceLaws):
    """Gemini CLI."""

    host = Host("gemini-cli", "Gemini CLI", "@google/gemini-cli", "gemini", prepare)
    own = own_steps("list_mcp_resources", "read_mcp_resource")
