"""Who may list, read, watch or call what: checked in the catalogue, for every kind of connection.

A scope is `<scheme>:<right>`, such as `workspace:read`; `*` stands for every scheme. `workspace:///docs/:read` is the
right to read what is below a folder, and `scopes://scope/alpha:read` to read one URI and what is below it.

    read    list, read, watch and complete what the scheme has
    tools   call its tools that only read
    write   call its tools that write or start something; add to what can be added to

`carrel://audit` needs the scope `audit:read` by name: `*:read` and `carrel:read` do not allow it.

The caller is known during a request, also where a guide or a tool reads from other providers. Permission is checked
before existence, so that a refusal does not reveal what exists. On stdio, and by default, everything is allowed.
"""

from collections.abc import Iterable, Mapping
from contextvars import ContextVar, Token
from functools import lru_cache
from typing import Final

from carrel.core.errors import ConfigError, Denied, echo
from carrel.core.model import Tool
from carrel.core.record import Value

RIGHTS: Final = ("read", "tools", "write")
SCOPE_REASON: Final = "scope"
"""The `reason` of a refusal that another token could avoid."""

SEARCH: Final = "carrel://search"
"""A URI that needs no permission: it shows only what the catalogue lets the caller read."""

AUDIT: Final = "carrel://audit"
"""A URI with its own permission, as if `audit` were its scheme."""
_BY_NAME: Final = frozenset({"audit"})
"""What `*` does not stand for."""

_SAME_AS: Final = {"git": "workspace"}
"""Schemes that need the permission for another one: they show the same files."""


class Access(Value, frozen=True):
    """The caller and its rights. Without `scopes`, everything is allowed."""

    name: str
    scopes: frozenset[str] | None = None
    expires_at: float | None = None
    """Seconds since 1970; None if it does not expire."""

    def allows(self, scheme: str, right: str) -> bool:
        """Return whether a right is given for a scheme."""
        scheme = _SAME_AS.get(scheme, scheme)
        if self.scopes is None or f"{scheme}:{right}" in self.scopes:
            return True
        return f"*:{right}" in self.scopes and scheme not in _BY_NAME

    def is_like(self, other: "Access") -> bool:
        """Return whether both have the same name and rights; they may expire at different times."""
        return (self.name, self.scopes) == (other.name, other.scopes)

    def concerns(self, schemes: Iterable[str]) -> bool:
        """Return whether any right is given for one of these schemes, or for a part of it."""
        named = {"*", *(_SAME_AS.get(scheme, scheme) for scheme in schemes)}
        return self.scopes is None or any(_scheme(scope) in named for scope in self.scopes)

    def places(self, scheme: str) -> tuple[str, ...]:
        """Return the URIs of a scheme that may be read with everything below them, if the whole scheme may not."""
        if self.scopes is None or self.allows(scheme, "read"):
            return ()
        return _places(self.scopes).get(scheme, ())


@lru_cache(64)
def _places(scopes: frozenset[str]) -> Mapping[str, tuple[str, ...]]:
    """Return the URIs that scopes name for reading, by scheme."""
    places: dict[str, tuple[str, ...]] = {}
    for scope in sorted(scopes):
        place, _, right = scope.rpartition(":")
        if right == "read" and ":" in place:
            places[_scheme(place)] = (*places.get(_scheme(place), ()), place)
    return places


def is_at(uri: str, place: str) -> bool:
    """Return whether a URI is a place or below it; names are compared whole."""
    bare = uri.partition("?")[0]
    return bare in (place, place.removesuffix("/")) or bare.startswith(place if place.endswith("/") else f"{place}/")


EVERYTHING: Final = Access("local")

_current: ContextVar[Access] = ContextVar("access", default=EVERYTHING)


class ActingAs:
    """Sets the caller of the catalogue for the time of a `with` block."""

    __slots__ = ("_access", "_before")

    def __init__(self, access: Access) -> None:
        self._access = access
        self._before: Token[Access] | None = None

    def __enter__(self) -> None:
        """Set the caller."""
        self._before = _current.set(self._access)

    def __exit__(self, *_: object) -> None:
        """Restore the previous caller."""
        if self._before is not None:
            _current.reset(self._before)


def current_access() -> Access:
    """Return the access of the caller, for work that is done after the request."""
    return _current.get()


def is_unlimited() -> bool:
    """Return whether the caller may do everything."""
    return _current.get().scopes is None


def may_read(uri: str) -> bool:
    """Return whether the caller may list, read and watch this URI, or one of this template."""
    access = _current.get()
    if access.scopes is None or access.allows(_scheme(uri), "read"):
        return True
    is_search = uri.startswith(SEARCH) and uri[len(SEARCH) :][:1] in ("", "?", "{")
    return is_search or any(is_at(uri, place) for place in access.places(_scheme(uri)))


def may_read_some(template: str) -> bool:
    """Return whether the caller may read any of the URIs that a template stands for."""
    literal, _, variable = template.partition("{")
    if variable.startswith("?"):
        return may_read(literal)
    places = _current.get().places(_scheme(template)) if variable else ()
    return may_read(template) or any(place.startswith(literal) for place in places)


def is_limited(uri: str) -> bool:
    """Return whether the caller may read only parts of the scheme of a URI."""
    return bool(_current.get().places(_scheme(uri)))


def check_read(uri: str) -> None:
    """Raise `Denied` for a URI, or a template, that the caller may not read, whether it exists or not."""
    check_target(uri, uri)


def check_target(target: str, uri: str) -> None:
    """Raise `Denied` for a URI of which the caller may not read the target; the error does not name the target."""
    if not may_read(target):
        raise _denied(uri, "read")


def check_write(uri: str) -> None:
    """Raise `Denied` for a URI to which the caller may not add anything, whether it exists or not."""
    if not _current.get().allows(_scheme(uri), "write"):
        raise _denied(uri, "write")


def _denied(uri: str, right: str) -> Denied:
    scheme = _scheme(uri)
    scope = f"{_SAME_AS.get(scheme, scheme)}:{right}"
    message = f"Access denied: {echo(uri)} (needs the scope {echo(scope)})"
    return Denied(message, reason=SCOPE_REASON, uri=uri, data={"scope": scope})


def may_list(uri: str, target: str) -> bool:
    """Return whether the caller may read a listed URI, and what a link at it leads to, if it is one."""
    return may_read(uri) and (not target or may_read(target))


def may_see(schemes: Iterable[str]) -> bool:
    """Return whether the caller may read anything of these schemes."""
    access = _current.get()
    return access.scopes is None or any(access.allows(one, "read") or access.places(one) for one in schemes)


def may_see_all(schemes: Iterable[str]) -> bool:
    """Return whether the caller may read everything of one of these schemes."""
    access = _current.get()
    return access.scopes is None or any(access.allows(scheme, "read") for scheme in schemes)


def may_call(tool: Tool, schemes: Iterable[str]) -> bool:
    """Return whether the caller may call a tool of a provider with these schemes."""
    access = _current.get()
    right = "tools" if tool.read_only else "write"
    return access.scopes is None or any(access.allows(scheme, right) for scheme in schemes)


def parse_scopes(words: Iterable[str]) -> frozenset[str]:
    """Return the scopes that an operator wrote; raise ConfigError for one that is invalid."""
    scopes = frozenset(words)
    for scope in sorted(scopes):
        scheme, _, right = scope.rpartition(":")
        if not scheme or right not in RIGHTS:
            raise ConfigError(
                f"{scope!r} is not a scope: write it as workspace:read; the rights are {', '.join(RIGHTS)}"
            )
        if ":" in scheme and (right != "read" or "://" not in scheme or "?" in scheme or "#" in scheme):
            form = "a part of a scheme is written as workspace:///docs/:read, for reading only"
            raise ConfigError(f"{scope!r} is not a scope: {form}")
    return scopes


def _scheme(uri: str) -> str:
    """Return the scheme by which the permission for a URI is named."""
    scheme, _, rest = uri.partition(":")
    is_audit = rest.startswith("//audit") and rest[len("//audit") :][:1] in ("", "?", "{", "/", "#")
    return "audit" if is_audit and scheme.lower() == "carrel" else scheme.lower()
