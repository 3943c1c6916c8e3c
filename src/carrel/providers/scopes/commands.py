"""The commands of `carrel scopes` as one plain table.

The command line is built from it, and so is `scopes://cli-quick-ref`: a command or an
option that is not here does not exist, and one that is here is documented.
"""

from collections.abc import Iterable
from typing import Final

from carrel.core.record import Value
from carrel.providers.scopes.values import STATUSES


class CommandArgument(Value, frozen=True):
    """A word that stands for itself."""

    name: str
    told: str
    is_optional: bool = False


class CommandOption(Value, frozen=True):
    """A flag; with `value` it takes one, of `choices` where there are any: in these very words if they are `exact`."""

    flags: tuple[str, ...]
    told: str
    value: str = ""
    choices: tuple[str, ...] = ()
    is_exact: bool = True
    default: str = ""
    is_repeatable: bool = False

    @property
    def explained(self) -> str:
        """What it is for, and the values it takes."""
        if not self.choices:
            return self.told
        return f"{self.told} One of {', '.join(self.choices)}{'' if self.is_exact else ', in any case'}."


class ScopesCommand(Value, frozen=True):
    """One command; `name` has a space where it belongs to a group."""

    name: str
    told: str
    arguments: tuple[CommandArgument, ...] = ()
    options: tuple[CommandOption, ...] = ()


PROGRAM: Final = "carrel scopes"

SHARED: Final = (
    CommandOption(("--project",), "The project around DIR, instead of the working folder.", "DIR"),
    CommandOption(("--db",), "The store, instead of the project's own.", "FILE"),
    CommandOption(("--json",), "Print one JSON value; errors too."),
)
"""Taken before and after every command."""

_SCOPE: Final = CommandArgument("SCOPE", "Alias or id of a scope.")
_NAME: Final = CommandArgument("NAME", "The alias.")
_IN_PLACE: Final = "a sibling there; alone, to reorder in place."

COMMANDS: Final = (
    ScopesCommand(
        "create",
        "Add a scope after its last sibling.",
        (CommandArgument("TITLE", "1 to 200 characters, unique among siblings."),),
        (
            CommandOption(("-d", "--description"), "At most 1000 characters.", "TEXT"),
            CommandOption(("-p", "--parent"), "The scope it belongs to; without it, it is a root.", "SCOPE"),
            CommandOption(("-a", "--alias"), "Its canonical alias; without it, one is made up.", "NAME"),
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
            CommandOption(("--if-updated-at",), "Only if it was last changed then.", "TIME"),
        ),
    ),
    ScopesCommand(
        "status",
        f"Show or set a scope's status: {', '.join(STATUSES[:-1])} or {STATUSES[-1]}.",
        (_SCOPE, CommandArgument("STATUS", "The new status, in any case.", is_optional=True)),
        (CommandOption(("--restore",), "Bring an archived scope back first, as TODO."),),
    ),
    ScopesCommand(
        "move",
        "Put a scope beneath another parent, or elsewhere among its siblings.",
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
            CommandOption(("--cascade",), "Everything beneath it too."),
            CommandOption(("--dry-run",), "Only say what would be deleted."),
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
                ("--status",), "Only of this status.", "STATUS", choices=STATUSES, is_exact=False, is_repeatable=True
            ),
            CommandOption(("--offset",), "Leave out so many.", "N", default="0"),
            CommandOption(("--limit",), "At most so many, 1 to 1000.", "N", default="20"),
        ),
    ),
    ScopesCommand(
        "tree",
        "Show a scope and what lies beneath it.",
        (_SCOPE,),
        (
            CommandOption(("--depth",), "Levels beneath it, 1 to 5; 1 if it is not given.", "N"),
            CommandOption(("--skip",), "Leave out so many of its children.", "N"),
            CommandOption(("--limit",), "At most so many of its children.", "N"),
            CommandOption(("--max-nodes",), "At most so many nodes in all.", "N"),
        ),
    ),
    ScopesCommand(
        "alias add",
        "Give a scope one more alias.",
        (_SCOPE, _NAME),
        (CommandOption(("--canonical",), "Make it the canonical one."),),
    ),
    ScopesCommand("alias rm", "Take a secondary alias from a scope.", (_SCOPE, _NAME)),
    ScopesCommand(
        "alias rename",
        "Rename an alias, canonical or not.",
        (CommandArgument("OLD", "The alias as it is."), CommandArgument("NEW", "The alias as it shall be.")),
    ),
    ScopesCommand("alias set-canonical", "Make one of a scope's aliases the canonical one.", (_SCOPE, _NAME)),
    ScopesCommand("alias list", "List a scope's aliases, the canonical one first.", (_SCOPE,)),
    ScopesCommand(
        "export",
        "Write all scopes, or one and what lies beneath it, as JSON lines.",
        (CommandArgument("SCOPE", "Alias or id of a scope; without it, all.", is_optional=True),),
        (CommandOption(("--out",), "Write there instead of to standard output.", "FILE"),),
    ),
    ScopesCommand(
        "import",
        "Add what was exported; all of it or nothing.",
        (CommandArgument("FILE", "What to read; - is standard input.", is_optional=True),),
        (
            CommandOption(("--from-scopes-db",), "Read a database of the original Scopes application instead.", "FILE"),
            CommandOption(
                ("--on-conflict",),
                "What to do where an id exists.",
                "WAY",
                choices=("fail", "skip", "replace"),
                default="fail",
            ),
            CommandOption(
                ("--exact",),
                "Make the store exactly what is read: replace every scope, and remove those that are not in it.",
            ),
            CommandOption(("--dry-run",), "Only say what would be imported."),
        ),
    ),
)


def usage(command: ScopesCommand) -> str:
    """Write the usage line of a command."""
    words = [f"[{one.name}]" if one.is_optional else one.name for one in command.arguments]
    return " ".join([PROGRAM, command.name, *(["[OPTIONS]"] if command.options else []), *words])


def quick_reference(uris: tuple[tuple[str, str], ...]) -> str:
    """Write the whole table down as Markdown, and last the URIs with what they hold."""
    parts = [
        "# CLI Quick Reference\n",
        f"`{PROGRAM} [OPTIONS] COMMAND`, with these options before or after the command:\n",
    ]
    parts.append(_rows(_option_row(option) for option in SHARED))
    for command in COMMANDS:
        parts.append(f"## {command.name}\n\n{command.told}\n\n`{usage(command)}`\n")
        rows = [f"| `{one.name}` | {one.told}{' Optional.' if one.is_optional else ''} |" for one in command.arguments]
        rows += [_option_row(option) for option in command.options]
        if rows:
            parts.append(_rows(rows))
    parts.append("## Resources\n")
    parts.append(_rows(f"| `{uri}` | {told} |" for uri, told in uris))
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
