"""Why a file is, or is not, served: the same rules as a read, told a sentence at a time."""

from carrel.errors import Denied, NotFound
from carrel.providers.workspace.paths import REASONS, Target
from carrel.providers.workspace.tree import Tree

_ADVICE = {
    "outside": "Only what lies below the root can be named.",
    "deny": "The built-in deny-list and [workspace] deny always win; nothing lifts them but another name.",
    "hidden": 'Set [workspace] hidden = "show" or "unlisted", or name it in allow.',
    "ignored": 'Set [workspace] ignored = "show" or "unlisted", or name it in allow.',
    "type": "Choose another preset, or name it in [workspace] allow.",
    "special": "Devices, FIFOs and sockets are never read.",
    "os": "The system does not let Carrel open it.",
}


def explain(tree: Tree, target: Target) -> list[str]:
    """Say what holds for a target, and what would change it."""
    told = [
        f"Means {'/'.join(target.segments) or 'the root'} in {tree.name or 'the main root'}.",
        f"Preset {tree.policy.preset}.",
    ]
    try:
        found = tree.open(target)
    except NotFound:
        return [*told, "Not served: nothing is there. The rules would let it be read."]
    except Denied as error:
        return [*told, f"Not served: {REASONS[error.reason]} ({error.reason}).", _ADVICE[error.reason]]
    with found.opened as opened:
        if opened.real != found.segments:
            told.append(f"A link to {'/'.join(opened.real)}.")
        if opened.is_folder:
            return [*told, "Served: a folder; reading it gives its children."]
        kind = tree.kind(found)
        told.append(f"{opened.stat.st_size} bytes of {kind.encoding}.")
        listed = "and listed" if found.verdict.is_listed else "by name, but not listed"
        return [*told, f"Served {listed}."]
