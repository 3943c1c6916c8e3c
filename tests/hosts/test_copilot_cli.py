"""Copilot CLI, without an account: it takes a model from elsewhere when told to stay offline."""

from tests.hosts.laws import HostLaws
from tests.hosts.session import Host, Place


def prepare(place: Place, prompt: str) -> list[str]:
    """Set Copilot CLI up with a model that speaks OpenAI's API."""
    place.environment |= {
        "COPILOT_PROVIDER_BASE_URL": f"{place.model}/v1",
        "COPILOT_PROVIDER_API_KEY": "scripted",
        "COPILOT_PROVIDER_TYPE": "openai",
        "COPILOT_MODEL": "scripted",
        "COPILOT_OFFLINE": "true",
    }
    return ["-p", prompt, "--allow-all-tools", "--no-auto-update"]


class TestCopilotCli(HostLaws):
    """Copilot CLI."""

    host = Host("copilot-cli", "Copilot CLI", "@github/copilot", "copilot", prepare)
