"""The address of a URI's page, on this server: that of plain HTTP, `/{scheme}/{rest}`.

A URI that this form cannot hold, such as one with `..`, is at `/-/read?uri=`. The data of a page is beside it: `.json`
and `.md` are appended to the path.
"""

import re
from collections.abc import Callable
from typing import Final

from carrel.core.errors import BadArgument
from carrel.core.hierarchy import is_root, parent_of
from carrel.core.printable import printable_line
from carrel.core.uri import PATH_SAFE, QUERY_SAFE, decode_loosely, quote, scheme_of, split_query

_DOTS: Final = re.compile(r"(?:^|/)(?:\.|%2e){1,2}(?=/|$)", re.IGNORECASE)
_HEAD: Final = re.compile(r"[a-z][a-z0-9+.-]*")

HasNoAuthority = Callable[[str], bool]
"""Returns whether the URIs of a scheme begin with three slashes."""


class Addresses:
    """Turns URIs into addresses of pages."""

    def __init__(self, has_no_authority: HasNoAuthority) -> None:
        self._has_no_authority = has_no_authority

    def root(self, scheme: str) -> str:
        """Return the URI of the folder that holds everything of a scheme."""
        return f"{scheme}:///" if self._has_no_authority(scheme) else f"{scheme}://"

    def page(self, uri: str, twin: str = "") -> str:
        """Return the address of a URI's page, or of its data with `.json` or `.md`."""
        path, query = split_query(uri)
        try:
            scheme = scheme_of(path)
        except BadArgument:
            return address_about("read", uri, twin)
        start = self.root(scheme)
        rest = path[len(start) :]
        if not path.startswith(start) or "#" in uri or _DOTS.search(rest) or scheme == "-":
            return address_about("read", uri, twin)
        spelled = f"/{scheme}/{quote(rest, PATH_SAFE + '%')}{twin}"
        return f"{spelled}?{quote(query, PATH_SAFE + '%?&=')}" if query else spelled

    def crumbs(self, uri: str) -> list[tuple[str, str]]:
        """Return the name and the address of each folder above a URI, and of the URI itself."""
        crumbs: list[tuple[str, str]] = []
        here = uri.rstrip("/") if not is_root(uri) else uri
        while not is_root(here):
            crumbs.append((name_in(here), self.page(here)))
            here = parent_of(here)
        return [(here, self.page(here)), *reversed(crumbs)]


def address_about(page: str, uri: str, twin: str = "") -> str:
    """Return the address of a page about a URI, such as `/-/explain?uri=`."""
    return f"/-/{page}{twin}?uri={quote(uri.encode('utf-8', 'replace').decode(), QUERY_SAFE)}"


def name_in(uri: str) -> str:
    """Return the last name in a URI without a query, as people read it."""
    return _shown(decode_loosely(uri.rstrip("/").rpartition("/")[2]))


def title_of(uri: str) -> str:
    """Return the title of the page of a URI without a query: its last name, after that of its `alc` package."""
    if is_root(uri):
        return uri
    is_part = uri.startswith("alc://packages/") and uri.strip("/").count("/") > 3
    return f"{name_in(parent_of(uri))}/{name_in(uri)}" if is_part else name_in(uri)


def short_name(name: str, folder: str) -> str:
    """Return the name of a child without that of its folder, such as `jwt` for `failure/jwt` in `sage://failure`."""
    rest = name.removeprefix(f"{name_in(folder)}/") or name
    return _shown(rest)


def _shown(name: str) -> str:
    """Return a name in one line; one that nobody could see, such as a space, as in a URI."""
    is_seen = any(one.isprintable() and not one.isspace() for one in name)
    return printable_line(name if is_seen else quote(name.encode("utf-8", "replace").decode()))
