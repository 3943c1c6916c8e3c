"""The list of all resources, whole or by the beginning of their URIs: one order, in pages.

It is a sequence of sections: front entries, then provider by provider. A cursor names a
section and the key of the last entry, so entries may come and go between pages without one
being repeated or skipped. What hosts are sent is shorter: `shortlist`.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Final

from carrel.catalog import access
from carrel.catalog.cursor import seal
from carrel.catalog.routes import Mounted, Routes
from carrel.core.errors import BadCursor, ProviderError
from carrel.core.faults import Contained
from carrel.core.limits import LIST_TTL_MS
from carrel.core.model import Page, Resource, Template
from carrel.core.provider import Browsing, Share
from carrel.core.record import Value

log = logging.getLogger(__name__)

_FRONT: Final = "f"
_MAIN: Final = "m"
_TEMPLATES: Final = "t"
_START: Final = (_FRONT, "", "")


class Section(Value, frozen=True):
    """A part of the list: the entries of one provider, at the front or in its turn."""

    kind: str
    mounted: Mounted
    entries: Iterator[Resource]


class Listing:
    """What one table of providers lists, to whoever asks."""

    def __init__(self, mounted: tuple[Mounted, ...], routes: Routes) -> None:
        self._mounted = mounted
        self._routes = routes

    def page(self, parts: tuple[str, ...], wanted: int, prefix: str = "") -> Page:
        """Return one page of what begins with `prefix`; a cursor's parts say where to go on, and with which prefix."""
        kind, name, key, prefix = self._place(parts, prefix)
        entries: list[Resource] = []
        last = None
        for section in self._sections(kind, name, key, prefix):
            entries += islice(section.entries, wanted + 1 - len(entries))
            last = section if last is None and len(entries) >= wanted else last
            if len(entries) > wanted:
                break
        if last is None or len(entries) <= wanted:
            return Page(tuple(entries), ttl_ms=self.ttl_ms())
        shown = tuple(entries[:wanted])
        place = (last.kind, last.mounted.provider.name, last.mounted.key(shown[-1]))
        return Page(shown, seal(*place, *([prefix] if prefix else [])), ttl_ms=self.ttl_ms())

    def ttl_ms(self) -> int:
        """Return how long a list holds: not at all while a provider is still starting."""
        is_starting = any(mounted.starting is not None and mounted.starting.is_starting for mounted in self._mounted)
        return 0 if is_starting else LIST_TTL_MS

    def shares(self) -> Iterator[tuple[Mounted, Share]]:
        """Yield the shares of every provider the caller may see, in the order of the providers."""
        for mounted in self.visible():
            shares: Sequence[Share] = ()
            try:
                with Contained(f"the list of {mounted.provider.name}"):
                    shares = mounted.shares()
            except ProviderError as error:
                log.warning("%s has no list: %s", mounted.provider.name, error.message)
            yield from ((mounted, share) for share in shares)

    def permitted(self, mounted: Mounted, entries: Callable[[], Iterator[Resource]]) -> Iterator[Resource]:
        """Yield the entries that the caller may read and that no other provider keeps; a fault ends them."""
        return _permitted(self._own(mounted, entries))

    def entries(self, scheme: str | None = None) -> Iterator[Resource]:
        """Yield the whole list, or one provider's part of it."""
        for section in self._sections(*_START, ""):
            if scheme is None or scheme in section.mounted.provider.schemes:
                yield from section.entries

    def templates(self, parts: tuple[str, ...], wanted: int) -> tuple[tuple[Template, ...], str | None]:
        """Give one page of the templates and the cursor of the next."""
        start = _number_of(parts)
        every = [
            template
            for mounted in self.visible()
            for template in mounted.templates()
            if access.may_read(template.uri_template) and not self._routes.has_lost(mounted, template.uri_template)
        ]
        end = start + wanted
        return tuple(every[start:end]), seal(_TEMPLATES, str(end)) if end < len(every) else None

    def visible(self) -> tuple[Mounted, ...]:
        """Give the providers of which whoever asks may read anything."""
        if access.is_unlimited():
            return self._mounted
        return tuple(mounted for mounted in self._mounted if access.may_see(mounted.provider.schemes))

    def _place(self, parts: tuple[str, ...], prefix: str) -> tuple[str, str, str, str]:
        match parts:
            case ():
                return *_START, prefix
            case (kind, name, key, *rest) if kind in (_FRONT, _MAIN) and len(rest) <= 1:
                if name:
                    self.number_of(name)
                return kind, name, key, "".join(rest)
        raise BadCursor

    def number_of(self, name: str) -> int:
        """Return which provider in order has this name, or raise BadCursor if none has."""
        for number, mounted in enumerate(self._mounted):
            if mounted.provider.name == name:
                return number
        raise BadCursor

    def _sections(self, kind: str, name: str, key: str, prefix: str) -> Iterator[Section]:
        """Give what whoever asks may see, from a place on: the provider's section there, then all that follow."""
        if kind == _FRONT:
            for mounted, after in self._from(name, key):
                if mounted.fronting is not None:
                    entries = (entry for entry in _front(mounted, after) if entry.uri.startswith(prefix))
                    yield Section(_FRONT, mounted, _permitted(entries))
            name, key = "", ""
        for mounted, after in self._from(name, key):
            yield Section(_MAIN, mounted, _permitted(self._own(mounted, partial(_entries, mounted, after, prefix))))

    def _from(self, name: str, key: str) -> Iterator[tuple[Mounted, str]]:
        """Give the providers from the named one on, with the key each is to start after."""
        reached = not name
        visible = self.visible()
        for mounted in self._mounted:
            is_first = not reached and mounted.provider.name == name
            reached = reached or is_first
            if reached and mounted in visible:
                yield mounted, key if is_first else ""

    def _own(self, mounted: Mounted, entries: Callable[[], Iterator[Resource]]) -> Iterator[Resource]:
        """Yield a provider's entries, but for those that another one keeps; a fault costs only what would follow."""
        try:
            with Contained(f"the list of {mounted.provider.name}"):
                if self._routes.has_clashes:
                    for entry in entries():
                        if not self._routes.has_lost(mounted, entry.uri):
                            yield entry
                else:
                    yield from entries()
        except ProviderError as error:
            log.warning("the list of %s is cut short: %s", mounted.provider.name, error.message)


def _entries(mounted: Mounted, after: str, prefix: str) -> Iterator[Resource]:
    """Return the entries whose URI begins with a prefix; a provider that is `Browsing` looks there directly."""
    if not prefix:
        return mounted.provider.entries(after)
    if not isinstance(mounted.provider, Browsing):
        return (entry for entry in mounted.provider.entries(after) if entry.uri.startswith(prefix))
    if any(_may_hold(scheme, prefix) for scheme in mounted.provider.schemes):
        return mounted.provider.browse(None, prefix, after)
    return iter(())


def _may_hold(scheme: str, prefix: str) -> bool:
    return prefix.startswith(f"{scheme}:") or f"{scheme}:".startswith(prefix)


def _front(mounted: Mounted, after: str) -> Iterator[Resource]:
    assert mounted.fronting is not None
    return (entry for entry in mounted.fronting.front() if mounted.key(entry) > after)


def _permitted(entries: Iterator[Resource]) -> Iterator[Resource]:
    """Leave out what whoever asks may not read."""
    if access.is_unlimited():
        return entries
    return (entry for entry in entries if access.may_read(entry.uri))


def _number_of(parts: tuple[str, ...]) -> int:
    match parts:
        case ():
            return 0
        case (kind, number) if kind == _TEMPLATES and number.isascii() and number.isdigit():
            return int(number[:9])
    raise BadCursor
