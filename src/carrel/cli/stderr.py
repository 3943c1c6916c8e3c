"""What people read on stderr: messages and log lines, with nothing in them that a terminal obeys.

Imported by `serve`, so it imports no CLI package.
"""

import logging
import sys
import traceback

from carrel.core.printable import printable


def say(text: str) -> None:
    """Print a message."""
    print(printable(text), file=sys.stderr, flush=True)


def say_traceback(error: Exception) -> None:
    """Print where an error comes from."""
    say("".join(traceback.format_exception(error)).rstrip("\n"))


class _Printable(logging.Formatter):
    """Formats records as usual, and makes the outcome printable."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def set_up_logging(*, is_debug: bool) -> None:
    """Let log lines go to stderr: warnings and errors, with `is_debug` everything."""
    if is_debug:
        handler: logging.Handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_Printable(logging.BASIC_FORMAT))
        logging.basicConfig(level=logging.DEBUG, handlers=[handler])
    elif logging.lastResort is not None:
        logging.lastResort.setFormatter(_Printable())
