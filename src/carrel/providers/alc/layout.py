"""Where algocline keeps what: settings and environment to places, names on disk, the lookup of packages.

The environment is read once; the folders are looked at each time they are asked for, since data may
come and go while Carrel runs. Nothing is ever written or created here.
"""

import logging
import os
from collections.abc import Iterator, Mapping
from typing import Final, Literal

from carrel import toml
from carrel.errors import ProviderError, echo
from carrel.provider import Project
from carrel.providers.alc import compact, files
from carrel.providers.alc.files import Absent, Failed, Oversized, Stamp
from carrel.sandbox import GONE, is_inside
from carrel.value import Value

log = logging.getLogger(__name__)

Scope = Literal["variant", "global"]
INIT: Final = "init.lua"
LOCAL_FILE: Final = "alc.local.toml"
PROJECT_FILE: Final = "alc.toml"


class Package(Value, frozen=True, gc=False):
    """Where a package was found."""

    name: str
    folder: str
    scope: Scope

    @property
    def init(self) -> str:
        """Give the path of its source."""
        return f"{self.folder}/{INIT}"

    @property
    def is_linked(self) -> bool:
        """Tell whether its folder is a symlink."""
        return os.path.islink(self.folder.rstrip("/"))

    @property
    def leaves(self) -> bool:
        """Tell whether its source is a symlink out of its folder, which no read follows."""
        return os.path.islink(self.init) and not is_inside(self.init, self.folder)


class Layout:
    """The places of one `ALC_HOME` and the project around it."""

    def __init__(
        self,
        project: Project,
        home: str | None = None,
        log_dir: str | None = None,
        packages_path: str | None = None,
        project_root: str | None = None,
        max_file_bytes: int = 67_108_864,
    ) -> None:
        environment = project.environment
        user_home = environment.get("HOME") or None
        self._start = working_folder(project)
        self.home = _chosen(project, home, "ALC_HOME") or default_home(project)
        state = environment.get("XDG_STATE_HOME") or (user_home and os.path.join(user_home, ".local/state"))
        self._log_dirs = [
            _chosen(project, log_dir, "ALC_LOG_DIR"),
            os.path.join(self.home, "logs"),
            state and os.path.join(self._start, state, "algocline/logs"),
            os.path.join(self._start, "algocline-logs"),
        ]
        self._packages_path = _package_folders(project, packages_path)
        self._project_root = _chosen(project, project_root, "ALC_PROJECT_ROOT")
        self._max_file_bytes = max_file_bytes
        self._warned = ""
        self._variants: tuple[Stamp, str, dict[str, str]] | None = None

    def place(self, *parts: str) -> str:
        """Give a path below the home."""
        return os.path.join(self.home, *parts)

    def log_dir(self) -> str | None:
        """Give the first candidate that is a folder."""
        return next((place for place in self._log_dirs if place and os.path.isdir(place)), None)

    def project_root(self) -> str | None:
        """Give the folder in which variants are looked for."""
        if self._project_root and os.path.isdir(self._project_root):
            return self._project_root
        return find_project_root(self._start)

    # Packages

    def variants(self) -> dict[str, str]:
        """Give the folders of variant packages by name; raises if `alc.local.toml` is malformed."""
        root = self.project_root()
        if root is None:
            return {}
        path = os.path.join(root, LOCAL_FILE)
        try:
            found = os.stat(path)
            known = self._variants
            if known is None or known[:2] != (files.stamp_of(found), path):
                data, found = files.read_plain(path, self._max_file_bytes)
                known = files.stamp_of(found), path, _parse_variants(data)
                self._variants = known
        except (Failed, Oversized, OSError, Absent) as error:
            if isinstance(error, Absent) or (isinstance(error, OSError) and error.errno in GONE):
                return {}
            reason = error.reason if isinstance(error, Failed) else getattr(error, "strerror", None)
            raise ProviderError(
                f"failed to read {LOCAL_FILE}: {reason or 'it is too large'}", word="unreadable"
            ) from None
        folders = ((name, os.path.join(root, folder)) for name, folder in known[2].items())
        return {name: folder for name, folder in folders if os.path.isdir(folder)}

    def variants_or_none(self) -> dict[str, str]:
        """Give the variants; where their file is malformed, none, and a warning in the log."""
        try:
            return self.variants()
        except ProviderError as error:
            if self._warned != error.message:  # not every time the list is looked at
                self._warned = error.message
                log.warning("variants are left out: %s", error.message)
            return {}

    def find_package(self, name: str, variants: Mapping[str, str]) -> Package | None:
        """Look a package up: a variant, then the home, then the further folders."""
        folder = variants.get(name)
        if folder is not None:
            return Package(name, folder, "variant") if files.is_there(f"{folder}/{INIT}") else None
        for place in self.package_folders():
            if files.is_there(f"{place}/{name}/{INIT}"):
                return Package(name, f"{place}/{name}", "global")
        return None

    def list_package(self, name: str, variants: Mapping[str, str]) -> Package | None:
        """Look a package up that can be read."""
        package = self.find_package(name, variants)
        return None if package is None or package.leaves else package

    def package_folders(self) -> list[str]:
        """Give the folders that hold global packages, in the order in which they are looked at."""
        return [self.place("packages"), *(folder for folder in self._packages_path if os.path.isdir(folder))]

    def package_names(self, variants: Mapping[str, str]) -> set[str]:
        """Give the names under which a listed package may be; each is still to be looked up."""
        names = set(variants)
        for place in self.package_folders():
            names.update(folders_in(place))
        return {name for name in names if not name.startswith((".", "_"))}

    # Other names

    def cards(self) -> dict[str, str]:
        """Give the ids of Cards that can be read, each with the folder of `cards` that holds it."""
        found: dict[str, str] = {}
        base = self.place("cards")
        for folder in sorted(folders_in(base)):
            for card_id, leaves in _stems(os.path.join(base, folder), ".toml", base):
                found.setdefault(card_id, "" if leaves else folder)
        return {card_id: folder for card_id, folder in found.items() if folder}

    def scenarios(self) -> Iterator[str]:
        """Give the scenarios' names."""
        return stems_in(self.place("scenarios"), ".lua")

    def evals(self) -> Iterator[str]:
        """Give the names of the files in `evals` that may be results."""
        return stems_in(self.place("evals"), ".json")

    def sessions(self) -> Iterator[str]:
        """Give the ids of the sessions that have a log."""
        folder = self.log_dir()
        names = stems_in(folder, ".json") if folder is not None else iter(())
        return (name for name in names if not name.endswith(".meta"))

    def find_card(self, card_id: str) -> str | None:
        """Give the folder of `cards` that holds a Card: the first in order of names."""
        name = f"{card_id}.toml"
        cards = self.place("cards")
        try:
            folders = sorted(_scan(cards))
        except OSError as error:
            if error.errno in GONE:
                return None
            reason = error.strerror or "unknown error"
            raise ProviderError(f"Failed to read cards dir: {reason}", word="unreadable") from None
        return next((folder for folder in folders if files.is_there(f"{cards}/{folder}/{name}")), None)


def working_folder(project: Project) -> str:
    """Give the folder Carrel works in: that of the process, if it lies in the project."""
    return os.path.realpath("." if is_inside(".", project.root) else project.root)


def default_home(project: Project) -> str:
    """Give the home that holds when none is set."""
    return os.path.join(project.environment.get("HOME") or working_folder(project), ".algocline")


def find_project_root(start: str) -> str | None:
    """Walk up to the first folder with a file `alc.toml`."""
    folder = start
    while not os.path.isfile(os.path.join(folder, PROJECT_FILE)):
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
    return folder


def folders_in(place: str) -> Iterator[str]:
    """Give the names of the folders in a place; one that cannot be read is empty."""
    try:
        yield from _scan(place)
    except OSError:
        return


def _scan(place: str) -> list[str]:
    with os.scandir(place) as entries:
        return [entry.name for entry in entries if _is(entry, is_folder=True)]


def stems_in(place: str, suffix: str) -> Iterator[str]:
    """Give the names, without their suffix, of the files in a place; one that cannot be read is empty."""
    return (stem for stem, leaves in _stems(place, suffix, place) if not leaves)


def _stems(place: str, suffix: str, base: str) -> list[tuple[str, bool]]:
    """Give the same with whether a symlink leads it out of the base, where no read follows."""
    is_linked = place != base and os.path.islink(place)
    try:
        with os.scandir(place) as entries:
            return [
                (entry.name.removesuffix(suffix), (is_linked or entry.is_symlink()) and not is_inside(entry.path, base))
                for entry in entries
                if entry.name.endswith(suffix) and _is(entry, is_folder=False)
            ]
    except OSError:
        return []


def _is(entry: os.DirEntry[str], *, is_folder: bool) -> bool:
    try:
        return entry.is_dir() if is_folder else entry.is_file()
    except OSError:
        return False


def _chosen(project: Project, setting: str | None, variable: str) -> str | None:
    """Give a place: the setting, below the project's root, or else the variable, taken literally."""
    if setting:
        return os.path.join(project.root, os.path.expanduser(setting))
    named = project.environment.get(variable)
    return os.path.join(working_folder(project), named) if named else None


def _package_folders(project: Project, setting: str | None) -> list[str]:
    if setting:
        named = (os.path.join(project.root, os.path.expanduser(part)) for part in setting.split(os.pathsep) if part)
        return list(named)
    parts = project.environment.get("ALC_PACKAGES_PATH", "").split(os.pathsep)
    return [os.path.join(working_folder(project), part) for part in parts if part]


def _parse_variants(data: bytes) -> dict[str, str]:
    try:
        table = toml.loads(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise Failed(compact.NOT_UTF8) from None
    except toml.TomlError as error:
        raise _malformed(str(error)) from None
    packages = table.get("packages", {})
    if not isinstance(packages, dict):
        raise _malformed("packages is not a table")
    found = {}
    for name, value in packages.items():
        match value:
            case {"path": str(path)}:
                found[name] = path
            case str() | {"git": _} if not (isinstance(value, dict) and "path" in value):
                continue
            case _:
                raise _malformed(f"packages.{echo(name)} is neither a version nor a table with path or git")
    return found


def _malformed(reason: str) -> ProviderError:
    return ProviderError(f"malformed {LOCAL_FILE}: {reason}", word="unreadable")
