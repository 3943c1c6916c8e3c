"""Where algocline keeps what: settings and environment to places, names on disk, the lookup of packages.

The environment is read once; the folders are looked at each time they are asked for, since data may
come and go while Carrel runs. Nothing is ever written or created here.

A folder is the user's own if the user chose it: by the system's rule (`~/.algocline`), in the environment, in their
settings or in a project file that they trust. Every other one is confined to the project.
"""

import logging
import os
from collections.abc import Iterator, Mapping
from typing import Final, Literal

from carrel.core import toml
from carrel.core.errors import ProviderError
from carrel.core.provider import Project
from carrel.core.record import Value
from carrel.files.data_folder import DataFolder
from carrel.files.marks import working_folder
from carrel.providers.alc import files
from carrel.providers.alc.files import Absent, AlcFolder, Failed, FileError, Stamp, list_files
from carrel.providers.alc.local_packages import MAX_BYTES, PROJECT_FILE, AlcRoot, Variants

log = logging.getLogger(__name__)

Scope = Literal["variant", "global"]
INIT: Final = "init.lua"
LOGS_HERE: Final = "algocline-logs"


class Package(Value, frozen=True, gc=False):
    """Where a package was found."""

    name: str
    folder: AlcFolder
    scope: Scope

    @property
    def init(self) -> str:
        """Return the path of its source, by which it is known to caches."""
        return f"{self.folder.path}/{INIT}"

    @property
    def is_linked(self) -> bool:
        """Tell whether its folder is a symlink."""
        return os.path.islink(self.folder.path.rstrip("/"))

    @property
    def leaves(self) -> bool:
        """Return whether its source is a symlink out of its folder, which no read follows."""
        if not os.path.islink(self.init):
            return False
        try:
            files.open_below(self.folder, (INIT,)).close()
        except files.Escapes:
            return True
        except FileError:
            pass
        return False


class Layout:
    """The places of one `ALC_HOME` and the project around it."""

    def __init__(
        self,
        project: Project,
        home: str | None = None,
        log_dir: str | None = None,
        packages_path: str | None = None,
        project_root: str | None = None,
    ) -> None:
        self._project = project
        start = working_folder(project.root)
        self.home = self._chosen("home", home, "ALC_HOME") or self._default_home(start)
        logs_here = self._confined(os.path.join(start, LOGS_HERE))
        candidates = (self._chosen("log_dir", log_dir, "ALC_LOG_DIR"), self.home.below("logs"), self._state(start))
        self._log_dirs = [*(one for one in candidates if one is not None), logs_here]
        self._packages_path = self._package_folders(packages_path)
        self._variants = Variants(project, project_root)
        self._warned = ""
        self._hub: tuple[AlcRoot, Stamp, AlcFolder | None] | None = None

    # Places

    def _default_home(self, start: str) -> AlcFolder:
        user_home = self._project.environment.get("HOME")
        here = os.path.join(user_home or start, ".algocline")
        return AlcFolder(here) if user_home else self._confined(here)

    def _state(self, start: str) -> AlcFolder | None:
        environment = self._project.environment
        user_home = environment.get("HOME")
        state = environment.get("XDG_STATE_HOME") or (user_home and os.path.join(user_home, ".local/state"))
        return AlcFolder(os.path.join(start, state, "algocline/logs")) if state else None

    def _chosen(self, key: str, setting: str | None, variable: str) -> AlcFolder | None:
        """Return a place: the setting, below the project's root, or else the variable, taken literally."""
        if setting:
            return self._placed(key, setting)
        named = self._project.environment.get(variable)
        return AlcFolder(os.path.join(working_folder(self._project.root), named)) if named else None

    def _package_folders(self, setting: str | None) -> list[AlcFolder]:
        if setting:
            return [self._placed("packages_path", part) for part in setting.split(os.pathsep) if part]
        parts = self._project.environment.get("ALC_PACKAGES_PATH", "").split(os.pathsep)
        return [AlcFolder(os.path.join(working_folder(self._project.root), part)) for part in parts if part]

    def _placed(self, key: str, setting: str) -> AlcFolder:
        place = os.path.join(self._project.root, os.path.expanduser(setting))
        return AlcFolder(place) if key in self._project.named else self._confined(place)

    def _confined(self, place: str) -> AlcFolder:
        return AlcFolder(place, DataFolder(self._project, place, is_named=False))

    def log_dir(self) -> AlcFolder | None:
        """Return the first candidate that is a folder."""
        return next((place for place in self._log_dirs if place.is_there()), None)

    def place(self, name: str) -> AlcFolder:
        """Return a folder in the home."""
        return self.home.below(name)

    def notes(self) -> list[str]:
        """Return a sentence about each place that is not served though something names it."""
        areas = ("types", "packages", "cards", "scenarios", "evals")
        places = [self.home, *map(self.home.below, areas), *self._log_dirs, *self._packages_path]
        refused = (place for place in places if place.refusal() is not None)
        root = self._project.root
        told = (os.path.relpath(place.path, root) for place in refused)
        why = "it leads out of the project, is denied, or belongs to another user"
        return [*(f"{name} is not served as alc: {why}" for name in dict.fromkeys(told)), *self._variants.notes()]

    # Packages

    def variants(self) -> dict[str, AlcFolder]:
        """Return the folders of variant packages by name; raise `ProviderError` if `alc.local.toml` is malformed."""
        return self._variants.folders()

    def variants_or_none(self) -> dict[str, AlcFolder]:
        """Give the variants; where their file is malformed, none, and a warning in the log."""
        try:
            return self.variants()
        except ProviderError as error:
            if self._warned != error.message:  # not every time the list is looked at
                self._warned = error.message
                log.warning("variants are left out: %s", error.message)
            return {}

    def local_folder(self) -> AlcFolder | None:
        """Return the folder in which `alc.local.toml` is looked for."""
        folder = self._variants.root().folder
        return None if folder is None else AlcFolder(folder)

    def find_package(self, name: str, variants: Mapping[str, AlcFolder]) -> Package | None:
        """Look a package up: a variant, then the home, then the further folders."""
        folder = variants.get(name)
        if folder is not None and folder.is_there():
            return Package(name, folder, "variant") if folder.holds(INIT) else None
        for place in self._package_places():
            folder = place.below(name)
            if folder.holds(INIT):
                return Package(name, folder, "global")
        return None

    def list_package(self, name: str, variants: Mapping[str, AlcFolder]) -> Package | None:
        """Look a package up that can be read."""
        package = self.find_package(name, variants)
        return None if package is None or package.leaves else package

    def package_folders(self) -> list[AlcFolder]:
        """Return the folders that hold global packages, in the order in which they are looked at."""
        return list(self._package_places())

    def _package_places(self) -> Iterator[AlcFolder]:
        yield self.place("packages")
        yield from (folder for folder in self._packages_path if folder.is_there())
        yield from self._collection()

    def package_names(self, variants: Mapping[str, AlcFolder]) -> set[str]:
        """Give the names under which a listed package may be; each is still to be looked up."""
        names = set(variants)
        for place in self.package_folders():
            names.update(folders_in(place))
        return {name for name in names if not name.startswith((".", "_"))}

    def _collection(self) -> Iterator[AlcFolder]:
        """Yield the folder of `alc.toml` if that has a table `hub`: then it is a repository of packages."""
        root = self._variants.root()
        if root.folder is None:
            return
        try:
            with files.open_below(AlcFolder(root.folder), (PROJECT_FILE,)) as held:
                if self._hub is None or self._hub[:2] != (root, held.stamp):
                    folder = AlcFolder(root.folder) if root.is_users else self._confined(root.folder)
                    self._hub = root, held.stamp, folder if _has_hub(held) else None
        except FileError:
            return
        if self._hub[2] is not None:
            yield self._hub[2]

    # Other names

    def cards(self) -> dict[str, str]:
        """Give the ids of Cards that can be read, each with the folder of `cards` that holds it."""
        found: dict[str, str] = {}
        base = self.place("cards")
        for folder in sorted(folders_in(base)):
            for card_id, can_be_read in list_files(base.below(folder), ".toml", base):
                found.setdefault(card_id, folder if can_be_read else "")
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
            folders = sorted(cards.list_folders())
        except Absent:
            return None
        except Failed as error:
            raise ProviderError(f"Failed to read cards dir: {error.reason}", word="unreadable") from None
        return next((folder for folder in folders if cards.below(folder).holds(name)), None)


def folders_in(place: AlcFolder) -> list[str]:
    """Return the names of the folders in a place; one that cannot be read is empty."""
    try:
        return place.list_folders()
    except FileError:
        return []


def stems_in(place: AlcFolder, suffix: str) -> Iterator[str]:
    """Yield the names, without their suffix, of the files in a place that can be read."""
    return (stem for stem, can_be_read in list_files(place, suffix) if can_be_read)


def _has_hub(held: files.HeldFile) -> bool:
    """Return whether an `alc.toml` describes a repository of packages; one that cannot be read does not."""
    try:
        return isinstance(toml.loads(held.read_all(MAX_BYTES).decode("utf-8")).get("hub"), dict)
    except (ValueError, FileError):
        return False
