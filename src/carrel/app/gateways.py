"""Objects and mounts that the configuration names: their registrations, and how they are built and begun."""

import re
from collections.abc import Sequence
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final

from carrel.app import registration, schema
from carrel.app.config import NAMED, Config, Setting
from carrel.app.registration import Registration, Table
from carrel.catalog.catalog import Catalog
from carrel.core.errors import ConfigError
from carrel.core.gateway import Gateway
from carrel.core.provider import Project, Provider

if TYPE_CHECKING:
    from carrel.providers.mounts import MountSettings
    from carrel.providers.objects import ObjectSettings

_NAME: Final = "[a-z][a-z0-9-]{0,30}"
EARLIER_S: Final = 2.0
"""How long a mount waits for the gateways before it, whose schemes go first."""

MOUNTED_BY: Final = "CARREL_MOUNTED_BY"
"""Set in the environment of a server that a mount started."""


class ClashingProviders(ConfigError):
    """Two providers define the same URI, template or tool."""


def registered(config: Config) -> list[Registration]:
    """Return a registration for every object, then for every mount; raise for a name that cannot be used."""
    taken = dict.fromkeys((*registration.RESERVED, *registration.names()), "Carrel itself")
    found: dict[Table, list[Registration]] = {"objects": [], "mounts": []}
    for section, keys in config.sections.items():
        table: Table = "mounts" if section.startswith("mounts.") else "objects"
        kind, _, name = section.partition(".")
        if kind not in _TARGETS or not name or _is_left_to_the_mounting_server(config, keys):
            continue
        if not re.fullmatch(_NAME, name):
            raise ConfigError(
                f"[{section}]: use a-z, 0-9 and '-' for the name, begin with a letter, at most 31 characters"
            )
        if name in taken:
            raise ConfigError(f"[{section}]: the name {name!r} is already used by {taken[name]}")
        taken[name] = f"[{section}]"
        found[table].append(_register(table, name, config))
    return [*found["objects"], *found["mounts"]]


def _is_left_to_the_mounting_server(config: Config, keys: dict[str, Setting]) -> bool:
    """Return whether a section of the user's file is left to the Carrel that mounts this one, which has it too."""
    return MOUNTED_BY in config.environment and bool(keys) and all(one.layer == "user" for one in keys.values())


_TARGETS: Final = {"objects": "carrel.providers.objects:ObjectProvider", "mounts": "carrel.providers.mounts:Mount"}


def _register(table: Table, name: str, config: Config) -> Registration:
    section = f"{table}.{name}"
    options = schema.build(registration.load(NAMED[table]), section, config.values(section))
    setting = next(iter(config.sections[section].values()))
    origin = "the command line" if setting.layer == "flag" else setting.origin
    why = f"{table.removesuffix('s')} {options.source}, from {origin}"
    return Registration(name, (), _TARGETS[table], lambda _: why, table)


def build(one: Registration, config: Config, catalog: Catalog) -> Gateway:
    """Build an object or a mount; it begins when `begin` is called."""
    options = schema.build(registration.load(NAMED[one.table]), one.section, config.values(one.section))
    build_one = _build_mount if one.table == "mounts" else _build_object
    return build_one(one.name, options, config, catalog)


def begin(gateways: Sequence[Gateway], awaited: Sequence[Gateway], catalog: Catalog, patience_s: float) -> None:
    """Begin all gateways, wait at most `patience_s` for the awaited ones; raise if two providers claim the same."""
    for gateway in gateways:
        gateway.begin()
    deadline = monotonic() + patience_s
    for gateway in awaited:
        gateway.wait(max(0.0, deadline - monotonic()))
    clashes = catalog.clashes() if gateways else ()
    if clashes:
        catalog.close()
        clash = clashes[0]
        raise ClashingProviders(
            f"both {clash.keeper} and {clash.other} define {clash.what}; disable one of them, or rename it"
        )


def _build_object(name: str, options: "ObjectSettings", config: Config, catalog: Catalog) -> Gateway:
    from carrel.providers.objects import ObjectProvider, loading  # only where there is one

    project = Project(config.root, config.environment)
    key = config.sections[f"objects.{name}"].get("import")
    # What the user's own file names is installed; what the project or the command line names may be in the project.
    path = config.root if key is not None and key.layer in ("project", "flag") else None
    make = partial(loading.build, options.import_, options.provider, options.args or {}, project, path)

    def give_way(native: Provider) -> None:
        if any(one.provider.name == native.name and one.provider is not made for one in catalog.mounted):
            raise loading.Unloadable(f"its name {native.name!r} is taken")
        catalog.swap(made, native)

    made: ObjectProvider = ObjectProvider(name, options, make, give_way)
    return made


def _build_mount(name: str, options: "MountSettings", config: Config, catalog: Catalog) -> Gateway:
    from carrel.files.userdirs import cache_folder
    from carrel.providers.mounts import ListMemory, Mount  # only where there is one
    from carrel.providers.mounts.connect import address_of, child_of

    try:
        if options.url:
            connect = address_of(options, config.environment)
        else:
            connect = child_of(name, options, config.root, config.environment)
    except ConfigError as error:
        raise ConfigError(f"[mounts.{name}] {error}") from None

    def taken(patience_s: float = EARLIER_S) -> frozenset[str]:
        """Return the schemes of all providers before it; wait a little for earlier gateways: the order counts."""
        deadline = monotonic() + patience_s
        found: set[str] = set()
        is_before = True
        for one in catalog.mounted:
            if one.provider is made:
                is_before = False
                continue
            if is_before and isinstance(one.provider, Gateway):
                one.provider.wait(max(0.0, deadline - monotonic()))
            if is_before or not isinstance(one.provider, Mount):
                found.update(one.provider.schemes)
        return frozenset(found)

    cache = cache_folder(config.environment)
    memory = None if cache is None else ListMemory(cache, config.root, name, *options.identity(config.environment))
    made = Mount(name, options, connect, taken, catalog.instance, memory=memory, taken_now=partial(taken, 0.0))
    return made
