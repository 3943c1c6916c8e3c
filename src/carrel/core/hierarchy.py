"""Folders of URIs: what lies directly below one, found from the URIs that are listed.

A folder's URI has no closing `/`; only the root of a scheme ends with its slashes, as `logs://` or `workspace:///`.
"""

from collections.abc import Iterable, Sequence

from carrel.core.errors import BadArgument, echo
from carrel.core.model import FOLDER_TYPE, Resource
from carrel.core.record import replace
from carrel.core.uri import decode_loosely, normalise, split_query

_MAX_SLASHES = 3


class NotAFolder(BadArgument):
    """The URI is not a folder: nothing lies below it."""

    def __init__(self, uri: str) -> None:
        bare, query = split_query(uri)
        advice = f" (read a URI with a query with resources/read, or list {echo(bare)})" if query else ""
        super().__init__(f"Not a folder: {echo(uri)}{advice}", uri=uri, data={"parameter": "uri"})


def folder_of(uri: str) -> str:
    """Return a folder's URI in its usual spelling; raise `NotAFolder` if it has a query or a fragment."""
    if "?" in uri or "#" in uri:
        raise NotAFolder(uri)
    scheme, _, rest = uri.partition(":")
    path = rest.lstrip("/")
    slashes = min(len(rest) - len(path), _MAX_SLASHES)
    return f"{scheme.lower()}:{'/' * slashes}{path.rstrip('/')}"


def parent_of(uri: str) -> str:
    """Return the folder that holds a URI; for a root, the root itself."""
    scheme, _, rest = split_query(uri)[0].partition(":")
    path = rest.lstrip("/")
    root = f"{scheme}:{rest[: len(rest) - len(path)]}"
    return root + path.rstrip("/").rpartition("/")[0]


def start_of(folder: str) -> str:
    """Return the beginning of every URI below a folder."""
    return folder if folder.endswith(("/", ":")) else f"{folder}/"


def is_root(folder: str) -> bool:
    """Return whether a folder is the root of its scheme."""
    return not folder.partition(":")[2].strip("/")


def folder_entry(uri: str) -> Resource:
    """Return the entry of a folder within another one."""
    name = decode_loosely(uri.rstrip("/").rpartition("/")[2])
    return Resource(uri, name, mime_type=FOLDER_TYPE, sort_key=f"{uri}/")


def children_of(folder: str, entries: Iterable[Resource], folders: Sequence[str] = ()) -> list[Resource]:
    """Return the direct children of a folder in URI order; raise `NotAFolder` if nothing lies below it.

    The folders are the path prefixes of the entries, and those in `folders`, which may be empty.
    """
    listed = list(entries)
    children = _children(start_of(folder), [(entry.uri, entry) for entry in listed], folders)
    if not children:  # perhaps it is only spelled in another way
        spelled = [(normalise(entry.uri), entry) for entry in listed]
        children = _children(start_of(normalise(folder)), spelled, folders)
    if not children and folder not in folders and not is_root(folder):
        raise NotAFolder(folder)
    return children


def _children(start: str, listed: Iterable[tuple[str, Resource]], folders: Sequence[str]) -> list[Resource]:
    files: dict[str, Resource] = {}
    below: dict[str, Resource] = {}
    for uri, entry in listed:
        rest = split_query(uri)[0][len(start) :] if uri.startswith(start) else ""
        name, _, deeper = rest.partition("/")
        if name and deeper:
            below.setdefault(start + name, folder_entry(start + name))
        elif name:
            files[entry.uri] = replace(entry, sort_key=entry.uri)
    for folder in folders:
        name = folder[len(start) :].partition("/")[0] if folder.startswith(start) else ""
        if name:
            below.setdefault(start + name, folder_entry(start + name))
    for uri, entry in below.items():
        known = files.get(uri)
        files[uri] = entry if known is None else replace(known, mime_type=FOLDER_TYPE, size=None, sort_key=f"{uri}/")
    return sorted(files.values(), key=lambda one: one.sort_key)
