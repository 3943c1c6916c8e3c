"""The commands of `carrel scopes` as one table, from which the command line and `scopes://cli-quick-ref` are built."""

from collections.abc import Iterable
from typing import Final

from carrel.core.record import Value
from carrel.providers.scopes.values import STATUSES


class CommandArgument(Value, frozen=True):
    """A positional argument."""

    name: str
    description: str
    is_optional: bool = False


class CommandOption(Value, frozen=True):
    """An option. With `value` it takes a value, one of `choices` if there are any; `is_exact` compares with case."""

    flags: tuple[str, ...]
    description: str
    value: str = ""
    choices: tuple[str, ...] = ()
    is_exact: bool = True
    default: str = ""
    is_repeatable: bool = False

    @property
    def explained(self) -> str:
        """The description with the choices."""
        if not self.choices:
            return self.description
        case = "" if self.is_exact else ", in upper or lower case"
        return f"{self.description} One of {', '.join(self.choices)}{case}."


class ScopesCommand(Value, frozen=True):
    """One command. The name of a command in a group is the group, a space and the command."""

    name: str
    description: str
    arguments: tuple[CommandArgument, ...] = ()
    options: tuple[CommandOption, ...] = ()


PROGRAM: Final = "carrel scopes"

SHARED: Final = (
    CommandOption(("--project",), "The project that DIR belongs to; by default that of the working folder.", "DIR"),
    CommandOption(("--db",), "The store; by default the project's own.", "FILE"),
    CommandOption(("--json",), "Print one JSON value; errors too."),
)
"""Options that stand before or after every command."""

_SCOPE: Final = CommandArgument("SCOPE", "Alias or id of a scope.")
_NAME: Final = CommandArgument("NAME", "The alias.")
_IN_PLACE: Final = "this sibling; without a new parent, reorder in place."

COMMANDS: Final = (
    ScopesCommand(
        "create",
        "Add a scope after its last sibling.",
        (CommandArgument("TITLE", "1 to 200 characters, unique among siblings."),),
        (
            CommandOption(("-d", "--description"), "At most 1000 characters.", "TEXT"),
            CommandOption(("-p", "--parent"), "The parent; without it, the scope is a root.", "SCOPE"),
            CommandOption(("-a", "--alias"), "The canonical alias; generated if left out.", "NAME"),
            CommandOption(
                ("-s", "--status"), "Its status.", "STATUS", choices=STATUSES, is_exact=False, default="TODO"
            ),
        ),
    ),
    ScopesCommand("show", "Show everything about a scope.", (_SCOPE,)),
    ScopesCommand(
        "update",
        "Change a scope's title or description.",
        (_SCOPE,),
        (
            CommandOption(("-t", "--title"), "The new title.", "TEXT"),
            CommandOption(("-d", "--description"), 'The new description; "" clears it.', "TEXT"),
            CommandOption(("--if-updated-at",), "Change nothing unless the scope's updatedAt is this.", "TIME"),
        ),
    ),
    ScopesCommand(
        "status",
        f"Show or set a scope's status. STATUS is {', '.join(STATUSES[:-1])} or {STATUSES[-1]}.",
        (_SCOPE, CommandArgument("STATUS", "The new status, in upper or lower case.", is_optional=True)),
        (CommandOption(("--restore",), "First restore an archived scope, to TODO."),),
    ),
    ScopesCommand(
        "move",
        "Move a scope below another parent, or among its siblings.",
        (_SCOPE,),
        (
            CommandOption(("--parent",), "The new parent.", "SCOPE"),
            CommandOption(("--root",), "Make it a root."),
            CommandOption(("--before",), f"Before {_IN_PLACE}", "SCOPE"),
            CommandOption(("--after",), f"After {_IN_PLACE}", "SCOPE"),
        ),
    ),
    ScopesCommand(
        "delete",
        "Delete a scope.",
        (_SCOPE,),
        (
            CommandOption(("--cascade",), "Also delete everything below it."),
            CommandOption(("--dry-run",), "Only print what would be deleted."),
        ),
    ),
    ScopesCommand(
        "list",
        "List the roots, the children of a scope, or all scopes.",
        (),
        (
            CommandOption(("-p", "--parent"), "The children of this scope.", "SCOPE"),
            CommandOption(("--all",), "All scopes, by alias."),
            CommandOption(
                ("--status",),
                "Only scopes with this status.",
                "STATUS",
                choices=STATUSES,
                is_exact=False,
                is_repeatable=True,
            ),
            CommandOption(("--offset",), "Number of scopes to leave out.", "N", default="0"),
            CommandOption(("--limit",), "Maximum number of scopes, 1 to 1000.", "N", default="20"),
        ),
    ),
    ScopesCommand(
        "tree",
        "Show a scope and everything below it.",
        (_SCOPE,),
        (
            CommandOption(("--depth",), "Levels below it, 1 to 5; by default 1.", "N"),
            CommandOption(("--skip",), "Number of its children to leave out.", "N"),
            CommandOption(("--limit",), "Maximum number of its children.", "N"),
            CommandOption(("--max-nodes",), "Maximum number of nodes in all.", "N"),
        ),
    ),
    ScopesCommand(
        "alias add",
        "Add an alias to a scope.",
        (_SCOPE, _NAME),
        (CommandOption(("--canonical",), "Make it the canonical alias."),),
    ),
    ScopesCommand("alias rm", "Remove a secondary alias of a scope.", (_SCOPE, _NAME)),
    ScopesCommand(
        "alias rename",
        "Rename an alias, canonical or not.",
        (CommandArgument("OLD", "The present alias."), CommandArgument("NEW", "The new alias.")),
    ),
    ScopesCommand("alias set-canonical", "Make one of a scope's aliases the canonical one.", (_SCOPE, _NAME)),
    ScopesCommand("alias list", "List a scope's aliases, the canonical one first.", (_SCOPE,)),
    ScopesCommand(
        "export",
        "Write all scopes, or one and everything below it, as JSON lines.",
        (CommandArgument("SCOPE", "Alias or id of a scope; by default all scopes.", is_optional=True),),
        (CommandOption(("--out",), "Write to this file; by default to standard output.", "FILE"),),
    ),
    ScopesCommand(
        "import",
        "Import scopes that were exported: all of them or none.",
        (CommandArgument("FILE", "The file to read; - is standard input.", is_optional=True),),
        (
            CommandOption(("--from-scopes-db",), "Read a database of the original Scopes application.", "FILE"),
            CommandOption(
                ("--on-conflict",),
                "What to do with an id that exists already.",
                "WAY",
                choices=("fail", "skip", "replace"),
                default="fail",
            ),
            CommandOption(
                ("--exact",),
                "Make the store equal to the import: replace every scope, and remove scopes that are not in it.",
            ),
            CommandOption(("--dry-run",), "Only print what would be imported."),
        ),
    ),
)


def usage(command: ScopesCommand) -> str:
    """Return the usage line of a command."""
    words = [f"[{one.name}]" if one.is_optional else one.name for one in command.arguments]
    return " ".join([PROGRAM, command.name, *(["[OPTIONS]"] if command.options else []), *words])


def quick_reference(uris: tuple[tuple[str, str], ...]) -> str:
    """Return the whole table as Markdown, and a last section with URIs and their descriptions."""
    parts = [
        "# CLI Quick Reference\n",
        f"`{PROGRAM} [OPTIONS] COMMAND`, with these options before or after the command:\n",
    ]
    parts.append(_rows(_option_row(option) for option in SHARED))
    for command in COMMANDS:
        parts.append(f"## {command.name}\n\n{command.description}\n\n`{usage(command)}`\n")
        rows = [
            f"| `{one.name}` | {one.description}{' Optional.' if one.is_optional else ''} |"
            for one in command.arguments
        ]
        rows += [_option_row(option) for option in command.options]
        if rows:
            parts.append(_rows(rows))
    parts.append("## Resources\n")
    parts.append(_rows(f"| `{uri}` | {description} |" for uri, description in uris))
    return "\n".join(parts)


def _option_row(option: CommandOption) -> str:
    flags = ", ".join(option.flags) + (f" {option.value}" if option.value else "")
    notes = [option.explained]
    if option.default:
        notes.append(f"Default: {option.default}.")
    if option.is_repeatable:
        notes.append("May be repeated.")
    return f"| `{flags}` | {' '.join(notes)} |"


def _rows(rows: Iterable[str]) -> str:
    return "\n".join(["| | |", "| --- | --- |", *rows]) + "\n"
