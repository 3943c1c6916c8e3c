"""Version 6: logs that other machines send, in chunks as they arrive.

A log that is rewritten gets a new version, whose chunks begin again. A log that was removed stays as a row without
chunks, so that every mirror removes it.
"""

from typing import Final

STATEMENTS: Final = (
    """CREATE TABLE carrel_logs (
         kind text COLLATE "C" NOT NULL CHECK (kind IN ('run', 'build')),
         name text COLLATE "C" NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
         version bigint NOT NULL,
         size bigint NOT NULL,
         is_removed boolean NOT NULL DEFAULT false,
         modified_ns bigint NOT NULL,
         generation bigint NOT NULL,
         PRIMARY KEY (kind, name))""",
    "CREATE INDEX carrel_logs_new ON carrel_logs (generation)",
    """CREATE TABLE carrel_log_chunks (
         kind text COLLATE "C" NOT NULL,
         name text COLLATE "C" NOT NULL,
         start bigint NOT NULL,
         data bytea NOT NULL,
         PRIMARY KEY (kind, name, start),
         FOREIGN KEY (kind, name) REFERENCES carrel_logs (kind, name) ON DELETE CASCADE)""",
)
