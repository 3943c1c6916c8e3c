"""The tables of the store: one numbered module for each version, applied in order, each in the same transaction.

To add tables, add `m000N_<what>.py` with `STATEMENTS`, and name it below. A module that was released is never changed.
"""

import re
from typing import Final

from carrel.stores.migrations import (
    m0001_changes,
    m0002_scopes,
    m0003_documents,
    m0004_sessions,
    m0005_tokens,
    m0006_logs,
    m0007_audit,
    m0008_allowances,
)

MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    m0001_changes.STATEMENTS,
    m0002_scopes.STATEMENTS,
    m0003_documents.STATEMENTS,
    m0004_sessions.STATEMENTS,
    m0005_tokens.STATEMENTS,
    m0006_logs.STATEMENTS,
    m0007_audit.STATEMENTS,
    m0008_allowances.STATEMENTS,
)
"""The statements that lead from version N to version N + 1, at index N."""

TABLES: Final = tuple(re.findall(r"CREATE (?:UNLOGGED )?TABLE (\w+)", "".join("".join(one) for one in MIGRATIONS)))
VERSION: Final = len(MIGRATIONS)
"""The version that this code reads and writes."""
