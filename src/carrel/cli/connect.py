"""`connect`: show the hosts of this machine, and connect them to this desk."""

import os
import sys
from collections.abc import Iterable, Sequence
from functools import partial

import click

from carrel.cli import exit_codes, output
from carrel.cli.completion import complete_hosts, script_of
from carrel.cli.context import CommandOptions
from carrel.cli.failures import say
from carrel.cli.named_objects import parts_of
from carrel.cli.options import with_debug, with_json, with_objects
from carrel.connect import changes, shell, splice
from carrel.connect.detection import FoundHost, found_hosts
from carrel.connect.entries import stdio_entry, target_of
from carrel.connect.errors import NotProved, NotWritten
from carrel.connect.hosts import HOSTS, TOKEN_VARIABLE, HostFacts, Scope, by_name
from carrel.connect.places import Surroundings, settings_path, surroundings
from carrel.connect.program import lasting_program, program_of
from carrel.core.record import Value

SHELL = "shell"
NAMES = (*(host.name for host in HOSTS), SHELL)


class ConnectOptions(Value, frozen=True):
    """The options of `connect`."""

    scope: Scope | None
    url: str | None
    is_removal: bool
    is_agreed: bool
    is_json: bool
    around: Surroundings
    objects: tuple[str, ...] = ()
    """Python files and objects to serve in addition."""


@click.command()
@click.argument("hosts", metavar="[HOST]...", nargs=-1, shell_complete=complete_hosts)
@click.option("--project", "is_projects", is_flag=True, help="Change the host's settings for this project.")
@click.option("--user", "is_users", is_flag=True, help="Change your own settings of the host, for all projects.")
@click.option("--http", "url", metavar="URL", help="Connect to a running or remote server instead of starting one.")
@click.option("--remove", "is_removal", is_flag=True, help="Remove the entry again.")
@click.option("--print", "is_printed", is_flag=True, help="Print the entry, and change nothing.")
@click.option("--yes", "is_agreed", is_flag=True, help="Do not ask.")
@with_json
@with_debug
@with_objects
@click.pass_obj
def connect(
    options: CommandOptions,
    hosts: tuple[str, ...],
    *,
    is_projects: bool,
    is_users: bool,
    url: str | None,
    is_removal: bool,
    is_printed: bool,
    is_agreed: bool,
) -> int:
    """Connect hosts to Carrel. It shows the change, asks, writes it, and proves that it works.

    Without HOST, show the hosts of this machine, which are connected, and whether that works. `connect shell` sets up
    the completion of your shell.
    """
    if is_projects and is_users:
        raise click.UsageError("use --project or --user, not both")
    scope: Scope | None = "project" if is_projects else "user" if is_users else None
    around = surroundings(options.project or os.getcwd())
    objects = tuple(map(_from_anywhere, options.objects))
    wanted = ConnectOptions(scope, url, is_removal, is_agreed, options.is_json, around, objects)
    if not hosts:
        return _show(around, is_json=options.is_json)
    unknown = [name for name in hosts if name not in NAMES]
    if unknown:
        raise click.UsageError(_unknown(unknown[0]))
    if is_printed:
        return _print_entries(hosts, wanted)
    results = [_one(name, wanted) for name in dict.fromkeys(hosts)]
    if options.is_json:
        output.print_json(results)
    return exit_codes.DONE if all(result["state"] in ("connected", "removed", "none") for result in results) else 1


def _from_anywhere(text: str) -> str:
    """Return a Python file or object in a form that a host can start in any folder."""
    file = parts_of(text)[0]
    return os.path.abspath(file) + text[len(file) :] if file else text


def _unknown(name: str) -> str:
    """Return what is wrong with a name that no host has: the hosts that may be meant, else all of them."""
    from difflib import get_close_matches  # only for mistakes

    wanted = name.lower().replace(" ", "-").replace("_", "-")
    similar = [one for one in NAMES if one.startswith(wanted)] or get_close_matches(wanted, NAMES, 3, 0.6)
    if similar:
        return f"unknown host {name}; did you mean {' or '.join(similar)}?"
    return f"unknown host {name}; the known ones are: {', '.join(NAMES)}"


# One host


def _one(name: str, wanted: ConnectOptions) -> dict[str, object]:
    """Connect or remove one host, say what happened, and return it."""
    if name == SHELL:
        asked = partial(_agrees, wanted)
        done = shell.set_up(wanted.around, script_of, asked, is_removal=wanted.is_removal)
        return _report(name, wanted, done)
    host = by_name(name)
    assert host is not None
    try:
        return _report(name, wanted, _removed(host, wanted) if wanted.is_removal else _connected(host, wanted))
    except (NotWritten, NotProved) as error:
        message = str(error)
        if isinstance(error, NotProved):
            path = settings_path(host, wanted.scope or host.default, wanted.around)
            message = f"not connected: {message}; {path} was left as it was"
        return _report(name, wanted, {"state": "failed", "message": f"{host.title}: {message}"})


def _report(name: str, wanted: ConnectOptions, result: dict[str, object]) -> dict[str, object]:
    """Print what happened, unless it is printed as JSON, and return it with the host's name."""
    if not wanted.is_json and result["state"] == "failed":
        say(str(result["message"]))
    elif not wanted.is_json:
        output.print_lines(output.escape(str(result["message"])))
        if result.get("hint"):
            output.print_lines(f"  {output.escape(str(result['hint']))}")
    return {"host": name, **result}


def _connected(host: HostFacts, wanted: ConnectOptions) -> dict[str, object]:
    if host.by_hand:
        return _by_hand(host, wanted)
    scope = wanted.scope or changes.default_scope(host, wanted.around)
    entry = changes.entry_for(host, scope, wanted.url, wanted.around, wanted.objects)
    change = changes.plan_connection(host, scope, entry, wanted.around)
    where = {"scope": scope, "file": change.file.path}
    if change.action != "keep" and not _agrees(wanted, _shown(change, wanted)):
        return {"state": "failed", "message": f"{host.title}: {_unasked(change.file.path)}", **where}
    proof = changes.connect(change, wanted.around)
    seen = {"resources": proof.resources, "firstAnswerMs": proof.first_answer_ms, "version": proof.version}
    hint = _hint(host, scope, wanted, is_private=change.is_private) if change.action != "keep" else ""
    return {"state": "connected", "message": f"{host.title}: {proof}", **where, **seen, "hint": hint}


def _hint(host: HostFacts, scope: Scope, wanted: ConnectOptions, *, is_private: bool) -> str:
    """Return what is left for a person to do."""
    hints = [host.hints.get(scope, "")]
    if wanted.url is not None and wanted.around.environment.get(TOKEN_VARIABLE) and not is_private:
        hints.append(f"set {TOKEN_VARIABLE} where {host.title} is started: the entry refers to it")
    return "; ".join(filter(None, hints))


def _removed(host: HostFacts, wanted: ConnectOptions) -> dict[str, object]:
    scopes: list[Scope] = [wanted.scope] if wanted.scope else ["user", "project"]
    messages, files = [], []
    for scope in scopes:
        if wanted.scope is None and settings_path(host, scope, wanted.around) is None:
            continue
        change = changes.plan_removal(host, scope, wanted.around)
        if change.action == "none":
            continue
        if not _agrees(wanted, _shown(change, wanted)):
            return {"state": "failed", "message": f"{host.title}: {_unasked(change.file.path)}"}
        changes.carry_out(change, wanted.around)
        done = "deleted" if change.after is None else "removed from"
        messages.append(f"{host.title}: {done} {change.file.path}")
        files.append(change.file.path)
    if not files:
        return {"state": "none", "message": f"{host.title}: was not connected"}
    return {"state": "removed", "message": "\n".join(messages), "files": files}


def _by_hand(host: HostFacts, wanted: ConnectOptions) -> dict[str, object]:
    entry = changes.entry_for(host, "user", wanted.url, wanted.around, wanted.objects)
    connection = changes.HostEntry("user", "/", entry)
    proof = changes.prove_connection(host, connection, wanted.around)
    text = splice.rendered(target_of(host), entry)
    if not wanted.is_json:
        output.print_text(text, "")
    message = f"{host.title}: paste this under {host.by_hand}; {'; '.join(host.quirks)}. The entry works: {proof}"
    return {"state": "failed", "message": message, "entry": dict(entry)}


def _shown(change: changes.SettingsChange, wanted: ConnectOptions) -> list[str]:
    return change.diff(wanted.around.environment.get(TOKEN_VARIABLE) if change.is_private else None)


def _agrees(wanted: ConnectOptions, lines: Iterable[str]) -> bool:
    """Show a change and ask, unless --yes was given; without a terminal the answer is no."""
    if not wanted.is_json:
        _print_diff(lines)
    if wanted.is_agreed:
        return True
    if wanted.is_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    return click.confirm("Write this?", default=True)


def _unasked(path: str) -> str:
    return f"{path} was not changed; use --yes to write without being asked"


def _print_diff(lines: Iterable[str]) -> None:
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in lines:
        colour = colours.get(line[:1], "")
        shown = output.escape(line)
        output.print_lines(f"[{colour}]{shown}[/]" if colour else shown)


# All hosts


def _show(around: Surroundings, *, is_json: bool) -> int:
    """Show every host of this machine, and prove the connections."""
    rows = [_row(found, around) for found in found_hosts(around)]
    if is_json:
        output.print_json(rows)
    else:
        _print_rows(rows)
    has_failed = any(row["state"] == "failed" for row in rows)
    return exit_codes.FAILED if has_failed else exit_codes.DONE


def _row(found: FoundHost, around: Surroundings) -> dict[str, object]:
    host = found.host
    row: dict[str, object] = {"host": host.name, "title": host.title, "found": list(found.signs)}
    connections, states = [], set()
    for scope in ("user", "project"):
        result = _checked(host, scope, around)
        if result is not None:
            connections.append(result)
            states.add(result["state"])
    state = "failed" if "failed" in states else "connected" if connections else "not connected"
    return {**row, "state": state, "connections": connections}


def _checked(host: HostFacts, scope: Scope, around: Surroundings) -> dict[str, object] | None:
    try:
        connection = changes.find_connection(host, scope, around)
        if connection is None:
            return None
        proof = changes.prove_connection(host, connection, around)
    except (NotProved, NotWritten) as error:
        path = settings_path(host, scope, around)
        return {"scope": scope, "file": path, "state": "failed", "message": str(error)}
    return {
        "scope": scope,
        "file": connection.path,
        "state": "connected",
        "message": str(proof),
        "resources": proof.resources,
        "firstAnswerMs": proof.first_answer_ms,
    }


def _print_rows(rows: Sequence[dict[str, object]]) -> None:
    good, bad = ("✓", "✗") if output.can_show("✓✗") else ("ok", "failed")
    marks = {"connected": f"[green]{good}[/]", "failed": f"[red]{bad}[/]", "not connected": "[dim]-[/]"}
    for row in rows:
        title, connections = output.escape(str(row["title"])), row["connections"]
        assert isinstance(connections, list)
        for one in connections:
            where = f"{one['message']} ({one['scope']}: {one['file']})"
            output.print_lines(f"{marks[one['state']]} [bold]{title}[/]: {output.escape(where)}")
        if not connections:
            signs = row["found"]
            assert isinstance(signs, list)
            advice = f"not connected; found: {signs[0]}; to connect it: carrel connect {row['host']}"
            output.print_lines(f"{marks['not connected']} [bold]{title}[/]: {output.escape(advice)}")
    if not rows:
        output.print_lines(f"No host was found here. To connect one anyway: carrel connect HOST ({', '.join(NAMES)})")


def _print_entries(hosts: Sequence[str], wanted: ConnectOptions) -> int:
    """Print what would be written into an empty file, with its place on stderr."""
    for name in hosts:
        host = by_name(name)
        if host is None:
            raise click.UsageError("--print is for hosts; `carrel completion` prints what a shell needs")
        scope = wanted.scope or host.default
        if wanted.url is not None:
            entry = changes.entry_for(host, scope, wanted.url, wanted.around, wanted.objects)
        else:
            entry = stdio_entry(host, program_of(wanted.around.environment), wanted.around, wanted.objects)
        say(f"{host.title}: {settings_path(host, scope, wanted.around) or host.by_hand}")
        output.print_text(splice.rendered(target_of(host), entry), "")
    if wanted.url is None:
        try:
            lasting_program(wanted.around.environment)
        except NotWritten as error:
            say(f"warning: {error}")
    return exit_codes.DONE
