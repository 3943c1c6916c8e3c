"""Renders docs/hosts.md from what hosts were seen to do (tests/hosts/seen); scripts/docs.py writes the page."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from carrel.core import hosts

ROOT = Path(__file__).resolve().parents[1]
SEEN = ROOT / "tests" / "hosts" / "seen"
Record = dict[str, Any]

INTRODUCTION = """\
# Hosts

What each host does with Carrel, as seen from the outside: `make hosts` runs the real programs, with pinned versions, in
a folder of more than 2,100 files, connected by `carrel connect`. A scripted model on loopback records what they send to
it, and another record holds what they send to Carrel. A host that does something else than this page says fails the
tests.

Generated from `tests/hosts/seen` by `make docs`; `make hosts-record` runs the hosts and writes down what they do.

In every host below, the tests see that a search, a list and two parts of a long text reach the model exactly as Carrel
sent them, that the parts follow each other, and that a misspelt path is answered with the file that is meant.
"""

NOT_RUN = """\
## Not run

| host | what is known |
| --- | --- |
| VS Code | from its source: resources in its own picker and file view; its agent cannot read them; tools |
| Cursor, Zed | from their documents and source: tools only |
| Amp | from npm; it starts only with an account |
| Crush | its npm package downloads the program from elsewhere when it is installed |
| Goose | neither on npm nor on PyPI |
"""

NOTES = {
    "claude-code": "Without a terminal (`-p`) a mention stays plain text. When its own tool reads a missing resource, "
    "it says so in its own words and drops the name of the file that is meant.",
    "codex": "With a model it knows, it hides the tools of every server behind its search for tools; with the newest, "
    "the model calls them from code, and sees the first line of the instructions. With a model it does not know, it "
    "shows them, but keeps only about 12,000 characters of an answer: set `[server] part_chars = 11000`.",
    "gemini-cli": "It starts servers only in a trusted folder. Its own tool knows only listed resources, and says of "
    "others in its own words that they are missing.",
    "opencode": "Its own tool does not pass on why a read failed. Its terminal, which has mentions, is not run here.",
    "qwen-code": "It hides the tools of servers behind its search for tools, unless the server's entry has "
    '`"alwaysLoadTools": true`, as `carrel connect` writes it.',
    "copilot-cli": "Run with a model from elsewhere, without an account.",
}
"""What the columns cannot say, by host."""


def records() -> dict[str, Record]:
    """Return what was seen, by the name of the host, in order of the titles."""
    read = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in SEEN.glob("*.json")}
    return dict(sorted(read.items(), key=lambda item: str(item[1]["title"]).lower()))


def render() -> str:
    """Return the page."""
    seen = records()
    tables = (
        _table("Tools", TOOLS_HEAD, map(_tools_row, seen.values())),
        _table("Resources", RESOURCES_HEAD, map(_resources_row, seen.values())),
        _table("On the wire", WIRE_HEAD, map(_wire_row, seen.values())),
    )
    notes = [f"- **{seen[name]['title']}.** {text}" for name, text in NOTES.items() if name in seen]
    return "\n".join([INTRODUCTION, *tables, "## Notes\n", *notes, "", NOT_RUN])


def _table(title: str, head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join([f"## {title}\n", *(f"| {' | '.join(line)} |" for line in lines), ""])


TOOLS_HEAD = ("host", "version", "instructions reach the model", "Carrel's tools", "longest answer of Carrel")


def _tools_row(record: Record) -> tuple[str, ...]:
    shown = "shown from the start" if record["tools_shown"] else "found by the host's search for tools"
    known = next((host for host in hosts.HOSTS if record["client"].startswith(host.client)), None)
    answer = known.answer if known else hosts.ANSWER_LENGTH
    return record["title"], record["version"], _yes(record["instructions"]), shown, f"{answer:,} characters"


RESOURCES_HEAD = ("host", "lists", "reads", "templates", "`@` mention", "lists again after a change")


def _resources_row(record: Record) -> tuple[str, ...]:
    terminal = record.get("terminal", {})
    columns = (_seen(record, terminal, "mention"), _seen(record, terminal, "lists_again"))
    return record["title"], record["lists"], _by_tool(record, "read"), _by_tool(record, "template"), *columns


def _by_tool(record: Record, word: str) -> str:
    own = [f"`{name}`" for name in record["own_tools"] if word in name.lower()]
    return f"by its tool {own[0]}" if own else "no"


def _seen(record: Record, terminal: Record, fact: str) -> str:
    return "in the terminal" if terminal.get(fact) and not record[fact] else _yes(record[fact])


WIRE_HEAD = ("host", "client name", "protocol", "methods")


def _wire_row(record: Record) -> tuple[str, ...]:
    methods = ", ".join(f"`{method}`" for method in record["methods"])
    return record["title"], f"`{record['client']}`", record["protocol"], methods


def _yes(fact: bool) -> str:
    return "yes" if fact else "no"
