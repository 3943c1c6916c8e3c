"""Exit codes: 0 success, 1 not found or not readable, 2 wrong usage or configuration or no store, 70 a bug."""

from typing import Final

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
BUG: Final = 70
INTERRUPTED: Final = 130
