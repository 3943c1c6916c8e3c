"""`carrel://audit`: every write of every face has a row with the ETags that readers get, for those with the right."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from carrel.app.app import Desk, open_desk
from carrel.app.config import load
from carrel.catalog.access import EVERYTHING, Access, ActingAs
from carrel.cli import main
from carrel.core.errors import BadArgument, CarrelError, Denied, NotFound
from carrel.core.model import Text
from tests.providers.logs.test_pushed_logs import end, entry, header
from tests.support.http_asking import INITIALIZE, legacy, modern
from tests.support.sage_killing import Nobody

AUDIT = "carrel://audit"
ANN = Access("jwt ann", frozenset({"*:read", "*:tools", "*:write"}))
AUDITOR = Access("token auditor", frozenset({"audit:read"}))


@pytest.fixture(name="project")
def project_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "README.md").write_text("A shop\n")
    for name, value in {"HOME": str(tmp_path / "home"), "LOGNAME": "ann"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(folder)
    return folder


def opened(project: Path, store_url: str = "") -> Desk:
    environment = {"HOME": str(project.parent / "home"), "CARREL_SCOPES_TOOLS": "write", "CARREL_SAGE_TOOLS": "write"}
    return open_desk(load(str(project), environment | ({"CARREL_STORE_URL": store_url} if store_url else {})))


@pytest.fixture(name="desk")
def team_desk(project: Path, store_url: str) -> Iterator[Desk]:
    with closing(opened(project, store_url)) as desk:
        yield desk


def call(desk: Desk, name: str, **arguments: object) -> Any:
    with ActingAs(ANN):
        result = desk.catalog.call(name, arguments, Nobody())
    assert not result.is_error, result
    return result.structured


def audit(desk: Desk, **query: object) -> list[dict[str, Any]]:
    """Return the rows as JSON, newest first."""
    words = "&".join(f"{name}={value}" for name, value in {"format": "json", **query}.items())
    entries: list[dict[str, Any]] = json.loads(text(desk, f"{AUDIT}?{words}"))["entries"]
    return entries


def text(desk: Desk, uri: str) -> str:
    [item] = desk.catalog.read(uri).items
    assert isinstance(item, Text)
    return item.text


def etag(desk: Desk, uri: str) -> str | None:
    try:
        return desk.catalog.read(uri).etag
    except CarrelError:
        return None


# Every write, through every face


def scope_writes() -> Iterator[tuple[str, dict[str, object]]]:
    yield "scopes.update", {"alias": "garden", "title": "The garden"}
    yield "scopes.update", {"alias": "garden", "status": "ARCHIVED"}
    yield "scopes.move", {"alias": "garden", "newParentAlias": None}
    yield "scopes.move", {"alias": "garden", "before": "shed"}
    yield "aliases.add", {"scopeAlias": "garden", "newAlias": "plot"}
    yield "aliases.remove", {"scopeAlias": "garden", "aliasToRemove": "yard"}
    yield "scopes.delete", {"alias": "garden", "cascade": True}


@pytest.mark.parametrize(("tool", "arguments"), [*scope_writes()])
def test_a_tool_that_changes_a_scope_leaves_a_row_with_both_etags(
    desk: Desk, tool: str, arguments: dict[str, object]
) -> None:
    for alias, parent in (("home", None), ("shed", "home"), ("garden", "home"), ("bed", "garden")):
        above = {"parentAlias": parent} if parent else {}
        call(desk, "scopes.create", title=alias, customAlias=alias, **above)
    call(desk, "aliases.add", scopeAlias="garden", newAlias="yard")
    uri, count = "scopes://scope/garden", len(audit(desk))
    before = etag(desk, uri)

    call(desk, tool, **arguments)

    row, *others = audit(desk, uri=uri)
    assert len(audit(desk)) == count + 1 + (tool == "scopes.delete")  # which deletes one scope more
    assert len(others) == 2
    assert [row[key] for key in ("caller", "tool", "uri")] == ["jwt ann", tool, uri]
    assert (row["etagBefore"], row["etagAfter"]) == (before, etag(desk, uri))


@pytest.mark.parametrize("is_command", [False, True])
def test_every_scope_that_is_deleted_with_another_has_a_row_with_its_etag(
    desk: Desk, project: Path, store_url: str, monkeypatch: pytest.MonkeyPatch, is_command: bool
) -> None:
    parents = {"home": None, "garden": "home", "bed": "garden", "rose": "bed", "tulip": "bed", "shed": "home"}
    for alias, parent in parents.items():
        call(desk, "scopes.create", title=alias, customAlias=alias, **({"parentAlias": parent} if parent else {}))
    for name in ("bed-b", "bed-a"):
        call(desk, "aliases.add", scopeAlias="bed", newAlias=name)
    call(desk, "scopes.move", alias="tulip", before="rose")
    call(desk, "scopes.update", alias="rose", description="Thorns.")
    gone = ("garden", "bed", "rose", "tulip")
    before = {f"scopes://scope/{alias}": etag(desk, f"scopes://scope/{alias}") for alias in gone}
    count = len(audit(desk))

    if is_command:
        monkeypatch.setenv("CARREL_STORE_URL", store_url)
        assert main(["scopes", "delete", "garden", "--cascade", "--dry-run"]) == 0
        assert main(["scopes", "delete", "garden", "--cascade"]) == 0
    else:
        call(desk, "scopes.delete", alias="garden", cascade=True)

    rows = audit(desk)[:-count]
    assert rows[0]["uri"] == "scopes://scope/garden"
    assert {row["uri"]: row["etagBefore"] for row in rows} == before
    assert len(rows) == len(before)
    assert {row["etagAfter"] for row in rows} == {None}
    assert len({row["tool"] for row in rows}) == 1
    assert [row["uri"] for row in audit(desk, uri="scopes://scope/tulip", limit=1)] == ["scopes://scope/tulip"]


def test_a_new_scope_and_another_canonical_alias_have_rows(desk: Desk) -> None:
    call(desk, "scopes.create", title="Garden", customAlias="garden")
    created = etag(desk, "scopes://scope/garden")
    call(desk, "aliases.add", scopeAlias="garden", newAlias="plot")
    named = etag(desk, "scopes://scope/garden")
    call(desk, "aliases.setCanonical", scopeAlias="garden", newCanonicalAlias="plot")

    last, middle, first = audit(desk)
    assert [first[key] for key in ("tool", "etagBefore", "etagAfter")] == ["scopes.create", None, created]
    assert (middle["etagBefore"], middle["etagAfter"]) == (created, named)
    assert (last["etagBefore"], last["etagAfter"]) == (named, etag(desk, "scopes://scope/plot"))


def test_a_call_that_changes_nothing_leaves_no_row(desk: Desk) -> None:
    call(desk, "scopes.create", title="Garden", customAlias="garden", idempotencyKey="k" * 20)
    call(desk, "scopes.create", title="Garden", customAlias="garden", idempotencyKey="k" * 20)
    call(desk, "scopes.update", alias="garden", title="Garden")
    with ActingAs(ANN):
        assert desk.catalog.call("scopes.update", {"alias": "garden", "title": ""}, Nobody()).is_error
        conflict = {"alias": "garden", "title": "x", "ifMatch": "other"}
        assert desk.catalog.call("scopes.update", conflict, Nobody()).is_error

    assert [row["tool"] for row in audit(desk)] == ["scopes.create"]


def sage_writes() -> Iterator[tuple[str, dict[str, object]]]:
    yield "sage_write_system", {"filename": "objective.md", "content": "Sell\r\nmore", "overwrite": True}
    yield "sage_save_knowledge", {"id": "prices", "content": "They are high", "keywords": ["price"]}
    yield "sage_record_failure", {"id": "sale", "approach": "a", "why_failed": "b", "learned": "c", "keywords": ["k"]}
    yield "sage_save_checkpoint", {"core_question": "Why?", "thesis": "Because", "confidence": 0.5}


@pytest.mark.parametrize(("tool", "arguments"), [*sage_writes()])
def test_a_tool_that_writes_memory_leaves_a_row_with_both_etags(
    desk: Desk, tool: str, arguments: dict[str, object]
) -> None:
    call(desk, tool, **arguments)
    [first] = audit(desk)
    made = etag(desk, first["uri"])
    assert [first[key] for key in ("caller", "tool", "etagBefore", "etagAfter")] == ["jwt ann", tool, None, made]
    assert made is not None

    changed = {name: f"{value} again" for name, value in arguments.items() if name in ("content", "learned", "thesis")}
    call(desk, tool, **{**arguments, **changed})
    second = audit(desk)[0]
    is_replaced = second["uri"] == first["uri"]
    assert second["etagBefore"] == (made if is_replaced else None)
    assert second["etagAfter"] == etag(desk, second["uri"]) != made
    assert is_replaced == (tool in ("sage_write_system", "sage_save_knowledge"))


def test_the_beginning_and_the_end_of_a_log_have_rows_and_lines_have_none(desk: Desk) -> None:
    uri = "logs://build/ci_1"

    def push(*lines: dict[str, Any], to: str = uri) -> None:
        body = "".join(f"{json.dumps(line)}\n" for line in (header(), *lines)).encode()
        with ActingAs(ANN):
            desk.catalog.append(to, body)

    push(entry(1))
    push(entry(2))
    running = etag(desk, uri)
    push(entry(3), end())
    push(entry(1), end(), to="logs://run/ci_2")

    rows = [[row[key] for key in ("caller", "tool", "uri", "etagBefore", "etagAfter")] for row in audit(desk)]
    short = etag(desk, "logs://run/ci_2")
    assert rows == [
        ["jwt ann", "logs.end", "logs://run/ci_2", None, short],
        ["jwt ann", "logs.begin", "logs://run/ci_2", None, short],
        ["jwt ann", "logs.end", uri, running, etag(desk, uri)],
        ["jwt ann", "logs.begin", uri, None, "1-running"],
    ]


def test_tools_of_both_eras_leave_rows(desk: Desk) -> None:
    def create(alias: str) -> dict[str, object]:
        return {"name": "scopes.create", "arguments": {"title": alias, "customAlias": alias}}

    answered = desk.server.answer(modern("tools/call", create("new")))
    assert answered is not None
    assert b'"isError":true' not in answered
    connection = desk.server.connect(lambda _: None, ANN)
    for message in (legacy("initialize", INITIALIZE), legacy("tools/call", create("old"), request_id=2)):
        given = connection.accept(message)
        answered = given if isinstance(given, bytes) or given is None else given.run()
    assert answered is not None
    connection.close()

    assert {(row["caller"], row["uri"]) for row in audit(desk)} == {
        ("local ann", "scopes://scope/new"),
        ("jwt ann", "scopes://scope/old"),
    }


def test_commands_leave_rows(desk: Desk, store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARREL_STORE_URL", store_url)
    for words in (
        ("scopes", "create", "Garden", "--alias", "garden"),
        ("scopes", "status", "garden", "DONE"),
        ("scopes", "status", "garden"),
        ("scopes", "delete", "garden", "--dry-run"),
        ("sage", "save-knowledge", "prices", "--keyword", "p", "--content", "They are high"),
        ("token", "add", "ci bot", "--scope", "audit:read"),
        ("token", "revoke", "ci bot"),
    ):
        assert main(list(words)) == 0

    assert [[row[key] for key in ("caller", "tool", "uri")] for row in audit(desk)] == [
        ["local ann", "carrel token revoke", "carrel://token/ci%20bot"],
        ["local ann", "carrel token add", "carrel://token/ci%20bot"],
        ["local ann", "carrel sage save-knowledge", "sage://knowledge/prices"],
        ["local ann", "carrel scopes status", "scopes://scope/garden"],
        ["local ann", "carrel scopes create", "scopes://scope/garden"],
    ]


def test_a_copy_into_a_store_leaves_rows(project: Path, store_url: str) -> None:
    assert main(["scopes", "create", "Garden", "--alias", "garden"]) == 0
    (project / ".sage/system").mkdir(parents=True)
    (project / ".sage/system/objective.md").write_text("Sell more\n")
    assert main(["store", "copy", "local", store_url]) == 0
    assert main(["store", "copy", "local", store_url]) == 0

    with closing(opened(project, store_url)) as desk:
        rows = [(row["tool"], row["uri"]) for row in audit(desk)]
    assert rows == [
        ("carrel store copy", "sage://system/objective.md"),
        ("carrel store copy", "scopes://scope/"),
    ]


SAVED = (
    ("save-knowledge", "prices", "--keyword", "k", "--content", "High."),
    ("record-failure", "sale", "--approach", "A", "--why", "W", "--learned", "L", "--keyword", "K"),
    ("save-checkpoint", "--question", "Why?", "--thesis", "Because", "--confidence", "0.5"),
)


def save_memory(project: Path) -> list[Path]:
    """Save an item of each kind, and return their files."""
    (project / ".sage/system").mkdir(parents=True)
    (project / ".sage/system/objective.md").write_text("Sell more\n")
    for words in SAVED:
        assert main(["sage", *words]) == 0
    return sorted((project / ".sage").rglob("*.md"))


@pytest.mark.parametrize("form", ["markdown", "toon"])
def test_a_copied_memory_has_rows_with_the_etags_that_readers_get(project: Path, store_url: str, form: str) -> None:
    files = save_memory(project)
    (project / ".sage/tuning.yaml").write_text(f"output_format: {form}\n")
    others = {"sage://knowledge/index.yaml", "sage://tuning.yaml/tuning.yaml"}  # no resources

    def copied(*options: str) -> dict[str, tuple[str | None, str | None]]:
        """Copy; return the ETags in the new rows of resources."""
        with closing(opened(project, store_url)) as desk:
            count = len(audit(desk))
        assert main(["store", "copy", "local", store_url, *options]) == 0
        with closing(opened(project, store_url)) as desk:
            rows = audit(desk)
        new = rows[: len(rows) - count]
        return {row["uri"]: (row["etagBefore"], row["etagAfter"]) for row in new if row["uri"] not in others}

    def etags(uris: Iterable[str]) -> dict[str, str | None]:
        with closing(opened(project, store_url)) as desk:
            return {uri: etag(desk, uri) for uri in uris}

    created = copied()
    before = etags(created)
    assert sorted(uri.split("/")[2] for uri in created) == ["checkpoint", "failure", "knowledge", "system"]
    assert None not in before.values()
    assert created == {uri: (None, before[uri]) for uri in created}

    for file in files:
        file.write_text(file.read_text() + "More.\n")
    replaced = copied("--replace")
    after = etags(created)
    assert replaced == {uri: (before[uri], after[uri]) for uri in created}
    assert all(before[uri] != after[uri] for uri in created)


def test_a_copy_that_changes_only_times_leaves_no_row(project: Path, store_url: str) -> None:
    files = save_memory(project)
    assert main(["store", "copy", "local", store_url]) == 0
    for file in files:
        os.utime(file, ns=(10**18, 10**18))
    assert main(["store", "copy", "local", store_url]) == 0

    with closing(opened(project, store_url)) as desk:
        assert len(audit(desk)) == len(files) + 1  # and the index of knowledge


# The resource


def write_many(desk: Desk, count: int) -> None:
    for number in range(count):
        call(desk, "scopes.create", title=f"T {number}", customAlias=f"task-{number}")


def test_pages_follow_each_other_newest_first(desk: Desk) -> None:
    write_many(desk, 5)
    uri, pages = f"{AUDIT}?limit=2&uri=scopes://", list[str]()
    while uri:
        reading = desk.catalog.read(uri)
        [item] = reading.items
        assert isinstance(item, Text)
        assert reading.etag
        assert desk.catalog.read(uri, condition=reading.etag).unchanged
        pages.append(item.text)
        uri = str((item.meta or {}).get("dev.carrel/next", ""))

    names = [[line.split("  ")[3] for line in page.splitlines() if not line.startswith("[")] for page in pages]
    assert names == [
        ["scopes://scope/task-4", "scopes://scope/task-3"],
        ["scopes://scope/task-2", "scopes://scope/task-1"],
        ["scopes://scope/task-0"],
    ]
    assert len(audit(desk)) == 5


def test_the_etag_changes_with_each_write(desk: Desk) -> None:
    empty = etag(desk, AUDIT)
    write_many(desk, 1)

    assert etag(desk, AUDIT) != empty
    assert "jwt ann  scopes.create  scopes://scope/task-0  - -> " in text(desk, AUDIT)


def test_rows_are_filtered(desk: Desk) -> None:
    write_many(desk, 2)

    assert audit(desk, caller="token%20ci") == []
    assert len(audit(desk, caller="jwt%20ann", since="2026-01-01")) == 2
    assert audit(desk, since="2999-01-01T00:00:00Z") == []
    assert [row["uri"] for row in audit(desk, uri="scopes://scope/task-1")] == ["scopes://scope/task-1"]


@pytest.mark.parametrize("query", ["since=yesterday", "limit=0", "limit=1001", "before=x", "format=xml", "q=1"])
def test_a_query_that_does_not_fit_is_refused(desk: Desk, query: str) -> None:
    with pytest.raises(BadArgument, match=query.partition("=")[0]):
        desk.catalog.read(f"{AUDIT}?{query}")


def test_nothing_of_what_was_written_stands_in_the_record(desk: Desk, store_url: str) -> None:
    call(desk, "scopes.create", title="secret-title", customAlias="garden", description="secret-words")
    call(desk, "sage_write_system", filename="objective.md", content="secret-words")

    shown = text(desk, AUDIT) + text(desk, f"{AUDIT}?format=json")
    assert "secret" not in shown
    assert store_url not in shown


# Rights

READERS: dict[str, Callable[[Desk], object]] = {
    "read": lambda desk: desk.catalog.read(AUDIT),
    "query": lambda desk: desk.catalog.read(f"{AUDIT}?format=json"),
    "slash": lambda desk: desk.catalog.read(f"{AUDIT}/"),
    "case": lambda desk: desk.catalog.read("CARREL://audit"),
    "escaped": lambda desk: desk.catalog.read("carrel://%61udit"),
    "outline": lambda desk: desk.catalog.read(f"{AUDIT}?outline"),
    "watch": lambda desk: desk.catalog.fingerprint(AUDIT),
    "folder": lambda desk: desk.catalog.read_folder(AUDIT),
    "complete": lambda desk: desk.catalog.complete(
        f"{AUDIT}{{?caller,uri,since,limit,before,format}}", "caller", "", {}
    ),
}


@pytest.mark.parametrize("scopes", [{"*:read"}, {"carrel:read"}, {"carrel://:read", "audit:write"}, set[str]()])
def test_without_the_right_the_record_is_refused_alike_with_and_without_a_store(
    desk: Desk, project: Path, scopes: set[str]
) -> None:
    write_many(desk, 1)
    with closing(opened(project)) as alone, ActingAs(Access("token x", frozenset(scopes))):
        for act in READERS.values():
            refusals = []
            for one in (desk, alone):
                with pytest.raises(CarrelError) as refused:
                    act(one)
                refusals.append((type(refused.value), str(refused.value)))
            assert refusals[0] == refusals[1]
            assert "task" not in refusals[0][1]


def listed(desk: Desk) -> str:
    """Return everything that a caller finds without knowing the URI."""
    catalog = desk.catalog
    found = [entry.uri for entry in (*catalog.page(limit=1_000).entries, *catalog.entries())]
    found += [one.uri_template for one in catalog.templates()[0]]
    for uri in ("carrel://", "carrel://guide", "carrel://catalog", "carrel://health"):
        try:
            found += [item.uri or (item.text if isinstance(item, Text) else "") for item in catalog.read(uri).items]
        except CarrelError:
            continue
    with suppress(CarrelError):
        found += [child.uri for child in catalog.read_folder("carrel://").entries]
    assert desk.server.search is not None
    found.append(text(desk, "carrel://search?q=audit"))
    return "\n".join(found).replace("No hits for audit.", "")


@pytest.mark.parametrize("scopes", [{"*:read"}, {"carrel:read", "scopes:read"}])
def test_without_the_right_the_record_is_nowhere_to_be_found(desk: Desk, scopes: set[str]) -> None:
    with ActingAs(Access("token x", frozenset(scopes))):
        assert "audit" not in listed(desk).lower()


@pytest.mark.parametrize("caller", [AUDITOR, EVERYTHING])
def test_with_the_right_the_record_is_listed_and_read(desk: Desk, caller: Access) -> None:
    write_many(desk, 1)
    with ActingAs(caller):
        assert [entry.uri for entry in desk.catalog.entries() if "audit" in entry.uri] == [AUDIT]
        assert any(one.uri_template.startswith(AUDIT) for one in desk.catalog.templates()[0])
        assert len(audit(desk)) == 1


def test_the_right_to_the_record_gives_no_other(desk: Desk) -> None:
    with ActingAs(AUDITOR):
        assert [entry.uri for entry in desk.catalog.entries()] == [AUDIT]
        for uri in ("carrel://guide", "scopes://cli-quick-ref", "carrel://auditor"):
            with pytest.raises(Denied):
                desk.catalog.read(uri)


def test_a_desk_without_a_store_says_that_it_has_no_record(project: Path) -> None:
    with closing(opened(project)) as desk:
        with pytest.raises(NotFound, match="There is no audit record here: it belongs to a team's store"):
            desk.catalog.read(f"{AUDIT}?format=json")
        assert AUDIT not in [entry.uri for entry in desk.catalog.entries()]
