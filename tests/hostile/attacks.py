"""The URIs that an attacker asks for, beside those that are listed, offered and completed."""

from collections.abc import Mapping
from typing import Final

_WAYS_OUT: Final = (
    "../../../../home/.ssh/id_rsa",
    "..%2f..%2f..%2fhome%2f.ssh%2fid_rsa",
    "%2e%2e/%2e%2e/outside/notes.md",
    ".git/config",
    ".git%2fconfig",
    ".%67it/config",
    ".env",
    "deploy/id_rsa",
    "a%00b",
    "a%0d%0aX-Injected:%201",
    "%1b%5d0;owned%07",
    "link",
    "link/notes.md",
    "folder/link/notes.md",
    "chain",
    "loop",
)

ATTACKS: Final[Mapping[str, tuple[str, ...]]] = {
    "skills": (
        "skill://",
        "skill://first",
        "skill://first/forms",
        *(f"skill://first/{way}" for way in _WAYS_OUT),
        *(f"skill://{way}" for way in _WAYS_OUT),
        *(
            f"skill://{name}/SKILL.md"
            for name in ("first", "second", "link", "..", "bomb", "deep", "far", "huge", "%1b%5b2J", "agents/first")
        ),
        "skill://first/forms/card.md?lines=1000000000-1000000001",
        "skill://first/huge.bin?start=1000000000000",
        "skill://first/.env",
        "skill://first/out.md",
        "skill://first/up/.env",
    ),
    "sage": (
        *(f"sage://system/{way}" for way in _WAYS_OUT),
        "sage://system/config",
        "sage://system/notes.md",
        *(
            f"sage://{kind}/{name}"
            for kind in ("checkpoint", "knowledge", "failure")
            for name in ("first", "link", "..", "..%2f..%2f.git%2fconfig", "%1b%5b2J", "stranger")
        ),
    ),
    "scopes": (
        "scopes://cli-quick-ref",
        *(
            f"scopes://{kind}/{name}"
            for kind in ("scope", "tree")
            for name in ("first", "..", "%1b%5b2J", "stranger", "a%00b")
        ),
        "scopes://tree/first?depth=100000&max_nodes=100000",
    ),
    "alc": (
        *(
            f"alc://packages/{name}/{part}"
            for name in ("first", "link", "..", "nvim", "package", "huge", "deep")
            for part in ("init.lua", "meta", "narrative")
        ),
        *(
            f"alc://{kind}/{name}"
            for kind in ("cards", "scenarios", "eval", "logs")
            for name in ("config", "link", "..")
        ),
        "alc://logs/s1?max_chars=1000000",
        "alc://logs/log",
        "alc://cards/first_m_1",
        "alc://cards/first_m_1/samples?limit=10000",
        "alc://cards/dots",
        "alc://cards/card",
        "alc://cards/credentials",
        "alc://eval/first_1745000000",
        "alc://scenarios/first",
        "alc://scenarios/init",
        "alc://types/alc.d.lua",
        "alc://hub/index",
    ),
    "logs": (
        *(
            f"logs://{kind}/{name}"
            for kind in ("run", "build")
            for name in ("web_1", "link", "..", "..%2f..%2fscopes.db", "%1b%5b2J")
        ),
        "logs://run/web_1?tail=1000000",
    ),
    "workspace": (
        *(f"workspace:///{way}" for way in _WAYS_OUT),
        "workspace:///README.md?lines=1000000000-1000000001",
        "workspace:///README.md?start=1000000000000",
        "workspace:////etc/passwd",
        "workspace:///.sage/system/link",
        "workspace:///deploy/server.pem~",
        "workspace:///?after=zzz",
        *(
            f"workspace:///{path}?{query}"
            for path in (".env", "deploy/id_rsa", "README.md", "", "link/notes.md", "liar.md")
            for query in ("at=HEAD~1", "diff=v1..HEAD", "log", "blame")
        ),
        "workspace:///README.md?diff=v1",
        "workspace:///src?at=v1",
        "workspace:///README.md?at=..%2f..%2f..%2foutside%2fnotes.md",
        "workspace:///README.md?at=--output%3dx",
    ),
    "git": (
        *(
            f"git://{what}{query}"
            for what in ("log", "commit/HEAD", "commit/HEAD~2", "diff/v1..HEAD", "branches", "tags", "status")
            for query in ("", "?format=json")
        ),
        *(f"git://commit/{way}" for way in _WAYS_OUT),
        f"git://commit/{'aa' * 20}",
        "git://commit/blob",
        "git://commit/out",
        "git://commit/refs/tags/notes.md",
        "git://log?at=2026-01-01",
        "git://log?skip=1000000",
        "git://diff/--output=x..--help",
        "git://diff/HEAD~100000..HEAD",
    ),
}
"""By the name of the provider. Names of files are those that the repositories use."""

OTHER: Final = (
    "carrel://guide",
    "carrel://health",
    "carrel://catalog",
    "file:///etc/passwd",
    "nobody://x",
    "\x1b[2J",
    "",
)

SEARCHES: Final = (
    "first",
    "stranger token",
    "c4n4ry",
    '"token = c4n4ry"',
    "/c4n4ry-[0-9a-f]+/",
    "/./ path:.env",
    "path:deploy",
    "path:link",
    "nobody:x scheme:nobody",
    "/(/",
    "\x1b[2J",
    "path:a " * 1_000,
    "/a " * 1_000,
)
"""What an attacker searches for. No query holds the whole canary: answers may repeat a query."""
