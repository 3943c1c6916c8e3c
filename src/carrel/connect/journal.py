"""Remember what `carrel connect` inserted into each file, so that `--remove` restores the file exactly.

Kept in the user's state folder. Without it, removing still works, but an empty object that was added stays.
"""

import os
from collections.abc import Mapping

from carrel.core.record import Value, from_json, to_json
from carrel.files.atomic import locked, replace_private
from carrel.files.userdirs import state_folder


class Inserted(Value, frozen=True):
    """What was inserted into a file."""

    piece: str
    made: int = 0
    """How many keys above the entry were missing before."""
    is_new: bool = False
    """Whether there was no file before."""
    entry: str = ""
    """The entry that the user agreed to, as JSON; no other entry of a project's file is started."""
    folders: int = 0
    """How many folders above the file were missing before."""
    mode: int | None = None
    """The permissions that the file had before a token was written into it."""


class Journal:
    """The notes of this user. A note that cannot be read is ignored."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._path = os.path.join(state_folder(environment), "connect.json")

    def find(self, path: str) -> Inserted:
        """Return what was inserted into a file; an empty note if nothing is known."""
        return self._notes().get(path, Inserted(""))

    def note(self, path: str, inserted: Inserted | None) -> None:
        """Remember what was inserted into a file; forget it with None."""
        with locked(self._path):
            notes = self._notes()
            notes.pop(path, None)
            if inserted is not None:
                notes[path] = inserted
            replace_private(self._path, to_json(notes).decode())

    def _notes(self) -> dict[str, Inserted]:
        try:
            with open(self._path, "rb") as file:
                return from_json(file.read(), dict[str, Inserted])
        except (OSError, ValueError):
            return {}
