"""Files of another user: really given away where the tests run as root, else only said to be so."""

import importlib
import os
import pkgutil
import sys
from pathlib import Path

import pytest

import carrel
from carrel.files import sandbox

STRANGER = 12_345


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a file or folder to another user."""
    if os.geteuid() == 0:
        os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
        return
    # A module that is first imported while the function is replaced would keep the replacement for ever.
    for found in pkgutil.walk_packages(carrel.__path__, "carrel."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    given = path.lstat()
    real = sandbox.belongs_here

    def belongs_here(found: os.stat_result, *others: int) -> bool:
        return not os.path.samestat(found, given) and real(found, *others)

    for name, module in tuple(sys.modules.items()):
        if name.startswith("carrel") and getattr(module, "belongs_here", None) is real:
            monkeypatch.setattr(module, "belongs_here", belongs_here)
