"""The values of a scope: aliases, titles, statuses, times and ids.

URIs, tools, the command line and imports all use these functions, so that one text means one value everywhere.
"""

import re
from os import urandom
from typing import Final

from carrel.core.errors import echo
from carrel.core.record import Value
from carrel.providers.scopes.alias_words import ADJECTIVES, NOUNS
from carrel.providers.scopes.scope_errors import ScopeError, invalid

STATUSES: Final = ("PLANNING", "TODO", "IN_PROGRESS", "BLOCKED", "DONE", "ARCHIVED")
MAX_TITLE: Final = 200
MAX_DESCRIPTION: Final = 1_000
MAX_ALIAS: Final = 64
MAX_POSITION: Final = 2**53 - 1
MAX_CHILDREN: Final = 10_000
"""Children that a scope lists, unless `max_children_listed` says otherwise."""
MAX_TIME_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999."""

SCOPE_URI: Final = "scopes://scope/"
TREE_URI: Final = "scopes://tree/"

_ALIAS: Final = re.compile(r"[a-z][a-z0-9]*+(?:[-_][a-z0-9]++)*+")
_ID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
_TIME: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{3})?Z"
_CONTROL: Final = "[\\x00-\\x1f\\x7f-\\x9f]"
_NOT_IN_TITLE: Final = rf"(?!\t){_CONTROL}|[\u2028\u2029]|[\ud800-\udfff]"
_NOT_IN_DESCRIPTION: Final = rf"(?![\t\n]){_CONTROL}|[\ud800-\udfff]"
"""Patterns that are compiled on first use: reading scopes does not need them, and they take long."""

_ASCII_SPACE: Final = " \t\n\r\v\f"
_LOWER: Final = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_TAIL: Final = "abcdefghijklmnopqrstuvwxyz0123456789"


class Scope(Value, frozen=True, gc=False):
    """One row of the store. Times are milliseconds since 1970."""

    id: str
    alias: str
    parent_id: str | None
    title: str
    description: str | None
    status: str
    position: int
    created_at: int
    updated_at: int


def node_line(alias: str, title: str, status: str) -> str:
    """Return a scope as one line."""
    return f"{alias} ({title}) [{status}]"


def to_json(value: object) -> str:
    """Return compact JSON; non-ASCII characters are not escaped."""
    import json  # not needed to list scopes

    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# Aliases


def normalise_alias(text: str) -> str:
    """Return the normal form of an alias, valid or not."""
    return text.strip(_ASCII_SPACE).translate(_LOWER)


def is_alias(text: str) -> bool:
    """Return whether a normalised text is a valid alias."""
    return 2 <= len(text) <= MAX_ALIAS and _ALIAS.fullmatch(text) is not None


def check_alias(text: str) -> str:
    """Return the normalised alias, or raise `INVALID_ALIAS`."""
    alias = normalise_alias(text)
    if not is_alias(alias):
        raise ScopeError("INVALID_ALIAS", f"Invalid alias: {echo(text)}")
    return alias


def invent_alias() -> str:
    """Return a generated alias: two words and three characters, from the system's cryptographic source."""
    from random import SystemRandom  # not needed to read scopes

    choice = SystemRandom().choice
    return f"{choice(ADJECTIVES)}-{choice(NOUNS)}-" + "".join(choice(_TAIL) for _ in range(3))


# Texts


def check_title(text: str) -> str:
    """Return the title as it is stored, or raise `INVALID_TITLE`."""
    if re.search(_NOT_IN_TITLE, text):
        raise ScopeError("INVALID_TITLE", "Invalid title: it holds a control character or a line separator")
    title = text.strip()
    if not 1 <= len(title) <= MAX_TITLE:
        raise ScopeError("INVALID_TITLE", f"Invalid title: it must have 1 to {MAX_TITLE} characters, not {len(title)}")
    return title


def check_description(text: str | None) -> str | None:
    """Return the description as it is stored, or raise `INVALID_DESCRIPTION`; an empty one becomes None."""
    if text is None:
        return None
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if re.search(_NOT_IN_DESCRIPTION, text):
        raise ScopeError("INVALID_DESCRIPTION", "Invalid description: it holds a control character")
    text = text.strip()
    if len(text) > MAX_DESCRIPTION:
        why = f"it must have at most {MAX_DESCRIPTION} characters, not {len(text)}"
        raise ScopeError("INVALID_DESCRIPTION", f"Invalid description: {why}")
    return text or None


def without_controls(text: str, *, is_title: bool) -> str:
    """Return the text with U+FFFD for each character that is not allowed."""
    return re.sub(_NOT_IN_TITLE if is_title else _NOT_IN_DESCRIPTION, "\N{REPLACEMENT CHARACTER}", text)


def check_status(text: str) -> str:
    """Return the status that a text names, in upper or lower case and with `-` for `_`."""
    status = text.upper().replace("-", "_") if text.isascii() else ""
    if status not in STATUSES:
        known = ", ".join(STATUSES)
        raise ScopeError("INVALID_STATUS", f"Invalid status: {echo(text)} (expected one of {known})")
    return status


# Ids and times


def is_id(text: str) -> bool:
    """Return whether a text is an id."""
    return re.fullmatch(_ID, text) is not None


def new_id(now_ms: int) -> str:
    """Return a new UUIDv7."""
    return make_id(now_ms << 80 | int.from_bytes(urandom(10)))


def make_id(bits: int) -> str:
    """Return 128 bits as a UUID, with version 7 and variant binary 10 set."""
    bits = bits & ~(0xF << 76) | 0x7 << 76
    bits = bits & ~(0x3 << 62) | 0x2 << 62
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def parse_time(name: str, text: object) -> int:
    """Return the time that a text in the form of `iso_ms` means; milliseconds may be left out."""
    from datetime import UTC, datetime, timedelta  # needed only where a time is given

    if isinstance(text, str) and re.fullmatch(_TIME, text):
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    raise invalid(f"Invalid parameter: {name} (expected a time such as 2026-11-15T18:00:00.123Z)")
