"""Ask the providers that answer searches themselves, and merge their matches with those of the index."""

import threading
from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from typing import Final

from carrel.catalog.catalog import Catalog
from carrel.catalog.routes import Mounted
from carrel.core.bounded_calls import BoundedCalls
from carrel.core.errors import CarrelError
from carrel.core.faults import attempt
from carrel.core.provider import Match
from carrel.core.record import replace
from carrel.search.index import Candidate, Candidates
from carrel.search.reach import Reach
from carrel.search.sources import path_of, scheme

MAX_MATCHES: Final = 10_000
"""Matches that a provider is asked for, if those before were others' to read."""


class OwnAnswers:
    """Asks the providers that override `Provider.search`."""

    def __init__(self, catalog: Catalog, within_s: float) -> None:
        self._catalog = catalog
        self._calls = BoundedCalls("search", within_s)
        self._lock = threading.Lock()
        self._declined: set[int] = set()
        """The providers that override `search` but want their documents indexed."""

    def answers(self, mounted: Mounted) -> bool:
        """Return whether a provider answers itself, as far as that is known."""
        return "search" in mounted.overrides and id(mounted.provider) not in self._declined

    def ask(self, text: str, reach: Reach, limit: int) -> tuple[list[Candidate], list[str]]:
        """Return what they find, best first, and sentences about those that could not be asked."""
        asked = {
            one.provider.name: partial(self._ask_one, one, text, reach, limit)
            for one in self._catalog.visible()
            if self.answers(one) and not reach.schemes.isdisjoint(one.provider.schemes)
        }
        answers = self._calls.ask(asked) if asked else {}
        notes = [f"{name} did not answer in time and was not searched." for name in asked if name not in answers]
        found: list[Candidate] = []
        for name, matches in answers.items():
            if isinstance(matches, str):
                notes.append(matches)
            else:
                found += [_candidate(match, name) for match in matches]
        return found, notes

    def _ask_one(self, mounted: Mounted, text: str, reach: Reach, limit: int) -> Sequence[Match] | str:
        """Return the best matches within reach; what is not takes no place among them."""
        provider, asked_for = mounted.provider, limit
        while True:
            try:
                matches = attempt(f"search of {provider.name}", provider.search, text, asked_for)
            except CarrelError:
                return f"{provider.name} could not be searched."
            if matches is None:
                with self._lock:
                    self._declined.add(id(provider))
                return ()
            found = [match for match in matches if reach.holds(match.uri)]
            if len(found) >= limit or len(matches) < asked_for or asked_for >= MAX_MATCHES:
                return found[:limit]
            asked_for *= 4


def joined(found: Candidates, own: list[Candidate]) -> Candidates:
    """Return the candidates of the index and of the providers in turn, because their scores cannot be compared."""
    if not own:
        return found
    given = {one.uri for one in own}
    kept = [one for one in found.found if one.uri not in given]
    in_turn = [one for pair in zip_longest(kept, own) for one in pair if one is not None]
    return replace(found, found=tuple(in_turn), total=found.total + len(own))


def _candidate(match: Match, name: str) -> Candidate:
    return Candidate(
        match.uri,
        "",
        scheme(match.uri),
        path_of(match.uri),
        match.title,
        "",
        None,
        is_partial=False,
        score=match.score,
        reasons=(f"found by {name} itself",),
        first_line=1,
        last_line=1,
    )
