"""Why a URI is served or refused, by the rules that a read obeys."""

from carrel.catalog.catalog import Catalog
from carrel.core.errors import BadArgument, CarrelError, ProviderError
from carrel.core.model import Reading, Text
from carrel.core.provider import Provider
from carrel.core.record import Value
from carrel.providers.workspace import Workspace


class Explanation(Value, frozen=True):
    """Sentences that say whether a URI is served and why; `provider` has its scheme."""

    uri: str
    provider: str
    reasons: tuple[str, ...]


def explain(catalog: Catalog, uri: str) -> Explanation:
    """Return why a URI is served or not; raise if no provider has it or the caller may not read it."""
    provider = catalog.find(uri).mounted.provider
    return Explanation(uri, provider.name, tuple(_reasons(catalog, provider, uri)))


def _reasons(catalog: Catalog, provider: Provider, uri: str) -> list[str]:
    if isinstance(provider, Workspace):
        return provider.explain(uri)
    if provider.name.startswith(f"{Workspace.name}@"):
        from carrel.providers.workspace.bucket_root import BucketRoot  # only where there is one

        if isinstance(provider, BucketRoot):
            return provider.explain(uri)
    return _tried(catalog, uri)


def failed(reading: Reading) -> BadArgument | ProviderError | None:
    """Return the error in a reading of a provider that returns errors as content; None if there is none."""
    if reading.error is None:
        return None
    message = " ".join(item.text for item in reading.items if isinstance(item, Text))
    return BadArgument(message) if reading.error == "invalid" else ProviderError(message, word=reading.error)


def _tried(catalog: Catalog, uri: str) -> list[str]:
    try:
        failure: CarrelError | None = failed(catalog.read(uri))
    except CarrelError as error:
        failure = error
    return ["Served." if failure is None else f"Not served: {failure}"]
