"""Ids, file names and URIs: check requested names, and make the names of new items."""

import re
from typing import Final

from carrel.core.errors import NotFound
from carrel.core.uri import decode_loosely, quote, scheme_of

SCHEME: Final = "sage"
KINDS: Final = ("system", "checkpoint", "knowledge", "failure")
MAX_ID: Final = 100
MAX_SLUG: Final = 40
SLUG_SOURCE: Final = 50

BAD_NAME: Final = "no URI can have this name"
HIDDEN: Final = "name begins with a dot"

_SAFE: Final = re.compile(r"[A-Za-z0-9_./-]+")
_URI: Final = re.compile(r"sage://([^/?#]*)/", re.IGNORECASE)
_NOT_IN_ID: Final = re.compile(r"[^A-Za-z0-9_-]+")
_NOT_IN_SLUG: Final = re.compile(r"[^a-z0-9]+")


def checked(text: str) -> str | None:
    """Return a requested name without slashes at its ends, or None if the name is not allowed."""
    if ".." in text or text.startswith(("/", "\\")) or not _SAFE.fullmatch(text):
        return None
    return text.strip("/")


def is_plain(text: str) -> bool:
    """Return whether a name can be requested as it is."""
    return checked(text) == text


def split_uri(uri: str) -> tuple[str, str, str | None] | None:
    """Return kind, name and requested format of a URI, or None if its kind is unknown."""
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


def canonical(uri: str) -> str:
    """Return a URI with its kind in lower case, correct escapes, and no parameters but `format`."""
    scheme_of(uri)
    parts = split_uri(uri)
    if parts is None:
        raise NotFound(uri)
    kind, name, wanted = parts
    pieces = [piece for piece in uri.partition("?")[2].split("&") if piece.startswith(("start=", "length="))]
    if wanted is not None:
        pieces.append(f"format={_escape(wanted)}")
    return f"{SCHEME}://{kind}/{_escape(name)}" + ("?" if pieces else "") + "&".join(pieces)


def _escape(text: str) -> str:
    """Return a text with reserved characters escaped; a NUL is spelled as messages show it."""
    return quote(text.replace("\0", "\\x00"), "/")


def clean_id(text: str) -> str:
    """Return an id under which an item can be saved."""
    return _NOT_IN_ID.sub("-", text).strip("-")[:MAX_ID] or "unnamed"


def slug_of(thesis: str) -> str:
    """Return the readable part of a checkpoint's id."""
    return _NOT_IN_SLUG.sub("-", thesis[:SLUG_SOURCE].lower()).strip("-")[:MAX_SLUG].strip("-") or "checkpoint"
