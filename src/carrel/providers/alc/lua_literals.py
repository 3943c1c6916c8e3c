"""The values of Lua's string and number literals, as Lua 5.4 reads them."""

import math
import re
import sys
from typing import Final

Number = int | float

_ESCAPE: Final = re.compile(
    rb"\\(?:([abfnrtv\\\"'])|(\r\n|\n\r|[\r\n])|(z[ \t\n\v\f\r]*)|x([0-9A-Fa-f]{2})|([0-9]{1,3})|u\{([0-9A-Fa-f]+)\})"
    rb"|[\\\r\n]"
)
_NAMED: Final = dict(zip(b"abfnrtv\\\"'", b"\a\b\f\n\r\t\v\\\"'", strict=True))
_LONG: Final = re.compile(rb"\[(=*)\[")
_LINE_END: Final = re.compile(rb"\r\n|\n\r|\r")
_DECIMAL: Final = re.compile(r"[0-9]+")
_HEX: Final = re.compile(r"0[xX][0-9A-Fa-f]+")
_HEX_FLOAT: Final = re.compile(r"0[xX](?:[0-9A-Fa-f]+\.?[0-9A-Fa-f]*|\.[0-9A-Fa-f]+)(?:[pP][+-]?[0-9]+)?")
_FLOAT: Final = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WORD: Final = 1 << 64
_MAX_INTEGER: Final = (1 << 63) - 1
_MAX_CODE: Final = 0x7FFFFFFF


class NotALiteral(Exception):
    """Lua would refuse the text."""


def read_string(raw: bytes) -> str:
    """Return the value of a string literal; bytes that are not UTF-8 become U+FFFD."""
    opening = _LONG.match(raw)
    if opening is not None:
        return _read_long(raw, opening)
    if len(raw) < 2 or raw[:1] not in (b'"', b"'") or raw[-1:] != raw[:1]:
        raise NotALiteral
    return _ESCAPE.sub(_unescape, raw[1:-1]).decode("utf-8", "replace")


def _read_long(raw: bytes, opening: re.Match[bytes]) -> str:
    closing = b"]" + opening[1] + b"]"
    if not raw.endswith(closing) or len(raw) < len(opening[0]) + len(closing):
        raise NotALiteral
    return _LINE_END.sub(b"\n", raw[opening.end() : -len(closing)]).removeprefix(b"\n").decode("utf-8", "replace")


def _unescape(found: re.Match[bytes]) -> bytes:
    named, line_end, skipped, hexadecimal, decimal, code = found.groups()
    if named is not None:
        return bytes((_NAMED[named[0]],))
    if line_end is not None:
        return b"\n"
    if skipped is not None:
        return b""
    if hexadecimal is not None:
        return bytes.fromhex(hexadecimal.decode())
    if decimal is not None and int(decimal) < 256:
        return bytes((int(decimal),))
    if code is not None and len(code.lstrip(b"0")) <= 8 and int(code, 16) <= _MAX_CODE:
        return _encode(int(code, 16))
    raise NotALiteral  # an escape Lua does not know, or a bare line end


def _encode(code: int) -> bytes:
    """Encode a code as UTF-8. Lua also takes codes above Unicode's, which become bad bytes of the same number."""
    if code <= sys.maxunicode:
        return chr(code).encode("utf-8", "surrogatepass")
    return b"\xff" * (4 if code < 1 << 21 else 5 if code < 1 << 26 else 6)


def read_number(text: str) -> Number:
    """Return the value of a number literal: integers wrap or become floats as in Lua."""
    if _DECIMAL.fullmatch(text):
        digits = text.lstrip("0") or "0"
        value: Number = int(digits) if len(digits) < 20 else math.inf
        return value if value <= _MAX_INTEGER else _finite(float(digits))
    if _HEX.fullmatch(text):
        return wrap(int(text, 16))
    if _HEX_FLOAT.fullmatch(text):
        try:
            return _finite(float.fromhex(text))
        except OverflowError:
            raise NotALiteral from None
    if _FLOAT.fullmatch(text):
        return _finite(float(text))
    raise NotALiteral


def negate(value: Number) -> Number:
    """Return the number with the other sign, in 64 bits."""
    return -value if isinstance(value, float) else wrap(-value)


def wrap(value: int) -> int:
    """Return an integer cut to 64 bits."""
    return (value + (_WORD >> 1)) % _WORD - (_WORD >> 1)


def number_text(value: Number) -> str:
    """Return a number as Lua writes it when it joins it to a string."""
    if isinstance(value, int):
        return str(value)
    text = f"{value:.14g}"
    return text if re.search(r"[.en]", text) else f"{text}.0"


def _finite(value: float) -> float:
    """Return the value; raise `NotALiteral` for infinity, which JSON lacks."""
    if math.isinf(value):
        raise NotALiteral
    return value
