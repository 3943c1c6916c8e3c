"""Whether lists changed: their providers are asked for tokens, which are held against those of the last time.

What is told in the end is whether the list that clients are sent became another one: `Listed`.
"""

import threading
from collections.abc import Iterable

from carrel.catalog.access import Access, ActingAs
from carrel.catalog.catalog import Catalog
from carrel.core.errors import CarrelError
from carrel.core.faults import attempt
from carrel.core.hashing import blake2b
from carrel.core.model import Resource
from carrel.core.provider import Provider


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

    def __init__(self) -> None:
        self._tokens: dict[str, str] = {}
        self._early: dict[str, str] = {}

    def __bool__(self) -> bool:
        """Tell whether there is any list to ask about again and again."""
        return bool(self._tokens)

    def has_changed(self, name: str, provider: Provider) -> bool:
        """Ask a provider how its list is; return whether that is otherwise than last time."""
        token = provider.list_fingerprint()
        before = self._tokens.get(name, token)
        self._tokens[name] = token
        return before != token

    def remember_early(self, name: str, provider: Provider) -> None:
        """Note how a list is of which events are to tell, unless that is noted."""
        if name not in self._early:
            self._early[name] = provider.list_fingerprint()

    def has_changed_early(self, name: str, provider: Provider) -> bool:
        """Return, once the events have begun, whether a list changed before."""
        early = self._early.pop(name, None)
        return early is not None and provider.list_fingerprint() != early

    def forget_early(self, name: str) -> None:
        """Forget what was noted: the events end."""
        self._early.pop(name, None)
