"""Every error Carrel raises, arranged by who can act on it.

CarrelError
├── RequestError             the client asked for something we will not serve
│   ├── NotFound             nothing has that URI
│   ├── Denied               outside the root, or not on the allowlist
│   ├── BadArgument          a URI, a template variable or a parameter has an invalid value
│   │   ├── UnknownScheme    no provider serves the scheme of the URI
│   │   ├── BadCursor        this server did not create the cursor
│   │   └── InvalidArguments arguments do not fit their declaration (`core/arguments`)
│   ├── Conflict             it was changed by another caller, or belongs to one
│   └── TooLarge             it does not fit in one message; names a range that does
├── ProtocolError            bytes or calls that break the protocol
├── ProviderError            a provider failed; the cause stays in the log
├── TemplateError            a provider's URI template is not usable; says where
├── ConfigError              the operator's file, environment or command line is wrong; says where
├── RemoteError              another server answered with an error
│   └── Unreachable          another server does not answer, or HTTP refuses the request
└── Disconnected             the other end of a connection is gone

The message of a RequestError or a ProviderError is sent to the client unchanged: one sentence, no server path, no
text of another error. Only `protocol/wire_errors.py` decides which wire error each becomes.
"""

from collections.abc import Mapping
from typing import Final

ECHO_LENGTH: Final = 200


def echo(text: str) -> str:
    """Return a client's text in a form that is safe to repeat in a message: short, on one line, encodable."""
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
    """An error that Carrel raises on purpose. `data` is for the client, beside the message."""

    def __init__(self, message: str, *, uri: str | None = None, data: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.uri = uri
        self.data = dict(data or {})


class RequestError(CarrelError):
    """The client asked for something we will not serve.

    `word` names the kind for programs. `code` is set only where a system's documents require a wire code other than
    the default.
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
        super().__init__(message, uri=uri, data=data)
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

    `reason` is a word for programs, `explanation` is the reason for people.
    """

    word = "denied"

    def __init__(
        self,
        message: str,
        *,
        reason: str,
        explanation: str = "",
        uri: str | None = None,
        data: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message, uri=uri, data={"reason": reason, **(data or {})})
        self.reason = reason
        self.explanation = explanation or reason


class BadArgument(RequestError):
    """A URI, a template variable or a parameter has an invalid value."""


class UnknownScheme(BadArgument):
    """No provider serves the scheme of a URI."""

    def __init__(self, uri: str, advice: str = "") -> None:
        message = f"Unknown scheme: {echo(uri)}{f'; {advice}' if advice else ''}"
        super().__init__(message, uri=uri, data={"name": "MCP_NOT_FOUND"})


class BadCursor(BadArgument):
    """This server did not create the cursor."""

    def __init__(self) -> None:
        super().__init__("invalid cursor", data={"parameter": "cursor"})


class Conflict(RequestError):
    """It was changed by another caller meanwhile, or belongs to one."""

    word = "conflict"


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
    """Bytes or calls that break the protocol. `code` is the JSON-RPC code.

    `request_id` is the id to repeat, as it was spelled; None if it could not be read.
    """

    def __init__(
        self,
        code: int,
        message: str,
        *,
        data: Mapping[str, object] | None = None,
        request_id: bytes | None = None,
    ) -> None:
        super().__init__(message, data=data)
        self.code = code
        self.request_id = request_id


class ProviderError(CarrelError):
    """A provider failed. The message is for the client; the cause stays in the log.

    `word` is one of `failed`, `unreadable`, `bad_result`, `timeout`, `busy`, `unavailable`, or `internal` for an
    unexpected exception.
    """

    def __init__(
        self,
        message: str,
        *,
        word: str = "failed",
        uri: str | None = None,
        data: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message, uri=uri, data=data)
        self.word = word


class TemplateError(CarrelError):
    """A provider's URI template is not usable; the message points at the place in it."""


class ConfigError(CarrelError):
    """The operator's file, environment or command line is wrong; the message says where."""


class RemoteError(CarrelError):
    """Another server answered with an error; `word` is its `dev.carrel/error`, if it has one."""

    def __init__(self, code: int, message: str, data: Mapping[str, object] | None = None) -> None:
        super().__init__(message, data=data)
        self.code = code
        word = self.data.get("dev.carrel/error")
        self.word = word if isinstance(word, str) else None


class Unreachable(RemoteError):
    """Another server does not answer, or HTTP refuses the request before the server sees it."""


class Disconnected(CarrelError):
    """The other end of a connection is gone."""
