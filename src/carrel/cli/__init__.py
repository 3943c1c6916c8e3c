"""The command line. `serve` skips click and rich, so that a host gets its first answer sooner."""

import gc
import os
import sys
from collections.abc import Sequence
from typing import Literal, TextIO

from carrel.cli import exit_codes


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _replace_closed_streams()
    try:
        code = _run(words)
        sys.stdout.flush()
        if arguments is None and "serve" in words:
            from carrel.transports.shutdown import exit_in_time  # only in a server process

            exit_in_time(code)
        return code
    except KeyboardInterrupt:
        return exit_codes.INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe, as `head` does. That is no failure.
        _drop_output()
        return exit_codes.DONE
    except Exception as error:
        from carrel.cli.failures import report  # only on failure

        code = report(error, is_debug="--debug" in words or bool(os.environ.get("CARREL_DEBUG")))
        if isinstance(error, OSError):
            _drop_output()
        return code


def _run(words: list[str]) -> int:
    _refuse_other_encodings(words)
    if words[:1] == ["serve"] and "--help" not in words and "-h" not in words:
        # Nothing is garbage yet: to look for it while modules are loaded takes as long as loading ten of them.
        gc.disable()
        try:
            from carrel.cli.serve import run  # without click

            return run(words[1:])
        finally:
            gc.enable()
    from carrel.cli.app import run_app  # click and rich, which serve must not wait for

    return run_app(words)


def _refuse_other_encodings(words: list[str]) -> None:
    """Raise ConfigError for an argument that is not UTF-8, except the value of --project and the words of `run`."""
    names_folder = False
    for word in words if words[:1] != ["run"] else ():
        is_utf8 = word.isascii() or not any("\ud800" <= one <= "\udfff" for one in word)
        if not is_utf8 and not names_folder and not word.startswith("--project="):
            from carrel.core.errors import ConfigError  # only on failure

            raise ConfigError(f"this argument is not UTF-8: {os.fsencode(word).decode(errors='backslashreplace')}")
        names_folder = word == "--project"


def _replace_closed_streams() -> None:
    """Open /dev/null for closed standard streams, so that no other file gets their descriptors."""
    if sys.stdin is None:
        sys.stdin = _open_nothing("r")
    if sys.stdout is None:
        sys.stdout = _open_nothing("w")
    if sys.stderr is None:
        sys.stderr = _open_nothing("w")


def _open_nothing(mode: Literal["r", "w"]) -> TextIO:
    return os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8")


def _drop_output() -> None:
    """Send the remaining output to /dev/null, so that flushing it at exit cannot fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
