"""The sections `[store]` and `[bus]` of the configuration."""

from carrel.core.bus_address import SUBJECT, BusAddress, parse_bus
from carrel.core.provider import Secret
from carrel.core.store_address import StoreAddress, parse_address


class StoreSettings:
    """Where the records of scopes, sage and logs are kept; without a URL, in the project and the user's folders."""

    def __init__(self, url: Secret | None = None) -> None:
        self.address: StoreAddress | None = parse_address(url) if url else None


class BusSettings:
    """Where servers of one store signal changes to each other; without a URL, through the store."""

    def __init__(self, url: Secret | None = None, subject: str = SUBJECT) -> None:
        self.address: BusAddress | None = parse_bus(url, subject) if url else None
