"""Which project files may start things or reach outside the project.

Opening a stranger's repository must not run its commands. What a project file says of
programs, places outside, writing tools and HTTP permissions counts only after the user
trusted that very file: its path and hash are remembered per user, and a changed file
must be trusted again.
"""

import json
import os
from collections.abc import Mapping

from carrel.value import Value


class Trusted(Value, frozen=True):
    """A file the user trusted, as it was then."""

    path: str
    digest: str


class TrustStore:
    """What this user trusts, kept in the user's state folder, readable by the user only."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._path = os.path.join(state_folder(environment), "trust.json")

    def is_trusted(self, path: str, digest: str) -> bool:
        """Tell whether the file is trusted just as it was read."""
        return self._load().get(os.path.realpath(path)) == digest

    def add(self, path: str, digest: str) -> Trusted:
        """Trust a file as it was read."""
        trusted = Trusted(os.path.realpath(path), digest)
        self._save({**self._load(), trusted.path: trusted.digest})
        return trusted

    def revoke(self, path: str) -> bool:
        """Trust a file no longer; tell whether it was trusted."""
        known = self._load()
        was_trusted = known.pop(os.path.realpath(path), None) is not None
        if was_trusted:
            self._save(known)
        return was_trusted

    def all(self) -> list[Trusted]:
        """Give every trusted file, by path."""
        return [Trusted(path, digest) for path, digest in sorted(self._load().items())]

    def _load(self) -> dict[str, str]:
        try:
            with open(self._path, encoding="utf-8") as stored:
                known = json.load(stored)
        except (OSError, ValueError):
            return {}
        return {str(path): str(digest) for path, digest in known.items()} if isinstance(known, dict) else {}

    def _save(self, known: Mapping[str, str]) -> None:
        folder = os.path.dirname(self._path)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        written = f"{self._path}.{os.getpid()}.tmp"
        descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as target:
            json.dump(known, target, indent=2, sort_keys=True)
            target.flush()
            os.fsync(target.fileno())
        os.replace(written, self._path)


def state_folder(environment: Mapping[str, str]) -> str:
    """Give the user's folder for what Carrel remembers between runs."""
    return os.path.join(_home_below(environment, "XDG_STATE_HOME", ".local/state"), "carrel")


def config_folder(environment: Mapping[str, str]) -> str:
    """Give the user's folder for Carrel's configuration."""
    return os.path.join(_home_below(environment, "XDG_CONFIG_HOME", ".config"), "carrel")


def _home_below(environment: Mapping[str, str], variable: str, default: str) -> str:
    named = environment.get(variable, "")
    if os.path.isabs(named):
        return named
    return os.path.join(environment.get("HOME") or os.path.expanduser("~"), default)
