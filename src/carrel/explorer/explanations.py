"""The page that says why a URI is served or refused: by which rule, and where the rule comes from."""

from carrel.app.explanation import explain
from carrel.catalog.catalog import Catalog
from carrel.catalog.suggestions import as_uri, nearest
from carrel.core.errors import CarrelError, NotFound, RequestError
from carrel.explorer.addresses import Addresses, address_about
from carrel.explorer.leaves import Leaf


def leaf(catalog: Catalog, addresses: Addresses, asked_for: str) -> Leaf:
    """Return why a URI, or a path of a file, is served or not; without one, only the form."""
    uri = as_uri(asked_for.strip()) if asked_for.strip() else ""
    if not uri:
        data: dict[str, object] = {"uri": None, "reasons": []}
        return Leaf("explain", "Explain", data, "/-/explain.json", "/-/explain.md", {"uri": "", "crumbs": []})
    provider, reasons = "", []
    try:
        explained = explain(catalog, uri)
        provider, reasons = explained.provider, list(explained.reasons)
    except RequestError as error:
        reasons = [f"Not served: {error.message}."]
    is_served = any(one.startswith("Served") for one in reasons)
    near = [] if is_served else _near(catalog, uri)
    data = {"uri": uri, "provider": provider, "served": is_served, "reasons": reasons, "nearest": near}
    view = {
        "uri": uri,
        "address": addresses.page(uri) if is_served else "",
        "near": [(one, addresses.page(one)) for one in near],
        "crumbs": [],
    }
    json, md = (address_about("explain", uri, twin) for twin in (".json", ".md"))
    return Leaf("explain", "Why it is served" if is_served else "Why it is not served", data, json, md, view, model=uri)


def _near(catalog: Catalog, uri: str) -> list[str]:
    """Return similar URIs for a URI that does not exist."""
    try:
        catalog.read(uri, condition="*")
    except NotFound:
        return nearest(catalog, uri)
    except CarrelError:
        pass
    return []
