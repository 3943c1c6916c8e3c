"""Version 3: named documents, such as the files of a memory.

`generation` is the generation of the kind when the document was last written, so that a reader fetches only newer ones.
A removed document stays as a row without data.
"""

from typing import Final

STATEMENTS: Final = (
    """CREATE TABLE carrel_documents (
         kind text COLLATE "C" NOT NULL,
         name text COLLATE "C" NOT NULL CHECK (length(name) BETWEEN 1 AND 1024),
         data bytea,
         modified_ns bigint NOT NULL,
         generation bigint NOT NULL,
         PRIMARY KEY (kind, name))""",
    "CREATE INDEX carrel_documents_new ON carrel_documents (kind, generation)",
)
