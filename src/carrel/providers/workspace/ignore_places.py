"""Find the line of the ignore file whose pattern ignores a path."""

from collections.abc import Iterator

from carrel.files.gitignore import Rules, TooManyPatterns, ignores, octets, parse
from carrel.files.sandbox import SandboxError
from carrel.providers.workspace.ignore_rules import EXCLUDE_FILE, IGNORE_FILE, MAX_IGNORE_BYTES, Segments, lines_of
from carrel.providers.workspace.tree import Tree


def place_of_pattern(tree: Tree, segments: Segments) -> list[str]:
    """Return a sentence with the place of the pattern that ignores a path; nothing if it is not found."""
    for depth, name in enumerate(segments):
        folder, is_last = segments[:depth], depth == len(segments) - 1
        chain = tree.policy.rules_of(folder).chain
        # Not whether the last name is a folder: an explanation must not depend on what exists.
        for is_folder in (False, True) if is_last else (True,):
            if ignores(chain, name, is_folder=is_folder):
                found = _deciding(tree, folder, name, is_folder=is_folder)
                return [f"The pattern is in {'/'.join(found[0])}, line {found[1]}."] if found else []
    return []


def _deciding(tree: Tree, folder: Segments, name: str, *, is_folder: bool) -> tuple[Segments, int] | None:
    """Return the ignore file, and the line in it, whose pattern decides about a name in a folder."""
    for place, below in _ignore_files(folder):
        prefix = "".join(f"{octets(one)}/" for one in below)
        for number, line in reversed([*enumerate(_lines(tree, place), 1)]):
            pattern = parse(line)
            try:
                if pattern and Rules((pattern,)).decide(prefix, octets(name), is_folder=is_folder) is not None:
                    return place, number
            except TooManyPatterns:
                continue
    return None


def _ignore_files(folder: Segments) -> Iterator[tuple[Segments, Segments]]:
    """Yield the ignore files that apply in a folder, innermost first, each with the path from there to the folder."""
    for depth in range(len(folder), -1, -1):
        yield (*folder[:depth], IGNORE_FILE), folder[depth:]
    yield EXCLUDE_FILE, folder


def _lines(tree: Tree, place: Segments) -> list[str]:
    """Return the lines of an ignore file; none if it is not there or, as in git, a link."""
    try:
        with tree.root.open(place) as opened:
            is_used = not opened.is_folder and place in (opened.real, EXCLUDE_FILE)
            return lines_of(opened.read(0, MAX_IGNORE_BYTES)) if is_used else []
    except SandboxError:
        return []
