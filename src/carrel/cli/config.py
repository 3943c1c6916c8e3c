"""`config show`, `config validate` and `trust`; `config_edit` has the commands that change a setting."""

import json
import os
import re
from collections.abc import Iterator, Mapping

import click

from carrel.app import config as configuration
from carrel.app import schema
from carrel.app.project import ProjectFile
from carrel.app.trust import TrustStore
from carrel.cli import output
from carrel.cli.context import CommandOptions
from carrel.cli.options import LazyGroup, with_command_options
from carrel.core.errors import ConfigError
from carrel.core.provider import PlacesFile


@click.group(cls=LazyGroup)
def config() -> None:
    """Show, check and change the configuration."""


config.lazy = {name: f"carrel.cli.config_edit:{name}_" for name in ("get", "set", "unset")}


@config.command()
@click.option("--origin", is_flag=True, help="Show where each value comes from.")
@with_command_options
@click.pass_obj
def show(options: CommandOptions, origin: bool) -> None:
    """Print all settings in effect."""
    loaded = options.config()
    rows = []
    for section in configuration.sections_in_use(loaded):
        given = loaded.sections.get(section, {})
        known = configuration.section_schema(section, "")
        for name in (*known, *(one for one in given if one not in tuple(known))):
            setting = given.get(name)
            value = known[name].default if setting is None else setting.value
            source = "default" if setting is None else f"{setting.layer}: {setting.origin}"
            rows.append((section, name, schema.shown(known[name].kind, value), source))
    if options.is_json:
        settings = [{"section": row[0], "key": row[1], "value": row[2], "origin": row[3]} for row in rows]
        output.print_json({"root": loaded.root, "settings": settings, "notes": list(loaded.notes)})
        return
    table = [(f"{section}.{name}", _as_text(value), source) for section, name, value, source in rows]
    if origin:
        output.print_table(("setting", "value", "from"), table, plain_columns=3)
    else:
        output.print_table(("setting", "value"), [row[:2] for row in table], plain_columns=2)
    for note in loaded.notes:
        output.print_lines(f"[yellow]![/] {output.escape(note)}")


def _as_text(value: object) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


@config.command()
@with_command_options
@click.pass_obj
def validate(options: CommandOptions) -> None:
    """Check the configuration. Settings that are not in effect are shown with the reason."""
    with options.desk(prints_notes=True) as desk:  # every provider is built, which raises ConfigError for a mistake
        loaded = desk.config
        for check in (loaded.http, loaded.session_key, loaded.groups):  # only a server over HTTP uses them
            check()
    if options.is_json:
        output.print_json({"files": loaded.files, "notes": list(loaded.notes)})
        return
    output.print_lines(f"{len(loaded.files)} file(s) read, no errors found.")
    output.print_lines(*(f"  {output.escape(file)}" for file in loaded.files))
    output.print_lines(*(f"[yellow]![/] {output.escape(note)}" for note in loaded.notes))


@click.command()
@click.option("--list", "is_list", is_flag=True, help="List the files you trust.")
@click.option("--revoke", "is_revoked", is_flag=True, help="Stop trusting this project's files.")
@with_command_options
@click.pass_obj
def trust(options: CommandOptions, is_list: bool, is_revoked: bool) -> None:
    """Trust this project's configuration. It may then start programs and name places outside the project."""
    store = TrustStore(os.environ)
    if is_list:
        trusted = store.all()
        if options.is_json:
            output.print_json([{"path": one.path, "sha256": one.digest} for one in trusted])
        else:
            rows = [(one.path, one.digest[:12]) for one in trusted]
            empty = "No file is trusted yet. To trust a project's configuration, run carrel trust in the project."
            output.print_table(("trusted file", "sha256"), rows, empty=empty)
        return
    loaded = options.config()
    files: list[ProjectFile | PlacesFile] = [*filter(None, [loaded.place.file]), *loaded.places_files]
    if not files:
        missing = "there is no carrel.toml and no pyproject.toml with [tool.carrel] in this folder or above it"
        raise ConfigError("; ".join((missing, *loaded.place.passed_over)))
    lines: list[str] = []
    for file in files:
        if is_revoked:
            done = "No longer trusted" if store.revoke(file.path) else "Was not trusted"
        else:
            lines += _allowed_lines(loaded, file.path)
            store.add(file.path, file.digest)
            done = "Trusted, with its present content"
        lines.append(f"{done}: {output.escape(file.path)}")
    if options.is_json:
        others = {"others": [file.path for file in files[1:]]} if files[1:] else {}
        output.print_json({"path": files[0].path, "trusted": not is_revoked, **others})
    else:
        output.print_lines(*lines)


def _allowed_lines(config: configuration.Config, path: str) -> Iterator[str]:
    """Yield lines that show which settings of a file trust puts into effect."""
    for withheld in config.withheld:
        if withheld.file == path:
            yield f"Now allowed ({withheld.why}):"
            table, dot, name = withheld.section.partition(".")
            lines = _toml_lines(f"{table}{dot}{_toml_key(name)}", _without_secrets(withheld))
            yield from (f"  {output.escape(line)}" for line in lines)


def _toml_lines(section: str, settings: Mapping[str, object]) -> Iterator[str]:
    """Yield settings in TOML; a table among them has its own header."""
    tables = {key: one for key, one in settings.items() if isinstance(one, dict)}
    if len(tables) < len(settings) or not settings:
        yield f"[{section}]"
    for key, one in settings.items():
        if key not in tables:
            yield f"{_toml_key(key)} = {json.dumps(one, default=str, ensure_ascii=False)}"
    for key, table in tables.items():
        yield from _toml_lines(f"{section}.{_toml_key(key)}", table)


def _without_secrets(withheld: configuration.Withheld) -> Mapping[str, object]:
    """Return the settings as they may be shown; those of another system's file are places and hold no secret."""
    try:
        known = configuration.section_schema(withheld.section, "")
    except ConfigError:
        return withheld.settings
    return {key: schema.shown(known[key].kind, value) for key, value in withheld.settings.items()}


def _toml_key(name: str) -> str:
    """Return a key in TOML: bare where possible, else quoted and in ASCII."""
    return name if re.fullmatch("[A-Za-z0-9_-]*", name) else json.dumps(name)
