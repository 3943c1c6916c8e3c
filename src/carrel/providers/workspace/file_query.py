"""The query of a file or a folder: a part of it, or its history."""

from collections.abc import Sequence
from typing import Annotated, Final

from carrel.core.arguments import Argument, Arguments
from carrel.core.content import parse_number
from carrel.core.line_ranges import parse as parse_lines
from carrel.core.model import Range
from carrel.core.record import Value
from carrel.core.uri import split_query
from carrel.files.file_types import Kind
from carrel.providers.workspace import paths
from carrel.providers.workspace.file_source import LineSource, find_lines

FILE_KEYS: Final = ("start", "length", "lines")
FOLDER_KEYS: Final = ("after",)
HISTORY_KEYS: Final = ("at", "diff", "blame", "log")
"""Query parameters that ask for git's history."""
WHOLE: Final[tuple[Range | None, dict[str, object]]] = (None, {})


class FileQuery(Value, frozen=True):
    """A part of a file, the child of a folder to continue after, or a question about git's history."""

    start: str | None = None
    length: str | None = None
    lines: Annotated[str, Argument(examples=["10-50"])] | None = None
    after: str | None = None
    at: str | None = None
    diff: str | None = None
    blame: str | None = None
    log: str | None = None
    skip: str | None = None
    format: str | None = None


FILE_QUERY: Final = Arguments(FileQuery)
NO_QUERY: Final = FileQuery()


def asks_for_history(query: FileQuery) -> bool:
    """Return whether git's history is asked for."""
    return query != NO_QUERY and any(getattr(query, name) is not None for name in HISTORY_KEYS)


def wanted_part(query: FileQuery, uri: str, source: LineSource, kind: Kind) -> tuple[Range, dict[str, object]]:
    """Return the byte range that a query requests, and the metadata of lines."""
    given = checked(query, FILE_KEYS, uri)
    lines = query.lines
    if lines is None:
        start = parse_number("start", given.get("start", "0"))
        return Range(start, None if query.length is None else parse_number("length", query.length)), {}
    if len(given) > 1:
        raise paths.invalid("lines", lines, "not together with start or length", uri)
    first, last = parse_lines(lines)
    if not kind.is_text:
        raise paths.invalid("lines", lines, "only text has lines", uri)
    return find_lines(source, kind.encoding, first, last, split_query(uri)[0])


def given_in(query: FileQuery) -> dict[str, str]:
    """Return the parameters that were given."""
    return {name: value for name in query.__struct_fields__ if (value := getattr(query, name)) is not None}


def checked(query: FileQuery, known: Sequence[str], uri: str) -> dict[str, str]:
    """Return the given parameters; raise for one that is not in `known`: files and folders have different ones."""
    given = given_in(query)
    for name, value in given.items():
        if name not in known:
            raise paths.invalid(name, value, f"expected {' or '.join(known)}", uri)
    return given
