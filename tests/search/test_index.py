"""The index keeps whole documents, and finds them."""

from pathlib import Path

import pytest

from carrel.search.index import MEMORY, Index, SourceText
from carrel.search.query import parse
from carrel.search.reach import reach_of


def source(path: str, text: str, fingerprint: str = "1", scheme: str = "workspace") -> SourceText:
    """Return a document of a workspace."""
    return SourceText(f"{scheme}:///{path}", fingerprint, scheme, path, text)


def paths(index: Index, text: str, limit: int = 10) -> list[str]:
    """Return the paths of what is found."""
    return [found.path for found in index.find(parse(text), limit=limit).found]


def test_a_document_is_found_by_its_words() -> None:
    index = Index(MEMORY)
    index.put([source("a.py", "def connect(): ..."), source("b.py", "def refuse(): ...")])

    assert paths(index, "connect") == ["a.py"]


@pytest.mark.parametrize("spelling", ["parseConfig", "parse_config", "parse-config", "ParseConfig", "PARSE_CONFIG"])
@pytest.mark.parametrize("written", ["parseConfig", "parse_config", "parse-config", "ParseConfig", "PARSE_CONFIG"])
def test_a_name_is_found_in_every_spelling(spelling: str, written: str) -> None:
    index = Index(MEMORY)
    index.put([source("a.py", f"x = {written}(1)"), source("b.py", "nothing")])

    assert paths(index, spelling) == ["a.py"]


def test_a_changed_document_is_found_by_its_new_words_only() -> None:
    index = Index(MEMORY)
    index.put([source("a.py", "alpha")])
    index.put([source("a.py", "beta", "2")])

    assert paths(index, "alpha") == []
    assert paths(index, "beta") == ["a.py"]
    assert index.known() == {"workspace:///a.py": "2"}


def test_a_removed_document_is_not_found() -> None:
    index = Index(MEMORY)
    index.put([source("a.py", "alpha"), source("b.py", "alpha")])
    index.remove(["workspace:///a.py", "workspace:///never.py"])

    assert paths(index, "alpha") == ["b.py"]


def test_filters_choose_documents() -> None:
    index = Index(MEMORY)
    index.put([source("src/a.py", "alpha"), source("test/a.dart", "alpha"), source("run/1", "alpha", scheme="logs")])

    assert paths(index, "alpha path:src/") == ["src/a.py"]
    assert paths(index, "alpha lang:dart") == ["test/a.dart"]
    assert paths(index, "alpha scheme:logs") == ["run/1"]
    assert set(paths(index, "alpha -path:test")) == {"src/a.py", "run/1"}
    assert [c.path for c in index.find(parse("alpha"), reach=reach_of({"logs"})).found] == ["run/1"]


def test_the_total_counts_what_the_limit_leaves_out() -> None:
    index = Index(MEMORY)
    index.put([source(f"{number}.py", "alpha") for number in range(5)])

    answer = index.find(parse("alpha"), limit=2)

    assert (len(answer.found), answer.total, answer.is_complete) == (2, 5, True)


def test_a_file_keeps_what_was_put(tmp_path: Path) -> None:
    place = tmp_path / "new" / "index.db"
    first = Index(str(place))
    first.put([source("a.py", "alpha")])
    first.close()

    again = Index(str(place))

    assert paths(again, "alpha") == ["a.py"]
    assert place.stat().st_mode & 0o777 == 0o600
    assert place.parent.stat().st_mode & 0o777 == 0o700
    again.close()
