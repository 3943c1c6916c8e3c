"""Who changed what, and when: the audit record of a team's store, newest first.

carrel://audit{?caller,uri,since,limit,before,format}   one page of it
"""

import json
from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Literal

from carrel.catalog import access
from carrel.catalog.access import AUDIT
from carrel.core.arguments import Argument, Arguments
from carrel.core.errors import BadArgument, echo
from carrel.core.isotime import iso_ms, parse_iso
from carrel.core.model import Annotations, Resource, Text
from carrel.core.provider import Document, Provider, Route
from carrel.core.record import Value
from carrel.core.uri import with_query
from carrel.stores.audit import AuditFilter, AuditRow, audit_rows
from carrel.stores.database import Database
from carrel.stores.settings import AUDIT_DAYS

LIMIT: Final = 100
MAX_LIMIT: Final = 1_000
READ_S: Final = 25.0
_SHOWN: Final = 12
"""Characters of an ETag in text."""
_DESCRIPTION: Final = (
    "Who changed what, and when, newest first: time, caller, tool, URI, and the ETags before and after. "
    "caller is exact, uri is a beginning, since is a time; dev.carrel/next is the next page"
)
MIME_TYPES: Final = {"text": "text/plain", "json": "application/json"}


class AuditQuery(Value, frozen=True):
    """Which rows are wanted."""

    caller: Annotated[str, Argument(max_length=200)] | None = None
    uri: Annotated[str, Argument(max_length=2_000)] | None = None
    since: str | None = None
    limit: Annotated[int, Argument(ge=1, le=MAX_LIMIT)] = LIMIT
    before: Annotated[int, Argument(ge=0, le=2**63 - 1)] | None = None
    format: Literal["text", "json"] = "text"


class AuditRecord(Provider):
    """The resource `carrel://audit`."""

    name = "audit"
    schemes = ("carrel",)
    summary = "Who changed what, and when."
    permission = "audit"
    speed = "blocking"

    def __init__(self, database: Database) -> None:
        self._database = database

    def routes(self) -> Sequence[Route]:
        route = Route(
            f"{AUDIT}{{?caller,uri,since,limit,before,format}}",
            self.read_audit,
            name="audit",
            title="Audit record",
            description=_DESCRIPTION,
            query=Arguments(AuditQuery),
            takes_uri=True,
            example="uri=scopes://",
        )
        return (route,)

    def entries(self, after: str = "") -> Iterator[Resource]:
        """Yield the record itself."""
        if after < AUDIT:
            annotations = Annotations(priority=0.1)
            yield Resource(AUDIT, "audit", _DESCRIPTION, "text/plain", title="Audit record", annotations=annotations)

    def documents(self) -> Iterator[Document]:
        """Yield nothing: search does not look into the audit record."""
        return iter(())

    def read_audit(self, query: AuditQuery, uri: str) -> Text:
        access.check_read(AUDIT)  # once more: here no spelling of the URI matters
        wanted = AuditFilter(query.caller, query.uri, _time("since", query.since), query.before)
        with self._database.reading(READ_S) as session:
            days = self._database.audit_days or AUDIT_DAYS
            found = audit_rows(session, wanted, days, query.limit + 1)
        shown = found[: query.limit]
        following = with_query(uri, before=shown[-1].id) if len(found) > len(shown) else None
        text = _as_json(shown, following) if query.format == "json" else _as_text(shown, following)
        meta = None if following is None else {"dev.carrel/next": following}
        return Text(text, MIME_TYPES[query.format], meta=meta)


def _time(name: str, text: str | None) -> int | None:
    """Return an ISO time in milliseconds; one without a zone counts as UTC."""
    found = None if text is None else parse_iso(text)
    if found is None and text is not None:
        message = f"Invalid parameter: {name}={echo(text)} (expected a time such as 2026-11-18T09:00:00Z)"
        raise BadArgument(message, data={"parameter": name})
    return found


def _as_text(rows: Sequence[AuditRow], following: str | None) -> str:
    """Return a line for each row; ETags are shortened."""
    if not rows:
        return "Nothing is recorded here.\n"
    lines = [
        f"{iso_ms(row.time_ms)}  {row.caller}  {row.tool or '-'}  {row.uri}  "
        f"{_short(row.etag_before)} -> {_short(row.etag_after)}"
        for row in rows
    ]
    return "\n".join([*lines, *([] if following is None else [f"[next: {following}]"]), ""])


def _short(etag: str | None) -> str:
    return "-" if etag is None else etag if len(etag) <= _SHOWN else f"{etag[:_SHOWN]}…"


def _as_json(rows: Sequence[AuditRow], following: str | None) -> str:
    entries = [
        {
            "time": iso_ms(row.time_ms),
            "caller": row.caller,
            "tool": row.tool,
            "uri": row.uri,
            "etagBefore": row.etag_before,
            "etagAfter": row.etag_after,
        }
        for row in rows
    ]
    return json.dumps({"entries": entries, "next": following}, ensure_ascii=False, indent=1)
