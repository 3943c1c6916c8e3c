"""What a caller may have meant: the URI of a path, and the URIs nearest to one that does not exist."""

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import chain, islice
from posixpath import normpath
from time import monotonic
from typing import Final
from weakref import WeakKeyDictionary

from carrel.catalog import access
from carrel.catalog.catalog import Catalog
from carrel.core.errors import BadArgument, CarrelError, NotFound, RequestError, UnknownScheme, echo
from carrel.core.uri import PATH_SAFE, decode_loosely, pairs, quote, split_query

FILES: Final = "workspace"
"""The scheme under which a path is looked for."""
MOST_NAMED: Final = 3
MOST_COMPARED: Final = 5_000
"""Maximum number of URIs that a wrong one is compared with: as many as a long page of the list."""

_OTHERS_COMPARED: Final = 1_000
"""How many of them may belong to other schemes."""

LISTED_S: Final = 1.0
"""Seconds for which the URIs of a list are used again: a client that guesses asks many times in a row."""
_listed: Final[WeakKeyDictionary[Catalog, tuple[float, str, list[str]]]] = WeakKeyDictionary()
"""When the URIs to compare with were listed, for which scheme, and the URIs; only those of unlimited callers."""

MOST_CHARACTERS: Final = 48
"""Characters of a name that are compared: the price grows with their square, and the names may be a stranger's."""

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*+:")
_MENTION: Final = re.compile(r"^@(?:carrel:(?=[A-Za-z][A-Za-z0-9+.-]*+:))?")
_QUERY_NAMES: Final = frozenset("start length lines outline budget after at diff blame log skip format".split())
"""The parameters of files and folders, which need no value in a path."""
_CLOSE: Final = 0.65
_MOST_ORDERED: Final = 300
"""Characters of a URI that decide which of those with like names comes first."""


def has_scheme(text: str) -> bool:
    """Return whether a text begins as a URI does."""
    return _SCHEME.match(text) is not None


def mentioned(text: str) -> str:
    """Return the URI of a mention such as `@sage://system/objective.md` or `@carrel:sage://…`; else the text."""
    bare = _MENTION.sub("", text)
    return bare if has_scheme(bare) else text


def as_uri(text: str) -> str:
    """Return a URI as it is, without the `@` of a mention; a path as the URI of that file or folder."""
    uri = mentioned(text)
    if has_scheme(uri):
        return f"{FILES}:///{uri[8:]}" if uri[:8].lower() == "file:///" else uri
    path, query = _split(text)
    slash = "/" if path.endswith(("/", "/.")) else ""
    plain = normpath(path).lstrip("/") if path else ""
    plain = "" if plain == "." else quote(plain, PATH_SAFE) + slash
    return f"{FILES}:///{plain}{f'?{query}' if query else ''}"


def _split(text: str) -> tuple[str, str]:
    """Cut off a query of known names, or of names with values, which may be misspelt. Any other `?` is in a name."""
    path, query = split_query(text)
    with suppress(BadArgument):
        if query and all(name in _QUERY_NAMES or (value and name.isidentifier()) for name, value in pairs(query)):
            return path, query
    return text, ""


def near(uri: str, known: Iterable[str], is_read: Callable[[str], bool] = lambda _: True) -> list[str]:
    """Return the known URIs, or folders of them, that are nearest to one that does not exist: at most three.

    In place of a folder that cannot be read, what it holds is returned.
    """
    from difflib import SequenceMatcher, get_close_matches  # only for mistakes

    named: dict[str, list[str]] = {}
    bare = split_query(uri)[0]
    listed = list(islice(known, MOST_COMPARED))
    for one in _with_folders(listed):
        if one != bare:  # a list may name what can no longer be read
            named.setdefault(_name(one), []).append(one)
    wanted, scheme = _name(uri), f"{uri.partition(':')[0].lower()}:"
    names = [wanted] if wanted in named else get_close_matches(wanted, named, MOST_NAMED, _CLOSE)
    found = dict.fromkeys(one for name in names for one in named[name] if one != uri)  # listed, but not readable
    likeness = SequenceMatcher(b=split_query(uri)[0][:_MOST_ORDERED])

    def order(one: str) -> tuple[bool, int, float]:
        likeness.set_seq1(one[:_MOST_ORDERED])
        return not one.startswith(scheme), names.index(_name(one)), -likeness.ratio()

    best = sorted(islice(found, 20 * MOST_NAMED), key=order)[:MOST_NAMED]
    read = ([one] if one in listed or is_read(one) else _held(one, listed) for one in best)
    return list(dict.fromkeys(chain.from_iterable(read)))[:MOST_NAMED]


def question(found: Sequence[str]) -> str:
    """Return a question that names URIs which may have been meant."""
    return f"did you mean {' or '.join(found)}?" if found else ""


def nearest(catalog: Catalog, uri: str) -> list[str]:
    """Return URIs that the caller may read and that are spelled much like one that does not exist."""

    def is_read(folder: str) -> bool:
        with suppress(CarrelError):
            return catalog.find(folder).route is not None
        return False

    with suppress(CarrelError):
        return near(uri, _known(catalog, uri.partition(":")[0].lower()), is_read)
    return []


def _known(catalog: Catalog, scheme: str) -> list[str]:
    """Return the URIs with which a wrong one is compared: most of them of its own scheme."""
    if not access.is_unlimited():
        return _list_uris(catalog, scheme)
    listed_at, listed_for, uris = _listed.get(catalog, (0.0, "", []))
    if listed_for != scheme or monotonic() - listed_at > LISTED_S:
        uris = _list_uris(catalog, scheme)
        _listed[catalog] = (monotonic(), scheme, uris)
    return uris


def _list_uris(catalog: Catalog, scheme: str) -> list[str]:
    same = (entry.uri for entry in catalog.entries(scheme))
    # Not the whole list: before the entries of other schemes, it may have a hundred thousand of this one.
    elsewhere = [one.provider.schemes[:1] for one in catalog.visible() if scheme not in one.provider.schemes]
    others = (entry.uri for other in dict.fromkeys(chain(*elsewhere)) for entry in catalog.entries(other))
    return [*islice(same, MOST_COMPARED - _OTHERS_COMPARED), *islice(others, _OTHERS_COMPARED)]


def with_advice(catalog: Catalog, error: RequestError) -> RequestError:
    """Return an error about a URI with what may have been meant: similar URIs, or the schemes that are served.

    A system whose document fixes the text of an error keeps it.
    """
    if isinstance(error, UnknownScheme):
        served = [one for one in catalog.visible() if one.routes or one.claims]
        schemes = sorted({f"{scheme}://" for one in served for scheme in one.provider.schemes})
        first = next((entry.uri for entry in catalog.entries()), "")
        example = f"; for example {echo(first)}" if first else ""
        return UnknownScheme(error.uri or "", f"served here: {', '.join(schemes)}{example}") if schemes else error
    if isinstance(error, NotFound) and error.message == f"Resource not found: {echo(error.uri or '')}":
        found = nearest(catalog, error.uri or "")
        if found:
            message = f"{error.message}; {question(found)}"
            return NotFound(error.uri or "", message, data={**error.data, "nearest": found}, code=error.code)
    return error


def _held(folder: str, uris: Iterable[str]) -> list[str]:
    """Return the first URIs below a folder."""
    return list(islice((uri for uri in uris if uri.startswith(folder)), MOST_NAMED))


def _with_folders(uris: Iterable[str]) -> Iterable[str]:
    """Yield URIs, each folder before what it holds."""
    seen: set[str] = set()
    for uri in uris:
        folder = uri.rpartition("/")[0] + "/"
        if folder not in seen and not folder.endswith("//"):
            seen.add(folder)
            yield folder
        yield uri


def _name(uri: str) -> str:
    """Return the last name in a URI, in lower case, as people write it."""
    return decode_loosely(split_query(uri)[0].rstrip("/").rpartition("/")[2]).lower()[:MOST_CHARACTERS]
