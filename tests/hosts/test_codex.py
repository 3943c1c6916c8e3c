"""Codex. It drops a list of more than 2,048 entries, and has tools of its own for resources.

The model is one that Codex knows: it keeps about 48,000 characters of an answer for these, and 12,000 for others. For
these it also hides the tools of servers behind a search for tools, whatever the server says.
"""

import json
from dataclasses import replace
from functools import partial

import pytest

from tests.hosts import project as sample
from tests.hosts.laws import TOOLS, ResourceLaws, Steps, find_tools, own_steps
from tests.hosts.script import Call, Json, Turn
from tests.hosts.session import PATIENCE_S, Host, Place, Session, run, tool_texts
from tests.hosts.wire import Wire
from tests.support.waiting import until

SETTINGS = """\
model = "{model}"
model_provider = "scripted"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
"""


def prepare(place: Place, prompt: str, model: str = "gpt-5.5") -> list[str]:
    """Set Codex up for a prompt without a terminal."""
    place.write(".codex/config.toml", SETTINGS.format(model=model, url=place.model))
    patience = f"mcp_servers.carrel.startup_timeout_sec={PATIENCE_S}"
    return ["exec", "-c", patience, "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", prompt]


class TestCodex(ResourceLaws):
    """Codex."""

    host = Host("codex", "Codex", "@openai/codex", "codex", prepare)
    tools_are_shown = False
    before = find_tools("tool_search", "search the project and read resources")
    own = own_steps("list_mcp_resources", "read_mcp_resource", "list_mcp_resource_templates") | {
        "list of all": Call("list_mcp_resources", {}, server="")
    }

    def test_the_list_of_all_servers_is_not_dropped(self, session: Session) -> None:
        assert "workspace:///README.md" in session.results["list of all"]


# With the newest models, Codex gives the model one tool that runs code, and the tools of servers as functions of it.

FIND = "text(ALL_TOOLS.filter(tool => tool.name.includes('carrel')).map(tool => tool.name).sort().join(' '))"
CALL = "text((await tools.mcp__carrel__{tool}({arguments})).content[0].text)"


def run_code(code: str) -> Call:
    """Return a step in which the model runs code."""
    return Call("functions/exec", {"code": code}, server="")


def call_in_code(tool: str, **arguments: str) -> Call:
    """Return a step in which the model calls a tool of Carrel from code."""
    step = run_code(CALL.format(tool=tool, arguments=json.dumps(arguments)))
    return replace(step, again_while="search again")


def wait_for_carrel(place: Place) -> Call:
    """Return a step that waits for Carrel: with such a model, Codex does not wait for servers before it asks."""

    def wait(_: Turn) -> Json:
        until(lambda: Wire(place.home).answers("tools/list"), PATIENCE_S)
        return {"code": "text('ready')"}

    return Call("functions/exec", wait, server="")


@pytest.fixture(scope="module", name="coded")
def run_with_code(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """Run Codex with a model that runs code."""
    script: Steps = {
        "wait": wait_for_carrel,
        "tools": run_code(FIND),
        "search": call_in_code("search", query="keeper lantern ship reef"),
        "part": call_in_code("read_resource", uri=sample.LONG),
        "missing": call_in_code("read_resource", uri=sample.MISSPELT),
    }
    host = replace(TestCodex.host, prepare=partial(prepare, model="gpt-6.1-sol"))
    return run(host, script, tmp_path_factory.mktemp("coded") / "place")


def test_a_model_that_runs_code_reads_what_carrel_is_for(coded: Session) -> None:
    assert coded.model.faults == []
    assert (
        "mcp__carrel: This server has the project's own knowledge as read-only resources."
        in coded.model.turns[-1].system
    )


def test_a_model_that_runs_code_finds_and_calls_the_tools(coded: Session) -> None:
    assert [name for name in TOOLS if f"mcp__carrel__{name}" not in coded.results["tools"].split()] == []
    assert sample.SENTENCE in coded.results["search"]
    assert f"did you mean {sample.DOCUMENT_URI}?" in coded.results["missing"]


def test_a_model_that_runs_code_gets_a_part_whole(coded: Session) -> None:
    sent = tool_texts(coded.wire.answers("tools/call"))
    part = next(text for text in sent if text.startswith("[nights.txt: lines 1-"))

    assert part in coded.results["part"]
