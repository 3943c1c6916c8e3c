"""Plan a change of a host's settings, make it, prove it, and take it back if it does not work."""

import contextlib
import difflib
import json
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath
from typing import Literal, TypeVar

from carrel.connect import splice
from carrel.connect.entries import holds_token, http_entry, launch_of, stdio_entry, target_of
from carrel.connect.errors import BrokenFile, NotProved, NotSpliceable, NotWritten
from carrel.connect.hosts import TOKEN_VARIABLE, HostFacts, Scope
from carrel.connect.journal import Inserted, Journal
from carrel.connect.places import Surroundings, settings_path
from carrel.connect.program import lasting_program
from carrel.connect.proof import Proof, prove
from carrel.connect.settings_file import (
    SettingsFile,
    check_writable,
    delete_settings,
    keep_original,
    read_settings,
    write_settings,
)
from carrel.connect.splice import Entry
from carrel.core.record import Value, replace

_Kind = TypeVar("_Kind")
Action = Literal["add", "change", "keep", "remove", "none"]


class SettingsChange(Value, frozen=True):
    """A change of a settings file that is planned: nothing is written yet."""

    host: HostFacts
    scope: Scope
    action: Action
    file: SettingsFile
    after: str | None
    """The new text; None to delete the file."""
    inserted: Inserted | None = None
    is_private: bool = False
    """Whether the entry holds a token."""

    def diff(self, secret: str | None = None) -> list[str]:
        """Return the change as lines of a unified diff, without a secret."""
        before, after = self.file.text.splitlines(), (self.after or "").splitlines()
        lines = difflib.unified_diff(before, after, self.file.path, self.file.path, lineterm="")
        return [line if not secret else line.replace(secret, "…") for line in lines]


class HostEntry(Value, frozen=True):
    """An entry of ours in a host's file."""

    scope: Scope
    path: str
    entry: Entry


def default_scope(host: HostFacts, around: Surroundings) -> Scope:
    """Return where an entry goes by default; raise NotWritten in a home folder, which is not a project."""
    if host.default == "project" and around.folder in (around.home, "/"):
        raise NotWritten(
            f"{host.title} is connected in a project, but {around.folder} is not one; start in a project, or use --user"
        )
    return host.default


def entry_for(
    host: HostFacts, scope: Scope, url: str | None, around: Surroundings, objects: Sequence[str] = ()
) -> Entry:
    """Return the entry to write: for a running server, or for this Carrel, with Python objects to serve besides."""
    if url is not None:
        return http_entry(host, url, around.environment.get(TOKEN_VARIABLE) or None, scope)
    return stdio_entry(host, lasting_program(around.environment), around, objects)


def plan_connection(host: HostFacts, scope: Scope, entry: Entry, around: Surroundings) -> SettingsChange:
    """Return the change that connects a host; raise NotWritten if its file cannot be changed."""
    file = _settings(host, scope, around)
    target, note = target_of(host), Journal(around.environment).find(file.path)

    def change() -> SettingsChange:
        found = splice.find(file.text, target)
        wanted = {"name": target.name, **entry} if target.is_listed else dict(entry)
        if found is not None and dict(found) == wanted:
            return SettingsChange(host, scope, "keep", file, file.text, replace(note, entry=_as_json(wanted)))
        text = file.text
        if found is not None and note.piece and note.piece in text:
            text = splice.remove(text, target, note.piece, note.made)
        spliced = splice.add(text, target, entry)
        made = spliced.made if found is None else max(spliced.made, note.made)
        is_new = file.content is None or (found is not None and note.is_new)
        folders = max(note.folders if found is not None else 0, len(_missing_folders(os.path.dirname(file.path))))
        is_private = holds_token(host, entry)
        mode = note.mode if found is not None else None
        if mode is None and is_private and file.status is not None:
            mode = stat.S_IMODE(file.status.st_mode)
        inserted = Inserted(spliced.piece, made, is_new, _as_json(wanted), folders, mode)
        action: Action = "add" if found is None else "change"
        return SettingsChange(host, scope, action, file, spliced.text, inserted, is_private)

    return _named(file, change)


def plan_removal(host: HostFacts, scope: Scope, around: Surroundings) -> SettingsChange:
    """Return the change that removes our entry; its action is "none" if there is no entry."""
    file = _settings(host, scope, around)
    target, note = target_of(host), Journal(around.environment).find(file.path)

    def change() -> SettingsChange:
        if splice.find(file.text, target) is None:
            return SettingsChange(host, scope, "none", file, file.text)
        after = splice.remove(file.text, target, note.piece, note.made)
        is_left = not note.is_new or not splice.is_empty(after, target)
        return SettingsChange(host, scope, "remove", file, after if is_left else None)

    return _named(file, change)


def find_connection(host: HostFacts, scope: Scope, around: Surroundings) -> HostEntry | None:
    """Return our entry in a host's file; raise NotWritten if the file cannot be read."""
    path = settings_path(host, scope, around)
    if path is None or not os.path.exists(path):
        return None
    file = read_settings(path, below=around.folder if scope == "project" else None)
    entry = _named(file, lambda: splice.find(file.text, target_of(host)))
    return None if entry is None else HostEntry(scope, path, entry)


def prove_connection(host: HostFacts, connection: HostEntry, around: Surroundings) -> Proof:
    """Return the proof that an entry works; raise NotProved if it does not.

    An entry of a project's file may come from a stranger: what the user did not agree to on this machine is neither
    started nor sent the token.
    """
    agreed = Journal(around.environment).find(os.path.realpath(connection.path)).entry
    if connection.scope == "project" and agreed != _as_json(connection.entry):
        raise NotProved(
            f"the project's entry was not written by you, and was not tried; look at it, then run `carrel connect "
            f"{host.name} --project` to replace it by your own"
        )
    try:
        launch = launch_of(host, connection.entry, around)
    except NotWritten as error:
        raise NotProved(str(error)) from None
    return prove(host, launch, around.environment)


def carry_out(change: SettingsChange, around: Surroundings) -> None:
    """Make a change, and update the journal; nothing is proved."""
    journal = Journal(around.environment)
    note = journal.find(change.file.path)
    if change.after is None:
        delete_settings(change.file)
        _delete_empty(map(str, PurePath(change.file.path).parents[: note.folders]))
    else:
        write_settings(change.file, change.after, change.scope, is_private=change.is_private)
    if change.action == "remove" and change.after is not None and note.mode is not None:
        os.chmod(change.file.path, note.mode)
    journal.note(change.file.path, change.inserted)


def connect(change: SettingsChange, around: Surroundings) -> Proof:
    """Make a change that adds our entry, and prove it; take it back, and raise NotProved, if it does not work."""
    if change.action == "keep":
        Journal(around.environment).note(change.file.path, change.inserted)
        return prove_connection(change.host, _written(change, around), around)
    check_writable(change.file)
    before = Journal(around.environment).find(change.file.path)
    folders = _missing_folders(os.path.dirname(change.file.path))
    kept = keep_original(change.file)
    try:
        carry_out(change, around)
        return prove_connection(change.host, _written(change, around), around)
    except BaseException:
        _take_back(change, around, before if before.piece else None)
        for path in filter(None, [kept]):
            os.unlink(path)
        _delete_empty(folders)
        raise


def _take_back(change: SettingsChange, around: Surroundings, note: Inserted | None) -> None:
    """Write a file's earlier content again, unless another program has changed the file meanwhile."""
    now = read_settings(change.file.path)
    if now.content is None or now.content != (change.after or "").encode():
        return
    if change.file.content is None or change.file.status is None:
        delete_settings(now)
    else:
        write_settings(now, change.file.text, change.scope)
        os.chmod(change.file.path, stat.S_IMODE(change.file.status.st_mode))
    Journal(around.environment).note(change.file.path, note)


def _written(change: SettingsChange, around: Surroundings) -> HostEntry:
    """Return our entry as it stands in the file now."""
    found = find_connection(change.host, change.scope, around)
    if found is None:
        raise NotProved(f"{change.file.path}: our entry is not there any more")
    return found


def _as_json(entry: Entry) -> str:
    return json.dumps(entry, sort_keys=True)


def _settings(host: HostFacts, scope: Scope, around: Surroundings) -> SettingsFile:
    path = settings_path(host, scope, around)
    if path is None and host.by_hand:
        raise NotWritten(f"it has no settings file; use {host.by_hand}")
    if path is None:
        other = "--user" if scope == "project" else "--project"
        raise NotWritten(f"it has no {scope} settings that Carrel knows; use {other}")
    return read_settings(path, below=around.folder if scope == "project" else None)


def _named(file: SettingsFile, action: Callable[[], _Kind]) -> _Kind:
    """Call a function, and name the file in its errors."""
    try:
        return action()
    except BrokenFile as error:
        raise NotWritten(f"{file.path} is broken and was not touched: {error}; repair it, then try again") from None
    except NotSpliceable as error:
        raise NotWritten(f"{file.path} was not touched: {error}; add what --print shows by hand") from None


def _missing_folders(folder: str) -> list[str]:
    """Return the folders that must be made, the innermost first."""
    missing = []
    while folder and not os.path.exists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    return missing


def _delete_empty(folders: Iterable[str]) -> None:
    """Delete folders that we made, the innermost first, up to one that holds something."""
    with contextlib.suppress(OSError):
        for folder in folders:
            os.rmdir(folder)
