"""What must hold in every host, and what each is seen to do. A host is a subclass with `host` set."""

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from carrel.connect import hosts as facts
from tests.hosts import project as sample
from tests.hosts.script import Call, Turn
from tests.hosts.session import Host, Place, Session, run, tool_texts
from tests.hosts.wire import Wire
from tests.support.waiting import until

SEEN = Path(__file__).parent / "seen"
RECORDING = os.environ.get("CARREL_RECORD_HOSTS") == "1"
TOOLS = ("list_resources", "read_resource", "search")
LIST_CHANGED = "notifications/resources/list_changed"
Steps = Mapping[str, Call | Callable[[Place], Call]]


def search_words(turn: Turn) -> dict[str, Any]:
    """Return a search. Each time the words are in another order: Cline refuses to repeat a call."""
    words = ["keeper", "lantern", "ship", "reef"]
    first = len(turn.results) % len(words)
    return {"query": " ".join(words[first:] + words[:first])}


def next_part(turn: Turn) -> dict[str, Any]:
    """Return the arguments that read the part which the last answer names."""
    named = re.search(r"next: (\S+)\]", turn.results[-1])
    return {"uri": named.group(1) if named else "the answer names no next part"}


def change_the_list(recorded: bool) -> Callable[[Place], Call]:
    """Return a step that adds a file and calls a tool after the host was told.

    A host that is recorded to list again gets the time to do so.
    """

    def step(place: Place) -> Call:
        def change(_: Turn) -> dict[str, Any]:
            wire = Wire(place.home)
            before = wire.sent(LIST_CHANGED)
            (place.project / sample.ADDED).write_text("# News\n", encoding="utf-8")
            until(lambda: wire.sent(LIST_CHANGED) > before, 30)
            if recorded or RECORDING:
                _wait_for_a_new_list(wire)
            return {"uri": sample.ADDED}

        return Call("read_resource", change)

    return step


def _wait_for_a_new_list(wire: Wire) -> None:
    try:
        until(lambda: lists_after_change(wire), 3 if RECORDING else 30)
    except AssertionError:
        return  # the comparison with the record says so


def lists_after_change(wire: Wire) -> bool:
    """Return whether the host listed the resources again after it was told of a change."""
    methods = [one.method for one in wire.messages()]
    return LIST_CHANGED in methods and "resources/list" in methods[methods.index(LIST_CHANGED) :]


def own_steps(list_tool: str, read_tool: str, templates_tool: str = "") -> dict[str, Call]:
    """Return steps that use a host's own tools for resources."""
    server = {"server": "carrel"}
    templates = {"own templates": Call(templates_tool, server, server="")} if templates_tool else {}
    return {
        **templates,
        "own list": Call(list_tool, server, server=""),
        "own read": Call(read_tool, {**server, "uri": sample.DOCUMENT_URI}, server=""),
        "own missing": Call(read_tool, {**server, "uri": f"workspace:///{sample.MISSPELT}"}, server=""),
    }


def find_tools(tool: str, query: str) -> dict[str, Call]:
    """Return a step that searches for tools, in hosts that hide them."""
    return {"find tools": Call(tool, {"query": query}, server="")}


class HostLaws:
    """What every host does with Carrel. Each class runs its host once, and each test looks at what was seen."""

    host: ClassVar[Host]
    before: ClassVar[Steps] = {}
    """Steps that a host needs before Carrel's tools can be called."""
    tools_are_shown: ClassVar[bool] = True
    """Whether the model sees the tools from the start; else `before` searches for them."""
    own: ClassVar[Steps] = {}
    """Steps with the host's own tools for resources: `own list`, `own read`, `own missing`."""

    @pytest.fixture(scope="class", name="session")
    @classmethod
    def run_host(cls, tmp_path_factory: pytest.TempPathFactory) -> Session:
        """Run the host."""
        script: Steps = {
            **cls.before,
            "search": Call("search", search_words, again_while="search again"),
            "list": Call("list_resources", {}),
            "part": Call("read_resource", {"uri": sample.LONG}),
            "next part": Call("read_resource", next_part),
            "missing": Call("read_resource", {"uri": sample.MISSPELT}),
            **cls.own,
            "changed": change_the_list(read_record(cls.host).get("lists_again", False)),
        }
        return run(cls.host, script, tmp_path_factory.mktemp(cls.host.name) / "place")

    def test_the_host_follows_the_script_to_its_end(self, session: Session) -> None:
        assert session.model.faults == []
        assert (session.returncode, session.output[-2000:] if session.returncode else "") == (0, "")
        assert set(session.results) >= {"search", "list", "part", "next part", "missing", "changed", *self.own}

    def test_connect_says_that_the_host_is_connected(self, session: Session) -> None:
        assert re.search(rf"{self.host.title}: connected, 1,000 resources, first answer \d+ ms", session.connected)

    def test_connect_proves_it_in_the_era_that_the_host_speaks(self, session: Session) -> None:
        _, protocol = _introduction(session.wire)

        known = next(known for known in facts.HOSTS if known.name == self.host.name)
        assert known.era == ("modern" if protocol >= "2026" else "legacy")

    def test_the_model_sees_the_tools_with_their_descriptions(self, session: Session) -> None:
        turn = session.model.turns[0 if self.tools_are_shown else len(self.before)]
        names = {tool: turn.find_tool(tool, "carrel") for tool in TOOLS}

        assert None not in names.values(), f"shown: {sorted(turn.tools)}, hidden: {sorted(turn.hidden)}"
        sent = {tool["name"]: tool["description"] for tool in session.wire.answers("tools/list")[0]["result"]["tools"]}
        assert [tool for tool, name in names.items() if name and sent[tool] not in turn.tools[name]] == []

    def test_a_search_is_answered(self, session: Session) -> None:
        assert f"workspace:///{sample.DOCUMENT}" in session.results["search"]
        assert sample.SENTENCE in session.results["search"]

    def test_the_list_is_not_empty_among_many_files(self, session: Session) -> None:
        listed = session.results["list"]

        assert "carrel://guide" in listed
        assert "workspace:///README.md" in listed

    def test_parts_arrive_whole_and_follow_each_other(self, session: Session) -> None:
        first, second = (re.findall(r"Night (\d{4}):", session.results[part]) for part in ("part", "next part"))

        numbers = [int(number) for number in (*first, *second)]
        assert first
        assert second
        assert numbers == list(range(1, len(numbers) + 1))

    @pytest.mark.parametrize("step", ["search", "list", "part", "next part"])
    def test_an_answer_reaches_the_model_as_it_was_sent(self, session: Session, step: str) -> None:
        sent = tool_texts(session.wire.answers("tools/call"))
        arrived = session.results[step]

        # Some hosts give the model the whole result, as JSON.
        spellings = [spelled for text in sent for spelled in (text, json.dumps(text, ensure_ascii=False)[1:-1])]
        assert any(text in arrived for text in spellings), f"cut or changed: {arrived[:300]!r}"

    def test_a_missing_file_names_the_one_that_is_meant(self, session: Session) -> None:
        assert f"did you mean workspace:///{sample.DOCUMENT}?" in session.results["missing"]

    def test_a_new_file_can_be_read(self, session: Session) -> None:
        assert "# News" in session.results["changed"]

    def test_the_host_does_what_is_recorded(self, session: Session, more: dict[str, Any]) -> None:
        seen = {**facts_of(self.host, session), **more}
        if RECORDING:
            SEEN.mkdir(exist_ok=True)
            text = json.dumps(seen, indent=2, ensure_ascii=False)
            (SEEN / f"{self.host.name}.json").write_text(text + "\n", encoding="utf-8")

        assert seen == read_record(self.host), "if this is right: make hosts-record docs"

    @pytest.fixture(name="more")
    def more_facts(self) -> dict[str, Any]:
        """Return what only some hosts are seen to do."""
        return {}


class ResourceLaws(HostLaws):
    """A host with tools of its own for resources: `own` has the steps that use them."""

    def test_the_hosts_own_list_is_not_empty_among_many_files(self, session: Session) -> None:
        assert "workspace:///" in session.results["own list"]

    def test_the_hosts_own_read_gives_the_document(self, session: Session) -> None:
        assert sample.SENTENCE in session.results["own read"]

    @pytest.fixture(name="more")
    def more_facts(self, session: Session) -> dict[str, Any]:
        """Return whether the host's own read passes on which file is meant."""
        return {"own_read_teaches": sample.DOCUMENT_URI in session.results["own missing"]}


def read_record(host: Host) -> dict[str, Any]:
    """Return what a host was seen to do when it was last recorded."""
    path = SEEN / f"{host.name}.json"
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return record


def facts_of(host: Host, session: Session) -> dict[str, Any]:
    """Return what a host was seen to do."""
    first, wire = session.first, session.wire
    client, protocol = _introduction(wire)
    told = json.dumps(first.body)
    conversation = json.dumps([turn.body for turn in session.model.turns])
    ours = {first.find_tool(tool, "carrel") for tool in TOOLS}
    return {
        "title": host.title,
        "version": host.version,
        "client": client,
        "protocol": protocol,
        "methods": sorted(method for method in wire.methods() if not method.startswith("notifications/")),
        "lists": _when_it_lists(wire),
        "instructions": json.dumps(_instructions(wire))[1:-1] in conversation,
        "tools_shown": None not in ours,
        "own_tools": sorted(name for name in first.tools if "resource" in name.lower() and name not in ours),
        "mention": sample.SENTENCE in told,
        "lists_again": lists_after_change(wire),
    }


def _when_it_lists(wire: Wire) -> str:
    methods = [one.method for one in wire.messages() if one.from_host]
    if "resources/list" not in methods:
        return "never"
    return "at the start" if methods.index("resources/list") < methods.index("tools/call") else "when the model asks"


def _instructions(wire: Wire) -> str:
    """Return the first line of the instructions; hosts with many tools show only that."""
    answer, *_ = [*wire.answers("initialize"), *wire.answers("server/discover")]
    instructions: str = answer["result"]["instructions"]
    return instructions.splitlines()[0]


def _introduction(wire: Wire) -> tuple[str, str]:
    """Return the name of the client and the version of the protocol."""
    for params in wire.requests("server/discover"):
        meta, spelled = params["_meta"], "io.modelcontextprotocol/"
        return meta[f"{spelled}clientInfo"]["name"], meta[f"{spelled}protocolVersion"]
    params = wire.requests("initialize")[0]
    return params["clientInfo"]["name"], params["protocolVersion"]
