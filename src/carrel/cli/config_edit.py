"""`config set`, `config get` and `config unset`: read or change one setting and keep the rest of the file."""

import os
import stat
import tomllib
from collections.abc import Callable
from typing import Any, Final

import click
import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Table
from tomlkit.toml_document import TOMLDocument

from carrel.app import config as configuration
from carrel.app import registration, schema
from carrel.app.project import FILE_NAME, MAX_FILE_BYTES
from carrel.cli import output
from carrel.cli.context import CommandOptions
from carrel.cli.options import with_command_options
from carrel.core.errors import ConfigError
from carrel.files.atomic import new_private
from carrel.files.userdirs import config_folder

_OWN_SECTION: Final = ("tool", "carrel")
_MARK: Final = "\ufeff"

Tables = Any
"""A tomlkit document or a table in it. tomlkit's types are too narrow to use for both."""


@click.command()
@click.argument("name", metavar="SECTION.KEY")
@click.argument("value")
@click.option("--user", "is_users", is_flag=True, help="Write to your user file instead of the project's file.")
@with_command_options
@click.pass_obj
def set_(options: CommandOptions, name: str, value: str, is_users: bool) -> None:
    """Write one setting to the project's file. Comments and order are kept.

    VALUE is checked first. Separate the items of a list with commas: carrel config set workspace.allow '*.sql,docs/'
    """
    section, key, kind = _known(name)
    checked = schema.from_text(kind, value, name)
    _check_range(section, key, checked)

    def change(table: Tables) -> None:
        table[key] = checked

    path = _change(options, section, change, is_users=is_users)
    _report(options, section, key, f"Set {name} = {_as_toml(schema.shown(kind, checked))} in {path}", path)


@click.command()
@click.argument("name", metavar="SECTION.KEY")
@click.option("--user", "is_users", is_flag=True, help="Change your user file instead of the project's file.")
@with_command_options
@click.pass_obj
def unset_(options: CommandOptions, name: str, is_users: bool) -> None:
    """Remove one setting from the project's file."""
    section, key, _ = _known(name)
    is_found = False

    def change(table: Tables) -> None:
        nonlocal is_found
        is_found = key in table
        if is_found:
            del table[key]

    path = _change(options, section, change, is_users=is_users)
    _report(options, section, key, f"{'Removed' if is_found else 'There was no'} {name} in {path}", path)


@click.command()
@click.argument("name", metavar="SECTION.KEY")
@with_command_options
@click.pass_obj
def get_(options: CommandOptions, name: str) -> None:
    """Print the value of one setting."""
    section, key, kind = _known(name)
    config = options.config()
    setting = config.sections.get(section, {}).get(key)
    value = configuration.section_schema(section, name)[key].default if setting is None else setting.value
    value = schema.shown(kind, value)
    if options.is_json:
        origin = "default" if setting is None else f"{setting.layer}: {setting.origin}"
        output.print_json({"section": section, "key": key, "value": value, "origin": origin})
    else:
        output.print_lines(output.escape(_as_toml(value) if not isinstance(value, str) else value))


def _known(name: str) -> tuple[str, str, object]:
    """Return the section, key and type of a setting; raise ConfigError with the nearest name if it is unknown."""
    section, _, key = name.rpartition(".")
    if not section or not key:
        raise ConfigError(f"{name}: write it as SECTION.KEY, such as workspace.preset")
    return section, key, schema.find(configuration.section_schema(section, name), section, key, name).kind


def _check_range(section: str, key: str, value: Any) -> None:
    """Raise ConfigError for a value of the right type that is out of range."""
    if section == "server":
        configuration.ServerSettings(**{key: value})
    elif section == "store":
        schema.build(registration.load(configuration.STORE), section, {key: value})


def _change(options: CommandOptions, section: str, change: Callable[[Tables], None], *, is_users: bool) -> str:
    """Change a section of a file and return the file's path."""
    path, above = _place(options, is_users=is_users)
    before = _read(path)
    try:
        document = tomlkit.parse(before)
        change(_section_of(document, (*above, *section.split("."))))
    except TOMLKitError as error:
        raise ConfigError(f"{path}: cannot be changed: {error}") from None
    _drop_empty(document, (*above, *section.split(".")))
    after = tomlkit.dumps(document)
    tomllib.loads(after)  # never replace a file with one that cannot be read
    if after != before:
        _replace(path, after)
    return path


def _place(options: CommandOptions, *, is_users: bool) -> tuple[str, tuple[str, ...]]:
    """Return the file to change and the names of the tables that contain its sections."""
    if is_users:
        return os.path.join(config_folder(os.environ), "config.toml"), ()
    place = options.config().place
    if place.file is not None:
        is_shared = os.path.basename(place.file.path) != FILE_NAME
        return os.path.realpath(place.file.path), _OWN_SECTION if is_shared else ()
    if place.is_too_much:
        raise ConfigError("this is a home folder, not a project; use --user for your own settings, or --project DIR")
    path = os.path.join(place.root, FILE_NAME)
    if os.path.lexists(path):  # it exists but was not accepted as the project's file
        raise ConfigError(_why_not(path, place.passed_over))
    return path, ()


def _why_not(path: str, passed_over: tuple[str, ...]) -> str:
    """Return why a file with the name of the project's file is not changed."""
    is_regular = stat.S_ISREG(os.lstat(path).st_mode) or os.path.islink(path)
    note = next((note for note in passed_over if note.startswith(f"{FILE_NAME} ")), "")
    why = note.replace(" is not used: it ", " ") if is_regular and note else f"{FILE_NAME} is not a regular file"
    return f"{why}; move it away, or use --user for your own settings"


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return ""
    if len(content) > MAX_FILE_BYTES:
        raise ConfigError(f"{path}: is larger than {MAX_FILE_BYTES} bytes, the limit for a settings file")
    return content.decode().removeprefix(_MARK)


def _section_of(document: TOMLDocument, names: tuple[str, ...]) -> Tables:
    """Return a table of a document; create it and the tables above it if they are missing."""
    here: Tables = document
    for number, name in enumerate(names, 1):
        if name not in here:
            here[name] = tomlkit.table(is_super_table=number < len(names))
        here = here[name]
    return here


def _drop_empty(document: TOMLDocument, names: tuple[str, ...]) -> None:
    """Remove a table that is empty and has no comment."""
    above: Tables = document
    for name in names[:-1]:
        above = above[name]
    table = above[names[-1]]
    if isinstance(table, Table) and not table.as_string().strip():
        del above[names[-1]]


def _replace(path: str, text: str) -> None:
    """Replace a file atomically and keep its mode."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o644
    with new_private(path, mode) as target:
        target.write(text)


def _report(options: CommandOptions, section: str, key: str, done: str, path: str) -> None:
    """Print what was done, and why the setting is not in effect if it is not."""
    config = options.config()
    setting = config.sections.get(section, {}).get(key)
    notes = [str(one) for one in config.withheld if one.section == section and key in one.settings]
    if setting is not None and os.path.realpath(setting.origin) != path:
        notes.append(f"{setting.origin} overrides it")
    file = config.place.file
    if file is not None and not config.is_trusted and os.path.realpath(file.path) == path and _was_trusted(file.path):
        notes.append("the file has changed and is no longer trusted: run `carrel trust` to trust it again")
    if options.is_json:
        value = None if setting is None else setting.value
        output.print_json({"file": path, "section": section, "key": key, "value": value, "notes": notes})
        return
    output.print_lines(output.escape(done), *(f"[yellow]![/] {output.escape(note)}" for note in notes))


def _was_trusted(path: str) -> bool:
    from carrel.app.trust import TrustStore, name_of

    return any(one.path == name_of(path) for one in TrustStore(os.environ).all())


def _as_toml(value: object) -> str:
    """Return a value in TOML."""
    return "" if value is None else tomlkit.item(value).as_string()
