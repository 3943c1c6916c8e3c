"""Where algocline keeps its data: folders from settings and environment, the names in them, the lookup of packages.

The environment is read once. Folders are looked at on every request, since data may come and go while Carrel runs.

A folder is the user's if the user chose it: by algocline's default (`~/.algocline`), in the environment, in their
settings or in a project file that they trust. Every other one is confined to the project.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Final, Literal

from carrel.core import toml
from carrel.core.errors import ProviderError
from carrel.core.provider import Project
from carrel.core.record import Value
from carrel.files.data_folder import DataFolder, named, unreadable
from carrel.files.marks import working_folder
from carrel.providers.alc import files
from carrel.providers.alc.files import Absent, AlcFolder, Failed, FileError, Stamp, list_files
from carrel.providers.alc.local_packages import MAX_BYTES, PROJECT_FILE, AlcRoot, Variants
from carrel.providers.alc.uris import Kind

Scope = Literal["variant", "global"]
INIT: Final = "init.lua"
_FOLDERS: Final[Mapping[Kind, str]] = {"types": "types", "scenario": "scenarios", "eval": "evals"}
HOME: Final = ".algocline"
LOGS_HERE: Final = "algocline-logs"


class Package(Value, frozen=True, gc=False):
    """Where a package was found, and the state of its source."""

    name: str
    folder: AlcFolder
    scope: Scope
    stamp: Stamp

    @property
    def init(self) -> str:
        """Return the path of its source, the key in caches."""
        return f"{self.folder.path}/{INIT}"

    @property
    def is_linked(self) -> bool:
        """Return whether its folder is a symlink."""
        return os.path.islink(self.folder.path.rstrip("/"))

    @property
    def escapes(self) -> bool:
        """Return whether its source is a symlink out of its folder, which no read follows."""
        if os.path.islink(self.init):
            try:
                files.open_below(self.folder, INIT).close()
            except files.Escapes:
                return True
            except FileError:
                pass
        return False


class Layout:
    """The folders of one `ALC_HOME` and of the project around it."""

    def __init__(
        self,
        project: Project,
        home: str | None = None,
        log_dir: str | None = None,
        packages_path: str | None = None,
        project_root: str | None = None,
    ) -> None:
        self._project = project
        self._start = start = working_folder(project.root)
        user_home = project.environment.get("HOME")
        state = project.environment.get("XDG_STATE_HOME") or (user_home and os.path.join(user_home, ".local/state"))
        default_home = AlcFolder(os.path.join(user_home, HOME)) if user_home else self._confined(f"{start}/{HOME}")
        self.home = next(iter(self._chosen("home", home, "ALC_HOME")), default_home)
        self._log_dirs = [
            *self._chosen("log_dir", log_dir, "ALC_LOG_DIR"),
            self.home.below("logs"),
            *([AlcFolder(os.path.join(start, state, "algocline/logs"))] if state else []),
            self._confined(os.path.join(start, LOGS_HERE)),
        ]
        self._packages_path = self._chosen("packages_path", packages_path, "ALC_PACKAGES_PATH")
        self.variants = Variants(project, project_root)
        self._hub: tuple[AlcRoot, Stamp, AlcFolder | None] | None = None

    # Places

    def _chosen(self, key: str, setting: str | None, variable: str) -> list[AlcFolder]:
        """Return the folders of a setting, below the project's root, or else of a variable, taken literally."""
        text = setting or self._project.environment.get(variable, "")
        parts = [part for part in (text.split(os.pathsep) if key == "packages_path" else [text]) if part]
        if not setting:
            return [AlcFolder(os.path.join(self._start, part)) for part in parts]
        places = [os.path.join(self._project.root, os.path.expanduser(part)) for part in parts]
        return [AlcFolder(place) if key in self._project.named else self._confined(place) for place in places]

    def _confined(self, place: str) -> AlcFolder:
        return AlcFolder(place, DataFolder(self._project, place, is_named=False))

    def log_dir(self) -> AlcFolder | None:
        """Return the first candidate that is a folder."""
        return next((place for place in self._log_dirs if place.is_there()), None)

    def notes(self) -> list[str]:
        """Return a sentence about each configured folder that is not served."""
        areas = ("types", "packages", "cards", "scenarios", "evals")
        places = [self.home, *map(self.home.below, areas), *self._log_dirs, *self._packages_path]
        names = (named(self._project.root, place.path) for place in places if place.is_refused())
        why = "it leads out of the project, is denied, or belongs to another user"
        refused = [f"{name} is not served as alc: {why}" for name in dict.fromkeys(names)]
        return [*refused, *unreadable(self._project.root, *(place.path for place in places)), *self.variants.notes()]

    # Packages

    def find_package(
        self, name: str, variants: Mapping[str, AlcFolder], global_folders: list[AlcFolder] | None = None
    ) -> Package | None:
        """Return a package: a variant, or else the first one in the folders of global packages."""
        variant = variants.get(name)
        if variant is not None and variant.is_there():
            stamp = variant.stamp(INIT)
            return None if stamp is None else Package(name, variant, "variant", stamp)
        for place in global_folders or self.package_folders():
            folder = place.below(name)
            stamp = folder.stamp(INIT)
            if stamp is not None:
                return Package(name, folder, "global", stamp)
        return None

    def is_listed(self, name: str, variants: Mapping[str, AlcFolder]) -> bool:
        """Return whether there is a package of this name that can be read."""
        package = self.find_package(name, variants)
        return package is not None and not package.escapes

    def package_folders(self) -> Iterator[AlcFolder]:
        """Yield the folders that hold global packages, in the order in which they are looked at."""
        yield self.home.below("packages")
        yield from (folder for folder in self._packages_path if folder.is_there())
        yield from self._collection()

    def package_names(self, variants: Mapping[str, AlcFolder]) -> set[str]:
        """Return the names that packages may have, without checking that each is a package."""
        names = set(variants).union(*map(folders_in, self.package_folders()))
        return {name for name in names if not name.startswith((".", "_"))}

    def _collection(self) -> Iterator[AlcFolder]:
        """Yield the folder of `alc.toml` if that has a table `hub`: then it is a repository of packages."""
        root = self.variants.root()
        if root.folder is None:
            return
        try:
            with files.open_below(AlcFolder(root.folder), PROJECT_FILE) as file:
                if self._hub is None or self._hub[:2] != (root, file.stamp):
                    folder = AlcFolder(root.folder) if root.is_users else self._confined(root.folder)
                    self._hub = root, file.stamp, folder if _has_hub(file) else None
        except FileError:
            return
        if self._hub[2] is not None:
            yield self._hub[2]

    # Other resources

    def folder(self, kind: Kind) -> AlcFolder | None:
        """Return the folder of type stubs, scenarios, eval results or logs; None if there is no folder of logs."""
        return self.log_dir() if kind == "log" else self.home.below(_FOLDERS[kind])

    def ids(self, kind: Kind) -> Iterator[str]:
        """Yield the names of the scenarios, eval results or logs that can be read."""
        folder = self.folder(kind)
        listed = [] if folder is None else list_files(folder, ".lua" if kind == "scenario" else ".json")
        return (name for name, can_be_read in listed if can_be_read and not (kind == "log" and name.endswith(".meta")))

    def cards(self) -> dict[str, str]:
        """Return the ids of Cards that can be read, each with the folder of `cards` that holds it."""
        found: dict[str, str] = {}
        base = self.home.below("cards")
        for folder in sorted(folders_in(base)):
            for card_id, can_be_read in list_files(base.below(folder), ".toml", base):
                found.setdefault(card_id, folder if can_be_read else "")
        return {card_id: folder for card_id, folder in found.items() if folder}

    def find_card(self, card_id: str) -> str:
        """Return the folder of `cards` that holds a Card, the first in order of names; raise `Absent`."""
        cards = self.home.below("cards")
        try:
            folders = sorted(cards.list_folders())
        except Failed as error:
            raise ProviderError(f"Failed to read cards dir: {error}", word="unreadable") from None
        for folder in folders:
            if cards.below(folder).stamp(f"{card_id}.toml") is not None:
                return folder
        raise Absent


def folders_in(place: AlcFolder) -> list[str]:
    """Return the names of the folders in a place; a place that cannot be read is empty."""
    try:
        return place.list_folders()
    except FileError:
        return []


def _has_hub(file: files.AlcFile) -> bool:
    """Return whether an `alc.toml` describes a repository of packages; one that cannot be read does not."""
    try:
        return isinstance(toml.loads(file.read_all(MAX_BYTES).decode("utf-8")).get("hub"), dict)
    except (ValueError, FileError):
        return False
