"""The words for limits and facts on the pages about the server."""

import re
from collections.abc import Mapping
from typing import Final

from carrel.explorer.rendering.amounts import count, size

LIMITS: Final[Mapping[str, tuple[str, str]]] = {
    "max_uri_length": ("Length of a URI", "characters"),
    "max_remembered_length": ("Length of a URI, path or header that is cached", "characters"),
    "max_query_pairs": ("Query of a URI", "parameters"),
    "page_size": ("One page of a list", "entries"),
    "max_listed": ("Whole list of a client", "entries"),
    "max_message_bytes": ("One message, in either direction", "bytes"),
    "id_window_bytes": ("Start of an over-long message that is searched for its id", "bytes"),
    "max_budget": ("Budget of one answer", "tokens"),
    "max_batch": ("One batch, which only protocol version 2025-03-26 has", "messages"),
    "max_completions": ("One completion", "values"),
    "completions_per_second": ("Completions for one caller", "per second"),
    "completion_burst": ("Completions for one caller at once", "requests"),
    "max_subscribed_uris": ("One subscription", "URIs"),
    "updates_per_second": ("Notifications about one URI", "per second"),
    "request_deadline_s": ("Time for any request", "seconds"),
    "opening_deadline_s": ("Time for the instructions of all providers", "seconds"),
    "stuck_s": ("Time before another thread takes over from a blocked one", "seconds"),
    "store_read_s": ("Time to read from the store of scopes", "seconds"),
    "store_write_s": ("Time to change the store of scopes", "seconds"),
    "store_command_s": ("Time for a command to change the store of scopes", "seconds"),
    "store_import_s": ("Time for a command to import scopes", "seconds"),
    "worker_threads": ("Blocking calls of one provider at once", "threads"),
    "max_worker_threads": ("Blocking requests of one connection at once", "threads"),
    "max_pending": ("Waiting requests of one connection to one provider", "requests"),
    "max_pending_in_all": ("Waiting requests of one connection to all providers", "requests"),
    "max_patient": ("Waiting tool calls of one connection, such as builds", "calls"),
    "shutdown_grace_s": ("Time for running work after the end of input", "seconds"),
    "forced_end_s": ("Time for the process to end after a signal", "seconds"),
    "discover_ttl_ms": ("Time that a client may cache what the server offers", "ms"),
    "list_ttl_ms": ("Time that a client may cache a list", "ms"),
    "max_header_bytes": ("All headers of one HTTP request", "bytes"),
    "http_read_s": ("Time to receive an HTTP request", "seconds"),
    "http_idle_s": ("Time that an idle HTTP connection stays open", "seconds"),
    "http_stall_s": ("Time that an answer waits for a client that does not read", "seconds"),
    "max_connections": ("HTTP connections with an accepted request", "connections"),
    "max_new_connections": ("HTTP connections without an accepted request", "connections"),
    "max_new_per_address": ("HTTP connections without an accepted request from one address", "connections"),
    "http_first_s": ("Time that an HTTP connection waits for its next request", "seconds"),
    "max_waiting_per_client": ("Waiting HTTP requests of one client", "requests"),
    "max_streams_per_client": ("Open event streams of one client", "streams"),
    "keep_alive_s": ("Pause between comments on an idle event stream", "seconds"),
    "session_idle_s": ("Time that an idle session is kept", "seconds"),
    "max_sessions": ("Sessions", "sessions"),
    "max_sessions_per_client": ("Sessions of one client", "sessions"),
    "max_kept_text_bytes": ("Recently read contents in memory", "bytes"),
}
"""What each limit is for, and its unit."""
_FACTS: Final[Mapping[str, str]] = {
    "bytes": "size",
    "count": "number of URIs",
    "era": "protocol",
    "expiresAt": "access ends",
    "facets": "features",
    "folder": "folder exists",
    "indexed": "searchable",
    "lastCause": "last failure",
    "list": "changes of the list",
    "sessions": "open sessions",
    "streams": "open event streams",
    "uris": "URIs",
    "written": "last written",
}
_TIMES: Final = ("expiresAt", "written")
_KEYED: Final = ("providers", "presets")
"""Facts whose keys are names that a user chose."""
_OUTCOMES: Final[Mapping[str, str]] = {
    "lost": "lost: its writer was killed",
    "not-started": "failed: not started",
    "timed-out": "failed: timed out",
}
"""States of a log's program whose names need more words."""
_CAPITAL: Final = re.compile(r"(?<=[a-z])[A-Z]")


def limit_texts(limits: Mapping[str, object]) -> dict[str, str]:
    """Return what each limit is for, with its value and unit."""
    return {LIMITS[name][0]: f"{_number(value)} {_unit(value, LIMITS[name][1])}" for name, value in limits.items()}


def fact_texts(value: object, name: str = "") -> object:
    """Return facts, which may be nested, as people read them: with words for their names, units, and times in UTC."""
    if isinstance(value, Mapping):
        return {inner if name in _KEYED else label(inner): fact_texts(one, inner) for inner, one in value.items()}
    if isinstance(value, list | tuple):
        return [fact_texts(one) for one in value]
    if name == "bytes" and isinstance(value, int):
        return size(value)
    if name == "expiresAt" and value is None:
        return "never"
    if name in _TIMES and isinstance(value, str):
        return f"{value[:16].replace('T', ' ')} UTC"
    return value


def label(name: str) -> str:
    """Return words for the name of a fact, such as `last failure` for `lastCause`."""
    return _FACTS.get(name) or _CAPITAL.sub(lambda found: f" {found[0].lower()}", name).replace("_", " ")


def outcome(meta: Mapping[str, object]) -> str | None:
    """Return whether the program that writes a log runs, or how it ended, in words; None if this is no log."""
    state, code = meta.get("dev.carrel/state"), meta.get("dev.carrel/exit-code")
    if not isinstance(state, str):
        return None
    words = ("succeeded" if code == 0 else "failed" if isinstance(code, int) else "ended") if state == "exited" else ""
    words = words or _OUTCOMES.get(state, state)
    return f"{words} (exit code {code})" if isinstance(code, int) else words


def _unit(value: object, unit: str) -> str:
    """Return a unit in the form that a number asks for; `ms` and `per second` have only one."""
    is_plural = value != 1 or unit in ("ms", "per second")
    return unit if is_plural else f"{unit[:-3]}y" if unit.endswith("ies") else unit.removesuffix("s")


def _number(value: object) -> str:
    if isinstance(value, float):
        return count(int(value)) if value.is_integer() else f"{value:g}"
    return count(value) if isinstance(value, int) else str(value)
