"""Cline's command line. It keeps less of an answer than any other host: 8,000 characters."""

import json

from tests.hosts.laws import HostLaws
from tests.hosts.session import Host, Place


def prepare(place: Place, prompt: str) -> list[str]:
    """Set Cline up with a model that speaks OpenAI's API."""
    name = "openai-compatible"
    model = {"provider": name, "apiKey": "scripted", "model": "scripted", "baseUrl": f"{place.model}/v1"}
    saved = {"settings": model, "updatedAt": "2026-11-17T00:00:00.000Z", "tokenSource": "manual"}
    providers = {"version": 1, "lastUsedProvider": name, "modes": {}, "providers": {name: saved}}
    place.write(".cline/data/settings/providers.json", json.dumps(providers))
    place.environment |= {"CLINE_TELEMETRY_DISABLED": "1", "CLINE_NO_AUTO_UPDATE": "1"}
    return ["--auto-approve", "true", prompt]


class TestCline(HostLaws):
    """Cline."""

    host = Host("cline", "Cline", "cline", "cline", prepare)
