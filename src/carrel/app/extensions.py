"""Objects and mounts that the configuration names: checked, built, begun in the background."""

import re
from collections.abc import Sequence
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final

from carrel.app import builtin_providers, schema
from carrel.app.config import NAMED, Config, Setting
from carrel.catalog.catalog import Catalog
from carrel.core.errors import ConfigError
from carrel.core.gateway import Gateway
from carrel.core.provider import Project, Provider
from carrel.core.record import Value

if TYPE_CHECKING:
    from carrel.providers.mounts import MountSettings
    from carrel.providers.objects import ObjectSettings

_NAME: Final = re.compile("[a-z][a-z0-9-]{0,30}")
EARLIER_S: Final = 2.0
"""How long a mount waits for those before it to say which schemes are theirs."""

MOUNTED_BY: Final = "CARREL_MOUNTED_BY"
"""Set in the environment of what a mount started."""

_TAKEN: Final = ("guide", "mirror", "server")


class Guest(Value, frozen=True):
    """One of them, and what people are told of it."""

    provider: Gateway
    told: str
    is_late: bool = False
    """Whether a server answers without waiting for it."""


def names(config: Config) -> tuple[str, ...]:
    """Give the names of objects and mounts."""
    return tuple(section.partition(".")[2] for section in _sections(config))


def invite(config: Config, catalog: Catalog) -> list[Guest]:
    """Build them all, in the order of the configuration: objects, then mounts."""
    taken = dict.fromkeys((*_TAKEN, *builtin_providers.names()), "Carrel itself")
    for section in _sections(config):
        name = section.partition(".")[2]
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"[{section}]: a name is a-z, 0-9 and -, begins with a letter and has at most 31 characters"
            )
        if name in taken:
            raise ConfigError(f"[{section}]: the name {name!r} is taken by {taken[name]}")
        taken[name] = f"[{section}]"
    return [_build(section, config, catalog) for section in _sections(config)]


def begin(guests: Sequence[Guest], catalog: Catalog, patience_s: float, *, waits_for_all: bool) -> None:
    """Have them begin; wait a while for all of them together, then hold what they have against one another."""
    for guest in guests:
        guest.provider.begin()
    deadline = monotonic() + patience_s
    for guest in guests:
        if waits_for_all or not guest.is_late:
            guest.provider.wait(max(0.0, deadline - monotonic()))
    clashes = catalog.clashes() if guests else ()
    if clashes:
        catalog.close()
        clash = clashes[0]
        raise ConfigError(
            f"{clash.what} is claimed by both {clash.keeper} and {clash.other}; leave one of them out, or rename it"
        )


def _sections(config: Config) -> list[str]:
    found = [
        section for section, keys in config.sections.items() if "." in section and not _is_for_the_top(config, keys)
    ]
    return sorted(found, key=lambda section: list(NAMED).index(section.partition(".")[0]))


def _is_for_the_top(config: Config, keys: dict[str, Setting]) -> bool:
    """Tell whether a section of the user's own file is left to the Carrel that mounts this one: it has it too."""
    return MOUNTED_BY in config.environment and bool(keys) and all(one.layer == "user" for one in keys.values())


def _build(section: str, config: Config, catalog: Catalog) -> Guest:
    table, _, name = section.partition(".")
    options = schema.build(builtin_providers.load(NAMED[table]), section, config.values(section))
    told = f"{table.removesuffix('s')} {options.told}, from {_origin(config.sections[section])}"
    if table == "mounts":
        return Guest(_mount(name, options, config, catalog), told, is_late=True)
    return Guest(_object(name, options, config, catalog), told)


def _origin(keys: dict[str, Setting]) -> str:
    setting = next(iter(keys.values()))
    return "the command line" if setting.layer == "flag" else setting.origin


def _object(name: str, options: "ObjectSettings", config: Config, catalog: Catalog) -> Gateway:
    from carrel.providers.objects import ObjectProvider, loading  # only where there is one

    project = Project(config.root, config.environment)
    key = config.sections[f"objects.{name}"].get("import")
    # What the user's own file names is installed; what the project or the command line names may lie in the project.
    path = config.root if key is not None and key.layer in ("project", "flag") else None
    make = partial(loading.build, options.import_, options.provider, options.args or {}, project, path)

    def give_way(native: Provider) -> None:
        if any(one.provider.name == native.name and one.provider is not made for one in catalog.mounted):
            raise loading.Unloadable(f"its name {native.name!r} is taken")
        catalog.swap(made, native)

    made: ObjectProvider = ObjectProvider(name, options, make, give_way)
    return made


def _mount(name: str, options: "MountSettings", config: Config, catalog: Catalog) -> Gateway:
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
        """Return the schemes of all that come before it; wait a little for earlier guests, so that order counts."""
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
