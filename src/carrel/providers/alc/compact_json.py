"""Compact JSON, in which alc answers: sorted keys, no spaces, non-ASCII characters as they are."""

import json
import math
import re
from datetime import date, datetime, time
from typing import Final, NoReturn

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
TOO_DEEP: Final = "nested too deeply"
TOO_LONG: Final = "a number has too many digits"
MAX_COMMAS: Final = 4_000_000
"""The most commas in a JSON text that is parsed: each may separate a value, which takes about 100 bytes of memory."""
AROUND: Final = 32 * 1024
"""Bytes of a message beside its one text: URIs, each of up to 8,192 characters, and metadata."""
NOT_UTF8: Final = "stream did not contain valid UTF-8"


class NotJson(ValueError):
    """The text holds `NaN` or `Infinity`, which are not JSON."""


def loads(data: bytes) -> object:
    """Return the value of a JSON text; raise `ValueError` with a message for clients."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError(NOT_UTF8) from None
    if text.count(",") > MAX_COMMAS:
        raise ValueError("it holds too many values")
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (json.JSONDecodeError, NotJson) as error:
        reason = str(error)
    except RecursionError:
        reason = TOO_DEEP
    except ValueError:  # `int` refuses thousands of digits with advice for programmers
        reason = TOO_LONG
    raise ValueError(reason)


def dumps(value: object) -> str:
    """Return a value as JSON; NaN and infinity become null, lone surrogates U+FFFD.

    Raise `ValueError` if the value is nested too deeply or holds a number with too many digits.
    """
    try:
        try:
            text = _ENCODER.encode(value)
        except (TypeError, ValueError):  # a time, a NaN
            text = _ENCODER.encode(_plain(value))
        return _ENCODER.encode(_plain(value)) if _SURROGATE.search(text) else text
    except RecursionError:
        reason = TOO_DEEP
    except ValueError:  # `str` refuses thousands of digits
        reason = TOO_LONG
    raise ValueError(reason)


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))


def wire_size(text: str) -> int:
    """Return how many bytes a compact JSON text takes as a string in a message: its quotes are escaped there."""
    return (len(text) if text.isascii() else len(text.encode())) + text.count('"') + text.count("\\")


def _refuse_constant(name: str) -> NoReturn:
    raise NotJson(f"{name} is not JSON")


def _plain(value: object) -> object:
    """Return a value with everything that JSON lacks replaced."""
    if isinstance(value, str):
        return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(_plain(str(key))): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, datetime | date | time):
        return time_text(value)
    return value


def time_text(value: datetime | date | time) -> str:
    """Return a TOML date or time by RFC 3339: zero offset as Z, no trailing zeros in the fraction."""
    text = value.isoformat()
    if isinstance(value, datetime | time) and value.microsecond:
        at = text.index(".")
        text = text[: at + 7].rstrip("0") + text[at + 7 :]
    return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text
