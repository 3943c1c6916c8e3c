"""Where a provider keeps its data, opened by rules that depend on who chose the place.

A place that the user named (in their own settings, the environment, a flag, or a project file they trust) is a root
of its own, wherever it lies. Every other place, such as the default `.sage` or one that an untrusted project file
names, is confined: it is opened beneath the handle of the project's root, every link on the way included; names on
the deny-list are refused, but for the provider's own folder; and so are folders of other users.

Nothing is remembered: the folder is opened anew by each `open`, so it may come, go or be replaced meanwhile.
"""

import contextlib
import os
from typing import Final

from carrel.core.provider import Project
from carrel.files.atomic import FOLDER_MODE
from carrel.files.sandbox import Forbidden, Outside, Root
from carrel.files.secrets import Denial

_ABOVE: Final = os.pardir


class DataFolder:
    """One such place. `path` is for messages to people and for comparison, never to be opened."""

    def __init__(self, project: Project, place: str, *, is_named: bool, own: tuple[str, ...] = ()) -> None:
        """Describe the folder; `own` are the first names of its path that the deny-list does not refuse here."""
        self.path = os.path.normpath(os.path.join(project.root, os.path.expanduser(place)))
        self.is_named = is_named
        self._top = project.root
        self._own = own
        self._denial = Denial(() if is_named else project.deny)

    def open(self, *names: str) -> Root:
        """Open the folder, or one below it; raise `SandboxError`, or `OSError` where there is no root."""
        way = self._way()
        with self._opened_top() as top:
            if names:
                top.below(way).close()  # a folder of another user is refused with all that lies in it
            return top.below((*way, *names))

    def make(self, *names: str) -> Root:
        """Open the folder, or one below it, as `open` does; make those that are missing, for the user alone."""
        if self.is_named:
            os.makedirs(self.path, FOLDER_MODE, exist_ok=True)
        way = (*self._way(), *names)
        if self.is_denied(*names):
            raise Forbidden
        with contextlib.ExitStack() as passed:
            here = passed.enter_context(self._opened_top())
            for name in way:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, FOLDER_MODE, dir_fd=here.fd)
                here = passed.enter_context(here.below((name,)))
            return here.below(())

    def is_denied(self, *names: str) -> bool:
        """Return whether the deny-list refuses the folder, or one below it, by its names; raise `Outside`."""
        way = (*self._way(), *names)
        return bool(way) and self._denies(way, True)

    def _opened_top(self) -> Root:
        return Root(self.path if self.is_named else self._top, absolute_links=True, guard=self._denies)

    def _denies(self, segments: tuple[str, ...], is_folder: bool) -> bool:
        is_own = bool(self._own) and segments[: len(self._own)] == self._own
        return self._denial.covers_path(segments[len(self._own) :] if is_own else segments, is_folder)

    def _way(self) -> tuple[str, ...]:
        """Return the names that lead from the top to the folder; raise `Outside` if none do."""
        if self.is_named:
            return ()
        for path in (self.path, os.path.realpath(self.path)):  # the project may have been named through a link
            names = tuple(os.path.relpath(path, self._top).split(os.sep))
            if _ABOVE not in names:
                return () if names == (os.curdir,) else names
        raise Outside
