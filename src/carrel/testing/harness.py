"""A provider served in memory, and the checks that the laws of `contract` use."""

import difflib
import inspect
import json
import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from carrel.catalog.catalog import Catalog
from carrel.catalog.watcher import Watcher
from carrel.client.client import Client, EraName
from carrel.client.memory import Memory
from carrel.client.rpc import Transport, Unanswered
from carrel.core.errors import BadArgument, CarrelError, RemoteError
from carrel.core.gateway import Gateway
from carrel.core.limits import MAX_URI_LENGTH
from carrel.core.model import Blob, Range, Reading, Text, Tool
from carrel.core.provider import ATTRIBUTES, METHODS, Provider
from carrel.core.template import UriTemplate
from carrel.core.uri import decode, scheme_of, split_query
from carrel.protocol.eras import DENIED, LATEST_LEGACY, LEGACY_NOT_FOUND, MODERN_VERSION, TOO_LARGE
from carrel.protocol.framing import OverLong
from carrel.protocol.jsonrpc import INVALID_PARAMS
from carrel.providers.objects.protocol import Capable
from carrel.server.server import Server

if TYPE_CHECKING:
    from carrel.providers.objects import ObjectProvider

ERAS: Final[tuple[EraName, ...]] = ("modern", "legacy")
VERSIONS: Final[Mapping[EraName, str]] = {"modern": MODERN_VERSION, "legacy": LATEST_LEGACY}
NOT_FOUND: Final[Mapping[EraName, int]] = {"modern": INVALID_PARAMS, "legacy": LEGACY_NOT_FOUND}

AS_CONTENT: Final = 0
"""Used in place of a code for an error that is sent as content."""

PART: Final = 65_536
"""Number of bytes to read of a resource that does not fit one message."""

_LOOK_S: Final = 0.01
_PATH: Final = re.compile(r"(?:^|[\s\"'`(=\[])(?:/[\w.+@%~-]+){2,}|\b[A-Za-z]:\\")
_INNARDS: Final = re.compile(r"\b[A-Z]\w*(?:Error|Exception)\b|<class |object at 0x|\[Errno|Traceback|[\n\r]")
_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_WRONG: Final = {"string": [0], "integer": "x", "number": "x", "boolean": "x", "array": "x", "object": "x"}
"""For each type of an argument, a value it cannot hold."""

_HOSTILE: Final = (
    "/../../../../../../etc/passwd",
    "/%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
    "/..%2f..%2f..%2fetc%2fpasswd",
    "%00",
    "/" + "a" * 65_536,
    "#part",
    "%",
)


class Trial:
    """One served provider with clients of one era. Keeps each message that the clients get, with its method."""

    def __init__(
        self, build: Callable[[], Provider | Capable], era: EraName, *, poll_s: float, deadline_s: float
    ) -> None:
        self._object: ObjectProvider | None = None
        self.provider: Provider
        built = build()
        if isinstance(built, Capable):
            # This one only showed its class: an object is built on the thread that calls it.
            getattr(built, "close", lambda: None)()
            self.provider = self._object = _serve(build, poll_s, deadline_s)
        else:
            self.provider = built
        self.era = era
        self.catalog = Catalog([self.provider])
        self.heard: list[tuple[bytes, str]] = []
        self._watcher = Watcher(self.catalog, poll_s)
        self._server = Server(self.catalog, self._watcher)
        self._deadline_s = deadline_s
        self._before = frozenset(threading.enumerate())
        self._clients: list[Client] = []
        self.client = self.connect()

    def check_capabilities(self) -> None:
        """Fail if the capabilities of an object are invalid, or differ the second time."""
        for first, second in () if self._object is None else (self._object.declared_twice(),):
            fault = first.fault or second.fault
            assert not fault, fault
            given = f"capabilities() gave {list(first.names)}, then {list(second.names)}"
            assert first.names == second.names, f"{given}; they must not change"

    def check_lists(self) -> None:
        """Fail if a list of an object raises, is not a list, or has entries that cannot be served."""
        list(self.provider.entries())
        faults = () if self._object is None else self._object.list_faults()
        assert not faults, "; ".join(faults)

    def connect(self) -> Client:
        """Return another client."""
        tap = _Tap(Memory(self._server, self._deadline_s), self.heard)
        client = Client(tap, era=self.era, timeout_s=self._deadline_s + 1)
        self._clients.append(client)
        return client

    def close(self) -> None:
        """Close the clients, wait until the provider is no longer watched, then close it."""
        for client in self._clients:
            client.close()
        # Only its own watcher: what a provider mounts may be watched in this process until it is closed.
        self._watcher.close()
        started = frozenset(threading.enumerate()) - self._before
        join([thread for thread in started if thread.name == "carrel-watch-one"], self._deadline_s)
        self.catalog.close()

    @property
    def refusals(self) -> tuple[int, ...]:
        """The codes for a URI that is missing, malformed or denied."""
        return AS_CONTENT, INVALID_PARAMS, DENIED, NOT_FOUND[self.era]

    def uris(self) -> list[str]:
        """Return the listed URIs."""
        return [entry.uri for entry in self.client.resources()]

    def pages(self) -> Iterator[dict[str, Any]]:
        """Yield the pages of the list as sent; at most one more than there are entries."""
        cursor = None
        for _ in range(len(list(self.catalog.entries())) + 1):
            page = self.client.request("resources/list", {} if cursor is None else {"cursor": cursor})
            yield page
            cursor = page.get("nextCursor")
            if cursor is None:
                return

    def children(self, uri: str) -> list[dict[str, Any]]:
        """Return the children of a folder as sent, from all its pages."""
        found: list[dict[str, Any]] = []
        cursor: Mapping[str, object] = {}
        while True:
            page = self.client.request("resources/directory/read", {"uri": uri, **cursor})
            found += page["resources"]
            if "nextCursor" not in page or not page["resources"]:
                return found
            cursor = {"cursor": page["nextCursor"]}

    def read(self, uri: str, condition: str | None = None, client: Client | None = None) -> Reading:
        """Read a URI, or its first part if it does not fit one message."""
        client = client or self.client
        try:
            return client.read(uri, if_none_match=condition)
        except RemoteError as error:
            if error.code != TOO_LARGE:
                raise
            return client.read(uri, wanted=Range(0, PART), if_none_match=condition)

    def read_all(self, uris: Iterable[str]) -> dict[str, Reading]:
        """Read URIs one after another."""
        return {uri: self.read(uri) for uri in uris}

    def total(self, uri: str) -> int:
        """Return the length of the whole in bytes."""
        reading = self.read(uri)
        if len(reading.items) == 1:
            meta = self.client.read(uri, wanted=Range(0, 0)).items[0].meta or {}
            return int(str(meta["dev.carrel/total"]))
        return sum(len(part.encode() if isinstance(part, str) else part) for part, _, _ in body(reading))

    def refusal(self, method: str, params: Mapping[str, object] | None = None) -> RemoteError | None:
        """Return the error of a request, also one that is sent as content; None if there is a result."""
        try:
            result = self.client.request(method, params)
        except RemoteError as error:
            return error
        meta = result.get("_meta", {})
        if "dev.carrel/error" not in meta or "contents" not in result:  # a tool's failure is a result
            return None
        text = " ".join(str(item.get("text", "")) for item in result.get("contents", []))
        return RemoteError(AS_CONTENT, text, {**meta, **(params or {})})

    def has_changed(self, uri: str, before: Reading) -> bool:
        """Return whether a read differs from one before."""
        try:
            return self.read(uri).etag != before.etag
        except RemoteError:
            return True

    def is_served(self, uri: str) -> bool:
        """Return whether a URI has a reader."""
        try:
            return self.catalog.find(uri).mounted.provider is self.provider
        except CarrelError:
            return False

    def hostile_uris(self) -> list[str]:
        """Return hostile URIs made from each scheme, each template and the first entry."""
        templates = [UriTemplate(template.uri_template) for template in self.client.templates()]
        starts = [template.literal_start.rstrip("/") for template in templates]
        listed = [split_query(uri)[0] for uri in self.uris()[:1]]
        places = dict.fromkeys([*(f"{scheme}://" for scheme in self.provider.schemes), *starts, *listed])
        return [place + end for place in places for end in _HOSTILE]


def _serve(build: Callable[[], object], poll_s: float, deadline_s: float) -> "ObjectProvider":
    """Serve an object with the time limits of the trial."""
    from carrel.providers.objects import serve_built  # only for objects

    return serve_built(build, poll_s=poll_s, timeout_s=deadline_s, start_timeout_s=deadline_s, list_ttl_s=0.0)


class _Tap:
    """A transport that keeps the messages it receives."""

    def __init__(self, inner: Transport, heard: list[tuple[bytes, str]]) -> None:
        self._inner = inner
        self._heard = heard
        self._asked: dict[object, str] = {}

    def send(self, message: bytes) -> None:
        spelled = json.loads(message)
        self._asked[spelled.get("id")] = spelled["method"]
        self._inner.send(message)

    def receive(self) -> bytes | OverLong | Unanswered | None:
        message = self._inner.receive()
        if isinstance(message, bytes):
            spelled = json.loads(message)
            self._heard.append((message, spelled.get("method") or self._asked[spelled.get("id")]))
        return message

    def close(self) -> None:
        self._inner.close()


# What was read


def body(reading: Reading) -> list[tuple[str | bytes, str, str | None]]:
    """Return the content of a reading, without its metadata."""
    return [(_content(item), item.mime_type, item.uri) for item in reading.items]


def joined(readings: Iterable[Reading]) -> str | bytes:
    """Join the parts of one item."""
    parts = [_content(item) for reading in readings for item in reading.items]
    texts = [part for part in parts if isinstance(part, str)]
    return "".join(texts) if texts else b"".join(part for part in parts if isinstance(part, bytes))


def _content(item: object) -> str | bytes:
    assert isinstance(item, Text | Blob), f"{item} came over the wire"
    return item.text if isinstance(item, Text) else item.data


# What must hold


def is_absolute(uri: str) -> bool:
    """Return whether a URI may be listed."""
    try:
        return bool(scheme_of(uri)) and bool(decode(uri)) and "#" not in uri and len(uri) <= MAX_URI_LENGTH
    except BadArgument:
        return False


def is_path(template: UriTemplate, name: str) -> bool:
    """Return whether a variable is in the path, and so required."""
    return name not in template.query_variables


def check_discreet(message: str, data: Mapping[str, object], uri: str) -> None:
    """Fail if an error shows a path, a type, a traceback or a second line; it may repeat the client's own words."""
    path = split_query(uri)[0].partition(":")[2].lstrip("/")
    texts = [value for key, value in data.items() if isinstance(value, str) and key not in ("uri", "suggested")]
    for text in (message, *texts):
        others = text
        for own in (uri, path):
            others = others.replace(own, "") if "/" in own else others
        found = _INNARDS.search(others) or _PATH.search(others)
        assert found is None, f"an error shows {found[0]!r}: {text[:300]}"


def check_names(provider: Provider) -> None:
    """Fail on a method or an attribute whose name is nearly one of `Provider`: Carrel would never use it."""
    inherited = dir(Gateway) if isinstance(provider, Gateway) else dir(Provider)
    for name in dir(provider):
        if name.startswith("_") or name in inherited or name in ATTRIBUTES:
            continue
        value = inspect.getattr_static(provider, name)
        is_plain = isinstance(value, bool | int | float | str | tuple | property)
        known = ATTRIBUTES if is_plain else METHODS if callable(value) else ()
        meant = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.83)
        assert not meant, f"{name} means nothing to Carrel; is it {meant[0]}?"
    interval = provider.poll_s
    assert interval is None or 0 < interval < float("inf"), (
        f"poll_s is {interval!r}; expected a number above 0, or None"
    )


def check_schema(tool: Tool) -> None:
    """Fail unless a tool has a valid name and an object schema with valid types."""
    schema = tool.input_schema
    assert _TOOL_NAME.fullmatch(tool.name), f"{tool.name!r} is not a valid name of a tool"
    assert schema.get("type") == "object", f"the schema of {tool.name} is not that of an object"
    properties = schema.get("properties", {})
    assert isinstance(properties, dict), f"the properties of {tool.name} are not an object"
    required = schema.get("required", [])
    assert isinstance(required, list), f"`required` of {tool.name} is not a list"
    assert set(required) <= set(properties), f"{tool.name} requires what it does not describe"
    for name, described in properties.items():
        assert isinstance(described, dict | bool), f"{name} of {tool.name} has no schema"
        kind = described.get("type", "string") if isinstance(described, dict) else "string"
        assert isinstance(kind, list) or kind in {*_WRONG, "null"}, f"{name} of {tool.name} has the type {kind!r}"


def bad_inputs(tool: Tool) -> Iterator[dict[str, object]]:
    """Yield arguments that a tool must refuse: none although some are required, and all of a wrong type."""
    if tool.input_schema.get("required"):
        yield {}
    described = arguments_of(tool).items()
    kinds = {name: schema.get("type") for name, schema in described if isinstance(schema, dict)}
    wrong: dict[str, object] = {
        name: _WRONG[kind] for name, kind in kinds.items() if isinstance(kind, str) and kind in _WRONG
    }
    if wrong:
        yield wrong


def arguments_of(tool: Tool) -> dict[str, object]:
    """Return the schemas of a tool's arguments by name."""
    properties = tool.input_schema.get("properties", {})
    return properties if isinstance(properties, dict) else {}


# What is held


class Held(NamedTuple):
    """The threads, child processes and open files of this process."""

    threads: frozenset[threading.Thread]
    processes: frozenset[str]
    files: Counter[str]


def held() -> Held:
    """Return the threads, the child processes and, if the system shows them, the open files."""
    return Held(frozenset(threading.enumerate()), frozenset(_children()), Counter(_open_files()))


def join(threads: Iterable[threading.Thread], timeout_s: float) -> list[str]:
    """Wait at most `timeout_s` for threads to end; return the names of those that did not."""
    waited = tuple(threads)
    deadline = monotonic() + timeout_s
    pause = threading.Event()
    for thread in waited:
        while not _has_joined(thread, deadline) and monotonic() < deadline:
            pause.wait(_LOOK_S)
    return sorted(thread.name for thread in waited if thread.is_alive())


def _has_joined(thread: threading.Thread, deadline: float) -> bool:
    """Wait for a thread to end; return False at once for one that is just being started, which cannot be joined yet."""
    try:
        thread.join(max(0.0, deadline - monotonic()))
    except RuntimeError:
        return False
    return True


def remaining(before: Held, timeout_s: float) -> tuple[list[str], list[str]]:
    """Return the processes and files held beyond `before`, after waiting at most `timeout_s` for their release."""
    deadline = monotonic() + timeout_s
    pause = threading.Event()
    while True:
        now = held()
        processes, files = now.processes - before.processes, now.files - before.files
        if not (processes or files) or monotonic() >= deadline:
            return sorted(processes), sorted(files)
        pause.wait(_LOOK_S)


def _children() -> Iterator[str]:
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, facts = status.read_text(errors="replace").rpartition(")")
        except OSError:
            continue
        if facts.split()[1] == str(os.getpid()):
            yield name


def _open_files() -> Iterator[str]:
    for link in Path("/proc/self/fd").glob("*"):
        try:
            target = str(link.readlink())
        except OSError:
            continue
        if not target.startswith("/proc/"):
            yield target
