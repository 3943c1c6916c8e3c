"""Another MCP server as a provider: listed, read, completed and watched through its client.

It starts in the background. Its URIs are unchanged, or all have a prefix if one of its schemes is taken; its first
list decides that. Until that list comes, the one of the last run is served. When the server ends, only its own URIs
fail: its entries stay listed for a while, and fresh copies are still served.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Final

from carrel.client.client import Client
from carrel.client.rpc import Transport
from carrel.core.content import etag_of
from carrel.core.errors import BadArgument, CarrelError, Disconnected, NotFound, UnknownScheme, Unreachable
from carrel.core.gateway import Gateway
from carrel.core.model import Completion, Meta, Reading, Resource, Template
from carrel.core.provider import Changes, Route
from carrel.core.record import replace
from carrel.core.refresh import Refresh
from carrel.core.uri import is_within, scheme_of
from carrel.providers.mounts.link import Link, Refused
from carrel.providers.mounts.lists import Circular, ServedLists, TakenSchemes, only_ours, take_lists
from carrel.providers.mounts.read_cache import ReadCache
from carrel.providers.mounts.saved_lists import ListMemory
from carrel.providers.mounts.settings import MountSettings
from carrel.providers.mounts.uri_mapping import Snapshot, can_be_matched

log = logging.getLogger(__name__)

FIRST_LIST_S: Final = 2.0
"""How long after its start the first list waits for a mount."""

TOKEN_S: Final = 1.0
SEEN_S: Final = 5.0
"""A notification this soon after polling found a change may be about the same change, so it is checked by a read."""

RETRY_S: Final = 5.0
"""When a server that gave no list in time is asked again."""


class Mount(Gateway):
    """One other server. `connect` returns a transport to it, `instance` names the Carrel that mounts it."""

    speed = "blocking"

    def __init__(
        self,
        name: str,
        options: MountSettings,
        connect: Callable[[], Transport],
        taken: TakenSchemes = only_ours,
        instance: str = "",
        *,
        memory: ListMemory | None = None,
        taken_now: TakenSchemes = only_ours,
    ) -> None:
        self.name = name
        self.summary = f"Resources of another server, mounted as {name}."
        self.deadline_s = options.timeout_s + 1
        self._options = options
        self._taken_now = taken_now
        self._instance = instance
        self._link = Link(name, options, connect, self)
        self._copies = ReadCache()
        self._lock = threading.Lock()
        self._relisting = threading.Lock()
        self._renewal = Refresh(f"carrel-mount-{name}-list", self._renew)
        self._listed = ServedLists(name, taken, memory)
        self._turn = 0
        """How often the list changed; a part of its fingerprint."""
        self._stale_at = 0.0
        self._is_late = False
        self._begun_at = monotonic()
        self._watched: dict[str, str | None] = {}
        self._tokens: dict[str, tuple[float, str]] = {}
        self._seen: dict[str, float] = {}
        self._changes: list[Changes] = []
        self._again: Callable[[], None] = lambda: None
        self._readable: tuple[Resource, ...] = ()
        """The entries to list: those that already have a route, so that a client can read what it was listed."""
        self._server_facts: dict[str, object] = {}

    def begin(self) -> None:
        """Start the server in the background; serve the lists of the last run meanwhile."""
        self._begun_at = monotonic()
        self._listed.recall(self._taken_now())
        if self._listed.is_recalled:
            self._reroute()
        self._link.begin()

    def wait(self, timeout_s: float) -> bool:
        """Return whether the first attempt to start the server is over, after at most `timeout_s`."""
        return self._link.settled.wait(timeout_s)

    @property
    def is_starting(self) -> bool:
        """Whether the first attempt to start the server is under way."""
        return not self._link.settled.is_set()

    # Lists

    def adopts(self, scheme: str) -> bool:
        """Return whether a scheme without an owner may belong to this server."""
        return scheme.startswith(f"{self.name}+") or self.is_starting

    def routes(self) -> Sequence[Route]:
        return [
            Route(one.uri_template, self.read, one.name, one.mime_type)
            for one in self._listed.templates
            if can_be_matched(one.uri_template)
        ]

    def templates(self) -> Sequence[Template]:
        """Return the templates, also those that only the server can match."""
        return () if self._link.is_long_gone else self._listed.templates

    def on_reroute(self, again: Callable[[], None]) -> None:
        """Call `again` after the lists changed."""
        self._again = again

    def entries(self, after: str = "") -> Iterator[Resource]:
        """Yield the entries in URI order; none if the server has been down for long."""
        if self.is_starting and not self._listed.is_recalled:
            self.wait(max(0.0, self._begun_at + FIRST_LIST_S - monotonic()))
        if self._link.client is not None and monotonic() >= self._stale_at:
            self._renewal.begin()
            if not self._is_late:
                self._renewal.wait()
        if not self._link.is_long_gone:
            yield from (entry for entry in self._readable if entry.uri > after)

    def list_fingerprint(self) -> str:
        """Return a token that changes when the lists change or are withdrawn."""
        return f"{self._turn} {self._listed.version}"

    def _renew(self) -> None:
        client = self._link.client
        if client is not None:
            self.relist(client)

    # For the link

    def opened(self, client: Client) -> None:
        """Take the first lists, and decide how URIs are spelled here."""
        there = self._ask_lists(client, self._options.start_timeout_s)
        try:
            self._listed.decide(there, self._options.prefix)
        except Refused:
            self._withdraw()
            raise
        self._server_facts = {
            "era": client.era,
            "version": client.version,
            "server": client.server_info.get("name", ""),
        }
        self._put(there)
        self.schemes = self._listed.schemes

    def relist(self, client: Client) -> None:
        """Take the lists again; if that fails, keep those of before."""
        with self._relisting:
            try:
                self._put(self._ask_lists(client, self._options.timeout_s))
            except Circular as error:
                self._link.lose(client, str(error))
            except CarrelError as error:
                log.warning("the lists of mount %s cannot be taken: %s", self.name, error)
                self._is_late = True
                self._stale_at = monotonic() + min(RETRY_S, self._options.refresh_s)

    def _ask_lists(self, client: Client, timeout_s: float) -> Snapshot:
        there, fresh_s = take_lists(client, self._options, timeout_s)
        self._stale_at, self._is_late = monotonic() + fresh_s, False
        if there.holds(self._instance):
            self._withdraw()
            raise Circular("it lists this server's own resources: it is this server or mounts it")
        return there

    def _put(self, there: Snapshot) -> None:
        """Serve lists, and report if they changed."""
        if self._listed.take(there):
            self._reroute()

    def _withdraw(self) -> None:
        if self._listed.withdraw():
            self._reroute()

    def _reroute(self) -> None:
        self.schemes = self._listed.schemes
        self._again()
        self._readable = self._listed.resources
        self.list_changed()

    def subscribed(self) -> tuple[str, ...]:
        """Return the subscribed URIs as the server spells them."""
        with self._lock:
            return tuple(self._listed.naming.back(uri) for uri in self._watched)

    def updated(self, uri: str) -> None:
        """Report that a URI changed, unless polling has just found that change."""
        here = self._listed.naming.out(uri)
        seen = self._seen.pop(here, None)
        client = self._link.client
        if seen is not None and monotonic() - seen < SEEN_S and client is not None:
            self.poll(client, (uri,))
        else:
            self._report_updated(here)

    def _report_updated(self, here: str) -> None:
        self._copies.drop(here)
        self._tokens.pop(here, None)
        with self._lock:
            concerned = [one for one in self._watched if is_within(here, one)]
        for one in concerned:
            self._copies.drop(one)
            self._tokens.pop(one, None)
            for changes in self._listeners():
                changes.updated(one)

    def poll(self, client: Client, uris: tuple[str, ...]) -> None:
        """Read URIs, and report those whose ETag changed."""
        naming = self._listed.naming
        for uri in uris:
            here = naming.out(uri)
            try:
                token = _token(naming.reading(self._ask(client, uri), uri))
            except (Disconnected, Unreachable) as error:
                raise Disconnected(str(error)) from None
            except CarrelError as error:
                token = str(error)
            with self._lock:
                before = self._watched.get(here)
                if here in self._watched:
                    self._watched[here] = token
            if before is not None and before != token:
                self._seen[here] = monotonic()
                self._report_updated(here)

    def list_changed(self) -> None:
        """Report that the list changed."""
        self._turn += 1
        for changes in self._listeners():
            changes.list_changed()

    def _listeners(self) -> tuple[Changes, ...]:
        with self._lock:
            return tuple(self._changes)

    # Reading

    def read(self, uri: str) -> Reading:
        """Return a copy that is still fresh, or ask the server."""
        return self._read(uri, None)

    def read_unmatched(self, uri: str) -> Reading:
        """Read a URI that only the server can match."""
        return self.read(uri)

    def read_if(self, uri: str, condition: str) -> Reading:
        """Read; a server that is a Carrel may answer that nothing changed."""
        return self._read(uri, condition)

    def _read(self, uri: str, condition: str | None) -> Reading:
        if "#" in uri:
            raise BadArgument("The URI has a fragment", uri=uri, data={"parameter": "uri"})
        copy = self._copies.fresh(uri)
        if copy is not None:
            return copy
        client = self._client(uri)
        naming = self._listed.naming
        there = naming.back(uri)
        given = self._attempt(client, uri, there, condition)
        if not given.items and not given.unchanged and not self._listed.has(uri):
            raise NotFound(uri)
        reading = naming.reading(given, there)
        if client.era == "legacy":
            return replace(reading, ttl_ms=self._options.ttl_ms)
        if not reading.unchanged and reading.error is None:
            self._copies.keep(uri, reading)
        return reading

    def _client(self, uri: str) -> Client:
        """Return the client, after waiting for a server that is starting; raise if there is none."""
        if self._link.client is None and self.is_starting:
            self.wait(self._patience_s(uri))
        scheme, client = scheme_of(uri), self._link.client
        if self._listed.is_decided and scheme not in self._listed.schemes and not scheme.startswith(f"{self.name}+"):
            raise UnknownScheme(uri)
        if client is None:
            raise self._link.unavailable()
        return client

    def _patience_s(self, uri: str) -> float:
        """Return how long a read waits for a server that is starting: longer for URIs of its schemes."""
        is_known = scheme_of(uri) in self._listed.schemes
        start_s = self._options.start_timeout_s if is_known else FIRST_LIST_S
        return min(max(0.0, self._begun_at + start_s - monotonic()), self._options.timeout_s)

    def _attempt(self, client: Client, uri: str, there: str, condition: str | None) -> Reading:
        """Read from the server; a second time if the connection breaks and is back in time."""
        deadline = monotonic() + self._options.timeout_s
        with self._link.translating(uri, partial(NotFound, uri)):
            try:
                return self._ask(client, there, condition)
            except (Disconnected, Unreachable) as error:
                # Over HTTP, each request is a connection: no event says that the server is gone.
                self._link.lose(client)
                if isinstance(error, Unreachable):
                    raise
                again = self._link.wait_for_client(deadline - monotonic(), other_than=client)
                if again is None:
                    raise
                return self._ask(again, there, condition)

    def _ask(self, client: Client, there: str, condition: str | None = None) -> Reading:
        return client.read(there, if_none_match=condition)

    # Completion, watching

    def refers(self, reference: str) -> str | None:
        """Return the reference if it is a listed URI or a template of the server."""
        is_known = self._listed.has(reference) or any(one.uri_template == reference for one in self._listed.templates)
        return reference if is_known else None

    def complete(self, template: str, variable: str, value: str, context: Mapping[str, str]) -> Completion:
        client = self._link.client
        if client is None:
            raise self._link.unavailable()
        if "completions" not in client.capabilities:
            return Completion((), total=0, has_more=False)
        unknown = partial(BadArgument, "Unknown reference or argument", data={"parameter": "ref"})
        with self._link.translating(template, unknown):
            return client.complete(self._listed.naming.back(template), variable, value, context)

    def fingerprint(self, uri: str) -> str | None:
        """Return the ETag, read at most once a second; raise as a read would."""
        known = self._tokens.get(uri)
        if known is not None and monotonic() - known[0] < TOKEN_S:
            return known[1]
        token = _token(self.read(uri))
        self._tokens = {one: kept for one, kept in self._tokens.items() if monotonic() - kept[0] < TOKEN_S}
        self._tokens[uri] = monotonic(), token
        return token

    def watch(self, changes: Changes) -> Callable[[], None]:
        """Report the changes that the server reports, and those of its lists."""
        with self._lock:
            self._changes.append(changes)

        def stop() -> None:
            with self._lock:
                self._changes.remove(changes)

        return stop

    def follow(self, uri: str) -> None:
        """Subscribe to a URI."""
        with self._lock:
            is_new = uri not in self._watched
            if is_new:
                self._watched[uri] = self._tokens[uri][1] if uri in self._tokens else None
        if is_new:
            self._link.renew()

    def unfollow(self, uri: str) -> None:
        """Unsubscribe from a URI."""
        with self._lock:
            self._watched.pop(uri, None)
            self._seen.pop(uri, None)
        self._link.renew()

    # The rest

    def health(self) -> Meta:
        """Return the state of the server."""
        link, late_s = self._link, self._renewal.late_s
        is_stale = link.state == "up" and (self._is_late or late_s > 0)
        problems = []
        if link.state == "down":
            problems.append(f"the mount is down: {link.cause}")
        elif is_stale:
            since = f", asked {late_s:.0f} s ago" if late_s else ""
            problems.append(f"the mount gives no list{since}; the last one is served")
        facts = {"state": "stale" if is_stale else link.state, **self._server_facts}
        count = len(self._listed.resources)
        return {**facts, "entries": count, "restarts": link.restarts, "lastCause": link.cause, "problems": problems}

    def close(self) -> None:
        """End the server; a second call does nothing."""
        self._link.close()


def _token(reading: Reading) -> str:
    return reading.etag or etag_of(reading.items)
