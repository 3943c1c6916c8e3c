"""Version 8: what each caller may still ask of all replicas together.

`caller` is the hash of a name. A crash of the server empties the table, which only means that every allowance is whole
again; in return, a change needs no sync to the disk.
"""

from typing import Final

STATEMENTS: Final = (
    """CREATE UNLOGGED TABLE carrel_allowances (
         caller text COLLATE "C" PRIMARY KEY,
         level double precision NOT NULL,
         at timestamptz NOT NULL)""",
)
