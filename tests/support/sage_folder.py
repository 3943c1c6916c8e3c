"""A Sage folder for tests, as the page describes it."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from carrel.catalog.catalog import Catalog
from carrel.client.client import Client
from carrel.core.provider import Project
from carrel.core.store_address import StoreAddress
from carrel.providers.sage import Sage
from carrel.server.server import Server
from carrel.stores.database import Database
from carrel.stores.documents import documents_since, writing_documents
from carrel.stores.shared import acquire, release

STEM = "2026-02-15T10-12-00_jwt-research-keep-tokens-in-httponly-coo"

CHECKPOINT = f"""\
---
id: {STEM}
type: checkpoint
ts: '2026-02-15T10:12:00.250000+00:00'
trigger: synthesis
confidence: 0.85
message_count: 0
token_estimate: 0
---

# Where should the web client keep its JWT?

## Thesis
JWT research: keep tokens in httpOnly cookies

## Sources
- **owasp-note** (document): scripts can read localStorage — _supports_

"""

INDEX = """\
version: 1
items:
- id: auth-patterns
  type: knowledge
  file: global/auth-patterns.md
  triggers: {keywords: [auth, cookie], patterns: []}
  scope: {skills: [], always: false}
  metadata: {added: '2026-02-16', source: team wiki, tokens: 9, status: '', saved_at_commit: 4be19aa}
  code_links: [{chunk_id: 'web/tokens.py::set_token', relation: implements, note: sets the cookie}]
  knowledge_links: [{target_id: cookie-policy, relation: related}]
"""

CONTENT = """\
---
id: auth-patterns
type: knowledge
keywords: [auth, cookie]
source: team wiki
added: '2026-02-16'
---

Set the token with httpOnly and Secure.
"""

FAILURE = """\
---
id: jwt-localstorage
type: failure
approach: Tokens in localStorage
keywords: [jwt, storage]
related_to: [auth-patterns]
added: '2026-02-14T16:40:00'
project: shop
---

## Why it failed
Any script on the page can read them

## Learned
Use httpOnly cookies
"""

FAILURE_STEM = "2026-02-14T16-40-00_jwt-localstorage"

FILES = {
    ".sage/system/objective.md": "# Ship the login page\n\nUse jwt.\n",
    ".sage/system/pinned/reference.md": "Reference.\n",
    f".sage/checkpoints/{STEM}.md": CHECKPOINT,
    ".sage/knowledge/index.yaml": INDEX,
    ".sage/knowledge/global/auth-patterns.md": CONTENT,
    f".sage/failures/{FAILURE_STEM}.md": FAILURE,
    "web/tokens.py": "\n" * 11 + "def set_token(response, token):\n    pass\n",
}

CHECKPOINT_TEXT = (
    f"# Research Context (Restored from Checkpoint)\n*Checkpoint: {STEM}*\n"
    "*Saved: 2026-02-15 10:12 | Confidence: 85%*\n\n"
    "## Core Question\nWhere should the web client keep its JWT?\n\n"
    "## Current Thesis\nJWT research: keep tokens in httpOnly cookies\n\n"
    "## Key Sources\n- [+] **owasp-note** (document): scripts can read localStorage\n\n"
)
CHECKPOINT_TOON = (
    f"# Research Context\ncheckpoint: {STEM}\nsaved: 2026-02-15 10:12 | confidence: 85%\n\n"
    "## Question\nWhere should the web client keep its JWT?\n\n"
    "## Thesis\nJWT research: keep tokens in httpOnly cookies\n\n"
    "## Sources [1]\n- [+] **owasp-note** (document): scripts can read localStorage\n\n"
)
KNOWLEDGE_TEXT = (
    "## auth-patterns\n*Type: knowledge | Added: 2026-02-16 | Status: active*\n*Source: team wiki*\n"
    "*Keywords: auth, cookie*\n\nSet the token with httpOnly and Secure.\n\n"
    "### Linked Code\n- `web/tokens.py::set_token` (implements): web/tokens.py:12, ok — sets the cookie\n\n"
    "### Linked Knowledge\n- sage://knowledge/cookie-policy (related)\n"
)
KNOWLEDGE_TOON = (
    "# Knowledge [1] ~9tok\n\n## auth-patterns (team wiki)\n"
    "type: knowledge | added: 2026-02-16 | status: active\nkeywords: auth, cookie\n\n"
    "Set the token with httpOnly and Secure.\n\n"
    "### Code [1]\n- [+] `web/tokens.py::set_token:12`\n\n"
    "### Links [1]\n- sage://knowledge/cookie-policy (related)\n"
)
FAILURE_TEXT = (
    "## jwt-localstorage\n**Approach:** Tokens in localStorage\n"
    "**Why it failed:** Any script on the page can read them\n**Learned:** Use httpOnly cookies\n"
)
FAILURE_TOON = (
    "## jwt-localstorage\napproach: Tokens in localStorage\n"
    "failed: Any script on the page can read them\nlearned: Use httpOnly cookies\n"
)


def lay_out(project: Path, files: dict[str, str] | None = None) -> Path:
    """Write files into a project folder."""
    for name, text in (FILES if files is None else files).items():
        put(project / name, text)
    return project


def put(path: Path, text: str | bytes) -> Path:
    """Write one file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def open_sage(project: Path, **settings: Any) -> Sage:
    """Return the provider for a project; the settings count as the user's."""
    environment = {"HOME": str(project / "home"), "PATH": "/usr/local/bin:/usr/bin:/bin"}
    named = frozenset(settings)
    store = _team[0] if _team else None
    sage = Sage(Project(str(project), environment, given=named, named=named, store=store), **settings)
    if store is not None:
        _follow(sage, project / ".sage", store)
    return sage


_team: list[StoreAddress] = []
"""The address of the store that is used in place of folders, if any."""


@contextmanager
def in_team(address: StoreAddress) -> Iterator[None]:
    """Make all memories use an empty team's store meanwhile."""
    database = acquire(address)
    with writing_documents(database, "sage") as writer:
        for document in documents_since(database, "sage", -1)[0]:
            writer.put(document.name, None)
    _team.append(address)
    try:
        yield
    finally:
        _team.clear()
        release(database)


def _follow(sage: Sage, folder: Path, address: StoreAddress) -> None:
    """Copy a folder into the store before each look at the memory, so that a test can write files in both cases."""
    refresh = sage.memory.refresh

    def follow() -> None:
        database = acquire(address)
        try:
            push(folder, database)
        finally:
            release(database)
        refresh()

    vars(sage.memory)["refresh"] = follow


def push(folder: Path, database: Database) -> None:
    """Make the documents of a store equal to the files of a folder."""
    paths = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    files = {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}
    stored, _ = documents_since(database, "sage", -1)
    known = {one.name: (one.data, one.modified_ns) for one in stored if one.data is not None}
    changed = {name: files.get(name) for name in known | files if known.get(name) != files.get(name)}
    if changed:
        with writing_documents(database, "sage") as writer:
            for name, file in changed.items():
                writer.put(name, *((None, None) if file is None else file))


def read(sage: Sage, uri: str) -> str:
    """Return the text that a client gets for a URI."""
    reading = Catalog([sage]).read(uri)
    [item] = reading.items
    assert hasattr(item, "text")
    return str(item.text)


def ask(sage: Sage, method: str, era: str = "modern", **params: Any) -> dict[str, Any]:
    """Return the result of a request, as it is sent."""
    with Client.to(Server(Catalog([sage])), era="modern" if era == "modern" else "legacy") as client:
        return dict(client.request(method, params))


def git(project: Path, *words: str) -> str:
    """Run git in a project, with an identity for commits."""
    identity = ("-c", "user.name=Nobody", "-c", "user.email=nobody@example.org")
    done = subprocess.run(("git", *identity, *words), cwd=project, capture_output=True, check=True)
    return done.stdout.decode().strip()


def checkpoint(stem: str, question: str = "What?", thesis: str = "That.", **fields: object) -> str:
    """Return the text of a checkpoint."""
    head = {"id": stem, "type": "checkpoint", "confidence": 0.5, **fields}
    lines = "".join(f"{key}: {json.dumps(value)}\n" for key, value in head.items())
    return f"---\n{lines}---\n\n# {question}\n\n## Thesis\n{thesis}\n\n"
