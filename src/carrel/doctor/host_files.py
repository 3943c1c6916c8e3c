"""The settings files of all hosts on this machine, and the entries of Carrel in them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from carrel.connect import splice
from carrel.connect.entries import ServerLaunch, launch_of, target_of
from carrel.connect.errors import BrokenFile, NotWritten
from carrel.connect.hosts import ENTRY_NAME, HOSTS, HostFacts, Scope
from carrel.connect.places import Surroundings, settings_path
from carrel.connect.settings_file import read_settings
from carrel.core.record import Value
from carrel.doctor.processes import is_server

EntryScope = Literal["project", "user", "local"]
"""Where an entry is in effect; `local` is the user's own choice for one project."""


class HostServer(Value, frozen=True):
    """An entry of Carrel in a host's file. `launch` is what the host does with it; None if it can do nothing."""

    host: HostFacts
    scope: EntryScope
    path: str
    name: str
    entry: Mapping[str, object]
    launch: ServerLaunch | None

    @property
    def folder_words(self) -> list[str]:
        """The folders that its command names with --project."""
        words = () if self.launch is None else self.launch.command
        after = [words[number + 1] for number, word in enumerate(words[:-1]) if word == "--project"]
        return [*after, *(word.removeprefix("--project=") for word in words if word.startswith("--project="))]


class HostFile(Value, frozen=True):
    """A settings file that exists. `error` is why it cannot be read."""

    host: HostFacts
    scope: Scope
    path: str
    error: str = ""
    servers: tuple[HostServer, ...] = ()


def host_files(around: Surroundings) -> list[HostFile]:
    """Return every settings file of a host that exists here; one that several hosts read is that of the first."""
    files: dict[str, HostFile] = {}
    for host in HOSTS:
        for scope in ("user", "project"):
            for file in _look(host, scope, around):
                files.setdefault(file.path, file)
    return list(files.values())


def _look(host: HostFacts, scope: Scope, around: Surroundings) -> Iterator[HostFile]:
    path = settings_path(host, scope, around)
    if path is None:
        return
    try:
        file = read_settings(path, below=around.folder if scope == "project" else None)
        if file.content is None:
            return
        plain = splice.read(file.text, target_of(host)) if file.text.strip("\ufeff \t\r\n") else {}
    except (BrokenFile, NotWritten) as error:
        yield HostFile(host, scope, path, str(error).removeprefix(f"{path}: "))
        return
    yield HostFile(host, scope, path, servers=tuple(_servers(host, scope, path, plain, around)))


def _servers(host: HostFacts, scope: Scope, path: str, plain: object, around: Surroundings) -> Iterator[HostServer]:
    places: list[tuple[EntryScope, tuple[str, ...]]] = [(scope, host.key)]
    if scope == "user":
        places.append(("local", ("projects", around.folder, *host.key)))
    for where, key in places:
        for name, entry in _entries(_at(plain, key)):
            launch = _launch(host, entry, around)
            words = () if launch is None else launch.command
            if name == ENTRY_NAME or is_server(words):
                yield HostServer(host, where, path, name, entry, launch)


def _entries(container: Any) -> list[tuple[str, dict[str, object]]]:
    if isinstance(container, list):
        return [(str(one.get("name", "")), one) for one in container if isinstance(one, dict)]
    named = container.items() if isinstance(container, dict) else ()
    return [(str(name), entry) for name, entry in named if isinstance(entry, dict)]


def _at(plain: Any, key: Sequence[str]) -> Any:
    for name in key:
        plain = plain.get(name) if isinstance(plain, dict) else None
    return plain


def _launch(host: HostFacts, entry: Mapping[str, object], around: Surroundings) -> ServerLaunch | None:
    try:
        return launch_of(host, entry, around)
    except NotWritten:
        return None
