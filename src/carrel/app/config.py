"""The configuration of a project: settings from files, environment and flags, each checked and with its origin.

user file < project file < environment < flags. The project file is `carrel.toml`, or `[tool.carrel]` in
`pyproject.toml`, in the project's root, which `app.project` finds. A project file may start programs and name places
outside the project only after the user has trusted it.
"""

import os
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from carrel.app import project, registration, schema
from carrel.app.schema import Schema
from carrel.app.trust import TrustStore
from carrel.core.errors import ConfigError
from carrel.core.limits import MAX_LISTED, MAX_MESSAGE_BYTES, PAGE_SIZE
from carrel.core.printable import printable_line
from carrel.core.provider import OUTSIDE, FractionalCeiling, PlacesFile, Project
from carrel.core.record import Value, replace
from carrel.core.store_address import StoreAddress, parse_address
from carrel.files.sandbox import is_inside
from carrel.files.userdirs import config_folder

if TYPE_CHECKING:
    from carrel.catalog.groups import GroupSettings

MEGABYTE: Final = 1_048_576
HTTP_PORT: Final = 8000
"""The port of `serve --http` without an address."""
_MESSAGE_MB: Final = FractionalCeiling(MAX_MESSAGE_BYTES / MEGABYTE)

NAMED: Final = {
    "objects": "carrel.providers.objects.settings:ObjectSettings",
    "mounts": "carrel.providers.mounts.settings:MountSettings",
    "groups": "carrel.catalog.groups:GroupSettings",
}
"""The settings class of each kind of named section, such as `[objects.NAME]`. In a project file they need trust."""

SEARCH: Final = "carrel.search.settings:SearchSettings"
"""The settings class of `[search]`: search is imported only when it is used."""

STORE: Final = "carrel.stores.settings:StoreSettings"
"""The settings class of `[store]`."""

BUS: Final = "carrel.stores.settings:BusSettings"
"""The settings class of `[bus]`."""

SESSION: Final = "carrel.app.replica:SessionSettings"
"""The settings class of `[session]`."""

_TOO_MUCH: Final = (
    "no files are served: this is a home folder or the root of the file system; "
    "start Carrel in a project, or give the folder with --project"
)
WITH: Final = "--with"
"""The origin of an object that is named on the command line."""
_AT_FAULT: Final = r"\[([\w.-]+)\] ?(\w*)"

Layer = Literal["user", "project", "environment", "flag"]


class ServerSettings:
    """The section `[server]`."""

    def __init__(
        self,
        *,
        max_message_mb: FractionalCeiling = _MESSAGE_MB,
        page_size: int = PAGE_SIZE,
        max_listed: int = MAX_LISTED,
        mirror: bool = True,
        part_chars: int = 0,
        only: list[str] | None = None,
        without: list[str] | None = None,
    ) -> None:
        if not 0.1 <= max_message_mb <= 1024:
            raise ConfigError(f"[server] max_message_mb: expected a number from 0.1 to 1024, got {max_message_mb}")
        if not 1 <= page_size <= 100_000:
            raise ConfigError(f"[server] page_size: expected a whole number from 1 to 100000, got {page_size}")
        if not 0 <= max_listed <= 1_000_000:
            raise ConfigError(f"[server] max_listed: expected a whole number from 0 to 1000000, got {max_listed}")
        if part_chars and not 1_000 <= part_chars <= 1_000_000:
            raise ConfigError(f"[server] part_chars: expected 0, or 1000 to 1000000 characters, got {part_chars}")
        self.max_bytes = int(max_message_mb * MEGABYTE)
        self.max_listed = max_listed
        self.page_size = page_size
        self.mirror = mirror
        self.part_chars = part_chars
        self.only = None if only is None else tuple(only)
        self.without = tuple(without or ())


class HttpSettings:
    """The section `[http]`: who may connect, and where. From a project file it needs trust."""

    def __init__(
        self,
        hosts: list[str] | None = None,
        origins: list[str] | None = None,
        issuer: str = "",
        audience: str = "",
        jwks: str = "",
        port: int = HTTP_PORT,
    ) -> None:
        if not 1 <= port <= 65_535:
            raise ConfigError(f"[http] port: expected a whole number from 1 to 65535, got {port}")
        if any((issuer, audience, jwks)) and not all((issuer, audience, jwks)):
            raise ConfigError("[http] issuer, audience and jwks: give all three, or none of them")
        self.hosts = frozenset(host.lower() for host in hosts or ())
        self.origins = frozenset(origin.lower().rstrip("/") for origin in origins or ())
        self.issuer = issuer
        self.audience = audience
        self.jwks = jwks
        self.port = port


_FIXED: Final[dict[str, type | str]] = {
    "server": ServerSettings,
    "http": HttpSettings,
    "search": SEARCH,
    "store": STORE,
    "bus": BUS,
    "session": SESSION,
}
"""The settings class of each section without a provider, or its import path: most are imported when used."""


class Setting(Value, frozen=True):
    """A value and its origin."""

    value: object
    layer: Layer
    origin: str


class Withheld(Value, frozen=True):
    """A setting of a project file that takes effect only when the file is trusted."""

    section: str
    settings: Mapping[str, object]
    why: str
    file: str

    @property
    def key(self) -> str:
        """The key; empty for a section that runs code, which is withheld as a whole."""
        return "" if "." in self.section else next(iter(self.settings))

    def __str__(self) -> str:
        name = f"[{printable_line(self.section)}] {self.key}".rstrip()
        return f"{name} in {os.path.basename(self.file)} is not in effect: {self.why}; run `carrel trust` to allow it"


class Config:
    """The settings of one project."""

    def __init__(self, place: project.Place, environment: Mapping[str, str]) -> None:
        self.place = place
        self.root = place.root
        self.environment = environment
        self.is_trusted = False
        self.files: list[str] = []
        self.sections: dict[str, dict[str, Setting]] = {}
        self.withheld: list[Withheld] = []
        self.places_files: list[PlacesFile] = []
        self.passed_over: list[str] = []

    @property
    def notes(self) -> tuple[str, ...]:
        """Messages about settings and files that are not in effect, with the reasons."""
        return (
            *((_TOO_MUCH,) if self.place.is_too_much else ()),
            *self.place.passed_over,
            *self.passed_over,
            *map(str, self.withheld),
        )

    def elsewhere(self, *, is_from_here: bool = False) -> list[str]:
        """Look for data near the project that is not served; return a note for each place, as `project.elsewhere`."""
        given = {f"{section}.{key}" for section, settings in self.sections.items() for key in settings}
        return project.elsewhere(self.root, self.environment, given, is_from_here=is_from_here)

    def http(self) -> HttpSettings:
        """Return the section `[http]`: who may connect."""
        try:
            return HttpSettings(**self.values("http"))
        except ConfigError as error:
            raise self.located(error) from None

    def session_key(self) -> str | None:
        """Return the key that seals the ids of sessions, if one is configured."""
        key: str | None = self._build(SESSION, "session").key if self.values("session") else None
        return key

    def groups(self) -> "list[GroupSettings]":
        """Return the sections `[groups.NAME]`: what groups of callers may do."""
        return [self._build(NAMED["groups"], section) for section in self.sections if section.startswith("groups.")]

    def store(self) -> StoreAddress | None:
        """Return the address of the team's store, if one is configured."""
        url, bus = self.values("store").get("url"), self.values("bus")
        try:
            if not url and bus.get("url"):
                raise ConfigError("[bus] url: a bus needs a store: set [store] url to a Postgres, or remove [bus]")
            if not url:
                return None
            address = parse_address(url)
            return replace(address, bus=registration.load(BUS)(**bus).address) if bus else address
        except ConfigError as error:
            raise self.located(error) from None

    def audit_days(self) -> int:
        """Return how long the audit record of the team's store is kept."""
        days: int = self._build(STORE, "store").audit_days
        return days

    def _build(self, target: str, section: str) -> Any:
        """Return the settings of a section as a record of their class."""
        try:
            return schema.build(registration.load(target), section, self.values(section))
        except ConfigError as error:
            raise self.located(error) from None

    def values(self, section: str) -> dict[str, Any]:
        """Return the keys and values of a section."""
        return {key: setting.value for key, setting in self.sections.get(section, {}).items()}

    def project_of(self, section: str) -> Project:
        """Return what the provider with this section must know of the project."""
        return Project(
            self.root,
            self.environment,
            frozenset(self.values(section)),
            self.named(section),
            is_trusted=self.is_trusted,
            deny=tuple(self.values("workspace").get("deny") or ()),
            store=self.store(),
        )

    def named(self, section: str) -> frozenset[str]:
        """Return the keys of a section that were set by the user or by a trusted project file."""
        keys = self.sections.get(section, {}).items()
        return frozenset(key for key, setting in keys if self.is_trusted or setting.layer != "project")

    def located(self, error: ConfigError) -> ConfigError:
        """Return an error of the form `[section] key: …` with the origin of that setting before it."""
        found = re.match(_AT_FAULT, str(error))
        if found is None:
            return error
        section, key = found.groups()
        if section not in self.sections:  # a table in a section, as [commands.test]
            section, _, key = section.partition(".")
        keys = self.sections.get(section, {})
        origins = {keys[key].origin} if key in keys else {one.origin for one in keys.values()}
        return ConfigError(f"{origins.pop()}: {error}") if len(origins) == 1 else error

    def put(self, section: str, key: str, setting: Setting) -> None:
        """Set a key; a later layer overrides an earlier one."""
        self.sections.setdefault(section, {})[key] = setting


def section_names() -> tuple[str, ...]:
    """Return the names of the sections with fixed names."""
    return (*_FIXED, *(name for known in registration.BUILT_IN for name in (known.name, *known.sections)))


def sections_in_use(config: Config) -> tuple[str, ...]:
    """Return the names of all sections, with those of objects and mounts."""
    return (*section_names(), *(section for section in config.sections if "." in section))


def section_schema(section: str, where: str) -> Schema:
    """Return the keys of a section; import the provider it belongs to."""
    fixed = _FIXED.get(section)
    if fixed is not None:
        return schema.schema_of(registration.load(fixed) if isinstance(fixed, str) else fixed)
    for known in registration.BUILT_IN:
        if known.name == section:
            return {name: key for name, key in schema.schema_of(known.load()).items() if name not in known.sections}
        if section in known.sections:
            return schema.section_schema(schema.schema_of(known.load())[section].kind)
    table, _, name = section.partition(".")
    if table in NAMED and name:
        return schema.schema_of(registration.load(NAMED[table]))
    known_names = (*section_names(), *NAMED)
    raise ConfigError(f"{where}: unknown section [{section}]{schema.nearest(section, known_names)}")


def load(
    named: str | None,
    environment: Mapping[str, str],
    flags: Sequence[tuple[str, str, str]] = (),
    origins: Mapping[tuple[str, str], str] | None = None,
) -> Config:
    """Return the configuration of a project: the folder `named`, or the project that contains the working folder.

    `flags` are (section, key, text). `origins` maps (section, key) to the option that set it, if that is not --set.
    """
    return configure(project.find(named, environment), environment, user_table(environment), flags, origins)


def user_file(environment: Mapping[str, str]) -> str:
    """Return the path of the user's own settings file."""
    return os.path.join(config_folder(environment), "config.toml")


def user_table(environment: Mapping[str, str]) -> project.Table | None:
    """Return the settings in the user's own file; None if there is no file."""
    path = user_file(environment)
    return project.read_table(path) if os.path.isfile(path) else None


def configure(
    place: project.Place,
    environment: Mapping[str, str],
    users: project.Table | None,
    flags: Sequence[tuple[str, str, str]] = (),
    origins: Mapping[tuple[str, str], str] | None = None,
) -> Config:
    """Return the configuration of a project, from the settings in the user's own file and all other layers."""
    config = Config(place, environment)
    if users is not None:
        _take_file(config, "user", user_file(environment), users)
    file = place.file
    if file is not None:
        config.is_trusted = TrustStore(environment).is_trusted(file.path, file.digest)
        _take_file(config, "project", file.path, file.table)
    _take_environment(config)
    for section, key, text in flags:
        origin = (origins or {}).get((section, key), f"--set {section}.{key}")
        if origin == WITH:
            _refuse_another(config, section, text)
        _take_text(config, "flag", section, key, text, origin)
    _take_places_files(config)
    return config


def _refuse_another(config: Config, section: str, target: str) -> None:
    """Raise ConfigError if the settings files have another object of the name that one on the command line gets."""
    named = config.sections.get(section, {})
    for known in (setting for key, setting in named.items() if key in ("import", "provider")):
        paths = [os.path.join(config.root, os.path.expanduser(str(one))) for one in (target, known.value)]
        if len(set(map(os.path.realpath, paths))) > 1:
            raise ConfigError(
                f"{WITH} {target}: [{section}] in {known.origin} serves another object under this name, {known.value}; "
                "to serve both, rename the file or the section; to serve only one, remove the other"
            )


def _take_places_files(config: Config) -> None:
    """Find other files of the project that name places outside it; withhold those places without trust."""
    store = TrustStore(config.environment)
    for known in registration.BUILT_IN:
        values, server = config.values(known.name), config.values("server")
        is_left_out = known.name in (server.get("without") or ()) or known.name not in (
            server.get("only") or [known.name]
        )
        if is_left_out or values.get("enabled") is False:
            continue
        project = Project(config.root, config.environment, named=config.named(known.name))
        file, notes = known.places_file(project, values)
        config.passed_over.extend(notes)
        if file is None:
            continue
        config.places_files.append(file)
        if not store.is_trusted(file.path, file.digest):
            outside = (Withheld(file.section, {name: place}, OUTSIDE, file.path) for name, place in file.places.items())
            config.withheld.extend(outside)


def _take_file(config: Config, layer: Layer, path: str, table: Mapping[str, object]) -> None:
    config.files.append(path)
    for section, keys in table.items():
        if section in NAMED and isinstance(keys, dict):
            for name, inner in keys.items():
                _take_named(config, layer, path, f"{section}.{name}", inner)
        else:
            _take_section(config, layer, path, section, keys)


def _take_named(config: Config, layer: Layer, path: str, section: str, keys: object) -> None:
    """Add a section that runs code, or withhold all of it."""
    checked = Config(config.place, config.environment)
    checked.is_trusted = True
    _take_section(checked, layer, path, section, keys)
    if layer == "project" and not config.is_trusted:
        why = "it decides who may do what" if section.startswith("groups.") else "it runs code"
        config.withheld.append(Withheld(section, checked.values(section), why, path))
        return
    config.sections.setdefault(section, {}).update(checked.sections.get(section, {}))


def _take_section(config: Config, layer: Layer, path: str, section: str, keys: object) -> None:
    known = section_schema(section, path)
    if not isinstance(keys, dict):
        raise ConfigError(f"{path}: {section} must be a section: [{section}]")
    config.sections.setdefault(section, {})  # an empty section enables its provider too
    for name, value in keys.items():
        key = schema.find(known, section, name, path)
        setting = Setting(schema.check(key.kind, value, f"{path}: [{section}] {name}"), layer, path)
        is_free = layer == "user" or config.is_trusted
        why = schema.needs_trust(key.kind, setting.value, partial(_is_outside, config.root))
        why = why or schema.raises_bound(key.kind, setting.value, config.values(section).get(name, key.default))
        if section == "http":
            why = "it decides who may connect"
        if (section, name) == ("store", "audit_days"):
            why = "it decides how long a team's audit record is kept"
        if section == "buckets":
            why = "it decides where credentials are sent"
        if why and not is_free:
            config.withheld.append(Withheld(section, {name: setting.value}, why, path))
        else:
            config.put(section, name, setting)


def _is_outside(root: str, value: str) -> bool:
    """Return whether a place lies outside the project, after following links; one on the network does."""
    return "://" in value or not is_inside(os.path.join(root, os.path.expanduser(value)), root)


def _take_environment(config: Config) -> None:
    """Add the variables `CARREL_<SECTION>_<KEY>`; ignore other variables that begin with `CARREL_`."""
    sections = {section.upper().replace("-", "_"): section for section in section_names()}
    for name in sorted(name for name in config.environment if name.startswith("CARREL_")):
        prefix, _, key = name.removeprefix("CARREL_").partition("_")
        if prefix in sections and key:
            _take_text(config, "environment", sections[prefix], key.lower(), config.environment[name], name)


def _take_text(config: Config, layer: Layer, section: str, key: str, text: str, origin: str) -> None:
    kind = schema.find(section_schema(section, origin), section, key, origin).kind
    config.put(section, key, Setting(schema.from_text(kind, text, origin), layer, origin))
