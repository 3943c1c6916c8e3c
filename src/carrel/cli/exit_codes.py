"""Exit codes: 0 done, 1 could not be read or found, 2 usage or configuration, 70 a bug."""

from typing import Final

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
BUG: Final = 70
INTERRUPTED: Final = 130
