"""Version 7: the audit record, one row for each resource that a write changed. No content, and no secret."""

from typing import Final

STATEMENTS: Final = (
    """CREATE TABLE carrel_audit (
         id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
         at timestamptz NOT NULL DEFAULT clock_timestamp(),
         caller text COLLATE "C" NOT NULL,
         tool text COLLATE "C" NOT NULL,
         uri text COLLATE "C" NOT NULL,
         etag_before text,
         etag_after text)""",
    "CREATE INDEX carrel_audit_at ON carrel_audit (at)",
    "CREATE INDEX carrel_audit_caller ON carrel_audit (caller, id)",
    "CREATE INDEX carrel_audit_uri ON carrel_audit (uri, id)",
)
