"""The arguments of a search: of the tool, of `carrel://search` and of `/-/search`, declared once."""

from collections.abc import Sequence
from typing import Annotated, Final

from carrel.core.arguments import Argument, Arguments
from carrel.core.record import Value
from carrel.search.answers import DEFAULT_LIMIT, MAX_LIMIT, SearchRequest

DEFAULT_BUDGET: Final = 4_000
DEFAULTS: Final = {"limit": DEFAULT_LIMIT, "budget": DEFAULT_BUDGET}

_Query = Annotated[
    str,
    Argument(
        description='Words, a name in any spelling, "an exact phrase" or /a regular expression/. '
        "Filters: path:src/ -path:test lang:python scheme:logs.",
        examples=["parse config"],
    ),
]
_Scheme = Annotated[str, Argument(description="Search only this scheme, such as workspace or logs.", examples=["logs"])]
_Limit = Annotated[int, Argument(ge=1, le=MAX_LIMIT, description="Maximum number of hits.")]
_Budget = Annotated[int, Argument(ge=1, description="Maximum tokens of the answer.")]
_After = Annotated[str, Argument(description="The value that the previous page returned.")]


class SearchArguments(Value, frozen=True, rename={"scheme": "in"}):
    """The arguments of the tool."""

    query: _Query
    scheme: _Scheme | None = None
    limit: _Limit = DEFAULT_LIMIT
    budget: _Budget = DEFAULT_BUDGET
    after: _After | None = None

    def request(self) -> SearchRequest:
        """Return the request for the engine."""
        return SearchRequest(self.query, self.scheme or "", self.limit, self.after or "")


class SearchParameters(Value, frozen=True, rename={"query": "q", "scheme": "in"}):
    """The parameters of a URI."""

    query: _Query = ""
    scheme: _Scheme | None = None
    limit: _Limit = DEFAULT_LIMIT
    budget: _Budget = DEFAULT_BUDGET
    after: _After | None = None


ARGUMENTS: Final = Arguments(SearchArguments)
_PARAMETERS: Final = Arguments(SearchParameters)


def from_query(pairs: Sequence[tuple[str, str]]) -> SearchArguments:
    """Return the arguments in the query of a URI; raise `InvalidArguments` if one does not fit."""
    given = _PARAMETERS.check_query(pairs)
    return SearchArguments(given.query, given.scheme, given.limit, given.budget, given.after)
