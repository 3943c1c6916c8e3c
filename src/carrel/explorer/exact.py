"""The exact answer of the protocol to a read, and the texts that a person may copy.

The answer is made by the server itself, from a message as a client sends it, with the access of the person.
"""

import shlex
from typing import Final

from carrel.catalog.access import current_access
from carrel.protocol import eras, jsonrpc
from carrel.server.requests import Work
from carrel.server.server import Server

MAX_SHOWN: Final = 200_000
"""Characters of an answer in a page; a longer one has its own address."""
MENTIONING: Final = ("Claude Code", "Gemini CLI", "Qwen Code")
"""The hosts in which `@` and the URI put a resource before the model: see `docs/hosts.md`."""
_META: Final = {eras.VERSION_KEY: eras.MODERN_VERSION, eras.CAPABILITIES_KEY: {}}


def question(uri: str) -> dict[str, object]:
    """Return the message with which a client reads a URI."""
    return {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": uri, "_meta": _META}}


def answer(server: Server, uri: str) -> bytes:
    """Return what the server answers to a client that reads a URI with the access of the caller."""
    connection = server.connect(lambda _: None, current_access())
    try:
        given = connection.accept(jsonrpc.plain(question(uri)))
        return (given.run() if isinstance(given, Work) else given) or b""
    finally:
        connection.close()


def copies(uri: str, url: str) -> list[dict[str, str]]:
    """Return what a person may copy of a resource: names and texts, none of which holds a token."""
    curl = f'curl -H "Authorization: Bearer $CARREL_TOKEN" {shlex.quote(url)}'
    return [
        {"name": "URI", "label": "URI", "text": uri},
        {"name": f"mention for {', '.join(MENTIONING)}", "label": "@ mention", "text": f"@carrel:{uri}"},
        {"name": "carrel cat", "label": "carrel cat", "text": f"carrel cat {shlex.quote(uri)}"},
        {"name": "curl", "label": "curl", "text": curl},
    ]
