"""Explain why a file is served or refused, by the same rules as a read."""

from carrel.core.errors import Denied, NotFound
from carrel.providers.workspace.ignore_places import place_of_pattern
from carrel.providers.workspace.ignore_rules import EXCLUDE_FILE, Segments
from carrel.providers.workspace.listing import Listing
from carrel.providers.workspace.paths import Target
from carrel.providers.workspace.tree import FoundFile, Tree

ADVICE = {
    "outside": "Only files below the root are served, and links out of it are not followed.",
    "deny": "The built-in deny-list and [workspace] deny always win; only another file name helps.",
    "hidden": 'Set [workspace] hidden = "show" or "unlisted", or add it to allow.',
    "ignored": 'Set [workspace] ignored = "show" or "unlisted", or add it to allow.',
    "type": "Or add it to [workspace] allow.",
    "special": "Devices, FIFOs and sockets are never read.",
    "os": "Carrel has no permission to open it.",
}


def explain(tree: Tree, listing: Listing, target: Target) -> list[str]:
    """Return sentences that say which rule applies to a target, and how to change it."""
    lines = [f"Preset {tree.policy.preset}, in {f'the root {tree.name}' if tree.name else 'the main root'}."]
    try:
        found = tree.open(target)
    except NotFound:
        return [*lines, "Not served: the file does not exist. The rules allow it to be read."]
    except Denied as error:
        code = f" ({error.reason})" if error.reason != error.explanation else ""
        refused = [*lines, f"Not served: {error.explanation}{code}."]
        place = (
            (_unusable_above(tree, target) or place_of_pattern(tree, target.segments))
            if error.reason == "ignored"
            else []
        )
        return [*refused, *place, ADVICE[error.reason]]
    with found.opened:
        return [*lines, *_explain_found(tree, listing, found)]


def unusable_message(place: Segments, why: str) -> str:
    """Return a message about an ignore file that cannot be used."""
    where = "everything" if place == EXCLUDE_FILE else f"everything in {'/'.join(place[:-1]) or 'the root'}"
    return f"{'/'.join(place)}: {why}; {where} counts as ignored"


def _unusable_above(tree: Tree, target: Target) -> list[str]:
    """Return messages about ignore files that apply to a target and cannot be used."""
    found = sorted(tree.policy.unusable_ignore_files().items())
    return [
        f"{unusable_message(place, why)}."
        for place, why in found
        if place == EXCLUDE_FILE or place[:-1] == target.segments[: len(place) - 1]
    ]


def size_sentence(size: int, encoding: str) -> str:
    """Return a sentence with the size of a file and its encoding."""
    return f"{size} {'byte' if size == 1 else 'bytes'} of {encoding}."


def _explain_found(tree: Tree, listing: Listing, found: FoundFile) -> list[str]:
    opened = found.opened
    lines = [f"Path: {'/'.join(found.segments) or 'the root'}."]
    if opened.real != found.segments:
        lines.append(f"A link leads to {'/'.join(opened.real) or 'the root'}.")
    if opened.is_folder:
        return [*lines, "Served: a folder; a read returns its children."]
    lines.append(size_sentence(opened.stat.st_size, tree.sniff(opened).kind.encoding))
    return [*lines, "Served and listed." if listing.listed(found.segments) is not None else "Served, but not listed."]
