"""Where a project is, and its file: looked for upwards, and read once.

What belongs to another user is passed over: into many a folder above, anybody may put a file.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from typing import Final

from carrel.digest import sha256
from carrel.errors import ConfigError
from carrel.sandbox import belongs_here
from carrel.toml import Table, TomlError, parse_toml
from carrel.value import Value

FILE_NAME: Final = "carrel.toml"
MAX_FILE_BYTES: Final = 1_048_576
_FOREIGN: Final = "it belongs to another user"
_ABROAD: Final = "its folder belongs to another user"
_ASTRAY: Final = "it is a link that leads out of its folder"


class ProjectFile(Value, frozen=True):
    """A project's file as it was read: what it says, and the hash of the very same bytes."""

    path: str
    table: Table
    digest: str


class Place(Value, frozen=True):
    """The root of a project, its file, and what is to be said of files that were passed over.

    A root that `is_too_much` is a whole home, or the whole machine, that nobody asked for.
    """

    root: str
    file: ProjectFile | None
    passed_over: tuple[str, ...]
    is_too_much: bool


def find(start: str, environment: Mapping[str, str]) -> Place:
    """Find the project around a folder; the working folder is one that nobody has named."""
    folder = os.path.realpath(start)
    home = os.path.realpath(environment.get("HOME") or os.path.expanduser("~"))
    passed_over: list[str] = []
    file = next(_project_files(folder, passed_over), None)
    if file is not None:
        return Place(os.path.dirname(file.path), file, tuple(passed_over), is_too_much=False)
    root = next((one for one in _upwards(folder) if not _is_all(one, home) and _is_repository(one)), folder)
    return Place(root, None, tuple(passed_over), is_too_much=start == os.curdir and _is_all(root, home))


def read_table(path: str) -> Table:
    """Read a file of settings that is the user's own."""
    try:
        with open(path, "rb") as file:
            return _parse(path, file.read())
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None


def _is_all(folder: str, home: str) -> bool:
    return folder in (home, os.path.dirname(folder))


def _project_files(folder: str, passed_over: list[str]) -> Iterator[ProjectFile]:
    for place in _upwards(folder):
        own, shared = os.path.join(place, FILE_NAME), os.path.join(place, "pyproject.toml")
        content, table = _read_own(own, passed_over), None
        part = _read_own(shared, passed_over, only_with=b"tool.carrel")
        if part is not None:
            table = _tool_table(shared, part)
        if content is not None and table is not None:
            raise ConfigError(f"{own}: pyproject.toml beside it has [tool.carrel] too; keep one of them")
        if content is not None:
            yield ProjectFile(own, _parse(own, content), sha256(content).hexdigest())
        elif table is not None and part is not None:
            yield ProjectFile(shared, table, sha256(part).hexdigest())


def _upwards(folder: str) -> Iterator[str]:
    """Give the folder and those above it."""
    while True:
        yield folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return
        folder = parent


def _is_repository(folder: str) -> bool:
    return _is_own(folder) and _is_own(os.path.join(folder, ".git"))


def _is_own(path: str) -> bool:
    try:
        return belongs_here(os.lstat(path))
    except OSError:
        return False


def _read_own(path: str, passed_over: list[str], only_with: bytes = b"") -> bytes | None:
    """Read a file, if there is one that holds this and is the user's own."""
    why_not = ""
    try:
        target, why_not = _look(path)
        content, is_own = _read(target)
    except FileNotFoundError:
        return None
    except OSError as error:
        if why_not and not only_with:
            passed_over.append(f"{path} is passed over: {why_not}")
        elif not only_with and _is_own(os.path.dirname(path)):
            raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
        return None
    if content is None or only_with not in content:
        return None
    if why_not or not is_own:
        passed_over.append(f"{path} is passed over: {why_not or _FOREIGN}")
        return None
    if len(content) > MAX_FILE_BYTES:
        raise ConfigError(f"{path}: is larger than {MAX_FILE_BYTES} bytes, which no settings need")
    return content


def _look(path: str) -> tuple[str, str]:
    """Give where a file is, and why it is to be passed over, if it is."""
    found = os.lstat(path)
    target = os.path.realpath(path) if stat.S_ISLNK(found.st_mode) else path
    if not belongs_here(found):
        return target, _FOREIGN
    folder = os.path.dirname(path)
    if not _is_own(folder):
        return target, _ABROAD
    return target, "" if os.path.dirname(target) == folder else _ASTRAY


def _read(path: str) -> tuple[bytes | None, bool]:
    """Give what is in a file, None if it is no regular one, and whether it is the user's own."""
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
    try:
        return parse_toml(content, MAX_FILE_BYTES)
    except TomlError as error:
        raise ConfigError(f"{path}: {error}") from None
