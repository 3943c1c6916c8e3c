"""Finds the root of a project and reads its settings file.

The root is the nearest folder, from the working folder upwards, with a mark of a project: a settings file, or one of
`MARKS`. A folder given by the user is the root itself. Marks of other users are ignored, because anybody may put a file
into a folder such as `/tmp`. A home folder, or `/`, is a root only if its settings file or the user says so.
"""

import os
import stat
from collections.abc import Container, Mapping
from itertools import islice
from typing import Final

from carrel.core.errors import ConfigError
from carrel.core.hashing import sha256
from carrel.core.record import Value
from carrel.files.marks import find_mark, upwards, working_folder
from carrel.files.sandbox import belongs_here

FILE_NAME: Final = "carrel.toml"
MAX_FILE_BYTES: Final = 1_048_576
MARKS: Final = (".carrel", ".sage", "pubspec.yaml", "alc.toml", ".git")
"""Files and folders that mark the root of a project, besides a settings file."""
NAMED_BY_HOST: Final = "CLAUDE_PROJECT_DIR"
"""The variable in which Claude Code names the folder it works in."""
MAX_SUBFOLDERS: Final = 200
MAX_NOTES: Final = 5

_DATA: Final = {
    ".sage": ("memory", "sage.dir"),
    os.path.join(".carrel", "scopes.db"): ("tasks", "scopes.db"),
    "pubspec.yaml": ("a Flutter project", ""),
    "alc.toml": ("algocline packages", "alc.project_root"),
    FILE_NAME: ("settings", ""),
}
"""Data worth a note in a folder above the root or directly below it, and the setting that names its place."""
_FOREIGN: Final = "it belongs to another user"
_FOREIGN_FOLDER: Final = "its folder belongs to another user"
_LEAVES_FOLDER: Final = "it is a link out of its folder"


Table = dict[str, object]


class ProjectFile(Value, frozen=True):
    """A project's settings file: its content, and the hash of the same bytes."""

    path: str
    table: Table
    digest: str


class Place(Value, frozen=True):
    """The root of a project, its settings file, and notes about settings files that are not used.

    `is_too_much` marks a home folder or `/` that the user did not ask for.
    """

    root: str
    file: ProjectFile | None
    passed_over: tuple[str, ...]
    is_too_much: bool


def find(named: str | None, environment: Mapping[str, str]) -> Place:
    """Return the project: the folder `named`, or the project that contains the working folder."""
    home = _home(environment)
    folders = _candidates(named, environment)
    passed_over: list[tuple[str, str]] = []
    for folder in folders:
        file = _project_file(folder, passed_over)
        is_marked = _is_own(folder) and any(_is_own_at(folder, mark) for mark in MARKS)
        if file is not None or (is_marked and not _is_home_or_top(folder, home)):
            return Place(folder, file, _relative(passed_over, folder), is_too_much=False)
    root = folders[0]
    return Place(root, None, _relative(passed_over, root), is_too_much=named is None and _is_home_or_top(root, home))


def _relative(passed_over: list[tuple[str, str]], root: str) -> tuple[str, ...]:
    """Return a note for each file that is not used, with a relative path, because clients see the notes too."""
    return tuple(f"{os.path.relpath(path, root)} is not used: {why}" for path, why in passed_over)


def elsewhere(root: str, environment: Mapping[str, str], given: Container[str], *, is_from_here: bool) -> list[str]:
    """Return a note for each folder above the root or directly below it whose data is not served.

    Data whose place the settings `given` name is served. The commands are for the root, or for the working folder.
    """
    import shlex  # not at the start of a server

    home = _home(environment)
    named = ((name, what) for name, (what, setting) in _DATA.items() if setting not in given)
    missing = {name: what for name, what in named if not os.path.lexists(os.path.join(root, name))}
    if environment.get("ALC_PROJECT_ROOT") or find_mark(working_folder(root), "alc.toml", root).folder is not None:
        missing.pop("alc.toml", None)  # that one is in use, wherever it lies
    notes = []
    for folder in (*list(upwards(root))[1:], *_subfolders(root)):
        way = os.path.relpath(folder, root)
        command = f"carrel serve --project {shlex.quote(_from_here(folder) if is_from_here else way)}"
        wanted = missing
        if _is_home_or_top(folder, home):  # serve its memory without its files
            command = "carrel serve --set sage.dir=~/.sage"
            wanted = {name: what for name, what in missing.items() if name == ".sage" and folder == home}
        found = [f"{os.path.join(way, name)} ({what})" for name, what in wanted.items() if _is_own_at(folder, name)]
        if found:
            verb, pronoun = ("is", "it") if len(found) == 1 else ("are", "them")
            notes.append(f"{' and '.join(found)} {verb} not served here; to serve {pronoun}: {command}")
    return notes[:MAX_NOTES]


def _from_here(folder: str) -> str:
    """Return the shortest path of a folder."""
    try:
        return min(os.path.relpath(folder), folder, key=len)
    except FileNotFoundError:  # the working folder was deleted
        return folder


def _home(environment: Mapping[str, str]) -> str:
    return os.path.realpath(environment.get("HOME") or os.path.expanduser("~"))


def _candidates(named: str | None, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the folders that may be the root, the most likely first."""
    by_host = environment.get(NAMED_BY_HOST, "")
    if named is not None:
        return (os.path.realpath(named),)
    if by_host and os.path.isdir(by_host):
        return (os.path.realpath(by_host),)
    try:
        return tuple(upwards(os.path.realpath(os.getcwd())))
    except FileNotFoundError:
        raise ConfigError(
            "the working folder no longer exists; change to another folder, or give one with --project"
        ) from None


def _is_own_at(folder: str, name: str) -> bool:
    return _is_own(os.path.join(folder, name))


def _subfolders(root: str) -> list[str]:
    try:
        with os.scandir(root) as entries:
            seen = islice((one for one in entries if one.name[0] != "."), MAX_SUBFOLDERS)
            return sorted(one.path for one in seen if one.is_dir(follow_symlinks=False))
    except OSError:
        return []


def read_table(path: str) -> Table:
    """Return the settings in the user's own file."""
    try:
        with open(path, "rb") as file:
            return _parse(path, file.read())
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None


def _is_home_or_top(folder: str, home: str) -> bool:
    return folder in (home, os.path.dirname(folder))


def _project_file(folder: str, passed_over: list[tuple[str, str]]) -> ProjectFile | None:
    """Return the settings file in a folder, or None."""
    own, shared = os.path.join(folder, FILE_NAME), os.path.join(folder, "pyproject.toml")
    content, table = _read_own(own, passed_over), None
    part = _read_own(shared, passed_over, only_with=b"tool.carrel")
    if part is not None:
        table = _tool_table(shared, part)
    if content is not None and table is not None:
        raise ConfigError(f"{own}: the pyproject.toml in the same folder has [tool.carrel] too; keep one of them")
    if content is not None:
        return ProjectFile(own, _parse(own, content), sha256(content).hexdigest())
    if table is not None and part is not None:
        return ProjectFile(shared, table, sha256(part).hexdigest())
    return None


def _is_own(path: str) -> bool:
    try:
        return belongs_here(os.lstat(path))
    except OSError:
        return False


def _read_own(path: str, passed_over: list[tuple[str, str]], only_with: bytes = b"") -> bytes | None:
    """Return a file if it contains `only_with` and belongs to the user; do not open a link out of its folder."""
    why_not = ""
    try:
        target, why_not = _look(path)
        if why_not == _LEAVES_FOLDER:
            if not only_with and os.path.exists(target):  # only opening it would show whether it has our table
                passed_over.append((path, why_not))
            return None
        content, is_own = _read(target)
    except FileNotFoundError:
        return None
    except OSError as error:
        if why_not and not only_with:
            passed_over.append((path, why_not))
        elif not only_with and _is_own(os.path.dirname(path)):
            raise ConfigError(f"cannot read {path}: {error.strerror}") from None
        return None
    if content is None or only_with not in content:
        return None
    if why_not or not is_own:
        passed_over.append((path, why_not or _FOREIGN))
        return None
    if len(content) > MAX_FILE_BYTES:
        raise ConfigError(f"{path}: is larger than {MAX_FILE_BYTES} bytes, the limit for a settings file")
    return content


def _look(path: str) -> tuple[str, str]:
    """Return the target of a path, and the reason not to use it, if there is one."""
    found = os.lstat(path)
    target = os.path.realpath(path) if stat.S_ISLNK(found.st_mode) else path
    if not belongs_here(found):
        return target, _FOREIGN
    folder = os.path.dirname(path)
    if not _is_own(folder):
        return target, _FOREIGN_FOLDER
    return target, "" if os.path.dirname(target) == folder else _LEAVES_FOLDER


def _read(path: str) -> tuple[bytes | None, bool]:
    """Return a file's content, or None if it is not a regular file, and whether it belongs to the user."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        return (_whole(descriptor) if stat.S_ISREG(found.st_mode) else None), belongs_here(found)
    finally:
        os.close(descriptor)


def _whole(descriptor: int) -> bytes:
    content = b""
    while len(content) <= MAX_FILE_BYTES and (part := os.read(descriptor, MAX_FILE_BYTES + 1)):
        content += part
    return content


def _tool_table(path: str, content: bytes) -> Table | None:
    tool = _parse(path, content).get("tool")
    table = tool.get("carrel") if isinstance(tool, dict) else None
    return table if isinstance(table, dict) else None


def _parse(path: str, content: bytes) -> Table:
    from carrel.core import toml  # only if there is a file

    try:
        return toml.loads(content.decode("utf-8-sig"))
    except toml.TomlError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from None
