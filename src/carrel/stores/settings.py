"""The sections `[store]` and `[bus]` of the configuration."""

from typing import Final

from carrel.core.bus_address import SUBJECT, BusAddress, parse_bus
from carrel.core.errors import ConfigError
from carrel.core.provider import Secret
from carrel.core.store_address import StoreAddress, parse_address

AUDIT_DAYS: Final = 90
"""How long a row of the audit record is kept, unless it is configured."""


class StoreSettings:
    """Where the records of scopes, sage and logs are kept; without a URL, in the project and the user's folders."""

    def __init__(self, url: Secret | None = None, audit_days: int = AUDIT_DAYS) -> None:
        if not 1 <= audit_days <= 36_500:
            raise ConfigError(f"audit_days: expected a whole number from 1 to 36500, got {audit_days}")
        self.address: StoreAddress | None = parse_address(url) if url else None
        self.audit_days = audit_days


class BusSettings:
    """Where servers of one store signal changes to each other; without a URL, through the store."""

    def __init__(self, url: Secret | None = None, subject: str = SUBJECT) -> None:
        self.address: BusAddress | None = parse_bus(url, subject) if url else None
