"""`carrel store copy`: move a desk's records between this project and a team's store."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

import click

from carrel.app.config import Config
from carrel.cli import output
from carrel.cli.context import CommandOptions
from carrel.cli.options import with_command_options
from carrel.core.errors import CarrelError, ConfigError
from carrel.core.limits import STORE_COMMAND_S, STORE_IMPORT_S
from carrel.core.provider import Project
from carrel.core.record import Value, replace
from carrel.core.store_address import StoreAddress, parse_address
from carrel.core.writer import LOCAL as LOCAL_CALLER
from carrel.core.writer import writing_as
from carrel.providers.logs.copying import ProjectLogs, PushedFolder, copy_logs
from carrel.providers.logs.log import Bounds, Retention
from carrel.providers.logs.spooled_log import SpoolBounds
from carrel.providers.sage.copying import copy_memory
from carrel.providers.sage.fields import BadFile
from carrel.providers.sage.file_writes import WriteFailed
from carrel.providers.sage.folders import DEFAULT as SAGE_FOLDER
from carrel.providers.sage.memory import SageMemory
from carrel.providers.scopes import location
from carrel.providers.scopes.connection import ScopesStore
from carrel.providers.scopes.copying import copy_scopes
from carrel.providers.scopes.scope_errors import ScopeError, StoreAway
from carrel.providers.scopes.store import Store
from carrel.stores.copying import CopyReport

LOCAL: Final = "local"
_MOST_LOG_BYTES: Final = 2**30
_SAGE_BYTES: Final = 1_048_576


class StoreSide(Value, frozen=True):
    """One side of a copy: the records of this project, or a store of the team."""

    config: Config
    address: StoreAddress | None

    def project(self, section: str) -> Project:
        """Return the project for a provider, with this side's store."""
        return replace(self.config.project_of(section), store=self.address)


@click.group()
def store() -> None:
    """Copy the records of a desk to a team's store, or back."""


@store.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--replace", "replaces", is_flag=True, help="Overwrite records of TO that differ.")
@with_command_options
@click.pass_obj
def copy(options: CommandOptions, source: str, target: str, replaces: bool) -> None:
    """Copy all records from FROM to TO, and compare them afterwards.

    FROM and TO are `local`, which is this project's scopes, memory and logs of other machines, or the URL of a store.
    Records that are only in TO are kept. To finish an interrupted copy, run the same command again.
    """
    config = options.config()
    sides = StoreSide(config, _address("FROM", source)), StoreSide(config, _address("TO", target))
    if sides[0].address == sides[1].address:
        raise ConfigError("FROM and TO are the same store: give `local` and a URL, or two URLs")
    with _prepared(*sides), writing_as(LOCAL_CALLER, "carrel store copy"):
        reports = [copy_kind(*sides, replaces) for copy_kind in COPIERS]
    if options.is_json:
        output.print_json([{name: getattr(one, name) for name in one.__struct_fields__} for one in reports])
        return
    for one in reports:
        replaced = f", {one.replaced} replaced" if one.replaced else ""
        output.print_text(
            f"{one.kind}: {one.copied} copied{replaced}, {one.same} already there; {one.verified} compared, all equal"
        )


def _address(name: str, text: str) -> StoreAddress | None:
    if text == LOCAL:
        return None
    try:
        return parse_address(text)
    except ConfigError as error:
        raise ConfigError(f"{name}: {str(error).removeprefix('[store] url: ')}, or `local`") from None


@contextmanager
def _prepared(*sides: StoreSide) -> Iterator[None]:
    """Connect to the stores and bring their schemas up to date; keep them open until the end."""
    from carrel.stores.shared import acquire, release  # loads the database's driver

    with ExitStack() as until_closed:
        for address in (side.address for side in sides if side.address is not None):
            database = acquire(address)
            until_closed.callback(release, database)
            database.prepare()
        yield


def _copy_scopes(source: StoreSide, target: StoreSide, replaces: bool) -> CopyReport:
    with ExitStack() as until_closed:
        stores = [_scopes(side) for side in (source, target)]
        for one in stores:
            until_closed.callback(one.close)
        try:
            return copy_scopes(*stores, replaces=replaces)
        except StoreAway as error:
            raise ConfigError(error.detail) from None
        except ScopeError as error:
            raise CarrelError(f"scopes: {error.text}") from None


def _scopes(side: StoreSide) -> ScopesStore:
    if side.address is not None:
        from carrel.providers.scopes.team_store import TeamStore  # loads the database's driver

        return TeamStore(side.address, read_s=STORE_COMMAND_S, write_s=STORE_IMPORT_S)
    project, place = side.project("scopes"), side.config.values("scopes").get("db", location.DEFAULT)
    found = location.Location(project, place, is_named="db" in project.named)
    return Store(found, read_s=STORE_COMMAND_S, write_s=STORE_IMPORT_S)


def _copy_memory(source: StoreSide, target: StoreSide, replaces: bool) -> CopyReport:
    with ExitStack() as until_closed:
        memories = [_memory(side) for side in (source, target)]
        for one in memories:
            until_closed.callback(one.close)
        try:
            return copy_memory(*memories, replaces=replaces)
        except (BadFile, WriteFailed) as error:
            raise CarrelError(f"sage: {error.reason}") from None


def _memory(side: StoreSide) -> SageMemory:
    values = side.config.values("sage")
    folder = os.path.expanduser(values.get("dir", SAGE_FOLDER))
    return SageMemory(side.project("sage"), folder, values.get("max_file_bytes", _SAGE_BYTES))


def _copy_logs(source: StoreSide, target: StoreSide, replaces: bool) -> CopyReport:
    with ExitStack() as until_closed:
        sides: list[PushedFolder] = []
        for side in (source, target):
            if side.address is None:
                sides.append(ProjectLogs(side.config.root))
                continue
            from carrel.providers.logs.team_logs import TeamLogs  # loads the database's driver

            # A copy neither cuts nor removes logs: the bounds of the desks hold for what is sent to them.
            bounds = Bounds(_MOST_LOG_BYTES, _MOST_LOG_BYTES, redact=False)
            logs = TeamLogs(side.address, SpoolBounds(bounds, bounds), Retention(_MOST_LOG_BYTES, 36_500, 2**62))
            until_closed.callback(logs.close)
            sides.append(logs)
        try:
            return copy_logs(*sides, replaces=replaces)
        except OSError as error:
            raise CarrelError(f"logs: {error.strerror}") from None


COPIERS: Final[tuple[Callable[[StoreSide, StoreSide, bool], CopyReport], ...]] = (
    _copy_scopes,
    _copy_memory,
    _copy_logs,
)
"""One function for each kind of records."""
