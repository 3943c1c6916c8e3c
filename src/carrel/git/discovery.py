"""Find the git folder of a project without following anything out of it, unless it belongs to the user.

The sandbox opens a `.git` folder beneath the handle of its work tree: a link that leads outside is refused, and so is
a folder of another user. A `.git` file (of a linked work tree or a submodule) names a folder elsewhere. That folder is
used only if it belongs to this user and names the work tree in turn: a hostile repository can arrange that only for
folders that it contains. `commondir` is used only where git itself writes it. Bare repositories, alternates,
`core.worktree` of a plain repository and includes of the configuration are not followed.
"""

import os
import re
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final

from carrel.core.record import Value
from carrel.files import syscalls
from carrel.files.sandbox import Missing, Root, SandboxError, belongs_here, is_inside

DOT_GIT: Final = ".git"
_POINTER: Final = "gitdir: "
_WORKTREES: Final = "worktrees"
_MAX_POINTER: Final = 4_096
_MAX_CONFIG: Final = 262_144
_SECTION: Final = r'\[\s*([\w.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]\s*(.*)'
_ASSIGNED: Final = r"([A-Za-z][\w-]*)\s*=\s*(.*)"


class GitFolder(Value, frozen=True):
    """The folders of a repository: `own` has HEAD and the index, `shared` the objects, refs and configuration.

    `top` is the work tree, and `prefix` the path from there to the project's root.
    """

    top: Root
    prefix: tuple[str, ...]
    own: Root
    shared: Root

    def close(self) -> None:
        """Close every handle; a second call does nothing."""
        for root in (self.top, self.own, self.shared):
            root.close()


def find(folder: str, home: str) -> GitFolder | None:
    """Return the repository around a folder; above that folder, only one of this user, and not the home folder."""
    here, prefix = os.path.realpath(folder), tuple[str, ...]()
    while not os.path.lexists(os.path.join(here, DOT_GIT)):
        here, name = os.path.split(here)
        prefix = (name, *prefix)
        ceiling = os.path.realpath(home) if home else ""
        if here in (ceiling, os.path.dirname(here)) or not belongs_here(os.lstat(here)):
            return None
    return _open(here, prefix)


def _open(here: str, prefix: tuple[str, ...]) -> GitFolder | None:
    with ExitStack() as opened:
        top = opened.enter_context(Root(here, handle=os.open(here, syscalls.PASSING)))  # `here` is a real path
        try:
            own = opened.enter_context(top.below((DOT_GIT,)))
            shared = None if has(own.fd, "commondir") else opened.enter_context(own.below(()))
        except Missing:
            own = opened.enter_context(Root(_pointed(top, here)))
            shared = _shared_by(own, here)
        if shared is None:
            return None
        opened.pop_all()
        return GitFolder(top, prefix, own, shared)


def _pointed(top: Root, here: str) -> str:
    """Return the folder that a `.git` file names; raise `Missing` if git does not create such paths.

    Other folders are not even opened to see whether they name the work tree.
    """
    text = read_text(top, (DOT_GIT,), _MAX_POINTER)
    folder = os.path.realpath(os.path.join(here, text.removeprefix(_POINTER).rstrip("\r\n")))
    *above, _ = folder.split(os.sep)
    if not text.startswith(_POINTER) or not ("modules" in above or above[-1:] == [_WORKTREES]):
        raise Missing
    return folder


def _shared_by(own: Root, here: str) -> Root | None:
    """Return the folder with the objects for one that a `.git` file names; None if that one must not be used."""
    if not belongs_here(os.fstat(own.fd)):
        return None
    if not has(own.fd, "commondir"):
        worktree = read_config(own).get("core.worktree", "")  # of a submodule
        return own.below(()) if worktree and _is_at(os.path.join(own.path, worktree), here) else None
    back = read_text(own, ("gitdir",), _MAX_POINTER).rstrip("\r\n")
    holder = os.path.dirname(own.path)
    above = os.path.dirname(holder)
    is_linked = (
        os.path.basename(holder) == _WORKTREES
        and read_text(own, ("commondir",), _MAX_POINTER).strip() == "../.."
        and os.path.basename(back) == DOT_GIT
        and _is_at(os.path.join(own.path, os.path.dirname(back)), here)
        and (is_inside(above, here) or not is_inside(own.path, here))
    )
    shared = Root(above) if is_linked else None
    if shared is not None and not belongs_here(os.fstat(shared.fd)):
        shared.close()
        return None
    return shared


def _is_at(place: str, folder: str) -> bool:
    return os.path.realpath(place) == folder


def has(folder: int, name: str) -> bool:
    """Return whether an open folder has an entry of this name, of any kind."""
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def read_text(root: Root, segments: tuple[str, ...], limit: int) -> str:
    """Return at most `limit` bytes of a regular file as text; raise `SandboxError` if there is none."""
    with root.open(segments) as opened:
        if opened.is_folder:
            raise Missing
        return opened.read(0, limit).decode(errors="surrogateescape")


def read_config(shared: Root) -> Mapping[str, str]:
    """Return the plain part of the repository's own configuration: no includes, no continued lines."""
    try:
        text = read_text(shared, ("config",), _MAX_CONFIG)
    except SandboxError:
        return {}
    values: dict[str, str] = {}
    section = ""
    for line in map(str.strip, text.split("\n")):
        found = re.match(_SECTION, line)
        if found is not None:
            section = found[1].lower() + (f".{found[2]}" if found[2] is not None else "")
            line = found[3]  # noqa: PLW2901 a key may follow on the same line
        assigned = re.match(_ASSIGNED, line)
        if assigned is not None and section:
            values[f"{section}.{assigned[1].lower()}"] = _plain(assigned[2])
    return values


def _plain(value: str) -> str:
    """Return a value without quotes and without the comment after it."""
    if value.startswith('"'):
        return value[1:].partition('"')[0]
    return re.split(r"\s[#;]", value, maxsplit=1)[0].strip()
