"""A configured server: providers chosen, built and mounted, with the reasons why.

One path for all of them: registrations (`registration`, `gateways`), a choice for each, a provider, the catalogue.
`serve`, the command line and the tests all open a desk.
"""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from carrel.app import gateways, schema
from carrel.app.config import SEARCH, Config, ServerSettings
from carrel.app.registration import BUILT_IN, Registration, load
from carrel.app.trust import TrustStore
from carrel.catalog.catalog import Catalog
from carrel.catalog.lazy import LazyProvider
from carrel.core.errors import ConfigError
from carrel.core.gateway import Gateway
from carrel.core.provider import Project, Provider
from carrel.core.record import Value, replace
from carrel.providers.guide import Guide
from carrel.providers.mirror import Mirror
from carrel.providers.search import SearchFace
from carrel.search.lazy import LazySearch
from carrel.server.server import Server

if TYPE_CHECKING:
    from carrel.search.search import Search
    from carrel.stores.database import Database

FIRST_ANSWER_S: Final = 0.3
"""How long the first answer waits for objects: some hosts wait only half a second after the start."""


class Choice(Value, frozen=True):
    """Whether a provider is served, and why."""

    name: str
    state: Literal["served", "not served", "disabled", "failed"]
    why: str


class Desk(Value, frozen=True):
    """Everything that is served for one project."""

    config: Config
    server: Server
    choices: tuple[Choice, ...]
    notes: tuple[str, ...]
    store: "Database | None" = None

    @property
    def catalog(self) -> Catalog:
        """The catalogue that is served."""
        return self.server.catalog

    def close(self) -> None:
        """Stop watching and close every provider."""
        self.server.close()
        release_store(self.store)


def open_desk(config: Config, patience_s: float = FIRST_ANSWER_S, *, waits_for_all: bool = False) -> Desk:
    """Build the providers of a project.

    Wait at most `patience_s` for objects, and with `waits_for_all` for mounts too.
    """
    store = open_store(config)
    try:
        return _open(config, patience_s, store, waits_for_all=waits_for_all)
    except BaseException as error:
        release_store(store)
        if isinstance(error, ConfigError):
            raise config.located(error) from None
        raise


def open_store(config: Config) -> "Database | None":
    """Return the team's store, connected and with the present schema; None if none is configured.

    Raise ConfigError if it cannot be used. Each call needs a `release_store`.
    """
    address = config.store()
    if address is None:
        return None
    from carrel.stores.shared import acquire  # only where there is a store

    days = config.audit_days()
    store = acquire(address)
    try:
        store.audit_days = days
        store.prepare()
    except BaseException:
        release_store(store)
        raise
    return store


def release_store(store: "Database | None") -> None:
    """Close the team's store, unless another caller of `open_store` has it open."""
    if store is not None:
        from carrel.stores.shared import release  # as above

        release(store)


def _open(config: Config, patience_s: float, store: "Database | None", *, waits_for_all: bool) -> Desk:
    chosen = ServerSettings(**config.values("server"))
    every = (*gateways.registered(config), *BUILT_IN)
    _check_names(chosen, every)
    catalog = Catalog(page_size=chosen.page_size, max_bytes=chosen.max_bytes, max_listed=chosen.max_listed)
    providers: list[Provider] = []
    if "guide" not in chosen.without:  # also beside --only: it explains the others
        title = os.path.basename(config.root) or "/"
        providers.append(Guide(catalog, title, config.notes, config.elsewhere, config.root))
    choices: list[Choice] = []
    begun: dict[str, Gateway] = {}
    for one in every:
        choice = _choose(one, config, chosen)
        if choice.state != "disabled":
            provider = _provider(one, choice, config, catalog)
            providers.append(provider)
            if isinstance(provider, Gateway):
                begun[one.name] = provider
            buckets = _bucket_roots(provider)
            providers += buckets
            begun.update((bucket.name, bucket) for bucket in buckets)
        if choice.state != "disabled" or not one.table:
            choices.append(choice)
    choices += [Choice(name, "served", "a bucket in [workspace.roots]") for name in begun if "@" in name]
    search = _search(config, catalog) if "search" not in chosen.without else None
    if search is not None:
        providers.append(SearchFace(search, has_tool=chosen.mirror, part_chars=chosen.part_chars))
    if store is not None:
        from carrel.providers.audit import AuditRecord  # only where there is a store

        providers.append(AuditRecord(store))
    if chosen.mirror:
        providers.append(Mirror(catalog, chosen.part_chars))
    catalog.mount(*providers)
    awaited = [begun[one.name] for one in every if one.name in begun and (waits_for_all or one.table == "objects")]
    gateways.begin(tuple(begun.values()), awaited, catalog, patience_s)
    served = tuple(_with_problem(choice, begun) for choice in choices)
    return Desk(config, Server(catalog, search=search), served, config.notes, store)


def _search(config: Config, catalog: Catalog) -> LazySearch | None:
    """Return the search of a project, which opens its index when it is first used; None if it is turned off."""
    values = config.values("search")
    if values.get("enabled") is False:
        return None
    settings = schema.build(load(SEARCH), "search", values) if values else None

    def open_() -> "Search":
        from carrel.search.location import index_folder  # not before the first search
        from carrel.search.search import Search

        return Search(catalog, index_folder(config.environment, config.root, index_rules(config)), settings)

    return LazySearch(open_)


_NO_RULES: Final = frozenset({"server", "http", "search", "bus"})


def index_rules(config: Config) -> str:
    """Return the settings of the built-in providers: servers with the same ones share an index.

    Objects and mounts have their own schemes, so their settings change nothing for others.
    """
    sections = sorted(name for name in config.sections if "." not in name and name not in _NO_RULES)
    return "\n".join(f"{name} {sorted(config.values(name).items())!r}" for name in sections)


def _with_problem(choice: Choice, begun: Mapping[str, Gateway]) -> Choice:
    """Return the choice as "failed" if the gateway could not be loaded; others may still be starting."""
    problem = begun[choice.name].problem if choice.name in begun else ""
    return replace(choice, state="failed", why=f"{choice.why}; {problem}") if problem else choice


def _choose(one: Registration, config: Config, chosen: ServerSettings) -> Choice:
    if one.name in chosen.without or (chosen.only is not None and one.name not in chosen.only):
        return Choice(one.name, "disabled", "by --only, --without, or [server] only or without")
    if config.values(one.section).get("enabled") is False:
        return Choice(one.name, "disabled", f"by [{one.section}] enabled = false")
    if one.needs_project and config.place.is_too_much:
        return Choice(one.name, "disabled", "this folder is not a project")
    if one.is_stored and config.store() is not None:
        return Choice(one.name, "served", "kept in the team's store")
    if not one.table and _is_named(one, config, chosen):
        return Choice(one.name, "served", "named in the configuration or on the command line")
    reason = one.reason(Project(config.root, config.environment))
    if reason is None:
        return Choice(one.name, "not served", one.missing)
    return Choice(one.name, "served", reason)


def _is_named(one: Registration, config: Config, chosen: ServerSettings) -> bool:
    return one.name in (chosen.only or ()) or any(name in config.sections for name in (one.name, *one.sections))


def _check_names(chosen: ServerSettings, every: Sequence[Registration]) -> None:
    in_order = sorted(every, key=lambda one: bool(one.table))
    known = ("guide", "search", *(one.name for one in in_order))
    for name in (*(chosen.only or ()), *chosen.without):
        if name not in known:
            close = schema.closest(name, known)
            suggested = f"did you mean {close!r}? " if close else ""
            raise ConfigError(f"unknown provider {name!r}; {suggested}known: {', '.join(known)}")


def _provider(one: Registration, choice: Choice, config: Config, catalog: Catalog) -> Provider:
    """Return the provider, or one that stands for it until its data appears."""
    if one.table:
        return gateways.build(one, config, catalog)
    build = partial(_build, one, config, catalog)
    if choice.state == "served":
        return build()
    project = Project(config.root, config.environment)
    return LazyProvider(one.name, one.schemes, build, lambda: (one.appears or one.reason)(project) is not None, catalog)


def _bucket_roots(provider: Provider) -> Sequence[Gateway]:
    """Return the roots of the workspace that are buckets: each has its own worker threads."""
    if provider.name != "workspace":
        return ()
    from carrel.providers.workspace import Workspace  # loaded where there is one

    return provider.bucket_roots() if isinstance(provider, Workspace) else ()


def _serves(catalog: Catalog, path: tuple[str, ...]) -> bool:
    """Return whether the files' provider may show a file, by its path; without that provider, no file."""
    from carrel.providers.workspace import Workspace  # loaded where there is one

    files = next((one.provider for one in catalog.mounted if isinstance(one.provider, Workspace)), None)
    return files is not None and files.may_show(path)


def _build(one: Registration, config: Config, catalog: Catalog) -> Provider:
    """Build a provider whose constructor's parameters are its settings."""
    values = config.values(one.name)
    project = replace(
        config.project_of(one.name),
        trusts=TrustStore(config.environment).is_trusted,
        max_message_bytes=catalog.max_bytes,
        read=catalog.read,
        serves=partial(_serves, catalog),
    )
    kind = one.load()
    for section in one.sections:
        if section in config.sections:
            inner = schema.schema_of(kind)[section].kind
            values[section] = schema.build_section(inner, section, config.values(section))
    built: Provider = kind(project, **values)
    return built
