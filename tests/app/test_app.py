"""The desk: which providers are chosen, and what the guide, the catalogue and the mirror say of them."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from carrel.app import config
from carrel.app.app import Choice, Desk, open_desk
from carrel.catalog.access import Access, ActingAs
from carrel.catalog.catalog import Catalog
from carrel.catalog.lazy import LazyProvider
from carrel.catalog.suggestions import with_advice
from carrel.cli.serve import announcement
from carrel.client.client import Client
from carrel.client.memory import Memory
from carrel.core.errors import ConfigError, NotFound, RemoteError
from carrel.core.model import Resource, Text
from carrel.core.provider import Provider, Route
from carrel.core.tokens import estimate_tokens
from carrel.providers.guide import INSTRUCTIONS
from carrel.providers.mirror import LIST_LENGTH
from tests.support.schemas import Conversation


@pytest.fixture(name="project")
def project_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "shelf.md").write_text("# Shelf\n", encoding="utf-8")
    return folder.resolve()


def desk_of(project: Path, *flags: tuple[str, str, str]) -> Desk:
    return open_desk(config.load(str(project), {"HOME": str(project.parent)}, flags))


def read_json(client: Client, uri: str) -> Any:
    item = client.read(uri).items[0]
    assert isinstance(item, Text)
    return json.loads(item.text)


def text_of(client: Client, uri: str) -> str:
    item = client.read(uri).items[0]
    assert isinstance(item, Text)
    return item.text


def test_a_plain_folder_calls_for_its_files(project: Path) -> None:
    desk = desk_of(project)

    served = [choice for choice in desk.choices if choice.state == "served"]
    assert served == [
        Choice("logs", "served", "output of runs and builds"),
        Choice("workspace", "served", "files of this folder"),
    ]
    assert [entry.uri for entry in desk.catalog.entries()] == [
        "carrel://guide",
        "carrel://catalog",
        "carrel://health",
        "workspace:///shelf.md",
    ]


def test_only_serves_what_it_names(project: Path) -> None:
    desk = desk_of(project, ("server", "only", "workspace"))

    own = ["carrel://guide", "carrel://catalog", "carrel://health"]
    assert [entry.uri for entry in desk.catalog.entries()] == [*own, "workspace:///shelf.md"]


def test_what_is_served_without_the_guide_does_not_name_it(project: Path) -> None:
    desk = desk_of(project, ("server", "without", "guide,search"))
    client = Conversation(desk.server)
    questions: list[tuple[str, dict[str, object]]] = [
        ("server/discover", {}),
        (
            "initialize",
            {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
        ),
        ("tools/list", {}),
        ("resources/list", {}),
        ("resources/templates/list", {}),
        ("resources/read", {"uri": "workspace:///none"}),
        ("resources/read", {"uri": "nobody://x"}),
        ("tools/call", {"name": "read_resource", "arguments": {"uri": "nowhere"}}),
        ("tools/call", {"name": "list_resources", "arguments": {}}),
    ]
    answers = [client.say(client.request(method, params)) or b"" for method, params in questions]

    assert b"list_resources" in answers[2]
    assert [answer for answer in answers if b"carrel://" in answer or b"guide" in answer] == []
    assert "guide" not in "\n".join(announcement(desk))
    desk.close()


def test_without_leaves_out_what_it_names(project: Path) -> None:
    desk = desk_of(project, ("server", "without", "workspace"))

    assert [entry.uri for entry in desk.catalog.entries()] == ["carrel://guide", "carrel://catalog", "carrel://health"]


@pytest.mark.parametrize("name", ["sage", "scopes", "alc"])
def test_what_is_turned_off_is_not_served_at_all(project: Path, name: str) -> None:
    desk = desk_of(project, (name, "enabled", "false"))
    states = {choice.name: choice.state for choice in desk.choices}
    schemes = {scheme for one in desk.catalog.mounted for scheme in one.provider.schemes}
    desk.close()

    assert states[name] == "disabled"
    assert name not in schemes


def test_a_provider_that_does_not_exist_is_named_with_the_nearest_that_does(project: Path) -> None:
    with pytest.raises(ConfigError, match="unknown provider 'workspce'; did you mean 'workspace'"):
        desk_of(project, ("server", "only", "workspce"))


def test_the_guide_teaches_the_uris_of_the_actual_data(project: Path) -> None:
    with Client.to(desk_of(project).server) as client:
        guide = text_of(client, "carrel://guide")

    assert guide.startswith("# Resources of library\n")
    assert "- `workspace:///{+path}{?start,length,lines,outline}`: " in guide
    assert "- `workspace:///shelf.md`" in guide
    assert "?start=0&length=20000" in guide


def test_the_guide_of_a_desk_without_files_names_no_file(project: Path) -> None:
    with Client.to(desk_of(project, ("server", "only", "logs")).server) as client:
        guide = text_of(client, "carrel://guide")

    assert "the tool `search`, or `carrel://search?q=WORDS`" in guide
    assert "`URI?outline`" in guide
    assert "workspace://" not in guide


def test_the_catalogue_counts(project: Path) -> None:
    with Client.to(desk_of(project).server) as client:
        catalogue = read_json(client, "carrel://catalog")

    assert [(one["name"], one["entries"], one["moreEntries"]) for one in catalogue["providers"]] == [
        ("logs", 0, False),
        ("workspace", 1, False),
        ("search", 0, False),
    ]


def test_what_waits_for_trust_stands_in_the_guide_and_the_health(project: Path) -> None:
    (project / "carrel.toml").write_text("[workspace]\nroot = '..'\n", encoding="utf-8")
    told = (
        "[workspace] root in carrel.toml is not in effect: it names a place outside the project; "
        "run `carrel trust` to allow it"
    )
    with Client.to(desk_of(project).server) as client:
        guide = text_of(client, "carrel://guide")
        health = read_json(client, "carrel://health")

    assert f"## Not served\n\n- {told}\n" in guide
    assert (health["status"], health["problems"]) == ("problems", [told])


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_the_instructions_point_to_the_guide(project: Path, era: Any) -> None:
    with Client.to(desk_of(project).server, era) as client:
        guide, search = client.instructions.split("\n\n")
    assert (guide, "`search`" in search) == (INSTRUCTIONS, True)
    assert "memory" not in INSTRUCTIONS, "this project has no memory: the text must be true of every project"
    assert len(INSTRUCTIONS) <= 200


# The mirror


def call(project: Path, name: str, arguments: dict[str, object]) -> tuple[bool, list[object]]:
    with Client.to(desk_of(project).server) as client:
        result = client.call(name, arguments)
    return result.is_error, list(result.blocks)


def test_the_mirror_lists_by_prefix(project: Path) -> None:
    assert call(project, "list_resources", {"prefix": "workspace:"}) == (False, ["workspace:///shelf.md  8 bytes"])


@pytest.mark.parametrize(
    ("prefix", "said"),
    [
        (
            "workspace:///shelv.md",
            "No listed URI begins with workspace:///shelv.md; did you mean workspace:///shelf.md?",
        ),
        ("logs://", "No listed URI begins with logs://"),
    ],
)
def test_the_mirror_says_that_nothing_has_a_prefix(project: Path, prefix: str, said: str) -> None:
    assert call(project, "list_resources", {"prefix": prefix}) == (False, [said])


def test_the_end_of_a_list_is_not_taken_for_a_prefix_that_nothing_has(project: Path) -> None:
    for number in range(LIST_LENGTH):
        (project / f"z{number:03}.md").write_text("z", encoding="utf-8")
    with Client.to(desk_of(project).server) as client:
        first = client.call("list_resources", {"prefix": "workspace:"})
        (project / f"z{LIST_LENGTH - 1:03}.md").unlink()
        cursor = (first.meta or {})["dev.carrel/next"]
        rest = client.call("list_resources", {"prefix": "workspace:", "cursor": cursor})

    assert str(first.blocks[0]).count("workspace:///") == LIST_LENGTH
    assert rest.blocks == ("No resources.",)


def test_the_mirror_reads_a_long_text_in_parts_and_says_what_is_next(project: Path) -> None:
    (project / "long.txt").write_text("x" * 100_000, encoding="utf-8")
    uri = "workspace:///long.txt"

    is_error, blocks = call(project, "read_resource", {"uri": uri})

    [block] = blocks
    note, text, last = str(block).split("\n")
    assert (is_error, last) == (False, note)
    assert text == "x" * len(text)
    assert note.startswith(f"[long.txt: lines 1-1 of 1, bytes 0-{len(text)} of 100000, about ")
    assert note.endswith(f" tokens; next: {uri}?start={len(text)}]")


def test_the_mirror_reads_what_does_not_fit_one_message(project: Path) -> None:
    (project / "huge.txt").write_text("x" * 3_000_000, encoding="utf-8")

    is_error, blocks = call(project, "read_resource", {"uri": "workspace:///huge.txt"})

    assert is_error is False
    assert re.search(r"next: workspace:///huge.txt\?start=19\d\d\d\]$", str(blocks[0]))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "Missing argument: uri"),
        ({"uri": 5}, "Invalid argument: uri=5 (expected a string of at least 1 character)"),
        (
            {"uri": "workspace:///shelf.md", "start": True},
            "Invalid argument: start=true (expected an integer, 0 or more)",
        ),
        (
            {"uri": "workspace:///shelf.md", "lenght": 1},
            'Unknown argument: lenght (known: uri, lines, start, length, budget; for example {"uri": "README.md"})',
        ),
        ({"uri": "workspace:///nope"}, "Resource not found: workspace:///nope"),
    ],
)
def test_the_mirror_says_which_argument_is_wrong(project: Path, arguments: dict[str, object], said: str) -> None:
    assert call(project, "read_resource", arguments) == (True, [said])


def test_without_the_mirror_there_are_no_tools(project: Path) -> None:
    with Client.to(desk_of(project, ("server", "mirror", "false")).server) as client:
        assert "tools" not in client.capabilities
        with pytest.raises(RemoteError) as caught:
            client.tools()
        guide = text_of(client, "carrel://guide")
    assert caught.value.code == -32601
    assert "**Search first:** `carrel://search?q=shelf`." in guide
    assert [name for name in ("the tool", "list_resources", "read_resource") if name in guide] == []


# Waiting


class Shelf(Provider):
    """A provider with one entry, as it is once its data is there."""

    name = "shelf"
    schemes = ("shelf",)

    def routes(self) -> Sequence[Route]:
        return (Route("shelf://{book}", lambda book: Text(f"about {book}"), name="book", mime_type="text/plain"),)

    def entries(self, after: str = "") -> Iterator[Resource]:
        if after < "shelf://one":
            yield Resource("shelf://one", "one")


def waiting_shelf(marker: Path) -> tuple[Catalog, list[Provider]]:
    built: list[Provider] = []

    def build() -> Provider:
        built.append(Shelf())
        return built[-1]

    catalog = Catalog()
    catalog.mount(LazyProvider("shelf", ("shelf",), build, marker.exists, catalog))
    return catalog, built


def test_a_provider_without_data_lists_nothing_and_is_not_built(tmp_path: Path) -> None:
    catalog, built = waiting_shelf(tmp_path / "marker")

    assert (list(catalog.entries()), catalog.templates(), built) == ([], ((), None), [])


def test_its_uris_are_answered_all_the_same(tmp_path: Path) -> None:
    catalog, built = waiting_shelf(tmp_path / "marker")

    assert catalog.read("shelf://one").items == (Text("about one"),)
    assert len(built) == 1


def test_it_joins_the_list_when_its_data_appears(tmp_path: Path) -> None:
    catalog, _ = waiting_shelf(tmp_path / "marker")
    (tmp_path / "marker").touch()

    assert [entry.uri for entry in catalog.entries()] == ["shelf://one"]
    assert [template.uri_template for template in catalog.templates()[0]] == ["shelf://{book}"]


@pytest.mark.parametrize("name", ["x" * 200, "ü" * 100, "字" * 80])
def test_the_guide_is_short_in_a_project_of_long_names(tmp_path: Path, name: str) -> None:
    project = tmp_path / name
    (project / name).mkdir(parents=True)
    (project / name / f"{name}.py").write_text("a = 1\n" * 9, encoding="utf-8")
    desk = desk_of(project)
    [item] = desk.catalog.read("carrel://guide").items

    assert isinstance(item, Text)
    assert estimate_tokens(item.text) <= 900
    assert "- 1 file, 1 KB: python 1" in item.text
    desk.close()


def test_what_a_conversation_starts_with_costs_little(project: Path) -> None:
    desk = desk_of(project)
    costs = {
        tool.name: estimate_tokens(json.dumps([tool.name, tool.description, tool.input_schema]))
        for tool in desk.catalog.tools()
    }

    assert list(costs) == ["search", "list_resources", "read_resource"]
    assert max(costs.values()) < 300
    assert sum(costs.values()) + estimate_tokens(desk.catalog.instructions()) < 1_200
    desk.close()


def test_the_tools_of_every_desk_are_always_loaded(project: Path) -> None:
    desk = desk_of(project)
    client = Conversation(desk.server)

    answer = json.loads(client.say(client.request("tools/list", {})) or b"")

    metas = {tool["name"]: tool["_meta"] for tool in answer["result"]["tools"]}
    assert [meta["anthropic/alwaysLoad"] for meta in metas.values()] == [True, True, True]
    assert metas["read_resource"]["anthropic/maxResultSizeChars"] >= 50_000
    assert all(tool["annotations"]["readOnlyHint"] for tool in answer["result"]["tools"])
    desk.close()


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize(
    ("uri", "said"),
    [
        (
            "workspace:///docs/shelf.md",
            "Resource not found: workspace:///docs/shelf.md; did you mean workspace:///shelf.md?",
        ),
        ("logs://run/shelf.md", "; did you mean workspace:///shelf.md?"),
        (
            "file:///shelf.md",
            "Unknown scheme: file:///shelf.md; served here: carrel://, logs://, workspace://; for example carrel://guide",
        ),
    ],
)
def test_an_error_about_a_uri_names_what_may_be_meant(project: Path, era: Any, uri: str, said: str) -> None:
    with Client.to(desk_of(project).server, era) as client, pytest.raises(RemoteError) as caught:
        client.read(uri)

    assert said in str(caught.value)


def test_advice_names_nothing_that_the_caller_may_not_read(project: Path) -> None:
    desk = desk_of(project)
    with ActingAs(Access("guest", frozenset({"logs:read"}))):
        error = with_advice(desk.catalog, NotFound("logs://run/shelf.md"))

    assert error.message == "Resource not found: logs://run/shelf.md"
    desk.close()


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_every_scheme_of_a_desk_has_folders(project: Path, era: Any) -> None:
    (project / ".sage/knowledge").mkdir(parents=True)
    (project / ".sage/system").mkdir()
    (project / ".sage/system/objective.md").write_text("Lend books.", encoding="utf-8")
    (project / "alc.toml").write_text("[packages.shelf]\n", encoding="utf-8")
    desk = desk_of(project)
    client = Client(Memory(desk.server), era=era)

    def names(uri: str) -> list[str]:
        return [one["uri"] for one in client.request("resources/directory/read", {"uri": uri})["resources"]]

    assert names("logs://") == ["logs://build", "logs://run"]
    assert names("logs://run") == names("sage://knowledge") == names("scopes://scope") == []
    assert names("sage://") == [f"sage://{kind}" for kind in ("checkpoint", "failure", "knowledge", "system")]
    assert names("sage://system") == ["sage://system/objective.md"]
    assert names("alc://types") == ["alc://types/alc.d.lua", "alc://types/alc_shapes.d.lua"]
    assert "alc://packages" in names("alc://")
    assert names("carrel://") == ["carrel://catalog", "carrel://guide", "carrel://health"]
    assert names("workspace:///") == ["workspace:///alc.toml", "workspace:///shelf.md"]
    client.close()
    desk.close()
