"""Names that callers give, and names that are saved: what may be asked for, and what an id becomes."""

import re
from typing import Final

from carrel.core.errors import echo
from carrel.core.uri import decode_loosely

SCHEME: Final = "sage"
KINDS: Final = ("system", "checkpoint", "knowledge", "failure")
SUBJECTS: Final = {
    "system": "filename",
    "checkpoint": "checkpoint ID",
    "knowledge": "knowledge ID",
    "failure": "failure ID",
}
MAX_ID: Final = 100
MAX_SLUG: Final = 40
SLUG_SOURCE: Final = 50

ODD_NAME: Final = "not a name that can be asked for"
HIDDEN: Final = "name begins with a dot"

_SAFE: Final = re.compile(r"[A-Za-z0-9_./-]+")
_URI: Final = re.compile(r"sage://([^/?#]*)/", re.IGNORECASE)
_NOT_IN_ID: Final = re.compile(r"[^A-Za-z0-9_-]+")
_NOT_IN_SLUG: Final = re.compile(r"[^a-z0-9]+")


def shown(text: str) -> str:
    """Give the caller's text as a message may repeat it."""
    return echo(text)


def checked(text: str) -> str | None:
    """Give what is asked for, without slashes at its ends; None if it may not be asked for at all."""
    if ".." in text or text.startswith(("/", "\\")) or not _SAFE.fullmatch(text):
        return None
    return text.strip("/")


def is_plain(text: str) -> bool:
    """Tell whether a name can be asked for just as it is."""
    return checked(text) == text


def split_uri(uri: str) -> tuple[str, str, str | None] | None:
    """Give kind, name and the format asked for; None if the URI is not of a kind there is."""
    found = _URI.match(uri)
    kind = found[1].lower() if found else ""
    if found is None or kind not in KINDS:
        return None
    path, _, query = uri[found.end() :].partition("?")
    wanted = None
    for piece in query.split("&"):
        name, is_assigned, value = piece.partition("=")
        if is_assigned and decode_loosely(name) == "format" and wanted is None:
            wanted = decode_loosely(value)
    return kind, decode_loosely(path), wanted


def clean_id(text: str) -> str:
    """Make an id that can be saved."""
    return _NOT_IN_ID.sub("-", text).strip("-")[:MAX_ID] or "unnamed"


def slug_of(thesis: str) -> str:
    """Make the readable part of a checkpoint's id."""
    return _NOT_IN_SLUG.sub("-", thesis[:SLUG_SOURCE].lower()).strip("-")[:MAX_SLUG].strip("-") or "checkpoint"
