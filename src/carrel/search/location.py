"""The place of a project's index: in the user's cache folder, one for each project and its settings."""

import os
from collections.abc import Mapping

from carrel.core.hashing import blake2b
from carrel.files.userdirs import cache_folder


def index_folder(environment: Mapping[str, str], root: str, rules: str = "") -> str | None:
    """Return the folder of a project's index; None if the user has no cache folder.

    `rules` are the settings that decide what is served: other settings have another index.
    """
    cache = cache_folder(environment)
    if cache is None:
        return None
    project = blake2b(os.fsencode(os.path.realpath(root)), digest_size=12).hexdigest()
    settings = blake2b(rules.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    return os.path.join(cache, "carrel", "search", f"{project}-{settings}")
