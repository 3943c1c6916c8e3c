"""What a failed command says, and its exit code. Imported only when one fails."""

import errno
import os
from typing import Final

from carrel.cli import exit_codes, stderr
from carrel.core.errors import BadArgument, CarrelError, ConfigError, RemoteError
from carrel.files.sandbox import is_inside
from carrel.files.userdirs import state_folder

_OUTPUT: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What goes wrong with a stream that is written to, where no file is named."""


def report(error: Exception, *, is_debug: bool) -> int:
    """Say what went wrong and what to do next; give the exit code."""
    if is_debug:
        stderr.say_traceback(error)
    if isinstance(error, CarrelError):
        say(str(error))
        is_usage = isinstance(error, ConfigError | BadArgument) or (
            isinstance(error, RemoteError) and error.word == "invalid"
        )
        return exit_codes.USAGE if is_usage else exit_codes.FAILED
    told = _about_this_machine(error)
    if told:
        say(told)
        return exit_codes.FAILED
    say(f"unexpected {type(error).__name__}: {error}")
    say("this is a bug; --debug shows where. Please report it with that output.")
    return exit_codes.BUG


def say(text: str) -> None:
    """Print a message on stderr, as Carrel's."""
    stderr.say(f"carrel: {text}")


def _about_this_machine(error: Exception) -> str:
    """Say what the user can mend where a file, the disk or the terminal is at fault; nothing for a bug."""
    if isinstance(error, UnicodeEncodeError) and error.encoding != "utf-8":
        character = error.object[error.start]
        return f"the output's encoding, {error.encoding}, has no U+{ord(character):04X}; set PYTHONIOENCODING=utf-8"
    if not isinstance(error, OSError):
        return ""
    if isinstance(error.filename, str):
        return f"{error.filename}: {error.strerror}{_advice(error.filename)}"
    return f"the output cannot be written: {error.strerror}" if error.errno in _OUTPUT else ""


def _advice(path: str) -> str:
    state = state_folder(os.environ)
    if not (is_inside(state, path) or is_inside(path, state)):
        return ""
    return "; tokens and trust are kept below it: let it be written to, or name another folder in XDG_STATE_HOME"
