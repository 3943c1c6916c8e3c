"""Checks of HTTP: the port, and the files with tokens."""

import errno
import os
import socket
import stat
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from typing import Final

from carrel.core.errors import ConfigError
from carrel.doctor.checks import Check, Finding, Repair, check, note, ok, problem
from carrel.doctor.repairs import moved_away, without_mode
from carrel.doctor.setup import Setup
from carrel.doctor.user_settings import set_users
from carrel.files.userdirs import state_folder
from carrel.transports.http.tokens import TokenStore

ANSWER_S: Final = 2.0
"""Time limit for the program on a port to answer that it is Carrel."""
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


@check(
    "http",
    "http-port",
    "the port of [http] port is held by another program",
    "choose another port, or end the program",
    repairs=True,
)
def http_port(setup: Setup) -> Iterator[Finding]:
    """Yield a problem if `serve --http` could not listen."""
    setting = None if setup.config is None else setup.config.sections.get("http", {}).get("port")
    if setting is None or not isinstance(setting.value, int):
        return
    port = setting.value
    holder = held_by("127.0.0.1", port)
    if not holder:
        return
    if holder == "Carrel":
        yield ok(f"port {port}: a Carrel serves there")
        return
    free = _free_port()
    what = f"carrel config set --user http.port {free}"
    repair = (
        Repair(what, lambda: set_users(setup.environment, "http", "port", free)) if setting.layer == "user" else None
    )
    fix = what if repair else f"change [http] port in {setup.short(setting.origin)}, to {free} for example"
    yield problem(f"port {port} of [http] port is held by {holder}", fix, repair)


def held_by(host: str, port: int) -> str:
    """Return which program listens on a port: `Carrel`, `another program` or, if none does, an empty text."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            return ""
        except OSError as error:
            if error.errno == errno.EACCES:
                return "the system: ports below 1024 need privileges"
            if error.errno != errno.EADDRINUSE:
                return ""
    return "Carrel" if is_carrel(host, port) else "another program"


def is_carrel(host: str, port: int) -> bool:
    """Return whether a Carrel answers there: with its limits, or with its realm if it wants a token."""
    connection = HTTPConnection(host, port, timeout=ANSWER_S)
    try:
        connection.request("GET", "/-/limits")
        answer = connection.getresponse()
        realm = answer.getheader("www-authenticate", "")
        body = answer.read(4_096)
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
    return 'realm="carrel"' in realm or (answer.status == 200 and b'"max_message_bytes"' in body)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@check("http", "token-mode", "a file with tokens can be read by other users", "chmod 600", repairs=True)
def token_mode(setup: Setup) -> Iterator[Finding]:
    """Yield a problem for each file with tokens that others may read."""
    folder = state_folder(setup.environment)
    for name in ("local-token", "tokens.json"):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.stat(path).st_mode & _OTHERS:
            command = f"chmod 600 {setup.short(path)}"
            yield problem(f"other users may read {setup.short(path)}", command, without_mode(path, _OTHERS, command))


@check(
    "http", "token-local", "the file of the local token holds no token", "move it away: a new one is made", repairs=True
)
def token_local(setup: Setup) -> Iterator[Finding]:
    """Yield a problem if the local token is broken."""
    store = TokenStore(setup.environment)
    path = store.local_path
    if not os.path.lexists(path):
        return
    try:
        with open(path, "rb") as file:
            is_token = len(file.read(4_096).strip()) >= 39 and stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except OSError:
        is_token = False
    if not is_token:
        shown = setup.short(path)
        fix = f"move {shown} away; the next `carrel serve --http` makes a new token"
        yield problem(f"{shown} holds no token: serve --http does not start", fix, moved_away(path, shown))


@check("http", "token-list", "the list of tokens cannot be read: none of them works", "move it away", repairs=True)
def token_list(setup: Setup) -> Iterator[Finding]:
    """Yield a problem if tokens.json is broken."""
    try:
        TokenStore(setup.environment).all()
    except ConfigError as error:
        path = os.path.join(state_folder(setup.environment), "tokens.json")
        fix = f"move {setup.short(path)} away, then add the tokens again: carrel token add NAME"
        yield problem(f"{error}; no added token works", fix, moved_away(path, setup.short(path)))


@check(
    "http",
    "state-folder",
    "other users can change the folder with tokens and trust",
    "remove the permission",
    repairs=True,
)
def state_folder_mode(setup: Setup) -> Iterator[Finding]:
    """Yield a problem if others may write where tokens and trust are kept."""
    path = state_folder(setup.environment)
    writable = stat.S_IWGRP | stat.S_IWOTH
    if os.path.isdir(path) and os.stat(path).st_mode & writable:
        command = f"chmod go-w {setup.short(path)}"
        yield problem(
            f"other users may replace tokens and trust in {setup.short(path)}",
            command,
            without_mode(path, writable, command),
        )


@check(
    "http", "http-hosts", "a host name in [http] hosts has a form that never matches", "write it as a browser sends it"
)
def http_hosts(setup: Setup) -> Iterator[Finding]:
    """Yield a note for each name that no request can have."""
    hosts = [] if setup.config is None else setup.config.values("http").get("hosts") or []
    for one in hosts:
        if "/" in one or one != one.strip():
            yield note(
                f"[http] hosts: {one!r} never matches: a Host header has no scheme and no path", "desk.example:8000"
            )


CHECKS: Final[tuple[Check, ...]] = (
    http_port,
    token_mode,
    token_local,
    token_list,
    state_folder_mode,
    http_hosts,
)
