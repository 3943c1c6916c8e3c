"""Checks of the hosts: whether what their settings name still starts this Carrel, and only once."""

import os
import shutil
import stat
from collections.abc import Iterator
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from carrel.connect import splice
from carrel.connect.changes import connect, entry_for, plan_connection
from carrel.connect.detection import found_hosts
from carrel.connect.entries import holds_token, launch_of, target_of
from carrel.connect.errors import BrokenFile, NotProved, NotSpliceable, NotWritten
from carrel.connect.hosts import ENTRY_NAME, TOKEN_VARIABLE, Scope
from carrel.connect.program import BARE_PATH, passing_folder
from carrel.connect.proof import prove
from carrel.connect.settings_file import keep_original, read_settings, write_settings
from carrel.core.bounded_calls import BoundedCalls
from carrel.core.loopback import is_loopback
from carrel.core.record import replace
from carrel.core.version import __version__
from carrel.doctor.checks import Check, Finding, Repair, check, note, ok, problem
from carrel.doctor.host_files import HostServer
from carrel.doctor.http import held_by
from carrel.doctor.programs import is_ours, missing_interpreter, version_of
from carrel.doctor.repairs import without_mode
from carrel.doctor.setup import Setup

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def _servers(setup: Setup) -> list[HostServer]:
    return [server for file in setup.host_files for server in file.servers]


def _may_be_started(setup: Setup, server: HostServer) -> bool:
    """Return whether an entry may be tried.

    A project's file may come from a stranger: of its entries only the very command that this Carrel would write is
    started, and a token is sent to none of its addresses.
    """
    if server.scope != "project":
        return True
    around = setup.surroundings
    try:
        ours = launch_of(server.host, entry_for(server.host, "project", None, around), around)
    except NotWritten:
        return False
    return server.launch == ours


def _where(setup: Setup, server: HostServer) -> str:
    return f"the entry {server.name} in {setup.short(server.path)}"


@check("hosts", "host", "no assistant is connected", "carrel connect")
def host(setup: Setup) -> Iterator[Finding]:
    """Yield a line for each host that has an entry, and one for those that have none: a note if none has one."""
    connected = {server.host.name: server for server in _servers(setup)}
    for name, server in connected.items():
        launch = server.launch
        does = "" if launch is None else f", {launch.url or setup.short(launch.command[0])}"
        yield ok(f"{server.host.title}: {server.scope} settings{does}", name)
    others = [one.host for one in found_hosts(setup.surroundings) if one.host.name not in connected]
    titles = ", ".join(one.title for one in others)
    if others and not connected:
        yield note(f"no assistant is connected; found here: {titles}", "carrel connect shows how")
    elif others:
        yield ok(f"not connected: {titles}; carrel connect shows them")


@check("hosts", "host-file", "the settings file of a host is broken: the host reads none of it", "correct the file")
def host_file(setup: Setup) -> Iterator[Finding]:
    """Yield a problem for each file that its host cannot read."""
    for file in setup.host_files:
        if file.error:
            kept = f"{file.path}.before-carrel"
            fix = "correct it"
            if os.path.exists(kept):
                fix = f"correct it; {setup.short(kept)} is the file as it was before Carrel was added"
            yield problem(f"{file.host.title}: {setup.short(file.path)}: {file.error}", fix, host=file.host.name)


@check(
    "hosts",
    "host-command",
    "the command of an entry was moved or removed, or is not on the PATH of a host",
    "write the entry again: carrel connect HOST",
    repairs=True,
)
def host_command(setup: Setup) -> Iterator[Finding]:
    """Yield a problem for each entry whose program does not start, a note if only a shell finds it."""
    for server in _servers(setup):
        if server.launch is None:
            message = f"{_where(setup, server)} names no command that can be started"
            yield _rewriting(setup, server, problem(message))
            continue
        if not server.launch.command:
            continue
        program = server.launch.command[0]
        path = server.launch.environment.get("PATH", BARE_PATH)
        if os.path.isabs(program) and not os.access(program, os.X_OK):
            message = f"{_where(setup, server)} starts {setup.short(program)}, which is not there"
            yield _rewriting(setup, server, problem(message))
        elif os.path.isabs(program) and server.scope != "project" and missing_interpreter(program):
            missing = setup.short(missing_interpreter(program))
            message = f"{_where(setup, server)} starts {setup.short(program)}, which needs {missing}: it is not there"
            yield _rewriting(setup, server, problem(message))
        elif not os.path.isabs(program) and shutil.which(program, path=path) is None:
            found = shutil.which(program, path=setup.environment.get("PATH", ""))
            message = f"{_where(setup, server)} starts {program}, which is not on PATH"
            only = f"{_where(setup, server)} starts {program}: a host that is started from a desktop does not find it"
            yield _rewriting(setup, server, problem(message) if found is None else note(only))


@check(
    "hosts",
    "host-temporary",
    "an entry starts a program in a temporary folder or a cache, which will be emptied",
    "install Carrel properly, then write the entry again",
    repairs=True,
)
def host_temporary(setup: Setup) -> Iterator[Finding]:
    """Yield a note for each entry that will not last."""
    for server in _servers(setup):
        program = "" if server.launch is None or not server.launch.command else server.launch.command[0]
        if program and passing_folder(program, setup.environment) is not None:
            message = f"{_where(setup, server)} starts {setup.short(program)}, in a folder that is emptied"
            yield _rewriting(setup, server, note(message))


@check(
    "hosts",
    "host-version",
    "an entry starts another version of Carrel than the one that runs",
    "update that one, or write the entry again",
    repairs=True,
)
def host_version(setup: Setup) -> Iterator[Finding]:
    """Yield a note for each entry that starts another version."""
    for server in _servers(setup):
        words = () if server.launch is None else server.launch.command
        if "serve" not in words or server.launch is None or not _may_be_started(setup, server):
            continue
        path = server.launch.environment.get("PATH", f"{setup.environment.get('PATH', '')}:{BARE_PATH}")
        program = shutil.which(words[0], path=path)
        if program is None or missing_interpreter(program) or is_ours(program):
            continue
        version = version_of([program, *words[1 : words.index("serve")]])
        if version and version != __version__:
            message = f"{_where(setup, server)} starts Carrel {version}, and this one is {__version__}"
            yield _rewriting(setup, server, note(message))


def _rewriting(setup: Setup, server: HostServer, finding: Finding) -> Finding:
    """Return a finding with its fix: to write the entry again, if it is one that `carrel connect` writes."""
    scope: Scope = "project" if server.scope == "project" else "user"
    command = f"carrel connect {server.host.name} --{scope}"
    around = setup.surroundings
    try:
        if server.name != ENTRY_NAME or server.scope == "local":
            raise NotWritten("it is not an entry that connect writes")
        change = plan_connection(server.host, scope, entry_for(server.host, scope, None, around), around)
    except NotWritten:
        return replace(finding, fix=command, host=server.host.name)

    what = f"{command}, which writes the entry again and proves it"
    repair = None if change.action == "keep" else Repair(what, partial(connect, change, around))
    return replace(finding, fix=command, host=server.host.name, repair=repair)


@check(
    "hosts",
    "host-twice",
    "a host has several entries of Carrel: its tools are offered twice",
    "keep one of them",
    repairs=True,
)
def host_twice(setup: Setup) -> Iterator[Finding]:
    """Yield a note for each host with more than one entry."""
    by_host: dict[str, list[HostServer]] = {}
    for server in _servers(setup):
        by_host.setdefault(server.host.name, []).append(server)
    for name, servers in by_host.items():
        if len(servers) > 1:
            kept = next((one for one in servers if one.name == ENTRY_NAME), servers[0])
            entries = ", ".join(f"{one.name} in {setup.short(one.path)} ({one.scope})" for one in servers)
            extra = next(one for one in servers if one is not kept)
            fix = f"remove {extra.name} from {setup.short(extra.path)}"
            message = f"{kept.host.title} has {len(servers)} entries of Carrel: {entries}"
            yield note(message, fix, _removal(extra, fix), name)


def _removal(server: HostServer, what: str) -> Repair | None:
    """Return the repair that removes one entry from a file; None for one that is not where entries belong."""
    if server.scope == "local":
        return None
    place = replace(target_of(server.host), name=server.name)
    scope: Scope = server.scope

    def remove() -> None:
        file = read_settings(server.path)
        try:
            after = splice.remove(file.text, place)
        except (BrokenFile, NotSpliceable) as error:
            raise NotWritten(f"{server.path}: {error}") from None
        keep_original(file)
        write_settings(file, after, scope)

    return Repair(what, remove)


@check(
    "hosts",
    "host-answer",
    "the server of an entry does not answer when it is started as its host does",
    "see the message; carrel connect HOST writes and proves the entry again",
)
def host_answer(setup: Setup) -> Iterator[Finding]:
    """Start the command of each entry, or connect to its URL, as the host does; the same command is started once."""
    launches: dict[str, list[HostServer]] = {}
    for server in _servers(setup):
        if server.launch is not None and _may_be_started(setup, server) and _can_be_tried(setup, server):
            launches.setdefault(repr((server.host.era, server.launch)), []).append(server)
    tries = {key: partial(_try, setup, servers[0]) for key, servers in launches.items()}
    errors = BoundedCalls("host", setup.patience_s).ask(tries)
    for key, servers in launches.items():
        error = errors.get(key, f"no answer within {setup.patience_s:g} s")
        for server in servers if error else ():
            fix = f"carrel connect {server.host.name} writes and proves the entry again"
            if (setup.config is None or setup.mistakes) and server.launch is not None and server.launch.command:
                fix = "correct the settings first: no server starts with them"
            yield problem(f"{_where(setup, server)} does not work: {error}", fix, host=server.host.name)


def _can_be_tried(setup: Setup, server: HostServer) -> bool:
    """Return whether an entry can be tried: no other check has reported yet why it does not work."""
    names = {server.host.name}
    is_off = server.entry.get("disabled") is True or server.entry.get("enabled") is False
    others = (host_command, host_project, host_port, host_variable)
    return not is_off and not any(one.host in names for check_ in others for one in check_.find(setup))


def _try(setup: Setup, server: HostServer) -> str:
    """Return why an entry does not work; an empty text if it does."""
    assert server.launch is not None
    try:
        prove(server.host, server.launch, setup.environment)
    except NotProved as error:
        return str(error)
    return ""


@check("hosts", "host-project", "an entry names a project folder that does not exist", "write the entry again there")
def host_project(setup: Setup) -> Iterator[Finding]:
    """Yield a problem for each folder of --project that is gone."""
    for server in _servers(setup):
        for folder in server.folder_words:
            place = os.path.expanduser(folder)
            if os.path.isabs(place) and not os.path.isdir(place):
                message = f"{_where(setup, server)} serves {setup.short(place)}, which does not exist"
                yield problem(message, f"in the project: carrel connect {server.host.name}", host=server.host.name)


@check("hosts", "host-port", "the port of an entry's URL is held by another program", "use the URL of a running desk")
def host_port(setup: Setup) -> Iterator[Finding]:
    """Yield a problem if another program has the port, and a note if no server runs there."""
    for server in _servers(setup):
        parts = urlsplit("" if server.launch is None else server.launch.url)
        try:
            port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
        except ValueError:
            port = None
        if port is None or not is_loopback(parts.hostname or ""):
            continue
        host_ = "::1" if ":" in (parts.hostname or "") else "127.0.0.1"
        holder = held_by(host_, port)
        name = server.host.name
        if not holder:
            message = f"{_where(setup, server)} connects to port {port}, where no server runs"
            yield note(message, f"carrel serve --http {port}", host=name)
        elif holder != "Carrel":
            message = f"{_where(setup, server)} connects to port {port}, which is held by {holder}"
            fix = f"carrel serve --http on another port, then carrel connect {name} --http URL"
            yield problem(message, fix, host=name)


@check(
    "hosts",
    "host-token",
    "a token stands in a file that others can read: a project's file, or one with wide permissions",
    "use an environment variable; chmod 600",
    repairs=True,
)
def host_token(setup: Setup) -> Iterator[Finding]:
    """Yield a problem for each token that others can read."""
    for server in _servers(setup):
        if not holds_token(server.host, server.entry):
            continue
        shown, name = setup.short(server.path), server.host.name
        if server.scope == "project":
            fix = f"revoke the token, then carrel connect {name} --user --http URL"
            yield problem(f"{_where(setup, server)}, a file of the project, holds a token", fix, host=name)
        elif os.stat(server.path).st_mode & _OTHERS:
            command = f"chmod 600 {shown}"
            repair = without_mode(server.path, _OTHERS, command)
            yield problem(f"{_where(setup, server)} holds a token, and others may read it", command, repair, name)


@check(
    "hosts",
    "host-variable",
    f"an entry takes its token from {TOKEN_VARIABLE}, which is not set",
    "set the variable where the host is started",
)
def host_variable(setup: Setup) -> Iterator[Finding]:
    """Yield a note for each entry whose token is missing."""
    for server in _servers(setup):
        headers = {} if server.launch is None else server.launch.headers
        if headers.get("Authorization", "").strip() == "Bearer" and not setup.environment.get(TOKEN_VARIABLE):
            message = f"{_where(setup, server)} needs the variable {TOKEN_VARIABLE}, which is not set here"
            yield note(message, f"export {TOKEN_VARIABLE}=…, where the host is started", host=server.host.name)


@check("hosts", "host-disabled", "an entry is switched off", "switch it on in the host")
def host_disabled(setup: Setup) -> Iterator[Finding]:
    """Yield a note for each entry that its host does not use."""
    for server in _servers(setup):
        if server.entry.get("disabled") is True or server.entry.get("enabled") is False:
            message = f"{_where(setup, server)} is switched off"
            yield note(message, f"switch it on in {server.host.title}", host=server.host.name)


CHECKS: Final[tuple[Check, ...]] = (
    host,
    host_file,
    host_command,
    host_temporary,
    host_version,
    host_answer,
    host_twice,
    host_project,
    host_port,
    host_token,
    host_variable,
    host_disabled,
)
