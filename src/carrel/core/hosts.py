"""How long a tool's answer may be in each host. Hosts cut longer answers, some in the middle.

A host is known by the beginning of the name that it gives itself (`clientInfo.name`). The limits were measured in
November 2026: each host was run with a scripted model, a tool gave 65,536 bytes, and the request to the model showed
what was left. An answer is a little shorter than the limit, since hosts count differently.
"""

from typing import Final, Literal

from carrel.core.record import Value

Cut = Literal["middle", "end", "preview", "never"]
"""Which part of a long answer a host drops: its middle, its end, all but a few lines, or nothing."""


class Host(Value, frozen=True):
    """A known host: its client name, what it does with long answers, and how long an answer may be."""

    client: str
    tried: str
    """The version that was measured."""
    limit: int
    """Characters of a long answer that the host keeps."""
    cut: Cut
    answer: int
    """Maximum length of an answer, in bytes of JSON."""


HOSTS: Final = (
    Host("claude-code", "2.1.325", 50_000, "preview", 45_000),
    Host("codex-mcp-client", "0.166.0", 48_017, "middle", 40_000),
    Host("gemini-cli-mcp-client", "0.61", 40_295, "middle", 36_000),
    Host("opencode", "1.18", 51_504, "end", 45_000),
    Host("qwen-cli-mcp-client", "0.15", 25_497, "middle", 22_000),
    Host("@cline/core", "3.0", 7_999, "middle", 7_000),
    Host("continue-cli-client", "1.5", 65_536, "never", 45_000),
)
INSTRUCTIONS_LENGTH: Final = 2_048
"""Characters, as JavaScript counts them, of a server's instructions that Claude Code keeps."""
LEFT_OUT: Final = "\n(The rest is left out, because this host cuts here. Read carrel://guide.)"
ANSWER_LENGTH: Final = 20_000
"""Maximum length of an answer for an unknown host."""

ALWAYS_LOADED: Final = {"anthropic/alwaysLoad": True}
"""`_meta` of a tool that Claude Code shows to the model from the start; it hides others behind a search for tools."""
LONG_RESULTS: Final = {"anthropic/maxResultSizeChars": 500_000}
"""`_meta` of a tool whose answers Claude Code does not cut, for callers that ask for long answers."""


def answer_length(client: str) -> int:
    """Return the maximum length of an answer, in bytes of JSON, for a host with this client name."""
    return next((host.answer for host in HOSTS if client.startswith(host.client)), ANSWER_LENGTH)


def fit_instructions(text: str, client: str) -> str:
    """Return a server's instructions; for a host that cuts them, cut between two words, with a note."""
    # Counted without the codec: every start would import it.
    if not client.startswith("claude-code") or len(text) + sum(map("\uffff".__lt__, text)) <= INSTRUCTIONS_LENGTH:
        return text
    units = text.encode("utf-16-le", "surrogatepass")
    kept = units[: (INSTRUCTIONS_LENGTH - len(LEFT_OUT)) * 2].decode("utf-16-le", "ignore")
    return kept.rsplit(None, 1)[0] + LEFT_OUT


def length_in_json(text: str) -> int:
    """Return the length of a text as hosts count it: in bytes of JSON."""
    import json  # only for the answers of tools

    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass"))
