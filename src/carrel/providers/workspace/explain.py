"""Why a file is, or is not, served: the same rules as a read, told a sentence at a time."""

from carrel.core.errors import Denied, NotFound
from carrel.providers.workspace.ignore_rules import EXCLUDE_FILE, Segments
from carrel.providers.workspace.listing import Listing
from carrel.providers.workspace.paths import Target
from carrel.providers.workspace.tree import FoundFile, Tree

_ADVICE = {
    "outside": "Only what lies below the root can be named, and no link leads out of it.",
    "deny": "The built-in deny-list and [workspace] deny always win; nothing lifts them but another name.",
    "hidden": 'Set [workspace] hidden = "show" or "unlisted", or name it in allow.',
    "ignored": 'Set [workspace] ignored = "show" or "unlisted", or name it in allow.',
    "type": "Or name it in [workspace] allow.",
    "special": "Devices, FIFOs and sockets are never read.",
    "os": "The system does not let Carrel open it.",
}


def explain(tree: Tree, listing: Listing, target: Target) -> list[str]:
    """Say what holds for a target, and what would change it."""
    told = [f"Preset {tree.policy.preset}, in {f'the root {tree.name}' if tree.name else 'the main root'}."]
    try:
        found = tree.open(target)
    except NotFound:
        return [*told, "Not served: nothing is there. The rules would let it be read."]
    except Denied as error:
        refused = [*told, f"Not served: {error.told} ({error.reason})."]
        return [*refused, *_unusable_above(tree, target), _ADVICE[error.reason]]
    with found.opened:
        return [*told, *_explain_found(tree, listing, found)]


def unusable_told(place: Segments, why: str) -> str:
    """Say that an ignore file cannot be honoured, and what follows."""
    where = "everything" if place == EXCLUDE_FILE else f"everything in {'/'.join(place[:-1]) or 'the root'}"
    return f"{'/'.join(place)}: {why}; {where} counts as ignored"


def _unusable_above(tree: Tree, target: Target) -> list[str]:
    """Tell of the ignore files that cannot be honoured and hold for a target."""
    found = sorted(tree.policy.unusable_ignore_files().items())
    return [
        f"{unusable_told(place, why)}."
        for place, why in found
        if place == EXCLUDE_FILE or place[:-1] == target.segments[: len(place) - 1]
    ]


def _explain_found(tree: Tree, listing: Listing, found: FoundFile) -> list[str]:
    opened = found.opened
    told = [f"Means {'/'.join(found.segments) or 'the root itself'}."]
    if opened.real != found.segments:
        told.append(f"A link on the way leads to {'/'.join(opened.real) or 'the root itself'}.")
    if opened.is_folder:
        return [*told, "Served: a folder; reading it gives its children."]
    told.append(f"{opened.stat.st_size} bytes of {tree.sniff(opened).kind.encoding}.")
    is_listed = listing.listed(found.segments) is not None
    return [*told, "Served and listed." if is_listed else "Served by name, but not listed."]
