"""Codex. It drops a list of more than 2,048 entries, and has tools of its own for resources.

The model is one that Codex knows: it keeps about 48,000 characters of an answer for these, and 12,000 for others. For
these it also hides the tools of servers behind a search for tools, whatever the server says.
"""

from tests.hosts.laws import ResourceLaws, find_tools, own_steps
from tests.hosts.session import CARREL, Host, Place

SETTINGS = """\
model = "gpt-5.5"
model_provider = "scripted"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.scripted]
name = "scripted"
base_url = "{model}/v1"
wire_api = "responses"
[mcp_servers.carrel]
command = "{carrel}"
args = ["serve"]
"""


def prepare(place: Place, prompt: str) -> list[str]:
    """Set Codex up for a prompt without a terminal."""
    place.write(".codex/config.toml", SETTINGS.format(model=place.model, carrel=CARREL))
    return ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", prompt]


class TestCodex(ResourceLaws):
    """Codex."""

    host = Host("codex", "Codex", "@openai/codex", "codex", prepare)
    tools_are_shown = False
    before = find_tools("tool_search", "search the project and read resources")
    own = own_steps("list_mcp_resources", "read_mcp_resource")
