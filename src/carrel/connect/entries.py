"""The entry of a host, made from the table, and read back as the host reads it."""

import re
from collections.abc import Mapping, Sequence

from carrel.connect.errors import NotWritten
from carrel.connect.hosts import ENTRY_NAME, TOKEN_VARIABLE, WORKSPACE_FOLDER, HostFacts, Scope
from carrel.connect.places import Surroundings
from carrel.connect.splice import Entry, EntryPlace
from carrel.core.record import Value


class ServerLaunch(Value, frozen=True):
    """What a host does with an entry: start a command in a folder, or connect to an address."""

    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}
    folder: str = ""
    url: str = ""
    headers: Mapping[str, str] = {}


def target_of(host: HostFacts) -> EntryPlace:
    """Return where our entry belongs in a host's file."""
    return EntryPlace(host.format, host.key, ENTRY_NAME, host.shape.is_listed, host.new_file)


def stdio_entry(host: HostFacts, program: Sequence[str], around: Surroundings, objects: Sequence[str] = ()) -> Entry:
    """Return the entry that starts `carrel serve`."""
    arguments = [*program[1:], "serve", *objects, *host.arguments]
    if host.starts_elsewhere and around.folder not in (around.home, "/"):
        arguments += ["--project", around.folder]
    shape = host.shape
    if shape.is_joined:
        return {**shape.first, shape.command: [program[0], *arguments], **shape.last}
    return {**shape.first, shape.command: program[0], "args": arguments, **shape.last}


def http_entry(host: HostFacts, url: str, token: str | None, scope: Scope) -> Entry:
    """Return the entry for a running server. A token is named by its variable where the host can do that."""
    shape = host.shape
    if shape.url is None:
        raise NotWritten(f"{host.title} cannot be connected to a URL; connect it without --http, or {_advice(host)}")
    entry: dict[str, object] = {**shape.http_first, shape.url: url}
    if token is not None and shape.bearer_variable is not None:
        entry[shape.bearer_variable] = TOKEN_VARIABLE
    elif token is not None:
        if shape.bearer is None and scope == "project":
            raise NotWritten(
                f"{host.title} cannot read a token from an environment variable, and a token is never written into a "
                "project's file; use --user"
            )
        headers: object = {"Authorization": shape.bearer or f"Bearer {token}"}
        for key in reversed(shape.headers):
            headers = {key: headers}
        assert isinstance(headers, dict)
        entry |= headers
    return {**entry, **shape.last}


def holds_token(host: HostFacts, entry: Entry) -> bool:
    """Return whether an entry contains a token itself, so that its file must be private."""
    authorization = _headers(host, entry).get("Authorization", "")
    return authorization.startswith("Bearer ") and not re.search(r"[${}]", authorization)


def launch_of(host: HostFacts, entry: Entry, around: Surroundings) -> ServerLaunch:
    """Return what the host does with an entry; raise NotWritten if the host cannot use it."""
    shape = host.shape
    url = entry.get(shape.url) if shape.url is not None else None
    if isinstance(url, str):
        return ServerLaunch(url=url, headers=_resolved_headers(host, entry, around))
    named = entry.get(shape.command)
    words = _list(named) or [named, *_list(entry.get("args"))]
    command = tuple(word.replace(WORKSPACE_FOLDER, around.folder) for word in words if isinstance(word, str) and word)
    if len(command) < len(words):
        raise NotWritten(f"the entry {ENTRY_NAME} of {host.title} has no command that can be started")
    environment = entry.get("env") or entry.get("environment") or entry.get("envs") or {}
    known = environment if isinstance(environment, Mapping) else {}
    folder = around.home if host.starts_elsewhere else around.folder
    return ServerLaunch(command, {str(key): str(value) for key, value in known.items()}, folder)


def _headers(host: HostFacts, entry: Entry) -> dict[str, str]:
    found: object = entry
    for key in host.shape.headers:
        found = found.get(key) if isinstance(found, Mapping) else None
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, Mapping) else {}


def _resolved_headers(host: HostFacts, entry: Entry, around: Surroundings) -> dict[str, str]:
    """Return the headers as the host sends them: with the token in place of its variable."""
    token = around.environment.get(TOKEN_VARIABLE, "")
    variable = entry.get(host.shape.bearer_variable) if host.shape.bearer_variable is not None else None
    if isinstance(variable, str):
        return {"Authorization": f"Bearer {around.environment.get(variable, '')}"}
    headers = _headers(host, entry)
    if host.shape.bearer is not None and headers.get("Authorization") == host.shape.bearer:
        headers["Authorization"] = f"Bearer {token}"
    return headers


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _advice(host: HostFacts) -> str:
    return next((quirk for quirk in host.quirks if "remote" in quirk), "use a host that can")
