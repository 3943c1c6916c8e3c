"""The errors of a store that cannot be used. The driver is not needed here, so every command can know them."""

from carrel.core.errors import ProviderError


class StoreUnavailable(ProviderError):
    """The store cannot be used now. The message is for clients; `detail` names the server and is for the log."""

    def __init__(self, message: str, detail: str = "", *, word: str = "unavailable") -> None:
        super().__init__(message, word=word)
        self.detail = detail or message


class StoreBusy(StoreUnavailable):
    """Another writer held the lock for too long, or a statement took too long."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message, detail, word="busy")
