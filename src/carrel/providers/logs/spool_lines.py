"""The lines of a log file, one JSON object each: a header, entries, numbers of dropped entries, an end.

The same lines are sent to another desk (`docs/team.md`). They may come from any program: `parse` returns None for a
line that is not one of these.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeGuard, get_args

from carrel.core.record import Value
from carrel.providers.logs.log import STREAMS, LogFacts, LogOrigin, State
from carrel.providers.logs.ring import LogEntry, LogLine, Stream

MAX_LABEL: Final = 200
"""Maximum characters of the name of a program, a branch, a job or a commit; the rest is cut."""
_STATES: Final = frozenset(get_args(State))


class Dropped(Value, frozen=True):
    """How many entries were dropped before the next one."""

    entries: int
    size: int


class Header(Value, frozen=True):
    """The program of a log and its start. `origin` is the job that sent it; None for a log of this machine."""

    program: str
    started_ms: int
    dropped: Dropped | None = None
    origin: LogOrigin | None = None


class End(Value, frozen=True):
    """How the process ended. `counts` are the counts of the whole log, if the file contains them."""

    state: State
    exit_code: int | None
    ended_ms: int
    counts: tuple[int, int, int, int, int] | None = None


SpoolLine = Header | Dropped | LogEntry | End


def parse(line: bytes) -> SpoolLine | None:
    """Return the meaning of a line; None if it is incomplete or unknown."""
    import json  # a server starts without it

    try:
        given = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(given, dict):
        return None
    if "seq" in given:
        return _parse_entry(given)
    if "end" in given:
        return _parse_end(given)
    dropped = _parse_dropped(given)
    if isinstance(given.get("program"), str) and is_count(given.get("ms")):
        return Header(_label(given["program"]), given["ms"], dropped, _parse_origin(given.get("origin")))
    return dropped


def _parse_entry(given: dict[str, Any]) -> LogEntry | None:
    seq, time_ms, stream, text = given["seq"], given.get("ms"), given.get("stream"), given.get("text")
    if not (is_count(seq) and is_count(time_ms) and isinstance(text, str) and _is_stream(stream)):
        return None
    text = sound(text)
    cut = given.get("cut")
    line = LogLine(text, len(text.encode()) + 1, cut if is_count(cut) else 0, given.get("partial") is True)
    return LogEntry(seq, time_ms, stream, line)


def _parse_end(given: dict[str, Any]) -> End | None:
    state, code, ended = given["end"], given.get("exit_code"), given.get("ms")
    if not (_is_state(state) and (code is None or is_count(code)) and is_count(ended)):
        return None
    counts = given.get("counts")
    if not (isinstance(counts, list) and len(counts) == 5 and all(map(is_count, counts))):
        return End(state, code, ended)
    entries, size, newest, dropped_entries, dropped_bytes = counts
    return End(state, code, ended, (entries, size, newest, dropped_entries, dropped_bytes))


def _is_state(value: object) -> TypeGuard[State]:
    return isinstance(value, str) and value in _STATES


def _is_stream(value: object) -> TypeGuard[Stream]:
    return isinstance(value, str) and value in STREAMS


def _parse_dropped(given: dict[str, Any]) -> Dropped | None:
    entries, size = given.get("dropped_entries"), given.get("dropped_bytes")
    return Dropped(entries, size) if is_count(entries) and is_count(size) else None


def _parse_origin(given: object) -> LogOrigin | None:
    if not isinstance(given, dict):
        return None
    named = {key: _label(value) for key, value in given.items() if key in ORIGIN_KEYS and isinstance(value, str)}
    return LogOrigin(**named)


SENT_KEYS: Final = ("branch", "commit", "job", "key")
ORIGIN_KEYS: Final = (*SENT_KEYS, "caller")
"""What is kept of where a log comes from; of these, a sender gives all but the caller."""


def header_line(facts: LogFacts) -> str:
    """Return the header of a log."""
    import json  # as above

    header: dict[str, object] = {
        "id": facts.id,
        "program": facts.program,
        "ms": facts.started_ms,
        "dropped_entries": facts.dropped_entries,
        "dropped_bytes": facts.dropped_bytes,
    }
    if facts.origin is not None:
        header["origin"] = {key: getattr(facts.origin, key) for key in ORIGIN_KEYS}
    return f"{json.dumps(header, ensure_ascii=False)}\n"  # shorter: the header has to fit `HEADER_BYTES`


def dropped_line(entries: int, size: int) -> str:
    """Return the number of entries that were dropped, and their bytes."""
    import json  # as above

    return f"{json.dumps({'dropped_entries': entries, 'dropped_bytes': size})}\n"


@cache
def json_encoder() -> Callable[[str], str]:
    """Return the function that writes a text as a JSON string."""
    from json.encoder import encode_basestring  # as above

    return encode_basestring


def entry_line(entry: LogEntry) -> str:
    """Return one entry."""
    line = entry.line
    more = f',"cut":{line.cut}' if line.cut else ""
    more += ',"partial":true' if line.is_partial else ""
    text = json_encoder()(line.text)
    return f'{{"seq":{entry.seq},"ms":{entry.time_ms},"stream":"{entry.stream}","text":{text}{more}}}\n'


def end_line(end: End) -> str:
    """Return the end."""
    import json  # as above

    ending: dict[str, object] = {"end": end.state, "exit_code": end.exit_code, "ms": end.ended_ms}
    if end.counts is not None:
        ending["counts"] = end.counts
    return f"{json.dumps(ending)}\n"


def is_count(value: Any) -> TypeGuard[int]:
    """Return whether a value is a whole number, 0 or more, that JSON can represent."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53


def sound(text: str) -> str:
    """Return a text, which may come from another program, without control characters."""
    if text.isprintable():
        return text
    text = text.encode(errors="replace").decode()
    return "".join(c for c in text if c == "\t" or not (c < " " or "\x7f" <= c <= "\x9f"))


def _label(text: str) -> str:
    return sound(text)[:MAX_LABEL]
