"""The rules of scopes: values, statuses, moving, deleting, aliases, and what moves the time of change."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from carrel.core.isotime import iso_ms
from carrel.providers.scopes import changes, queries, values
from carrel.providers.scopes.alias_words import ADJECTIVES, NOUNS
from carrel.providers.scopes.changes import Change, Move
from carrel.providers.scopes.connection import ScopesConnection, ScopesStore
from carrel.providers.scopes.scope_errors import ScopeError
from carrel.providers.scopes.values import Scope
from tests.support.scopes_sample import NOW, check_invariants, get, plant, planted, told

pytestmark = pytest.mark.usefixtures("backend")

LATER = NOW + 1_000


@pytest.fixture(name="store")
def sample_store(tmp_path: Path) -> Iterator[ScopesStore]:
    store = planted(tmp_path)
    yield store
    check_invariants(store)
    store.close()


def change(store: ScopesStore, work: Callable[[ScopesConnection], Any]) -> Any:
    with store.writing() as connection:
        return work(connection)


def scope_of(connection: ScopesConnection, alias: str) -> Scope:
    found = queries.find(connection, alias)
    assert found is not None
    return found


def move(store: ScopesStore, alias: str, parent: str | None = "stay", **beside: str) -> Scope:
    def work(connection: ScopesConnection) -> Scope:
        leaves = parent != "stay"
        goal = scope_of(connection, parent) if leaves and parent is not None else None
        named = {name: scope_of(connection, one) for name, one in beside.items()}
        where = Move(leaves=leaves, parent=goal, before=named.get("before"), after=named.get("after"))
        return changes.move(connection, LATER, scope_of(connection, alias), where)

    moved: Scope = change(store, work)
    return moved


def update(store: ScopesStore, alias: str, **wanted: Any) -> Scope:
    done: Scope = change(store, lambda c: changes.update(c, LATER, scope_of(c, alias), Change(**wanted)))
    return done


def refusal(work: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(ScopeError) as raised:
        work()
    return raised.value.code, raised.value.text


# Values


@pytest.mark.parametrize("text", ["ab", "a1", "a-b_c", "a" * 64, " AB\t", "\n\v\f\rAb "])
def test_what_can_be_an_alias(text: str) -> None:
    assert values.check_alias(text) == text.strip().lower()


@pytest.mark.parametrize(
    "text", ["", "a", "1a", "-ab", "ab-", "ab_", "a--b", "a_-b", "a" * 65, "ä1", "a b", "ab\u00a0", "\u212aa"]
)
def test_what_cannot_be_an_alias(text: str) -> None:
    assert refusal(lambda: values.check_alias(text)) == (
        "INVALID_ALIAS",
        f"Invalid alias: {text}".replace("\u00a0", "\\xa0"),
    )


@pytest.mark.parametrize("title", ["x", "  x\u2003", "a\tb", "😀" * 200, "\u0301", "Straße"])
def test_titles_are_stripped_and_otherwise_kept(title: str) -> None:
    assert values.check_title(title) == title.strip()


@pytest.mark.parametrize(
    "title", ["", "  ", "x" * 201, "a\n", "\na", "a\0b", "\x1b[1m", "a\x7f", "a\x85b", "a\u2028b", "a\u2029", "\ud800"]
)
def test_titles_that_are_refused(title: str) -> None:
    assert refusal(lambda: values.check_title(title))[0] == "INVALID_TITLE"


def test_descriptions_are_mended_where_they_can_be() -> None:
    assert values.check_description(" a\r\nb\rc\td ") == "a\nb\nc\td"
    assert (values.check_description(" \n "), values.check_description(None)) == (None, None)
    assert values.check_description("😀" * 1_000) == "😀" * 1_000


@pytest.mark.parametrize("text", ["x" * 1_001, "a\0", "\x1b", "\ud800"])
def test_descriptions_that_are_refused(text: str) -> None:
    assert refusal(lambda: values.check_description(text))[0] == "INVALID_DESCRIPTION"


@pytest.mark.parametrize(
    ("text", "status"), [("in-progress", "IN_PROGRESS"), ("In_Progress", "IN_PROGRESS"), ("done", "DONE")]
)
def test_statuses_are_read_in_any_case(text: str, status: str) -> None:
    assert values.check_status(text) == status


@pytest.mark.parametrize("text", ["", "later", "todo ", "plann\u0131ng"])
def test_invalid_statuses(text: str) -> None:
    assert refusal(lambda: values.check_status(text))[0] == "INVALID_STATUS"


def test_made_up_aliases_are_two_words_and_three_characters() -> None:
    made = {values.invent_alias() for _ in range(300)}

    assert all(re.fullmatch(r"[a-z]+-[a-z]+-[a-z0-9]{3}", alias) and values.is_alias(alias) for alias in made)
    assert (len(made) > 295, len(set(ADJECTIVES)) >= 64, len(set(NOUNS)) >= 64) == (True, True, True)


def test_ids_are_of_version_7_and_hold_the_time() -> None:
    made = values.new_id(NOW)

    assert values.is_id(made)
    assert int(made.replace("-", "")[:12], 16) == NOW


def test_times_are_read_as_they_are_spelled() -> None:
    for ms in (0, 1, 999, NOW, 253_402_300_799_999):
        assert values.parse_time("x", iso_ms(ms)) == ms
    assert iso_ms(1_000) == "1970-01-01T00:00:01.000Z"


@pytest.mark.parametrize("text", ["", "2026-02-30T00:00:00Z", "2026-11-15 18:00:00Z", "2026-11-15T18:00:00+01:00", 5])
def test_invalid_times(text: object) -> None:
    assert refusal(lambda: values.parse_time("x", text))[0] == "INVALID_ARGUMENT"


# Creating


def test_a_new_scope_stands_after_its_last_sibling(store: ScopesStore) -> None:
    plant(store, (("feature-z", "A Feature", "TODO", "project-alpha"),))

    assert told(store, "project-alpha")["children"] == ["feature-x", "feature-y", "feature-z"]


def test_a_taken_name_is_refused(store: ScopesStore) -> None:
    assert refusal(lambda: plant(store, (("task-1", "Other", "TODO", None),))) == (
        "DUPLICATE_ALIAS",
        "Alias already exists: task-1",
    )
    assert refusal(lambda: plant(store, (("other", "Write tests", "TODO", "feature-x"),))) == (
        "DUPLICATE_TITLE",
        "Duplicate title: Write tests",
    )
    assert refusal(lambda: plant(store, (("other", "Project Alpha", "TODO", None),)))[0] == "DUPLICATE_TITLE"


def test_equal_titles_elsewhere_and_in_another_case_are_fine(store: ScopesStore) -> None:
    plant(store, (("one", "Write tests", "TODO", "feature-y"), ("two", "write tests", "TODO", "feature-x")))

    assert [get(store, alias).title for alias in ("one", "two")] == ["Write tests", "write tests"]


def test_a_made_up_alias_that_is_taken_is_made_up_again_twenty_times(
    store: ScopesStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = iter(["task-1"] * 19 + ["free-one-abc"])
    monkeypatch.setattr(changes, "invent_alias", lambda: next(tries))
    made = change(store, lambda c: changes.create(c, NOW, title="New"))
    assert made.alias == "free-one-abc"

    unlucky = iter(["task-1"] * 21)
    monkeypatch.setattr(changes, "invent_alias", lambda: next(unlucky))
    failed = refusal(lambda: change(store, lambda c: changes.create(c, NOW, title="Newer")))
    assert (failed[0], len(list(unlucky))) == ("ALIAS_GENERATION_FAILED", 1)


# Status


def test_any_status_may_become_any_other_but_archived(store: ScopesStore) -> None:
    for status in (*values.STATUSES, "DONE"):
        if get(store, "task-1").status == "ARCHIVED":
            assert refusal(lambda: update(store, "task-1", status="DONE")) == ("ARCHIVED", "Scope is archived: task-1")
            assert refusal(lambda: update(store, "task-1", status="TODO"))[0] == "ARCHIVED"
            assert update(store, "task-1", is_restored=True).status == "TODO"
        assert update(store, "task-1", status=status).status == status


def test_restore_comes_before_a_status(store: ScopesStore) -> None:
    update(store, "task-1", status="ARCHIVED")

    assert update(store, "task-1", status="DONE", is_restored=True).status == "DONE"


def test_what_changes_no_status_changes_nothing(store: ScopesStore) -> None:
    before = get(store, "task-1")
    assert update(store, "task-1", is_restored=True) == before
    assert update(store, "task-1", status="TODO") == before
    archived = update(store, "task-1", status="ARCHIVED")
    assert update(store, "task-1", status="ARCHIVED") == archived
    assert update(store, "task-1", status="ARCHIVED", is_restored=True) == archived


def test_a_stale_update_writes_nothing(store: ScopesStore) -> None:
    before = get(store, "task-1")

    assert refusal(lambda: update(store, "task-1", title="New", expected_updated_at=NOW + 7))[0] == "STALE"
    assert get(store, "task-1") == before
    assert update(store, "task-1", title="New", expected_updated_at=before.updated_at).title == "New"


# Moving


def test_a_scope_goes_last_beneath_its_new_parent(store: ScopesStore) -> None:
    move(store, "task-3", "feature-x")

    assert told(store, "feature-x")["children"] == ["task-1", "task-2", "task-3"]
    assert (told(store, "feature-y")["children"], told(store, "task-3")["parent"]) == ([], "feature-x")


@pytest.mark.parametrize(
    ("beside", "order"),
    [
        ({"before": "task-1"}, ["task-3", "task-1", "task-2"]),
        ({"after": "task-1"}, ["task-1", "task-3", "task-2"]),
        ({"before": "task-2"}, ["task-1", "task-3", "task-2"]),
        ({"after": "task-2"}, ["task-1", "task-2", "task-3"]),
    ],
)
def test_a_place_among_the_new_siblings_is_kept_and_they_are_numbered(
    store: ScopesStore, beside: dict[str, str], order: list[str]
) -> None:
    move(store, "task-3", "feature-x", **beside)

    assert told(store, "feature-x")["children"] == order
    assert [get(store, alias).position for alias in order] == [0, 1, 2]


def test_siblings_are_reordered_in_place(store: ScopesStore) -> None:
    move(store, "task-2", before="task-1")

    assert told(store, "feature-x")["children"] == ["task-2", "task-1"]
    move(store, "feature-y", before="feature-x")
    plant(store, (("beta", "Beta", "TODO", None),))
    move(store, "beta", before="project-alpha")
    with store.reading() as connection:
        assert connection is not None
        assert [one.alias for one in queries.children(connection, None)] == ["beta", "project-alpha"]


@pytest.mark.parametrize(
    ("alias", "goal"), [("feature-x", "feature-x"), ("feature-x", "task-1"), ("project-alpha", "task-3")]
)
def test_a_scope_does_not_go_beneath_itself(store: ScopesStore, alias: str, goal: str) -> None:
    expected = ("CYCLE", f"Cannot move a scope under itself or a descendant: {alias}")

    assert refusal(lambda: move(store, alias, goal)) == expected


def test_invalid_places(store: ScopesStore) -> None:
    assert refusal(lambda: move(store, "task-1", before="task-3"))[0] == "INVALID_ARGUMENT"
    assert refusal(lambda: move(store, "task-1", "feature-y", after="task-2"))[0] == "INVALID_ARGUMENT"
    assert refusal(lambda: move(store, "task-1", before="task-1"))[0] == "INVALID_ARGUMENT"
    plant(store, (("twin", "Implement API", "TODO", "feature-y"),))
    assert refusal(lambda: move(store, "twin", "feature-x")) == ("DUPLICATE_TITLE", "Duplicate title: Implement API")


# Deleting


def test_children_are_deleted_only_when_asked(store: ScopesStore) -> None:
    def delete(alias: str, *, cascade: bool) -> int:
        count: int = change(store, lambda c: changes.delete(c, LATER, scope_of(c, alias), cascade=cascade))
        return count

    assert refusal(lambda: delete("feature-x", cascade=False)) == ("HAS_CHILDREN", "Scope has 2 children: feature-x")
    assert delete("task-1", cascade=False) == 1
    assert delete("project-alpha", cascade=True) == 5
    with store.reading() as connection:
        assert connection is not None
        assert connection.execute("SELECT count(*) FROM aliases").fetchone() == (0,)


@pytest.mark.parametrize("backend", ["local", pytest.param("team", marks=pytest.mark.slow)], indirect=True)
def test_a_deep_chain_is_deleted_whole(store: ScopesStore) -> None:
    rows = [("d0x", "0", "TODO", None), *((f"d{n}x", str(n), "TODO", f"d{n - 1}x") for n in range(1, 1_200))]
    plant(store, tuple(rows))

    assert change(store, lambda c: changes.delete(c, LATER, scope_of(c, "d0x"), cascade=True)) == 1_200


# Aliases


def test_aliases_are_added_removed_renamed_and_made_canonical(store: ScopesStore) -> None:
    change(store, lambda c: changes.add_alias(c, LATER, scope_of(c, "task-1"), "api"))
    change(store, lambda c: changes.add_alias(c, LATER, scope_of(c, "task-1"), "api-2", is_canonical=True))
    assert told(store, "api")["aliases"] == ["api-2", "api", "task-1"]
    change(store, lambda c: changes.rename_alias(c, LATER, "api-2", "main-api"))
    change(store, lambda c: changes.rename_alias(c, LATER, "api", "old-api"))
    change(store, lambda c: changes.remove_alias(c, LATER, scope_of(c, "main-api"), "task-1"))
    assert told(store, "old-api")["aliases"] == ["main-api", "old-api"]
    plant(store, (("task-1", "Free again", "TODO", None),))
    change(store, lambda c: changes.set_canonical(c, LATER, scope_of(c, "main-api"), "old-api"))
    assert told(store, "old-api")["alias"] == "old-api"


@pytest.mark.parametrize(
    ("work", "code"),
    [
        (lambda c: changes.add_alias(c, LATER, scope_of(c, "task-1"), "task-2"), "DUPLICATE_ALIAS"),
        (lambda c: changes.add_alias(c, LATER, scope_of(c, "task-1"), "task-1"), "DUPLICATE_ALIAS"),
        (lambda c: changes.remove_alias(c, LATER, scope_of(c, "task-1"), "task-1"), "CANNOT_REMOVE_CANONICAL"),
        (lambda c: changes.remove_alias(c, LATER, scope_of(c, "task-1"), "task-2"), "ALIAS_OF_DIFFERENT_SCOPE"),
        (lambda c: changes.remove_alias(c, LATER, scope_of(c, "task-1"), "nobody"), "ALIAS_NOT_FOUND"),
        (lambda c: changes.set_canonical(c, LATER, scope_of(c, "task-1"), "task-2"), "ALIAS_OF_DIFFERENT_SCOPE"),
        (lambda c: changes.set_canonical(c, LATER, scope_of(c, "task-1"), "nobody"), "ALIAS_NOT_FOUND"),
        (lambda c: changes.rename_alias(c, LATER, "nobody", "other"), "ALIAS_NOT_FOUND"),
        (lambda c: changes.rename_alias(c, LATER, "task-1", "task-2"), "DUPLICATE_ALIAS"),
    ],
)
def test_names_that_cannot_be_had(store: ScopesStore, work: Callable[[ScopesConnection], object], code: str) -> None:
    assert refusal(lambda: change(store, work))[0] == code


# What moves the time of change

TIMES: dict[str, tuple[Callable[[ScopesConnection], object], set[str]]] = {
    "a title": (lambda c: changes.update(c, LATER, scope_of(c, "task-1"), Change(title="New")), {"task-1"}),
    "the same title": (lambda c: changes.update(c, LATER, scope_of(c, "task-1"), Change(title="Implement API")), set()),
    "a description cleared that was none": (
        lambda c: changes.update(c, LATER, scope_of(c, "task-1"), Change(description="")),
        set(),
    ),
    "a status": (lambda c: changes.update(c, LATER, scope_of(c, "task-1"), Change(status="DONE")), {"task-1"}),
    "a child created": (
        lambda c: changes.create(c, LATER, title="New", alias="new-one", parent=scope_of(c, "task-1")),
        {"task-1"},
    ),
    "a child deleted": (
        lambda c: changes.delete(c, LATER, scope_of(c, "feature-y"), cascade=True),
        {"project-alpha"},
    ),
    "a move": (
        lambda c: changes.move(c, LATER, scope_of(c, "task-3"), Move(parent=scope_of(c, "feature-x"))),
        {"task-3", "feature-x", "feature-y"},
    ),
    "a move to where it is": (
        lambda c: changes.move(c, LATER, scope_of(c, "task-3"), Move(parent=scope_of(c, "feature-y"))),
        set(),
    ),
    "a reorder": (
        lambda c: changes.move(c, LATER, scope_of(c, "task-2"), Move(leaves=False, before=scope_of(c, "task-1"))),
        {"feature-x"},
    ),
    "a reorder to where it is": (
        lambda c: changes.move(c, LATER, scope_of(c, "task-2"), Move(leaves=False, after=scope_of(c, "task-1"))),
        set(),
    ),
    "an alias": (lambda c: changes.add_alias(c, LATER, scope_of(c, "feature-x"), "fx"), {"feature-x"}),
    "a canonical alias": (
        lambda c: changes.add_alias(c, LATER, scope_of(c, "feature-x"), "fx", is_canonical=True),
        {"feature-x", "project-alpha", "task-1", "task-2"},
    ),
    "a canonical alias renamed": (
        lambda c: changes.rename_alias(c, LATER, "feature-x", "fx"),
        {"feature-x", "project-alpha", "task-1", "task-2"},
    ),
    "an alias renamed to itself": (lambda c: changes.rename_alias(c, LATER, "feature-x", "feature-x"), set()),
    "what is canonical made canonical": (
        lambda c: changes.set_canonical(c, LATER, scope_of(c, "feature-x"), "feature-x"),
        set(),
    ),
}


@pytest.mark.parametrize(("work", "moved"), TIMES.values(), ids=TIMES.keys())
def test_whatever_changes_what_is_shown_moves_the_time_and_nothing_else_does(
    store: ScopesStore, work: Callable[[ScopesConnection], object], moved: set[str]
) -> None:
    before = {alias: get(store, alias) for alias in ALIASES}
    shown = {alias: without_time(told(store, alias)) for alias in ALIASES}

    change(store, work)

    with store.reading() as connection:
        assert connection is not None
        after = {alias: queries.by_id(connection, scope.id) for alias, scope in before.items()}
        now_shown = {
            alias: without_time(queries.describe(connection, scope, 99))
            for alias, scope in after.items()
            if scope is not None
        }
    changed = {alias for alias, scope in after.items() if scope and scope.updated_at != before[alias].updated_at}
    assert changed == moved
    assert {alias for alias, one in now_shown.items() if one != shown[alias]} == moved
    assert all(scope.updated_at == LATER for alias, scope in after.items() if scope and alias in moved)


ALIASES = ("project-alpha", "feature-x", "feature-y", "task-1", "task-2", "task-3")


def without_time(shown: dict[str, Any]) -> dict[str, Any]:
    return {**shown, "updatedAt": None}


def test_a_clock_that_goes_back_does_not_take_the_time_with_it(store: ScopesStore) -> None:
    before = get(store, "task-1").updated_at

    change(store, lambda c: changes.update(c, 5, scope_of(c, "task-1"), Change(title="New")))

    assert get(store, "task-1").updated_at == before + 1


def test_positions_at_their_end_are_numbered_again(store: ScopesStore) -> None:
    with store.writing() as connection:
        connection.execute("UPDATE scopes SET position = ? WHERE alias = 'task-2'", (values.MAX_POSITION,))
    plant(store, (("task-4", "Next", "TODO", "feature-x"),))

    assert [get(store, alias).position for alias in ("task-1", "task-2", "task-4")] == [0, 1, 2]
