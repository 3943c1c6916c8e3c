"""What is remembered to answer sooner has a bound on its size, not only on its number."""

import gc
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from carrel.core.provider import Project
from carrel.files.sandbox import Missing, Root
from carrel.providers.sage import Sage
from carrel.providers.sage.folders import CACHE_BYTES, SageFolders
from carrel.providers.sage.memory import SageMemory
from carrel.providers.workspace.ignore_rules import IgnoreFiles
from carrel.providers.workspace.policy import Policy
from carrel.providers.workspace.tree import Tree
from carrel.transports.http.asgi import Request
from carrel.transports.http.mcp import _headers_of, problem_with
from tests.support.workspaces import Served, fill, handles

pytestmark = pytest.mark.slow  # each test asks hundreds of times under tracemalloc

LONG = 6_000
"""Characters: near the bound of a URI."""
WARM_UP = 400
"""Askings after which everything that is loaded late is loaded, `openat2` among it."""
TIMES = 300
KEPT_BYTES = 100_000
"""Of 300 askings. To keep one copy of each of 300 long names takes 1.8 million."""


def growth(ask: Callable[[int], object]) -> int:
    """Return how many bytes stay in use after many askings, each with another number."""
    for number in range(WARM_UP):
        ask(number)
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(WARM_UP, WARM_UP + TIMES):
            ask(number)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def long_name(number: int) -> str:
    """Return a name that is unlike those of other numbers."""
    return f"{number}" + "n" * LONG


@pytest.mark.parametrize("path", ["{name}", "{name}/x", "a/b/{name}/x.txt"])
def test_long_names_that_do_not_exist_leave_nothing_behind(tmp_path: Path, path: str) -> None:
    with Served(tmp_path, preset="all") as served:
        assert growth(lambda number: served.error(f"workspace:///{path.format(name=long_name(number))}")) < KEPT_BYTES


def test_many_spellings_of_one_long_name_leave_nothing_behind(tmp_path: Path) -> None:
    folders = "/".join(["d" * 200] * 9)
    fill(tmp_path, {f"{folders}/f.txt": "x"})

    def spelled(number: int) -> str:
        """Return the URI with those letters written as octets that the number's bits name."""
        bits = f"{number:b}".zfill(len(folders))
        letters = (f"%{ord(one):02X}" if bit == "1" else one for one, bit in zip(folders, bits, strict=True))
        return f"workspace:///{''.join(letters)}/f.txt"

    with Served(tmp_path, preset="all") as served:
        assert growth(lambda number: served.text(spelled(number))) < KEPT_BYTES


def test_only_the_latest_state_of_a_file_is_remembered(tmp_path: Path) -> None:
    fill(tmp_path, {"f.txt": "x"})
    with Root(tmp_path) as root, root.open(["f.txt"]) as opened:
        tree = Tree("", root, Policy("all", IgnoreFiles(root)), str(tmp_path))
        names = ("st_dev", "st_ino", "st_size", "st_mode")
        state = {name: getattr(opened.stat, name) for name in names}

        def change(number: int) -> None:
            changed = SimpleNamespace(**state, st_mtime_ns=number * 10**15, st_ctime_ns=number * 10**15)
            opened.stat = cast("Any", changed)
            tree.sniff(opened)
            assert tree.sniffed(opened.stat) is not None

        assert growth(change) < 30_000


def test_a_guard_that_judges_long_names_leaves_nothing_behind(tmp_path: Path) -> None:
    def miss(number: int) -> None:
        with pytest.raises(Missing):
            root.open(["a", long_name(number)])

    with Root(tmp_path, guard=lambda segments, _: segments[-1] == "secret") as root:
        assert growth(miss) < KEPT_BYTES


@pytest.mark.parametrize("header", [b"mcp-name", b"mcp-method", b"mcp-protocol-version", b"accept", b"content-type"])
def test_long_headers_leave_nothing_behind(header: bytes) -> None:
    async def nowhere(*_: object) -> Any:
        raise AssertionError

    def ask(number: int) -> None:
        headers = [(b"content-type", b"application/json")] * (header != b"content-type")
        headers.append((header, long_name(number).encode()))
        scope = {"headers": headers, "method": "POST", "path": "/mcp", "query_string": b""}
        request = Request(scope, nowhere, nowhere)
        _headers_of(request)
        problem_with(request)

    assert growth(ask) < KEPT_BYTES


def test_of_many_large_sage_items_only_the_latest_few_megabytes_are_kept(tmp_path: Path) -> None:
    body = "A long observation. " * 3_000
    numbers = range(WARM_UP + TIMES)
    fill(tmp_path, {f".sage/checkpoints/c{number}.md": checkpoint(f"c{number}", body) for number in numbers})
    memory = SageMemory(Project(str(tmp_path), {}), ".sage", 10**6)
    try:
        assert len(memory.checkpoints.load("c1")[1].data) > len(body)
        assert growth(lambda number: memory.checkpoints.load(f"c{number}")) < 1.5 * CACHE_BYTES
    finally:
        memory.close()


def checkpoint(stem: str, body: str) -> str:
    """Return the text of a checkpoint's file."""
    return f"---\nid: {stem}\ntype: checkpoint\n---\n\n# Question\n\n## Thesis\n{body}\n"


def test_a_sage_list_forgets_the_files_that_are_gone(tmp_path: Path) -> None:
    index = tmp_path / ".sage/knowledge/index.yaml"
    name = "k" * 100

    def replace_the_item(number: int) -> None:
        for old in index.parent.glob("global/*.md"):
            old.unlink()
        item = f"{{id: {name}{number}, type: knowledge, file: global/{name}{number}.md}}"
        fill(tmp_path, {f".sage/knowledge/global/{name}{number}.md": "text"})
        # Another size each time: the clock of a file system may not tell two writes apart.
        index.write_text(f"version: 1\nitems:\n- {item}\n#{'.' * number}\n", "utf-8")
        assert [entry.name for entry in sage.entries()] == [f"knowledge/{name}{number}"]

    fill(tmp_path, {".sage/knowledge/index.yaml": "version: 1\nitems: []\n"})
    sage = Sage(Project(str(tmp_path), {}))
    try:
        for number in range(TIMES):
            replace_the_item(number)
        assert len(sage.memory.knowledge._states) < 100
    finally:
        sage.close()


def test_sage_folders_that_were_replaced_do_not_stay_open(tmp_path: Path) -> None:
    fill(tmp_path, {".sage/system/a.md": "text"})
    home = SageFolders(Project(str(tmp_path), {}), ".sage", is_named=False)
    try:
        assert home.root("system") is not None
        before = len(handles(tmp_path))
        for number in range(20):
            (tmp_path / ".sage/system").rename(tmp_path / f".sage/old{number}")
            (tmp_path / ".sage/system").mkdir()
            assert home.root("system") is not None
        assert len(handles(tmp_path)) == before
    finally:
        home.close()
