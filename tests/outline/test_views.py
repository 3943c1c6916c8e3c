"""`?outline` and `?lines` on any text, whatever provider has it."""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from carrel.catalog.catalog import Catalog
from carrel.core.errors import BadArgument, NotFound
from carrel.core.model import Blob, Reading, Resource, Stored, Text
from carrel.core.provider import Project, Provider, Route
from carrel.providers.logs import Logs
from carrel.providers.logs.log import Bounds
from carrel.providers.logs.spool import SpoolWriter
from carrel.providers.mirror import Mirror
from carrel.providers.workspace.provider import Workspace
from carrel.server.requests import Running
from tests.support.http_asking import application, get
from tests.support.memory_provider import Kept

CODE = """\
import os


def first(a: int) -> int:
    return a


class Second:
    def third(self) -> None:
        pass
"""
OUTLINE = "def first(a: int) -> int ?lines=4-5\nclass Second ?lines=8-10\n def third(self) -> None ?lines=9-10\n"


class Drawer(Provider):
    """One file of each kind; it knows nothing of lines and outlines."""

    name = "drawer"
    schemes = ("drawer",)

    def __init__(self) -> None:
        self.source = Kept(CODE.encode())

    def routes(self) -> Sequence[Route]:
        return (
            Route("drawer://{name}", self.read_name),
            Route("drawer://own/{name}{?outline,lines}", self.read_own),
        )

    def entries(self, after: str = "") -> Iterator[Resource]:
        return iter(())

    def read_name(self, name: str) -> Text | Blob | Stored | Reading:
        items: dict[str, Text | Blob | Stored] = {
            "code.py": Text(CODE, "text/x-python"),
            "stored.py": Stored(self.source, "utf-8", "text/x-python"),
            "untitled": Text(CODE, "text/x-python"),
            "blob": Blob(b"\x00\x01"),
            "log": Text("12:00:00 fine\n" * 20 + "12:00:01 ERROR broken\n"),
            "moving.py": Stored(Kept(CODE.encode(), is_moving=True), "utf-8"),
        }
        if name == "two":
            return Reading((Text("a", uri="drawer://a"), Text("bc", uri="drawer://b")))
        if name not in items:
            raise NotFound(f"drawer://{name}")
        return items[name]

    def read_own(self, name: str, outline: str = "", lines: str = "") -> Text:
        return Text(f"{name}: my own outline {outline}, my own lines {lines}")


@pytest.fixture
def catalog() -> Catalog:
    return Catalog([Drawer()])


def text(catalog: Catalog, uri: str) -> str:
    [item] = catalog.read(uri).items
    assert isinstance(item, Text)
    return item.text


@pytest.mark.parametrize("name", ["code.py", "stored.py", "untitled", "moving.py"])
def test_any_text_has_an_outline(catalog: Catalog, name: str) -> None:
    head, _, rows = text(catalog, f"drawer://{name}?outline").partition("\n")

    assert head.startswith(f"drawer://{name} (Python, 10 lines, ")
    assert rows == OUTLINE


def test_what_an_outline_names_can_be_read(catalog: Catalog) -> None:
    whole = CODE.splitlines(keepends=True)
    for first, last in re.findall(r"\?lines=(\d+)-(\d+)", text(catalog, "drawer://code.py?outline")):
        part = catalog.read(f"drawer://code.py?lines={first}-{last}")
        [item] = part.items
        assert isinstance(item, Text)
        assert item.text == "".join(whole[int(first) - 1 : int(last)])
        assert (item.meta or {})["dev.carrel/lines"] == f"{first}-{last}"


def test_an_outline_has_an_etag_of_its_own_and_conditions_hold(catalog: Catalog) -> None:
    whole, outline = catalog.read("drawer://code.py"), catalog.read("drawer://code.py?outline")

    assert outline.etag
    assert outline.etag != whole.etag
    assert catalog.read("drawer://code.py?outline", condition=outline.etag).unchanged
    assert not catalog.read("drawer://code.py?outline", condition=whole.etag).unchanged
    assert catalog.read("drawer://code.py?lines=1-2").etag == whole.etag


def test_an_outline_can_be_read_in_parts(catalog: Catalog) -> None:
    whole = text(catalog, "drawer://code.py?outline")
    parts = text(catalog, "drawer://code.py?outline&start=0&length=30") + text(
        catalog, "drawer://code.py?outline&start=30"
    )

    assert parts == whole


def test_a_log_names_what_lies_around_an_error(catalog: Catalog) -> None:
    assert "21: 12:00:01 ERROR broken ?lines=19-21\n" in text(catalog, "drawer://log?outline")
    assert text(catalog, "drawer://log?lines=21") == "12:00:01 ERROR broken\n"


def test_the_log_of_a_run_shows_its_errors_whatever_its_other_lines_are(tmp_path: Path) -> None:
    writer = SpoolWriter(str(tmp_path), "run", "web", "web", Bounds())
    writer.feed("out", b"compiled a part\n" * 50 + b"ERROR: no such part\n")
    writer.end(1)
    catalog = Catalog([Logs(Project(str(tmp_path), {"HOME": str(tmp_path)}))])
    [entry] = catalog.entries("logs")

    [shown] = catalog.read(f"{entry.uri}?outline").items
    [around] = catalog.read(f"{entry.uri}?lines=49-51").items

    assert isinstance(shown, Text)
    assert shown.text.splitlines()[1] == "51: ERROR: no such part ?lines=49-51"
    assert "ERROR: no such part" in str(around)


def test_a_source_is_closed_once() -> None:
    drawer = Drawer()
    Catalog([drawer]).read("drawer://stored.py?outline")

    assert drawer.source.closed == 1


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("drawer://code.py?outline=most", "outline=most (expected ?outline, or ?outline=all for all of it)"),
        ("drawer://code.py?outline&outline", "outline (given twice)"),
        ("drawer://code.py?outline&lines=1-2", "lines (not together with outline)"),
        ("drawer://code.py?lines=0", "lines=0 (expected 10-50, 10- or 10, counted from 1)"),
        ("drawer://two?lines=1", "lines (not for a folder or several items)"),
        ("drawer://blob?outline", "outline (only text has an outline)"),
        ("drawer://blob?lines=1", "lines (only text has lines)"),
        ("drawer://code.py?lines=1-2&start=3", "start, length (lines gives a part, which is not cut again)"),
    ],
)
def test_what_cannot_be_asked_for_says_why(catalog: Catalog, uri: str, message: str) -> None:
    with pytest.raises(BadArgument) as caught:
        catalog.read(uri)

    assert caught.value.message == f"Invalid parameter: {message}"


def test_what_does_not_exist_has_no_outline(catalog: Catalog) -> None:
    with pytest.raises(NotFound):
        catalog.read("drawer://nothing?outline")


def test_several_items_are_listed(catalog: Catalog) -> None:
    assert text(catalog, "drawer://two?outline") == "1 characters drawer://a\n2 characters drawer://b\n"


def test_a_reader_that_names_outline_and_lines_gets_them_itself(catalog: Catalog) -> None:
    assert text(catalog, "drawer://own/x?outline=yes&lines=3") == "x: my own outline yes, my own lines 3"


@pytest.fixture
def desk(tmp_path: Path) -> Catalog:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text(CODE)
    (tmp_path / "src" / "b.md").write_text("# One\n\n## Two\n")
    (tmp_path / "c?.py").write_text(CODE)
    catalog = Catalog([Workspace(Project(str(tmp_path), {}))])
    catalog.mount(Mirror(catalog))
    return catalog


def test_a_folder_has_its_tree_with_sizes(desk: Catalog) -> None:
    shown = text(desk, "workspace:///src?outline")

    assert shown.splitlines() == [
        f"workspace:///src (folder, 2 files, {len(CODE) + 14} bytes)",
        f"{len(CODE)} bytes /a.py?outline",
        "14 bytes /b.md?outline",
    ]


def test_the_outline_of_a_file_is_cut_by_bytes_and_refuses_lines(desk: Catalog) -> None:
    [name] = [entry.uri for entry in desk.entries() if entry.uri.endswith(".py")][:1]
    whole = text(desk, f"{name}?outline")

    assert text(desk, f"{name}?outline&start=5&length=20") == whole[5:25]
    with pytest.raises(BadArgument, match="not together with outline"):
        text(desk, f"{name}?outline&lines=1-2")


def test_each_line_of_a_root_ends_in_what_follows_its_uri(desk: Catalog) -> None:
    head, *lines = text(desk, "workspace:///?outline").splitlines()
    uris = [head.split(" ")[0] + line.split(" ")[-1] for line in lines]

    assert "workspace:///src/a.py?outline" in uris
    assert all(text(desk, uri) for uri in uris)


@pytest.mark.parametrize("folder", ["logs://", "logs://run", "logs://run/"])
def test_a_folder_of_logs_has_its_logs(tmp_path: Path, folder: str) -> None:
    writer = SpoolWriter(str(tmp_path), "run", "web", "web", Bounds())
    writer.feed("out", b"compiled\n")
    writer.end(0)
    catalog = Catalog([Logs(Project(str(tmp_path), {"HOME": str(tmp_path)}))])
    [entry] = catalog.entries("logs")

    head, *_, last = text(catalog, f"{folder}?outline").splitlines()

    assert head.split(" ")[0] + last.split(" ")[-1] == f"{entry.uri}?outline"
    assert head.endswith("(folder, 1 file, 9 bytes)")


def test_the_list_of_templates_names_outline(desk: Catalog) -> None:
    templates, _ = desk.templates()

    assert [template.uri_template for template in templates] == ["workspace:///{+path}{?start,length,lines,outline}"]


def test_a_path_may_ask_for_an_outline(desk: Catalog) -> None:
    answer = desk.call("read_resource", {"uri": "src/a.py?outline"}, Running(lambda: None))

    assert "class Second ?lines=8-10" in str(answer.blocks[0])
    assert not answer.is_error


def test_a_file_whose_name_ends_in_a_question_mark_is_read_as_before(desk: Catalog) -> None:
    assert text(desk, "workspace:///c%3F.py") == CODE


def test_plain_http_gives_outlines_with_etags(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(CODE)
    app = application(Workspace(Project(str(tmp_path), {})))

    reply = get(app, "/workspace/a.py?outline")

    assert (reply.status, reply.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert reply.body.decode().partition("\n")[2] == OUTLINE
    assert get(app, "/workspace/a.py?outline", {"if-none-match": reply.headers["etag"]}).status == 304
    assert get(app, "/workspace/a.py?outline=most").status == 400


def test_a_desk_that_starts_has_loaded_nothing_of_outlines(tmp_path: Path) -> None:
    code = (
        "import sys; from carrel.catalog.catalog import Catalog; from carrel.core.provider import Project;"
        "from carrel.providers.workspace.provider import Workspace;"
        f"Catalog([Workspace(Project({str(tmp_path)!r}, {{}}))]);"
        "sys.exit(any(name.startswith(('carrel.outline', 'tree_sitter')) for name in sys.modules))"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
