"""`alc.local.toml`: packages of the developer's own, which come before installed ones of the same name.

`alc pkg link` writes it, usually with absolute paths, and it is usually ignored by git. But a stranger's repository
may bring one along. So a place in the project counts at once, and one outside only after `carrel trust`.
"""

import os
from collections.abc import Mapping
from typing import Final

from carrel.core import toml
from carrel.core.errors import ProviderError, echo
from carrel.core.hashing import sha256
from carrel.core.provider import PlacesFile, Project
from carrel.core.record import Value
from carrel.files.data_folder import DataFolder
from carrel.files.marks import find_mark, working_folder
from carrel.files.sandbox import GONE, Missing, Opened, Outside, Root, Special, Unreadable, belongs_here, is_inside
from carrel.providers.alc import compact_json, files
from carrel.providers.alc.files import AlcFolder, Failed, Stamp
from carrel.providers.alc.uris import is_id

LOCAL_FILE: Final = "alc.local.toml"
PROJECT_FILE: Final = "alc.toml"
MAX_BYTES: Final = 1_048_576
"""The largest `alc.toml` or `alc.local.toml` that is read. Real ones have some hundred bytes."""

UNREAD: Final[Stamp] = (0, 0, 0)
"""The stamp of a file that was not opened: it is looked at again."""
_FOREIGN: Final = "it belongs to another user"
_REFUSED: Final = "its folder is denied, or belongs to another user"
_ASTRAY: Final = "it is a link that leads out of its folder"


class AlcRoot(Value, frozen=True):
    """The folder of `alc.toml` and `alc.local.toml`: whether the user named it, and what was passed over to find it."""

    folder: str | None
    is_users: bool
    passed_over: tuple[str, ...] = ()

    def jail(self, project: Project) -> Project:
        """Return the project in which packages that are named there must lie, unless that is trusted."""
        return Project(self.folder, project.environment) if self.is_users and self.folder else project


class LocalFile(Value, frozen=True):
    """`alc.local.toml` as it was read: the folder of each package, or why it cannot be used."""

    stamp: Stamp
    path: str
    digest: str
    folders: Mapping[str, str]
    problem: str = ""
    passed_over: str = ""


def find_root(project: Project, setting: str | None, start: str) -> AlcRoot:
    """Return where `alc.local.toml` is looked for: what is set, or the nearest folder upwards with an `alc.toml`."""
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
    """Return the project's `alc.local.toml`, if it names places outside, and notes about what is passed over."""
    setting = settings.get("project_root")
    root = find_root(project, setting if isinstance(setting, str) else None, working_folder(project.root))
    local = None if root.folder is None else read_local(root.folder, None)
    if local is None or local.passed_over:
        return None, (*root.passed_over, *([] if local is None else [local.passed_over]))
    return _outside(local, root.jail(project).root), root.passed_over


def _outside(local: LocalFile, top: str) -> PlacesFile | None:
    outside = {name: folder for name, folder in local.folders.items() if is_id(name) and not is_inside(folder, top)}
    return PlacesFile(local.path, local.digest, "packages", outside) if outside else None


class Variants:
    """The variants of one project, read again when their file changes."""

    def __init__(self, project: Project, setting: str | None) -> None:
        self._project = project
        self._setting = setting
        self._start = working_folder(project.root)
        self._known: LocalFile | None = None
        self._places: tuple[LocalFile, PlacesFile | None] | None = None
        self._folders: tuple[tuple[LocalFile, AlcRoot, bool], dict[str, AlcFolder]] | None = None

    def root(self) -> AlcRoot:
        """Return where the file is looked for, now."""
        return find_root(self._project, self._setting, self._start)

    def folders(self) -> dict[str, AlcFolder]:
        """Return the folder of each variant, there or not; raise `ProviderError` if the file is malformed.

        One that may not be opened is as good as absent. They are the same objects as long as nothing changed.
        """
        root = self.root()
        local = self._read(root)
        if local is None or local.passed_over:
            return {}
        if local.problem:
            raise ProviderError(local.problem, word="unreadable")
        state = (local, root, self._is_trusted(local, root))
        if self._folders is None or self._folders[0] != state:
            jail = root.jail(self._project)
            self._folders = (
                state,
                {
                    name: AlcFolder(path, None if state[2] else DataFolder(jail, path, is_named=False))
                    for name, path in local.folders.items()
                },
            )
        return self._folders[1]

    def notes(self) -> list[str]:
        """Return a sentence about each thing that is passed over."""
        root = self.root()
        local = self._read(root)
        notes = list(root.passed_over)
        if local is None:
            return notes
        if local.passed_over or local.problem:
            return [*notes, local.passed_over or local.problem]
        outside = None if self._is_trusted(local, root) else self._outside(local, root)
        notes += [] if outside is None else outside.notes()
        for name, folder in self.folders().items():
            is_told = outside is not None and name in outside.places
            if not is_told and folder.refusal() is not None:
                notes.append(f"[packages] {echo(name)} in {LOCAL_FILE} is not used: {_REFUSED}")
        return notes

    def _read(self, root: AlcRoot) -> LocalFile | None:
        if root.folder is None:
            return None
        self._known = read_local(root.folder, self._known)
        return self._known

    def _outside(self, local: LocalFile, root: AlcRoot) -> PlacesFile | None:
        """Return what the file names outside; looked up again only when the file changes."""
        if self._places is None or self._places[0] is not local:
            self._places = local, _outside(local, root.jail(self._project).root)
        return self._places[1]

    def _is_trusted(self, local: LocalFile, root: AlcRoot) -> bool:
        trusts = self._project.trusts
        return trusts is not None and self._outside(local, root) is not None and trusts(local.path, local.digest)


def read_local(folder: str, known: LocalFile | None) -> LocalFile | None:
    """Read the file in a folder, unless it is known and has not changed; None if there is none.

    Whatever is wrong with it is remembered too: a file that takes long to refuse is refused once.
    """
    path = os.path.join(folder, LOCAL_FILE)
    try:
        seen = files.stamp_of(os.lstat(path))  # cheaper than to open the folder, and mostly enough
    except OSError:
        return None
    if known is not None and (known.path, known.stamp) == (path, seen):
        return known
    try:
        with Root(folder, absolute_links=True) as root, root.open((LOCAL_FILE,)) as opened:
            return _parsed(path, files.stamp_of(opened.stat), opened, folder)
    except (Missing, OSError) as error:
        if isinstance(error, Missing) or error.errno in GONE:
            return None
        reason = error.strerror or "unknown error"
    except Outside:
        return _passed_over(LocalFile(UNREAD, path, "", {}), _ASTRAY)
    except Special:
        reason = files.NOT_REGULAR
    except Unreadable as error:
        reason = os.strerror(error.errno)
    return LocalFile(UNREAD, path, "", {}, problem=f"failed to read {LOCAL_FILE}: {reason}")


def _passed_over(local: LocalFile, why: str) -> LocalFile:
    return LocalFile(local.stamp, local.path, "", {}, passed_over=f"{LOCAL_FILE} is not used: {why}")


def _parsed(path: str, stamp: Stamp, opened: Opened, folder: str) -> LocalFile:
    unread = LocalFile(stamp, path, "", {})
    problem = ""
    if not belongs_here(opened.stat, os.stat(folder).st_uid):
        return _passed_over(unread, _FOREIGN)
    if opened.is_folder:
        problem = f"failed to read {LOCAL_FILE}: {files.NOT_REGULAR}"
    elif opened.stat.st_size > MAX_BYTES:
        problem = f"failed to read {LOCAL_FILE}: it is larger than {MAX_BYTES} bytes"
    else:
        data = opened.read(0, MAX_BYTES)
        try:
            named = {name: os.path.join(folder, place) for name, place in _packages(data).items()}
            return LocalFile(stamp, path, sha256(data).hexdigest(), named)
        except Failed as error:
            problem = f"failed to read {LOCAL_FILE}: {error.reason}"
        except toml.TomlError as error:
            problem = f"malformed {LOCAL_FILE}: {error}"
    return LocalFile(stamp, path, "", {}, problem=problem)


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
