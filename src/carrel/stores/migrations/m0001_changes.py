"""Version 1: the generations of each kind of record, and the outbox of changes.

A writer begins with the update of its generation, whose row lock makes it the only writer of its kind. `xact` is the
transaction that wrote a change: a reader asks for the changes that its last snapshot did not see, so that a change
whose transaction began earlier and ended later is not missed.
"""

from typing import Final

STATEMENTS: Final = (
    """CREATE TABLE carrel_generations (
         kind text COLLATE "C" PRIMARY KEY,
         generation bigint NOT NULL DEFAULT 0)""",
    "INSERT INTO carrel_generations (kind) VALUES ('scopes'), ('sage'), ('logs')",
    """CREATE TABLE carrel_outbox (
         id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
         xact xid8 NOT NULL DEFAULT pg_current_xact_id(),
         written_at timestamptz NOT NULL DEFAULT now(),
         scheme text COLLATE "C" NOT NULL,
         uri text COLLATE "C" NOT NULL)""",
    "CREATE INDEX carrel_outbox_xact ON carrel_outbox (xact)",
    "CREATE INDEX carrel_outbox_written_at ON carrel_outbox (written_at)",
    "CREATE TABLE carrel_outbox_pruned (xact xid8 NOT NULL)",
    "INSERT INTO carrel_outbox_pruned VALUES ('0')",
)
