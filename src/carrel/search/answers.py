"""The records that go into a search and come out of it."""

from collections.abc import Callable
from typing import Final

from carrel.core.errors import BadArgument, echo
from carrel.core.record import Value

DEFAULT_LIMIT: Final = 10
MAX_LIMIT: Final = 100
MAX_PLACE_DIGITS: Final = 9

Progress = Callable[[float, float | None, str | None], None]
"""Called with the work done, the total work, and a sentence, as `Call.progress` is."""

Span = tuple[int, int]
"""Where a match begins and ends in a line, in characters."""


class SearchRequest(Value, frozen=True):
    """The arguments of a search.

    `scheme` is the one scheme to search; empty for all that the caller may read. `after` is `SearchAnswer.next` of the
    previous page.
    """

    query: str
    scheme: str = ""
    limit: int = DEFAULT_LIMIT
    after: str = ""


def start_of(after: str | None) -> int:
    """Return how many hits the previous pages have shown; raise BadArgument if `after` is not from a page."""
    if not after:
        return 0
    if not (after.isascii() and after.isdigit() and len(after) <= MAX_PLACE_DIGITS):
        raise BadArgument(
            f"Invalid parameter: after={echo(after)} (expected the value that the previous page returned)",
            data={"parameter": "after"},
        )
    return int(after)


class HitLine(Value, frozen=True):
    """A line of a hit: its number, counted from 1, its text, and the spans that match."""

    number: int
    text: str
    marks: tuple[Span, ...] = ()


class SearchHit(Value, frozen=True):
    """A resource that was found.

    `uri` reads the lines `first_line` to `last_line`, if the resource has lines; `base` is the URI of the whole
    resource. `definition` is the name of the function, class, heading or entry around the lines. `tokens` is an
    estimate of the tokens that reading `uri` costs. `reasons` explain its rank. With `is_partial`, the resource was too
    large to be searched as a whole.
    """

    uri: str
    base: str
    title: str
    score: float
    definition: str = ""
    lines: tuple[HitLine, ...] = ()
    first_line: int = 0
    last_line: int = 0
    tokens: int = 0
    mime_type: str = ""
    modified_ms: int | None = None
    reasons: tuple[str, ...] = ()
    is_partial: bool = False


class Coverage(Value, frozen=True):
    """How many of the documents that the caller may read were searched; without `is_counted`, there are more.

    With `is_behind`, the index has room for documents that it lacks, even if these were searched without it.
    """

    searched: int = 0
    total: int = 0
    is_counted: bool = True
    is_behind: bool = False

    @property
    def is_partial(self) -> bool:
        """Whether some were not searched."""
        return self.searched < self.total or not self.is_counted

    def __str__(self) -> str:
        if not self.is_partial:
            return f"all of {self.total:,} documents"
        if not self.is_counted:
            return f"partial: {self.searched:,} of more than {self.total:,} documents"
        share = min(99, 100 * self.searched // self.total)
        return f"partial: {share} % of {self.total:,} documents"


class SearchAnswer(Value, frozen=True):
    """One page of hits, best first.

    `total` is the known number of all hits; with `is_total_least` there may be more.
    `notes` are sentences for the reader. `next` is the `after` of the next page; empty if this is the last.
    """

    hits: tuple[SearchHit, ...]
    total: int
    coverage: Coverage
    notes: tuple[str, ...] = ()
    next: str = ""
    is_total_least: bool = False
