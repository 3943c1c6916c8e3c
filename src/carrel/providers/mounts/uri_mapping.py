"""URIs of a mounted server as they are here: unchanged, or with `NAME+` before the scheme."""

from collections.abc import Iterable, Mapping
from typing import Final

from carrel.core.content import without_reserved
from carrel.core.errors import BadArgument, TemplateError
from carrel.core.model import Blob, Meta, Reading, Resource, Template, Text
from carrel.core.record import Value, replace
from carrel.core.template import UriTemplate
from carrel.core.uri import decode, same, scheme_of

MAX_TEXT_BYTES: Final = 4_096
_OWN_FACTS: Final = frozenset(f"dev.carrel/{word}" for word in ("etag", "status", "error", "incident"))
"""Metadata of another Carrel that this one replaces by its own."""
_URI_FACTS: Final = frozenset(f"dev.carrel/{word}" for word in ("uri", "next", "candidates"))
"""Metadata of another Carrel that contains its URIs."""


class Snapshot(Value, frozen=True):
    """The lists of a server."""

    resources: tuple[Resource, ...] = ()
    templates: tuple[Template, ...] = ()

    @property
    def schemes(self) -> frozenset[str]:
        """The schemes of everything listed."""
        uris = (*(one.uri for one in self.resources), *(one.uri_template for one in self.templates))
        return frozenset(scheme_of(uri.partition("{")[0]) for uri in uris)

    def holds(self, instance: str) -> bool:
        """Return whether entries of a certain Carrel are among them, also through other servers."""
        return any(instance == (one.meta or {}).get("dev.carrel/instance") for one in self.resources)


class Naming(Value, frozen=True):
    """How a mount spells its URIs here."""

    prefix: str

    def out(self, uri: str) -> str:
        """Return a URI or template of the server as it is spelled here."""
        return self.prefix + uri

    def back(self, uri: str) -> str:
        """Return a URI or template as the server spells it."""
        return uri[len(self.prefix) :] if uri.lower().startswith(self.prefix) else uri

    def snapshot(self, there: Snapshot, foreign: frozenset[str]) -> Snapshot:
        """Return the lists as they are spelled here, in order, without entries of a foreign scheme."""
        resources = {
            self.out(one.uri): replace(one, uri=self.out(one.uri), meta=self._meta(one.meta))
            for one in there.resources
            if scheme_of(self.out(one.uri)) not in foreign
        }
        templates = {
            self.out(one.uri_template): replace(one, uri_template=self.out(one.uri_template))
            for one in there.templates
            if scheme_of(self.out(one.uri_template).partition("{")[0]) not in foreign
        }
        return Snapshot(
            tuple(one for _, one in sorted(resources.items())), tuple(one for _, one in sorted(templates.items()))
        )

    def reading(self, given: Reading, uri: str) -> Reading:
        """Return a reading with URIs as they are spelled here; `uri` is the one that the server was asked for."""
        items = tuple(self._item(item, uri) for item in given.items if isinstance(item, Text | Blob))
        return replace(given, items=items, meta=self._meta(given.meta), cache_scope="private")

    def _item(self, item: Text | Blob, uri: str) -> Text | Blob:
        spelled = None if item.uri is None or same(item.uri, uri) else self.out(item.uri)
        return replace(item, uri=spelled, meta=self._meta(item.meta))

    def _meta(self, meta: Meta | None) -> Meta | None:
        """Return the metadata that is passed on, with URIs as they are spelled here."""
        kept: dict[str, object] = {}
        for key, value in (_allowed(meta) or {}).items():
            here = self._here(value) if key in _URI_FACTS else value
            if here is not None:
                kept[key] = here
        return kept or None

    def _here(self, value: object) -> str | list[str] | None:
        """Return a URI, or each of a list, as it is spelled here; invalid ones are left out."""
        if isinstance(value, list):
            return [self.out(uri) for uri in value if isinstance(uri, str) and is_absolute(uri)]
        return self.out(value) if isinstance(value, str) and is_absolute(value) else None


def valid_resources(given: Iterable[Resource]) -> tuple[Resource, ...]:
    """Return the entries with an absolute URI, their texts cut to a maximum length."""
    return tuple(
        replace(one, **_cut(one.name, one.description, one.title), meta=_allowed(one.meta))
        for one in given
        if is_absolute(one.uri)
    )


def valid_templates(given: Iterable[Template]) -> tuple[Template, ...]:
    """Return the templates that begin with a scheme, their texts cut to a maximum length."""
    return tuple(
        replace(one, **_cut(one.name, one.description, one.title))
        for one in given
        if is_absolute(one.uri_template.partition("{")[0])
    )


def is_absolute(uri: str) -> bool:
    """Return whether a URI may be listed."""
    try:
        return bool(scheme_of(uri)) and "#" not in uri and bool(decode(uri))
    except BadArgument:
        return False


def _cut(name: str, description: str, title: str) -> dict[str, str]:
    return {
        key: text if len(text) * 4 <= MAX_TEXT_BYTES else text.encode()[:MAX_TEXT_BYTES].decode(errors="ignore")
        for key, text in (("name", name), ("description", description), ("title", title))
    }


def _allowed(meta: Meta | None) -> Mapping[str, object] | None:
    others = without_reserved(meta) or {}
    return {key: value for key, value in others.items() if key not in _OWN_FACTS} or None


def can_be_matched(template: str) -> bool:
    """Return whether URIs can be matched with a template here."""
    try:
        return not UriTemplate(template).is_fixed
    except TemplateError:
        return False
