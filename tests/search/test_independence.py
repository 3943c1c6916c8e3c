"""An answer depends on nothing but the documents that the caller may read now: not on others, nor on removed ones."""

from collections.abc import Iterator

import pytest

from carrel.search.finding import MAX_MARKED, RANKED, Candidate
from carrel.search.index import MEMORY, Index, SourceText
from carrel.search.query import parse
from carrel.search.reach import Reach
from carrel.search.vocabulary import MAX_WORDS

MINE = Reach(frozenset({"mine", "also"}))


class Texts:
    """An index in memory."""

    def __init__(self) -> None:
        self.index = Index(MEMORY)

    def put(self, uri: str, *texts: str, path: str = "") -> None:
        """Index a document; with several texts, again for each."""
        scheme, _, rest = uri.partition("://")
        self.index.put([SourceText(uri, "1", scheme, path or rest, text, modified_ms=1) for text in texts])

    def found(self, query: str, limit: int = 10) -> tuple[tuple[Candidate, ...], int]:
        """Return the answer to a caller who may read `mine` and `also`."""
        answer = self.index.find(parse(query), reach=MINE, limit=limit)
        return answer.found, answer.total


@pytest.fixture
def alone() -> Iterator[Texts]:
    """Return an index for what the caller may read, and nothing else."""
    texts = Texts()
    yield texts
    texts.index.close()


@pytest.fixture
def shared() -> Iterator[Texts]:
    """Return an index for the same and more."""
    texts = Texts()
    yield texts
    texts.index.close()


@pytest.mark.parametrize("removed", ["mine://a", "other://a"])
def test_an_unfinished_word_becomes_the_same_words_after_many_changes(
    alone: Texts, shared: Texts, removed: str
) -> None:
    shared.put(removed, *["tomato tomatillo tomb"] * 150)
    shared.index.remove([removed])
    for texts in (alone, shared):
        texts.put("mine://a", "tomato tomatillo")
        texts.put("mine://b", "tomato")

    words = alone.index.complete("toma", MINE)
    assert (words[0], "tomatillo" in words) == ("tomato", True)
    assert shared.index.complete("toma", MINE) == words


def test_an_unfinished_word_becomes_the_same_words_beside_many_of_others(alone: Texts, shared: Texts) -> None:
    shared.put("other://a", " ".join(f"toma{number:03}" for number in range(MAX_WORDS + 10)))
    for texts in (alone, shared):
        texts.put("mine://a", "tomatillo tomatoes")

    words = alone.index.complete("toma", MINE)
    assert {"tomatillo", "tomatoes"} <= set(words)
    assert shared.index.complete("toma", MINE) == words


@pytest.mark.parametrize("removed", ["mine://a.py", "other://a.py"])
def test_a_definition_counts_the_same_after_many_changes(alone: Texts, shared: Texts, removed: str) -> None:
    shared.put(removed, *["def tomato():\n"] * (MAX_MARKED + 10))
    shared.index.remove([removed])
    for texts in (alone, shared):
        texts.put("mine://a.py", "def tomato():\n")
        texts.put("mine://b.py", "tomato\n" * 3)

    assert shared.found("tomato") == alone.found("tomato")
    assert "it defines tomato" in alone.found("tomato")[0][0].reasons


def test_the_length_of_a_removed_document_does_not_count(alone: Texts, shared: Texts) -> None:
    shared.put("other://long", "basil melon\n" * 4_000)
    for texts in (alone, shared):
        for number in range(30):
            texts.put(f"mine://{number}", f"tomato {number}\n" * (number * 20 + 1))
    shared.index.find(parse("tomato"), reach=Reach(frozenset({"mine", "other"})))
    shared.index.remove(["other://long"])

    assert shared.found("tomato") == alone.found("tomato")


def test_documents_of_equal_worth_are_chosen_the_same_beside_others(alone: Texts, shared: Texts) -> None:
    for number in range(460):
        shared.put(f"other://{number}", "basil")
    for texts in (alone, shared):
        for number in range(RANKED + 20):
            texts.put(f"mine://{RANKED * 2 - number}", "tomato")

    assert shared.found("tomato", RANKED) == alone.found("tomato", RANKED)


def test_documents_with_one_path_have_one_order(alone: Texts, shared: Texts) -> None:
    for texts, uris in ((alone, ("mine://a", "also://a")), (shared, ("also://a", "mine://a"))):
        for uri in uris:
            texts.put(uri, "tomato", path="a")

    for query in ("tomato", "path:a"):
        assert [one.uri for one in alone.found(query)[0]] == ["also://a", "mine://a"]
        assert [one.uri for one in shared.found(query)[0]] == ["also://a", "mine://a"]


@pytest.mark.parametrize(
    "query", [r"basil /tomat\w*x/", r"/basil\W+tomat\w*x/", '"basil tomatoe"', r"basil /tomat\w*x/ path:a"]
)
@pytest.mark.parametrize("limit", [10, 1_000])
def test_an_expression_has_the_same_order_where_others_have_many_words_like_its_own(
    alone: Texts, shared: Texts, query: str, limit: int
) -> None:
    matching = [f"mine://a{number}" for number in range(60)]
    shared.put("other://a", " ".join(f"tomat{number:04}" for number in range(MAX_WORDS + 10)))
    for texts in (alone, shared):
        for number in range(RANKED + 20):
            texts.put(f"mine://{number}", "basil\n" * 300, path=f"basil/a{number}.md")
        for number, uri in enumerate(matching):
            texts.put(uri, "melon\n" * number * 20 + "basil tomatoex basil tomatoes\n", path=f"a/basil{number % 7}.md")

    def order(texts: Texts) -> list[Candidate]:
        found, total = texts.found(query, limit), 0
        while len(found[0]) < found[1] and len(found[0]) > total:
            found, total = texts.found(query, len(found[0]) * 8), len(found[0])
        return [one for one in found[0] if one.uri in matching]

    assert len(order(alone)) == len(matching)
    assert order(shared) == order(alone)
