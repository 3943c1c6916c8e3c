"""Prove that an entry works: start what it names as its host would, shake hands, list, and read three resources."""

import os
from collections import deque
from collections.abc import Mapping
from itertools import islice
from time import perf_counter
from typing import Final

from carrel.client.client import Client
from carrel.connect.entries import ServerLaunch
from carrel.connect.errors import NotProved
from carrel.connect.hosts import TOKEN_VARIABLE, HostFacts
from carrel.connect.program import BARE_PATH
from carrel.core.errors import CarrelError, Unreachable
from carrel.core.model import Resource
from carrel.core.record import Value

TIMEOUT_S: Final = 30.0
"""How long hosts wait for an answer."""
READS: Final = 3
MAX_TRIED: Final = 12
"""How many resources are tried, at most, until three were read."""
MAX_LISTED: Final = 10_000
_KEPT: Final = ("HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR")
"""The variables that a desktop sets for every program; those of a shell are not among them."""
_LINES: Final = 3


class Proof(Value, frozen=True):
    """What a working server showed."""

    resources: int
    first_answer_ms: int
    version: str

    def __str__(self) -> str:
        counted = f"{self.resources:,} resource{'' if self.resources == 1 else 's'}"
        return f"connected, {counted}, first answer {self.first_answer_ms} ms"


def prove(host: HostFacts, launch: ServerLaunch, environment: Mapping[str, str]) -> Proof:
    """Return what the server showed; raise NotProved with the reason if it does not do what a host needs."""
    said: deque[str] = deque(maxlen=_LINES)
    began = perf_counter()
    try:
        with _client(host, launch, environment, said) as client:
            took_ms = round((perf_counter() - began) * 1000)
            entries = list(islice(client.resources(), MAX_LISTED))
            _read_some(client, entries)
            return Proof(len(entries), took_ms, client.version)
    except Unreachable as error:
        raise NotProved(_unreachable(error, launch, environment)) from None
    except CarrelError as error:
        raise NotProved("; ".join([_reason(error, launch), *said])) from None


def host_environment(launch: ServerLaunch, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a server that a host starts: a bare PATH, and nothing that only a shell sets."""
    kept = {name: value for name, value in environment.items() if name in _KEPT or name.startswith("XDG_")}
    return {**kept, "PATH": BARE_PATH, **launch.environment}


def _client(host: HostFacts, launch: ServerLaunch, environment: Mapping[str, str], said: deque[str]) -> Client:
    if launch.url:
        return Client.at(launch.url, headers=launch.headers or None, timeout_s=TIMEOUT_S)
    started = host_environment(launch, environment)
    return Client.start(
        launch.command, cwd=launch.folder, env=started, era=host.era, timeout_s=TIMEOUT_S, stderr=said.append
    )


def _read_some(client: Client, entries: list[Resource]) -> None:
    """Read three resources, or all if there are fewer; those that cannot be read are passed over."""
    if not entries:
        raise NotProved("it lists no resources")
    read, failed = 0, ""
    for entry in entries[:MAX_TRIED]:
        try:
            reading = client.read(entry.uri)
            failed = failed if reading.error is None else f"{entry.uri}: {reading.error}"
            read += reading.error is None
        except CarrelError as error:
            failed = f"{entry.uri}: {error}"
        if read == READS:
            return
    if read < min(READS, len(entries)):
        raise NotProved(f"only {read} of {len(entries)} resources can be read; {failed}")


def _reason(error: CarrelError, launch: ServerLaunch) -> str:
    program = launch.command[0] if launch.command else launch.url
    if not launch.command or not str(error).startswith("Cannot start"):
        return str(error)
    if not os.path.isabs(program):
        return f"{program} is not on the PATH of a host ({BARE_PATH}); write its absolute path"
    if not os.path.exists(program):
        return f"{program} does not exist; Carrel was moved or removed"
    return f"{program} cannot be started in {launch.folder}"


def _unreachable(error: Unreachable, launch: ServerLaunch, environment: Mapping[str, str]) -> str:
    if error.word != "denied":
        return f"{launch.url} cannot be reached: {error}"
    has_token = bool(environment.get(TOKEN_VARIABLE))
    advice = f"the token in {TOKEN_VARIABLE} was refused" if has_token else f"set {TOKEN_VARIABLE} to a token of it"
    return f"{launch.url} refuses: {error}; {advice}"
