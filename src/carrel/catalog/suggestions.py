"""What a caller may have meant: the URI of a path, and the URIs nearest to one that does not exist."""

import re
from collections.abc import Iterable
from itertools import islice
from posixpath import normpath
from typing import Final

from carrel.core.errors import BadArgument
from carrel.core.uri import PATH_SAFE, decode_loosely, pairs, quote, scheme_of, split_query

FILES: Final = "workspace"
"""The scheme under which a path is looked for."""
MOST_NAMED: Final = 3
MOST_COMPARED: Final = 5_000
"""URIs that one is compared with, so that a mistake costs no more than a long page of the list."""

MOST_CHARACTERS: Final = 48
"""Characters of a name that are compared: the price grows with their square, and the names may be a stranger's."""

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*+:")
_QUERY_NAMES: Final = frozenset({"start", "length", "lines", "after"})
_CLOSE: Final = 0.65
_MOST_ORDERED: Final = 300
"""Characters of a URI that decide which of those with like names comes first."""


def has_scheme(text: str) -> bool:
    """Return whether a text begins as a URI does."""
    return _SCHEME.match(text) is not None


def as_uri(text: str) -> str:
    """Return a URI as it is, without the `@` of a mention; a path as the URI of that file or folder."""
    mentioned = text.removeprefix("@")
    if has_scheme(mentioned):
        is_file = mentioned[:8].lower() == "file:///"
        return f"{FILES}:///{mentioned[8:]}" if is_file else mentioned
    path, query = _split(text)
    slash = "/" if path.endswith(("/", "/.")) else ""
    plain = normpath(path).lstrip("/") if path else ""
    plain = "" if plain == "." else quote(plain, PATH_SAFE) + slash
    return f"{FILES}:///{plain}{f'?{query}' if query else ''}"


def _split(text: str) -> tuple[str, str]:
    """Cut off what is plainly a query; any other `?` belongs to a file's name."""
    path, query = split_query(text)
    try:
        is_query = query is not None and {name for name, _ in pairs(query)} <= _QUERY_NAMES
    except BadArgument:
        is_query = False
    return (path, query or "") if is_query else (text, "")


def near(uri: str, known: Iterable[str]) -> list[str]:
    """Return the known URIs, or folders of them, that are nearest to one that does not exist: at most three."""
    from difflib import SequenceMatcher, get_close_matches  # only for mistakes

    try:
        scheme = scheme_of(uri)
    except BadArgument:
        return []
    named: dict[str, list[str]] = {}
    for one in _with_folders(islice(known, MOST_COMPARED), scheme):
        named.setdefault(_name(one), []).append(one)
    wanted = _name(uri)
    names = [wanted] if wanted in named else get_close_matches(wanted, named, MOST_NAMED, _CLOSE)
    found = dict.fromkeys(one for name in names for one in named[name])
    likeness = SequenceMatcher(b=split_query(uri)[0][:_MOST_ORDERED])

    def order(one: str) -> tuple[int, float]:
        likeness.set_seq1(one[:_MOST_ORDERED])
        return names.index(_name(one)), -likeness.ratio()

    return sorted(islice(found, 20 * MOST_NAMED), key=order)[:MOST_NAMED]


def _with_folders(uris: Iterable[str], scheme: str) -> Iterable[str]:
    """Yield the URIs of a scheme, each folder before what it holds."""
    seen: set[str] = set()
    for uri in uris:
        if uri.startswith(f"{scheme}:"):
            folder = uri.rpartition("/")[0] + "/"
            if folder not in seen and not folder.endswith("//"):
                seen.add(folder)
                yield folder
            yield uri


def _name(uri: str) -> str:
    """Return the last name in a URI, in lower case, as people write it."""
    return decode_loosely(split_query(uri)[0].rstrip("/").rpartition("/")[2]).lower()[:MOST_CHARACTERS]
