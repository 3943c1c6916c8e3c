"""The outline of any text: which module reads it, and how it is written in few tokens.

Above `FREE_LINES` an outline costs at most a tenth of its text, below at most a third. Where it would cost more, inner
rows go first, then signatures, then private names, then the smallest definitions; the last line says how many rows are
missing.
"""

from collections.abc import Callable, Sequence
from typing import Final

from carrel.core.tokens import JOINT, estimate_tokens
from carrel.core.uri import split_query
from carrel.outline import languages
from carrel.outline.part_notes import counted
from carrel.outline.rows import FUNCTIONS, MAX_ROWS, Row, TextOutline

MAX_SOURCE: Final = 1 << 20
"""Bytes of a text that is outlined; a log may have more."""
MAX_LOG: Final = 8 << 20
FREE_LINES: Final = 300
"""Maximum lines of a short text, whose outline may be a larger part of it."""
SHARE: Final = 10
_SHARE_OF_SHORT: Final = 3
_LEAST_OF_SHORT: Final = 300
_LEAST: Final = 60
"""Tokens that an outline may always cost: its head and its last line."""
_DATA: Final = {"json": "JSON", "jsonc": "JSON", "json5": "JSON", "arb": "JSON", "webmanifest": "JSON"}
_YAML: Final = frozenset({"yaml", "yml"})
_MARKDOWN: Final = frozenset({"md", "markdown", "mdx"})
_LOGS: Final = frozenset({"log", "out", "err"})


def outline_of(text: str, name: str, mime_type: str = "") -> TextOutline:
    """Return the outline of a text, by its name and type; one without an outline says why in its note."""
    suffix = languages.suffix_of(name, mime_type, text[:200].partition("\n")[0])
    language = languages.of_suffix(suffix)
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_SOURCE and (language or size > MAX_LOG):
        title = language.name if language else "text"
        return TextOutline(title, note=f"it has {size:,} bytes, more than the {MAX_SOURCE:,} that are outlined")
    if language is not None:
        from carrel.outline.code import outline_code

        return outline_code(text.encode("utf-8", "replace"), language)
    return _other_outline(text, suffix)


def _other_outline(text: str, suffix: str) -> TextOutline:
    """Return the outline of a text that is not code."""
    lines = lines_of(text)
    if suffix in _MARKDOWN:
        from carrel.outline.markdown import headings

        return _noted("Markdown", headings(lines), "it has no headings")
    if suffix in _DATA or suffix in _YAML or suffix == "toml":
        from carrel.outline import data

        if suffix in _DATA:
            return _noted("JSON", data.json_keys(text), "it has no keys")
        if suffix in _YAML:
            return _noted("YAML", data.yaml_keys(lines), "it has no keys")
        return _noted("TOML", data.toml_keys(lines), "it has no keys")
    from carrel.outline import log

    if suffix in _LOGS or (suffix in ("", "txt", "text") and log.looks_like_log(lines)):
        return _noted("log", log.events(lines), "no errors and no warnings are in it")
    if suffix in ("", "txt", "text"):
        return TextOutline("text", note="plain text has no outline")
    known = ", ".join(dict.fromkeys(one.name for one in languages.LANGUAGES))
    note = f"no outline is known for .{suffix} files (known: {known}, Markdown, JSON, YAML, TOML, logs)"
    return TextOutline("text", note=note)


def refuse_size(uri: str, size: int) -> str:
    """Return the note about a text that is too large to be read whole."""
    first = f"{_mark(uri)}start=0&length=65536"
    why = f"more than {MAX_LOG} bytes are not outlined"
    return f"{uri} ({size} bytes)\nNo outline: {why}. Read {first} for its beginning.\n"


def _noted(title: str, rows: Sequence[Row], otherwise: str) -> TextOutline:
    most = f"only the first {MAX_ROWS:,} parts are outlined" if len(rows) >= MAX_ROWS else ""
    return TextOutline(title, tuple(rows), most if rows else otherwise)


def lines_of(text: str) -> list[str]:
    """Return the lines as `?lines=` counts them: they end at a line feed, and nowhere else."""
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def render(
    outline: TextOutline,
    uri: str,
    text: str,
    budget: int | None = None,
    *,
    is_all: bool = False,
    cost: int | None = None,
) -> str:
    """Return an outline as text, each line with the part of the URI that reads it.

    It costs at most `budget` tokens, or else a tenth of a text that is long; with `is_all`, nothing is left out.
    `cost` are the tokens of the text, if they are known.
    """
    count, tokens = len(lines_of(text)), estimate_tokens(text) if cost is None else cost
    head = f"{uri} ({outline.title}, {counted(count, 'line')}, {counted(tokens, 'token')})"
    if not outline.rows:
        step = min(count, FREE_LINES // 3)
        advice = f" Read {_reads(uri, 1, step)} for its first {'line' if step == 1 else 'lines'}." if count else ""
        return f"{head}\nNo outline: {outline.note}.{advice}\n"
    if budget is None and not is_all:
        budget = max(_LEAST, tokens // SHARE) if count > FREE_LINES else max(_LEAST_OF_SHORT, tokens // _SHARE_OF_SHORT)
    room = None if budget is None else budget - estimate_tokens(head) - 2 * JOINT
    notes = [] if not outline.note else [f"[{outline.note}]"]
    body = _fitting(outline.rows, uri, room)
    return "\n".join([head, *body, *notes]) + "\n"


def _fitting(rows: Sequence[Row], uri: str, room: int | None) -> list[str]:
    """Return the lines of as many rows as fit, and a last line that says what is missing."""
    ways: tuple[tuple[Callable[[Row], bool], bool], ...] = (
        (lambda _row: True, True),
        (lambda row: not row.is_inner, True),
        (lambda row: not row.is_inner, False),
        (lambda row: not row.is_inner and not row.is_private, False),
    )
    for keeps, is_spelled in ways:
        kept = [row for row in rows if keeps(row)]
        lines = _lines(kept, uri, is_spelled=is_spelled, missing=len(rows) - len(kept))
        if room is None or (kept and estimate_tokens("\n".join(lines)) <= room):
            return lines
    return _largest([row for row in rows if not row.is_private] or list(rows), len(rows), uri, room or 0)


def _largest(rows: Sequence[Row], total: int, uri: str, room: int) -> list[str]:
    """Return the lines of the outermost and largest definitions that fit."""
    by_weight = sorted(rows, key=lambda row: (row.is_inner, row.depth, row.first - row.last))
    left = room - estimate_tokens(_missing(total, uri)) - JOINT
    kept: list[Row] = []
    for row in by_weight:
        left -= estimate_tokens(_line(row, uri, is_spelled=False)) + 1
        if left < 0:
            break
        kept.append(row)
    kept.sort(key=lambda row: (row.first, row.depth))
    return _lines(kept, uri, is_spelled=False, missing=total - len(kept))


def _lines(rows: Sequence[Row], uri: str, *, is_spelled: bool, missing: int) -> list[str]:
    lines = [_line(row, uri, is_spelled=is_spelled) for row in rows]
    if missing or not is_spelled:
        lines.append(_missing(missing, uri))
    return lines


def _missing(count: int, uri: str) -> str:
    """Return the last line of an outline that does not show everything."""
    what = f"{count} more" if count else "the signatures"
    return f"[{what}: {_mark(uri)}outline=all]"


def _line(row: Row, uri: str, *, is_spelled: bool) -> str:
    if is_spelled or row.kind in ("heading", "key", "error", "warning"):
        text = row.signature if is_spelled else row.name
    else:
        text = f"{row.name}()" if row.kind in FUNCTIONS else f"{row.kind} {row.name}"
    return f"{' ' * row.depth}{text} {_reads(uri, row.first, row.last)}"


def _reads(uri: str, first: int, last: int) -> str:
    """Return what is appended to the URI to read some lines."""
    return f"{_mark(uri)}lines={first}-{last}" if last != first else f"{_mark(uri)}lines={first}"


def _mark(uri: str) -> str:
    return "?" if split_query(uri)[1] is None else "&"
