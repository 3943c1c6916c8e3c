"""The output of processes as resources: bounded, live, with cursors that stay valid when lines are dropped.

logs://run/{id}{?start,length,tail,since,stream,format}    the output of a run
logs://build/{id}{?start,length,tail,since,stream,format}  the output of a build
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, get_args

from carrel.core.errors import ConfigError, Conflict, NotFound, ProviderError
from carrel.core.isotime import iso
from carrel.core.limits import LIST_TTL_MS
from carrel.core.model import (
    FOLDER_TYPE,
    Annotations,
    Completion,
    Meta,
    Range,
    Rank,
    Reading,
    Resource,
    Text,
    Tool,
    ToolResult,
)
from carrel.core.provider import Call, Ceiling, Changes, Document, Project, Protection, Provider, Route
from carrel.core.record import replace
from carrel.core.store_address import StoreAddress
from carrel.providers.logs import spool, uris
from carrel.providers.logs.log import KINDS, Bounds, Kind, LogFacts, Retention
from carrel.providers.logs.log_index import LogIndex
from carrel.providers.logs.rendering import MIME_TYPES, Format, render
from carrel.providers.logs.ring import LogEntry, Stream
from carrel.providers.logs.settings import (
    CommandSettings,
    FlutterSettings,
    ProcessSettings,
    check_commands,
    is_flutter_project,
)
from carrel.providers.logs.spooled_log import SpoolBounds
from carrel.providers.logs.uris import FolderQuery, LogQuery

if TYPE_CHECKING:
    from carrel.providers.logs.log_index import Snapshot
    from carrel.providers.logs.pushed_logs import PushedLogs
    from carrel.providers.logs.team_logs import TeamLogIndex, TeamLogs
    from carrel.providers.logs.tools import ProcessTools

MAX_CHILDREN: Final = 1_000
_LEAST_LINE: Final = 64
"""Bytes that a log from another machine may have for each line that is kept of it."""


class Logs(Provider):
    """The output of runs and builds: of this server's processes, and of `carrel run`."""

    name = "logs"
    schemes = (uris.SCHEME,)
    folders = tuple(f"logs://{kind}" for kind in KINDS)
    summary = "The output of runs and builds. `?tail=50` reads the end, `?since=N` the lines after the cursor N."
    limits_tool_time = True

    def __init__(
        self,
        project: Project,
        max_bytes: Ceiling = Ceiling(102_400),
        max_entries: Ceiling = Ceiling(1_000),
        max_logs: Ceiling = Ceiling(64),
        redact: Protection = Protection(True),
        spool_logs: int = 64,
        pushed_max_bytes: Ceiling = Ceiling(4_194_304),
        pushed_logs: Ceiling = Ceiling(200),
        pushed_days: Ceiling = Ceiling(30),
        pushed_total_bytes: Ceiling = Ceiling(268_435_456),
        pushed_share: Ceiling = Ceiling(50),
        flutter: FlutterSettings | None = None,
        processes: ProcessSettings | None = None,
        commands: dict[str, CommandSettings] | None = None,
    ) -> None:
        del spool_logs  # read by `carrel run`
        for key, count in (("max_logs", max_logs), ("pushed_logs", pushed_logs)):
            if count < 1:
                raise ConfigError(f"[logs] {key}: expected a whole number, 1 or more")
        if not 1 <= pushed_share <= 100:
            raise ConfigError("[logs] pushed_share: expected a whole number from 1 to 100")
        check_commands(project.root, commands or {})
        self._project = project
        self._settings = (flutter or FlutterSettings(), processes or ProcessSettings(), commands or {})
        own = Bounds(max_bytes, max_entries, redact).check()
        pushed = Bounds(pushed_max_bytes, max(1, pushed_max_bytes // _LEAST_LINE), redact).check()
        self._bounds = SpoolBounds(own, pushed)
        self._index = LogIndex(project.root, self._bounds, max_logs)
        self._retention = Retention(pushed_logs, pushed_days, pushed_total_bytes, pushed_share)
        self._pushed: PushedLogs | None = None
        self._team = None if project.store is None else self._open_team(project.store, max_logs)
        self._made: ProcessTools | None = None
        self.has_tools = bool(commands) or (self._settings[0].tools == "auto" and is_flutter_project(project.root))

    def routes(self) -> Sequence[Route]:
        fingerprint = partial(self.fingerprint_of_folder, None)
        top = Route("logs://", self.read_top, mime_type=FOLDER_TYPE, query=uris.FOLDER_QUERY, fingerprint=fingerprint)
        return (top, *self._routes_of("run"), *self._routes_of("build"))

    def _routes_of(self, kind: Kind) -> Iterator[Route]:
        yield Route(
            f"logs://{kind}/{{id}}{uris.QUERY}",
            partial(self.read_log, kind),
            name=f"{kind}-log",
            title=f"{kind.capitalize()} log",
            description=f"The output of a {kind}: whole, a range, the end (tail), or new lines (since)",
            query=uris.LOG_QUERY,
            fingerprint=partial(self.fingerprint_of_log, kind),
            takes_uri=True,
            append=partial(self.append, kind),
        )
        read, fingerprint = partial(self.read_folder, kind), partial(self.fingerprint_of_folder, kind)
        yield Route(f"logs://{kind}", read, mime_type=FOLDER_TYPE, query=uris.FOLDER_QUERY, fingerprint=fingerprint)

    def canonical(self, uri: str) -> str:
        """Return the one spelling; some hosts and URL libraries drop slashes."""
        return uris.canonical(uri)

    # Listing

    def entries(self, after: str = "") -> Iterator[Resource]:
        """Yield every log in URI order, after the URI `after`."""
        for facts in self._facts():
            if facts.uri > after:
                yield _entry(facts)

    def documents(self) -> Iterator[Document]:
        """Yield every log with its ETag."""
        for facts in self._facts():
            entry = _entry(facts)
            yield Document(facts.uri, facts.etag, entry.title, entry.mime_type, facts.size, facts.modified_ms)

    def shortlist(self) -> Sequence[Iterable[Resource]]:
        """Return the logs, the newest first."""
        logs = (replace(entry, sort_key=_newest_first(entry), rank=Rank.LOGS) for entry in self.entries())
        return (sorted(logs, key=lambda entry: entry.sort_key),)

    def browse(self, directory: str | None, prefix: str, after: str = "") -> Iterator[Resource]:
        """Yield the logs whose URI begins with the prefix, or those in a folder; a folder of files holds no logs."""
        if directory is None or directory.startswith("logs:"):
            begins = uris.canonical_prefix(prefix) if directory is None else f"{directory.rstrip('/')}/"
            yield from (entry for entry in self.entries(after) if entry.uri.startswith(begins))

    # Reading

    def read_log(self, kind: Kind, id: str, query: LogQuery, uri: str) -> Reading:  # noqa: A002 as in the template
        """Return a log, or a part of it."""
        found = self._find(kind, id, query, uri)
        if found is None:
            raise NotFound(uri)
        return _reading(*found, query)

    def append(self, kind: Kind, id: str, data: bytes, query: LogQuery, uri: str) -> Mapping[str, object]:  # noqa: A002 as in the template
        """Add lines that another machine sent."""
        del query
        if not uris.ID.fullmatch(id):
            raise NotFound(uri)
        if self._team is not None:
            if self._index.snapshot(kind, id) is not None:
                raise Conflict(f"This machine already has a log {id}; choose another name")
            return self._team[0].append(kind, id, data).answer()
        if self._pushed is None:
            from carrel.providers.logs.pushed_logs import PushedLogs  # loaded where logs are sent

            self._pushed = PushedLogs(self._project.root, self._bounds, self._retention)
        return self._pushed.append(kind, id, data).answer()

    def fingerprint_of_log(self, kind: Kind, query: LogQuery, uri: str, **name: str) -> str | None:
        """Return the ETag of a log; None if there is no such log."""
        found = self._find(kind, name["id"], query, uri)
        return None if found is None else found[0].etag

    def _find(self, kind: Kind, name: str, query: LogQuery, uri: str) -> "Snapshot | None":
        if not uris.ID.fullmatch(name):
            raise NotFound(uri)
        uris.check_part(query, uri)
        return self._snapshot(kind, name)

    # Logs of this machine and, with a store, of the team

    def _open_team(self, address: StoreAddress, max_logs: int) -> "tuple[TeamLogs, TeamLogIndex]":
        from carrel.providers.logs.team_logs import TeamLogIndex, TeamLogs  # loads the database's driver

        logs = TeamLogs(address, self._bounds, self._retention)
        return logs, TeamLogIndex(logs, self._bounds, max_logs)

    def _refresh(self) -> None:
        """Fetch the logs that other replicas received; while the store is not reachable, keep the last known ones."""
        if self._team is not None:
            with suppress(ProviderError):
                self._team[0].refresh()

    def _facts(self, kind: Kind | None = None) -> list[LogFacts]:
        """Return the facts of every log, in the order of their URIs."""
        own = self._index.facts(kind)
        if self._team is None:
            return own
        self._refresh()
        known = {facts.uri: facts for facts in (*self._team[1].facts(kind), *own)}
        return [known[uri] for uri in sorted(known)]

    def _snapshot(self, kind: Kind, name: str) -> "Snapshot | None":
        """Return a log at this moment, or None; raise if it may be in the store, and the store is not reachable."""
        own = self._index.snapshot(kind, name)
        if own is not None or self._team is None:
            return own
        self._team[0].refresh()
        return self._team[1].snapshot(kind, name)

    def read_top(self, query: FolderQuery) -> Reading:
        """Return the two folders of logs."""
        kinds = [Text("", FOLDER_TYPE, uri=f"logs://{kind}") for kind in KINDS if kind > query.after]
        return Reading(tuple(kinds) or (Text("", FOLDER_TYPE),), more=lambda _: None)

    def read_folder(self, kind: Kind, query: FolderQuery) -> Reading:
        """Return one small item for each log, so that a host can build a listing from the URIs."""
        logs = [facts for facts in self._facts(kind) if facts.id > query.after]
        items = tuple(map(_child, logs[:MAX_CHILDREN])) or (Text("", FOLDER_TYPE),)

        def more(count: int) -> str | None:
            return f"logs://{kind}?after={logs[count - 1].id}" if count < len(logs) else None

        return Reading(items, ttl_ms=LIST_TTL_MS, more=more)

    def fingerprint_of_folder(self, kind: Kind | None, query: FolderQuery) -> str:
        """Return a token of the logs of a kind, or of all logs."""
        del query
        return " ".join(f"{facts.id} {facts.state}" for facts in self._facts(kind))

    # Completion and watching

    def complete(self, template: str, variable: str, value: str, context: Mapping[str, str]) -> Completion:
        """Return ids, the newest first, or the words of `stream` and `format`."""
        del context
        offered: Sequence[str] = {"stream": get_args(Stream), "format": get_args(Format)}.get(variable, ())
        if variable == "id":
            kind: Kind = "build" if template.startswith("logs://build/") else "run"
            newest = sorted(self._facts(kind), key=lambda facts: (facts.started_ms, facts.id), reverse=True)
            offered = [facts.id for facts in newest]
        fitting = tuple(one for one in offered if one.startswith(value))
        return Completion(fitting, total=len(fitting), has_more=False)

    def list_fingerprint(self) -> str:
        """Return a token that changes when a log appears or disappears."""
        if self._team is None:
            return self._index.survey()
        self._refresh()
        return f"{self._index.survey()}\n{self._team[1].survey()}"

    def watch(self, changes: Changes) -> Callable[[], None]:
        """Report new lines and logs until stopped."""
        ends = [index.watch(changes) for index in (self._index, *((self._team[1],) if self._team else ()))]

        def end() -> None:
            for one in ends:
                one()

        return end

    # Tools

    def tools(self) -> Sequence[Tool]:
        return self._tools().offered()

    def call(self, name: str, arguments: Mapping[str, object], call: Call) -> ToolResult:
        return self._tools().call(name, arguments, call)

    def _tools(self) -> "ProcessTools":
        if self._made is None:
            from carrel.providers.logs.tools import ProcessTools  # loaded by the first use of tools

            self._made = ProcessTools(self._project, self._index, *self._settings)
        return self._made

    def health(self) -> Meta:
        """Return the number of logs and of running processes, and problems."""
        from carrel.files.data_folder import unreadable  # not at the start

        logs = self._facts()
        fault, problems = spool.fault(self._project.root), unreadable(self._project.root, ".carrel", ".carrel/logs")
        problems = problems or ([f"the logs on disk are not served: {fault}"] if fault else [])
        missing = self._missing_program()
        if missing:
            problems.append(f"the Flutter tools are not offered: {missing}; install it, or set executable in [flutter]")
        return {"logs": len(logs), "running": sum(facts.is_running for facts in logs), "problems": problems}

    def _missing_program(self) -> str:
        """Return which program a Flutter project lacks; empty if none, or if its tools are off."""
        settings = self._settings[0]
        if settings.tools == "off" or not is_flutter_project(self._project.root):
            return ""
        from carrel.providers.logs.flutter import find_executable  # loaded where a Flutter project needs it

        if find_executable(self._project, settings.executable) is not None:
            return ""
        return f"there is no {settings.executable}" + ("" if os.sep in settings.executable else " on PATH")

    def close(self) -> None:
        """End every process with its group."""
        if self._made is not None:
            self._made.close()
        if self._team is not None:
            self._team[0].close()


def _reading(facts: LogFacts, entries: tuple[LogEntry, ...], query: LogQuery) -> Reading:
    """Return the requested part of a log."""
    shown: Sequence[LogEntry] = entries
    since = query.since or 0
    if since:
        shown = [entry for entry in entries if entry.seq > since]
    missed = 0 if query.tail is not None else max(0, facts.newest - since) - len(shown)
    if query.stream is not None:
        shown = [entry for entry in shown if entry.stream == query.stream]
    if query.tail is not None:
        shown = shown[-query.tail :]
    text = render(facts, shown, query.format, is_whole=not query.is_part, has_own=query.stream is None)
    size = facts.size if shown is entries and query.format == "text" else len(text.encode())
    meta = {
        "dev.carrel/uri": facts.uri,
        "dev.carrel/encoding": "utf-8",
        "dev.carrel/total": size,
        "dev.carrel/start": 0,
        "dev.carrel/length": size,
        **facts.meta(),
        "dev.carrel/cursor": facts.newest,
    }
    if missed:
        meta["dev.carrel/missed"] = missed
    return Reading(
        (Text(text, MIME_TYPES[query.format], meta=meta),),
        etag=facts.etag,
        last_modified_ms=facts.modified_ms,
        ttl_ms=facts.ttl_ms,
        # With a range set here, the catalog refuses another range beside the URI: a part is not cut again.
        range=query.range or (Range() if query.is_part else None),
    )


def _newest_first(entry: Resource) -> str:
    """Return a key that sorts logs by the start in their id, which is in microseconds."""
    started = entry.uri.rpartition("_")[2]
    is_number = started.isascii() and started.isdigit()
    return f"{10**18 - int(started[:18]) if is_number else 10**18:019d}{entry.uri}"


def _entry(facts: LogFacts) -> Resource:
    return Resource(
        facts.uri,
        f"{facts.kind}/{facts.id}",
        facts.description,
        MIME_TYPES["text"],
        title=facts.id,
        annotations=Annotations(last_modified_ms=facts.modified_ms),
        size=facts.size,
        meta={**facts.meta(), "dev.carrel/etag": facts.etag},
    )


def _child(facts: LogFacts) -> Text:
    """Return a log as one item of its folder."""
    meta = {
        "dev.carrel/uri": facts.uri,
        "dev.carrel/encoding": "utf-8",
        "dev.carrel/total": facts.size,
        "dev.carrel/start": 0,
        "dev.carrel/length": 0,
        "dev.carrel/etag": facts.etag,
        "dev.carrel/last-modified": iso(facts.modified_ms),
        **facts.meta(),
        "dev.carrel/entry": True,
    }
    return Text(facts.description, MIME_TYPES["text"], uri=facts.uri, meta=meta)
