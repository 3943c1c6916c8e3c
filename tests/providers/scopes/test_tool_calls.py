"""The tools of scopes: who has which, what they take and give, idempotency, and how they fail."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from carrel.catalog.catalog import Catalog
from carrel.core.isotime import now_ms
from carrel.providers.scopes import tool_calls, tool_schemas
from carrel.providers.scopes.connection import ScopesStore
from carrel.server.server import Server
from tests.support.schemas import Conversation
from tests.support.scopes_sample import NOW_SPELLED, check_invariants, plant, planted, provider_in, store_in, told

pytestmark = pytest.mark.usefixtures("backend")

READ = ["scopes.get", "scopes.children", "scopes.roots", "aliases.resolve"]
WRITE = [
    "scopes.create",
    "scopes.update",
    "scopes.move",
    "scopes.delete",
    "aliases.add",
    "aliases.remove",
    "aliases.setCanonical",
]


@pytest.fixture(name="store")
def sample_store(tmp_path: Path) -> Iterator[ScopesStore]:
    store = planted(tmp_path)
    yield store
    check_invariants(store)
    store.close()


class Caller:
    """Calls tools over MCP."""

    def __init__(self, project: Path, level: str = "write") -> None:
        self.provider = provider_in(project, tools=level)
        self.client = Conversation(Server(Catalog([self.provider])))

    def raw(self, name: str, arguments: dict[str, Any]) -> Any:
        return self.client.ask("tools/call", {"name": name, "arguments": arguments})

    def __call__(self, name: str, /, **arguments: Any) -> Any:
        """Return the structured result, checked against its text and its schema."""
        answer = self.raw(name, arguments)
        assert not answer.get("isError"), answer["content"][0]["text"]
        result = answer["structuredContent"]
        assert json.loads(answer["content"][0]["text"]) == result
        tool = next(tool for tool in tool_schemas.tools_of("write") if tool.name == name)
        Draft202012Validator(tool.output_schema or False).validate(result)
        links = [block for block in answer["content"] if block["type"] == "resource_link"]
        uri = f"scopes://scope/{result['alias']}" if "links" in result else None
        assert [link["uri"] for link in links] == ([] if uri is None else [uri])
        return result

    def failure(self, name: str, /, **arguments: Any) -> Any:
        answer = self.raw(name, arguments)
        assert answer["isError"] is True
        assert "structuredContent" not in answer
        assert len(answer["content"]) == 1
        return json.loads(answer["content"][0]["text"])


@pytest.fixture(name="call")
def caller(store: ScopesStore, tmp_path: Path) -> Iterator[Caller]:
    call = Caller(tmp_path)
    yield call
    call.provider.close()


def test_writing_tools_exist_only_where_they_are_turned_on(tmp_path: Path) -> None:
    for level, names in (("off", []), ("read", READ), ("write", READ + WRITE)):
        assert [tool.name for tool in provider_in(tmp_path, tools=level).tools()] == names
    unknown = Caller(tmp_path, "read").raw("scopes.create", {"title": "x"})
    assert (unknown["code"], unknown["message"]) == (-32602, "Unknown tool: scopes.create")
    assert list(tmp_path.iterdir()) == []


def test_the_hints_say_what_a_tool_may_do(call: Caller) -> None:
    hints = {
        tool["name"]: tuple(
            tool["annotations"][f"{hint}Hint"] for hint in ("readOnly", "destructive", "idempotent", "openWorld")
        )
        for tool in call.client.ask("tools/list")["tools"]
    }

    added = {"scopes.create", "aliases.add"}
    assert hints == {
        **dict.fromkeys(READ, (True, False, True, False)),
        **{name: (False, False, False, False) if name in added else (False, True, True, False) for name in WRITE},
    }


def test_schemas_are_closed_and_sound(call: Caller) -> None:
    for tool in call.client.ask("tools/list")["tools"]:
        Draft202012Validator.check_schema(tool["inputSchema"])
        assert tool["inputSchema"]["additionalProperties"] is False
        assert ("idempotencyKey" in tool["inputSchema"]["properties"]) == (tool["name"] in WRITE)


# Reading


def test_a_scope_is_given_as_its_resource_shows_it(call: Caller, store: ScopesStore) -> None:
    assert call("scopes.get", alias=" Feature-X ") == told(store, "feature-x")


def test_children_and_roots_come_in_pages(call: Caller) -> None:
    first = call("scopes.children", parentAlias="project-alpha", limit=1)
    second = call("scopes.children", parentAlias="project-alpha", skip=first["nextSkip"])

    x = {"alias": "feature-x", "title": "Feature X", "status": "IN_PROGRESS", "description": None}
    y = {"alias": "feature-y", "title": "Feature Y", "status": "PLANNING", "description": None}
    alpha = {"alias": "project-alpha", "title": "Project Alpha", "status": "IN_PROGRESS", "description": None}
    assert first == {"parent": "project-alpha", "children": [x], "total": 2, "nextSkip": 1}
    assert second == {"parent": "project-alpha", "children": [y], "total": 2, "nextSkip": None}
    assert call("scopes.roots") == {"roots": [alpha], "total": 1, "nextSkip": None}
    assert call("scopes.roots", skip=5) == {"roots": [], "total": 1, "nextSkip": None}


def test_an_alias_is_resolved_exactly(call: Caller) -> None:
    call("aliases.add", scopeAlias="task-1", newAlias="api")

    assert call("aliases.resolve", alias="API") == {
        "alias": "api",
        "canonicalAlias": "task-1",
        "title": "Implement API",
        "status": "TODO",
    }
    assert call.failure("aliases.resolve", alias="ap") == {
        "error": "Scope not found: ap",
        "code": "SCOPE_NOT_FOUND",
        "status": 404,
    }


# Writing


def test_scopes_are_created_changed_moved_and_deleted(call: Caller, store: ScopesStore) -> None:
    made = call(
        "scopes.create", title=" New ", description="", parentAlias="task-1", customAlias="NEW", status="in-progress"
    )
    assert made == told(store, "new")
    assert (made["title"], made["description"], made["status"], made["parent"]) == (
        "New",
        None,
        "IN_PROGRESS",
        "task-1",
    )
    changed = call("scopes.update", alias="new", title="Newer", description="d", status="archived")
    assert (changed["title"], changed["description"], changed["status"]) == ("Newer", "d", "ARCHIVED")
    changed = call("scopes.update", alias="new", description="", restore=True)
    assert (changed["description"], changed["status"]) == (None, "TODO")
    assert call("scopes.update", alias="new") == changed
    assert call("scopes.move", alias="new", newParentAlias=None)["parent"] is None
    assert call("scopes.move", alias="new", newParentAlias="feature-x", before="task-1")["parent"] == "feature-x"
    assert told(store, "feature-x")["children"] == ["new", "task-1", "task-2"]
    call("scopes.move", alias="new", after="task-1")
    assert told(store, "feature-x")["children"] == ["task-1", "new", "task-2"]
    assert call("scopes.delete", alias="new") == {"alias": "new", "deleted": True, "count": 1}
    assert call("scopes.delete", alias="project-alpha", cascade=True) == {
        "alias": "project-alpha",
        "deleted": True,
        "count": 6,
    }


def test_aliases_are_added_removed_and_made_canonical(call: Caller) -> None:
    assert call("aliases.add", scopeAlias="task-1", newAlias="B1") == {
        "scope": "task-1",
        "alias": "b1",
        "canonical": False,
        "aliases": ["task-1", "b1"],
    }
    assert call("aliases.add", scopeAlias="task-1", newAlias="a1", makeCanonical=True) == {
        "scope": "a1",
        "alias": "a1",
        "canonical": True,
        "aliases": ["a1", "b1", "task-1"],
    }
    assert call("aliases.setCanonical", scopeAlias="a1", newCanonicalAlias="b1") == {
        "scope": "b1",
        "aliases": ["b1", "a1", "task-1"],
    }
    assert call("aliases.remove", scopeAlias="a1", aliasToRemove="task-1") == {
        "scope": "b1",
        "removed": "task-1",
        "aliases": ["b1", "a1"],
    }


# Failing


@pytest.mark.parametrize(
    ("name", "arguments", "code", "status", "text"),
    [
        ("scopes.get", {}, "INVALID_ARGUMENT", 400, "Missing required parameter: alias"),
        (
            "scopes.get",
            {"alias": ""},
            "INVALID_ARGUMENT",
            400,
            'Invalid argument: alias="" (expected a string of at least 1 character)',
        ),
        (
            "scopes.get",
            {"alias": 5},
            "INVALID_ARGUMENT",
            400,
            "Invalid argument: alias=5 (expected a string of at least 1 character)",
        ),
        (
            "scopes.get",
            {"alias": "ab", "x": 1},
            "INVALID_ARGUMENT",
            400,
            'Unknown argument: x (known: alias; for example {"alias": "project-alpha"})',
        ),
        ("scopes.get", {"alias": "a--b"}, "INVALID_ALIAS", 400, "Invalid alias: a--b"),
        ("scopes.get", {"alias": "0193a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b"}, "INVALID_ALIAS", 400, None),
        ("scopes.get", {"alias": "nobody"}, "SCOPE_NOT_FOUND", 404, "Scope not found: nobody"),
        (
            "scopes.roots",
            {"limit": True, "x": 1},
            "INVALID_ARGUMENT",
            400,
            (
                "Invalid argument: limit=true (expected an integer from 1 to 1000); "
                'Unknown argument: x (known: skip, limit; for example {"skip": 0})'
            ),
        ),
        ("scopes.roots", {"limit": 1_001}, "INVALID_ARGUMENT", 400, None),
        ("scopes.roots", {"skip": -1}, "INVALID_ARGUMENT", 400, None),
        ("scopes.roots", {"skip": 2**70}, "INVALID_ARGUMENT", 400, None),
        ("scopes.create", {"title": " "}, "INVALID_TITLE", 400, None),
        ("scopes.create", {"title": "a\n"}, "INVALID_TITLE", 400, None),
        ("scopes.create", {"title": "x", "description": "\0"}, "INVALID_DESCRIPTION", 400, None),
        ("scopes.create", {"title": "x", "status": "later"}, "INVALID_STATUS", 400, None),
        ("scopes.create", {"title": "Project Alpha"}, "DUPLICATE_TITLE", 409, "Duplicate title: Project Alpha"),
        (
            "scopes.create",
            {"title": "x", "customAlias": "task-1"},
            "DUPLICATE_ALIAS",
            409,
            "Alias already exists: task-1",
        ),
        ("scopes.create", {"title": "x", "parentAlias": "nobody"}, "SCOPE_NOT_FOUND", 404, "Scope not found: nobody"),
        ("scopes.update", {"alias": "task-1", "expectedUpdatedAt": "soon"}, "INVALID_ARGUMENT", 400, None),
        ("scopes.update", {"alias": "task-1", "expectedUpdatedAt": "2026-11-15T18:00:00.124Z"}, "STALE", 409, None),
        ("scopes.update", {"alias": "task-1", "restore": "yes"}, "INVALID_ARGUMENT", 400, None),
        ("scopes.move", {"alias": "task-1"}, "INVALID_ARGUMENT", 400, None),
        ("scopes.move", {"alias": "task-1", "before": "task-2", "after": "task-2"}, "INVALID_ARGUMENT", 400, None),
        ("scopes.move", {"alias": "task-1", "before": "task-3"}, "INVALID_ARGUMENT", 400, None),
        ("scopes.move", {"alias": "task-1", "newParentAlias": ""}, "INVALID_ARGUMENT", 400, None),
        ("scopes.move", {"alias": "feature-x", "newParentAlias": "task-1"}, "CYCLE", 409, None),
        ("scopes.delete", {"alias": "feature-x"}, "HAS_CHILDREN", 409, "Scope has 2 children: feature-x"),
        ("aliases.remove", {"scopeAlias": "task-1", "aliasToRemove": "task-1"}, "CANNOT_REMOVE_CANONICAL", 409, None),
        ("aliases.remove", {"scopeAlias": "task-1", "aliasToRemove": "task-2"}, "ALIAS_OF_DIFFERENT_SCOPE", 409, None),
        (
            "aliases.remove",
            {"scopeAlias": "task-1", "aliasToRemove": "gone"},
            "ALIAS_NOT_FOUND",
            404,
            "Alias not found: gone",
        ),
        ("scopes.create", {"title": "x", "idempotencyKey": "abcdefgh\n"}, "INVALID_IDEMPOTENCY_KEY", 400, None),
        ("scopes.create", {"title": "x", "idempotencyKey": "a" * 7}, "INVALID_IDEMPOTENCY_KEY", 400, None),
        ("scopes.create", {"title": "x", "idempotencyKey": ""}, "INVALID_IDEMPOTENCY_KEY", 400, None),
        (
            "scopes.create",
            {"title": "x", "idempotencyKey": "a" * 129},
            "INVALID_IDEMPOTENCY_KEY",
            400,
            "Invalid idempotency key format",
        ),
    ],
)
def test_a_call_that_fails_says_why(
    call: Caller, name: str, arguments: dict[str, Any], code: str, status: int, text: str | None
) -> None:
    failed = call.failure(name, **arguments)

    assert (failed["code"], failed["status"], list(failed)) == (code, status, ["error", "code", "status"])
    assert text is None or failed["error"] == text
    assert call("scopes.roots")["total"] == 1


def test_an_archived_scope_refuses_a_status_over_mcp_too(call: Caller) -> None:
    call("scopes.update", alias="task-1", status="ARCHIVED")

    for status in ("DONE", "TODO"):
        failed = call.failure("scopes.update", alias="task-1", status=status)
        assert failed["code"] == "ARCHIVED"
        assert failed["error"] == "Scope is archived: task-1 (to restore it: scopes.update with restore true)"


def test_the_expected_time_lets_a_change_through(call: Caller) -> None:
    assert call("scopes.update", alias="task-1", title="New", expectedUpdatedAt=NOW_SPELLED)["title"] == "New"


@pytest.mark.parametrize("name", ["scopes.update", "scopes.delete", "scopes.move", "aliases.add"])
def test_a_change_of_nothing_makes_no_store(tmp_path: Path, name: str) -> None:
    others: dict[str, dict[str, Any]] = {
        "aliases.add": {"scopeAlias": "ab", "newAlias": "cd"},
        "scopes.move": {"alias": "ab", "newParentAlias": None},
    }
    arguments = others.get(name, {"alias": "ab"})

    assert Caller(tmp_path).failure(name, **arguments)["code"] == "SCOPE_NOT_FOUND"
    assert list(tmp_path.iterdir()) == []


# Idempotency

KEY = "key-0001"


def test_the_same_call_with_a_key_is_done_once(call: Caller, tmp_path: Path) -> None:
    first = call("scopes.create", title="Once", idempotencyKey=KEY)
    other = Caller(tmp_path)

    assert call("scopes.create", idempotencyKey=KEY, title="Once") == first
    assert other("scopes.create", title="Once", idempotencyKey=KEY) == first
    assert call("scopes.roots")["total"] == 2
    other.provider.close()


def test_a_key_belongs_to_one_tool_and_one_set_of_arguments(call: Caller) -> None:
    call("scopes.create", title="Once", customAlias="once", idempotencyKey=KEY)

    assert call.failure("scopes.create", title="Twice", idempotencyKey=KEY)["code"] == "IDEMPOTENCY_CONFLICT"
    assert call("scopes.delete", alias="once", idempotencyKey=KEY)["count"] == 1
    assert call("scopes.delete", alias="once", idempotencyKey=KEY)["count"] == 1


def test_a_failure_is_not_kept(call: Caller) -> None:
    assert call.failure("scopes.delete", alias="later", idempotencyKey=KEY)["code"] == "SCOPE_NOT_FOUND"
    call("scopes.create", title="Later", customAlias="later")

    assert call("scopes.delete", alias="later", idempotencyKey=KEY)["deleted"] is True


def test_a_key_is_kept_for_a_day(call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    call("scopes.create", title="Once", customAlias="once", idempotencyKey=KEY)
    monkeypatch.setattr(tool_calls, "now_ms", lambda: now_ms() + tool_calls.KEPT_MS - 60_000)
    assert call("scopes.create", title="Once", customAlias="once", idempotencyKey=KEY)["alias"] == "once"
    monkeypatch.setattr(tool_calls, "now_ms", lambda: now_ms() + tool_calls.KEPT_MS + 1)

    assert (
        call.failure("scopes.create", title="Once", customAlias="once", idempotencyKey=KEY)["code"] == "DUPLICATE_TITLE"
    )


def test_the_oldest_keys_go_first(call: Caller, store: ScopesStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_calls, "MAX_KEYS", 3)
    times = iter(range(1, 99))
    monkeypatch.setattr(tool_calls, "now_ms", lambda: next(times))
    for number in range(5):
        call("scopes.create", title=f"{number}", idempotencyKey=f"key-000{number}")

    with store.reading() as connection:
        assert connection is not None
        kept = connection.execute("SELECT key FROM idempotency ORDER BY key").fetchall()
    assert kept == [("key-0002",), ("key-0003",), ("key-0004",)]


RACE = """
import json, sys
from carrel.providers.scopes import tool_calls
from carrel.providers.scopes.store import Store
result = tool_calls.call(Store(sys.argv[1]), "scopes.create", {"title": "Once", "idempotencyKey": "key-0001"}, 10)
print(json.dumps(result.structured, sort_keys=True))
"""


@pytest.mark.slow
def test_processes_that_make_one_call_at_once_get_one_result(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    plant(store, (("first", "First", "TODO", None),))
    command = [sys.executable, "-c", RACE, store.path]

    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    results = {process.communicate()[0] for process in running}

    assert (len(results), [process.returncode for process in running]) == (1, [0] * 4)
    store.close()
