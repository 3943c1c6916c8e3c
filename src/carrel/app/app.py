"""A configured server: providers chosen, built and mounted, with the reasons why.

What every face opens: `serve`, the command line, tests.
"""

import os
from functools import partial
from typing import Final, Literal

from carrel.app import builtin_providers, extensions, schema
from carrel.app.config import Config, ServerSettings
from carrel.app.trust import TrustStore
from carrel.catalog.catalog import Catalog
from carrel.catalog.lazy import LazyProvider
from carrel.core.errors import ConfigError
from carrel.core.provider import Project, Provider
from carrel.core.record import Value
from carrel.providers.guide import Guide
from carrel.providers.mirror import Mirror
from carrel.server.server import Server

FIRST_ANSWER_S: Final = 0.3
"""What the first answer waits for objects: a host gives up half a second after it started us."""


class Choice(Value, frozen=True):
    """Whether a provider is served, and why."""

    name: str
    state: Literal["served", "not called for", "left out"]
    why: str


class Desk(Value, frozen=True):
    """Everything that is served for one project."""

    config: Config
    server: Server
    choices: tuple[Choice, ...]
    notes: tuple[str, ...]

    @property
    def catalog(self) -> Catalog:
        """Give what is served."""
        return self.server.catalog

    def close(self) -> None:
        """Stop watching, and close every provider."""
        self.server.close()


def open_desk(config: Config, patience_s: float = FIRST_ANSWER_S, *, waits_for_all: bool = False) -> Desk:
    """Build what the configuration and the folder call for; wait so long for objects, and for mounts if told to."""
    try:
        return _open(config, patience_s, waits_for_all=waits_for_all)
    except ConfigError as error:
        raise config.located(error) from None


def _open(config: Config, patience_s: float, *, waits_for_all: bool) -> Desk:
    chosen = ServerSettings(**config.values("server"))
    _check_names(chosen, extensions.names(config))
    catalog = Catalog(page_size=chosen.page_size, max_bytes=chosen.max_bytes, max_listed=chosen.max_listed)
    notes = config.notes
    choices: list[Choice] = []
    providers: list[Provider] = []
    if _is_wanted("guide", chosen):
        providers.append(Guide(catalog, os.path.basename(config.root) or "/", notes, config.elsewhere, config.root))
    invited = [guest for guest in extensions.invite(config, catalog) if _is_wanted(guest.provider.name, chosen)]
    providers += [guest.provider for guest in invited]
    for known in builtin_providers.BUILT_IN:
        choice = _choose(known, config, chosen)
        choices.append(choice)
        if choice.state == "served":
            providers.append(_build(known, config, catalog))
        elif choice.state == "not called for":
            providers.append(_wait_for(known, config, catalog))
    if chosen.mirror:
        providers.append(Mirror(catalog))
    catalog.mount(*providers)
    extensions.begin(invited, catalog, patience_s, waits_for_all=waits_for_all)
    return Desk(config, Server(catalog), (*map(_choose_guest, invited), *choices), notes)


def _choose_guest(guest: extensions.Guest) -> Choice:
    """Say of an object that is known not to load that it is not served; others may still join."""
    problem = guest.provider.problem
    return Choice(guest.provider.name, "left out" if problem else "served", f"{guest.told}; {problem}".rstrip("; "))


def _choose(known: builtin_providers.Known, config: Config, chosen: ServerSettings) -> Choice:
    if not _is_wanted(known.name, chosen):
        return Choice(known.name, "left out", "by --only or --without, or [server] only or without")
    if config.values(known.name).get("enabled") is False:
        return Choice(known.name, "left out", f"by [{known.name}] enabled = false")
    if known.needs_project and config.place.is_too_much:
        return Choice(known.name, "left out", "this is no project")
    if _is_named(known, config, chosen):
        return Choice(known.name, "served", "asked for by name")
    reason = known.reason(Project(config.root, config.environment))
    if reason is None:
        return Choice(known.name, "not called for", "nothing of it in this folder")
    return Choice(known.name, "served", reason)


def _is_named(known: builtin_providers.Known, config: Config, chosen: ServerSettings) -> bool:
    return known.name in (chosen.only or ()) or any(one in config.sections for one in (known.name, *known.sections))


def _is_wanted(name: str, chosen: ServerSettings) -> bool:
    return (chosen.only is None or name in chosen.only) and name not in chosen.without


def _check_names(chosen: ServerSettings, others: tuple[str, ...]) -> None:
    known = ("guide", *builtin_providers.names(), *others)
    for name in (*(chosen.only or ()), *chosen.without):
        if name not in known:
            close = schema.closest(name, known)
            suggested = f"did you mean {close!r}? " if close else ""
            raise ConfigError(f"there is no provider {name!r}; {suggested}known: {', '.join(known)}")


def _wait_for(known: builtin_providers.Known, config: Config, catalog: Catalog) -> Provider:
    project = Project(config.root, config.environment)
    build = partial(_build, known, config, catalog)
    return LazyProvider(known.name, known.schemes, build, lambda: known.reason(project) is not None, catalog)


def _build(known: builtin_providers.Known, config: Config, catalog: Catalog) -> Provider:
    values = config.values(known.name)
    project = Project(
        config.root,
        config.environment,
        given=frozenset(values),
        named=config.named(known.name),
        is_trusted=config.is_trusted,
        trusts=TrustStore(config.environment).is_trusted,
        deny=tuple(config.values("workspace").get("deny") or ()),
        max_message_bytes=catalog.max_bytes,
        read=catalog.read,
    )
    provider = known.load()
    for section in known.sections:
        if section in config.sections:
            kind = schema.schema_of(provider)[section].kind
            values[section] = schema.build_section(kind, section, config.values(section))
    built: Provider = provider(project, **values)
    return built
