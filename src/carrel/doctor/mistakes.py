"""Every mistake in the settings files, not only the first, and the tables without them.

Loading the configuration stops at the first mistake. Here each key is checked by itself, with the same functions.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Literal

from carrel.app import config as configuration
from carrel.app import project, registration, schema
from carrel.app.schema import Schema
from carrel.core.errors import ConfigError
from carrel.core.record import Value, replace

_BUILT: Final = {
    "server": configuration.ServerSettings,
    "http": configuration.HttpSettings,
}
"""Sections whose values can be checked together without a provider."""


class Mistake(Value, frozen=True):
    """A section or a key that cannot be used; `key` is empty for a section. `nearest` is the name that was meant."""

    kind: Literal["unknown", "value"]
    path: str
    section: str
    key: str
    message: str
    nearest: str | None = None


class SettingsFiles(Value, frozen=True):
    """The project and the user's settings, without the mistakes."""

    place: project.Place
    user_table: project.Table | None
    mistakes: tuple[Mistake, ...]


def read_settings(named: str | None, environment: Mapping[str, str]) -> SettingsFiles:
    """Read the settings files of a project and its user; raise ConfigError for a file that cannot be read."""
    place = project.find(named, environment)
    users = configuration.user_table(environment)
    mistakes: list[Mistake] = []
    if users is not None:
        path = configuration.user_file(environment)
        mistakes += find_mistakes(path, users)
        users = _without(users, mistakes)
    if place.file is not None:
        found = list(find_mistakes(place.file.path, place.file.table))
        place = replace(place, file=replace(place.file, table=_without(place.file.table, found)))
        mistakes += found
    return SettingsFiles(place, users, tuple(mistakes))


def find_mistakes(path: str, table: project.Table) -> Iterator[Mistake]:
    """Yield what cannot be used in the settings of one file."""
    for name, keys in table.items():
        if name in configuration.NAMED and isinstance(keys, dict):
            for inner, values in keys.items():
                yield from _in_section(path, f"{name}.{inner}", values)
        else:
            yield from _in_section(path, name, keys)


def _in_section(path: str, section: str, keys: object) -> Iterator[Mistake]:
    try:
        known = configuration.section_schema(section, path)
    except ConfigError as error:
        near = schema.closest(section, (*configuration.section_names(), *configuration.NAMED))
        yield Mistake("unknown", path, section, "", str(error), near)
        return
    if not isinstance(keys, dict):
        yield Mistake("value", path, section, "", f"{path}: {section} must be a section: [{section}]")
        return
    found = [one for name, value in keys.items() for one in _in_key(path, section, known, name, value)]
    yield from found or _in_all(path, section, keys)


def _in_key(path: str, section: str, known: Schema, name: str, value: object) -> Iterator[Mistake]:
    try:
        key = schema.find(known, section, name, path)
    except ConfigError as error:
        yield Mistake("unknown", path, section, name, str(error), schema.closest(name, tuple(known)))
        return
    try:
        schema.check(key.kind, value, f"{path}: [{section}] {name}")
    except ConfigError as error:
        yield Mistake("value", path, section, name, str(error))


def _in_all(path: str, section: str, keys: Mapping[str, object]) -> Iterator[Mistake]:
    """Yield the mistake of a section whose keys are right one by one: a number out of range, a missing key."""
    table = section.partition(".")[0]
    try:
        if section in _BUILT:
            schema.build(_BUILT[section], section, keys)
        elif section == "search" or table in configuration.NAMED:
            target = configuration.SEARCH if section == "search" else configuration.NAMED[table]
            schema.build(registration.load(target), section, keys)
    except ConfigError as error:
        message = str(error).replace(f"[{section}] [{section}]", f"[{section}]")
        key = next((name for name in keys if message.startswith(f"[{section}] {name}:")), "")
        yield Mistake("value", path, section, key, f"{path}: {message}")


def _without(table: project.Table, mistakes: list[Mistake]) -> project.Table:
    """Return the table without the sections and keys of the mistakes."""
    left = {name: dict(keys) if isinstance(keys, dict) else keys for name, keys in table.items()}
    for one in mistakes:
        above, _, inner = one.section.partition(".")
        keys: object = left.get(above)
        if inner and isinstance(keys, dict):
            keys[inner] = dict(keys[inner]) if isinstance(keys[inner], dict) else keys[inner]
            if one.key:
                keys[inner].pop(one.key, None)
            else:
                del keys[inner]
        elif one.key and isinstance(keys, dict):
            keys.pop(one.key, None)
        else:
            left.pop(above, None)
    return left
