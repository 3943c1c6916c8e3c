"""Version 4: the legacy sessions of HTTP that replicas share, and the key that seals their ids."""

from typing import Final

STATEMENTS: Final = (
    """CREATE TABLE carrel_secrets (
         name text COLLATE "C" PRIMARY KEY,
         value bytea NOT NULL)""",
    """CREATE TABLE carrel_session_uris (
         session text COLLATE "C" NOT NULL,
         uri text COLLATE "C" NOT NULL,
         added_at timestamptz NOT NULL DEFAULT now(),
         PRIMARY KEY (session, uri))""",
    """CREATE TABLE carrel_ended_sessions (
         session text COLLATE "C" PRIMARY KEY,
         ended_at timestamptz NOT NULL DEFAULT now())""",
)
