"""A log as text: plain, with times and streams, or as JSON lines."""

from collections.abc import Iterable
from json.encoder import encode_basestring
from typing import Final, Literal

from carrel.core.isotime import iso
from carrel.providers.logs.log import LogFacts
from carrel.providers.logs.ring import LogEntry, LogLine

Format = Literal["text", "full", "json"]

MIME_TYPES: Final[dict[Format, str]] = {
    "text": "text/plain",
    "full": "text/plain",
    "json": "application/x-ndjson",
}


def render(facts: LogFacts, entries: Iterable[LogEntry], form: Format, *, is_whole: bool, has_own: bool) -> str:
    """Return entries as text. With `has_own`, Carrel's own lines are added: the first ones only to a whole log."""
    if form == "text":
        return "\n".join([*[entry.line.text for entry in entries], ""])
    own, spell = (_own_line, _full) if form == "full" else (_own_json, json_line)
    lines = [spell(entry) for entry in entries]
    if has_own and is_whole:
        before = [own(facts.started_ms, f"started {facts.program}")]
        if facts.dropped_entries:
            dropped = f"dropped {facts.dropped_entries} entries, {facts.dropped_bytes} bytes"
            before.append(own(facts.started_ms, dropped))
        lines = before + lines
    if has_own and not facts.is_running:
        lines.append(own(facts.ended_ms if facts.ended_ms is not None else facts.modified_ms, facts.ending))
    return "".join([f"{line}\n" for line in lines])


def spell_time(ms: int) -> str:
    """Return a time, always with milliseconds."""
    spelled = iso(ms)
    return spelled if ms % 1000 else f"{spelled[:-1]}.000Z"


def json_line(entry: LogEntry) -> str:
    """Return an entry as JSON."""
    return f'{{"seq":{entry.seq},{_json(entry.time_ms, entry.stream, entry.line)}}}'


def _json(time_ms: int, stream: str, line: LogLine) -> str:
    spelled = f'"time":"{spell_time(time_ms)}","stream":"{stream}","text":{encode_basestring(line.text)}'
    if line.cut:
        spelled += f',"cut":{line.cut}'
    return f'{spelled},"partial":true' if line.is_partial else spelled


def _full(entry: LogEntry) -> str:
    return f"{spell_time(entry.time_ms)} {entry.stream} {entry.line.text}"


def _own_line(time_ms: int, text: str) -> str:
    return f"{spell_time(time_ms)} sys {text}"


def _own_json(time_ms: int, text: str) -> str:
    return f"{{{_json(time_ms, 'sys', LogLine(text, 0))}}}"
