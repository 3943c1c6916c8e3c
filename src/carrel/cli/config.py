"""`config show`, `config validate`, `trust`."""

import json
import os
import re

from carrel.app import config as configuration
from carrel.app.project import ProjectFile
from carrel.app.trust import TrustStore
from carrel.cli import output
from carrel.cli.context import Choices
from carrel.core.errors import ConfigError
from carrel.core.provider import PlacesFile


def show_config(choices: Choices, *, with_origin: bool) -> None:
    """Print every key of every section with its value, and where that comes from."""
    config = choices.config()
    rows = []
    for section in configuration.sections_in_use(config):
        given = config.sections.get(section, {})
        known = configuration.section_schema(section, "")
        for name in (*known, *(one for one in given if one not in tuple(known))):
            setting = given.get(name)
            value = known[name].default if setting is None else setting.value
            origin = "default" if setting is None else f"{setting.layer}: {setting.origin}"
            rows.append((section, name, value, origin))
    if choices.is_json:
        told = [{"section": row[0], "key": row[1], "value": row[2], "origin": row[3]} for row in rows]
        output.print_json({"root": config.root, "settings": told, "withheld": list(config.notes)})
        return
    table = [(f"{section}.{name}", _spelled(value), origin) for section, name, value, origin in rows]
    if with_origin:
        output.print_table(("setting", "value", "from"), table, plain_columns=3)
    else:
        output.print_table(("setting", "value"), [row[:2] for row in table], plain_columns=2)
    for note in config.notes:
        output.print_lines(f"[yellow]![/] {output.escape(note)}")


def _spelled(value: object) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def validate_config(choices: Choices) -> None:
    """Load and build everything; a mistake is raised on the way."""
    with choices.desk() as desk:
        config = desk.config
    if choices.is_json:
        output.print_json({"files": config.files, "withheld": list(config.notes)})
        return
    output.print_lines(f"{len(config.files)} file(s) read, no mistake found.")
    output.print_lines(*(f"  {output.escape(file)}" for file in config.files))
    output.print_lines(*(f"[yellow]![/] {output.escape(note)}" for note in config.notes))


def change_trust(choices: Choices, *, is_list: bool, is_revoked: bool) -> None:
    """Trust the project's file as it is now, trust it no longer, or list what is trusted."""
    store = TrustStore(os.environ)
    if is_list:
        trusted = store.all()
        if choices.is_json:
            output.print_json([{"path": one.path, "sha256": one.digest} for one in trusted])
        else:
            rows = [(one.path, one.digest[:12]) for one in trusted]
            empty = "No file is trusted yet; carrel trust, in a project, trusts that project's own."
            output.print_table(("trusted file", "as it was"), rows, empty=empty)
        return
    config = choices.config()
    own = config.place.file
    files: list[ProjectFile | PlacesFile] = [*([] if own is None else [own]), *config.places_files]
    if not files:
        missing = "there is no carrel.toml, and no [tool.carrel] in a pyproject.toml, here or above"
        raise ConfigError("; ".join((missing, *config.place.passed_over)))
    lines: list[str] = []
    for file in files:
        if is_revoked:
            told = "No longer trusted" if store.revoke(file.path) else "Was not trusted"
        else:
            lines += _allowed_lines(config, file.path)
            store.add(file.path, file.digest)
            told = "Trusted as it was just read"
        lines.append(f"{told}: {output.escape(file.path)}")
    if choices.is_json:
        others = {"others": [file.path for file in files[1:]]} if files[1:] else {}
        output.print_json({"path": files[0].path, "trusted": not is_revoked, **others})
    else:
        output.print_lines(*lines)


def _allowed_lines(config: configuration.Config, path: str) -> list[str]:
    """Return what the user allows by trusting a file, and did not allow before."""
    return [
        line
        for withheld in config.withheld
        if withheld.file == path
        for line in (f"{withheld.why.capitalize()}, which is now allowed:", *_toml_lines(withheld))
    ]


def _toml_lines(withheld: configuration.Withheld) -> list[str]:
    """Spell what becomes allowed as the file has it."""
    table, dot, name = withheld.section.partition(".")
    lines = [f"[{table}{dot}{_toml_key(name)}]"]
    lines += [f"{_toml_key(key)} = {json.dumps(one, default=str)}" for key, one in withheld.settings.items()]
    return [f"  {output.escape(line)}" for line in lines]


def _toml_key(name: str) -> str:
    """Spell a key, or a part of one, as TOML has it: quoted, and in ASCII, where it is not a plain word."""
    return name if re.fullmatch("[A-Za-z0-9_-]*", name) else json.dumps(name)
