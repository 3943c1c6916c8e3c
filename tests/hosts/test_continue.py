"""Continue's command line."""

from tests.hosts.laws import HostLaws
from tests.hosts.session import Host, Place

SETTINGS = """\
name: test
version: 0.0.1
schema: v1
models:
  - name: scripted
    provider: openai
    model: scripted
    apiBase: {model}/v1/
    apiKey: scripted
    roles: [chat]
"""


def prepare(place: Place, prompt: str) -> list[str]:
    """Set Continue up with a model that speaks OpenAI's API."""
    place.write(".continue/config.yaml", SETTINGS.format(model=place.model))
    place.environment |= {"CONTINUE_TELEMETRY_ENABLED": "0", "CONTINUE_METRICS_ENABLED": "0"}
    return ["-p", prompt, "--auto", "--config", str(place.home / ".continue/config.yaml")]


class TestContinue(HostLaws):
    """Continue."""

    host = Host("continue", "Continue", "@continuedev/cli", "cn", prepare)
