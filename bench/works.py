"""What is measured: each work asks once, checks that the answer is right, and gives the requests to send over and over.

Nothing fast but wrong is compared: a contender whose first answer is not what was laid out stops the run.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from bench.messages import POOL, VERSIONS, Era, PeerError, check_answer, request
from bench.peers.served import CONDITION, ETAG, PAGE, SIZES, STATUS, TEMPLATES
from bench.spelling import Spelling
from tests.support import schemas

Setup = Literal["memory", "files", "many", "tree"]
"""How a server is started: with a list of 1,000 in memory, with files and no list, with a list of 100,000, with 1,000
files in a tree. Others than Carrel list those from memory, too."""

ENTRIES: Final[Mapping[Setup, int]] = {"memory": 1_000, "files": 0, "many": 100_000, "tree": 1_000}
LISTED: Final = ("bench://entry/", "workspace:///", "carrel://")
"""How the URIs begin that count as entries of a list. Carrel's own guide takes some places of its thousand."""

OWN_ENTRIES: Final = 3
"""How many entries of its own an earlier Carrel adds to the list, which had no bound then."""

TREE: Final = "tree"
FOLDERS: Final = 20
PART: Final = (50 << 20, 4 << 10)
WORDS: Final = (
    'return self.entries[name] = None if "key" not in found else (value, 0x1F) # so far; const size: 42'.split()
)


def lay_out(folder: Path, names: Sequence[str] = tuple(SIZES)) -> None:
    """Write the files that are served: texts like a program's source, and bytes that are no text."""
    for name in names:
        block = blob(SIZES[name]) if name.endswith(".bin") else text(min(SIZES[name], 1 << 20))
        with (folder / name).open("wb") as file:
            for _ in range(SIZES[name] // len(block)):
                file.write(block)


def lay_tree(folder: Path) -> None:
    """Write the files that are listed, in folders of two depths, with ignore rules as a project has them."""
    top = folder / TREE
    top.mkdir()
    (top / ".gitignore").write_text("build/\n*.log\nnode_modules/\n__pycache__/\n", "utf-8")
    for number in range(ENTRIES["tree"]):
        place = top / f"package{number % 4}" / f"part{number % FOLDERS:02}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"module_{number:04}.py").write_text(f"NUMBER = {number}\n", "utf-8")


def text(size: int) -> bytes:
    """Return lines of ASCII with quotes and indents, as source has; always the same."""
    chance = random.Random(size)
    lines: list[str] = []
    length = 0
    while length < size:
        line = " " * 4 * chance.randrange(4) + " ".join(chance.choices(WORDS, k=chance.randrange(1, 12)))
        lines.append(line)
        length += len(line) + 1
    return "\n".join(lines).encode()[: size - 1] + b"\n"


def blob(size: int) -> bytes:
    """Return bytes without order; always the same."""
    return random.Random(size).randbytes(size)


class Asked(Protocol):
    """A running server that can be asked."""

    def ask(self, line: bytes) -> bytes:
        """Send one request and wait for its answer."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The server that a work asks: running, in an era, in its spelling; and where the files are.

    What a server `by_the_book` answers is held to the official schema, of a list the first page.
    """

    peer: Asked
    era: Era
    spelling: Spelling
    folder: Path
    by_the_book: bool = False

    def result(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Ask once; return the result."""
        line = self.peer.ask(request(method, params, self.era))
        if self.by_the_book and "cursor" not in params:
            schemas.check(line.rstrip(), VERSIONS[self.era], method)
        return check_answer(line, 0)

    def pool(self, method: str, params: dict[str, Any]) -> tuple[bytes, ...]:
        """Return the requests to send over and over."""
        return tuple(request(method, params, self.era, identity) for identity in range(POOL))


@dataclass(frozen=True, slots=True)
class Read:
    """A whole file."""

    name: str
    title: str
    setup: Setup
    file: str
    whole: bool = False

    def prepare(self, subject: Subject) -> tuple[bytes, ...]:
        """Ask once, check the answer, give the requests."""
        method, params = subject.spelling.read(self.file, "files" if self.setup == "files" else "memory")
        expect(subject.spelling.content(subject.result(method, params)), (subject.folder / self.file).read_bytes())
        return subject.pool(method, params)


@dataclass(frozen=True, slots=True)
class Part:
    """A few bytes out of many."""

    name: str = "range"
    title: str = "read of 4 KB out of a 100 MB file"
    setup: Setup = "files"
    whole: bool = False

    def prepare(self, subject: Subject) -> tuple[bytes, ...]:
        """Ask once, check the answer, give the requests."""
        start, length = PART
        method, params = subject.spelling.read("100m.txt", "files", f"?start={start}&length={length}")
        with (subject.folder / "100m.txt").open("rb") as file:
            file.seek(start)
            expect(subject.spelling.content(subject.result(method, params)), file.read(length))
        return subject.pool(method, params)


@dataclass(frozen=True, slots=True)
class Unchanged:
    """A read under a condition that holds: nothing is sent again."""

    name: str = "unchanged"
    title: str = "conditional read of 100 KB, not modified"
    setup: Setup = "files"
    whole: bool = False

    def prepare(self, subject: Subject) -> tuple[bytes, ...]:
        """Ask once, check the answer, give the requests."""
        method, params = subject.spelling.read("100k.txt", "files")
        first = subject.result(method, params | {"_meta": {CONDITION: '"none"'}})
        expect(subject.spelling.content(first), (subject.folder / "100k.txt").read_bytes())
        params |= {"_meta": {CONDITION: first["contents"][0]["_meta"][ETAG]}}
        (item,) = subject.result(method, params)["contents"]
        if (item["text"], item["_meta"][STATUS]) != ("", 304):
            raise PeerError(f"not told that nothing changed: {str(item)[:200]}")
        return subject.pool(method, params)


@dataclass(frozen=True, slots=True)
class Listing:
    """The whole list, page by page."""

    name: str
    title: str
    setup: Setup
    whole: bool = True

    def prepare(self, subject: Subject) -> tuple[bytes, ...]:
        """Ask for every page once, check what is listed, give the requests for all pages in turn."""
        wanted = ENTRIES[self.setup]
        uris: list[str] = []
        pages: list[dict[str, Any]] = []
        params: dict[str, Any] | None = {}
        while params is not None and len(pages) <= wanted:
            pages.append(params)
            page = subject.result("resources/list", params)
            uris += [entry["uri"] for entry in page["resources"] if entry["uri"].startswith(LISTED)]
            params = {"cursor": page["nextCursor"]} if page.get("nextCursor") is not None else None
        if not wanted <= len(uris) <= wanted + OWN_ENTRIES or len(set(uris)) != len(uris):
            raise PeerError(f"{len(set(uris))} of {wanted} entries were listed")
        return tuple(request("resources/list", page, subject.era, number) for number, page in enumerate(pages))


@dataclass(frozen=True, slots=True)
class Templates:
    """All templates."""

    name: str = "templates"
    title: str = f"list of {len(TEMPLATES)} templates"
    setup: Setup = "memory"
    whole: bool = False

    def prepare(self, subject: Subject) -> tuple[bytes, ...]:
        """Ask once, check the answer, give the requests."""
        given = subject.result("resources/templates/list", {})["resourceTemplates"]
        if sorted(template["uriTemplate"] for template in given) != sorted(TEMPLATES):
            raise PeerError(f"other templates: {str(given)[:200]}")
        return subject.pool("resources/templates/list", {})


Work = Read | Part | Unchanged | Listing | Templates
"""One thing that is measured. If it is `whole`, only its pool as a whole is a fair sample of it."""


def expect(given: bytes, wanted: bytes) -> None:
    """Check that a read gave what was laid out."""
    if given != wanted:
        raise PeerError(f"a read gave {len(given):,} bytes that are not the {len(wanted):,} wanted: {given[:100]!r}")


_FILES: Final = {
    "1k": ("1k.txt", "1 KB of text"),
    "100k": ("100k.txt", "100 KB of text"),
    "1m": ("1m.txt", "1 MB of text"),
    "blob": ("1m.bin", "1 MB of bytes"),
}
_PLACES: Final[tuple[tuple[Setup, str], ...]] = (("memory", "from memory"), ("files", "from a file"))

_ALL: Final[tuple[Work, ...]] = (
    *(
        Read(f"read-{size}-{setup}", f"read of {what} {where}", setup, file)
        for setup, where in _PLACES
        for size, (file, what) in _FILES.items()
    ),
    Part(),
    Unchanged(),
    Templates(),
    Listing("list-1000", "list of 1,000", "memory"),
    Listing("list-files", "list of 1,000 files", "tree"),
    Listing("list-100000", f"list of 100,000 in pages of {PAGE:,}", "many"),
)
WORKS: Final = {work.name: work for work in _ALL}
