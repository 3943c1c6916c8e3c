"""The list of all resources, whole or by prefix: one order, in pages.

The list is a sequence of sections: pinned entries, then provider by provider. A cursor holds a section and the key of
the last entry, so entries may come and go between pages without one being repeated or skipped, and the server
remembers nothing. Hosts are sent a shorter list: `shortlist`.
"""

from binascii import Error, a2b_base64, b2a_base64
from collections.abc import Iterable, Iterator
from itertools import chain, dropwhile, islice
from operator import attrgetter
from typing import Final

from carrel.catalog import access
from carrel.catalog.routes import Mounted, Routes
from carrel.core.errors import BadCursor, ProtocolError, ProviderError, RequestError
from carrel.core.faults import internal
from carrel.core.hashing import blake2b
from carrel.core.limits import LIST_TTL_MS
from carrel.core.model import Page, Resource, Template
from carrel.core.record import Value

_FRONT: Final = "f"
_MAIN: Final = "m"
_TEMPLATES: Final = "t"
_START: Final = (_FRONT, "", "")
_SEAL_BYTES: Final = 8
_SEPARATOR: Final = "\0"


class ListSection(Value, frozen=True):
    """A part of the list: the pinned entries of one provider, or its others."""

    kind: str
    mounted: Mounted
    entries: Iterator[Resource]


class FullList:
    """The entries of all mounted providers that the caller may read."""

    def __init__(self, mounted: tuple[Mounted, ...], routes: Routes) -> None:
        self._mounted = mounted
        self._routes = routes

    def page(self, parts: tuple[str, ...], wanted: int, prefix: str = "") -> Page:
        """Return one page of the entries with a prefix; the parts of a cursor name the position and the prefix."""
        kind, name, key, prefix = self._place(parts, prefix)
        entries: list[Resource] = []
        last = None
        for section in self._sections(kind, name, key, prefix):
            with _CutShort(section.mounted):
                # Straight from the provider: a generator around its entries would take longer than many of them.
                entries += islice(section.entries, wanted + 1 - len(entries))
            last = section if last is None and len(entries) >= wanted else last
            if len(entries) > wanted:
                break
        if last is None or len(entries) <= wanted:
            return Page(tuple(entries), ttl_ms=self.ttl_ms())
        entries.pop()
        shown = tuple(entries)
        place = (last.kind, last.mounted.provider.name, key_of(shown[-1]))
        return Page(shown, seal(*place, *([prefix] if prefix else [])), ttl_ms=self.ttl_ms())

    def ttl_ms(self) -> int:
        """Return how long a client may keep a list; 0 while a provider is still starting."""
        gateways = (mounted.gateway for mounted in self._mounted)
        return 0 if any(gateway is not None and gateway.is_starting for gateway in gateways) else LIST_TTL_MS

    def groups(self) -> Iterator[tuple[Mounted, Iterator[Resource]]]:
        """Yield the groups of every provider the caller may see, in the order of the providers."""
        for mounted in self.visible():
            groups: list[Iterable[Resource]] = []
            with _CutShort(mounted):
                groups = groups_of(mounted)
            yield from ((mounted, _until_fault(mounted, self._permitted(mounted, group))) for group in groups)

    def entries(self, scheme: str | None = None) -> Iterator[Resource]:
        """Yield the whole list, or the entries of the providers with a scheme."""
        if scheme is None:
            for section in self._sections(*_START, ""):
                yield from _until_fault(section.mounted, section.entries)
        else:
            for mounted in self.visible():
                if scheme in mounted.provider.schemes:
                    yield from _until_fault(mounted, self._listed(mounted, "", ""))

    def templates(self, parts: tuple[str, ...], wanted: int) -> tuple[tuple[Template, ...], str | None]:
        """Return one page of the templates and the cursor of the next."""
        start = _number_of(parts)
        every = [template for mounted in self.visible() for template in self._templates_of(mounted)]
        end = start + wanted
        return tuple(every[start:end]), seal(_TEMPLATES, str(end)) if end < len(every) else None

    def _templates_of(self, mounted: Mounted) -> Iterable[Template]:
        """Return the templates of a provider, without those that another one keeps or the caller may not read."""
        templates: Iterable[Template] = mounted.templates()
        if self._routes.has_clashes:
            templates = [one for one in templates if not self._routes.has_lost(mounted, one.uri_template)]
        return (
            templates if access.is_unlimited() else [one for one in templates if access.may_read_some(one.uri_template)]
        )

    def visible(self) -> tuple[Mounted, ...]:
        """Return the providers of which the caller may read anything."""
        if access.is_unlimited():
            return self._mounted
        return tuple(mounted for mounted in self._mounted if access.may_see(mounted.permissions))

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

    def _sections(self, kind: str, name: str, key: str, prefix: str) -> Iterator[ListSection]:
        """Yield the rest of the section that a cursor names, then all later sections."""
        begun: dict[str, Iterator[Resource]] = {}
        if kind == _FRONT:
            for mounted, after in self._from(name, key):
                pinned, begun[mounted.provider.name] = split_pinned(mounted, self._listed(mounted, after, prefix))
                yield ListSection(_FRONT, mounted, iter(pinned))
            name, key = "", ""
        for mounted, after in self._from(name, key):
            rest = begun.get(mounted.provider.name)
            if rest is None:
                rest = dropwhile(attrgetter("pinned"), self._listed(mounted, after, prefix))
            yield ListSection(_MAIN, mounted, rest)

    def _from(self, name: str, key: str) -> Iterator[tuple[Mounted, str]]:
        """Return the providers from the named one on, with the key each is to start after."""
        reached = not name
        visible = self.visible()
        for mounted in self._mounted:
            is_first = not reached and mounted.provider.name == name
            reached = reached or is_first
            if reached and mounted in visible:
                yield mounted, key if is_first else ""

    def _listed(self, mounted: Mounted, after: str, prefix: str) -> Iterator[Resource]:
        """Return the entries of a provider from a key on; a fault may end them."""
        with _CutShort(mounted):
            return iter(self._permitted(mounted, _entries(mounted, after, prefix)))
        return iter(())

    def _permitted(self, mounted: Mounted, entries: Iterable[Resource]) -> Iterable[Resource]:
        """Return the entries without those that another provider keeps or the caller may not read."""
        if self._routes.has_clashes:
            entries = (entry for entry in entries if not self._routes.has_lost(mounted, entry.uri))
        if access.is_unlimited():
            return entries
        return (entry for entry in entries if access.may_list(entry.uri, entry.target))


class _CutShort:
    """Around code that takes a provider's entries: ends it at a fault of the provider, and logs that."""

    __slots__ = ("_name",)

    def __init__(self, mounted: Mounted) -> None:
        self._name = mounted.provider.name

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if not isinstance(error, Exception | SystemExit) or isinstance(error, RequestError | ProtocolError):
            return False
        fault = error if isinstance(error, ProviderError) else internal(f"the list of {self._name}", error)
        import logging  # only on failure

        logging.getLogger(__name__).warning("the list of %s is cut short: %s", self._name, fault.message)
        return True


def _until_fault(mounted: Mounted, entries: Iterable[Resource]) -> Iterator[Resource]:
    """Yield a provider's entries; a fault ends them."""
    with _CutShort(mounted):
        yield from entries


def key_of(entry: Resource) -> str:
    """Return an entry's place among the entries of its provider."""
    return entry.sort_key or entry.uri


def split_pinned(mounted: Mounted, entries: Iterator[Resource]) -> tuple[list[Resource], Iterator[Resource]]:
    """Return the pinned entries of a provider, which come first, and the others; a fault ends them."""
    pinned: list[Resource] = []
    with _CutShort(mounted):
        for entry in entries:
            if not entry.pinned:
                return pinned, chain((entry,), entries)
            pinned.append(entry)
    return pinned, iter(())


def groups_of(mounted: Mounted) -> list[Iterable[Resource]]:
    """Return the groups of a provider's entries, for a list with a bound."""
    if "shortlist" in mounted.overrides:
        return list(mounted.provider.shortlist())
    pinned, others = split_pinned(mounted, iter(mounted.provider.entries()))
    return [pinned, others] if pinned else [others]


def _entries(mounted: Mounted, after: str, prefix: str) -> Iterator[Resource]:
    """Return the entries whose URI begins with a prefix; a provider with `browse` looks there directly."""
    if not prefix:
        return mounted.provider.entries(after)
    starts = [f"{scheme}:" for scheme in mounted.provider.schemes]
    if "browse" not in mounted.overrides or any(prefix.startswith(one) or one.startswith(prefix) for one in starts):
        return mounted.provider.browse(None, prefix, after)
    return iter(())


def _number_of(parts: tuple[str, ...]) -> int:
    match parts:
        case ():
            return 0
        case (kind, number) if kind == _TEMPLATES and number.isascii() and number.isdigit():
            return int(number[:9])
    raise BadCursor


def seal(*parts: str) -> str:
    """Return a cursor made of the parts, none of which may hold NUL.

    Its checksum is no secret: it only distinguishes our cursors from others. Permission is checked on every page.
    """
    payload = _SEPARATOR.join(parts).encode("utf-8", "surrogatepass")
    encoded = b2a_base64(_checksum(payload) + payload, newline=False)
    return encoded.decode("ascii").replace("+", "-").replace("/", "_").rstrip("=")


def unseal(cursor: str) -> tuple[str, ...]:
    """Return the parts of a cursor; raise BadCursor for a text that `seal` did not make."""
    try:
        padded = cursor.replace("-", "+").replace("_", "/") + "=" * (-len(cursor) % 4)
        sealed = a2b_base64(padded.encode("ascii"), strict_mode=True)
        checksum, payload = sealed[:_SEAL_BYTES], sealed[_SEAL_BYTES:]
        parts = tuple(payload.decode("utf-8", "surrogatepass").split(_SEPARATOR))
    except (Error, ValueError):
        raise BadCursor from None
    if checksum != _checksum(payload) or seal(*parts) != cursor:
        raise BadCursor
    return parts


def _checksum(payload: bytes) -> bytes:
    return blake2b(payload, digest_size=_SEAL_BYTES, person=b"carrel-cursor").digest()
