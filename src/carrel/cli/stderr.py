"""Messages and log lines on stderr, without control characters that a terminal would interpret.

Imported by `serve`, so it imports no CLI package, and `logging` and `traceback` only when they are used.
"""

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from carrel.core.printable import printable


def say(text: str) -> None:
    """Print a message."""
    print(printable(text), file=sys.stderr, flush=True)


def say_traceback(error: Exception) -> None:
    """Print the traceback of an error."""
    import traceback  # only on failure

    say("".join(traceback.format_exception(error)).rstrip("\n"))


class PrintableText(io.TextIOWrapper):
    """Writes to another stream, which stays open, without control characters."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream.buffer, stream.encoding, "backslashreplace", line_buffering=True)

    def write(self, text: str) -> int:
        """Write the text with each control character as an escape."""
        super().write(printable(text))
        return len(text)

    def close(self) -> None:
        """Write what is left; the other stream belongs to its owner."""
        self.flush()


@contextmanager
def printable_stderr() -> Iterator[None]:
    """Replace control characters in all that is written to stderr: messages, log records, and what providers print.

    The log needs no set-up then: `logging` prints warnings and errors on stderr by itself.
    """
    before = sys.stderr
    sys.stderr = PrintableText(before)
    try:
        yield
    finally:
        with suppress(OSError):
            sys.stderr.flush()
        sys.stderr = before


def log_everything() -> None:
    """Print all log records on stderr, also those for debugging."""
    import logging  # `serve` starts without it

    logging.basicConfig(level=logging.DEBUG)


def log_failures() -> None:
    """Print warnings and errors of the log on stderr, without control characters."""
    import logging  # as above

    handler = logging.StreamHandler(PrintableText(sys.stderr))
    handler.setLevel(logging.WARNING)
    logging.lastResort = handler
