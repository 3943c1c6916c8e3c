"""The folder in which a provider keeps its data, opened by rules that depend on who chose it.

A folder that the user named (in their own settings, the environment, a flag, or a project file they trust) may lie
anywhere. Every other folder, such as the default `.sage` or one that an untrusted project file names, is confined: it
is opened beneath the handle of the project's root, including every link in its path. Names on the deny-list, except
for the provider's own folder, and folders of other users are refused.

Each `open` opens the folder again, so it may be created, deleted or replaced meanwhile.
"""

import contextlib
import os

from carrel.core.provider import Project
from carrel.files.atomic import FOLDER_MODE
from carrel.files.sandbox import Forbidden, Outside, Root
from carrel.files.secrets import DenyList


def unreadable(root: str, *places: str) -> list[str]:
    """Return a sentence about each folder, given relative to `root` or whole, that this user may not read."""
    found = dict.fromkeys(os.path.normpath(os.path.join(root, place)) for place in places)
    refused = (place for place in found if os.path.isdir(place) and not os.access(place, os.R_OK | os.X_OK))
    return [f"{named(root, place)} cannot be read: permission denied" for place in refused]


def named(root: str, place: str) -> str:
    """Return a path relative to `root`; one that leads out stays whole, so that callers see only its last name."""
    way = os.path.relpath(place, root)
    return os.path.normpath(place) if way.startswith("../") else way


class DataFolder:
    """The data folder of a provider. `path` is for messages and comparison; it is never opened."""

    def __init__(self, project: Project, place: str, *, is_named: bool, own: tuple[str, ...] = ()) -> None:
        """Describe the folder; the deny-list does not refuse paths that begin with the names `own`."""
        self.path = os.path.normpath(os.path.join(project.root, os.path.expanduser(place)))
        self.is_named = is_named
        self._top = project.root
        self._own = own
        self._deny_list = DenyList(() if is_named else project.deny)

    def open(self, *names: str) -> Root:
        """Open the folder, or one below it; raise `SandboxError`, or `OSError` if there is no root."""
        path = self._path_from_top()
        with self._opened_top() as top:
            if names:
                top.below(path).close()  # refuse everything in a folder of another user
            return top.below((*path, *names))

    def make(self, *names: str) -> Root:
        """Open the folder, or one below it, as `open` does; create missing ones, private to the user."""
        if self.is_named:
            os.makedirs(self.path, FOLDER_MODE, exist_ok=True)
        path = (*self._path_from_top(), *names)
        if self.is_denied(*names):
            raise Forbidden
        with contextlib.ExitStack() as passed:
            here = passed.enter_context(self._opened_top())
            for name in path:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, FOLDER_MODE, dir_fd=here.fd)
                here = passed.enter_context(here.below((name,)))
            return here.below(())

    def is_denied(self, *names: str) -> bool:
        """Return whether the deny-list refuses the folder, or one below it; raise `Outside`."""
        path = (*self._path_from_top(), *names)
        return bool(path) and self._denies(path, True)

    def _opened_top(self) -> Root:
        return Root(self.path if self.is_named else self._top, absolute_links=True, guard=self._denies)

    def _denies(self, segments: tuple[str, ...], is_folder: bool) -> bool:
        is_own = bool(self._own) and segments[: len(self._own)] == self._own
        return self._deny_list.covers_path(segments[len(self._own) :] if is_own else segments, is_folder)

    def _path_from_top(self) -> tuple[str, ...]:
        """Return the names from the root to the folder; raise `Outside` if it is not below the root."""
        if self.is_named:
            return ()
        for path in (self.path, os.path.realpath(self.path)):  # the path of the project may contain a link
            names = tuple(os.path.relpath(path, self._top).split(os.sep))
            if os.pardir not in names:
                return () if names == (os.curdir,) else names
        raise Outside
