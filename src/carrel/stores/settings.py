"""The section `[store]` of the configuration."""

from carrel.core.provider import Secret
from carrel.core.store_address import StoreAddress, parse_address


class StoreSettings:
    """Where the records of scopes, sage and logs are kept; without a URL, in the project and the user's folders."""

    def __init__(self, url: Secret | None = None) -> None:
        self.address: StoreAddress | None = parse_address(url) if url else None
