"""Claude Code, without a terminal and in one. It hides tools behind a search for tools unless they say otherwise."""

import json
from typing import Any

import pytest

from tests.hosts import project as sample
from tests.hosts.laws import LIST_CHANGED, ResourceLaws, find_tools, lists_after_change, own_steps
from tests.hosts.model import Model
from tests.hosts.script import Say, Turn
from tests.hosts.session import PATIENCE_S, PROMPT, Host, Place, Session, connect, make_place
from tests.hosts.terminal import Terminal
from tests.hosts.wire import Wire
from tests.support.waiting import until

KEY = "sk-ant-scripted"
PATIENCE_MS = str(PATIENCE_S * 1_000)
CONTROL_U = "\x15"
"""Deletes what was typed."""


def prepare(place: Place, prompt: str) -> list[str]:
    """Set Claude Code up, past its first questions, with its search for tools."""
    settings = {
        "hasCompletedOnboarding": True,
        "customApiKeyResponses": {"approved": [KEY]},
        "projects": {str(place.project): {"hasTrustDialogAccepted": True}},
    }
    place.write(".claude.json", json.dumps(settings))
    place.environment |= {
        "ANTHROPIC_BASE_URL": place.model,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "ENABLE_TOOL_SEARCH": "true",
        "IS_SANDBOX": "1",
        # On a busy machine, too, the first request waits for the server.
        "MCP_CONNECTION_NONBLOCKING": "false",
        "MCP_TIMEOUT": PATIENCE_MS,
        "MCP_CONNECT_TIMEOUT_MS": PATIENCE_MS,
        "CLAUDE_CODE_MCP_STARTUP_WAIT_MS": PATIENCE_MS,
    }
    return ["-p", prompt, "--dangerously-skip-permissions"]


HOST = Host("claude-code", "Claude Code", "@anthropic-ai/claude-code", "claude", prepare)


@pytest.fixture(scope="module", name="typed")
def type_a_mention(tmp_path_factory: pytest.TempPathFactory) -> tuple[Turn, Wire]:
    """Mention a document in the terminal, then add a file; return the request, and what was said to Carrel."""
    with Model() as model:
        place = make_place(tmp_path_factory.mktemp("terminal") / "place", model)
        model.follow({"": Say("The script is done.")})
        prepare(place, "")
        connect(HOST, place)
        wire = Wire(place.home)
        with Terminal(HOST.command([]), place) as terminal:
            until(lambda: wire.answers("resources/list"), PATIENCE_S)
            terminal.wait_for("shift+tab to cycle")
            # It knows a document only some time after the list has come: when it offers it for what is typed.
            terminal.type("@lighthouse")
            terminal.wait_for("carrel:workspace:///docs/ligh")
            terminal.type(CONTROL_U)
            terminal.wait_for("to paste deleted text")
            terminal.type(PROMPT)
            terminal.wait_for(PROMPT)
            terminal.type("\r")
            terminal.wait_for("The script is done.")
            (place.project / sample.ADDED).write_text("# News\n", encoding="utf-8")
            until(lambda: wire.sent(LIST_CHANGED), PATIENCE_S)
            until(lambda: lists_after_change(wire), PATIENCE_S)
    return model.turns[0], wire


class TestClaudeCode(ResourceLaws):
    """Claude Code without a terminal."""

    host = HOST
    own = find_tools("ToolSearch", "select:ListMcpResourcesTool,ReadMcpResourceTool") | own_steps(
        "ListMcpResourcesTool", "ReadMcpResourceTool"
    )

    def test_other_tools_are_hidden_behind_the_search_for_tools(self, session: Session) -> None:
        assert "ToolSearch" in session.first.tools
        assert "ListMcpResourcesTool" not in session.first.tools

    @pytest.fixture(name="more")
    def more_facts(self, session: Session, typed: tuple[Turn, Wire]) -> dict[str, Any]:
        """Return the names of the tools that had to be loaded first, and what it does in the terminal."""
        turn, wire = typed
        return {
            "own_tools": sorted(name for name in session.model.turns[-1].tools if "McpResource" in name),
            "own_read_teaches": sample.DOCUMENT_URI in session.results["own missing"],
            "terminal": {"mention": sample.SENTENCE in json.dumps(turn.body), "lists_again": lists_after_change(wire)},
        }


def test_a_mention_in_the_terminal_puts_the_document_before_the_model(typed: tuple[Turn, Wire]) -> None:
    turn, wire = typed

    assert sample.SENTENCE in json.dumps(turn.body)
    assert [params["uri"] for params in wire.requests("resources/read")] == [sample.DOCUMENT_URI]


def test_in_the_terminal_the_tools_are_shown_from_the_start(typed: tuple[Turn, Wire]) -> None:
    turn, _ = typed

    assert turn.find_tool("search", "carrel") == "mcp__carrel__search"
    assert turn.find_tool("read_resource", "carrel") == "mcp__carrel__read_resource"


def test_in_the_terminal_a_change_makes_it_list_again(typed: tuple[Turn, Wire]) -> None:
    _, wire = typed

    assert lists_after_change(wire)
