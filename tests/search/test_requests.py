"""The arguments of a search, by the tool and by the query of a URI."""

import pytest

from carrel.core.arguments import InvalidArguments
from carrel.core.record import to_json
from carrel.core.tokens import estimate_tokens
from carrel.search.answers import SearchRequest
from carrel.search.requests import ARGUMENTS, SearchArguments, from_query


def test_the_query_of_a_uri_means_the_same_as_the_arguments_of_the_tool() -> None:
    given = {"query": "a b", "in": "logs", "limit": 3, "budget": 500, "after": "6"}
    pairs = [("q", "a b"), ("in", "logs"), ("limit", "3"), ("budget", "500"), ("after", "6")]

    assert ARGUMENTS.check(given) == from_query(pairs) == SearchArguments("a b", "logs", 3, 500, "6")
    assert from_query(pairs).request() == SearchRequest("a b", "logs", 3, "6")


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ([("query", "x")], "known: q, in, limit, budget, after; for example ?q=parse config"),
        ([("limit", "0")], "expected an integer from 1 to 100"),
        ([("limit", "101")], "expected an integer from 1 to 100"),
        ([("budget", "none")], "expected an integer, 1 or more"),
        ([("q", "a"), ("q", "b")], "given twice"),
    ],
)
def test_a_parameter_that_does_not_fit_is_refused_with_what_does(pairs: list[tuple[str, str]], said: str) -> None:
    with pytest.raises(InvalidArguments, match="Invalid parameter") as caught:
        from_query(pairs)

    assert said in str(caught.value)


def test_the_schema_costs_a_model_little() -> None:
    assert estimate_tokens(to_json(ARGUMENTS.schema).decode()) < 230
