"""Split, quote, normalise and compare resource URIs.

The only place that percent-decodes, and it decodes exactly once. Whatever the text,
nothing here raises anything but `BadArgument`. A URI is kept and passed on as it was
sent; `normalise` is for comparing only. Which URIs exist, and whether `..` may stand
in one, is left to the providers and to `sandbox`.
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
"""What `quote` leaves alone beside the unreserved: in one segment, in a path, in a query's name or value."""

# No class here holds the surrogates: a set that large takes longer to compile than all the others.
_SOUND: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*+):[ -~]*+[^\x00-\x1f\x7f]*+")
_HEAD: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*+:(?://[^/?#]*+)?")
_ESCAPES: Final = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_RESPELT: Final = re.compile(r'%([0-9A-Fa-f]{2})|[^!-~]+|[%"<>\\^`{|}]')


def scheme_of(text: str) -> str:
    """Give the lower-cased scheme of a URI that is sound enough to be looked up."""
    if len(text) > MAX_URI_LENGTH:
        _refuse(f"The URI is longer than {MAX_URI_LENGTH} characters", text)
    sound = _SOUND.fullmatch(text)
    if sound is None or not (text.isascii() or is_text(text)):
        if find_unsound(text) >= 0:
            _refuse("The URI holds a control character or a lone surrogate", text)
        _refuse("The URI does not start with a scheme, such as workspace: or logs:", text)
    return sound[1].lower()


def is_text(text: str) -> bool:
    """Tell whether a URI can hold this, escaped or not: there is no NUL and no lone surrogate."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def find_unsound(text: str) -> int:
    """Give the place of the first character no URI holds unescaped, a control or a lone surrogate, or -1."""
    return next((at for at, c in enumerate(text) if c < " " or c == "\x7f" or "\ud800" <= c <= "\udfff"), -1)


def split_query(text: str) -> tuple[str, str | None]:
    """Cut at the first `?`. An empty query counts as none."""
    head, _, query = text.partition("?")
    return head, query or None


def decode(text: str) -> str:
    """Percent-decode once and strictly. A `+` is a plus; what is not escaped stays as it is."""
    if "%" in text:
        if _BAD_ESCAPE.search(text):
            _refuse("A percent sign in the URI is not followed by two hexadecimal digits")
        try:
            text = _ESCAPES.sub(_octets, text)
        except UnicodeDecodeError:
            _refuse("The percent escapes in the URI are not UTF-8")
    elif text.isascii() and "\0" not in text:
        return text
    if not is_text(text):
        _refuse("The URI holds a NUL or a lone surrogate")
    return text


def decode_loosely(text: str) -> str:
    """Percent-decode once whatever stands there: a malformed escape stays, bad UTF-8 becomes U+FFFD."""
    return _ESCAPES.sub(lambda escapes: bytes.fromhex(escapes[0].replace("%", "")).decode(errors="replace"), text)


def quote(text: str, safe: str = SEGMENT_SAFE) -> str:
    """Percent-encode, as UTF-8, all but the unreserved characters and those in `safe`."""
    try:
        octets = text.encode()
    except UnicodeEncodeError:
        _refuse("Text with a lone surrogate cannot stand in a URI")
    kept, spellings = _spellings(safe)
    return "".join(map(spellings.__getitem__, octets)) if octets.strip(kept) else text


def pairs(query: str) -> list[tuple[str, str]]:
    """Give a query's names and values, decoded, in order, repeats kept."""
    pieces = [piece for piece in query.split("&") if piece]
    if len(pieces) > MAX_QUERY_PAIRS:
        _refuse(f"The URI's query has more than {MAX_QUERY_PAIRS} parameters")
    return [(decode(name), decode(value)) for name, _, value in (piece.partition("=") for piece in pieces)]


def without(text: str, names: frozenset[str]) -> str:
    """Remove these parameters from a URI's query. The others stay as they are spelled."""
    head, query = split_query(text)
    pieces = [piece for piece in (query or "").split("&") if piece]
    return _join(head, [piece for piece in pieces if decode(piece.partition("=")[0]) not in names])


def with_query(text: str, /, **values: str | int) -> str:
    """Set these parameters of a URI's query: what had their names goes, they stand last."""
    head, query = split_query(without(text, frozenset(values)))
    added = [f"{quote(name, QUERY_SAFE)}={quote(str(value), QUERY_SAFE)}" for name, value in values.items()]
    return _join(head, [*([query] if query else []), *added])


def normalise(text: str) -> str:
    """Give the one spelling that all equal URIs share; for comparing, never for reading.

    Dot segments stay: `a/../b` is not `b` to every provider. Malformed escapes stay too,
    their `%` spelt `%25`. Idempotent.
    """
    spelt = _RESPELT.sub(_respell, text)
    head = _HEAD.match(spelt)
    if head is not None:
        spelt = _ESCAPES.sub(lambda escapes: escapes[0].upper(), head[0].lower()) + spelt[head.end() :]
    path, query = split_query(spelt)
    return path if query is None else spelt


def same(a: str, b: str) -> bool:
    """Tell whether two URIs differ in spelling only."""
    return a == b or normalise(a) == normalise(b)


def is_within(uri: str, outer: str) -> bool:
    """Tell whether a URI is another one, however spelled, or lies beneath it."""
    return same(uri, outer) or uri.startswith(split_query(outer)[0].rstrip("/") + "/")


def _join(head: str, pieces: list[str]) -> str:
    return f"{head}?{'&'.join(pieces)}" if pieces else head


def _octets(escapes: re.Match[str]) -> str:
    return bytes.fromhex(escapes[0].replace("%", "")).decode()


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
