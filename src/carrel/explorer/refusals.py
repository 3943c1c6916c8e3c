"""Pages for what is refused: why, by which rule, and what to do next."""

from typing import Final

from carrel.core.errors import Denied, RequestError
from carrel.core.uri import split_query
from carrel.explorer.addresses import Addresses, address_about
from carrel.explorer.leaves import Leaf
from carrel.protocol import wire_errors
from carrel.transports.http.asgi import Request
from carrel.transports.http.guard import Refusal
from carrel.transports.http.plain import refusal as plain_refusal
from carrel.transports.http.threads import Failure

_TITLES: Final = {
    400: "Not understood",
    403: "Refused",
    404: "Not found",
    413: "Too large",
    503: "Busy",
    504: "Too slow",
}
_RULES: Final = {"scope": "a caller may read only what the scopes of their token cover"}
"""What the reason of a refusal means, where the refusal itself does not explain it."""
_KEPT: Final = (b"www-authenticate", b"retry-after")


def refusal_leaf(request: Request, error: Failure, uri: str, addresses: Addresses) -> Leaf:
    """Return the page of an error; a refusal has the same words as on every other face."""
    status, body = wire_errors.plain(error)
    rule = _rule(error)
    explain = address_about("explain", uri) if uri else ""
    found = error.data.get("nearest") if isinstance(error, RequestError) else None
    near = [str(one) for one in found] if isinstance(found, list) else []
    suggested = error.data.get("suggested") if isinstance(error, RequestError) else None
    if isinstance(suggested, str):
        near.append(suggested)
    message = body["error"] if isinstance(body["error"], str) else error.message
    crumbs = _crumbs(uri, addresses)
    view = {
        "uri": uri,
        "up": crumbs[-2][1] if len(crumbs) > 1 else "/",
        "rule": rule,
        "explain": explain,
        "message": message,
        "near": [(one, addresses.page(one)) for one in near],
        "crumbs": crumbs,
    }
    headers = tuple(one for one in plain_refusal(request, error).headers if one[0] in _KEPT)
    data = {**body, **({"uri": uri, "explain": explain} if uri else {}), **({"rule": rule} if rule else {})}
    title = _TITLES.get(status, "Something is wrong")
    return Leaf("refusal", title, data, "", "", view, status=status, headers=headers, model=uri)


def _crumbs(uri: str, addresses: Addresses) -> list[tuple[str, str]]:
    """Return the folders above a URI, one of which may be served; none for what is no URI, or has a strange form."""
    bare = split_query(uri)[0]
    return addresses.crumbs(bare) if "://" in bare and address_about("read", bare) != addresses.page(bare) else []


def _rule(error: Failure) -> str:
    if not isinstance(error, Denied):
        return ""
    said = _RULES.get(error.reason, error.explanation)
    return f"{said} ({error.reason})" if said != error.reason else error.reason


def stranger_leaf(refusal: Refusal) -> Leaf:
    """Return the page for a browser without access, or with a link that was used up."""
    view = {"message": refusal.problem, "crumbs": []}
    title = "This link is used up" if refusal.status == 410 else "No access"
    told = {"error": refusal.problem}
    return Leaf("stranger", title, told, "", "", view, status=refusal.status, headers=refusal.headers)
