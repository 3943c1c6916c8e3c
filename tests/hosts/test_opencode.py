"""opencode, with `opencode run`."""

import json

from tests.hosts.laws import ResourceLaws, own_steps
from tests.hosts.session import PATIENCE_S, Host, Place


def prepare(place: Place, prompt: str) -> list[str]:
    """Set opencode up with a model of its own settings."""
    model = {"name": "scripted", "limit": {"context": 200_000, "output": 8_000}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{place.model}/v1", "apiKey": "scripted"},
        "models": {"scripted": model},
    }
    settings = {
        "autoupdate": False,
        "share": "disabled",
        "experimental": {"mcp_timeout": PATIENCE_S * 1_000},
        "model": "scripted/scripted",
        "small_model": "scripted/scripted",
        "provider": {"scripted": provider},
    }
    place.write(".config/opencode/opencode.json", json.dumps(settings))
    switches = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
    place.environment |= {f"OPENCODE_DISABLE_{switch}": "1" for switch in switches}
    return ["run", prompt]


class TestOpencode(ResourceLaws):
    """opencode."""

    host = Host("opencode", "opencode", "opencode-ai", "opencode", prepare)
    own = own_steps("list_mcp_resources", "read_mcp_resource", "list_mcp_resource_templates")
