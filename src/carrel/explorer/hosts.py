"""The hosts of this machine and whether they are connected, as `carrel connect` knows it. Nothing is started."""

from carrel.connect.changes import find_connection
from carrel.connect.detection import found_hosts
from carrel.connect.errors import BrokenFile, NotWritten
from carrel.connect.hosts import HOSTS, HostFacts, Scope
from carrel.connect.places import Surroundings, surroundings
from carrel.core.record import Value, replace


class HostState(Value, frozen=True):
    """One host: whether it has an entry of ours, and the command that connects it."""

    name: str
    title: str
    state: str
    command: str


def states(root: str, environment: dict[str, str]) -> tuple[list[HostState], list[str]]:
    """Return the hosts that are found here, and the names of the others that can be connected."""
    around = replace(surroundings(root), environment=environment)
    found = [one.host for one in found_hosts(around, looks_at_processes=False)]
    known = [HostState(host.name, host.title, _state(host, around), f"carrel connect {host.name}") for host in found]
    named = {host.name for host in found}
    return known, [host.name for host in HOSTS if host.name not in named]


def _state(host: HostFacts, around: Surroundings) -> str:
    scopes: tuple[Scope, ...] = ("user", "project")
    for scope in scopes:
        try:
            if find_connection(host, scope, around) is not None:
                return f"connected ({scope} settings)"
        except (NotWritten, BrokenFile):
            return "its settings cannot be read"
    return "not connected"
