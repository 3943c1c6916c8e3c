"""Where the index of a project lies: in the user's cache folder, one for each project."""

import os
from collections.abc import Mapping

from carrel.core.hashing import blake2b
from carrel.files.userdirs import cache_folder


def index_folder(environment: Mapping[str, str], root: str) -> str | None:
    """Return the folder of a project's index; None where the user has no place for caches."""
    cache = cache_folder(environment)
    if cache is None:
        return None
    digest = blake2b(os.fsencode(os.path.realpath(root)), digest_size=12).hexdigest()
    return os.path.join(cache, "carrel", "search", digest)
