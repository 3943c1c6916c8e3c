"""Which project files may start programs or name places outside the project.

Opening a stranger's repository must not run its commands. What a project file says of
programs, places outside, writing tools and HTTP permissions counts only after the user
trusted that very file: its path and hash are remembered per user, and a changed file
must be trusted again.
"""

import json
import os
from collections.abc import Callable, Mapping

from carrel.core.errors import ConfigError
from carrel.core.record import Value
from carrel.files.userdirs import state_folder


class Trusted(Value, frozen=True):
    """A file that the user trusted, with its hash."""

    path: str
    digest: str


class TrustStore:
    """The files that this user trusts, in a file of the state folder that only the user can read."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._path = os.path.join(state_folder(environment), "trust.json")

    def is_trusted(self, path: str, digest: str) -> bool:
        """Return whether a file with this content is trusted; False if the store cannot be read."""
        try:
            return self._load().get(name_of(path)) == digest
        except ConfigError:
            return False

    def add(self, path: str, digest: str) -> Trusted:
        """Trust a file with this content."""
        trusted = Trusted(name_of(path), digest)
        self._change(lambda known: {**known, trusted.path: digest})
        return trusted

    def revoke(self, path: str) -> bool:
        """Remove a file; return whether it was trusted."""
        name = name_of(path)
        before = self._change(lambda known: {one: digest for one, digest in known.items() if one != name})
        return name in before

    def all(self) -> list[Trusted]:
        """Return every trusted file, by path."""
        return [Trusted(path, digest) for path, digest in sorted(self._load().items())]

    def _load(self) -> dict[str, str]:
        try:
            with open(self._path, encoding="utf-8") as stored:
                known = json.load(stored)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, ValueError):
            known = None
        if not isinstance(known, dict):
            raise ConfigError(f"{self._path}: cannot be read as a list of trusted files")
        return {str(path): str(digest) for path, digest in known.items()}

    def _change(self, change: Callable[[dict[str, str]], dict[str, str]]) -> dict[str, str]:
        """Save what `change` makes of the trusted files; return those before."""
        from carrel.files.atomic import locked, replace_private  # not to serve

        with locked(self._path):
            before = self._load()
            replace_private(self._path, json.dumps(change(before), indent=2, sort_keys=True))
        return before


def name_of(path: str) -> str:
    """Return the absolute path of a file. Links are kept: in another folder the same settings mean something else."""
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
