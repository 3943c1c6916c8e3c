"""Workspace URIs to names below a root, and back. Nothing here touches the disk.

Canonical: `workspace:///` and the path, or `workspace://@name/` and the path in a named
root. Many spellings are read: hosts and URL libraries drop slashes and `@`.
"""

from collections.abc import Collection
from typing import Final

from carrel.errors import BadArgument, Denied, NotFound, echo
from carrel.uri import SEGMENT_SAFE, decode, pairs, quote, scheme_of, split_query
from carrel.value import Value

SCHEME: Final = "workspace"
KEY_SAFE: Final = SEGMENT_SAFE + "/"
"""A folder's place among its siblings ends with `/`."""
REASONS: Final = {
    "outside": "outside the workspace",
    "deny": "may hold secrets",
    "hidden": "hidden",
    "ignored": "ignored by git",
    "type": "not an allowed file type",
    "special": "not a regular file",
    "os": "no permission",
}
"""Why a URI is refused, in words."""


class Target(Value, frozen=True):
    """What a workspace URI means: a root, names below it, and what its query asks."""

    uri: str
    root: str
    segments: tuple[str, ...]
    is_folder: bool = False
    query: tuple[tuple[str, str], ...] = ()

    @property
    def canonical(self) -> str:
        """Give the one URI by which this is listed."""
        return canonical(self.root, self.segments)


def parse(uri: str, roots: Collection[str]) -> Target:
    """Read a URI; `roots` are the names of the further roots."""
    scheme_of(uri)
    if "#" in uri:
        raise BadArgument(f"Invalid URI: {echo(uri)} (a # in a name is written %23)", uri=uri)
    bare, query = split_query(uri)
    rest = bare.partition(":")[2]
    path = _without_slashes(rest)
    slashes = len(rest) - len(path)
    raw = path.split("/")
    try:
        names = [decode(part) for part in raw]
        asked = tuple(pairs(query)) if query else ()
    except BadArgument as error:
        raise BadArgument(error.message, uri=uri, data=error.data) from None
    root = ""
    if slashes == 2 and names and (names[0].startswith("@") or names[0] in roots):
        root = names.pop(0).removeprefix("@")
        if root not in roots:
            raise NotFound(uri)
    if any(name == ".." or "/" in name or "\\" in name for name in names):
        raise denied(uri, "outside")
    segments = tuple(name for name in names if name not in ("", "."))
    return Target(uri, root, segments, bool(segments) and names[-1] in ("", "."), asked)


def _without_slashes(rest: str) -> str:
    """Drop up to three leading slashes."""
    for _ in range(3):
        rest = rest.removeprefix("/")
    return rest


def canonical(root: str, segments: tuple[str, ...] | list[str]) -> str:
    """Give the canonical URI of names below a root."""
    return prefix_of(root) + "/".join([quote(name) for name in segments])


def prefix_of(root: str) -> str:
    """Give what the URIs of a root begin with."""
    return f"workspace://@{root}/" if root else "workspace:///"


def denied(uri: str, reason: str) -> Denied:
    """Refuse a URI: the same bytes whether or not anything is there."""
    return Denied(f"Access denied: {echo(uri)} ({REASONS[reason]})", reason=reason, uri=uri)


def invalid(target: Target, name: str, problem: str) -> BadArgument:
    """Refuse a parameter."""
    return BadArgument(f"Invalid parameter: {problem}", uri=target.uri, data={"parameter": name})
