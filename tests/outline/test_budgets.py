"""`?budget=N` on any URI: the best that fits, and what is missing."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from carrel.catalog.catalog import Catalog
from carrel.core.content import NEXT
from carrel.core.errors import BadArgument
from carrel.core.model import Blob, Item, Range, Reading, Resource, ResourceLink, Text, ToolResult
from carrel.core.provider import Project, Provider, Route
from carrel.core.tokens import estimate_tokens
from carrel.providers.logs import Logs
from carrel.providers.logs.log import Bounds
from carrel.providers.logs.spool import SpoolWriter
from carrel.providers.mirror import Mirror
from carrel.providers.workspace.provider import Workspace
from carrel.server.requests import Running
from tests.support.http_asking import application, get

CODE = "".join(f"def name_{at}(first: int) -> int:\n    return first + {at}\n\n\n" for at in range(100))
PROSE = "".join(f"This is line {at} of a story without a heading.\n" for at in range(1, 301))


class Drawer(Provider):
    """One resource of each kind."""

    name = "drawer"
    schemes = ("drawer",)

    def routes(self) -> Sequence[Route]:
        return (
            Route("drawer://{name}", self.read_name),
            Route("drawer://own{?budget}", lambda budget="": Text(f"its own budget: {budget}")),
            Route("drawer://end{?tail}", lambda tail="": Reading((Text(PROSE[-int(tail) :]),), range=Range())),
        )

    def entries(self, after: str = "") -> Iterator[Resource]:
        return iter(())

    def read_name(self, name: str) -> Item | Reading:
        items: dict[str, Item | Reading] = {
            "code.py": Text(CODE, "text/x-python"),
            "story.txt": Text(PROSE, "text/plain"),
            "short.txt": Text("short\n", "text/plain"),
            "one-line.txt": Text("word " * 3_000),
            "picture.png": Blob(bytes(range(256)) * 40, "image/png"),
            "dot.png": Blob(b"\x89PNG", "image/png"),
            "several": Reading(tuple(Text(f"{PROSE[:900]}", uri=f"drawer://several/{at}") for at in range(5))),
            "failed": Reading((Text("Not here"),), error="not_found"),
        }
        return items[name]


@pytest.fixture(name="catalog", scope="module")
def a_catalog() -> Catalog:
    return Catalog([Drawer()])


def shown(catalog: Catalog, uri: str) -> Text:
    [item] = catalog.read(uri).items
    assert isinstance(item, Text)
    return item


def call(catalog: Catalog, name: str, **arguments: object) -> ToolResult:
    return Mirror(catalog).call(name, arguments, Running(lambda: None))


def test_what_fits_comes_as_it_is_with_its_etag(catalog: Catalog) -> None:
    assert shown(catalog, "drawer://short.txt?budget=100").text == "short\n"
    assert NEXT not in (shown(catalog, "drawer://code.py?budget=9000").meta or {})


def test_a_long_text_gives_its_outline_and_its_beginning(catalog: Catalog) -> None:
    item = shown(catalog, "drawer://code.py?budget=900")
    outline, beginning, note = item.text.split("\n\n", 1)[0], item.text.split("\n\n", 1)[1], item.text.split("\n")[-1]

    assert outline.startswith("drawer://code.py (Python, 400 lines, ")
    assert "name_0() ?lines=1-2" in outline
    assert beginning.startswith("def name_0(first: int) -> int:\n    return first + 0\n")
    assert note.startswith("[code.py: lines 1-")
    assert note.endswith(f"; next: {(item.meta or {})[NEXT]}]")
    assert 700 < estimate_tokens(item.text) <= 900


def test_a_text_without_an_outline_gives_its_beginning(catalog: Catalog) -> None:
    item = shown(catalog, "drawer://story.txt?budget=300")
    *lines, note = item.text.splitlines()

    assert lines == PROSE.splitlines()[: len(lines)]
    assert f"lines 1-{len(lines)} of 300, " in note
    assert (item.meta or {})[NEXT] == f"drawer://story.txt?start={len(''.join(lines)) + len(lines)}&budget=300"


def test_a_large_budget_says_what_is_missing_in_the_first_line_too(catalog: Catalog) -> None:
    first, *_, last = shown(catalog, "drawer://story.txt?budget=3000").text.splitlines()

    assert first == last
    assert "; next: drawer://story.txt?start=" in first


def test_a_budget_too_small_for_a_part_says_which_is_not(catalog: Catalog) -> None:
    item = shown(catalog, "drawer://story.txt?budget=1")
    following = str((item.meta or {})[NEXT])

    assert item.text == f"[story.txt: {len(PROSE)} bytes; no part fits budget=1; next: {following}]"
    assert shown(catalog, following).text.startswith("This is line 1 ")


def test_one_long_line_is_cut_within(catalog: Catalog) -> None:
    item = shown(catalog, "drawer://one-line.txt?budget=200")

    assert item.text.startswith("word word ")
    assert 150 < estimate_tokens(item.text) <= 200


def test_the_end_of_a_text_is_cut_at_its_front(catalog: Catalog) -> None:
    item = shown(catalog, "drawer://end?tail=5000&budget=200")
    *lines, note = item.text.splitlines()

    assert lines == PROSE.splitlines()[-len(lines) :]
    assert note.endswith("; next: drawer://end?start=0&budget=200]")


def test_a_range_is_what_has_to_fit(catalog: Catalog) -> None:
    whole = shown(catalog, "drawer://story.txt?start=100&length=50&budget=100")
    part = shown(catalog, "drawer://story.txt?start=100&length=5000&budget=200")
    begin = (part.meta or {})["dev.carrel/length"]

    assert whole.text == PROSE[100:150]
    assert part.text.startswith(PROSE[100:200])
    assert isinstance(begin, int)
    assert (part.meta or {})[NEXT] == f"drawer://story.txt?start={100 + begin}&length={5000 - begin}&budget=200"


def test_an_outline_gives_the_rows_that_fit_and_leads_to_all(catalog: Catalog) -> None:
    item = shown(catalog, "drawer://code.py?outline&budget=300")

    assert 200 < estimate_tokens(item.text) <= 300
    assert item.text.splitlines()[-1].endswith(" more: ?outline=all]")
    assert (item.meta or {})[NEXT] == "drawer://code.py?outline=all&budget=300"
    assert shown(catalog, "drawer://code.py?outline&budget=90000").text.count("?lines=") == 100


def test_bytes_that_do_not_fit_are_named(catalog: Catalog) -> None:
    [whole] = catalog.read("drawer://dot.png?budget=50").items

    assert isinstance(whole, Blob)
    assert shown(catalog, "drawer://picture.png?budget=50").text == (
        "[picture.png: 10240 bytes that are not text; next: drawer://picture.png]"
    )


def test_of_several_items_those_that_fit_come(catalog: Catalog) -> None:
    *items, last = catalog.read("drawer://several?budget=700").items

    assert [item.uri for item in items] == ["drawer://several/0", "drawer://several/1"]
    assert isinstance(last, Text)
    assert last.text == "[several: 2 of 5 items fit the budget; next: drawer://several]"
    assert len(catalog.read("drawer://several?budget=7000").items) == 5


class Cabinet(Provider):
    """A single URI beside a template that has a budget of its own, and a folder without pages."""

    name = "cabinet"
    schemes = ("cabinet",)

    def routes(self) -> Sequence[Route]:
        children = tuple(Text("", "text/plain", uri=f"cabinet://folder/{at}") for at in range(9))
        return (
            Route("cabinet://guide", lambda: Text(PROSE, "text/plain")),
            Route("cabinet://find{?q,budget}", lambda q="", budget="": Text(f"{q} {budget}")),
            Route("cabinet://folder", lambda: Reading(children, more=lambda _: None)),
        )

    def entries(self, after: str = "") -> Iterator[Resource]:
        return iter(())


def test_a_single_uri_has_a_budget_beside_a_template_with_its_own() -> None:
    guide = shown(Catalog([Cabinet()]), "cabinet://guide?budget=100")

    assert estimate_tokens(guide.text) <= 100
    assert NEXT in (guide.meta or {})


def test_a_folder_without_pages_says_how_many_children_are_missing() -> None:
    catalog = Catalog([Cabinet()])
    *children, last = catalog.read("cabinet://folder?budget=60").items

    assert isinstance(last, Text)
    assert 0 < len(children) < 9
    assert last.text == f"[folder: {len(children)} of 9 items fit the budget; next: cabinet://folder]"
    assert last.meta == {NEXT: "cabinet://folder"}
    assert len(catalog.read("cabinet://folder?budget=600").items) == 9


def test_an_error_as_content_stays_one(catalog: Catalog) -> None:
    assert catalog.read("drawer://failed?budget=1").error == "not_found"


def test_a_provider_with_a_budget_of_its_own_gets_it(catalog: Catalog) -> None:
    assert shown(catalog, "drawer://own?budget=7").text == "its own budget: 7"


@pytest.mark.parametrize("budget", ["0", "-1", "", "1.5", "many", "٣"])
def test_a_budget_is_a_number_from_one(catalog: Catalog, budget: str) -> None:
    with pytest.raises(BadArgument, match="budget") as refused:
        catalog.read(f"drawer://code.py?budget={budget}")

    assert refused.value.data == {"parameter": "budget"}


def test_a_budget_is_given_once(catalog: Catalog) -> None:
    with pytest.raises(BadArgument, match=r"budget \(given twice\)"):
        catalog.read("drawer://code.py?budget=5&budget=6")


# The tools


def test_read_resource_takes_a_budget_with_every_other_argument(catalog: Catalog) -> None:
    result = call(catalog, "read_resource", uri="drawer://story.txt", lines="10-200", budget=250)
    [text] = result.blocks

    assert isinstance(text, str)
    assert text.startswith("This is line 10 ")
    assert estimate_tokens(text) <= 250
    assert str((result.meta or {})[NEXT]) in text.splitlines()[-1]


def test_a_budget_in_the_uri_is_a_budget_of_the_tool(catalog: Catalog) -> None:
    asked = call(catalog, "read_resource", uri="drawer://code.py?budget=500")

    assert asked == call(catalog, "read_resource", uri="drawer://code.py", budget=500)


@pytest.mark.parametrize("budget", [0, -1, 1.5, "2000", True, None])
@pytest.mark.parametrize("tool", ["read_resource", "list_resources"])
def test_a_bad_budget_of_a_tool_is_an_error_of_the_request(catalog: Catalog, tool: str, budget: object) -> None:
    given = {"uri": "drawer://code.py"} if tool == "read_resource" else {}
    with pytest.raises(BadArgument, match=r"Invalid argument: budget=.* \(expected an integer, 1 or more\)"):
        call(catalog, tool, budget=budget, **given)


def test_a_bad_budget_in_the_uri_of_a_tool_is_an_error_of_the_request(catalog: Catalog) -> None:
    with pytest.raises(BadArgument, match="budget=0 "):
        call(catalog, "read_resource", uri="drawer://code.py?budget=0")


def test_other_bad_arguments_beside_a_good_budget_are_a_failed_result(catalog: Catalog) -> None:
    assert call(catalog, "read_resource", uri="drawer://code.py", start=-1, budget=5).is_error
    assert call(catalog, "list_resources", budged=5).is_error


def test_a_budget_may_be_larger_than_any_text(catalog: Catalog) -> None:
    whole = call(catalog, "read_resource", uri="drawer://code.py", budget=10**12)

    assert whole.blocks == (shown(catalog, "drawer://code.py").text,)


def test_bytes_within_a_budget_are_a_link(catalog: Catalog) -> None:
    blocks = call(catalog, "read_resource", uri="drawer://dot.png", budget=100).blocks

    assert [type(block) for block in blocks] == [str, ResourceLink]


def test_a_folder_of_files_says_how_many_are_missing(tmp_path: Path) -> None:
    for at in range(40):
        (tmp_path / f"file_{at:02}.txt").write_text("x", encoding="utf-8")
    catalog = Catalog([Workspace(Project(str(tmp_path), {}))])

    [text] = call(catalog, "read_resource", uri="workspace:///", budget=400).blocks
    first, *lines, last = str(text).splitlines()

    assert (
        first
        == last
        == f"[{len(lines)} of 40 shown; next: workspace:///?after=file_{len(lines) - 1:02}.txt&budget=400]"
    )
    assert estimate_tokens(str(text)) <= 400


def test_a_log_within_a_budget_names_its_errors(tmp_path: Path) -> None:
    writer = SpoolWriter(str(tmp_path), "build", "make", "make", Bounds())
    steps = [b"ERROR: no such file\n" if at == 1_500 else b"compiled part %d\n" % at for at in range(2_000)]
    writer.feed("out", b"".join(steps))
    writer.end(1)
    catalog = Catalog([Logs(Project(str(tmp_path), {"HOME": str(tmp_path)}))])
    [entry] = catalog.entries("logs")

    text = shown(catalog, f"{entry.uri}?budget=600").text

    assert estimate_tokens(text) <= 600
    assert "ERROR: no such file ?lines=" in text
    assert text.splitlines()[-1].startswith("[")


def test_plain_http_has_budgets_too(tmp_path: Path) -> None:
    (tmp_path / "story.txt").write_text(PROSE, encoding="utf-8")
    app = application(Workspace(Project(str(tmp_path), {})))

    reply = get(app, "/workspace/story.txt?budget=200")

    assert (reply.status, reply.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert estimate_tokens(reply.body.decode()) <= 200
    assert get(app, "/workspace/story.txt?budget=200", {"if-none-match": reply.headers["etag"]}).status == 304
    assert get(app, "/workspace/story.txt?budget=0").status == 400


@pytest.mark.slow
def test_a_large_budget_of_a_large_text_gives_what_one_message_holds(tmp_path: Path) -> None:
    (tmp_path / "large.txt").write_text(f'{PROSE}\t"quoted"\n' * 300, encoding="utf-8")
    size = (tmp_path / "large.txt").stat().st_size
    catalog = Catalog([Workspace(Project(str(tmp_path), {}))])

    item = shown(catalog, "workspace:///large.txt?budget=1000000")

    assert 400_000 < len(item.text) < catalog.max_bytes // 2 < size
    assert str((item.meta or {})[NEXT]).startswith("workspace:///large.txt?start=")


@pytest.mark.slow
def test_a_log_larger_than_a_message_has_an_outline(tmp_path: Path) -> None:
    lines = ["12:00:00 ERROR broken\n" if at == 70_000 else f"12:00:00 step {at} is done\n" for at in range(90_000)]
    (tmp_path / "build.log").write_text("".join(lines), encoding="utf-8")
    catalog = Catalog([Workspace(Project(str(tmp_path), {}))])

    assert "70001: 12:00:00 ERROR broken ?lines=69999-70007" in shown(catalog, "workspace:///build.log?outline").text
    assert "ERROR broken" in shown(catalog, "workspace:///build.log?budget=400").text
