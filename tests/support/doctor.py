"""A small machine to examine: a home, a project, an environment, and the checks that look at them."""

import sys
from pathlib import Path

import pytest

from carrel.doctor.checks import Check, Finding
from carrel.doctor.setup import Setup


class Ward:
    """A home and a project in temporary folders; checks see nothing of the real user."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home = folder / "home"
        self.project = folder / "project"
        self.bin = folder / "bin"
        for one in (self.home, self.project, self.bin):
            one.mkdir()
        self.state = self.home / ".local/state/carrel"
        self.user_file = self.home / ".config/carrel/config.toml"
        self.file = self.project / "carrel.toml"
        self.environment = {
            "HOME": str(self.home),
            "PATH": f"{self.bin}:{Path(sys.executable).parent}:/usr/bin:/bin",
        }
        self.patience_s = 60.0
        self.named: str | None = None
        monkeypatch.chdir(self.project)
        # Hosts that happen to run on this machine, some of them in other tests, are not part of the ward.
        monkeypatch.setattr("carrel.connect.detection.running_programs", lambda _: frozenset())

    def write(self, path: Path, text: str, mode: int = 0o600) -> Path:
        """Write a file, with the folders above it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
        return path

    def setup(self) -> Setup:
        """Return what is examined now."""
        return Setup(self.environment, named=self.named, patience_s=self.patience_s)

    def find(self, check: Check) -> list[Finding]:
        """Return what a check finds, without what works."""
        setup = self.setup()
        try:
            return [one for one in check.find(setup) if one.state != "ok"]
        finally:
            setup.close()

    def one(self, check: Check) -> Finding:
        """Return the only thing that a check finds, with something to do about it."""
        [found] = self.find(check)
        assert found.fix
        return found

    def fix(self, check: Check) -> list[Finding]:
        """Carry out the repairs of everything that a check finds; return what it finds afterwards."""
        setup = self.setup()
        try:
            for found in check.find(setup):
                if found.repair is not None:
                    found.repair.do()
        finally:
            setup.close()
        return self.find(check)
