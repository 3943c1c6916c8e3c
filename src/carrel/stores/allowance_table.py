"""The allowances of callers in the store: one level for all replicas, which rises with time and falls with use."""

from collections.abc import Mapping
from typing import Final

from carrel.core.hashing import hex_sha256
from carrel.core.limits import COMPLETION_BURST, COMPLETIONS_PER_SECOND
from carrel.stores.database import Database

DEBT: Final = 10 * COMPLETION_BURST
"""How far below zero a level may fall, because several replicas gave what only one should have given."""
_EXCHANGE: Final = f"""
    INSERT INTO carrel_allowances AS a (caller, level, at)
    SELECT caller, {COMPLETION_BURST} - spent, clock_timestamp()
    FROM unnest(CAST(%s AS text[]), CAST(%s AS double precision[])) AS given(caller, spent) ORDER BY caller
    ON CONFLICT (caller) DO UPDATE SET at = greatest(a.at, excluded.at), level = greatest(-{DEBT},
      least({COMPLETION_BURST},
        a.level + {COMPLETIONS_PER_SECOND} * greatest(0, extract(epoch FROM excluded.at - a.at)))
      - ({COMPLETION_BURST} - excluded.level))
    RETURNING caller, level"""


class AllowanceTable:
    """One statement for all callers of a moment; it may raise `StoreUnavailable`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def exchange(self, spent: Mapping[str, int]) -> dict[str, float]:
        """Report what was given to callers, by name; return what each has left of all replicas, less than 0 for a debt.

        The rows are locked in one order, so that replicas never wait for each other in a circle.
        """
        names = {hex_sha256(name): name for name in spent}
        with self._database.connection() as connection:
            given = (list(names), [float(spent[name]) for name in names.values()])
            rows = connection.execute(_EXCHANGE.encode(), given).fetchall()
        return {names[caller]: float(level) for caller, level in rows}
