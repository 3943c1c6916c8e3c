"""Files that mark a folder as a project, searched upwards from the working folder.

Files of other users are not used: in many folders above a project, every user can create files.
"""

import os
import stat
from collections.abc import Iterator

from carrel.core.record import Value
from carrel.files.sandbox import belongs_here, is_inside


class Mark(Value, frozen=True):
    """The nearest folder with a mark, if there is one, and a message about each mark that is not used."""

    folder: str | None
    passed_over: tuple[str, ...]


def working_folder(root: str) -> str:
    """Return the working folder of this process if it lies in the project, else the project's root."""
    try:
        here = os.getcwd()
    except OSError:  # it was deleted, as by the checkout of another branch
        return os.path.realpath(root)
    return os.path.realpath(here if is_inside(here, root) else root)


def find_mark(start: str, name: str, root: str) -> Mark:
    """Find the nearest folder, from `start` upwards, with a regular file of that name that belongs to this user.

    In the project, the file may also belong to the owner of the project's `root`.
    """
    passed_over: list[str] = []
    for folder in upwards(start):
        try:
            path = os.path.join(folder, name)
            if not stat.S_ISREG(os.stat(path).st_mode):
                continue
            found, around = os.lstat(path), os.stat(folder)
            if belongs_here(found) and belongs_here(around):
                return Mark(folder, tuple(passed_over))
            owner = os.stat(root).st_uid
            if is_inside(folder, root) and belongs_here(found, owner) and belongs_here(around, owner):
                return Mark(folder, tuple(passed_over))
        except OSError:
            continue
        where = "here" if folder == start else "in a folder above"
        passed_over.append(f"{name} {where} is not used: it belongs to another user")
    return Mark(None, tuple(passed_over))


def is_in_git(folder: str, home: str) -> bool:
    """Return whether a folder, or one above it and below the home folder, has a git repository.

    `carrel.git.discovery` decides whether that repository is read.
    """
    here, ceiling = os.path.realpath(folder), os.path.realpath(home) if home else ""
    for one in upwards(here):
        if one == ceiling and one != here:
            return False
        if os.path.lexists(os.path.join(one, ".git")):
            return True
    return False


def upwards(folder: str) -> Iterator[str]:
    """Yield a folder and all folders above it."""
    while True:
        yield folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return
        folder = parent
