"""A log as text: plain, with times and streams, or as JSON lines."""

from collections.abc import Iterable
from typing import Final, Literal

from carrel.core.isotime import iso_ms
from carrel.providers.logs.log import LogFacts
from carrel.providers.logs.ring import LogEntry, LogLine
from carrel.providers.logs.spool_lines import json_encoder

Format = Literal["text", "full", "json"]

MIME_TYPES: Final[dict[Format, str]] = {"text": "text/plain", "full": "text/plain", "json": "application/x-ndjson"}


def render(facts: LogFacts, entries: Iterable[LogEntry], form: Format, *, is_whole: bool, has_own: bool) -> str:
    """Return entries as text. With `has_own`, Carrel's own lines are added: the first ones only to a whole log."""
    if form == "text":
        return "\n".join([*[entry.line.text for entry in entries], ""])
    lines = [_line(form, entry.time_ms, entry.stream, entry.line, entry.seq) for entry in entries]

    def own(time_ms: int, text: str) -> str:
        return _line(form, time_ms, "sys", LogLine(text, 0))

    if has_own and is_whole:
        before = [own(facts.started_ms, f"started {facts.program}")]
        if facts.dropped_entries:
            dropped = f"dropped {facts.dropped_entries} entries, {facts.dropped_bytes} bytes"
            before.append(own(facts.started_ms, dropped))
        lines = before + lines
    if has_own and not facts.is_running:
        lines.append(own(facts.ended_ms if facts.ended_ms is not None else facts.modified_ms, facts.ending))
    return "".join(lines)


def _line(form: Format, time_ms: int, stream: str, line: LogLine, seq: int | None = None) -> str:
    if form == "full":
        return f"{iso_ms(time_ms)} {stream} {line.text}\n"
    number = "" if seq is None else f'"seq":{seq},'
    more = f',"cut":{line.cut}' if line.cut else ""
    more += ',"partial":true' if line.is_partial else ""
    text = json_encoder()(line.text)
    return f'{{{number}"time":"{iso_ms(time_ms)}","stream":"{stream}","text":{text}{more}}}\n'
