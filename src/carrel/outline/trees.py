"""The outline of a folder: its tree with sizes, as deep as the budget allows."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from carrel.core.tokens import JOINT, estimate_tokens
from carrel.outline.part_notes import counted

MAX_TOKENS: Final = 2_000
MAX_FILES: Final = 50_000
"""Files that are counted; of a larger tree, the sizes are those of its first files."""
_DEEPER: Final = "[what is deeper: ?outline=all]"
MAX_ALL: Final = 5_000
"""Lines of a tree that is shown whole."""


class _Branch:
    """A folder: its children, and their number and size."""

    __slots__ = ("children", "files", "size")

    def __init__(self) -> None:
        self.children: dict[str, _Branch | int | None] = {}
        self.files = 0
        self.size = 0


def render(
    uri: str, files: Iterable[tuple[str, int | None]], budget: int | None = None, *, is_all: bool = False
) -> str:
    """Return the tree below a URI, from the URIs of its files and their sizes.

    Each line ends in what is appended to the URI to outline the folder or file. It costs at most `budget` tokens, or
    else about `MAX_TOKENS`; with `is_all`, nothing is left out.
    """
    every = list(islice(files, MAX_FILES + 1))
    root = _tree(uri, every[:MAX_FILES])
    more = "more than " if len(every) > MAX_FILES else ""
    joint = "" if uri.endswith("/") else "/"
    head = f"{uri} (folder, {more}{counted(root.files, 'file')}, {counted(root.size, 'byte')})"
    if is_all:
        lines = list(islice(_lines(root, joint, 1_000), MAX_ALL))
    elif budget is None:
        lines = _fitting(root, joint, MAX_TOKENS)
    else:
        lines = [*_fitting(root, joint, budget - estimate_tokens(head) - estimate_tokens(_DEEPER) - 2 * JOINT), _DEEPER]
    return "\n".join([head, *lines]) + "\n"


def _tree(uri: str, files: Iterable[tuple[str, int | None]]) -> _Branch:
    root = _Branch()
    for file, size in files:
        folder = root
        *folders, name = file.removeprefix(uri).lstrip("/").split("/")
        for part in folders:
            _count(folder, size)
            inner = folder.children.get(part)
            if not isinstance(inner, _Branch):
                inner = folder.children[part] = _Branch()
            folder = inner
        _count(folder, size)
        folder.children[name] = size
    return root


def _count(folder: _Branch, size: int | None) -> None:
    folder.files += 1
    folder.size += size or 0


def _fitting(root: _Branch, joint: str, tokens: int) -> list[str]:
    """Return the tree as deep as a number of tokens allows; at least as much of its first level as fits."""
    best: list[str] = []
    for depth in range(1, 16):
        lines = list(_lines(root, joint, depth))
        if lines == best or estimate_tokens("\n".join(lines)) > tokens:
            break
        best = lines
    if best or not root.children:
        return best
    taken: list[str] = []
    left = tokens
    lines = list(_lines(root, joint, 1))
    for line in lines:
        left -= estimate_tokens(line) + 1
        if left < 0:
            return [*taken, f"[{len(lines) - len(taken)} more: ?outline=all]"]
        taken.append(line)
    return taken


def _lines(folder: _Branch, path: str, depth: int) -> Iterator[str]:
    """Yield a line for each child, folders with their children if they are not too deep; `path` stands before names."""
    stack = [(folder, path, 0, iter(folder.children.items()))]
    while stack:
        _, path, level, children = stack[-1]
        name, child = next(children, ("", None))
        if not name:
            stack.pop()
            continue
        below = f"{path}{name}"
        if isinstance(child, _Branch):
            yield f"{' ' * level}{counted(child.files, 'file')}, {counted(child.size, 'byte')} {below}?outline"
            if level + 1 < depth:
                stack.append((child, f"{below}/", level + 1, iter(child.children.items())))
        else:
            size = "" if child is None else f"{counted(child, 'byte')} "
            yield f"{' ' * level}{size}{below}?outline"
