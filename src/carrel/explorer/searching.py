"""The page of a search over the whole desk. Its parameters are those of `/-/search`, and `scheme` and `path`."""

from collections.abc import Mapping, Sequence
from typing import Final

from carrel.core.errors import NotFound, RequestError
from carrel.core.uri import QUERY_SAFE, pairs, quote, with_query
from carrel.explorer.addresses import Addresses
from carrel.explorer.leaves import Leaf
from carrel.explorer.rendering.markup import Html, escape
from carrel.search import rendering, requests
from carrel.server.server import Server

_BUDGET: Final = 12_000
"""Tokens of one page of hits: a person gets more at once than a model."""
_FAR: Final = 400
"""Lines that are certainly in the first part of a text."""
_BEFORE: Final = 40
_AFTER: Final = 400
_OWN: Final = frozenset({"scheme", "path"})


class SearchPage:
    """Makes the pages of searches."""

    def __init__(self, server: Server, addresses: Addresses) -> None:
        self._server = server
        self._addresses = addresses

    def leaf(self, raw_query: bytes) -> Leaf:
        """Return the hits of a query; for an invalid query, the reason."""
        given = pairs(raw_query.replace(b"+", b"%20").decode("utf-8", "replace"))
        wanted = {name: value for name, value in given if value}
        query, scheme, path = wanted.get("q", ""), wanted.get("scheme", wanted.get("in", "")), wanted.get("path", "")
        view: dict[str, object] = {
            "query": query,
            "scheme": scheme,
            "path": path,
            "schemes": self._schemes(),
            "crumbs": [],
        }
        address = raw_query.decode("latin-1")
        json, md = (f"/-/search{twin}?{address}" if address else f"/-/search{twin}" for twin in (".json", ".md"))
        problem, status, data = "", 200, _NOTHING
        if query.strip():
            try:
                data = self._found(wanted, query, scheme, path)
            except RequestError as error:
                problem, status = error.message, 400
                data = {"hits": [], "total": 0, "next": None, "error": error.message}
        view |= {"problem": problem, "hits": [self._hit(hit) for hit in _list(data["hits"])]}
        view["next_address"] = self._next(wanted, data)
        model = with_query(rendering.RESOURCE, q=_filtered(query, path), **({"in": scheme} if scheme else {}))
        title = f"{query} – search" if query else "Search"
        is_asked = query.strip() and not problem
        return Leaf("search", title, data, json, md, view, status=status, model=model if is_asked else "")

    def _found(self, wanted: Mapping[str, str], query: str, scheme: str, path: str) -> dict[str, object]:
        if self._server.search is None:
            raise NotFound("/-/search", "There is no search here: it is turned off in the configuration")
        rest = [(name, value) for name, value in wanted.items() if name not in _OWN | {"q", "in"}]
        if "budget" not in wanted:
            rest.append(("budget", str(_BUDGET)))
        asked = requests.from_query([("q", _filtered(query, path)), *([("in", scheme)] if scheme else []), *rest])
        return rendering.as_json(self._server.search.opened().search(asked.request()), asked)

    def _schemes(self) -> list[str]:
        visible = self._server.catalog.visible()
        return sorted({scheme for one in visible if one.routes or one.claims for scheme in one.provider.schemes})

    def _hit(self, hit: Mapping[str, object]) -> dict[str, object]:
        """Return a hit for the page: its address leads to the line that matches best."""
        uri = str(hit["uri"])
        lines = _list(hit.get("lines", ()))
        best = max(lines, key=lambda line: sum(end - start for start, end in _marks(line)), default=None)
        bare = uri.partition("?")[0]
        address = self._addresses.page(bare)
        line = hit.get("startLine") or (best["line"] if best else None)
        return {
            "uri": uri,
            "name": bare,
            "address": self._line_address(bare, line) if isinstance(line, int) else address,
            "said": hit.get("definition") or ("" if bare.endswith(str(hit.get("title", ""))) else hit["title"]),
            "tokens": hit.get("tokens"),
            "lines": [
                (one["line"], self._line_address(bare, one["line"]), _marked(str(one["text"]), _marks(one)))
                for one in lines
            ],
        }

    def _line_address(self, uri: str, line: object) -> str:
        """Return the address of a line; if it is far down, in the part of the text around it."""
        if isinstance(line, int) and line > _FAR:
            uri = with_query(uri, lines=f"{line - _BEFORE}-{line + _AFTER}")
        return f"{self._addresses.page(uri)}#L{line}"

    def _next(self, wanted: Mapping[str, str], data: Mapping[str, object]) -> str:
        following = data.get("next")
        if not isinstance(following, str) or "after=" not in following:
            return ""
        after = next((value for name, value in pairs(following.partition("?")[2]) if name == "after"), "")
        asked = {**wanted, "after": after}
        return "/-/search?" + "&".join(f"{name}={quote(value, QUERY_SAFE)}" for name, value in asked.items())


_NOTHING: Final[dict[str, object]] = {"hits": [], "total": 0, "next": None}


def _filtered(query: str, path: str) -> str:
    """Return a query with the filter by path in it, where the query cannot swallow it.

    It has no quotation marks: they end the value of a filter.
    """
    value = path.replace('"', "").strip()
    return f'path:"{value}" {query}' if value else query


def _list(value: object) -> Sequence[dict[str, object]]:
    return value if isinstance(value, list) else ()


def _marks(line: Mapping[str, object]) -> list[tuple[int, int]]:
    found = line.get("marks")
    return [(int(start), int(end)) for start, end in found] if isinstance(found, list) else []


def _marked(text: str, marks: Sequence[tuple[int, int]]) -> Html:
    """Return a line with what matches marked."""
    parts: list[str] = []
    at = 0
    for start, end in sorted(marks):
        if start >= at:
            parts += [escape(text[at:start]), f"<mark>{escape(text[start:end])}</mark>"]
            at = end
    return Html("".join([*parts, escape(text[at:])]))
