"""The message and the exit code of a failed command. Imported only when a command fails."""

import errno
import os
from typing import Final

from carrel.cli import exit_codes, stderr
from carrel.core.errors import BadArgument, CarrelError, ConfigError, RemoteError
from carrel.files.sandbox import is_inside
from carrel.files.userdirs import state_folder
from carrel.stores.store_errors import StoreUnavailable

_OUTPUT: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of writing to stdout. They name no file."""


def report(error: Exception, *, is_debug: bool) -> int:
    """Print what went wrong and what to do next; return the exit code."""
    if is_debug:
        stderr.say_traceback(error)
    if isinstance(error, CarrelError):
        say(error.detail if isinstance(error, StoreUnavailable) else str(error))
        is_usage = (
            isinstance(error, ConfigError | BadArgument)
            or (isinstance(error, RemoteError) and error.word == "invalid")
            or (isinstance(error, StoreUnavailable) and error.word == "unavailable")
        )
        return exit_codes.USAGE if is_usage else exit_codes.FAILED
    message = _system_failure(error)
    if message:
        say(message)
        return exit_codes.FAILED
    say(f"unexpected {type(error).__name__}: {error}")
    say("this is a bug in Carrel. Please report it with the output of the same command with --debug.")
    return exit_codes.BUG


def say(text: str) -> None:
    """Print a message on stderr with the program's name before it."""
    stderr.say(f"carrel: {text}")


def _system_failure(error: Exception) -> str:
    """Return a message if a file, the disk or the terminal failed; an empty text if the error is a bug."""
    if isinstance(error, UnicodeEncodeError) and error.encoding != "utf-8":
        character = error.object[error.start]
        return f"the output encoding {error.encoding} cannot show U+{ord(character):04X}; set PYTHONIOENCODING=utf-8"
    if not isinstance(error, OSError):
        return ""
    if isinstance(error.filename, str):
        return f"{error.filename}: {error.strerror}{_advice(error.filename)}"
    return f"cannot write the output: {error.strerror}" if error.errno in _OUTPUT else ""


def _advice(path: str) -> str:
    state = state_folder(os.environ)
    if not (is_inside(state, path) or is_inside(path, state)):
        return ""
    return "; Carrel keeps tokens and trust there: make it writable, or set XDG_STATE_HOME to another folder"
