"""Every kind of page that the explorer has, by a name."""

import re

from tests.browser.desk import Desk

PAGES = {
    "home": "/",
    "folder": "/workspace/",
    "odd names": "/workspace/evil/names",
    "small folder": "/workspace/lib",
    "code": "/workspace/lib/main.dart",
    "long code": "/workspace/lib/long.py",
    "long line": "/workspace/web/app.min.js?start=65536",
    "lines of code": "/workspace/lib/long.py?lines=100-140",
    "markdown": "/workspace/docs/guide.md",
    "json": "/workspace/data/beds.json",
    "image": "/workspace/assets/logo.png",
    "bytes": "/workspace/assets/blob.bin",
    "empty file": "/workspace/empty.txt",
    "log in a file": "/workspace/server.log.txt",
    "html file": "/workspace/evil/page.html",
    "svg file": "/workspace/evil/drawing.svg",
    "outline": "/workspace/lib/long.py?outline",
    "file's history": "/workspace/NOTES.md?log",
    "file's difference": "/workspace/NOTES.md?diff=HEAD~1",
    "file's blame": "/workspace/NOTES.md?blame",
    "file of the past": "/workspace/NOTES.md?at=HEAD~1",
    "git log": "/git/log",
    "git commit": "/git/commit/HEAD",
    "git diff": "/git/diff/HEAD~2..HEAD",
    "git status": "/git/status",
    "git branches": "/git/branches",
    "logs": "/logs/run",
    "log": "/logs/run/{lamps}",
    "failed log": "/logs/run/{broken}",
    "memory": "/sage/failure",
    "memory record": "/sage/failure/jwt-localstorage",
    "checkpoint": "/sage/checkpoint/2026-02-15T10-12-00_jwt-research-keep-tokens-in-secure-stora",
    "tasks": "/scopes/scope",
    "task": "/scopes/scope/project-alpha",
    "task tree": "/scopes/tree/project-alpha",
    "packages": "/alc/packages",
    "package": "/alc/packages/sketch/meta",
    "package index": "/alc/hub/index",
    "card": "/alc/cards/sketch_demo_1",
    "shelf": "/garden/beds/north",
    "mount": "/friend+friend/letters/first",
    "guide": "/carrel/guide",
    "search": "/-/search?q=forecast",
    "empty search": "/-/search",
    "search without hits": "/-/search?q=zyzzyva",
    "explained": "/-/explain?uri=workspace%3A%2F%2F%2FREADME.md",
    "explained refusal": "/-/explain?uri=workspace%3A%2F%2F%2F.env",
    "explain form": "/-/explain",
    "providers": "/-/providers",
    "limits": "/-/limits",
    "health": "/-/health",
    "subscriptions": "/-/subscriptions",
    "callers": "/-/callers",
    "index": "/-/index",
    "message and answer": "/-/model?uri=workspace%3A%2F%2F%2FREADME.md",
}
REFUSALS = {
    "secret": ("/workspace/.env", 403),
    "ignored": ("/workspace/build/app.log", 403),
    "missing": ("/workspace/nothing.txt", 404),
    "unknown scheme": ("/nothing/at/all", 400),
    "bad lines": ("/workspace/README.md?lines=x", 400),
    "bad query": ("/workspace/README.md?colour=red", 400),
    "nothing": ("/-/nothing", 404),
}
"""Pages that refuse, with their status."""
OUTSIDE = {"stranger": ("/", 401), "used-up link": ("{link}", 410)}
"""Pages for a browser without access, with their status."""
LIMITED = {
    "home": ("/", 200),
    "tasks": ("/scopes/scope", 200),
    "task": ("/scopes/scope/project-alpha", 200),
    "search": ("/-/search?q=forecast", 200),
    "explained": ("/-/explain?uri=workspace%3A%2F%2F%2FREADME.md", 200),
    "denied": ("/workspace/README.md", 403),
    **{name: (f"/-/{name}", 200) for name in ("providers", "limits", "health", "subscriptions", "callers", "index")},
}
"""Pages for a caller whose token covers `scopes:read` alone, with their status."""


def path_of(desk: Desk, name: str) -> str:
    """Return the address of a page."""
    path = PAGES[name] if name in PAGES else REFUSALS[name][0]
    if found := re.search(r"\{(\w+)\}", path):
        return path.replace(found[0], log_of(desk, found[1]))
    return path


def log_of(desk: Desk, name: str, kind: str = "run") -> str:
    """Return the id of the log of a command that ran."""
    told = desk.call("resources/directory/read", {"uri": f"logs://{kind}"}, f"logs://{kind}")
    uris = [str(entry["uri"]) for entry in told["result"]["resources"]]
    [found] = [uri for uri in uris if f"/{name}_" in uri]
    return found.rpartition("/")[2]
