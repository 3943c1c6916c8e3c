"""Whatever is done to scopes, in whatever order: no cycle, no alias twice, the tree as a simple renderer has it."""

import contextlib
import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from carrel.catalog.catalog import Catalog
from carrel.core.arguments import parse_integer
from carrel.core.errors import BadArgument, NotFound, RequestError
from carrel.core.model import Reading
from carrel.providers.scopes import changes, importer, json_lines, queries, tree, values
from carrel.providers.scopes.changes import Change, Move
from carrel.providers.scopes.connection import ScopesConnection
from carrel.providers.scopes.scope_errors import ScopeError
from carrel.providers.scopes.store import Store, empty_store
from carrel.providers.scopes.uris import TreeQuery, parameters
from carrel.providers.scopes.values import Scope
from tests.support.scopes_sample import check_invariants, provider_in

NAMES = st.sampled_from([f"n{number}" for number in range(12)])
TITLES = st.sampled_from(["A", "B", "C", "a", "Zwei Wörter"])
STATUSES = st.sampled_from(values.STATUSES)


class Plain:
    """Scopes as plain Python values: slow, obvious, and never wrong."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.order: dict[str | None, list[str]] = {None: []}
        self.names: dict[str, str] = {}

    def subtree(self, key: str) -> list[str]:
        return [key, *(below for child in self.order[key] for below in self.subtree(child))]


def render(plain: Plain, key: str, wanted: TreeQuery) -> str:
    """Write a tree down as the page describes it, by recursion and without any bound on what is built."""
    lines: list[str] = []
    owners: list[str] = []

    def line(one: str) -> str:
        row = plain.rows[one]
        return f"{row['alias']} ({row['title']}) [{row['status']}]"

    def walk(children: list[str], prefix: str, depth: int, owner: str | None) -> None:
        for place, child in enumerate(children):
            is_last = place == len(children) - 1
            lines.append(f"{prefix}{'└── ' if is_last else '├── '}{line(child)}")
            owners.append(owner or child)
            if depth > 1:
                walk(plain.order[child], prefix + ("    " if is_last else "│   "), depth - 1, owner or child)

    skip = wanted.skip or 0
    every = plain.order[key]
    window = every[skip:] if wanted.limit is None else every[skip : skip + wanted.limit]
    walk(window, "", wanted.levels or 1, None)
    bound = wanted.max_nodes or 1_000
    shown = [line(key), *lines][:bound]
    if len(lines) + 1 > bound:
        shown[-1] += " (truncated)"
    count = len(dict.fromkeys(owners[: bound - 1]))
    remaining = len(every) - skip - count
    if (wanted.skip is not None or wanted.limit is not None) and count and remaining > 0:
        given = {"depth": wanted.levels, "skip": skip + count, "limit": wanted.limit, "max_nodes": wanted.max_nodes}
        query = "&".join(f"{name}={value}" for name, value in given.items() if value is not None)
        shown.append(f"... {remaining} more: scopes://tree/{plain.rows[key]['alias']}?{query}")
    return "\n".join(shown)


class Scopes(RuleBasedStateMachine):
    """The store beside the plain model: both do the same, and refuse the same."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="carrel-test-")
        self.store = Store(str(Path(self.folder.name) / "scopes.db"))
        self.plain = Plain()
        self.now = 1_000
        self.times: dict[str, tuple[int, object]] = {}

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()

    def attempt(self, work: Any) -> Any:
        """Do it in a transaction; return the code of the error if it is refused."""
        self.now += 1
        try:
            with self.store.writing() as connection:
                return work(connection)
        except ScopeError as error:
            return error.code

    def find(self, connection: ScopesConnection, name: str) -> Scope:
        scope = queries.find(connection, name)
        assert scope is not None
        return scope

    @rule(name=NAMES, title=TITLES, parent=st.none() | NAMES, status=STATUSES)
    def create(self, name: str, title: str, parent: str | None, status: str) -> None:
        above = None if parent is None else self.plain.names.get(parent)
        if parent is not None and above is None:
            return

        def work(connection: ScopesConnection) -> Scope:
            goal = None if parent is None else self.find(connection, parent)
            return changes.create(connection, self.now, title=title, alias=name, parent=goal, status=status)

        made = self.attempt(work)
        if title in self.titles(above) or name in self.plain.names:
            assert made in ("DUPLICATE_TITLE", "DUPLICATE_ALIAS")
            return
        assert isinstance(made, Scope)
        self.plain.rows[made.id] = {"alias": name, "title": title, "status": status, "parent": above}
        self.plain.order[made.id] = []
        self.plain.order[above].append(made.id)
        self.plain.names[name] = made.id

    def titles(self, parent: str | None) -> set[str]:
        return {self.plain.rows[one]["title"] for one in self.plain.order[parent]}

    @precondition(lambda self: self.plain.names)
    @rule(data=st.data(), title=st.none() | TITLES, status=st.none() | STATUSES, restore=st.booleans())
    def update(self, data: st.DataObject, title: str | None, status: str | None, *, restore: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.plain.names)))
        row = self.plain.rows[self.plain.names[name]]
        change = Change(title=title, status=status, is_restored=restore)
        done = self.attempt(lambda c: changes.update(c, self.now, self.find(c, name), change))
        begun = "TODO" if restore and row["status"] == "ARCHIVED" else row["status"]
        if begun == "ARCHIVED" and status not in (None, "ARCHIVED"):
            assert done == "ARCHIVED"
        elif title is not None and title != row["title"] and title in self.titles(row["parent"]):
            assert done == "DUPLICATE_TITLE"
        else:
            assert isinstance(done, Scope)
            row["title"], row["status"] = title or row["title"], status or begun

    @precondition(lambda self: self.plain.names)
    @rule(data=st.data(), place=st.sampled_from(["last", "before", "after"]))
    def move(self, data: st.DataObject, place: str) -> None:
        names = st.sampled_from(sorted(self.plain.names))
        name, goal = data.draw(names), data.draw(st.none() | names)
        key, above = self.plain.names[name], None if goal is None else self.plain.names[goal]
        siblings = [one for one in self.plain.order[above] if one != key]
        beside = data.draw(st.sampled_from(siblings)) if siblings and place != "last" else None

        def work(connection: ScopesConnection) -> Scope:
            sibling = None if beside is None else queries.by_id(connection, beside)
            where = Move(
                parent=None if goal is None else self.find(connection, goal),
                before=sibling if place == "before" else None,
                after=sibling if place == "after" else None,
            )
            return changes.move(connection, self.now, self.find(connection, name), where)

        done = self.attempt(work)
        row = self.plain.rows[key]
        if above is not None and above in self.plain.subtree(key):
            assert done == "CYCLE"
        elif above != row["parent"] and row["title"] in self.titles(above):
            assert done == "DUPLICATE_TITLE"
        else:
            assert isinstance(done, Scope)
            if beside is None and above == row["parent"]:
                return
            self.plain.order[row["parent"]].remove(key)
            end = len(self.plain.order[above])
            at = end if beside is None else self.plain.order[above].index(beside) + (place == "after")
            self.plain.order[above].insert(at, key)
            row["parent"] = above

    @precondition(lambda self: self.plain.names)
    @rule(data=st.data(), cascade=st.booleans())
    def delete(self, data: st.DataObject, *, cascade: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.plain.names)))
        key = self.plain.names[name]
        gone = self.plain.subtree(key)
        done = self.attempt(lambda c: changes.delete(c, self.now, self.find(c, name), cascade=cascade))
        if len(gone) > 1 and not cascade:
            assert done == "HAS_CHILDREN"
            return
        assert done == len(gone)
        self.plain.order[self.plain.rows[key]["parent"]].remove(key)
        for one in gone:
            del self.plain.rows[one], self.plain.order[one]
            self.times.pop(one, None)
        self.plain.names = {alias: owner for alias, owner in self.plain.names.items() if owner not in gone}

    @precondition(lambda self: self.plain.names)
    @rule(data=st.data(), other=NAMES, way=st.sampled_from(["add", "canonical", "rename", "remove", "set"]))
    def alias(self, data: st.DataObject, other: str, way: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.plain.names)))
        key = self.plain.names[name]
        row = self.plain.rows[key]
        ways: dict[str, Any] = {
            "add": lambda c: changes.add_alias(c, self.now, self.find(c, name), other),
            "canonical": lambda c: changes.add_alias(c, self.now, self.find(c, name), other, is_canonical=True),
            "rename": lambda c: changes.rename_alias(c, self.now, name, other),
            "remove": lambda c: changes.remove_alias(c, self.now, self.find(c, name), other),
            "set": lambda c: changes.set_canonical(c, self.now, self.find(c, name), other),
        }
        done = self.attempt(ways[way])
        owner = self.plain.names.get(other)
        if way in ("add", "canonical", "rename"):
            if owner is not None and not (way == "rename" and other == name):
                assert done == "DUPLICATE_ALIAS"
                return
            self.plain.names[other] = key
            if way == "rename" and other != name:
                del self.plain.names[name]
            if way == "canonical" or (way == "rename" and row["alias"] == name):
                row["alias"] = other
        elif owner != key:
            assert done == ("ALIAS_NOT_FOUND" if owner is None else "ALIAS_OF_DIFFERENT_SCOPE")
        elif way == "set":
            row["alias"] = other
        elif other == row["alias"]:
            assert done == "CANNOT_REMOVE_CANONICAL"
        else:
            del self.plain.names[other]

    @precondition(lambda self: self.plain.names)
    @rule(
        data=st.data(),
        depth=st.none() | st.integers(1, 5),
        skip=st.none() | st.integers(0, 4),
        limit=st.none() | st.integers(1, 4),
        most=st.none() | st.integers(1, 9),
    )
    def look(
        self, data: st.DataObject, depth: int | None, skip: int | None, limit: int | None, most: int | None
    ) -> None:
        name = data.draw(st.sampled_from(sorted(self.plain.names)))
        wanted = TreeQuery(depth=depth, skip=skip, limit=limit, max_nodes=most)
        with self.store.reading() as connection:
            assert connection is not None
            shown = tree.render(connection, self.find(connection, name), wanted, 1_000)

        assert shown.text == render(self.plain, self.plain.names[name], wanted)
        assert (shown.nodes, shown.is_truncated) == (
            len([line for line in shown.text.split("\n") if not line.startswith("... ")]),
            "(truncated)" in shown.text,
        )

    @precondition(lambda self: self.plain.names)
    @rule()
    def go_out_and_in(self) -> None:
        with self.store.reading() as connection, empty_store() as other:
            assert connection is not None
            lines = list(json_lines.export(connection, None))
            other.execute("BEGIN")
            importer.import_records(other, self.now, json_lines.parse(lines), "fail")
            assert list(json_lines.export(other, None)) == lines

    @invariant()
    def the_store_agrees_with_the_model(self) -> None:
        if self.store.identity() is None:
            return
        check_invariants(self.store)
        with self.store.reading() as connection:
            assert connection is not None
            assert dict(connection.execute("SELECT name, scope_id FROM aliases")) == self.plain.names
            for parent, order in self.plain.order.items():
                assert queries.child_ids(connection, parent) == order
            for key in self.plain.rows:
                scope = queries.by_id(connection, key)
                assert scope is not None
                shown = {**queries.describe(connection, scope, 99), "updatedAt": None}
                before = self.times.get(key)
                # What a resource shows and its time of change move together, or not at all.
                assert before is None or (before[1] != shown) == (before[0] != scope.updated_at)
                assert before is None or before[0] <= scope.updated_at
                self.times[key] = scope.updated_at, shown


TestScopes = Scopes.TestCase
TestScopes.settings = settings(stateful_step_count=25)


@given(st.text())
def test_no_text_makes_the_readers_of_values_raise_anything_else(text: str) -> None:
    for check in (values.check_alias, values.check_title, values.check_description, values.check_status):
        with contextlib.suppress(ScopeError):
            kept = check(text)
            assert kept is None or check(kept) == kept
    assert json.loads(values.to_json(text)) == text


@given(st.integers())
def test_integers_are_read_as_they_are_or_as_something_as_large(number: int) -> None:
    read = parse_integer(str(number))

    assert read is not None
    assert read == number or (abs(number) >= 10**18 and abs(read) == 10**18 - 1 and (read > 0) == (number > 0))
    assert parameters(9).check_query([("depth", str(number))]).levels == min(max(number, 1), 5)


PIECES = st.sampled_from(
    [
        *"scope tree cli-quick-ref / // ? & = # % %00 %2F %ff %c3%a4 depth skip limit max_nodes start length".split(),
        *"1 -1 99999999999999999999 ab A-B -- : @ é \u212a +".split(),
        " ",
    ]
)


def _read(catalog: Catalog, uri: str) -> Reading:
    """Read; a refusal that is neither in our words nor about a byte range fails the test."""
    try:
        return catalog.read(uri)
    except RequestError as error:
        is_ours = error.data.get("error") == error.message and error.data.get("status") in (400, 404)
        if not is_ours and error.data.get("parameter") not in ("start", "length"):
            raise AssertionError(f"{uri!r}: {error.message}") from error
        raise


@given(st.lists(PIECES, max_size=12).map("".join) | st.text(max_size=40))
def test_whatever_follows_the_scheme_is_answered_or_refused_in_our_words(text: str) -> None:
    with tempfile.TemporaryDirectory(prefix="carrel-test-") as folder:
        catalog = Catalog([provider_in(Path(folder))])
        uri = f"scopes://{text}"
        with contextlib.suppress(NotFound, BadArgument):
            assert _read(catalog, uri).mime_type == "text/markdown"
        assert list(Path(folder).iterdir()) == []
