"""Messages and log lines on stderr, without control characters that a terminal would obey.

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
    """Print the traceback of an error."""
    say("".join(traceback.format_exception(error)).rstrip("\n"))


class _Printable(logging.Formatter):
    """Formats records without control characters."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def set_up_logging(*, is_debug: bool) -> None:
    """Send log records to stderr: warnings and errors, or everything with `is_debug`."""
    if is_debug:
        handler: logging.Handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_Printable(logging.BASIC_FORMAT))
        logging.basicConfig(level=logging.DEBUG, handlers=[handler])
    elif logging.lastResort is not None:
        logging.lastResort.setFormatter(_Printable())
