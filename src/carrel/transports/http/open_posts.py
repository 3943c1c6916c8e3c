"""A POST to `/mcp` whose answer takes time."""

from contextlib import suppress

from carrel.core.errors import ProtocolError, ProviderError
from carrel.core.record import Value
from carrel.protocol import jsonrpc, wire_errors
from carrel.protocol.eras import Era
from carrel.protocol.jsonrpc import Key, Message
from carrel.server.connection import Connection
from carrel.server.requests import Work
from carrel.transports.http.sessions import LegacySession
from carrel.transports.http.sse import Outbox


class OpenPost(Value, frozen=True, eq=False):
    """A POST that waits for its answer, or streams notifications.

    `ids` are those of its requests that are still wanted. `work` gives the answer; without one, or for one that
    `may_go_on`, the answer comes when the connection is closed. `opens` is the session that a successful answer opens.
    """

    connection: Connection
    outbox: Outbox
    era: Era
    ids: dict[Key, bytes]
    work: Work | None = None
    may_go_on: bool = False
    is_batch: bool = False
    opens: LegacySession | None = None

    def cancel(self, key: Key | None) -> None:
        """Note that a request was cancelled; once all are, end without an answer."""
        if key is not None and self.ids.pop(key, None) is not None and not self.ids:
            self.outbox.finish()

    def fail(self, problem: str) -> None:
        """Answer with an error, unless there is an answer already."""
        error = ProviderError(problem, word="unavailable")
        failures = b",".join([wire_errors.encode(error, self.era, request_id) for request_id in self.ids.values()])
        self.outbox.finish(b"[" + failures + b"]" if self.is_batch else failures)

    def take(self, answer: bytes | None) -> None:
        """Take the outcome of the work."""
        if answer is not None or not self.may_go_on:
            self.outbox.finish(answer)


def messages_in(batch: bytes) -> list[Message]:
    """Return the requests and notifications of a batch."""
    messages = []
    with suppress(ProtocolError):
        for line in jsonrpc.decode_batch(batch):
            with suppress(ProtocolError):
                message = jsonrpc.decode(line)
                if isinstance(message, Message):
                    messages.append(message)
    return messages
