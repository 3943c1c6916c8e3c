"""`carrel scopes`: click commands made from the table in `providers/scopes/commands.py`.

Errors are printed as `Error: …`, or as JSON with --json, and each kind has its exit code.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import click

from carrel.app.config import Config
from carrel.cli import exit_codes
from carrel.cli.context import CommandOptions
from carrel.cli.scopes_work import WORK, Session
from carrel.cli.stderr import say
from carrel.core.errors import ConfigError
from carrel.core.limits import STORE_COMMAND_S, STORE_IMPORT_S
from carrel.core.writer import LOCAL, writing_as
from carrel.providers.scopes import commands, location
from carrel.providers.scopes.connection import ScopesStore
from carrel.providers.scopes.scope_errors import Archived, ScopeError, StoreAway
from carrel.providers.scopes.store import Store
from carrel.providers.scopes.uris import DEFAULT_NODES
from carrel.providers.scopes.values import MAX_CHILDREN

_DB: Final = "carrel.scopes.db"
_READING: Final = ("show", "list", "tree", "alias list", "export")
"""The commands that only read; `status` without a status reads too."""
_WORDS: Final = "carrel.scopes.words"


_ADVICE: Final[dict[str, str]] = {
    "HAS_CHILDREN": "To delete its descendants too, add --cascade",
    "INVALID_ALIAS": "An alias begins with a letter, and has 2 to 64 of a-z, 0-9, and single - and _ between them",
}
"""A second line for people at a terminal, by error code."""


class ScopesGroup(click.Group):
    """The group of commands; turns errors into lines on stderr and exit codes."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: object
    ) -> click.Context:
        words = tuple(args)
        try:
            context = super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            raise click.exceptions.Exit(_report_usage(error, is_json=_wants_json(words, parent))) from None
        context.meta[_WORDS] = words
        return context

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; return its exit code if it fails."""
        is_json = _wants_json(ctx.meta[_WORDS], ctx.parent)
        try:
            return super().invoke(ctx)
        except ScopeError as error:
            text = error.detail if isinstance(error, StoreAway) else error.text
            if isinstance(error, Archived):
                text = error.with_advice(f"{commands.PROGRAM} status {error.alias} --restore")
            code = _report(text, error.code, error.status, error.exit, is_json=is_json)
            if error.code in _ADVICE and not is_json and sys.stderr.isatty():
                say(_ADVICE[error.code])
            return code
        except ConfigError as error:
            return _report(str(error), "INVALID_ARGUMENT", 400, exit_codes.USAGE, is_json=is_json)
        except click.UsageError as error:
            return _report_usage(error, is_json=is_json)


def _wants_json(words: Sequence[str], parent: click.Context | None) -> bool:
    before = words[: words.index("--")] if "--" in words else words
    return "--json" in before or (parent is not None and parent.ensure_object(CommandOptions).is_json)


def _report_usage(error: click.UsageError, *, is_json: bool) -> int:
    if not is_json:
        error.show()
        return exit_codes.USAGE
    return _report(error.format_message(), "INVALID_ARGUMENT", 400, exit_codes.USAGE, is_json=True)


def _report(text: str, code: str, status: int, exit_code: int, *, is_json: bool) -> int:
    as_json = json.dumps({"error": text, "code": code, "status": status}, ensure_ascii=not text.isprintable())
    say(as_json if is_json else f"Error: {text}")
    return exit_code


def _run(command: commands.ScopesCommand) -> Callable[..., None]:
    """Return the function that click calls for a command."""

    @click.pass_context
    def run(context: click.Context, /, **given: Any) -> None:
        options = context.ensure_object(CommandOptions)
        is_reading = command.name in _READING or (command.name == "status" and given["status"] is None)
        needed = ("store", "bus", "scopes") if context.meta.get(_DB) is None else ()
        config = options.config(*needed, writes=not is_reading)
        settings = config.values("scopes")
        max_children = settings.get("max_children_listed", MAX_CHILDREN)
        session = Session(
            _store(config, context.meta.get(_DB), max_children),
            is_json=options.is_json,
            ceiling=settings.get("max_nodes_ceiling", DEFAULT_NODES),
            max_children=max_children,
        )
        try:
            with writing_as(LOCAL, f"{commands.PROGRAM} {command.name}"):
                WORK[command.name](session, given)
        finally:
            session.store.close()

    return run


def _store(config: Config, db: str | None, max_children: int) -> ScopesStore:
    """Return the store: that of --db, else the team's, else the project's."""
    address = config.store() if db is None else None
    if address is None:
        return Store(_location(config, db), read_s=STORE_COMMAND_S, write_s=STORE_IMPORT_S)
    from carrel.providers.scopes.team_store import TeamStore  # only where there is one

    store = TeamStore(address, read_s=STORE_COMMAND_S, write_s=STORE_IMPORT_S, max_children=max_children)
    try:
        store.prepare()
    except ConfigError:
        store.close()
        raise
    return store


def _location(config: Config, db: str | None) -> location.Location:
    """Return the place of the store: that of --db, else the project's."""
    if db is not None:
        return location.named(os.path.expanduser(db))
    project, place = config.project_of("scopes"), config.values("scopes").get("db", location.DEFAULT)
    return location.Location(project, place, is_named="db" in project.named)


def _parameters(command: commands.ScopesCommand) -> Iterator[click.Parameter]:
    for argument in command.arguments:
        name = argument.name.lower()
        yield click.Argument([name], metavar=argument.name, required=not argument.is_optional)
    for option in command.options:
        yield _option(option)
    yield from _shared()


def _option(option: commands.CommandOption) -> click.Option:
    return click.Option(
        [*option.flags, option.flags[-1].lstrip("-").replace("-", "_")],
        help=option.explained,
        is_flag=not option.value,
        metavar=option.value or None,
        multiple=option.is_repeatable,
        type=click.Choice(option.choices) if option.choices and option.is_exact else str if option.value else None,
        default=option.default or None,
        show_default=bool(option.default),
    )


def _shared() -> Iterator[click.Option]:
    """Yield the options that may stand before or after a command."""
    for option in commands.SHARED:
        made = _option(option)
        made.expose_value = False
        made.callback = _keep
        yield made


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value in (None, False):
        return
    if parameter.name == "db":
        context.meta[_DB] = value
    elif parameter.name == "json":
        context.ensure_object(CommandOptions).is_json = True
    elif not os.path.isdir(value):
        raise click.BadParameter(f"no such folder: {value!r}", context, parameter)
    else:
        context.ensure_object(CommandOptions).project = value


def _build() -> click.Group:
    help_names = {"help_option_names": ["-h", "--help"]}
    summary = "Manage projects, epics and tasks in one hierarchy. A SCOPE is an alias or an id."
    group = ScopesGroup("scopes", help=summary, params=[*_shared()], context_settings=help_names)
    groups = {"alias": click.Group("alias", help="Manage the aliases of a scope.", params=[*_shared()])}
    for command in commands.COMMANDS:
        first, _, rest = command.name.partition(" ")
        home = groups[first] if rest else group
        made = click.Command(
            rest or first, callback=_run(command), params=[*_parameters(command)], help=command.description
        )
        home.add_command(made)
    for inner in groups.values():
        group.add_command(inner)
    return group


scopes: Final = _build()
