"""`scopes://` over MCP: every row of its page about URIs, errors, ETags, lists, completion and changes."""

import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from carrel.app.app import Desk, open_desk
from carrel.app.config import load
from carrel.catalog.catalog import Catalog
from carrel.catalog.watcher import Watcher
from carrel.core.errors import ConfigError, echo
from carrel.providers.scopes import Scopes, changes, commands, queries
from carrel.providers.scopes.connection import ScopesStore
from carrel.providers.scopes.sqlite import PARENTS
from carrel.providers.scopes.store import Store
from carrel.providers.scopes.values import Scope, to_json
from carrel.server.server import Server
from carrel.testing.contract import ProviderContract
from tests.support import schemas
from tests.support.http_asking import application
from tests.support.http_asking import get as get_http
from tests.support.schemas import LEGACY, MODERN, SERVER_INFO, Conversation
from tests.support.scopes_sample import NOW, NOW_SPELLED, TREE, get, plant, planted, provider_in, store_in

pytestmark = pytest.mark.usefixtures("backend")
LOCAL = pytest.mark.parametrize("backend", ["local"], indirect=True)
"""Marks tests about the file itself."""
SLOW_IN_TEAM = pytest.mark.parametrize(
    "backend", ["local", pytest.param("team", marks=pytest.mark.slow)], indirect=True
)
"""Marks tests that write much."""

POLL_S = 0.01
META = SERVER_INFO


def talk(provider: Scopes, **limits: Any) -> Conversation:
    catalog = Catalog([provider], **limits)
    return Conversation(Server(catalog, Watcher(catalog, POLL_S)))


@pytest.fixture(name="store")
def sample_store(tmp_path: Path) -> Iterator[ScopesStore]:
    store = planted(tmp_path)
    yield store
    store.close()


@pytest.fixture(name="provider")
def sample_provider(store: ScopesStore, tmp_path: Path) -> Iterator[Scopes]:
    provider = provider_in(tmp_path)
    yield provider
    provider.close()


@pytest.fixture(name="client")
def sample_client(provider: Scopes) -> Iterator[Conversation]:
    client = talk(provider)
    yield client
    client.close()


def read(client: Conversation, uri: str, version: str = MODERN, condition: object = None) -> Any:
    meta = {} if condition is None else {"_meta": {"dev.carrel/if-none-match": condition}}
    return client.ask("resources/read", {"uri": uri, **meta}, version=version)


def text_of(client: Conversation, uri: str) -> str:
    return str(read(client, uri)["contents"][0]["text"])


# Listing


def test_the_list_has_the_quick_reference_and_the_roots(client: Conversation, store: ScopesStore) -> None:
    plant(store, (("beta", "Beta", "TODO", None),), NOW + 5)

    assert client.ask("resources/list")["resources"] == [
        {
            "uri": "scopes://cli-quick-ref",
            "name": "cli-quick-ref",
            "title": "CLI Quick Reference",
            "description": "The commands of `carrel scopes`, with which scopes are created and changed",
            "mimeType": "text/markdown",
        },
        {
            "uri": "scopes://scope/beta",
            "name": "beta",
            "title": "Beta",
            "mimeType": "application/json",
            "annotations": {"lastModified": "2026-11-15T18:00:00.128Z"},
        },
        {
            "uri": "scopes://scope/project-alpha",
            "name": "project-alpha",
            "title": "Project Alpha",
            "mimeType": "application/json",
            "annotations": {"lastModified": "2026-11-15T18:00:00.125Z"},
        },
    ]


@pytest.mark.parametrize(("limit", "listed"), [(0, []), (1, ["zeta"]), (2, ["eta", "zeta"])])
def test_only_the_first_roots_are_listed(tmp_path: Path, limit: int, listed: list[str]) -> None:
    store = store_in(tmp_path)
    plant(store, (("zeta", "Z", "TODO", None), ("eta", "E", "TODO", None), ("alpha", "A", "TODO", None)))

    entries = [entry.name for entry in provider_in(tmp_path, list_roots=limit).entries()]

    assert entries == ["cli-quick-ref", *listed]


def test_the_templates_say_how_to_read_a_large_tree(client: Conversation) -> None:
    templates = client.ask("resources/templates/list")["resourceTemplates"]

    assert [(one["uriTemplate"], one["name"], one["title"], one["mimeType"]) for one in templates] == [
        ("scopes://scope/{alias}", "scope", "Scope Details", "application/json"),
        ("scopes://tree/{alias}{?depth,skip,limit,max_nodes}", "tree", "Scope Tree View", "text/plain"),
    ]
    for word in ("depth=1", "(truncated)", "page", "lower the depth", "subtree"):
        assert word in templates[1]["description"]


# One scope


def test_a_scope_is_compact_json_in_a_fixed_order(client: Conversation, store: ScopesStore) -> None:
    with store.writing() as connection:
        scope = queries.find(connection, "feature-x")
        assert scope is not None
        changes.add_alias(connection, NOW, scope, "zz")
        changes.add_alias(connection, NOW, scope, "aa")
        changes.update(connection, NOW, scope, changes.Change(description="Schönes\nDing"))
    found = get(store, "feature-x")

    text = (
        f'{{"id":"{found.id}","alias":"feature-x","title":"Feature X","status":"IN_PROGRESS",'
        '"children":["task-1","task-2"],"description":"Schönes\\nDing","parent":"project-alpha",'
        f'"aliases":["feature-x","aa","zz"],"createdAt":"{NOW_SPELLED}",'
        '"updatedAt":"2026-11-15T18:00:00.128Z","links":['
        '{"rel":"self","uri":"scopes://scope/feature-x"},{"rel":"tree","uri":"scopes://tree/feature-x"},'
        '{"rel":"parent","uri":"scopes://scope/project-alpha"}]}'
    )

    answer = read(client, "scopes://scope/ZZ")

    assert answer == {
        "contents": [
            {
                "uri": "scopes://scope/ZZ",
                "mimeType": "application/json",
                "text": text,
                "_meta": {
                    "dev.carrel/etag": sha256(f"scope:1:{found.id}:{NOW + 5}:{text}".encode()).hexdigest(),
                    "dev.carrel/last-modified": "2026-11-15T18:00:00.128Z",
                },
            }
        ],
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": META,
    }


def test_more_children_than_are_listed_are_counted(store: ScopesStore, tmp_path: Path) -> None:
    client = talk(provider_in(tmp_path, max_children_listed=1))

    told = json.loads(text_of(client, "scopes://scope/project-alpha"))

    assert (told["children"], told["childrenOmitted"], list(told)[-1]) == (["feature-x"], 1, "childrenOmitted")


def test_an_etag_changes_with_the_children_that_are_listed(store: ScopesStore, tmp_path: Path) -> None:
    whole = Catalog([provider_in(tmp_path)]).read("scopes://scope/project-alpha").etag
    cut = Catalog([provider_in(tmp_path, max_children_listed=1)]).read("scopes://scope/project-alpha").etag
    assert whole != cut
    before = get(store, "project-alpha")

    with store.writing() as connection:  # as an import may do it, which keeps the times of its file
        for alias in ("task-3", "feature-y"):
            connection.execute("DELETE FROM scopes WHERE alias = ?", (alias,))
    assert get(store, "project-alpha") == before

    assert Catalog([provider_in(tmp_path)]).read("scopes://scope/project-alpha").etag not in (whole, cut)


def test_a_subscription_notices_what_the_etag_notices(store: ScopesStore, tmp_path: Path) -> None:
    provider = provider_in(tmp_path)
    uri = "scopes://scope/feature-y"

    assert Catalog([provider]).fingerprint(uri) == Catalog([provider]).read(uri).etag


def test_the_etag_of_the_page() -> None:
    scope = Scope("0193a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b", "ab", None, "t", None, "TODO", 0, 0, NOW)

    told = {"parent": None, "children": [], "aliases": ["ab"]}

    assert (
        queries.etag(scope, told, to_json(told)) == "702f53faf9e59140d0f4ae399b3b2c879d8fa87243edf42fc08e63901be4c64c"
    )


# Trees


def test_the_tree_of_the_documents_byte_for_byte(client: Conversation) -> None:
    answer = read(client, "scopes://tree/project-alpha?depth=2")

    assert answer["contents"] == [
        {
            "uri": "scopes://tree/project-alpha?depth=2",
            "mimeType": "text/plain",
            "text": TREE,
            "_meta": {
                "dev.carrel/depth": 2,
                "dev.carrel/nodes": 6,
                "dev.carrel/truncated": False,
                "dev.carrel/etag": sha256(TREE.encode()).hexdigest(),
                "dev.carrel/last-modified": "2026-11-15T18:00:00.125Z",
            },
        }
    ]


@pytest.mark.parametrize(
    ("value", "depth"),
    [
        ("0", 1),
        ("-1", 1),
        ("6", 5),
        ("99", 5),
        ("abc", 1),
        ("", 1),
        ("9" * 5_000, 5),
        ("-" + "9" * 5_000, 1),
        ("0" * 5_000 + "3", 3),
        ("+3", 3),
        ("%2B3", 3),
        ("1_0", 1),
        ("2.5", 1),
        ("%EF%BC%91", 1),
        ("\uff11", 1),
        ("%203", 1),
        ("+", 1),
        ("3%0A", 1),
    ],
)
def test_a_depth_is_made_to_fit(client: Conversation, value: str, depth: int) -> None:
    answer = read(client, f"scopes://tree/project-alpha?depth={value}")

    assert answer["contents"][0]["_meta"]["dev.carrel/depth"] == depth


@SLOW_IN_TEAM
@pytest.mark.parametrize(
    ("query", "levels"), [("", 1), ("?depth=1", 1), ("?depth=3", 3), ("?depth=5", 5), ("?depth=9", 5)]
)
def test_a_tree_shows_as_many_levels_as_its_depth_however_deep_the_hierarchy_is(
    tmp_path: Path, query: str, levels: int
) -> None:
    names = [f"level-{number}" for number in range(1_100)]  # deeper than Python recurses
    store = store_in(tmp_path)
    plant(store, tuple((name, name, "TODO", above) for name, above in zip(names, [None, *names], strict=False)))
    store.close()
    client = talk(provider_in(tmp_path))

    for first in (0, 1_000):
        lines = text_of(client, f"scopes://tree/{names[first]}{query}").split("\n")
        shown = names[first : first + levels + 1]
        assert [line.lstrip("└─ ") for line in lines] == [f"{name} ({name}) [TODO]" for name in shown]


def test_a_page_names_the_next_one(client: Conversation) -> None:
    item = read(client, "scopes://tree/project-alpha?limit=1")["contents"][0]

    assert item["text"] == (
        "project-alpha (Project Alpha) [IN_PROGRESS]\n"
        "└── feature-x (Feature X) [IN_PROGRESS]\n"
        "... 1 more: scopes://tree/project-alpha?skip=1&limit=1"
    )
    assert item["_meta"]["dev.carrel/next"] == "scopes://tree/project-alpha?skip=1&limit=1"


@pytest.mark.parametrize(
    ("query", "last"),
    [
        (
            "max_nodes=3&depth=7&limit=1&skip=0",
            "... 1 more: scopes://tree/project-alpha?depth=5&skip=1&limit=1&max_nodes=3",
        ),
        ("skip=0&max_nodes=2", "... 1 more: scopes://tree/project-alpha?skip=1&max_nodes=2"),
        ("skip=1", "└── feature-y (Feature Y) [PLANNING]"),
        ("skip=2", "project-alpha (Project Alpha) [IN_PROGRESS]"),
        ("skip=2147483647", "project-alpha (Project Alpha) [IN_PROGRESS]"),
        ("limit=2", "└── feature-y (Feature Y) [PLANNING]"),
        ("limit=1&max_nodes=1", "project-alpha (Project Alpha) [IN_PROGRESS] (truncated)"),
        ("max_nodes=2", "├── feature-x (Feature X) [IN_PROGRESS] (truncated)"),
        ("max_nodes=3", "└── feature-y (Feature Y) [PLANNING]"),
        ("depth=2&max_nodes=5", "└── feature-y (Feature Y) [PLANNING] (truncated)"),
        ("depth=2&max_nodes=6", "    └── task-3 (Design UI) [TODO]"),
    ],
)
def test_the_last_line_says_what_is_missing(client: Conversation, query: str, last: str) -> None:
    assert text_of(client, f"scopes://tree/project-alpha?{query}").split("\n")[-1] == last


def test_pages_followed_by_their_own_uris_show_every_child_once(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    rows = tuple((f"c{number}x", f"Child {number}", "TODO", "top") for number in range(23))
    plant(store, (("top", "Top", "TODO", None), *rows))
    client = talk(provider_in(tmp_path))
    shown: list[str] = []
    uri: str | None = "scopes://tree/top?limit=5&max_nodes=4"
    while uri is not None:
        item = read(client, uri)["contents"][0]
        shown += [line[4:].split()[0] for line in item["text"].split("\n") if line[0] in "├└"]
        uri = item["_meta"].get("dev.carrel/next")

    assert shown == [f"c{number}x" for number in range(23)]


def test_a_secondary_alias_reads_the_tree_with_canonical_names(client: Conversation, store: ScopesStore) -> None:
    with store.writing() as connection:
        scope = queries.find(connection, "project-alpha")
        assert scope is not None
        changes.add_alias(connection, NOW, scope, "pa")

    assert text_of(client, "scopes://tree/pa?depth=2") == TREE
    assert text_of(client, "scopes://tree/pa?limit=1").endswith("scopes://tree/project-alpha?skip=1&limit=1")


@SLOW_IN_TEAM
def test_a_thousand_nodes_are_the_default_bound_and_a_lower_ceiling_lowers_it(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    rows = tuple((f"c{number}x", f"Child {number}", "TODO", "top") for number in range(1_000))
    plant(store, (("top", "Top", "TODO", None), *rows))

    for ceiling, nodes in ((1_000, 1_000), (10, 10), (5_000, 1_000)):
        item = read(talk(provider_in(tmp_path, max_nodes_ceiling=ceiling)), "scopes://tree/top")["contents"][0]
        lines = item["text"].split("\n")
        assert (len(lines), lines[-1].endswith(" [TODO] (truncated)"), lines[-1][:4]) == (nodes, True, "├── ")
        assert item["_meta"]["dev.carrel/truncated"] is True
    wide = read(talk(provider_in(tmp_path, max_nodes_ceiling=5_000)), "scopes://tree/top?max_nodes=1001")["contents"][0]
    assert (wide["_meta"]["dev.carrel/nodes"], wide["_meta"]["dev.carrel/truncated"]) == (1_001, False)


@LOCAL
@pytest.mark.parametrize("statement", [queries.level_statement(PARENTS), queries.WINDOW])
def test_rows_come_straight_from_the_index(store: ScopesStore, statement: str) -> None:
    values = ("x", 5, 5)[: statement.count("?")]
    with store.reading() as connection:
        assert connection is not None
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]

    assert any("USING INDEX scopes_children (parent_id=?)" in step for step in plan)
    assert [step for step in plan if "TEMP B-TREE" in step or step == "SCAN scopes"] == []


# The quick reference


def test_the_quick_reference_is_the_table_of_commands(client: Conversation) -> None:
    answer = read(client, "scopes://cli-quick-ref")
    text = answer["contents"][0]["text"]

    sections = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    assert sections == [*(command.name for command in commands.COMMANDS), "Resources"]
    for command in commands.COMMANDS:
        assert f"`{commands.usage(command)}`" in text
        for option in command.options:
            assert f"| `{', '.join(option.flags)}" in text
    for uri in (
        "scopes://cli-quick-ref",
        "scopes://scope/{alias}",
        "scopes://tree/{alias}{?depth,skip,limit,max_nodes}",
    ):
        assert f"| `{uri}` |" in text.rpartition("## Resources")[2]
    assert (answer["ttlMs"], answer["cacheScope"]) == (3_600_000, "public")
    assert answer["contents"][0]["_meta"]["dev.carrel/etag"] == sha256(text.encode()).hexdigest()


# Errors

NOT_URIS = (
    "scopes://scope/",
    "scopes://tree/?depth=2",
    "scopes://",
    "scopes:/scope/a1",
    "scopes:",
    "scopes://other/a1",
    "scopes://Scope/a1",
    "scopes://CLI-quick-ref",
    "scopes://cli-quick-ref/",
    "scopes://cli%2Dquick-ref",
    "scopes://scope/a1/b1",
    "scopes://scope/a1/",
    "scopes://scope/a1#x",
    "scopes://scope/%zz",
    "scopes://scope/%ff",
    "scopes://tree/a1?depth=%ff",
    "scopes://tree/a1?%zz=1",
    "scopes://user@scope/a1",
    "scopes://tree/a1?" + "&".join(f"x{number}=1" for number in range(65)),
)


@pytest.mark.parametrize("version", [MODERN, LEGACY])
@pytest.mark.parametrize("uri", NOT_URIS)
def test_what_is_no_uri_of_ours_is_a_400(client: Conversation, uri: str, version: str) -> None:
    assert read(client, uri, version) == bad(f"Invalid URI: {echo(uri)}", uri)


EVERYWHERE = "start, length, lines, outline, budget; for example ?lines=1-50"
TREE_KNOWS = f"known: depth, skip, limit, max_nodes, {EVERYWHERE}"


@pytest.mark.parametrize("version", [MODERN, LEGACY])
@pytest.mark.parametrize("uri", ["scopes://scope/a1?depth=2", "scopes://cli-quick-ref?x=1"])
def test_a_query_where_none_belongs_is_a_400_that_names_what_is_allowed(
    client: Conversation, uri: str, version: str
) -> None:
    assert read(client, uri, version) == bad(f"Invalid URI: {uri} (known: {EVERYWHERE})", uri)


@pytest.mark.parametrize(
    ("uri", "message", "data"),
    [
        (
            "carrel://guide",
            "Unknown scheme: carrel://guide; served here: scopes://; for example scopes://cli-quick-ref",
            {"name": "MCP_NOT_FOUND"},
        ),
        (
            "README.md",
            "The URI does not start with a scheme, such as workspace: or logs:",
            {"name": "MCP_INVALID_PARAMS", "parameter": "uri"},
        ),
    ],
)
def test_a_uri_of_another_scheme_is_not_called_a_bad_uri_of_ours(
    client: Conversation, uri: str, message: str, data: dict[str, str]
) -> None:
    error = read(client, uri)

    assert (error["code"], error["message"]) == (-32602, message)
    assert data.items() <= error["data"].items()
    assert "status" not in error["data"]


def bad(text: str, uri: str, status: int = 400, code: int = -32602) -> dict[str, Any]:
    word, name = ("not_found", "MCP_NOT_FOUND") if status == 404 else ("invalid", "MCP_INVALID_PARAMS")
    data = {"error": text, "status": status, "uri": uri, "dev.carrel/error": word, "name": name}
    return {"code": code, "message": text, "data": data}


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("scopes://scope/" + "a" * 8_192, "scopes://scope/" + "a" * 185 + "…"),
        ("scopes://scope/a\x1b1", "scopes://scope/a\\x1b1"),
        ("scopes://scope/a\u0085b", "scopes://scope/a\\x85b"),
    ],
)
def test_what_no_uri_can_be_is_refused_in_the_same_words(client: Conversation, uri: str, told: str) -> None:
    error = read(client, uri)

    assert (error["code"], error["message"]) == (-32602, f"Invalid URI: {told}")
    assert (error["data"]["error"], error["data"]["status"]) == (f"Invalid URI: {told}", 400)


@pytest.mark.parametrize(
    ("segment", "told"),
    [
        ("a%2Fb", "a/b"),
        ("a--b", "a--b"),
        ("a-_b", "a-_b"),
        ("1abc", "1abc"),
        ("a", "a"),
        ("..", ".."),
        ("ab-", "ab-"),
        ("a" * 65, "a" * 65),
        ("0193a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b", "0193a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b"),
        ("\u212aind", "\u212aind"),
        ("%E2%84%AAind", "\u212aind"),
        ("a+b", "a+b"),
        ("a%20b", "a b"),
        ("a%00b", "a\\x00b"),
        ("%25zz", "%zz"),
    ],
)
def test_what_cannot_be_an_alias_is_a_400(client: Conversation, segment: str, told: str) -> None:
    for kind in ("scope", "tree"):
        uri = f"scopes://{kind}/{segment}"
        assert read(client, uri) == bad(f"Invalid alias: {told}", uri)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("skip=-1", "skip=-1 (expected an integer from 0 to 2147483647)"),
        ("skip=2147483648", "skip=2147483648 (expected an integer from 0 to 2147483647)"),
        ("skip", "skip= (expected an integer from 0 to 2147483647)"),
        ("limit=0", "limit=0 (expected an integer from 1 to 1000)"),
        ("limit=x", "limit=x (expected an integer from 1 to 1000)"),
        ("max_nodes=1001", "max_nodes=1001 (expected an integer from 1 to 1000)"),
        ("dept=2", f"dept (unknown; {TREE_KNOWS})"),
        ("depth=1&depth=2", "depth (given twice)"),
        ("depth=1&%64epth=2", "depth (given twice)"),
        ("&".join(f"x{number}=1" for number in range(64)), f"x0 (unknown; {TREE_KNOWS})"),
    ],
)
@pytest.mark.parametrize("alias", ["project-alpha", "nobody", "1abc"])
def test_a_bad_parameter_is_a_400_for_every_alias(client: Conversation, alias: str, query: str, told: str) -> None:
    uri = f"scopes://tree/{alias}?{query}"

    assert read(client, uri) == bad(f"Invalid parameter: {told}", uri)


@pytest.mark.parametrize(("version", "code"), [(MODERN, -32602), (LEGACY, -32002)])
@pytest.mark.parametrize(
    "uri", ["scopes://scope/Un-Known", "scopes://tree/un-known?depth=2", "scopes://scope/un-known?"]
)
def test_an_alias_that_does_not_exist_is_a_404(client: Conversation, uri: str, version: str, code: int) -> None:
    assert read(client, uri, version, "*") == bad("Scope not found: un-known", uri, 404, code)


def test_a_prefix_is_no_alias(client: Conversation) -> None:
    assert read(client, "scopes://scope/project")["message"] == "Scope not found: project"


def test_an_alias_is_normalised(client: Conversation) -> None:
    for spelled in ("PROJECT-ALPHA", "%20project-alpha%0A", "project%2Dalpha", "project-alpha?"):
        assert json.loads(text_of(client, f"scopes://scope/{spelled}"))["alias"] == "project-alpha"


def test_a_part_of_a_tree_is_read_by_bytes(client: Conversation) -> None:
    uri = "scopes://tree/project-alpha?depth=2"
    parts = [text_of(client, f"{uri}&start={start}&length=50") for start in range(0, len(TREE.encode()), 50)]

    assert "".join(parts) == TREE


@LOCAL
@pytest.mark.parametrize(
    "content", [b"this is no database, however long it may be: " * 50, b"SQLite format 3\0" + b"\xff" * 200]
)
def test_a_store_that_cannot_be_read_is_a_500_and_stays_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / ".carrel/scopes.db"
    path.parent.mkdir()
    path.write_bytes(content)
    client = talk(provider_in(tmp_path, tools="write"))

    assert read(client, "scopes://scope/abc") == {
        "code": -32603,
        "message": "Internal error",
        "data": {"error": "Internal error", "status": 500, "uri": "scopes://scope/abc", "dev.carrel/error": "failed"},
    }
    called = client.ask("tools/call", {"name": "scopes.create", "arguments": {"title": "x"}})
    assert (called["isError"], json.loads(called["content"][0]["text"])) == (
        True,
        {"error": "Internal error", "code": "INTERNAL", "status": 500},
    )
    assert path.read_bytes() == content
    assert [entry["uri"] for entry in client.ask("resources/list")["resources"]] == ["scopes://cli-quick-ref"]


@LOCAL
def test_a_store_of_a_newer_version_is_a_500(store: ScopesStore, tmp_path: Path) -> None:
    store.close()
    with sqlite3.connect(store.path) as connection:
        connection.execute("PRAGMA user_version = 2")
    connection.close()

    assert read(talk(provider_in(tmp_path)), "scopes://scope/project-alpha")["message"] == "Internal error"


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("scope/unknown-alias", 404, "Scope not found: unknown-alias"),
        ("tree/unknown-alias?depth=2", 404, "Scope not found: unknown-alias"),
        ("scope/a1?depth=2", 400, f"Invalid URI: scopes://scope/a1?depth=2 (known: {EVERYWHERE})"),
        ("scope/a--b", 400, "Invalid alias: a--b"),
        ("tree/project-alpha?limit=0", 400, "Invalid parameter: limit=0 (expected an integer from 1 to 1000)"),
    ],
)
def test_over_plain_http_an_error_is_its_status_and_json(provider: Scopes, path: str, status: int, text: str) -> None:
    reply = get_http(application(provider), f"/scopes/{path}")

    assert (reply.status, reply.headers["content-type"], reply.json) == (status, "application/json", {"error": text})


@LOCAL
def test_over_plain_http_a_store_that_cannot_be_read_is_a_500(tmp_path: Path) -> None:
    path = tmp_path / ".carrel/scopes.db"
    path.parent.mkdir()
    path.write_bytes(b"this is no database" * 100)

    reply = get_http(application(provider_in(tmp_path)), "/scopes/scope/project-alpha")

    assert (reply.status, reply.json) == (500, {"error": "Internal error"})


# ETags and conditions


@pytest.mark.parametrize("condition", ["{}", '"{}"', 'W/"{}"', 'x, "y" ,W/"{}"', "*"])
@pytest.mark.parametrize("uri", ["scopes://scope/task-1", "scopes://tree/feature-x", "scopes://cli-quick-ref"])
def test_an_unchanged_resource_is_answered_with_nothing(client: Conversation, uri: str, condition: str) -> None:
    whole = read(client, uri)["contents"][0]
    meta = whole["_meta"]

    answer = read(client, uri, condition=condition.format(meta["dev.carrel/etag"]))

    assert answer == {
        "contents": [
            {
                "uri": uri,
                "mimeType": whole["mimeType"],
                "text": "",
                "_meta": {
                    "dev.carrel/status": 304,
                    "dev.carrel/etag": meta["dev.carrel/etag"],
                    "dev.carrel/last-modified": meta["dev.carrel/last-modified"],
                },
            }
        ],
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": META,
    }


def test_a_condition_that_does_not_hold_gives_everything(client: Conversation) -> None:
    assert read(client, "scopes://tree/project-alpha?depth=2", condition="x")["contents"][0]["text"] == TREE


def test_a_condition_that_is_no_string_is_a_400(client: Conversation) -> None:
    error = read(client, "scopes://scope/task-1", condition=5)

    assert (error["code"], error["message"]) == (-32602, "Invalid parameter: dev.carrel/if-none-match")
    assert (error["data"]["error"], error["data"]["status"]) == ("Invalid parameter: dev.carrel/if-none-match", 400)


def test_the_time_to_live_is_a_setting(store: ScopesStore, tmp_path: Path) -> None:
    client = talk(provider_in(tmp_path, ttl_ms=7))

    assert (read(client, "scopes://scope/task-1")["ttlMs"], read(client, "scopes://tree/task-1")["ttlMs"]) == (7, 7)
    assert "ttlMs" not in read(client, "scopes://scope/task-1", LEGACY)


# A store that comes, goes and is replaced


def test_a_store_that_is_not_there_is_empty_and_reading_makes_none(tmp_path: Path) -> None:
    provider = provider_in(tmp_path)
    client = talk(provider)

    assert read(client, "scopes://scope/abc")["message"] == "Scope not found: abc"
    assert client.ask("completion/complete", completing("scopes://scope/{alias}", "alias", ""))["completion"] == {
        "values": [],
        "total": 0,
        "hasMore": False,
    }
    assert json.loads(client.ask("tools/call", {"name": "scopes.roots"})["content"][0]["text"]) == {
        "roots": [],
        "total": 0,
        "nextSkip": None,
    }
    assert list(tmp_path.iterdir()) == []


@LOCAL
def test_a_store_that_appears_or_is_replaced_is_opened_anew(tmp_path: Path) -> None:
    client = talk(provider_in(tmp_path))
    assert read(client, "scopes://scope/one")["message"] == "Scope not found: one"
    first, second = store_in(tmp_path), Store(str(tmp_path / "other.db"))

    plant(first, (("one", "One", "TODO", None),))
    first.close()
    assert json.loads(text_of(client, "scopes://scope/one"))["title"] == "One"
    plant(second, (("two", "Two", "TODO", None),))
    second.close()
    Path(second.path).replace(first.path)
    for left in Path(first.path).parent.glob("scopes.db-*"):
        left.unlink()
    assert read(client, "scopes://scope/one")["message"] == "Scope not found: one"
    assert json.loads(text_of(client, "scopes://scope/two"))["title"] == "Two"
    Path(first.path).unlink()
    assert read(client, "scopes://scope/two")["message"] == "Scope not found: two"


# Completion


def completing(reference: str, name: str, value: str) -> dict[str, Any]:
    return {"ref": {"type": "ref/resource", "uri": reference}, "argument": {"name": name, "value": value}}


@pytest.mark.parametrize(
    "reference",
    [
        "scopes://scope/{alias}",
        "scopes://tree/{alias}{?depth,skip,limit,max_nodes}",
        "scopes://tree/{alias}?depth={n}",
        "scopes://tree/{alias}{?depth}",
        "scopes://scope/",
        "scopes://tree/x?depth=1",
    ],
)
def test_aliases_are_completed_by_name_for_every_form_of_reference(client: Conversation, reference: str) -> None:
    answer = client.ask("completion/complete", completing(reference, "alias", " FEAT"))

    assert answer["completion"] == {"values": ["feature-x", "feature-y"], "total": 2, "hasMore": False}


def test_at_most_a_hundred_aliases_are_offered(tmp_path: Path) -> None:
    plant(store_in(tmp_path), tuple((f"n{number:03}", f"{number}", "TODO", None) for number in range(101)))
    client = talk(provider_in(tmp_path))

    many = client.ask("completion/complete", completing("scopes://scope/{alias}", "alias", "n"))["completion"]
    few = client.ask("completion/complete", completing("scopes://scope/{alias}", "alias", "n0"))["completion"]

    assert many == {"values": [f"n{number:03}" for number in range(100)], "hasMore": True}
    assert few == {"values": [f"n{number:03}" for number in range(100)], "total": 100, "hasMore": False}


@pytest.mark.parametrize(("value", "offered"), [("", list("12345")), ("3", ["3"]), ("6", []), ("12", [])])
def test_depths_are_completed(client: Conversation, value: str, offered: list[str]) -> None:
    answer = client.ask("completion/complete", completing("scopes://tree/{alias}", "depth", value))

    assert answer["completion"]["values"] == offered


@pytest.mark.parametrize(
    ("reference", "name"),
    [("scopes://tree/{alias}", "skip"), ("scopes://tree/{alias}", "nope"), ("scopes://scope/{alias}", "depth")],
)
def test_other_arguments_are_refused(client: Conversation, reference: str, name: str) -> None:
    assert client.ask("completion/complete", completing(reference, name, ""))["code"] == -32602


# Changes


def test_a_change_by_another_connection_is_reported_for_what_it_changed_only(
    client: Conversation, store: ScopesStore
) -> None:
    uris = ["scopes://scope/feature-x", "scopes://scope/feature-y", "scopes://tree/project-alpha?depth=1"]
    client.listen({"resourceSubscriptions": uris})

    with store.writing() as connection:
        scope = queries.find(connection, "feature-x")
        assert scope is not None
        changes.update(connection, NOW + 50, scope, changes.Change(status="DONE"))

    told = {client.told()["params"]["uri"] for _ in range(2)}
    assert (told, client.is_silent()) == ({"scopes://scope/feature-x", "scopes://tree/project-alpha?depth=1"}, True)


def test_a_scope_that_vanishes_and_one_that_appears_are_reported(client: Conversation, store: ScopesStore) -> None:
    client.listen({"resourceSubscriptions": ["scopes://scope/task-3", "scopes://scope/newcomer"]})

    with store.writing() as connection:
        scope = queries.find(connection, "task-3")
        assert scope is not None
        changes.delete(connection, NOW, scope, cascade=False)
    assert client.told()["params"]["uri"] == "scopes://scope/task-3"
    plant(store, (("newcomer", "New", "TODO", None),))
    assert client.told()["params"]["uri"] == "scopes://scope/newcomer"


def test_a_new_root_changes_the_list(client: Conversation, store: ScopesStore) -> None:
    client.listen({"resourcesListChanged": True})

    plant(store, (("newcomer", "New", "TODO", None),))

    assert client.told()["method"] == "notifications/resources/list_changed"


def test_nothing_is_looked_up_while_nothing_was_written(provider: Scopes, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Catalog([provider]).fingerprint("scopes://tree/project-alpha?depth=5")
    monkeypatch.setattr("carrel.providers.scopes.tree.render", None)

    assert Catalog([provider]).fingerprint("scopes://tree/project-alpha?depth=5") == first


# On a desk


def desk_of(project: Path, toml: str = "") -> Desk:
    if toml:
        (project / "carrel.toml").write_text(toml, encoding="utf-8")
    return open_desk(load(str(project), {"HOME": str(project / "home")}))


@LOCAL
def test_scopes_nothing_calls_for_are_answered_and_join_the_list_with_their_store(tmp_path: Path) -> None:
    desk = desk_of(tmp_path)
    client = Conversation(desk.server)

    def listed() -> list[str]:
        return [entry.uri for entry in desk.catalog.entries("scopes")]

    assert (listed(), [tool.name for tool in desk.catalog.tools()]) == (
        [],
        ["search", "list_resources", "read_resource"],
    )
    assert read(client, "scopes://scope/un-known")["data"]["error"] == "Scope not found: un-known"
    assert read(client, "scopes://nope")["message"] == "Invalid URI: scopes://nope"
    assert read(client, "scopes://scope/" + "a" * 9_000)["data"]["status"] == 400
    assert text_of(client, "scopes://cli-quick-ref?start=0&length=5") == "# CLI"
    assert not (tmp_path / ".carrel").exists()
    planted(tmp_path).close()
    assert listed() == ["scopes://cli-quick-ref", "scopes://scope/project-alpha"]
    assert text_of(client, "scopes://tree/project-alpha?depth=2") == TREE
    assert "scopes.get" in [tool.name for tool in desk.catalog.tools()]
    desk.close()


def test_an_empty_section_calls_for_scopes(tmp_path: Path) -> None:
    desk = desk_of(tmp_path, "[scopes]\n")

    assert [entry.uri for entry in desk.catalog.entries("scopes")] == ["scopes://cli-quick-ref"]
    desk.close()


def test_tools_that_write_need_trust_in_a_project_file(tmp_path: Path) -> None:
    desk = desk_of(tmp_path, "[scopes]\ntools = 'write'\n")

    assert "scopes.create" not in [tool.name for tool in desk.catalog.tools()]
    assert desk.notes == (
        "[scopes] tools in carrel.toml is not in effect: it turns on tools that write; run `carrel trust` to allow it",
    )
    desk.close()


# Settings


@pytest.mark.parametrize(
    ("name", "value", "bounds"),
    [
        ("max_nodes_ceiling", 0, "1 to 100000"),
        ("max_nodes_ceiling", 100_001, "1 to 100000"),
        ("max_children_listed", -1, "0 to 1000000"),
        ("list_roots", -1, "0 to 1000000"),
        ("ttl_ms", -1, f"0 to {2**53 - 1}"),
    ],
)
def test_a_setting_out_of_bounds_is_said(tmp_path: Path, name: str, value: int, bounds: str) -> None:
    with pytest.raises(ConfigError) as raised:
        provider_in(tmp_path, **{name: value})

    assert str(raised.value) == f"[scopes] {name}: expected a whole number from {bounds}, got {value}"


def test_serving_the_quick_reference_needs_neither_sqlite_nor_the_command_line(tmp_path: Path) -> None:
    code = (
        "import sys; from carrel.core.provider import Project; from carrel.catalog.catalog import Catalog;"
        f"from carrel.providers.scopes import Scopes; p = Scopes(Project({str(tmp_path)!r}, {{}}));"
        "Catalog([p]).read('scopes://cli-quick-ref'); list(p.entries()); p.tools();"
        "print(sorted({'sqlite3', 'click', 'rich', 'carrel.cli'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout == "[]\n"


# The contract


class TestContract(ProviderContract):
    """Scopes obey what all providers obey."""

    @pytest.fixture(autouse=True)
    def _in_a_folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path
        self.is_planted = False

    def provider(self) -> Scopes:
        if not self.is_planted:
            store = planted(self.folder)
            plant(store, (("beta", "Beta ☀", "DONE", None),))
            store.close()
            self.is_planted = True
        return provider_in(self.folder, tools="write")

    def missing_uri(self) -> str | None:
        return "scopes://scope/nobody"

    def change(self, uri: str) -> None:
        if not uri.startswith("scopes://scope/"):
            raise NotImplementedError
        store = store_in(self.folder)
        with store.writing() as connection:
            scope = queries.find(connection, uri.rpartition("/")[2])
            assert scope is not None
            changes.update(connection, NOW, scope, changes.Change(description=f"after {scope.updated_at}"))
        store.close()

    def variables(self) -> Mapping[str, str | Mapping[str, str]]:
        return {"alias": "project-alpha", "depth": "2"}

    def validate(self, message: bytes, version: str, method: str) -> None:
        schemas.check(message, version, method)


def test_no_handle_of_a_thread_that_ended_is_kept(provider: Scopes) -> None:
    def handles() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    Catalog([provider]).read("scopes://scope/task-1")
    before = handles()
    for _ in range(20):
        thread = threading.Thread(target=Catalog([provider]).read, args=("scopes://scope/task-1",))
        thread.start()
        thread.join()

    assert handles() - before <= 6


# Folders


def shown_children(client: Conversation, uri: str, version: str = MODERN) -> list[tuple[str, str]]:
    found = client.ask("resources/directory/read", {"uri": uri}, version=version)["resources"]
    return [(one["uri"], one["mimeType"]) for one in found]


@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_the_children_of_a_scope_are_its_folder_in_their_order(client: Conversation, version: str) -> None:
    folder, task = "inode/directory", "application/json"

    assert shown_children(client, "scopes://", version) == [
        ("scopes://cli-quick-ref", "text/markdown"),
        ("scopes://scope", folder),
    ]
    assert shown_children(client, "scopes://scope", version) == [("scopes://scope/project-alpha", folder)]
    assert shown_children(client, "scopes://scope/project-alpha/", version) == [
        ("scopes://scope/feature-x", folder),
        ("scopes://scope/feature-y", folder),
    ]
    assert shown_children(client, "scopes://scope/feature-x", version) == [
        ("scopes://scope/task-1", task),
        ("scopes://scope/task-2", task),
    ]


@pytest.mark.parametrize("version", [MODERN, LEGACY])
@pytest.mark.parametrize(
    "uri",
    ["scopes://scope/task-1", "scopes://scope/none", "scopes://tree/project-alpha", "scopes://tree", "scopes://x/y/z"],
)
def test_a_scope_without_children_and_anything_else_is_no_folder(client: Conversation, version: str, uri: str) -> None:
    assert client.ask("resources/directory/read", {"uri": uri}, version=version)["code"] == -32602


def test_more_children_than_are_read_at_once_come_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "MAX_SIBLINGS", 3)
    store = store_in(tmp_path)
    plant(store, (("top", "Top", "TODO", None), *((f"t{n}", f"T{n}", "TODO", "top") for n in range(10))))
    provider = provider_in(tmp_path)
    client = talk(provider, page_size=4)

    found, cursor = [], dict[str, str]()
    while True:
        page = client.ask("resources/directory/read", {"uri": "scopes://scope/top", **cursor})
        found.append([one["name"] for one in page["resources"]])
        if "nextCursor" not in page:
            break
        cursor = {"cursor": page["nextCursor"]}

    assert found == [["t0", "t1", "t2", "t3"], ["t4", "t5", "t6", "t7"], ["t8", "t9"]]
    client.close()
    provider.close()
    store.close()


def test_a_project_without_scopes_has_the_folder_and_nothing_in_it(tmp_path: Path) -> None:
    client = talk(provider_in(tmp_path))

    assert shown_children(client, "scopes://scope") == []
    assert client.ask("resources/directory/read", {"uri": "scopes://scope/x"})["code"] == -32602
    client.close()
