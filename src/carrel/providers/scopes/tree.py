"""A scope's tree as text, without recursion.

Each level is one query that an index answers without sorting, with at most one row more than can be shown. Then the
levels are walked depth first up to the maximum number of nodes.
"""

from carrel.core.hashing import hex_sha256
from carrel.core.record import Value, replace
from carrel.providers.scopes import queries
from carrel.providers.scopes.connection import ScopesConnection
from carrel.providers.scopes.uris import DEFAULT_NODES, TreeQuery
from carrel.providers.scopes.values import TREE_URI, Scope, node_line


class Rendered(Value, frozen=True, gc=False):
    """A tree as text, and its facts."""

    text: str
    etag: str
    depth: int
    nodes: int
    is_truncated: bool
    next_uri: str | None
    last_modified_ms: int


class Node(Value, frozen=True):
    """A scope with its children."""

    id: str
    line: str
    updated_at: int
    children: list["Node"]


def render(connection: ScopesConnection, root: Scope, query: TreeQuery, ceiling: int) -> Rendered:
    """Return a scope's tree."""
    depth = query.levels or 1
    bound = query.max_nodes or min(DEFAULT_NODES, ceiling)
    top = Node(root.id, node_line(root.alias, root.title, root.status), root.updated_at, [])
    _gather(connection, top, query, depth, bound)
    lines, shown, last_modified = _walk(top, bound)
    is_truncated = len(lines) > bound
    if is_truncated:
        del lines[bound:]
        lines[-1] += " (truncated)"
    nodes = len(lines)
    next_uri = None
    if shown and not (query.skip is None and query.limit is None):
        after = (query.skip or 0) + shown
        remaining = queries.count_children(connection, root.id) - after
        if remaining > 0:
            next_uri = f"{TREE_URI}{root.alias}{replace(query, skip=after).text()}"
            lines.append(f"... {remaining} more: {next_uri}")
    text = "\n".join(lines)
    return Rendered(text, hex_sha256(text), depth, nodes, is_truncated, next_uri, last_modified)


def _gather(connection: ScopesConnection, top: Node, query: TreeQuery, depth: int, bound: int) -> None:
    """Attach the levels below the top node, each up to the bound."""
    most = bound + 1
    level = [top]
    for number in range(depth):
        if number == 0:
            limit = most if query.limit is None else min(query.limit, most)
            rows = queries.window(connection, top.id, query.skip or 0, limit)
        else:
            rows = queries.levels(connection, [node.id for node in level], most)
        below = []
        for rank, scope_id, alias, title, status, updated_at in rows:
            node = Node(scope_id, node_line(alias, title, status), updated_at, [])
            level[rank].children.append(node)
            below.append(node)
        if not below:
            return
        level = below


def _walk(top: Node, bound: int) -> tuple[list[str], int, int]:
    """Return the lines depth first, one more than the bound if there are more; and of the lines within the bound,
    the number of direct children and the latest time of change.
    """
    lines = [top.line]
    last_modified = top.updated_at
    shown = 0
    pending = [(child, "", child is top.children[-1]) for child in reversed(top.children)]
    while pending and len(lines) <= bound:
        node, prefix, is_last = pending.pop()
        if len(lines) < bound:
            shown += not prefix
            last_modified = max(last_modified, node.updated_at)
        lines.append(f"{prefix}{'└── ' if is_last else '├── '}{node.line}")
        if node.children:
            inner = prefix + ("    " if is_last else "│   ")
            pending += [(child, inner, child is node.children[-1]) for child in reversed(node.children)]
    return lines, shown, last_modified
