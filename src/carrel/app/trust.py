"""The project files that the user trusts.

Opening a stranger's repository must not run its commands. Settings about programs, places outside the project,
tools that write and HTTP permissions take effect only after the user has trusted the file. Its path and hash are
stored per user; a changed file must be trusted again.
"""

import os
from collections.abc import Callable, Mapping

from carrel.core.errors import ConfigError
from carrel.core.record import Value
from carrel.files.userdirs import state_folder


class Trusted(Value, frozen=True):
    """A trusted file and the hash of its content at that time."""

    path: str
    digest: str


class TrustStore:
    """The user's trusted files, stored in the state folder, readable by the user only."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._path = os.path.join(state_folder(environment), "trust.json")

    def is_trusted(self, path: str, digest: str) -> bool:
        """Return whether the file with this hash is trusted; False if the store cannot be read."""
        try:
            return self._load().get(name_of(path)) == digest
        except ConfigError:
            return False

    def add(self, path: str, digest: str) -> Trusted:
        """Trust a file with this hash."""
        trusted = Trusted(name_of(path), digest)
        self._change(lambda known: {**known, trusted.path: digest})
        return trusted

    def revoke(self, path: str) -> bool:
        """Stop trusting a file; return whether it was trusted."""
        name = name_of(path)
        before = self._change(lambda known: {one: digest for one, digest in known.items() if one != name})
        return name in before

    def all(self) -> list[Trusted]:
        """Return all trusted files, sorted by path."""
        return [Trusted(path, digest) for path, digest in sorted(self._load().items())]

    def _load(self) -> dict[str, str]:
        import json  # most projects have no settings that need trust

        try:
            with open(self._path, encoding="utf-8") as stored:
                known = json.load(stored)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, ValueError):
            known = None
        if not isinstance(known, dict):
            raise ConfigError(f"cannot read the list of trusted files: {self._path}")
        return {str(path): str(digest) for path, digest in known.items()}

    def _change(self, change: Callable[[dict[str, str]], dict[str, str]]) -> dict[str, str]:
        """Change the stored files; return those before the change."""
        import json  # `serve` changes nothing

        from carrel.files.atomic import locked, replace_private

        with locked(self._path):
            before = self._load()
            replace_private(self._path, json.dumps(change(before), indent=2, sort_keys=True))
        return before


def name_of(path: str) -> str:
    """Return the name under which a file is stored. A link keeps its own name, not that of its target."""
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
