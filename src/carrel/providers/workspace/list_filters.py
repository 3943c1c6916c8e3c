"""What a part of the list is asked for by: a folder as people write it, or the beginning of a URI."""

import re
from collections.abc import Mapping
from typing import Final

from carrel.core.errors import RequestError
from carrel.providers.workspace import paths
from carrel.providers.workspace.paths import Segments, Target
from carrel.providers.workspace.tree import Tree

_OWN: Final = f"{paths.SCHEME}:"
_CUT_ESCAPE: Final = re.compile(r"%[0-9A-Fa-f]?\Z")


def open_folder(directory: str, trees: Mapping[str, Tree]) -> tuple[str, Segments]:
    """Give the root and the names of a folder, or raise: it is outside, refused, missing, or a file."""
    target = _folder_target(directory, trees)
    tree = trees[target.root]
    # Who asks for a folder must not learn from the answer that a file is there which may not be read.
    is_refused = bool(target.segments) and bool(tree.policy.judge(target.segments, is_folder=False).reason)
    found = tree.open(Target(directory, target.root, target.segments, is_refused, (), target.is_guess))
    with found.opened as opened:
        if not opened.is_folder:
            raise paths.invalid("directory", directory, "expected a folder, and this is a file")
    return target.root, found.segments


def _folder_target(directory: str, trees: Mapping[str, Tree]) -> Target:
    """Read a folder's name: a path below the root, in which nothing is encoded, or a workspace URI."""
    if directory.lower().startswith(_OWN):
        target = paths.parse(directory, trees)
        if target.query:
            raise paths.invalid("directory", directory, "expected a folder's URI without a query")
        return target
    segments = paths.parse_folder(directory)
    if directory.startswith("/"):
        inside = trees[""].unaliased(segments)
        if inside is None:
            raise paths.denied(directory, "outside")
        segments = inside
    return Target(directory, "", segments)


def canonical_prefix(prefix: str, trees: Mapping[str, Tree]) -> str:
    """Give the beginning of canonical URIs that the beginning of a URI means."""
    if not prefix.lower().startswith(_OWN) or "?" in prefix:
        return prefix
    rest = prefix[len(_OWN) :]
    if rest in ("", "/", "//"):
        return paths.EVERY
    if rest.startswith("//@") and "/" not in rest[2:]:
        return _OWN + rest
    cut = _CUT_ESCAPE.search(prefix)
    target = paths.parse(prefix if cut is None else prefix[: cut.start()], trees)
    segments = _meant(target, trees[target.root])
    begun = paths.canonical(target.root, segments)
    if target.is_folder and segments:
        begun += "/"
    return begun if cut is None else begun + cut[0].upper()


def _meant(target: Target, tree: Tree) -> Segments:
    """Give the names below the root, an alias taken for what it means unless its plain meaning exists."""
    alias = tree.unaliased(target.segments)
    if alias is None or alias == target.segments:
        return target.segments
    try:
        tree.open_path(target.uri, target.segments, is_folder=target.is_folder).opened.close()
    except RequestError:
        return alias
    return target.segments
