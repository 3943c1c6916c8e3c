"""Laws of the workspace: names and URIs, order, paging while files come and go, parts that join, what never happens."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from carrel.core.errors import RequestError
from carrel.core.model import Blob, Range, Text
from carrel.files import file_types
from carrel.providers.workspace.paths import canonical, parse
from tests.support.workspaces import SECRET, Served, fill

LETTERS = st.characters(codec="utf-8", exclude_characters="/\\\0")
NAMES = st.text(LETTERS, min_size=1, max_size=12).filter(lambda name: name not in (".", ".."))
PLAIN_NAMES = st.sampled_from(["a", "a-b", "a.md", "a!", "b", "B", "é", "a b", "0", "~", "z.md", "a%20b", "日"])
PATHS = st.lists(PLAIN_NAMES, min_size=1, max_size=4).map("/".join)


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="carrel-laws-") as name:
        yield Path(name)


def put(root: Path, path: str, content: str | bytes = "text") -> bool:
    """Write a file, unless a file stands where a folder must, or the other way round."""
    place = root / path
    if place.is_dir() or any(parent.is_file() for parent in place.parents):
        return False
    fill(root, {path: content})
    return True


@given(st.lists(NAMES, max_size=6), st.sampled_from(["", "docs"]))
def test_a_canonical_uri_parses_back_to_its_names(names: list[str], root: str) -> None:
    uri = canonical(root, names)
    target = parse(uri, ("docs",))

    assert (target.root, target.segments, target.is_folder) == (root, tuple(names), False)
    assert canonical(root, target.segments) == uri
    assert uri.isascii()


@given(st.text(max_size=60), st.sampled_from(["workspace:", "workspace:/", "workspace://", "workspace:///", ""]))
def test_no_text_makes_parsing_raise_anything_else_or_gives_a_step(text: str, start: str) -> None:
    with contextlib.suppress(RequestError):
        segments = parse(start + text, ("docs",)).segments

        assert not {"", ".", ".."} & set(segments)
        assert not [name for name in segments if {"/", "\\", "\0"} & set(name)]


@given(st.sets(PATHS, max_size=20))
def test_the_list_is_in_the_order_of_the_bytes_of_uris_and_holds_every_file_once(paths: set[str]) -> None:
    with folder() as root, Served(root, preset="all") as served:
        written = [path for path in sorted(paths) if put(root, path)]
        uris = [entry.uri for entry in served.catalog.entries()]

        assert uris == sorted(uris, key=str.encode)
        assert uris == sorted(canonical("", path.split("/")) for path in written)


@given(st.sets(PATHS, min_size=1, max_size=20))
def test_a_folder_and_all_below_it_show_every_file_once_in_order(paths: set[str]) -> None:
    with folder() as root, Served(root, preset="all") as served:
        written = {path for path in sorted(paths) if put(root, path)}
        waiting, files = ["workspace:///"], list[str]()
        while waiting:
            children = served.children(waiting.pop())
            assert children == sorted(children)
            waiting.extend(child.rstrip("/") for child in children if child.endswith("/"))
            files.extend(child for child in children if not child.endswith("/"))

        assert sorted(unquote(uri.removeprefix("workspace:///")) for uri in files) == sorted(written)


class Paging(RuleBasedStateMachine):
    """Pages through a tree while files come and go."""

    @initialize(paths=st.sets(PATHS, max_size=15), step=st.integers(1, 5))
    def begin(self, paths: set[str], step: int) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="carrel-laws-")
        self.root = Path(self._temporary.name)
        self.served = Served(self.root, preset="all")
        for path in sorted(paths):
            put(self.root, path)
        self.step = step
        self.cursor: str | None = ""
        self.seen: list[str] = []
        self.stayed = {entry.uri for entry in self.served.catalog.entries()}
        self.ever = set(self.stayed)

    @rule(path=PATHS)
    def come(self, path: str) -> None:
        if put(self.root, path):
            self.ever.add(canonical("", path.split("/")))

    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        present = sorted(place for place in self.root.rglob("*") if place.is_file())
        if present:
            place = data.draw(st.sampled_from(present))
            place.unlink()
            self.stayed.discard(canonical("", place.relative_to(self.root).parts))

    @precondition(lambda self: self.cursor is not None)
    @rule()
    def turn(self) -> None:
        page = self.served.catalog.page(self.cursor or None, self.step)
        self.seen.extend(entry.uri for entry in page.entries)
        self.cursor = page.next_cursor

    @invariant()
    def _nothing_is_repeated_or_made_up(self) -> None:
        seen = getattr(self, "seen", [])
        assert seen == sorted(set(seen))
        assert set(seen) <= getattr(self, "ever", set())

    @invariant()
    def _nothing_that_stayed_is_skipped(self) -> None:
        if getattr(self, "cursor", "") is None:
            assert self.stayed <= set(self.seen)

    def teardown(self) -> None:
        if hasattr(self, "served"):
            self.served.catalog.close()
            self._temporary.cleanup()


TestPaging = Paging.TestCase
TestPaging.settings = settings(stateful_step_count=20)


TEXTS = st.text(st.sampled_from("aé€😀\n\r\x01\ufeff"), max_size=40)
ENCODED = st.one_of(
    TEXTS.map(lambda text: text.encode()),
    TEXTS.map(lambda text: b"\xff\xfe" + text.encode("utf-16le")),
    TEXTS.map(lambda text: b"\xfe\xff" + text.encode("utf-16be")),
    TEXTS.map(lambda text: text.encode("latin-1", "ignore")),
    st.binary(max_size=60),
    st.binary(max_size=12).map(lambda rest: b"\xef\xbb\xbf" + rest),
    st.binary(max_size=12).map(lambda rest: b"a" * file_types.WINDOW + rest),
)


@pytest.mark.slow
@given(ENCODED, st.integers(1, 9))
def test_parts_of_any_step_join_to_the_file(data: bytes, step: int) -> None:
    with folder() as root, Served(root, preset="all") as served:
        fill(root, {"x.md": data})
        start = file_types.WINDOW if len(data) > file_types.WINDOW else 0
        whole = served.item("workspace:///x.md", Range(start))
        parts = [served.item("workspace:///x.md", Range(at, step)) for at in range(start, len(data), step)]
        places = [(meta["dev.carrel/start"], meta["dev.carrel/length"]) for part in parts if (meta := part.meta or {})]

        assert whole.meta is not None
        assert isinstance(whole, Blob) or "".join(getattr(part, "text", "?") for part in parts) == whole.text
        assert isinstance(whole, Text) or b"".join(getattr(part, "data", b"?") for part in parts) == whole.data
        assert [int(str(at)) + int(str(length)) for at, length in places[:-1]] == [at for at, _ in places[1:]]
        assert sum(int(str(length)) for _, length in places) == whole.meta["dev.carrel/length"]


@given(st.lists(st.text(st.sampled_from("aé€\r"), max_size=5), max_size=12), st.booleans(), st.data())
def test_lines_joined_are_the_file_and_each_is_what_it_says(
    lines: list[str], is_closed: bool, data: st.DataObject
) -> None:
    text = "\n".join(lines) + ("\n" if is_closed and lines else "")
    expected = text.split("\n")[:-1] if text.endswith("\n") else text.split("\n") if text else []
    ended = [f"{line}\n" for line in expected[:-1]] + [expected[-1] + "\n" * text.endswith("\n")] if expected else []
    first = data.draw(st.integers(1, len(ended) + 2))
    last = data.draw(st.integers(first, len(ended) + 3))
    encoding = data.draw(st.sampled_from(["utf-8", "utf-16le"]))
    with folder() as root, Served(root, preset="all") as served:
        fill(root, {"x.md": (b"\xff\xfe" if encoding == "utf-16le" else b"") + text.encode(encoding)})
        uri = "workspace:///x.md?lines="

        assert [served.text(f"{uri}{number}") for number in range(1, len(ended) + 1)] == ended
        assert served.text(f"{uri}{first}-{last}") == "".join(ended[first - 1 : last])
        assert served.text(f"{uri}{first}-") == "".join(ended[first - 1 :])


@given(st.text(max_size=40))
def test_no_uri_reads_a_secret(path: str) -> None:
    with folder() as place:
        root = fill(place / "root", {"a.md": "a", ".env": SECRET})
        fill(place, {"secret.md": SECRET})
        (root / "up").symlink_to("..")
        with Served(root, preset="all", hidden="show") as served:
            for start in ("workspace:///", "workspace:", "workspace:///up/", "workspace:///../", "workspace:///.env"):
                assert SECRET.encode() not in served.bytes_of(start + path)
