"""A host's settings file: read with care, replaced as a whole or not at all.

A file is not written if it is broken, read-only, of another owner, a link out of the project, or changed since it was
read. The first original is kept beside it once.
"""

import contextlib
import os
import stat
from typing import Final

from carrel.connect.errors import BrokenFile, NotWritten
from carrel.core.record import Value
from carrel.files.atomic import new_private

MAX_BYTES: Final = 64 * 1024 * 1024
KEPT: Final = ".before-carrel"
"""The ending of the name under which the first original is kept."""
_NEW_MODE: Final = {"user": 0o600, "project": 0o644}


class SettingsFile(Value, frozen=True):
    """A settings file as it was when it was read; `content` is None if there was none."""

    path: str
    """The path of the file itself, after following links."""
    content: bytes | None
    status: os.stat_result | None

    @property
    def text(self) -> str:
        """The text, an empty one if there is no file; raise BrokenFile if it is not UTF-8."""
        try:
            return (self.content or b"").decode()
        except UnicodeDecodeError as error:
            raise BrokenFile(f"it is not UTF-8 (byte {error.start})") from None


def read_settings(path: str, *, below: str | None = None) -> SettingsFile:
    """Return the file at a path. With `below`, refuse a link that leads out of that folder."""
    real = os.path.realpath(path)
    if below is not None and os.path.commonpath([real, os.path.realpath(below)]) != os.path.realpath(below):
        raise NotWritten(f"{path}: is a link out of the project; add the entry to {real} yourself, or use --user")
    if os.path.islink(path) and not os.path.exists(real):
        raise NotWritten(f"{path}: is a link to {real}, which does not exist; make that file or remove the link")
    try:
        descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return SettingsFile(real, None, None)
    except OSError as error:
        raise NotWritten(f"{path}: cannot be read: {error.strerror}") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise NotWritten(f"{path}: is not a file")
    with open(descriptor, "rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise NotWritten(f"{path}: is larger than {MAX_BYTES} bytes")
    return SettingsFile(real, content, status)


def check_writable(file: SettingsFile) -> None:
    """Raise NotWritten if a file must not be written."""
    if file.status is None:
        return
    if file.status.st_uid != os.geteuid():
        raise NotWritten(f"{file.path}: belongs to another user; ask its owner, or change it with `chown` first")
    if not file.status.st_mode & stat.S_IWUSR:
        raise NotWritten(f"{file.path}: is read-only; make it writable with `chmod u+w`, then try again")
    if file.status.st_nlink > 1:
        raise NotWritten(f"{file.path}: has several names (hard links), and would lose them; add the entry by hand")


def write_settings(file: SettingsFile, text: str, scope: str, *, is_private: bool = False) -> SettingsFile:
    """Replace a file by a text, and return the new file; its owner, mode and attributes stay.

    With `is_private`, only the owner may read it afterwards. Raise NotWritten if it has changed meanwhile.
    """
    check_writable(file)
    mode = _NEW_MODE[scope] if file.status is None else stat.S_IMODE(file.status.st_mode)
    mode = mode & 0o600 if is_private else mode
    try:
        os.makedirs(os.path.dirname(file.path), exist_ok=True)
        with new_private(file.path, mode) as target:
            target.write(text)
            _keep_owner(file, target.fileno(), mode)
            check_unchanged(file)
    except OSError as error:
        raise NotWritten(f"{file.path}: cannot be written: {error.strerror}; nothing was changed") from None
    return read_settings(file.path)


def check_unchanged(file: SettingsFile) -> None:
    """Raise NotWritten if a file is not what it was when it was read."""
    if read_settings(file.path).content != file.content:
        raise NotWritten(f"{file.path}: was changed by another program meanwhile; run the command again")


def keep_original(file: SettingsFile) -> str | None:
    """Copy a file to `FILE.before-carrel`, unless there is one already; return the path of a new copy."""
    kept = file.path + KEPT
    if file.content is None or file.status is None or os.path.lexists(kept):
        return None
    mode = stat.S_IMODE(file.status.st_mode)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(kept, flags, 0o600), "wb") as copy:
            copy.write(file.content)
            _keep_owner(file, copy.fileno(), mode)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(kept)
        raise NotWritten(f"{kept}: the original cannot be kept: {error.strerror}; nothing was changed") from None
    return kept


def delete_settings(file: SettingsFile) -> None:
    """Delete a file; raise NotWritten if it has changed since it was read."""
    check_writable(file)
    check_unchanged(file)
    try:
        os.unlink(file.path)
    except OSError as error:
        raise NotWritten(f"{file.path}: cannot be deleted: {error.strerror}") from None


def _keep_owner(file: SettingsFile, descriptor: int, mode: int) -> None:
    if file.status is not None:
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, file.status.st_uid, file.status.st_gid)
        if hasattr(os, "listxattr"):
            with contextlib.suppress(OSError):
                for name in os.listxattr(file.path):
                    os.setxattr(descriptor, name, os.getxattr(file.path, name))
    os.fchmod(descriptor, mode)
