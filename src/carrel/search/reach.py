"""What a caller may find: the schemes that may be read, and of some of them only parts."""

import json
from collections.abc import Collection, Mapping
from itertools import chain
from types import MappingProxyType

from carrel.catalog.access import current_access, is_at
from carrel.core.record import Value


class Reach(Value, frozen=True):
    """The documents that may be found, of some schemes.

    Of a scheme with `places`, only what is at or below one of these URIs; of any other one, everything. What is
    `hidden` is left out: links that lead to where the caller may not read.
    """

    schemes: frozenset[str]
    places: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    hidden: frozenset[str] = frozenset()

    def holds(self, uri: str) -> bool:
        """Return whether a document may be found."""
        scheme = uri.partition(":")[0]
        if scheme not in self.schemes or uri in self.hidden:
            return False
        places = self.places.get(scheme)
        return places is None or any(is_at(uri, place) for place in places)

    def condition(self) -> tuple[str, list[str]]:
        """Return the same as a condition of SQL on `scheme` and `uri`, with its values."""
        whole = sorted(self.schemes - self.places.keys())
        clauses = [f"scheme IN ({','.join('?' * len(whole))})"]
        values = list(whole)
        for place in chain.from_iterable(self.places.values()):
            bare = place.removesuffix("/")
            # `0` and `@` follow `/` and `?`; a range is found by the index of the table.
            clauses.append("uri = ? OR (uri >= ? AND uri < ?) OR (uri >= ? AND uri < ?)")
            values += [bare, f"{bare}/", f"{bare}0", f"{bare}?", f"{bare}@"]
        condition = f"({' OR '.join(clauses)})"
        if self.hidden:
            condition += " AND uri NOT IN (SELECT value FROM json_each(?))"
            values.append(json.dumps(sorted(self.hidden)))
        return condition, values


def reach_of_caller(schemes: Collection[str]) -> Reach:
    """Return what the caller may find in some schemes now."""
    access = current_access()
    whole = {scheme for scheme in schemes if access.allows(scheme, "read")}
    places = {scheme: found for scheme in sorted(schemes) if (found := access.places(scheme))}
    return Reach(frozenset(whole | places.keys()), places)


def reach_of(schemes: Collection[str]) -> Reach:
    """Return everything in some schemes."""
    return Reach(frozenset(schemes))
