"""Set one key in the user's own settings file; comments and order stay."""

import os
import tomllib
from collections.abc import Mapping

import tomlkit

from carrel.app.config import user_file
from carrel.files.atomic import FOLDER_MODE, new_private


def set_users(environment: Mapping[str, str], section: str, key: str, value: int) -> None:
    """Write `[section] key = value` to the user's file; create the file if there is none."""
    path = os.path.realpath(user_file(environment))
    os.makedirs(os.path.dirname(path), FOLDER_MODE, exist_ok=True)
    before, mode = "", 0o644
    if os.path.exists(path):
        mode = os.stat(path).st_mode & 0o777
        with open(path, encoding="utf-8", newline="") as file:
            before = file.read()
    document = tomlkit.parse(before)
    document.setdefault(section, tomlkit.table())[key] = value
    after = tomlkit.dumps(document)
    tomllib.loads(after)  # never replace a file with one that cannot be read
    with new_private(path, mode) as target:
        target.write(after)
