"""Workspace URIs as paths below a root, and back. Nothing here reads the disk.

The canonical form is `workspace:///` and the path, or `workspace://@name/` and the path in a named root. Other
spellings are accepted, because hosts and URL libraries drop slashes and `@`.
"""

import re
from collections.abc import Collection, Iterable
from itertools import islice
from typing import Final

from carrel.core.errors import BadArgument, Denied, echo
from carrel.core.limits import MAX_COMPLETIONS, MAX_URI_LENGTH
from carrel.core.model import Completion
from carrel.core.record import Value
from carrel.core.uri import SEGMENT_SAFE, decode, is_text, quote, scheme_of, split_query

SCHEME: Final = "workspace"
_OF_URI: Final = {"parameter": "uri"}
MAIN: Final = "workspace:///"
EVERY: Final = "workspace://"
"""The beginning of the URIs of all roots."""
KEY_SAFE: Final = SEGMENT_SAFE + "/"
"""The sort key of a folder ends with `/`."""
REASONS: Final = {
    "outside": "outside the workspace",
    "deny": "may hold secrets",
    "hidden": "hidden",
    "ignored": "ignored by git",
    "type": "not an allowed file type",
    "special": "not a regular file",
    "os": "no permission",
}
"""Why a URI is refused, in words."""
OWN_DENY: Final = "denied by [workspace] deny"
NO_VALUES: Final = Completion((), total=0, has_more=False)
_ENOUGH: Final = MAX_COMPLETIONS + 1

_PLAIN: Final = re.compile(r"workspace:///[A-Za-z0-9_~!$&'()*+,;=:@-][A-Za-z0-9._~!$&'()*+,;=:@/-]*+")
"""Most canonical URIs, with nothing to decode."""

Segments = tuple[str, ...]


class Target(Value, frozen=True):
    """The meaning of a workspace URI: a root, and a path below it.

    `is_guess` if the first name looks like that of a root, and there is no such root.
    """

    uri: str
    root: str
    segments: Segments
    is_folder: bool = False
    is_guess: bool = False


def parse(uri: str, roots: Collection[str]) -> Target:
    """Return the target of a URI; `roots` are the names of the further roots."""
    if _is_plain(uri):
        return Target(uri, "", tuple(uri[len(MAIN) :].split("/")))
    try:
        return _parse(uri, roots)
    except BadArgument as error:
        raise BadArgument(f"Invalid parameter: uri={echo(uri)} ({error.message})", uri=uri, data=_OF_URI) from None


def _is_plain(uri: str) -> bool:
    """Return whether a URI is canonical, and has nothing to decode."""
    is_plain = _PLAIN.fullmatch(uri) is not None and len(uri) <= MAX_URI_LENGTH
    return is_plain and uri[-1] != "/" and "/." not in uri and "//" not in uri[len(MAIN) :]


def respell(uri: str, roots: Collection[str]) -> str:
    """Return a URI in its canonical form, with the query as sent; dots and empty names are left out."""
    if _is_plain(uri):
        return uri
    scheme_of(uri)
    target = parse(uri, roots)
    query = split_query(uri)[1]
    spelled = canonical(target.root, target.segments) + "/" * target.is_folder
    return spelled if query is None else f"{spelled}?{query}"


def target_of(uri: str, root: str, path: str) -> Target:
    """Return the target of a URI that was respelled as `path` below `root`."""
    segments = tuple(path.removesuffix("/").split("/")) if path else ()
    rest = uri.partition(":")[2]
    is_guess = path.startswith("@") and not root and rest.startswith("//") and not rest.startswith("///")
    return Target(uri, root, segments, path.endswith("/"), is_guess)


def _parse(uri: str, roots: Collection[str]) -> Target:
    scheme_of(uri)
    if "#" in uri:
        raise BadArgument("a # in a name is written %23")
    rest = split_query(uri)[0].partition(":")[2]
    path = rest.removeprefix("/").removeprefix("/").removeprefix("/")
    names = [decode(part) for part in path.split("/")]
    root = _root_of(names[0], roots) if len(rest) - len(path) == 2 else None
    if root is not None:
        del names[0]
    if any(name == ".." or "/" in name or "\\" in name for name in names):
        raise denied(uri, "outside")
    segments = tuple(name for name in names if name not in ("", "."))
    is_guess = root is None and len(rest) - len(path) == 2 and names[0].startswith("@")
    return Target(uri, root or "", segments, bool(segments) and names[-1] in ("", "."), is_guess)


def _root_of(name: str, roots: Collection[str]) -> str | None:
    root = name.removeprefix("@")
    return root if root and root in roots else None


def parse_folder(text: str) -> Segments:
    """Return the names in a folder's path below the root, as people write it, without encoding."""
    if not is_text(text):
        raise invalid("directory", text, "a path or a workspace URI")
    segments = tuple(name for name in text.split("/") if name not in ("", "."))
    if ".." in segments or "\\" in text:
        raise denied(text, "outside")
    return segments


def canonical(root: str, segments: Segments | list[str]) -> str:
    """Return the canonical URI of a path below a root."""
    return prefix_of(root) + "/".join([quote(name) for name in segments])


def prefix_of(root: str, folder: Segments = ()) -> str:
    """Return the beginning of all URIs below a folder."""
    return (f"{EVERY}@{root}/" if root else MAIN) + "".join([f"{quote(name)}/" for name in folder])


def split_typed(value: str) -> tuple[str, str]:
    """Return the folder, with a closing `/`, and the beginning of a name in a path that is being typed."""
    begun = value.rpartition("/")[2]
    return value[: len(value) - len(begun)], begun


def completion(folder: str, children: Iterable[tuple[str, bool]]) -> Completion:
    """Return the paths of a folder's children, given by name and whether each is a folder; a folder ends with `/`."""
    found = [f"{folder}{name}/" if is_folder else folder + name for name, is_folder in islice(children, _ENOUGH)]
    has_more = len(found) == _ENOUGH
    return Completion(tuple(found[:MAX_COMPLETIONS]), None if has_more else len(found), has_more)


def denied(uri: str, reason: str, words: str = "") -> Denied:
    """Return the error for a refused URI; it does not depend on whether the file exists."""
    words = words or REASONS[reason]
    return Denied(f"Access denied: {echo(uri)} ({words})", reason=reason, explanation=words, uri=uri)


def invalid(name: str, value: str, expected: str, uri: str | None = None) -> BadArgument:
    """Return the error for an invalid parameter."""
    message = f"Invalid parameter: {echo(name)}={echo(value)} ({expected})"
    return BadArgument(message, uri=uri, data={"parameter": name})
