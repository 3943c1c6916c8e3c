"""Every error Carrel raises, arranged by who can act on it.

CarrelError
├── RequestError             the client asked for something we will not serve
│   ├── NotFound             nothing has that URI
│   ├── Denied               outside the root, or not on the allowlist
│   ├── BadArgument          a URI, a template variable or a parameter holds a value it cannot hold
│   │   ├── BadCursor        the cursor is not one this server gave out
│   │   └── InvalidArguments several of them do not fit their declaration (`core/arguments`)
│   └── TooLarge             it does not fit in one message; says which range would
├── ProtocolError            bytes, or calls, that break the protocol
├── ProviderError            a provider broke; the cause stays in our log
├── TemplateError            a provider's URI template cannot be matched; says where
├── ConfigError              the operator's file is wrong; says where
├── RemoteError              another server answered with an error
│   └── Unreachable          or cannot be asked: nobody is there, or HTTP itself refuses us
└── Disconnected             the other end of a connection is gone

The message of a RequestError or a ProviderError reaches the client as it is: one
sentence, no server path, no other error's text. Which wire error each becomes is
decided in `protocol/failures.py`, nowhere else.
"""

from collections.abc import Mapping
from typing import Final

ECHO_LENGTH: Final = 200


def echo(text: str) -> str:
    """Make a client's own text safe to repeat in a message: bounded, on one line, encodable."""
    cut = text if len(text) <= ECHO_LENGTH else text[:ECHO_LENGTH] + "…"
    if cut.isprintable():
        return cut
    return "".join(
        character
        if character.isprintable()
        else "\N{REPLACEMENT CHARACTER}"
        if "\ud800" <= character <= "\udfff"
        else f"\\x{ord(character):02x}"
        for character in cut
    )


class CarrelError(Exception):
    """Anything Carrel raises on purpose."""


class RequestError(CarrelError):
    """The client asked for something we will not serve.

    `word` names the kind for programs. `data` goes beside it to the client. `code`
    is set only where a system's own page fixes another wire code than the default.
    """

    word = "invalid"

    def __init__(
        self,
        message: str,
        *,
        uri: str | None = None,
        data: Mapping[str, object] | None = None,
        code: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.uri = uri
        self.data = dict(data or {})
        self.code = code


class NotFound(RequestError):
    """Nothing has that URI."""

    word = "not_found"

    def __init__(
        self,
        uri: str,
        message: str | None = None,
        *,
        data: Mapping[str, object] | None = None,
        code: int | None = None,
    ) -> None:
        super().__init__(message or f"Resource not found: {echo(uri)}", uri=uri, data=data, code=code)


class Denied(RequestError):
    """Outside the root, or refused by policy: the same whether or not the thing exists.

    `reason` is a word for programs, `told` says it to people.
    """

    word = "denied"

    def __init__(
        self,
        message: str,
        *,
        reason: str,
        told: str = "",
        uri: str | None = None,
        data: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message, uri=uri, data={"reason": reason, **(data or {})})
        self.reason = reason
        self.told = told or reason


class BadArgument(RequestError):
    """A URI, a template variable or a parameter holds a value it cannot hold."""


class UnknownScheme(BadArgument):
    """No provider serves the scheme of a URI."""

    def __init__(self, uri: str) -> None:
        super().__init__(f"Unknown scheme: {echo(uri)}", uri=uri, data={"name": "MCP_NOT_FOUND"})


class BadCursor(BadArgument):
    """The cursor is not one this server gave out."""

    def __init__(self, message: str = "invalid cursor") -> None:
        super().__init__(message, data={"parameter": "cursor"})


class TooLarge(RequestError):
    """It does not fit in one message; `suggested` is a URI that does."""

    word = "too_large"

    def __init__(
        self,
        message: str,
        *,
        size: int,
        limit: int,
        suggested: str | None = None,
        uri: str | None = None,
        data: Mapping[str, object] | None = None,
        code: int | None = None,
    ) -> None:
        advice = {} if suggested is None else {"suggested": suggested}
        super().__init__(message, uri=uri, data={"size": size, "limit": limit, **advice, **(data or {})}, code=code)
        self.size = size
        self.limit = limit
        self.suggested = suggested


class ProtocolError(CarrelError):
    """Bytes, or calls, that break the protocol. `code` is the JSON-RPC code.

    `request_id` is the id to repeat, as it was spelled; None when it could not be read.
    """

    def __init__(
        self,
        code: int,
        message: str,
        *,
        data: Mapping[str, object] | None = None,
        request_id: bytes | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = dict(data or {})
        self.request_id = request_id


class ProviderError(CarrelError):
    """A provider broke. The message is for the client; the cause stays in our log.

    `word` is one of `failed`, `unreadable`, `bad_result`, `timeout`, `busy`, `unavailable`, and
    `internal` for a fault nobody planned.
    """

    def __init__(
        self,
        message: str,
        *,
        word: str = "failed",
        uri: str | None = None,
        data: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.word = word
        self.uri = uri
        self.data = dict(data or {})


class TemplateError(CarrelError):
    """A provider's URI template cannot be matched; the message points into it."""


class ConfigError(CarrelError):
    """The operator's file, environment or command line is wrong; the message says where."""


class RemoteError(CarrelError):
    """Another server answered with an error; `word` is its `dev.carrel/error`, if it has one."""

    def __init__(self, code: int, message: str, data: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = dict(data or {})
        word = self.data.get("dev.carrel/error")
        self.word = word if isinstance(word, str) else None


class Unreachable(RemoteError):
    """Another server cannot be asked: nobody is there, or HTTP refuses us before the server itself is asked."""


class Disconnected(CarrelError):
    """The other end of a connection is gone."""
