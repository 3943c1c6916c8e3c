"""Split, quote, normalise and compare resource URIs.

This is the only module that percent-decodes, and it decodes exactly once. For any text, its functions raise nothing
but `BadArgument`. A URI is kept and passed on as sent; `normalise` is only for comparing. Providers and `sandbox`
decide which URIs exist and whether `..` is allowed.
"""

import re
from functools import lru_cache
from typing import Final, NoReturn

from carrel.core.errors import BadArgument
from carrel.core.limits import MAX_QUERY_PAIRS, MAX_URI_LENGTH

UNRESERVED: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
SEGMENT_SAFE: Final = "!$&'()*+,;=:@"
PATH_SAFE: Final = SEGMENT_SAFE + "/"
QUERY_SAFE: Final = ""
"""What `quote` does not escape besides the unreserved: in a segment, in a path, in a query's name or value."""

# No character class contains the surrogates: so large a set takes longer to compile than all the others.
_SOUND: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*+):[ -~]*+[^\x00-\x1f\x7f]*+")
_HEAD: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*+:(?://[^/?#]*+)?")
_ESCAPES: Final = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_RESPELT: Final = re.compile(r'%([0-9A-Fa-f]{2})|[^!-~]+|[%"<>\\^`{|}]')


def scheme_of(text: str) -> str:
    """Return the lower-case scheme of a URI; raise BadArgument for a text that cannot be a URI."""
    if len(text) > MAX_URI_LENGTH:
        _refuse(f"The URI is longer than {MAX_URI_LENGTH} characters", text)
    sound = _SOUND.fullmatch(text)
    if sound is None or not (text.isascii() or is_text(text)):
        if find_unsound(text) >= 0:
            _refuse("The URI holds a control character or a lone surrogate", text)
        _refuse("The URI does not start with a scheme, such as workspace: or logs:", text)
    return sound[1].lower()


def is_text(text: str) -> bool:
    """Return whether a URI can contain a text, escaped or not: it has no NUL and no lone surrogate."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def find_unsound(text: str) -> int:
    """Return the index of the first control character or lone surrogate, or -1."""
    return next((at for at, c in enumerate(text) if c < " " or c == "\x7f" or "\ud800" <= c <= "\udfff"), -1)


def split_query(text: str) -> tuple[str, str | None]:
    """Return the parts before and after the first `?`; None for an empty query."""
    head, _, query = text.partition("?")
    return head, query or None


def decode(text: str) -> str:
    """Percent-decode once and strictly. A `+` stays a plus."""
    if "%" in text:
        if _BAD_ESCAPE.search(text):
            _refuse("A percent sign in the URI is not followed by two hexadecimal digits")
        try:
            text = _unescape(text, "strict")
        except UnicodeDecodeError:
            _refuse("The percent escapes in the URI are not UTF-8")
    elif text.isascii() and "\0" not in text:
        return text
    if not is_text(text):
        _refuse("The URI holds a NUL or a lone surrogate")
    return text


def decode_loosely(text: str) -> str:
    """Percent-decode once without errors: malformed escapes stay, bad UTF-8 becomes U+FFFD."""
    return _unescape(text, "replace")


def quote(text: str, safe: str = SEGMENT_SAFE) -> str:
    """Percent-encode, as UTF-8, all but the unreserved characters and those in `safe`."""
    try:
        octets = text.encode()
    except UnicodeEncodeError:
        _refuse("Text with a lone surrogate cannot stand in a URI")
    kept, spellings = _spellings(safe)
    return "".join(map(spellings.__getitem__, octets)) if octets.strip(kept) else text


def pairs(query: str) -> list[tuple[str, str]]:
    """Return a query's names and values, decoded, in order, with repeats."""
    pieces = [piece for piece in query.split("&") if piece]
    if len(pieces) > MAX_QUERY_PAIRS:
        _refuse(f"The URI's query has more than {MAX_QUERY_PAIRS} parameters")
    return [(decode(name), decode(value)) for name, _, value in (piece.partition("=") for piece in pieces)]


def without(text: str, names: frozenset[str]) -> str:
    """Return a URI without these query parameters. The others keep their spelling."""
    head, query = split_query(text)
    pieces = [piece for piece in (query or "").split("&") if piece]
    return _join(head, [piece for piece in pieces if decode(piece.partition("=")[0]) not in names])


def with_query(text: str, /, **values: str | int) -> str:
    """Return a URI with these query parameters at the end, in place of those with the same names."""
    head, query = split_query(without(text, frozenset(values)))
    added = [f"{quote(name, QUERY_SAFE)}={quote(str(value), QUERY_SAFE)}" for name, value in values.items()]
    return _join(head, [*([query] if query else []), *added])


def normalise(text: str) -> str:
    """Return the spelling that all equal URIs share; only for comparing.

    Dot segments stay, because `a/../b` is not `b` for every provider. The `%` of a malformed escape becomes `%25`.
    Idempotent.
    """
    spelt = _RESPELT.sub(_respell, text)
    head = _HEAD.match(spelt)
    if head is not None:
        spelt = _ESCAPES.sub(lambda escapes: escapes[0].upper(), head[0].lower()) + spelt[head.end() :]
    path, query = split_query(spelt)
    return path if query is None else spelt


def same(a: str, b: str) -> bool:
    """Return whether two URIs differ only in spelling."""
    return a == b or normalise(a) == normalise(b)


def is_within(uri: str, outer: str) -> bool:
    """Return whether a URI equals another one, in any spelling, or lies below it."""
    return same(uri, outer) or uri.startswith(split_query(outer)[0].rstrip("/") + "/")


def _join(head: str, pieces: list[str]) -> str:
    return f"{head}?{'&'.join(pieces)}" if pieces else head


def _unescape(text: str, errors: str) -> str:
    return _ESCAPES.sub(lambda escapes: bytes.fromhex(escapes[0].replace("%", "")).decode(errors=errors), text)


def _respell(found: re.Match[str]) -> str:
    if found[1] is None:
        return quote(found[0], "")
    character = chr(int(found[1], 16))
    return character if character in UNRESERVED else found[0].upper()


@lru_cache(maxsize=16)
def _spellings(safe: str) -> tuple[bytes, tuple[str, ...]]:
    kept = bytes(ord(character) for character in UNRESERVED + safe if character.isascii())
    return kept, tuple(chr(octet) if octet in kept else f"%{octet:02X}" for octet in range(256))


def _refuse(message: str, text: str | None = None) -> NoReturn:
    raise BadArgument(message, uri=text, data={"parameter": "uri"}) from None
