"""Providers that hold everything in memory, for tests: one with every method that stands still, small ones that move.

Memory      everything at once: all operators, blobs, folders, big texts, tools, completion, every kind of error
Shelf       texts that come and go; nothing else
Counted     a Shelf that is watched by fingerprint and survey
Eventful    a Shelf that reports its own changes
Newest      a Shelf that lists the newest first
Gated       a blocking Shelf whose reads wait until they are let through
"""

import threading
from bisect import bisect_right, insort
from collections.abc import Callable, Iterator, Mapping, Sequence

from carrel.core.errors import BadArgument, CarrelError, Denied, NotFound, ProviderError, TooLarge
from carrel.core.model import (
    Annotations,
    Blob,
    Completion,
    Encoding,
    Range,
    Reading,
    Resource,
    ResourceLink,
    Stored,
    Text,
    Tool,
    ToolResult,
)
from carrel.core.provider import Call, Changes, Provider, Route, Speed
from tests.support.waiting import PATIENCE_S

NOTES = 300
PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452")
NOON_MS = 1_784_030_400_000
"""2026-07-14T12:00:00Z."""

SAMPLE = "aé€😀z\n"
"""The text of the range tables: characters at 0, 1, 3, 6, 10, 11; 12 bytes."""

PROVIDER_WORDS = ("failed", "unreadable", "bad_result", "timeout", "busy", "unavailable")


class Kept:
    """Bytes behind a `Source`; remembers how often it was closed and how much was read."""

    def __init__(self, data: bytes, *, is_moving: bool = False) -> None:
        self._data = data
        self._is_moving = is_moving
        self.closed = 0
        self.bytes_read = 0

    @property
    def size(self) -> int:
        """Length of the whole."""
        return len(self._data)

    def read(self, start: int, length: int) -> bytes:
        """Return a part."""
        part = self._data[start : start + length]
        self.bytes_read += len(part)
        return part

    def has_moved(self) -> bool:
        """Return what it was made to tell."""
        return self._is_moving

    def close(self) -> None:
        """Count it."""
        self.closed += 1


class Memory(Provider):
    """Every method, every kind of answer; nothing in it ever changes.

    test:///a-guide                   a front entry
    test:///plain                     a text
    test:///pixel                     a blob
    test:///note/{id}                 three hundred listed texts
    test:///query/{id}{?tail,since}   gives back what it was asked with
    test:///tree/{+path}              a folder when the path is empty or ends with `/`
    test:///part/{id}{?start,length}  names the range itself
    test:///stored/{encoding}         bytes behind a source
    test:///big/{size}                a text of that many characters
    test:///error/{kind}              every kind of failure
    test:///whole/{+rest}             read by its whole URI
    """

    name = "memory"
    schemes = ("test",)
    speed: Speed = "instant"

    def __init__(self) -> None:
        self.waiting = threading.Semaphore(0)
        """Released once by each call of the tool `wait` when it waits."""
        self.ended = threading.Semaphore(0)
        """Released once by each of them when it no longer does."""
        self._notes = {f"test:///note/{number:03}": f"Note {number}\n" for number in range(NOTES)}
        self._uris = sorted([*self._notes, "test:///plain", "test:///pixel"])

    def routes(self) -> Sequence[Route]:
        """Return a route of every shape."""
        return (
            Route("test:///a-guide", self._read_guide, "guide", "text/markdown"),
            Route("test:///plain", lambda: Text(SAMPLE, "text/plain"), "plain", "text/plain"),
            Route("test:///pixel", lambda: Blob(PNG), "pixel", "image/png"),
            Route("test:///note/{id}", self._read_note, "note", "text/plain", title="A note"),
            Route("test:///query/{id}{?tail,since}", self._read_query, "query", description="Gives itself back"),
            Route("test:///tree/{+path}", self._read_tree, "tree"),
            Route("test:///part/{id}{?start,length}", self._read_part, "part", "text/plain"),
            Route("test:///stored/{encoding}", self._read_stored, "stored"),
            Route("test:///big/{size}", lambda size: Text("x" * _number("size", size)), "big", "text/plain"),
            Route("test:///error/{kind}", self._read_error, "error"),
            Route("test:///whole/{+rest}", lambda rest, uri: Text(uri), "whole", "text/plain", takes_uri=True),
        )

    def entries(self, after: str = "") -> Iterator[Resource]:
        """Yield the guide, which is pinned, the notes, the text and the blob."""
        if after < "test:///a-guide":
            yield Resource("test:///a-guide", "guide", "Read this first", "text/markdown", title="Guide", pinned=True)
        for uri in self._uris[bisect_right(self._uris, after) :]:
            yield self._entry(uri)

    def complete(self, template: str, variable: str, value: str, context: Mapping[str, str]) -> Completion | list[str]:
        """Return numbers for notes, kinds for errors, what was chosen already for the rest."""
        if template == "test:///error/{kind}":
            return [word for word in PROVIDER_WORDS if word.startswith(value)]
        if template == "test:///note/{id}":
            return [f"{number:03}" for number in range(NOTES) if f"{number:03}".startswith(value)]
        return Completion((f"{variable}={value}", *sorted(context)), total=7, has_more=True)

    def fingerprint(self, uri: str) -> str | None:
        """Return one token for all; what cannot be read has none."""
        if uri in ("test:///plain", "test:///pixel", "test:///a-guide") or uri in self._notes:
            return "still"
        if uri == "test:///note/later":
            return None
        raise NotFound(uri)

    def instructions(self) -> str:
        """Point to the guide."""
        return "Read test:///a-guide first."

    def tools(self) -> Sequence[Tool]:
        """Return tools that count, wait, fail and break."""
        nothing = {"type": "object", "properties": {}}
        to = {"type": "object", "properties": {"to": {"type": "integer"}}, "required": ["to"]}
        number = {"type": "integer"}
        return (
            Tool("echo", "Gives its arguments back", {"type": "object"}, output_schema={"type": "object"}),
            Tool("count", "Counts, and tells how far it is", to, read_only=True, output_schema=number),
            Tool("wait", "Waits until it is cancelled", nothing, title="Wait"),
            Tool("fail", "Fails as tools do", nothing),
            Tool("break", "Breaks as tools should not", nothing),
            Tool("link", "Points to a note", nothing, read_only=True),
        )

    def call(self, name: str, arguments: Mapping[str, object], call: Call) -> ToolResult:
        """Run one of them."""
        match name:
            case "count":
                return _count(arguments.get("to"), call)
            case "wait":
                stopped = threading.Event()
                call.on_cancel(stopped.set)
                self.waiting.release()
                stopped.wait(PATIENCE_S)
                self.ended.release()
                return ToolResult(("cancelled" if call.cancelled else "nobody came",))
            case "fail":
                return ToolResult(("It failed",), is_error=True, meta={"dev.carrel/error": "failed"})
            case "break":
                raise RuntimeError("/secret/path is none of your business")
            case "link":
                link = ResourceLink("test:///note/007", "seven", "The seventh", "text/plain")
                return ToolResult(("See", link, ResourceLink("test:///plain", "plain")))
            case _:
                return ToolResult(("Given",), dict(arguments))

    def _entry(self, uri: str) -> Resource:
        if uri == "test:///pixel":
            return Resource(uri, "pixel", mime_type="image/png", size=len(PNG))
        if uri == "test:///plain":
            return Resource(uri, "plain", mime_type="text/plain", size=12, meta={"dev.carrel/etag": "p"})
        annotations = Annotations(("assistant", "user"), 0.5, NOON_MS + 1) if uri.endswith("7") else None
        return Resource(uri, uri[-3:], "A note", "text/plain", title=f"Note {uri[-3:]}", annotations=annotations)

    def _read_guide(self) -> Reading:
        return Reading((Text("# Guide\n", "text/markdown"),), etag="g1", last_modified_ms=NOON_MS, ttl_ms=5_000)

    def _read_note(self, id: str) -> Text:  # noqa: A002 the template's variable is named so
        text = self._notes.get(f"test:///note/{id}")
        if text is None:
            raise NotFound(f"test:///note/{id}")
        return Text(text)

    def _read_query(self, id: str, tail: str = "-", since: str = "-") -> Text:  # noqa: A002 as above
        return Text(f"{id} {tail} {since}", "text/plain")

    def _read_tree(self, path: str) -> Reading | Text:
        if path and not path.endswith("/"):
            return Text(f"file {path}", "text/plain")
        if path == "nothing/":
            return Reading((), etag="none")
        names = [f"test:///tree/{path}{name}" for name in ("one", "two")]
        return Reading(tuple(Text("", "text/plain", uri=uri, meta={"n": uri[-3:]}) for uri in names), meta={"more": 0})

    def _read_part(self, id: str, start: str = "", length: str = "") -> Reading:  # noqa: A002 as above
        wanted = None
        if start or length:
            wanted = Range(_number("start", start or "0"), _number("length", length) if length else None)
        return Reading((Text(SAMPLE),), etag=f"part-{id}", range=wanted)

    def _read_stored(self, encoding: str) -> Stored:
        known: dict[str, Encoding] = {"utf-8": "utf-8", "utf-16le": "utf-16le", "iso-8859-1": "iso-8859-1"}
        if encoding not in known:
            return Stored(Kept(PNG), "binary", "image/png")
        text = SAMPLE if encoding != "iso-8859-1" else "aé\n"
        return Stored(Kept(text.encode(encoding)), known[encoding], "text/plain")

    def _read_error(self, kind: str) -> Reading | Text:
        uri = f"test:///error/{kind}"
        if kind in PROVIDER_WORDS:
            raise ProviderError("It broke", word=kind)
        if kind in ERRORS:
            raise ERRORS[kind](uri)
        if kind == "surrogate":
            return Text("\ud800")
        if kind == "content":
            return Reading((Text("No such note; try 000", "text/plain"),), error="not_found")
        raise RuntimeError("/secret/path is none of your business")


ERRORS: dict[str, Callable[[str], CarrelError]] = {
    "not_found": NotFound,
    "not_found_named": lambda uri: NotFound(uri, "No such note", data={"name": "NO_SUCH_NOTE"}),
    "denied": lambda uri: Denied("Access denied", reason="outside", uri=uri),
    "bad_argument": lambda _: BadArgument("tail must be a number", data={"parameter": "tail"}),
    "own_code": lambda _: BadArgument("As its page says", code=-31_000),
    "too_large": lambda uri: TooLarge("Too large", size=9, limit=8, suggested="test:///big/8", uri=uri),
}
"""What `test:///error/{kind}` raises beside the provider errors; an unknown kind is a fault nobody planned."""


def _number(name: str, value: str) -> int:
    if value.isascii() and value.isdigit() and len(value) <= 7:
        return int(value)
    raise BadArgument(f"{name} must be a whole number", data={"parameter": name})


def _count(to: object, call: Call) -> ToolResult:
    if not isinstance(to, int) or isinstance(to, bool):
        return ToolResult(("to must be a whole number",), is_error=True)
    for number in range(1, to + 1):
        call.progress(number, to, f"at {number}")
        call.progress(number - 1, to, "backwards")
    return ToolResult((f"Counted to {to}",), to)


class Shelf(Provider):
    """Texts that come and go, listed by URI."""

    def __init__(self, name: str = "shelf", texts: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.schemes = (name,)
        self._texts: dict[str, str] = {}
        self._sorted: list[str] = []
        self._turn = 0
        for path, text in (texts or {}).items():
            self.put(path, text)

    def uri(self, path: str) -> str:
        """Return the URI of a path."""
        return f"{self.name}:///{path}"

    def put(self, path: str, text: str = "") -> None:
        """Add a text, or change it."""
        uri = self.uri(path)
        if uri not in self._texts:
            insort(self._sorted, uri)
        self._texts[uri] = text
        self._turn += 1

    def remove(self, path: str) -> None:
        """Take a text away."""
        uri = self.uri(path)
        del self._texts[uri]
        self._sorted.remove(uri)
        self._turn += 1

    def uris(self) -> list[str]:
        """Return what is there now, in order."""
        return list(self._sorted)

    def routes(self) -> Sequence[Route]:
        """Return one route for all."""
        return (Route(f"{self.name}:///{{+path}}", self.read, "text", "text/plain"),)

    def entries(self, after: str = "") -> Iterator[Resource]:
        """Yield what is there now."""
        for uri in self._sorted[bisect_right(self._sorted, after) :]:
            yield Resource(uri, uri)

    def read(self, path: str) -> Reading | Text:
        """Return a text; its length counts in its ETag, which the catalogue makes."""
        text = self._texts.get(self.uri(path))
        if text is None:
            raise NotFound(self.uri(path))
        return Text(text)


class Counted(Shelf):
    """A Shelf that is asked for fingerprints; a path that begins with `later` may be watched before it exists."""

    surveys = 0

    def fingerprint(self, uri: str) -> str | None:
        """Return the text itself."""
        text = self._texts.get(uri)
        if text is None and not uri.startswith(self.uri("later")):
            raise NotFound(uri)
        return text

    def list_fingerprint(self) -> str:
        """Return all URIs."""
        self.surveys += 1
        return " ".join(self._sorted)


class Eventful(Shelf):
    """A Shelf that reports its own changes while it is watched."""

    def __init__(self, name: str = "eventful", texts: Mapping[str, str] | None = None) -> None:
        self._changes: Changes | None = None
        self.watched = threading.Semaphore(0)
        self.left = threading.Semaphore(0)
        super().__init__(name, texts)

    def watch(self, changes: Changes) -> Callable[[], None]:
        """Begin to report."""
        self._changes = changes
        self.watched.release()
        return self._leave

    def put(self, path: str, text: str = "") -> None:
        """Add or change a text, and say so."""
        is_new = self.uri(path) not in self._texts
        super().put(path, text)
        self._report(path, is_listed=is_new)

    def remove(self, path: str) -> None:
        """Take a text away, and say so."""
        super().remove(path)
        self._report(path, is_listed=True)

    def _report(self, path: str, *, is_listed: bool) -> None:
        if self._changes is not None:
            self._changes.updated(self.uri(path))
            if is_listed:
                self._changes.list_changed()

    def _leave(self) -> None:
        self._changes = None
        self.left.release()


class Newest(Shelf):
    """A Shelf whose paths are numbers, listed from the highest down."""

    def entries(self, after: str = "") -> Iterator[Resource]:
        """Yield what is there now, newest first."""
        keys = {f"{10**9 - int(uri.rpartition('/')[2]):010}": uri for uri in self._sorted}
        return (Resource(keys[key], keys[key], sort_key=key) for key in sorted(keys) if key > after)


class Gated(Shelf):
    """A blocking Shelf: reads of `gate/…` wait until `open_gate`, and say when they wait."""

    speed = "blocking"

    def __init__(self, name: str = "gated", texts: Mapping[str, str] | None = None) -> None:
        super().__init__(name, texts)
        self.arrived = threading.Semaphore(0)
        self._gate = threading.Event()

    def open_gate(self) -> None:
        """Let every read through, now and later."""
        self._gate.set()

    def read(self, path: str) -> Reading | Text:
        """Wait, if the path says so."""
        if path.startswith("gate/"):
            self.arrived.release()
            if not self._gate.wait(PATIENCE_S):
                raise ProviderError("Nobody opened the gate", word="timeout")
            return Text(f"through {path}")
        return super().read(path)
