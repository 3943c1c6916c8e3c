"""`alc.local.toml`: the developer's variants of packages, which come before installed packages of the same name.

`alc pkg link` writes the file, usually with absolute paths, and git usually ignores it. But a stranger's repository
may contain one. So a folder in the project is used at once, a folder outside only after `carrel trust`.
"""

import logging
import os
from collections.abc import Mapping
from typing import Final

from carrel.core import toml
from carrel.core.errors import ProviderError, echo
from carrel.core.hashing import sha256
from carrel.core.provider import PlacesFile, Project
from carrel.core.record import Value, replace
from carrel.files.data_folder import DataFolder
from carrel.files.marks import find_mark, working_folder
from carrel.files.sandbox import belongs_here, is_inside
from carrel.providers.alc import compact_json
from carrel.providers.alc.files import (
    UNREAD,
    Absent,
    AlcFile,
    AlcFolder,
    Escapes,
    Failed,
    Oversized,
    Stamp,
    open_below,
    stamp_of,
)
from carrel.providers.alc.uris import is_id

log = logging.getLogger(__name__)

LOCAL_FILE: Final = "alc.local.toml"
PROJECT_FILE: Final = "alc.toml"
MAX_BYTES: Final = 1_048_576
"""The largest `alc.toml` or `alc.local.toml` that is read. Real ones have some hundred bytes."""
_ASTRAY: Final = "it is a link that leads out of its folder"


class AlcRoot(Value, frozen=True):
    """The folder of `alc.toml` and `alc.local.toml`: whether the user named it, and notes about folders passed over."""

    folder: str | None
    is_users: bool
    passed_over: tuple[str, ...] = ()

    def jail(self, project: Project) -> Project:
        """Return the project in which variants must lie, unless the file is trusted."""
        return Project(self.folder, project.environment) if self.is_users and self.folder else project


class LocalFile(Value, frozen=True):
    """`alc.local.toml` as it was read: the folder of each package, and those of them that lie outside the project.

    `problem` says why it cannot be read, `passed_over` why it is not used.
    """

    stamp: Stamp
    path: str
    digest: str = ""
    folders: Mapping[str, str] = {}
    outside: PlacesFile | None = None
    problem: str = ""
    passed_over: str = ""


def find_root(project: Project, setting: str | None, start: str) -> AlcRoot:
    """Return the folder of `alc.local.toml`: the configured one, or the nearest one upwards with an `alc.toml`."""
    if setting:
        place = os.path.join(project.root, os.path.expanduser(setting))
        if os.path.isdir(place):
            return AlcRoot(place, "project_root" in project.named)
    else:
        named = project.environment.get("ALC_PROJECT_ROOT")
        if named and os.path.isdir(os.path.join(start, named)):
            return AlcRoot(os.path.join(start, named), is_users=True)
    mark = find_mark(start, PROJECT_FILE, project.root)
    return AlcRoot(mark.folder, is_users=False, passed_over=mark.passed_over)


def outside_places(project: Project, settings: Mapping[str, object]) -> tuple[PlacesFile | None, tuple[str, ...]]:
    """Return the project's `alc.local.toml`, if it names places outside, and notes about what is not used."""
    setting = settings.get("project_root")
    root = find_root(project, setting if isinstance(setting, str) else None, working_folder(project.root))
    local = read_local(root, project, None)
    if local is None:
        return None, root.passed_over
    return local.outside, (*root.passed_over, *filter(None, (local.passed_over,)))


class Variants:
    """The variants of one project, read again when their file changes."""

    def __init__(self, project: Project, setting: str | None) -> None:
        self._project = project
        self._setting = setting
        self._start = working_folder(project.root)
        self._known: LocalFile | None = None
        self._warned = ""
        self._folders: tuple[tuple[LocalFile, AlcRoot, bool], dict[str, AlcFolder]] | None = None

    def root(self) -> AlcRoot:
        """Return the folder in which the file is looked for now."""
        return find_root(self._project, self._setting, self._start)

    def folders(self) -> dict[str, AlcFolder]:
        """Return the folder of each variant, existing or not; raise `ProviderError` if the file is malformed.

        The objects are the same ones as long as nothing changed.
        """
        root = self.root()
        self._known = local = read_local(root, self._project, self._known)
        if local is None or local.passed_over:
            return {}
        if local.problem:
            raise ProviderError(local.problem, word="unreadable")
        state = (local, root, self._is_trusted(local))
        if self._folders is None or self._folders[0] != state:
            jail = root.jail(self._project)
            folders = {
                name: AlcFolder(path, None if state[2] else DataFolder(jail, path, is_named=False))
                for name, path in local.folders.items()
            }
            self._folders = state, folders
        return self._folders[1]

    def folders_or_none(self) -> dict[str, AlcFolder]:
        """Return the folders of the variants; if the file is malformed, log a warning and return none."""
        try:
            return self.folders()
        except ProviderError as error:
            if self._warned != error.message:  # not for every list
                self._warned = error.message
                log.warning("variants are left out: %s", error.message)
            return {}

    def notes(self) -> list[str]:
        """Return a sentence about the file, and each of its entries, that is not used."""
        root = self.root()
        self._known = local = read_local(root, self._project, self._known)
        notes = list(root.passed_over)
        if local is None:
            return notes
        if local.passed_over or local.problem:
            return [*notes, local.passed_over or local.problem]
        outside = None if self._is_trusted(local) else local.outside
        notes += [] if outside is None else outside.notes()
        for name, folder in self.folders().items():
            is_noted = outside is not None and name in outside.places
            if not is_noted and folder.is_refused():
                why = "its folder is denied, or belongs to another user"
                notes.append(f"[packages] {echo(name)} in {LOCAL_FILE} is not used: {why}")
        return notes

    def _is_trusted(self, local: LocalFile) -> bool:
        trusts = self._project.trusts
        return trusts is not None and local.outside is not None and trusts(local.path, local.digest)


def read_local(root: AlcRoot, project: Project, known: LocalFile | None) -> LocalFile | None:
    """Return the file below a root, the known one if it has not changed; None if there is none.

    A problem is remembered too, so that a file that is slow to parse is parsed only once.
    """
    if root.folder is None:
        return None
    path = os.path.join(root.folder, LOCAL_FILE)
    try:
        seen = stamp_of(os.lstat(path))  # cheaper than to open the folder, and mostly enough
    except OSError:
        return None
    if known is not None and (known.path, known.stamp) == (path, seen):
        return known
    try:
        with open_below(AlcFolder(root.folder), LOCAL_FILE) as file:
            return _parsed(LocalFile(file.stamp, path), file, root.jail(project).root)
    except Absent:
        return None
    except Escapes:
        return LocalFile(UNREAD, path, passed_over=f"{LOCAL_FILE} is not used: {_ASTRAY}")
    except Failed as error:
        return LocalFile(UNREAD, path, problem=f"failed to read {LOCAL_FILE}: {error}")


def _parsed(unread: LocalFile, file: AlcFile, top: str) -> LocalFile:
    """Return the file with its packages; those that do not lie below `top` are outside."""
    folder = os.path.dirname(unread.path)
    if not belongs_here(file.stat, os.stat(folder).st_uid):
        return replace(unread, passed_over=f"{LOCAL_FILE} is not used: it belongs to another user")
    try:
        data = file.read_all(MAX_BYTES)
        named = {name: os.path.join(folder, place) for name, place in _packages(data).items()}
        digest = sha256(data).hexdigest()
        outside = {name: place for name, place in named.items() if is_id(name) and not is_inside(place, top)}
        places = PlacesFile(unread.path, digest, "packages", outside) if outside else None
        return replace(unread, digest=digest, folders=named, outside=places)
    except Oversized:
        return replace(unread, problem=f"failed to read {LOCAL_FILE}: it is larger than {MAX_BYTES} bytes")
    except Failed as error:
        return replace(unread, problem=f"failed to read {LOCAL_FILE}: {error}")
    except toml.TomlError as error:
        return replace(unread, problem=f"malformed {LOCAL_FILE}: {error}")


def _packages(data: bytes) -> dict[str, str]:
    """Return the packages that have a path; raise `TomlError` if the file is malformed."""
    try:
        table = toml.loads(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise Failed(compact_json.NOT_UTF8) from None
    packages = table.get("packages", {})
    if not isinstance(packages, dict):
        raise toml.TomlError("packages is not a table")
    found = {}
    for name, value in packages.items():
        match value:
            case {"path": str(path)}:
                found[name] = path
            case str() | {"git": _} if not (isinstance(value, dict) and "path" in value):
                continue
            case _:
                raise toml.TomlError(f"packages.{echo(name)} is neither a version nor a table with path or git")
    return found
