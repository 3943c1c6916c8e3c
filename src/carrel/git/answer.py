"""One answer about history, as text or as JSON."""

from typing import Final

from carrel.core.errors import BadArgument, echo
from carrel.core.model import Meta, Reading, Text
from carrel.core.record import to_json

NEXT: Final = "dev.carrel/next"
FORMATS: Final = ("text", "json")


def make_reading(
    format_: str,
    text: str,
    body: Meta,
    mime_type: str = "text/plain",
    following: str | None = None,
    etag: str | None = None,
    *,
    note: str = "",
) -> Reading:
    """Return the text, or the JSON if that is the format; `following` is the URI of the next page.

    A `note` says what the answer lacks: the last lines of the text, `note` in JSON.
    """
    if format_ not in FORMATS:
        message = f"Invalid parameter: format={echo(format_)} (expected text or json)"
        raise BadArgument(message, data={"parameter": "format"})
    meta = None if following is None else {NEXT: following}
    if format_ == "json":
        content = to_json({**body, **({"note": note.strip()} if note else {}), "next": following}).decode()
        return Reading((Text(content, "application/json", meta=meta),), etag=etag)
    return Reading((Text(text + note, mime_type, meta=meta),), etag=etag)
