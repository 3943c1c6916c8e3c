"""`connect shell`: install the completion for the user's shell, and remove it.

The script is a separate file; one line in the start file of bash or zsh reads it.
"""

import contextlib
import difflib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterable
from typing import Final, Literal

from carrel.connect.errors import NotProved, NotWritten
from carrel.connect.journal import Inserted, Journal
from carrel.connect.places import Surroundings
from carrel.connect.settings_file import (
    SettingsFile,
    delete_settings,
    keep_original,
    read_settings,
    write_settings,
)
from carrel.core.record import Value

_MARK: Final = "# completion for carrel, written by `carrel connect shell`"
_PROOF_S: Final = 20.0
_PROOFS: Final = {
    "bash": (
        "--norc",
        'COMP_LINE="carrel con"; COMP_POINT=10; _carrel_completion; printf "%s\\n" "${COMPREPLY[@]}"',
    ),
    # Without a line editor, zsh has no completion: print what the function would hand to it.
    "zsh": (
        "-f",
        "words=(carrel con); CURRENT=2; PREFIX=con; _describe() { print -l -- $described; }; _carrel_completion",
    ),
    "fish": ("--no-config", "complete --do-complete 'carrel con'"),
}
"""For each shell the option that reads no start file, and the commands that print the completions of `carrel con`."""

Shell = Literal["bash", "zsh", "fish"]
SHELLS: Final[tuple[Shell, ...]] = ("bash", "zsh", "fish")
Script = Callable[[Shell], str]
"""Returns the script of a shell."""
Agrees = Callable[[Iterable[str]], bool]
"""Shows the lines of a change, and returns whether it may be made."""


class ShellFiles(Value, frozen=True):
    """The files of a shell: the script, and the start file that reads it, if the shell needs one."""

    shell: Shell
    script: str
    start: str | None


def files_of(around: Surroundings) -> ShellFiles:
    """Return the files for the user's login shell; raise NotWritten for a shell that is not known."""
    name = os.path.basename(around.environment.get("SHELL", "") or "bash")
    shell = next((one for one in SHELLS if one == name), None)
    if shell is None:
        raise NotWritten(f"{name} has no completion for Carrel; the known shells are {', '.join(SHELLS)}")
    data = around.environment.get("XDG_DATA_HOME", "")
    data = data if os.path.isabs(data) else os.path.join(around.home, ".local", "share")
    config = around.environment.get("XDG_CONFIG_HOME", "")
    config = config if os.path.isabs(config) else os.path.join(around.home, ".config")
    script = os.path.join(data, "carrel", f"completion.{shell}")
    if shell == "fish":
        return ShellFiles(shell, os.path.join(config, "fish", "completions", "carrel.fish"), None)
    if shell == "zsh":
        return ShellFiles(shell, script, os.path.join(around.environment.get("ZDOTDIR") or around.home, ".zshrc"))
    return ShellFiles(shell, script, os.path.join(around.home, ".bashrc"))


def set_up(around: Surroundings, script_of: Script, agrees: Agrees, *, is_removal: bool) -> dict[str, object]:
    """Install the completion, or remove it, and return what happened."""
    try:
        files = files_of(around)
        journal = Journal(around.environment)
        return _remove(files, agrees, journal) if is_removal else _install(files, script_of, agrees, journal)
    except (NotWritten, NotProved) as error:
        return {"state": "failed", "message": f"shell: {error}"}


def _install(files: ShellFiles, script_of: Script, agrees: Agrees, journal: Journal) -> dict[str, object]:
    script, start = read_settings(files.script), _start(files)
    wanted = script_of(files.shell)
    after = None if start is None else _with_line(start.text, files.script)
    changes = [_diff(script, wanted), *([] if start is None or after is None else [_diff(start, after)])]
    lines = [line for change in changes for line in change]
    if lines and not agrees(lines):
        return {"state": "failed", "message": f"shell: {files.script} was not written; use --yes"}
    written = write_settings(script, wanted, "project") if script.text != wanted else script
    try:
        took = _prove(files)
        if start is not None and after is not None and start.text != after:
            keep_original(start)
            write_settings(start, after, "project")
            journal.note(start.path, Inserted(after[len(start.text) :], is_new=start.content is None))
    except BaseException:
        if script.content is None:
            delete_settings(written)
        elif written is not script:
            write_settings(written, script.text, "project")
        raise
    where = f" from {start.path}" if start is not None else ""
    message = f"shell: completion for {files.shell} is set up{where}; {took}. It works in every new shell"
    return {"state": "connected", "message": message, "files": [files.script, *([start.path] if start else [])]}


def _remove(files: ShellFiles, agrees: Agrees, journal: Journal) -> dict[str, object]:
    script, start = read_settings(files.script), _start(files)
    note = Inserted("") if start is None else journal.find(start.path)
    piece = note.piece if start is not None and note.piece in start.text else ""
    after = None if start is None else start.text.replace(piece or _line(files.script), "", 1)
    lines = [] if script.content is None else _diff(script, "")
    lines += [] if start is None or after is None else _diff(start, after)
    if not lines:
        return {"state": "none", "message": "shell: completion was not set up"}
    if not agrees(lines):
        return {"state": "failed", "message": f"shell: {files.script} was not removed; use --yes"}
    if start is not None and after is not None and after != start.text:
        if note.is_new and not after:
            delete_settings(start)
        else:
            write_settings(start, after, "project")
        journal.note(start.path, None)
    if script.content is not None:
        delete_settings(script)
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(script.path))
    return {"state": "removed", "message": f"shell: completion for {files.shell} was removed"}


def _start(files: ShellFiles) -> SettingsFile | None:
    return None if files.start is None else read_settings(files.start)


def _line(script: str) -> str:
    quoted = shlex.quote(script)
    return f"[ -r {quoted} ] && . {quoted}  {_MARK}\n"


def _with_line(text: str, script: str) -> str:
    line = _line(script)
    return text if line in text else text + ("" if not text or text.endswith("\n") else "\n") + line


def _diff(file: SettingsFile, after: str) -> list[str]:
    before, lines = file.text.splitlines(), after.splitlines()
    return list(difflib.unified_diff(before, lines, file.path, file.path, lineterm=""))


def _prove(files: ShellFiles) -> str:
    """Complete `carrel con` in a real shell; raise NotProved if `connect` does not come out of it."""
    program = shutil.which(files.shell)
    if program is None:
        return f"{files.shell} is not on PATH, so it was not tried"
    option, commands = _PROOFS[files.shell]
    tried = _run([program, option, "-c", f". {shlex.quote(files.script)}; {commands}"])
    if "connect" not in re.split(r"[\s:]+", tried.stdout):
        raise NotProved(f"{files.shell} completes nothing with the script; is `carrel` on PATH? {tried.stderr.strip()}")
    return "tried with `carrel con`"


def _run(command: list[str]) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=_PROOF_S, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotProved(f"{command[0]} cannot be run: {error}") from None
