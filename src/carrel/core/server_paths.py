"""Remove the server's paths from texts for callers: they show the user's name and the layout of the machine."""

import os
import re
from typing import Final

_ABSOLUTE: Final = r"(?<![\w/.:~…-])/(?:[^\s/'\"`,;:()<>|]+/)+([^\s/'\"`,;:()<>|]*)"
"""A path of at least two names. The part after a scheme, as in `workspace:///a/b`, is not one."""


def without_server_paths(text: str, root: str) -> str:
    """Return a text with paths relative to the project's root; other paths are cut to their last name."""
    for place in {root, os.path.realpath(root)} - {"", "/"}:
        text = re.sub(re.escape(place) + r"(?:/|(?![\w.-]))", lambda found: "" if found[0].endswith("/") else ".", text)
    return re.sub(_ABSOLUTE, lambda found: f"…/{found[1]}", text)


def without_paths_within(value: object, root: str) -> object:
    """Return a JSON value after `without_server_paths` for every text in it."""
    if isinstance(value, str):
        return without_server_paths(value, root)
    if isinstance(value, dict):
        return {name: without_paths_within(one, root) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [without_paths_within(one, root) for one in value]
    return value
