"""The parameters of each method, checked and typed.

`parse` returns a `ParsedCall`, or raises the first error in the order of the specification: `_meta`, version, method,
parameters. Extra parameters are ignored.
"""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, DecodeError, Raw, Struct, UnsetType, ValidationError

from carrel.core.errors import ProtocolError, echo
from carrel.core.limits import MAX_SUBSCRIBED_URIS, MAX_URI_LENGTH
from carrel.protocol import eras, headers
from carrel.protocol.eras import Era
from carrel.protocol.headers import Headers
from carrel.protocol.jsonrpc import ABSENT, INVALID_PARAMS, METHOD_NOT_FOUND, PARSE_ERROR, Key, Message

Count = Annotated[int, msgspec.Meta(ge=0)]
Served = dict[Era, frozenset[str]]


class Meta(
    Struct,
    gc=False,
    rename={
        "version": eras.VERSION_KEY,
        "capabilities": eras.CAPABILITIES_KEY,
        "log_level": eras.LOG_LEVEL_KEY,
        "progress_token": "progressToken",
        "condition": eras.CONDITION_KEY,
        "prefix": eras.PREFIX_KEY,
        "client_info": eras.CLIENT_INFO_KEY,
    },
):
    """The `_meta` of a request."""

    version: str | UnsetType = UNSET
    capabilities: dict[str, object] | UnsetType = UNSET
    log_level: str | UnsetType = UNSET
    progress_token: Key | None = None
    condition: str = ""
    """Empty if there is none; `null` is refused."""
    prefix: str | None = None
    client_info: Raw = ABSENT
    """Decoded only by `client_name`."""


class Params(Struct, gc=False, rename="camel"):
    """The parameters that every method has."""

    meta: Meta = msgspec.field(default_factory=Meta, name="_meta")


class ListParams(Params, gc=False):
    """`resources/list`, `resources/templates/list`, `tools/list`."""

    cursor: str | None = None


class ListResources(ListParams, gc=False):
    """`resources/list`; all parameters but `cursor` come from the Fly documents."""

    directory: str | None = None
    page: Count | None = None
    page_size: Count | None = None
    uri: str | None = None

    @property
    def is_fly(self) -> bool:
        """Whether the result must have the fields of the Fly documents."""
        return any(given is not None for given in (self.directory, self.page, self.page_size, self.uri))


class Read(Params, gc=False, kw_only=True):
    """`resources/read`; `start` and `length` are extensions of Carrel."""

    uri: str
    start: Count | None = None
    length: Count | None = None


class ReadDirectory(ListParams, gc=False, kw_only=True):
    """`resources/directory/read`."""

    uri: str


class OneUri(Params, gc=False, kw_only=True):
    """`skills/get`, `resources/subscribe`, `resources/unsubscribe`."""

    uri: str


class Reference(Struct, gc=False):
    """The template of a completion."""

    type: str
    uri: str = ""


class Argument(Struct, gc=False):
    """The variable to complete and its beginning."""

    name: str
    value: str


class Context(Struct, gc=False):
    """Variables already chosen."""

    arguments: dict[str, str] = {}


class Complete(Params, gc=False, kw_only=True):
    """`completion/complete`."""

    ref: Reference
    argument: Argument
    context: Context = msgspec.field(default_factory=Context)


class Filter(Struct, gc=False, rename="camel"):
    """The changes that a subscription asks for."""

    tools_list_changed: bool = False
    resources_list_changed: bool = False
    resource_subscriptions: Annotated[list[str], msgspec.Meta(max_length=MAX_SUBSCRIBED_URIS)] = []


class Listen(Params, gc=False, kw_only=True):
    """`subscriptions/listen`."""

    notifications: Filter


class Initialize(Params, gc=False, kw_only=True):
    """`initialize`."""

    protocol_version: str
    client_info: Raw = ABSENT


class CallTool(Params, gc=False, kw_only=True):
    """`tools/call`."""

    name: str
    arguments: dict[str, object] = {}


class CancelledParams(Params, gc=False, kw_only=True):
    """`notifications/cancelled`."""

    request_id: Key


class _Client(Struct, gc=False):
    name: str = ""


class _ReadRequest(Struct, gc=False):
    jsonrpc: Literal["2.0"]
    method: Literal["resources/read"]
    id: Raw
    params: Read


class ParsedCall(Struct, gc=False):
    """A request with a known method and checked parameters."""

    id: bytes
    key: Key
    method: str
    era: Era
    params: Any


_DECODERS: Final = {
    method: msgspec.json.Decoder(kind).decode
    for method, kind in {
        "initialize": Initialize,
        "ping": Params,
        "server/discover": Params,
        "resources/list": ListResources,
        "resources/templates/list": ListParams,
        "resources/read": Read,
        "resources/directory/read": ReadDirectory,
        "skills/list": ListParams,
        "skills/get": OneUri,
        "resources/subscribe": OneUri,
        "resources/unsubscribe": OneUri,
        "completion/complete": Complete,
        "subscriptions/listen": Listen,
        "tools/list": ListParams,
        "tools/call": CallTool,
    }.items()
}
_decode_read: Final = msgspec.json.Decoder(_ReadRequest).decode
_decode_cancelled: Final = msgspec.json.Decoder(CancelledParams).decode
_decode_client: Final = msgspec.json.Decoder(_Client).decode
_decode_any: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode
_NUMBER: Final = "expected a whole number, 0 or more"
_EXPECTED: Final = {
    "start": _NUMBER,
    "length": _NUMBER,
    "page": _NUMBER,
    "pageSize": _NUMBER,
    "directory": "expected a text",
}
_NO_PARAMS: Final = b"{}"
_READ: Final = b'"resources/read"'


def parse_read(line: bytes, http_headers: Headers | None = None) -> ParsedCall | None:
    """Return the call of a valid read request, decoded in one step; None for any other message.

    Most requests are reads. The general way, `jsonrpc.decode` and `parse`, takes twice as long.
    """
    if _READ not in line or not line.isascii():
        return None
    try:
        request = _decode_read(line)
        spelled = bytes(request.id)
        key: Key = int(spelled) if spelled[:1] != b'"' else str(_decode_any(spelled))
    except (DecodeError, RecursionError, ValueError):
        return None
    meta = request.params.meta
    if meta.version is UNSET:
        if http_headers is not None and http_headers.is_modern:
            return None
        return ParsedCall(spelled, key, "resources/read", Era.LEGACY, request.params)
    if meta.version not in eras.VERSIONS.modern or meta.capabilities is UNSET or meta.log_level is not UNSET:
        return None
    if http_headers is not None and http_headers != Headers(meta.version, "resources/read", request.params.uri):
        return None
    return ParsedCall(spelled, key, "resources/read", Era.MODERN, request.params)


def parse(message: Message, served: Served, http_headers: Headers | None = None) -> ParsedCall:
    """Return the call of a request, or raise its first error. The HTTP headers must agree with it."""
    decode = _DECODERS.get(message.method)
    params = None
    problem = ""
    if decode is not None:
        try:
            params = decode(_NO_PARAMS if message.params is ABSENT else message.params)
        except ValidationError as error:
            problem = str(error)
        except (DecodeError, RecursionError):
            raise ProtocolError(PARSE_ERROR, "Parse error: not valid JSON", request_id=message.id) from None
    if params is None:
        raise _diagnose(message, served, problem, http_headers)
    era = _era(message.method, params.meta.version is not UNSET, http_headers)
    if era is Era.MODERN:
        _check_modern(params.meta, message.method, params, http_headers)
    if message.method not in served[era]:
        raise _unknown_method(message.method)
    if params.meta.log_level is not UNSET and era is Era.MODERN and params.meta.log_level not in eras.LOG_LEVELS:
        raise _invalid(eras.LOG_LEVEL_KEY)
    assert message.id is not None
    assert message.key is not None
    return ParsedCall(message.id, message.key, message.method, era, params)


def client_name(info: Raw) -> str:
    """Return the name in a `clientInfo`; empty if there is none."""
    if info is ABSENT:
        return ""
    try:
        return _decode_client(info).name
    except (DecodeError, RecursionError):
        return ""


def cancelled_key(message: Message) -> Key | None:
    """Return the id of the request that a `notifications/cancelled` names; None if it names none."""
    try:
        return _decode_cancelled(_NO_PARAMS if message.params is ABSENT else message.params).request_id
    except (DecodeError, RecursionError):
        return None


def era_of(message: Message, http_headers: Headers | None = None) -> Era:
    """Return the era of a message, even if the message is invalid."""
    return _era(message.method, eras.VERSION_KEY in eras.meta_of(_params_of(message)), http_headers)


def _era(method: str, has_version: bool, http_headers: Headers | None = None) -> Era:
    """Return the era of a message; over HTTP, the version header counts too, even for `initialize`."""
    if http_headers is None and method in eras.ALWAYS_LEGACY:
        return Era.LEGACY
    is_modern = has_version or method in eras.ALWAYS_MODERN or (http_headers is not None and http_headers.is_modern)
    return Era.MODERN if is_modern else Era.LEGACY


def _check_modern(meta: Meta, method: str, params: object, http_headers: Headers | None) -> None:
    if meta.version is UNSET:
        raise _missing_meta(eras.VERSION_KEY)
    if meta.capabilities is UNSET:
        raise _missing_meta(eras.CAPABILITIES_KEY)
    if http_headers is not None:
        headers.check(http_headers, method, meta.version, params)
    if meta.version not in eras.VERSIONS.modern:
        raise _unsupported_version(str(meta.version))


def _diagnose(message: Message, served: Served, problem: str, http_headers: Headers | None) -> ProtocolError:
    """Return the first error of a request that does not decode, in the order of the specification."""
    given = _params_of(message)
    meta = eras.meta_of(given)
    era = _era(message.method, eras.VERSION_KEY in meta, http_headers)
    if era is Era.MODERN:
        version, capabilities = meta.get(eras.VERSION_KEY), meta.get(eras.CAPABILITIES_KEY)
        well_typed = Meta(
            version=version if isinstance(version, str) else UNSET,
            capabilities=capabilities if isinstance(capabilities, dict) else UNSET,
        )
        try:
            _check_modern(well_typed, message.method, given, http_headers)
        except ProtocolError as error:
            return error
    if message.method not in served[era]:
        return _unknown_method(message.method)
    return _invalid(_parameter_of(problem), given)


def _params_of(message: Message) -> dict[str, object]:
    if message.params is ABSENT:
        return {}
    try:
        params = _decode_any(message.params)
    except (DecodeError, RecursionError):
        return {}
    return params if isinstance(params, dict) else {}


def _parameter_of(problem: str) -> str:
    """Return the name of the parameter in an error message of msgspec."""
    if "missing required field `" in problem:
        return problem.split("`")[1]
    if "- at `$." in problem:
        return problem.rpartition("- at `$.")[2].rstrip("`").removeprefix("_meta.")
    return "params"


def _missing_meta(key: str) -> ProtocolError:
    return ProtocolError(INVALID_PARAMS, f"Missing or malformed in params._meta: {key}", data={"parameter": key})


def _invalid(parameter: str, given: dict[str, object] | None = None) -> ProtocolError:
    params = given or {}
    uri = params.get("uri")
    requested = {"uri": uri} if isinstance(uri, str) and len(uri) <= MAX_URI_LENGTH else {}
    message = f"Invalid parameter: {echo(parameter)}"
    if parameter in _EXPECTED and parameter in params:
        message += f"={echo(_encode(params[parameter]).decode())} ({_EXPECTED[parameter]})"
    plain = {"error": message, "status": 400} if parameter == eras.CONDITION_KEY else {}
    data = {"name": "MCP_INVALID_PARAMS", "parameter": parameter, **requested, **plain}
    return ProtocolError(INVALID_PARAMS, message, data=data)


def _unsupported_version(requested: str) -> ProtocolError:
    return ProtocolError(
        eras.UNSUPPORTED_VERSION,
        "Unsupported protocol version",
        data={"supported": list(eras.VERSIONS.modern), "requested": echo(requested)},
    )


def _unknown_method(method: str) -> ProtocolError:
    return ProtocolError(METHOD_NOT_FOUND, f"Method not found: {echo(method)}")
