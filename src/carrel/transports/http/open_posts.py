"""A POST that is open: which requests it is still to answer, and how it ends when they are cancelled or all ends."""

from contextlib import suppress

from carrel.core.errors import ProtocolError, ProviderError
from carrel.protocol import jsonrpc, wire_errors
from carrel.protocol.eras import Era
from carrel.protocol.jsonrpc import Key, Message
from carrel.server.server import Connection
from carrel.transports.http.sse import Outbox


class Waiting:
    """A POST that waits for its answer, or that is told things; `ids` are those of its requests still wanted."""

    def __init__(
        self, connection: Connection, outbox: Outbox, era: Era, ids: dict[Key, bytes], *, is_batch: bool = False
    ) -> None:
        self.connection = connection
        self.outbox = outbox
        self.era = era
        self._ids = ids
        self._is_batch = is_batch

    def cancel(self, key: Key | None) -> None:
        """Take it that a request is not wanted any more; where none is, end without an answer."""
        if key is not None and self._ids.pop(key, None) is not None and not self._ids:
            self.outbox.finish()

    def fail(self, problem: str) -> None:
        """Answer that there will be no result, unless there is an answer already."""
        error = ProviderError(problem, word="unavailable")
        told = b",".join([wire_errors.encode(error, self.era, request_id) for request_id in self._ids.values()])
        self.outbox.finish(b"[" + told + b"]" if self._is_batch else told)


def messages_in(batch: bytes) -> list[Message]:
    """Give the requests and notifications of a batch."""
    messages = []
    with suppress(ProtocolError):
        for line in jsonrpc.decode_batch(batch):
            with suppress(ProtocolError):
                message = jsonrpc.decode(line)
                if isinstance(message, Message):
                    messages.append(message)
    return messages
