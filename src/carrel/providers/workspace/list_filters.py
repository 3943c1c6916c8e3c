"""The filters of a list: a folder as people write it, or the beginning of a URI."""

import re
from collections.abc import Collection, Mapping
from typing import Final

from carrel.core.errors import RequestError
from carrel.core.uri import split_query
from carrel.providers.workspace import paths
from carrel.providers.workspace.paths import Segments, Target
from carrel.providers.workspace.tree import Tree

_OWN: Final = f"{paths.SCHEME}:"
_CUT_ESCAPE: Final = re.compile(r"%[0-9A-Fa-f]?\Z")


def root_of(directory: str, roots: Collection[str]) -> str:
    """Return the name of the root in which a folder lies, as a list's filter names it."""
    return paths.parse(directory, roots).root if directory.lower().startswith(_OWN) else ""


def open_folder(directory: str, trees: Mapping[str, Tree]) -> tuple[str, Segments]:
    """Return the root and the path of a folder; raise if it is outside, refused, missing, or a file."""
    target = _folder_target(directory, trees)
    tree = trees[target.root]
    # The error must not reveal that a file exists which may not be read.
    is_refused = bool(target.segments) and bool(tree.policy.judge(target.segments, is_folder=False).reason)
    found = tree.open(Target(directory, target.root, target.segments, is_refused, target.is_guess))
    with found.opened as opened:
        if not opened.is_folder:
            raise paths.invalid("directory", directory, "expected a folder, and this is a file")
    return target.root, found.segments


def _folder_target(directory: str, trees: Mapping[str, Tree]) -> Target:
    """Return the target of a folder's path below the root, without encoding, or of its workspace URI."""
    if directory.lower().startswith(_OWN):
        target = paths.parse(directory, trees)
        if split_query(directory)[1] is not None:
            raise paths.invalid("directory", directory, "expected a folder's URI without a query")
        return target
    segments = paths.parse_folder(directory)
    if directory.startswith("/"):
        inside = trees[""].unaliased(segments)
        if inside is None:
            raise paths.denied(directory, "outside")
        segments = inside
    return Target(directory, "", segments)


def canonical_prefix(prefix: str, trees: Mapping[str, Tree], roots: Collection[str] | None = None) -> str:
    """Return the beginning of the canonical URIs for the beginning of a URI in any spelling.

    `roots` are the names of all roots, if some of them are not on this machine.
    """
    if not prefix.lower().startswith(_OWN) or "?" in prefix:
        return prefix
    rest = prefix[len(_OWN) :]
    if rest in ("", "/", "//"):
        return paths.EVERY
    if rest.startswith("//@") and "/" not in rest[2:]:
        return _OWN + rest
    cut = _CUT_ESCAPE.search(prefix)
    target = paths.parse(prefix if cut is None else prefix[: cut.start()], trees if roots is None else roots)
    tree = trees.get(target.root)
    segments = target.segments if tree is None else _meant(target, tree)
    begun = paths.canonical(target.root, segments)
    if target.is_folder and segments:
        begun += "/"
    return begun if cut is None else begun + cut[0].upper()


def _meant(target: Target, tree: Tree) -> Segments:
    """Return the path below the root; an absolute path that does not exist there means the part after the root."""
    alias = tree.unaliased(target.segments)
    if alias is None or alias == target.segments:
        return target.segments
    try:
        tree.open_path(target.uri, target.segments, is_folder=target.is_folder).opened.close()
    except RequestError:
        return alias
    return target.segments
