"""`config show`, `config validate`, `trust`."""

import os

from carrel import config as configuration
from carrel.cli import output
from carrel.cli.choices import Choices
from carrel.errors import ConfigError
from carrel.trust import TrustStore


def show_config(choices: Choices, *, with_origin: bool) -> None:
    """Print every key of every section with its value, and where that comes from."""
    config = choices.config()
    rows = []
    for section in configuration.sections_in_use(config):
        given = config.sections.get(section, {})
        known = configuration.schema(section, "")
        for name in (*known, *(one for one in given if one not in tuple(known))):
            setting = given.get(name)
            value = known[name].default if setting is None else setting.value
            origin = "default" if setting is None else f"{setting.layer}: {setting.origin}"
            rows.append((section, name, value, origin))
    if choices.is_json:
        told = [{"section": row[0], "key": row[1], "value": row[2], "origin": row[3]} for row in rows]
        output.print_json({"root": config.root, "settings": told, "withheld": [str(one) for one in config.withheld]})
        return
    table = [(f"{section}.{name}", _spelled(value), origin) for section, name, value, origin in rows]
    if with_origin:
        output.print_table(("setting", "value", "from"), table, plain_columns=3)
    else:
        output.print_table(("setting", "value"), [row[:2] for row in table], plain_columns=2)
    for withheld in config.withheld:
        output.print_lines(f"[yellow]![/] {output.escape(str(withheld))}")


def _spelled(value: object) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def validate_config(choices: Choices) -> None:
    """Load and build everything; a mistake is raised on the way."""
    with choices.desk() as desk:
        config = desk.config
    if choices.is_json:
        output.print_json({"files": config.files, "withheld": [str(one) for one in config.withheld]})
        return
    output.print_lines(f"{len(config.files)} file(s) read, no mistake found.")
    output.print_lines(*(f"  {output.escape(file)}" for file in config.files))
    output.print_lines(*(f"[yellow]![/] {output.escape(str(one))}" for one in config.withheld))


def change_trust(choices: Choices, *, is_list: bool, is_revoked: bool) -> None:
    """Trust the project's file as it is now, trust it no longer, or list what is trusted."""
    store = TrustStore(os.environ)
    if is_list:
        trusted = store.all()
        if choices.is_json:
            output.print_json([{"path": one.path, "sha256": one.digest} for one in trusted])
        else:
            output.print_table(("trusted file", "as it was"), [(one.path, one.digest[:12]) for one in trusted])
        return
    config = choices.config()
    if config.project_file is None:
        raise ConfigError("there is no carrel.toml, and no [tool.carrel] in a pyproject.toml, here or above")
    if is_revoked:
        was_trusted = store.revoke(config.project_file)
        told = "No longer trusted" if was_trusted else "Was not trusted"
        output.print_lines(f"{told}: {output.escape(config.project_file)}")
        return
    store.add(config.project_file)
    output.print_lines(f"Trusted as it is now: {output.escape(config.project_file)}")
    for withheld in config.withheld:
        output.print_lines(
            f"  now in effect: [{withheld.section}] {output.escape(withheld.key)}".replace("[", "\\[", 1)
        )
