"""What git knows about the project: asked without a shell, for two seconds at most, and never needed."""

import os
import re
from collections.abc import Mapping
from time import monotonic
from typing import Final

from carrel.providers.sage.records import GitContext

TIMEOUT_S: Final = 2.0
RECENT: Final = 3
_COMMIT: Final = re.compile(r"[0-9a-f]{4,64}")
_QUIET: Final = ("--no-optional-locks", "--literal-pathspecs", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=")


class Git:
    """The repository around a folder, if there is one."""

    def __init__(self, root: str, environment: Mapping[str, str]) -> None:
        self._root = root
        kept = {name: value for name, value in environment.items() if not name.startswith("GIT_")}
        self._environment = {**kept, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}

    def ask(self, *words: str, deadline: float | None = None) -> str | None:
        """Give what git prints, or None where it fails, is missing or takes too long."""
        import subprocess  # costs milliseconds, and most reads need no git

        left = TIMEOUT_S if deadline is None else deadline - monotonic()
        if left <= 0 or not self._is_repository():
            return None
        try:
            done = subprocess.run(
                ("git", *_QUIET, *words),
                cwd=self._root,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=left,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else None

    def _is_repository(self) -> bool:
        """Tell whether asking can be of use: a `.git` here or above."""
        folder = self._root
        while not os.path.lexists(os.path.join(folder, ".git")):
            above = os.path.dirname(folder)
            if above == folder:
                return False
            folder = above
        return True

    def changed_since(self, commit: str, file: str) -> bool:
        """Tell whether git knows a commit on the file after this one."""
        if not _COMMIT.fullmatch(commit):
            return False
        # Not `git log`: what that shows, and which programs it starts, a repository's own settings decide.
        return bool(self.ask("rev-list", "-1", f"{commit}..HEAD", "--", file))

    def head(self) -> str:
        """Give the short name of the commit that is checked out; empty where there is none."""
        return self.ask("rev-parse", "--short", "HEAD") or ""

    def context(self) -> GitContext | None:
        """Give branch, commit, whether it is dirty and the last commits, if git tells all in time."""
        deadline = monotonic() + TIMEOUT_S
        branch = self.ask("rev-parse", "--abbrev-ref", "HEAD", deadline=deadline)
        commit = self.ask("rev-parse", "--short", "HEAD", deadline=deadline)
        if not branch or not commit:
            return None
        status = self.ask("status", "--porcelain", deadline=deadline)
        listed = self.ask("rev-list", f"-{RECENT}", "--format=%h %s", "HEAD", deadline=deadline)
        if status is None or listed is None:
            return None
        recent = [line for line in listed.splitlines() if not line.startswith("commit ")]
        return GitContext(branch, commit, bool(status), tuple(recent))

    def origin(self) -> str:
        """Give the name of the repository this one was cloned from."""
        url = self.ask("config", "--get", "remote.origin.url") or ""
        return re.split(r"[/:]", url.rstrip("/"))[-1].removesuffix(".git")
