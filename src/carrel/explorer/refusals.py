"""Pages for what is refused: why, by which rule, and what to do next."""

from typing import Final

from carrel.core.errors import Denied, RequestError
from carrel.explorer.addresses import Addresses, asked
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
_KEPT: Final = (b"www-authenticate", b"retry-after")


def refusal_leaf(request: Request, error: Failure, uri: str, addresses: Addresses) -> Leaf:
    """Return the page of an error; what a caller may not read is worded as for every other face."""
    status, body = wire_errors.plain(error)
    rule = _rule(error)
    explain = asked("explain", uri) if uri else ""
    found = error.data.get("nearest") if isinstance(error, RequestError) else None
    near = [str(one) for one in found] if isinstance(found, list) else []
    suggested = error.data.get("suggested") if isinstance(error, RequestError) else None
    if isinstance(suggested, str):
        near.append(suggested)
    message = body["error"] if isinstance(body["error"], str) else error.message
    view = {
        "uri": uri,
        "rule": rule,
        "explain": explain,
        "message": message,
        "near": [(one, addresses.page(one)) for one in near],
        "crumbs": [],
    }
    headers = tuple(one for one in plain_refusal(request, error).headers if one[0] in _KEPT)
    data = {**body, **({"uri": uri, "explain": explain} if uri else {}), **({"rule": rule} if rule else {})}
    title = _TITLES.get(status, "Something is wrong")
    return Leaf("refusal", title, data, "", "", view, status=status, headers=headers, model=uri)


def _rule(error: Failure) -> str:
    if not isinstance(error, Denied):
        return ""
    return f"{error.explanation} ({error.reason})" if error.explanation != error.reason else error.reason


def stranger_leaf(refusal: Refusal) -> Leaf:
    """Return the page for a browser that is not let in yet."""
    view = {"message": refusal.problem, "crumbs": []}
    return Leaf("stranger", "Not let in", {"error": refusal.problem}, "", "", view, status=401, headers=refusal.headers)
