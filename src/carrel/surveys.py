"""Whether lists changed: their providers are asked for tokens, which are held against those of the last time.

What is told in the end is whether the list that clients are sent became another one: `Listed`.
"""

import threading
from collections.abc import Iterable, Iterator

from carrel.boundary import attempt
from carrel.catalog import Catalog
from carrel.digest import blake2b
from carrel.errors import CarrelError
from carrel.model import Resource
from carrel.permissions import Access, ActingAs
from carrel.provider import Provider, Surveying, Watching


def token_of(entries: Iterable[Resource]) -> str:
    """Return a token of a list: of what is in it and how that is introduced, not of sizes and dates."""
    state = blake2b(digest_size=16)
    for entry in entries:
        told = f"{entry.uri}\0{entry.name}\0{entry.title}\0{entry.description}\n"
        state.update(told.encode("utf-8", "surrogatepass"))
    return state.hexdigest()


class Listed:
    """The list that clients are sent, as a token, for each set of rights: callers with equal rights see one list."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._tokens: dict[frozenset[str] | None, str] = {}
        self._lock = threading.Lock()

    def known(self, access: Access) -> str:
        """Return a token of the list as it is or was: an older one only means that more is told."""
        with self._lock:
            token = self._tokens.get(access.scopes)
        return self.look(access) if token is None else token

    def look(self, access: Access) -> str:
        """Return a token of the list as it is now; empty where it cannot be told."""
        try:
            with ActingAs(access):
                chosen = attempt("watching the list", self._catalog.chosen)
        except CarrelError:
            return ""
        token = token_of(chosen.entries)
        with self._lock:
            self._tokens[access.scopes] = token
        return token

    def forget(self) -> None:
        """Forget all tokens: nobody listens any more."""
        with self._lock:
            self._tokens.clear()


class Surveys:
    """The tokens of every list that can be asked for one.

    Providers that tell of their lists themselves are asked only about the time before their events begin.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._tokens: dict[str, str] = {}
        self._early: dict[str, str] = {}

    def __bool__(self) -> bool:
        """Tell whether there is any list to ask about again and again."""
        return bool(self._tokens)

    def changed(self, due: set[str] | None = None) -> Iterator[Provider]:
        """Ask those whose turn it is, or all; give those whose list is another than last time."""
        for provider, surveying in self._surveyed():
            if not isinstance(provider, Watching) and (due is None or provider.name in due):
                token = surveying.survey()
                before = self._tokens.get(provider.name, token)
                self._tokens[provider.name] = token
                if before != token:
                    yield provider

    def remember_early(self) -> None:
        """Note how the lists are of which events are to tell."""
        for provider, surveying in self._surveyed():
            if isinstance(provider, Watching) and provider.name not in self._early:
                self._early[provider.name] = surveying.survey()

    def changed_early(self) -> Iterator[Provider]:
        """Give, once the events have begun, those whose list changed before."""
        early, self._early = self._early, {}
        for provider, surveying in self._surveyed():
            if provider.name in early and surveying.survey() != early[provider.name]:
                yield provider

    def forget_early(self) -> None:
        """Forget what was noted: the events end."""
        self._early.clear()

    def _surveyed(self) -> Iterator[tuple[Provider, Surveying]]:
        for mounted in self._catalog.mounted:
            if isinstance(mounted.provider, Surveying):
                yield mounted.provider, mounted.provider
