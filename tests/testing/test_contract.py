"""The contract itself: a good provider passes it, and each wrong one is caught by the law it breaks."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from carrel.core.errors import NotFound, ProviderError
from carrel.core.model import Annotations, Blob, Completion, Reading, Resource, Stored, Text, Tool, ToolResult
from carrel.core.provider import Call, Changes, Provider, Route
from carrel.testing.contract import ProviderContract
from carrel.testing.harness import join
from tests.support import schemas
from tests.support.waiting import PATIENCE_S

NOTES = {"ant": "six legs", "bee": "a hum\nin the garden", "cat": "purrs, schnurrt, ronronne: él, 猫, 🐈"}
PICTURE = bytes(range(256))
URIS = [*(f"shelf:///notes/{name}" for name in NOTES), "shelf:///picture"]


class Shelf(Provider):
    """A good provider, with every facet.

    shelf:///notes/{name}   a note
    shelf:///picture        a picture
    """

    name = "shelf"
    schemes: tuple[str, ...] = ("shelf",)

    def __init__(self) -> None:
        self.notes = dict(NOTES)
        self.listeners: list[Changes] = []

    def routes(self) -> Sequence[Route]:
        return (
            Route("shelf:///notes/{name}", self.read_note, name="note", mime_type="text/plain"),
            Route("shelf:///picture", self.read_picture, name="picture", mime_type="image/png"),
        )

    def entries(self, after: str = "") -> Iterator[Resource]:
        for entry in sorted(self.listed(), key=lambda entry: entry.uri):
            if entry.uri > after:
                yield entry

    def listed(self) -> Iterator[Resource]:
        for name, text in self.notes.items():
            hints = Annotations(priority=0.5)
            yield Resource(f"shelf:///notes/{name}", name, "", "text/plain", size=len(text.encode()), annotations=hints)
        yield Resource("shelf:///picture", "picture", "", "image/png", size=len(PICTURE))

    def read_note(self, name: str) -> Reading | Text | Stored:
        if name not in self.notes:
            raise NotFound(f"shelf:///notes/{name}")
        return Text(self.notes[name])

    def read_picture(self) -> Blob:
        return Blob(PICTURE)

    def complete(self, template: str, variable: str, value: str, context: Mapping[str, str]) -> Completion:
        return Completion(tuple(name for name in self.notes if name.startswith(value)))

    def fingerprint(self, uri: str) -> str | None:
        return self.notes.get(uri.rpartition("/")[2], "")

    def watch(self, changes: Changes) -> Callable[[], None]:
        self.listeners.append(changes)
        return self.listeners.clear

    def tools(self) -> Sequence[Tool]:
        properties = {"name": {"type": "string"}, "times": {"type": "integer"}}
        return (Tool("say", "Say a note", {"type": "object", "properties": properties, "required": ["name"]}),)

    def call(self, name: str, arguments: Mapping[str, object], call: Call) -> ToolResult:
        wanted, times = arguments.get("name"), arguments.get("times", 1)
        if not isinstance(wanted, str) or not isinstance(times, int):
            return ToolResult(("name must be a text, times a whole number",), is_error=True)
        return ToolResult((self.notes[wanted] * times,))

    def instructions(self) -> str:
        return "Notes stand under shelf:///notes/."

    def close(self) -> None:
        self.listeners.clear()


class Contract(ProviderContract):
    """The contract of a shelf, or of one that went wrong."""

    deadline_s = 10.0
    kind: type[Shelf] = Shelf
    last: Shelf

    def provider(self) -> Shelf:
        self.last = self.kind()
        return self.last

    def missing_uri(self) -> str | None:
        return "shelf:///notes/dodo"

    def change(self, uri: str) -> None:
        name = uri.rpartition("/")[2]
        if name not in self.last.notes:
            raise NotImplementedError
        self.last.notes[name] += "!"
        for listener in self.last.listeners:
            listener.updated(uri)

    def variables(self) -> Mapping[str, str]:
        return {"name": "bee"}

    def validate(self, message: bytes, version: str, method: str) -> None:
        schemas.check(message, version, method)


class TestShelf(Contract):
    """A good provider passes."""


class TestShelfOfWhichNothingIsKnown(ProviderContract):
    """It passes as well when the contract has to make everything up."""

    def provider(self) -> Shelf:
        return Shelf()


class Plain(Provider):
    """A provider without any optional facet, and without entries."""

    name = "plain"
    schemes: tuple[str, ...] = ("plain",)

    def routes(self) -> Sequence[Route]:
        return ()


class TestEmptyProvider(ProviderContract):
    """Having nothing is no fault."""

    def provider(self) -> Plain:
        return Plain()


# Providers that went wrong


class ToolsBreak(Shelf):
    def tools(self) -> Sequence[Tool]:
        raise OSError("no tools today")


class CompletionBreaks(Shelf):
    def complete(self, template: str, variable: str, value: str, context: Mapping[str, str]) -> Completion:
        raise KeyError(variable)


class NamesSpeedWrong(Shelf):
    """Has an attribute that means nothing."""

    sped = "blocking"


class SpeaksFlies(Shelf):
    def __init__(self) -> None:
        super().__init__()
        self.speak_fly = True


class SpellsAMethodWrong(Shelf):
    def instruction(self) -> str:
        return "nobody asks for this"


class PriorityOfSeven(Shelf):
    def listed(self) -> Iterator[Resource]:
        yield Resource("shelf:///picture", "picture", annotations=Annotations(priority=7))


class Nameless(Shelf):
    def listed(self) -> Iterator[Resource]:
        yield Resource("shelf:///picture", "")


class Relative(Shelf):
    def listed(self) -> Iterator[Resource]:
        yield Resource("notes/bee", "bee")


class ForeignScheme(Shelf):
    def listed(self) -> Iterator[Resource]:
        yield Resource("cupboard:///bee", "bee")


class HasEmptyFolders(Shelf):
    def children(self, uri: str, after: str = "") -> Iterator[Resource]:
        return iter(())


class ListedTwice(Shelf):
    def listed(self) -> Iterator[Resource]:
        yield Resource("shelf:///notes/bee", "bee")
        yield Resource("shelf:///notes/%62ee", "bee")


class ForgetsTheCursor(Shelf):
    def entries(self, after: str = "") -> Iterator[Resource]:
        yield from super().entries()


class SkipsOne(Shelf):
    def entries(self, after: str = "") -> Iterator[Resource]:
        following = super().entries(after)
        if after:
            next(following, None)
        yield from following


class Unsorted(Shelf):
    def entries(self, after: str = "") -> Iterator[Resource]:
        yield from reversed(list(super().entries(after)))


class ListsWhatIsGone(Shelf):
    def listed(self) -> Iterator[Resource]:
        yield Resource("shelf:///notes/dodo", "dodo")


class OtherMimeType(Shelf):
    def read_picture(self) -> Blob:
        return Blob(PICTURE, "image/jpeg")


class ForeignItem(Shelf):
    def read_picture(self) -> Blob:
        return Blob(PICTURE, uri="cupboard:///picture")


class CountsCharacters(Shelf):
    def listed(self) -> Iterator[Resource]:
        for name, text in self.notes.items():
            yield Resource(f"shelf:///notes/{name}", name, "", "text/plain", size=len(text))


class NeverTheSame(Shelf):
    def read_note(self, name: str) -> Text:
        self.notes[name] += "."
        return Text(self.notes[name])


class RestlessTag(Shelf):
    def read_note(self, name: str) -> Reading:
        return Reading((Text(self.notes[name]),), etag=os.urandom(8).hex())


class FixedTag(Shelf):
    def read_note(self, name: str) -> Reading:
        return Reading((Text(self.notes[name]),), etag="always")


class ReadingAddsEntries(Shelf):
    def read_picture(self) -> Blob:
        self.notes[f"read-{len(self.notes)}"] = "seen"
        return Blob(PICTURE)


class OffByOne:
    """A source that gives the wrong bytes from its middle on."""

    size = 100

    def read(self, start: int, length: int) -> bytes:
        return b"x" * min(length, self.size - start) if start < 50 else b"y" * min(length, self.size - start)

    def has_moved(self) -> bool:
        return False

    def close(self) -> None:
        pass


class BrokenRanges(Shelf):
    def listed(self) -> Iterator[Resource]:
        yield Resource("shelf:///notes/bee", "bee", "", "text/plain", size=100)

    def read_note(self, name: str) -> Stored:
        return Stored(OffByOne(), "utf-8")


class MissingIsEmpty(Shelf):
    def read_note(self, name: str) -> Reading:
        return Reading((Text(self.notes[name]),) if name in self.notes else ())


class MissingBreaks(Shelf):
    def read_note(self, name: str) -> Text:
        return Text(self.notes[name])


class MissingIsMadeUp(Shelf):
    def read_note(self, name: str) -> Text:
        return Text(self.notes.get(name, "nothing known"))


class TakesDots(Shelf):
    def read_unmatched(self, uri: str) -> Text:
        return Text("the password file")


class ShowsPath(Shelf):
    def read_note(self, name: str) -> Text:
        if name not in self.notes:
            raise NotFound(f"shelf:///notes/{name}", f"No file /home/ann/notes/{name}")
        return Text(self.notes[name])


class ShowsType(Shelf):
    def read_note(self, name: str) -> Text:
        try:
            return Text(self.notes[name])
        except KeyError as error:
            raise ProviderError(repr(KeyError(error))) from error


class ShowsTwoLines(Shelf):
    def call(self, name: str, arguments: Mapping[str, object], call: Call) -> ToolResult:
        return ToolResult(("name is wrong\nTraceback (most recent call last)",), is_error=True)


class Hangs(Shelf):
    released = threading.Event()

    def read_note(self, name: str) -> Text:
        self.released.wait()
        return Text("")


class NotForThreads(Shelf):
    """Keeps what it is asked for where the next caller overwrites it."""

    def __init__(self) -> None:
        super().__init__()
        self.wanted = ""
        self.at_once = threading.Barrier(2)

    def read_note(self, name: str) -> Text:
        self.wanted = name
        if threading.active_count() > 32:
            try:
                self.at_once.wait(0.05)
            except threading.BrokenBarrierError:
                self.at_once.reset()
        return Text(self.notes[self.wanted])


class OtherVariable(Shelf):
    def routes(self) -> Sequence[Route]:
        return (*super().routes(), Route("shelf:///by/{title}", self.read_note, name="title"))


class CompletesTheUnreadable(Shelf):
    def complete(self, template: str, variable: str, value: str, context: Mapping[str, str]) -> Completion:
        return Completion(("bee", "dodo"))


class CompletesWithSlash(Shelf):
    def complete(self, template: str, variable: str, value: str, context: Mapping[str, str]) -> Completion:
        return Completion(("a/b",))


class NoticesNothing(Shelf):
    def watch(self, changes: Changes) -> Callable[[], None]:
        return lambda: None


class TellsOfEverything(Shelf):
    def watch(self, changes: Changes) -> Callable[[], None]:
        for uri in URIS:
            changes.updated(uri)
        return super().watch(changes)


class RefusesToListen(Shelf):
    def fingerprint(self, uri: str) -> str | None:
        raise NotFound(uri)


class SchemaOfNoObject(Shelf):
    def tools(self) -> Sequence[Tool]:
        return (Tool("say", "Say a note", {"type": "array"}),)


class TakesAnyInput(Shelf):
    def call(self, name: str, arguments: Mapping[str, object], call: Call) -> ToolResult:
        return ToolResult(("fine",))


class ToolRaises(Shelf):
    def call(self, name: str, arguments: Mapping[str, object], call: Call) -> ToolResult:
        raise TypeError("name")


class SaysNotWhich(Shelf):
    def call(self, name: str, arguments: Mapping[str, object], call: Call) -> ToolResult:
        return ToolResult(("wrong",), is_error=True)


class LeavesThread(Shelf):
    released = threading.Event()

    def __init__(self) -> None:
        super().__init__()
        threading.Thread(target=self.released.wait, name="left-behind", daemon=True).start()


class LeavesFile(Shelf):
    def __init__(self) -> None:
        super().__init__()
        self.pipe = os.pipe()

    def __del__(self) -> None:
        for end in self.pipe:
            os.close(end)


class LeavesProcess(Shelf):
    def __init__(self) -> None:
        super().__init__()
        self.child = subprocess.Popen(
            [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
        )

    def __del__(self) -> None:
        self.child.communicate()


class AskedAllTheTime(Shelf):
    poll_s = 0


class ClosesOnce(Shelf):
    def __init__(self) -> None:
        super().__init__()
        self.door = object()

    def close(self) -> None:
        del self.door


WRONG: dict[type[Shelf], tuple[str, str]] = {
    NamesSpeedWrong: ("test_law_1_what_is_declared_answers", r"sped means nothing to Carrel; is it speed\?"),
    SpeaksFlies: ("test_law_1_what_is_declared_answers", r"speak_fly means nothing to Carrel; is it speaks_fly\?"),
    SpellsAMethodWrong: (
        "test_law_1_what_is_declared_answers",
        r"instruction means nothing to Carrel; is it instructions\?",
    ),
    AskedAllTheTime: ("test_law_1_what_is_declared_answers", "poll_s is 0; expected a number above 0, or None"),
    ToolsBreak: ("test_law_1_what_is_declared_answers", "tools/list answers -32603"),
    CompletionBreaks: ("test_law_1_what_is_declared_answers", "completion/complete answers -32603"),
    PriorityOfSeven: ("test_law_1_what_is_declared_answers", "7 is greater than the maximum of 1"),
    Nameless: ("test_law_2_", "shelf:///picture has no name"),
    Relative: ("test_law_2_", "notes/bee is not an absolute URI"),
    ForeignScheme: ("test_law_2_", "cupboard:///bee is not of"),
    ListedTwice: ("test_law_2_", "listed twice"),
    ForgetsTheCursor: ("test_law_3_", "pages of 1 joined are another list"),
    SkipsOne: ("test_law_3_", "pages of 1 joined are another list"),
    Unsorted: ("test_law_3_", "not in key order"),
    ListsWhatIsGone: ("test_law_4_what_is_listed", "shelf:///notes/dodo is listed and cannot be read"),
    OtherMimeType: ("test_law_4_what_is_listed", "is 'image/jpeg', listed as 'image/png'"),
    ForeignItem: ("test_law_4_what_is_listed", "gives an item of cupboard:///picture"),
    CountsCharacters: ("test_law_4_a_declared_size", "shelf:///notes/cat has 41 bytes, listed with 35"),
    NeverTheSame: ("test_law_5_two_reads", "differs without a change"),
    RestlessTag: ("test_law_5_two_reads", "the ETag of shelf:///notes/ant differs"),
    FixedTag: ("test_law_5_after_a_change", "its old ETag still holds"),
    ReadingAddsEntries: ("test_law_5_two_reads", "reading changed the list"),
    BrokenRanges: ("test_law_6_", "do not join to the whole"),
    MissingIsEmpty: ("test_law_7_a_missing_uri", "is missing and can be read"),
    MissingBreaks: ("test_law_7_a_missing_uri", "is answered with -32603"),
    MissingIsMadeUp: ("test_law_7_a_missing_uri", "is missing and can be read"),
    TakesDots: ("test_law_7_hostile_uris", "etc/passwd can be read"),
    ShowsPath: ("test_law_8_", "an error shows ' /home/ann'"),
    ShowsType: ("test_law_8_", "an error shows 'KeyError'"),
    ShowsTwoLines: ("test_law_8_", "an error shows"),
    Hangs: ("test_law_9_every_call_ends", "no answer in 1.2 s"),
    NotForThreads: ("test_law_9_32_reads", "at the same time as others"),
    OtherVariable: ("test_law_10_templates_match", "shelf:///by/x is answered with -32603"),
    CompletesTheUnreadable: ("test_law_10_completions", "dodo.* cannot be read"),
    CompletesWithSlash: ("test_law_10_completions", "a/b.* cannot be read"),
    NoticesNothing: ("test_law_11_", "changed, and no notification came"),
    TellsOfEverything: ("test_law_11_", "notified: "),
    RefusesToListen: ("test_law_11_", "not honoured"),
    SchemaOfNoObject: ("test_law_12_", "is not that of an object"),
    TakesAnyInput: ("test_law_12_", "say accepts the bad arguments {}"),
    ToolRaises: ("test_law_12_", "with bad input is answered with Internal error"),
    SaysNotWhich: ("test_law_12_", "names no argument"),
    HasEmptyFolders: ("test_law_14_", "is read without"),
    LeavesThread: ("test_law_13_", "still run: .'left-behind'"),
    LeavesFile: ("test_law_13_", "files of shelf are open"),
    LeavesProcess: ("test_law_13_", "processes of shelf are left"),
}


@pytest.fixture(autouse=True)
def released() -> Iterator[None]:
    """End the threads that some wrong providers keep."""
    kinds = (Hangs, LeavesThread)
    for kind in kinds:
        kind.released.clear()
    yield
    for kind in kinds:
        kind.released.set()


def law(contract: ProviderContract, name: str) -> Callable[[], None]:
    """Return the one law whose name begins so."""
    [found] = [getattr(contract, law) for law in dir(contract) if law.startswith(name)]
    held: Callable[[], None] = found
    return held


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name", "complaint"), [(kind, *law) for kind, law in WRONG.items()])
def test_a_wrong_provider_is_caught_by_the_law_it_breaks(kind: type[Shelf], name: str, complaint: str) -> None:
    contract = Contract()
    contract.kind = kind
    contract.deadline_s = 0.2 if kind is Hangs else 10.0
    contract.noticed_s = 0.2 if kind in (NoticesNothing, LeavesThread) else 2.0

    with pytest.raises(AssertionError, match=complaint):
        law(contract, name)()


def test_a_provider_that_cannot_be_closed_twice_is_caught() -> None:
    contract = Contract()
    contract.kind = ClosesOnce

    with pytest.raises(AttributeError, match="door"):
        law(contract, "test_law_13_")()


def test_every_law_is_there_and_says_its_number() -> None:
    laws = {int(name.split("_")[2]) for name in dir(ProviderContract) if name.startswith("test_")}

    assert laws == set(range(1, 15))


# Waiting for what a provider has begun


class JustBeingStarted(threading.Thread):
    """Starts when it is joined for the first time, and ends when it is joined again."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        super().__init__(target=self.may_end.wait, args=(PATIENCE_S,), daemon=True)

    def join(self, timeout: float | None = None) -> None:
        if self.ident is None:
            self.start()
            raise RuntimeError("cannot join thread before it is started")
        self.may_end.set()
        super().join(timeout)


def test_a_thread_that_is_just_being_started_is_waited_for() -> None:
    assert join([JustBeingStarted()], PATIENCE_S) == []
