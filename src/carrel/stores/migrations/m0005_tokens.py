"""Version 5: the tokens of callers; of each, only the hash is kept."""

from typing import Final

STATEMENTS: Final = (
    """CREATE TABLE carrel_tokens (
         name text COLLATE "C" PRIMARY KEY,
         digest text COLLATE "C" NOT NULL,
         rights text[],
         created_ms bigint NOT NULL)""",
)
