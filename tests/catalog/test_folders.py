"""Directory reads over all providers: pages, permissions, several owners of one scheme, both eras."""

from collections.abc import Iterator, Sequence

import pytest

from carrel.catalog.access import Access, ActingAs
from carrel.catalog.catalog import Catalog
from carrel.catalog.pages import seal
from carrel.core.errors import BadCursor, Denied, UnknownScheme
from carrel.core.hierarchy import NotAFolder
from carrel.core.model import FOLDER_TYPE, Resource, Skill, SkillFile
from carrel.core.provider import Provider, Route
from carrel.server.server import Server
from tests.support.memory_provider import Counted, Memory, Shelf
from tests.support.schemas import LEGACY, MODERN, SERVER_INFO, Conversation

HINTS = {"ttlMs": 1_000, "cacheScope": "private", "resultType": "complete", "_meta": SERVER_INFO}
TEXTS = {"a/one": "1", "a/two": "2", "a/b/three": "3", "c": "4"}


class SecondOwner(Shelf):
    """Serves the scheme of another one too."""

    def __init__(self, texts: dict[str, str]) -> None:
        super().__init__("x", texts)
        self.name = "second"

    def routes(self) -> Sequence[Route]:
        return ()


class Skilled(Provider):
    """Has skills, and nothing else."""

    def __init__(self, name: str, *names: str) -> None:
        self.name = name
        self.schemes = (name,)
        self._uris = [f"{name}://{one}/SKILL.md" for one in names]

    def routes(self) -> Sequence[Route]:
        return ()

    def skills(self) -> Sequence[Skill]:
        """Return a skill for each name."""
        files = {uri: (SkillFile(uri, f"sha256:{'0' * 64}", 3),) for uri in self._uris}
        return [Skill(uri, {"name": uri.split("/")[2], "description": "d"}, files[uri]) for uri in self._uris]


def pages(catalog: Catalog, uri: str, limit: int) -> Iterator[list[str]]:
    cursor = None
    while True:
        page = catalog.read_folder(uri, cursor, limit)
        yield [entry.uri for entry in page.entries]
        cursor = page.next_cursor
        if cursor is None:
            return


@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_a_folder_is_answered_as_a_list_is_in_both_eras(version: str) -> None:
    client = Conversation(Server(Catalog([Shelf("x", TEXTS)])))

    answer = client.ask("resources/directory/read", {"uri": "x:///a"}, version=version)

    assert answer == {
        "resources": [
            {"uri": "x:///a/b", "name": "b", "mimeType": FOLDER_TYPE},
            {"uri": "x:///a/one", "name": "x:///a/one"},
            {"uri": "x:///a/two", "name": "x:///a/two"},
        ],
        **(HINTS if version == MODERN else {}),
    }


@pytest.mark.parametrize("version", [MODERN, LEGACY])
@pytest.mark.parametrize("uri", ["x:///c", "x:///none", "x:///a/one", "x:///a?b", "y://", "no uri"])
def test_what_is_no_folder_is_invalid_in_both_eras(version: str, uri: str) -> None:
    client = Conversation(Server(Catalog([Shelf("x", TEXTS)])))

    error = client.ask("resources/directory/read", {"uri": uri}, version=version)

    assert (error["code"], error["data"]["uri"]) == (-32602, uri)


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_pages_joined_are_the_whole_folder(limit: int) -> None:
    catalog = Catalog([Shelf("x", TEXTS)])

    found = list(pages(catalog, "x:///a", limit))

    assert [len(page) for page in found[:-1]] == [limit] * (len(found) - 1)
    assert [uri for page in found for uri in page] == ["x:///a/b", "x:///a/one", "x:///a/two"]


def test_children_that_come_and_go_between_pages_are_neither_repeated_nor_skipped() -> None:
    shelf = Shelf("x", TEXTS)
    catalog = Catalog([shelf])
    first = catalog.read_folder("x:///a", limit=2)
    shelf.remove("a/one")
    shelf.put("a/a")
    shelf.put("a/zed")

    rest = catalog.read_folder("x:///a", first.next_cursor)

    assert [entry.uri for entry in rest.entries] == ["x:///a/two", "x:///a/zed"]


def test_a_page_that_does_not_fit_a_message_ends_earlier() -> None:
    catalog = Catalog([Shelf("x", {f"a/{number:04}": "" for number in range(100)})], max_bytes=2_000)
    client = Conversation(Server(catalog))

    first = client.ask("resources/directory/read", {"uri": "x:///a"})
    cursor = {"cursor": first["nextCursor"]}
    second = client.ask("resources/directory/read", {"uri": "x:///a", **cursor})

    assert 0 < len(first["resources"]) < 100
    assert second["resources"][0]["uri"] == f"x:///a/{len(first['resources']):04}"


@pytest.mark.parametrize("cursor", ["x", seal("d", "x:///b", "x", ""), seal("d", "x:///a", "gone", ""), seal("m", "x")])
def test_a_cursor_of_another_folder_is_refused(cursor: str) -> None:
    with pytest.raises(BadCursor):
        Catalog([Shelf("x", TEXTS)]).read_folder("x:///a", cursor)


def test_two_providers_of_one_scheme_share_its_folders() -> None:
    catalog = Catalog([Shelf("x", TEXTS), SecondOwner({"a/b/four": "", "a/mine": "", "d/five": ""})])

    assert next(pages(catalog, "x:///a", 9)) == ["x:///a/b", "x:///a/one", "x:///a/two", "x:///a/mine"]
    assert list(pages(catalog, "x:///a", 2)) == [["x:///a/b", "x:///a/one"], ["x:///a/two", "x:///a/mine"]]
    assert next(pages(catalog, "x:///d", 9)) == ["x:///d/five"]


def test_a_caller_without_the_right_learns_nothing() -> None:
    catalog = Catalog([Shelf("x", TEXTS), Shelf("y", TEXTS), Skilled("s", "a")])

    with ActingAs(Access("reader", frozenset({"y:read"}))):
        assert next(entry.uri for entry in catalog.read_folder("y:///a").entries) == "y:///a/b"
        assert catalog.skills().skills == ()
        for uri in ("x:///a", "x:///none"):
            with pytest.raises(Denied, match="needs the scope x:read"):
                catalog.read_folder(uri)
        with pytest.raises(Denied, match="needs the scope s:read"):
            catalog.skill("s://a/SKILL.md")


def test_a_scheme_without_a_provider_has_no_folders() -> None:
    with pytest.raises(UnknownScheme):
        Catalog([Shelf("x")]).read_folder("y:///a")
    with pytest.raises(NotAFolder):
        Catalog([Counted("x")]).read_folder("x:///a")


def test_a_listed_entry_is_a_child_as_it_is_listed() -> None:
    catalog = Catalog([Memory()])
    listed = {entry.uri: entry for entry in catalog.entries()}

    children = catalog.read_folder("test:///").entries

    assert [one.uri for one in children] == ["test:///a-guide", "test:///note", "test:///pixel", "test:///plain"]
    assert [_same(one, listed[one.uri]) for one in children if one.uri != "test:///note"] == [True] * 3


def _same(child: Resource, entry: Resource) -> bool:
    return (child.name, child.title, child.size, child.meta) == (entry.name, entry.title, entry.size, entry.meta)


def test_skills_are_listed_in_pages_and_found_by_uri() -> None:
    catalog = Catalog([Skilled("s", "b", "a"), Shelf("x"), Skilled("t", "c")])

    first = catalog.skills().first(2)
    rest = catalog.skills(first.next_cursor)

    assert [one.uri for one in first.skills] == ["s://a/SKILL.md", "s://b/SKILL.md"]
    assert [one.uri for one in rest.skills] == ["t://c/SKILL.md"]
    assert rest.next_cursor is None
    assert catalog.skill("s://b/SKILL.md") == first.skills[1]
    for cursor in ("x", seal("k", "gone", ""), seal("d", "x", "", "")):
        with pytest.raises(BadCursor):
            catalog.skills(cursor)


@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_without_skills_the_list_is_empty_and_none_is_found(version: str) -> None:
    client = Conversation(Server(Catalog([Shelf("x", TEXTS)])))

    assert client.ask("skills/list", {}, version=version)["skills"] == []
    for uri in ("x:///c", "skill://none/SKILL.md"):
        error = client.ask("skills/get", {"uri": uri}, version=version)
        assert (error["code"], error["message"]) == (-32602, f"No skill is served at {uri}")


@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_a_skill_is_spelled_as_the_extension_has_it(version: str) -> None:
    client = Conversation(Server(Catalog([Skilled("s", "a")])))
    skill = {
        "uri": "s://a/SKILL.md",
        "frontmatter": {"name": "a", "description": "d"},
        "resources": [{"uri": "s://a/SKILL.md", "digest": f"sha256:{'0' * 64}", "size": 3}],
    }
    modern = HINTS if version == MODERN else {}

    assert client.ask("skills/list", {}, version=version) == {"skills": [skill], **modern}
    assert client.ask("skills/get", {"uri": "s://a/SKILL.md"}, version=version) == {"skill": skill, **modern}
