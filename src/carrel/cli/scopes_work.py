"""The commands of `carrel scopes`. Each prints its result after the transaction has committed."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import click

from carrel.cli import output
from carrel.cli.stderr import say
from carrel.core.arguments import InvalidArguments, parse_integer
from carrel.core.isotime import iso_ms, now_ms
from carrel.files.atomic import new_private
from carrel.providers.scopes import changes, importer, json_lines, queries, tree
from carrel.providers.scopes.changes import Change, Move
from carrel.providers.scopes.connection import ScopesConnection, ScopesStore
from carrel.providers.scopes.importer import ImportResult, OnConflict
from carrel.providers.scopes.json_lines import Record
from carrel.providers.scopes.original_database import Original
from carrel.providers.scopes.scope_errors import invalid, not_found
from carrel.providers.scopes.store import empty_store
from carrel.providers.scopes.uris import bad_query, parameters
from carrel.providers.scopes.values import (
    TREE_URI,
    Scope,
    check_alias,
    check_description,
    check_status,
    check_title,
    is_alias,
    is_id,
    node_line,
    normalise_alias,
    parse_time,
)

_COLOURS: Final = {
    "PLANNING": "magenta",
    "TODO": "cyan",
    "IN_PROGRESS": "yellow",
    "BLOCKED": "red",
    "DONE": "green",
    "ARCHIVED": "bright_black",
}

Given = Mapping[str, Any]
"""The values of a command's arguments and options, by name."""


@dataclass(frozen=True, slots=True)
class Session:
    """The store that a command works on, and its output format."""

    store: ScopesStore
    is_json: bool
    ceiling: int
    max_children: int

    @contextmanager
    def reading(self) -> Iterator[ScopesConnection]:
        """Open a snapshot of the store; an empty one if there is no store."""
        with self.store.reading() as connection:
            if connection is not None:
                yield connection
                return
        with empty_store() as connection:
            yield connection

    @contextmanager
    def writing(self, scope: str, *, is_rehearsal: bool = False) -> Iterator[ScopesConnection]:
        """Open a transaction to change a scope; raise "not found" instead of creating a store for it."""
        if self.store.identity() is None:
            with empty_store() as connection:
                find(connection, scope)
        with self.store.writing(is_rehearsal=is_rehearsal) as connection:
            yield connection

    def report(self, value: Mapping[str, object], *lines: str) -> None:
        """Print lines; with --json, the value."""
        if self.is_json:
            output.print_json(value)
        else:
            output.print_text("\n".join(lines))


def find(connection: ScopesConnection, text: str) -> Scope:
    """Return the scope with an alias or an id."""
    alias, scope_id = normalise_alias(text), text.strip().lower()
    found = queries.find(connection, alias) if is_alias(alias) else None
    if found is None and is_id(scope_id):
        found = queries.by_id(connection, scope_id)
    if found is None:
        raise not_found(scope_id if is_id(scope_id) else check_alias(text))
    return found


# Scopes


def create(session: Session, given: Given) -> None:
    title = check_title(given["title"])
    description = check_description(given["description"])
    status = check_status(given["status"])
    alias = None if given["alias"] is None else check_alias(given["alias"])
    if given["parent"] is not None and session.store.identity() is None:
        with session.reading() as connection:
            find(connection, given["parent"])
    with session.store.writing() as connection:
        parent = None if given["parent"] is None else find(connection, given["parent"])
        scope = changes.create(
            connection, now_ms(), title=title, description=description, parent=parent, alias=alias, status=status
        )
        shown = queries.describe(connection, scope, session.max_children)
    session.report(shown, f"Created {node_line(scope.alias, scope.title, scope.status)}")


def show(session: Session, given: Given) -> None:
    with session.reading() as connection:
        scope = find(connection, given["scope"])
        shown = queries.describe(connection, scope, session.max_children)
        count = queries.count_children(connection, scope.id)
    lines = [
        node_line(scope.alias, scope.title, scope.status),
        f"id: {scope.id}",
        f"parent: {shown['parent'] or '-'}",
        f"aliases: {', '.join(shown['aliases'])}",
        f"children: {count}",
        f"created: {shown['createdAt']}",
        f"updated: {shown['updatedAt']}",
    ]
    session.report(shown, *lines, *([] if scope.description is None else ["", scope.description]))


def update(session: Session, given: Given) -> None:
    title, description, expected = given["title"], given["description"], given["if_updated_at"]
    if title is None and description is None:
        raise click.UsageError("Nothing to change: give --title or --description.")
    change = Change(
        title=None if title is None else check_title(title),
        description=None if description is None else check_description(description) or "",
        expected_updated_at=None if expected is None else parse_time("--if-updated-at", expected),
    )
    _change(
        session, given["scope"], change, lambda old, new: f"{'Updated' if new != old else 'No change:'} {new.alias}"
    )


def status(session: Session, given: Given) -> None:
    if given["status"] is None and not given["restore"]:
        with session.reading() as connection:
            scope = find(connection, given["scope"])
            shown = queries.describe(connection, scope, session.max_children)
        session.report(shown, scope.status)
        return
    wanted = None if given["status"] is None else check_status(given["status"])
    change = Change(status=wanted, is_restored=bool(given["restore"]))
    _change(session, given["scope"], change, lambda old, new: f"{new.alias}: {old.status} -> {new.status}")


def _change(session: Session, text: str, change: Change, line: Callable[[Scope, Scope], str]) -> None:
    with session.writing(text) as connection:
        old = find(connection, text)
        new = changes.update(connection, now_ms(), old, change)
        shown = queries.describe(connection, new, session.max_children)
    session.report(shown, line(old, new))


def move(session: Session, given: Given) -> None:
    if given["parent"] is not None and given["root"]:
        raise click.UsageError("Give --parent or --root, not both.")
    if given["before"] is not None and given["after"] is not None:
        raise click.UsageError("Give --before or --after, not both.")
    if not any((given["parent"], given["root"], given["before"], given["after"])):
        raise click.UsageError("Nothing to do: give --parent, --root, --before or --after.")
    with session.writing(given["scope"]) as connection:
        scope = find(connection, given["scope"])
        named = {
            name: None if given[name] is None else find(connection, given[name])
            for name in ("parent", "before", "after")
        }
        leaves = given["parent"] is not None or bool(given["root"])
        moved = changes.move(connection, now_ms(), scope, Move(leaves=leaves, **named))
        shown = queries.describe(connection, moved, session.max_children)
    session.report(shown, f"Moved {moved.alias} to {shown['parent'] or 'the root'}")


def delete(session: Session, given: Given) -> None:
    is_rehearsal = bool(given["dry_run"])
    with session.writing(given["scope"], is_rehearsal=is_rehearsal) as connection:
        scope = find(connection, given["scope"])
        count = changes.delete(connection, now_ms(), scope, cascade=bool(given["cascade"]))
    others = f" and {count - 1} descendants" if count > 1 else ""
    line = f"{'Would delete' if is_rehearsal else 'Deleted'} {scope.alias}{others}"
    session.report({"alias": scope.alias, "deleted": not is_rehearsal, "count": count}, line)


def list_(session: Session, given: Given) -> None:
    if given["parent"] is not None and given["all"]:
        raise click.UsageError("Give --parent or --all, not both.")
    offset = _count("--offset", given["offset"], 0, 2**63 - 1)
    limit = _count("--limit", given["limit"], 1, 1_000)
    statuses = [check_status(one) for one in given["status"]]
    with session.reading() as connection:
        parent = None if given["parent"] is None else find(connection, given["parent"]).id
        place = None if given["all"] else (parent,)
        found, total = queries.matching(connection, place, statuses, offset, limit)
    end = offset + len(found)
    has_more = bool(found) and end < total
    if session.is_json:
        rows = [{"alias": one.alias, "title": one.title, "status": one.status} for one in found]
        output.print_json({"scopes": rows, "total": total, "nextOffset": end if has_more else None})
        return
    _print_nodes([node_line(one.alias, one.title, one.status) for one in found] or ["No scopes."])
    if has_more:
        output.print_text(f"Showing {offset + 1}-{end} of {total}; next: --offset {end}")


def _count(name: str, text: str, low: int, high: int) -> int:
    number = parse_integer(text)
    if number is None or not low <= number <= high:
        raise click.UsageError(f"{name} must be a whole number from {low} to {high}, not {text!r}.")
    return number


def show_tree(session: Session, given: Given) -> None:
    names = ("depth", "skip", "limit", "max_nodes")
    try:
        query = parameters(session.ceiling).check_query([(one, given[one]) for one in names if given[one] is not None])
    except InvalidArguments as error:
        raise bad_query(error) from None
    with session.reading() as connection:
        scope = find(connection, given["scope"])
        rendered = tree.render(connection, scope, query, session.ceiling)
    if not session.is_json:
        _print_nodes(rendered.text.split("\n"))
        return
    output.print_json(
        {
            "uri": f"{TREE_URI}{scope.alias}{query.text()}",
            "text": rendered.text,
            "etag": rendered.etag,
            "nodes": rendered.nodes,
            "truncated": rendered.is_truncated,
            "next": rendered.next_uri,
        }
    )


def _print_nodes(lines: list[str]) -> None:
    """Print node lines; on a terminal, colour the statuses."""
    if not output.is_terminal():
        output.print_text("\n".join(lines))
        return
    for line in lines:
        head, bracket, tail = line.rpartition(" [")
        word, _, rest = tail.partition("]")
        if bracket and word in _COLOURS:
            colour = _COLOURS[word]
            output.print_lines(f"{output.escape(head)} [{colour}]\\[{word}][/]{output.escape(rest)}")
        else:
            output.print_lines(output.escape(line))


# Aliases


def add_alias(session: Session, given: Given) -> None:
    add = partial(changes.add_alias, is_canonical=bool(given["canonical"]))
    _change_aliases(session, given, add, lambda scope, name: f"Added {name} to {scope.alias}")


def remove_alias(session: Session, given: Given) -> None:
    _change_aliases(session, given, changes.remove_alias, lambda scope, name: f"Removed {name} from {scope.alias}")


def rename_alias(session: Session, given: Given) -> None:
    old, new = check_alias(given["old"]), check_alias(given["new"])
    with session.store.writing(is_rehearsal=session.store.identity() is None) as connection:
        scope = changes.rename_alias(connection, now_ms(), old, new)
        shown = _aliases(connection, scope)
    session.report(shown, f"Renamed {old} to {new}")


def set_canonical(session: Session, given: Given) -> None:
    _change_aliases(session, given, changes.set_canonical, lambda _, name: f"Canonical alias: {name}")


def _change_aliases(
    session: Session, given: Given, change: Callable[..., Scope], line: Callable[[Scope, str], str]
) -> None:
    """Change an alias and print `line`, made from the scope before the change and the alias."""
    name = check_alias(given["name"])
    with session.writing(given["scope"]) as connection:
        before = find(connection, given["scope"])
        shown = _aliases(connection, change(connection, now_ms(), before, name))
    session.report(shown, line(before, name))


def list_aliases(session: Session, given: Given) -> None:
    with session.reading() as connection:
        scope = find(connection, given["scope"])
        shown = _aliases(connection, scope)
    names = [one["name"] for one in shown["aliases"]]
    session.report(shown, f"{names[0]} (canonical)", *names[1:])


def _aliases(connection: ScopesConnection, scope: Scope) -> dict[str, Any]:
    rows = [
        {"name": name, "canonical": name == scope.alias, "createdAt": iso_ms(created_at)}
        for name, created_at in queries.aliases_of(connection, scope)
    ]
    return {"scope": scope.alias, "aliases": rows}


# Export and import


def export(session: Session, given: Given) -> None:
    with session.reading() as connection:
        top = None if given["scope"] is None else find(connection, given["scope"])
        lines = json_lines.export(connection, top)
        if given["out"] is None:
            for line in lines:
                output.print_text(line)
            return
        try:
            with new_private(given["out"]) as file:
                file.writelines(f"{line}\n" for line in lines)
        except OSError as error:
            raise invalid(f"cannot write {given['out']}: {error.strerror}") from None


def import_(session: Session, given: Given) -> None:
    source, original = given["file"], given["from_scopes_db"]
    if (source is None) == (original is None):
        raise click.UsageError("Give either FILE or --from-scopes-db.")
    database = None if original is None else _original(original)
    # Read everything before locking the store: input may be slow or never end.
    records = _read(source) if database is None else database.records()
    is_rehearsal = bool(given["dry_run"])
    with session.store.writing(is_rehearsal=is_rehearsal, is_long=True) as connection:
        on_conflict: OnConflict = "exact" if given["exact"] else given["on_conflict"]
        outcome = importer.import_records(connection, now_ms(), records, on_conflict)
    warnings = [] if database is None else database.warnings(outcome.accepted)
    counts = {"imported": outcome.imported, "skipped": outcome.skipped, "replaced": outcome.replaced}
    if given["exact"]:
        counts["removed"] = outcome.removed
    session.report({**counts, "warnings": warnings}, _line(outcome, is_rehearsal=is_rehearsal))
    for warning in [] if session.is_json else warnings:
        say(f"Warning: {warning}")


def _line(outcome: ImportResult, *, is_rehearsal: bool) -> str:
    words = (
        ("Would import", "skip", "replace", "remove")
        if is_rehearsal
        else ("Imported", "skipped", "replaced", "removed")
    )
    line = f"{words[0]} {outcome.imported}, {words[1]} {outcome.skipped}"
    line += f", {words[2]} {outcome.replaced}" if outcome.replaced else ""
    return line + (f", {words[3]} {outcome.removed}" if outcome.removed else "")


def _original(path: str) -> Original:
    if not os.path.isfile(path):
        raise invalid(f"cannot read {path}: no such file")
    return Original(path)


def _read(source: str) -> list[Record]:
    """Return the records of an exported file."""
    if source == "-":
        return list(json_lines.parse(sys.stdin.buffer))
    try:
        with open(source, "rb") as file:
            return list(json_lines.parse(file))
    except OSError as error:
        raise invalid(f"cannot read {source}: {error.strerror}") from None


WORK: Final[dict[str, Callable[[Session, Given], None]]] = {
    "create": create,
    "show": show,
    "update": update,
    "status": status,
    "move": move,
    "delete": delete,
    "list": list_,
    "tree": show_tree,
    "alias add": add_alias,
    "alias rm": remove_alias,
    "alias rename": rename_alias,
    "alias set-canonical": set_canonical,
    "alias list": list_aliases,
    "export": export,
    "import": import_,
}
