"""Which project files may start things or reach outside the project.

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
    """A file the user trusted, as it was then."""

    path: str
    digest: str


class TrustStore:
    """What this user trusts, kept in the user's state folder, readable by the user only."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._path = os.path.join(state_folder(environment), "trust.json")

    def is_trusted(self, path: str, digest: str) -> bool:
        """Return whether the file is trusted just as it was read; none is while that cannot be known."""
        try:
            return self._load().get(name_of(path)) == digest
        except ConfigError:
            return False

    def add(self, path: str, digest: str) -> Trusted:
        """Trust a file as it was read."""
        trusted = Trusted(name_of(path), digest)
        self._change(lambda known: {**known, trusted.path: digest})
        return trusted

    def revoke(self, path: str) -> bool:
        """Trust a file no longer; tell whether it was trusted."""
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
        """Keep what a change makes of what is trusted; give what was before."""
        from carrel.files.atomic import locked, replace_private  # not to serve

        with locked(self._path):
            before = self._load()
            replace_private(self._path, json.dumps(change(before), indent=2, sort_keys=True))
        return before


def name_of(path: str) -> str:
    """Return the one name of a file. A link is not what it leads to: elsewhere, the same words mean other things."""
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
