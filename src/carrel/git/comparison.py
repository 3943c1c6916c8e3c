"""Compare two trees file by file, in pages. Files that are not served are counted, not named."""

import os
from collections.abc import Callable, Sequence
from typing import Final

from carrel.core.record import Value
from carrel.git.history import FOLDER, KIND
from carrel.git.objects import Id
from carrel.git.patches import FileChange, Patch, changed_files, content_of, make_patch, spelled
from carrel.git.repository import Repository

MAX_FILES: Final = 100
MAX_CHARACTERS: Final = 400_000
"""Limits of one page: files, and characters of their patches; the last file may exceed it."""

Shows = Callable[[tuple[str, ...]], bool]
"""Returns whether a file below the project's root may be shown, by its path."""


class Comparison(Value, frozen=True):
    """A page of patches: how many files may be shown in all, how many are left out, and where the next page begins."""

    patches: tuple[Patch, ...]
    total: int
    left_out: int
    skip: int
    following: int | None

    def text(self) -> str:
        """Return the patches as one text."""
        return self.head() + "".join(patch.text for patch in self.patches)

    def head(self) -> str:
        """Return the lines before the patches: what is not shown, on the first page."""
        lines = [left_out_line(self.left_out)] if self.left_out and not self.skip else []
        if self.skip and not self.patches:
            lines.append(f"Nothing after the first {self.skip} files: {self.total} in all.")
        elif self.following is not None or self.skip:
            lines.append(f"Files {self.skip + 1} to {self.skip + len(self.patches)} of {self.total}.")
        elif not self.total:
            lines.append("No differences.")
        return "".join(f"{line}\n" for line in lines)

    def to_json(self, prefix: int = 0) -> dict[str, object]:
        """Return the page as values for JSON; `prefix` is the number of names above the project's root."""
        files = [
            {
                "path": "/".join(map(spelled, patch.change.path[prefix:])),
                "status": patch.change.letter,
                "added": patch.added,
                "removed": patch.removed,
                **({"note": patch.note} if patch.note else {}),
                "patch": patch.text,
            }
            for patch in self.patches
        ]
        return {"files": files, "total": self.total, "left_out": self.left_out}


def left_out_line(count: int) -> str:
    """Return the sentence about files that are not served."""
    return f"{count} {'file is' if count == 1 else 'files are'} left out: not served here."


def compare_trees(
    repository: Repository, trees: tuple[Id | None, Id | None], within: tuple[bytes, ...], shows: Shows, skip: int
) -> Comparison:
    """Return a page of what differs between two trees, at a path in both."""
    old, new = (_subtree(repository, tree, within) for tree in trees)
    changes = [
        FileChange((*within, *change.path), change.old, change.new)
        for change in changed_files(repository.history, old, new)
    ]
    return compare_files(repository, changes, shows, skip)


def compare_files(repository: Repository, changes: Sequence[FileChange], shows: Shows, skip: int) -> Comparison:
    """Return a page of the patches of the changes that may be shown."""
    shown = [change for change in changes if is_shown(repository, change.path, shows)]
    patches: list[Patch] = []
    characters = 0
    for change in shown[skip : skip + MAX_FILES]:
        if characters > MAX_CHARACTERS:
            break
        patch = patch_of(repository, change)
        characters += len(patch.text)
        patches.append(patch)
    end = skip + len(patches)
    left_out = len(changes) - len(shown)
    return Comparison(tuple(patches), len(shown), left_out, skip, end if end < len(shown) else None)


def patch_of(repository: Repository, change: FileChange) -> Patch:
    """Return the patch of one change."""
    old, new = (content_of(repository.objects, entry) for entry in (change.old, change.new))
    return make_patch(change, old, new, repository.history.check_time)


def is_shown(repository: Repository, path: tuple[bytes, ...], shows: Shows) -> bool:
    """Return whether a path of the repository lies below the project's root and may be shown."""
    prefix = repository.folder.prefix
    names = tuple(map(os.fsdecode, path))
    return names[: len(prefix)] == prefix and shows(names[len(prefix) :])


def _subtree(repository: Repository, tree: Id | None, path: tuple[bytes, ...]) -> Id | None:
    entry = None if tree is None else repository.history.entry(tree, path)
    return entry[1] if entry is not None and entry[0] & KIND == FOLDER else None
