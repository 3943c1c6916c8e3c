"""Python files and objects named on the command line: each becomes a section `[objects.NAME]`.

Imported by `serve`, so it imports no CLI package.
"""

import os
import re
from collections.abc import Iterable
from typing import Final

from carrel.app import registration
from carrel.core.errors import ConfigError

Flag = tuple[str, str, str]
"""A section, a key and the text of its value."""

_MAX_NAME: Final = 28


def object_flag(text: str, flags: Iterable[Flag] = ()) -> Flag:
    """Return the setting for a word such as `garden.py`, `garden.py:shelf`, `module:thing` or an entry point.

    A file is relative to the working folder. The name is made from the file or the thing, and differs from those of
    the providers in Carrel and in `flags`.
    """
    file, thing = parts_of(text)
    if file and not os.path.isfile(file):
        raise ConfigError(f"{text}: no such file")
    taken = {*registration.RESERVED, *registration.names()}
    taken |= {section.partition(".")[2] for section, key, _ in flags if key in ("import", "provider")}
    section = f"objects.{_free_name(_name_of(text, file, thing), taken)}"
    if file:
        return section, "import", os.path.abspath(file) + (f":{thing}" if thing else "")
    return section, "import" if ":" in text else "provider", text


def positional_flag(text: str, flags: Iterable[Flag] = ()) -> Flag:
    """Return the setting for a word without an option; raise ConfigError if it names no file and no object."""
    if os.path.isdir(text):
        from shlex import quote  # only on failure

        raise ConfigError(f"{text} is a folder; to serve a folder: carrel serve --project {quote(text)}")
    if not _is_file_or_object(text):
        raise ConfigError(
            f"unexpected argument {text!r}; serve takes Python files (garden.py) and objects (module:name)"
        )
    return object_flag(text, flags)


def with_flag(text: str, flags: Iterable[Flag] = ()) -> Flag:
    """Return the setting for the value of --with; raise ConfigError if it names no file and no object."""
    if not _is_file_or_object(text):
        raise ConfigError(f"--with {text}: give a Python file (garden.py) or an object (module:name)")
    return object_flag(text, flags)


def with_flags(words: Iterable[str]) -> list[Flag]:
    """Return the settings for several values of --with."""
    flags: list[Flag] = []
    for word in words:
        flags.append(with_flag(word, flags))
    return flags


def _is_file_or_object(text: str) -> bool:
    return bool(parts_of(text)[0]) or ":" in text


def parts_of(text: str) -> tuple[str, str]:
    """Return the file and the thing in it that a word names; no file if it names a module or an entry point."""
    file, _, thing = (text, "", "") if text.endswith(".py") else text.rpartition(":")
    return (file, thing) if file.endswith(".py") else ("", thing)


def _name_of(text: str, file: str, thing: str) -> str:
    """Return a name for a word; a thing named `shelf` says less than its module."""
    if file:
        word = os.path.basename(file).removesuffix(".py")
    else:
        parts = re.split("[:.]", text)
        word = parts[-2] if thing == "shelf" and len(parts) > 1 else parts[-1]
    name = re.sub("[^a-z0-9]+", "-", word.lower()).strip("-")
    return (name if name[:1].isalpha() else f"object-{name}")[:_MAX_NAME].rstrip("-")


def _free_name(name: str, taken: set[str]) -> str:
    numbered = (f"{name}-{number}" for number in range(2, len(taken) + 3))
    return next(one for one in (name, *numbered) if one not in taken)
